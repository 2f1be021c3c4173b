/*
 * lab.h - the subcommands of cutin-lab.
 */
#ifndef CUTIN_TOOLS_LAB_LAB_H
#define CUTIN_TOOLS_LAB_LAB_H

#include "tools/cutin/subcommand.h"

extern const struct subcommand subcommand_disb, subcommand_overhead, subcommand_ablation,
    subcommand_preset, subcommand_histogram, subcommand_plot, subcommand_report, subcommand_record,
    subcommand_replay, subcommand_whatif, subcommand_distance;

#endif
