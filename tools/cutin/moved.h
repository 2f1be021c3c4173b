/*
 * moved.h - commands of 0.1 that cutin-lab has now. The old names work in 0.2, and go with it.
 */
#ifndef CUTIN_TOOLS_CUTIN_MOVED_H
#define CUTIN_TOOLS_CUTIN_MOVED_H

/* Becomes cutin-lab where the words name such a command, after a line on stderr that names the new
 * one; exits with 2 where cutin-lab is not installed. Else does nothing. */
void moved_forward(int argc, char **argv);

#endif
