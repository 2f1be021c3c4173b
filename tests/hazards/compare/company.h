/*
 * company.h - what else is there while a hazard runs: a daemon, services, clients that come and go.
 */
#ifndef TESTS_HAZARDS_COMPARE_COMPANY_H
#define TESTS_HAZARDS_COMPARE_COMPANY_H

enum company {
    ALONE,
    DAEMON, /* and nobody else */
    SERVED, /* a service at times */
    PULSED, /* often */
    HELD,   /* for most of the time */
    CROWD,  /* clients come and go, of both levels */
    KILLED, /* the daemon comes and goes, beside a service */
    LOST,   /* it goes, beside a service */
};

/* Where the daemon is; a file in `folder`, which has to last. */
void company_place(const char *folder);
const char *company_socket(void);
void company_begin(enum company company);
/* False, and a message: somebody did not stay till the end. */
int company_end(enum company company);

/* What goes in front of a program that the calling process becomes. */
void company_preload(const char *cutin);

#endif
