/*
 * preload.h - programs that no library can be preloaded into: nothing of theirs is scheduled.
 */
#ifndef CUTIN_TOOLS_CUTIN_PRELOAD_H
#define CUTIN_TOOLS_CUTIN_PRELOAD_H

struct subcommand;

/* One line on stderr where `program`, looked up as execvp does, is such a one, or a script for such
 * a one. Nothing where it cannot be run or read. */
void preload_check(const struct subcommand *cmd, const char *program);

#endif
