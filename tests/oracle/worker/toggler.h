/*
 * toggler.h - a real-time client that is active at random moments.
 */
#ifndef ORACLE_TOGGLER_H
#define ORACLE_TOGGLER_H

/* `--toggler SOCKET SEED`: runs until it is killed. */
int toggler_main(int argc, char **argv);

#endif
