/*
 * company.h - the processes beside a hazard: a daemon, services, clients that come and go.
 */
#ifndef TESTS_HAZARDS_COMPARE_COMPANY_H
#define TESTS_HAZARDS_COMPARE_COMPANY_H

enum company {
    ALONE,
    DAEMON, /* nothing else */
    SERVED, /* with a service that is busy at times */
    PULSED, /* with one that is busy often */
    HELD,   /* with one that is busy most of the time */
    CROWD,  /* clients come and go, of both levels */
    KILLED, /* the daemon comes and goes, beside a service */
    LOST,   /* the daemon is killed, beside a service */
};

/* Puts the daemon's socket into `folder`, which must stay valid. */
void company_place(const char *folder);
const char *company_socket(void);
void company_begin(enum company company);
/* Returns 0 after a message if one of the processes has ended before. */
int company_end(enum company company);

/* Sets LD_PRELOAD in a process that is about to execute a program. */
void company_preload(const char *cutin);

#endif
