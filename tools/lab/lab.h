/*
 * lab.h - the subcommands of cutin-lab.
 */
#ifndef CUTIN_TOOLS_LAB_LAB_H
#define CUTIN_TOOLS_LAB_LAB_H

#include "tools/cutin/subcommand.h"

extern const struct subcommand subcommand_disb, subcommand_overhead, subcommand_ablation,
    subcommand_report, subcommand_record, subcommand_replay, subcommand_whatif;

/* kinds.c: which kind of result an object is, by its keys. NULL: none of ours that can be drawn. */
struct json_t;
const struct result_kind *result_kind_of(const struct json_t *root);

#endif
