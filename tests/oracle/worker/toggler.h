/*
 * toggler.h - a real-time client that comes, is active at random moments, and leaves.
 */
#ifndef ORACLE_TOGGLER_H
#define ORACLE_TOGGLER_H

/* `--toggler SOCKET SEED`: runs until it is killed. */
int toggler_main(int argc, char **argv);

#endif
