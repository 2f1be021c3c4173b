/*
 * main.c - the cutin-lab command: what is not needed to serve.
 */
#include "lab.h"

static const struct program program = {
    .name = "cutin-lab",
    .purpose = "Benchmarks of cutin, recordings of programs, and predictions from them.",
    .more = "cutin(1) has the commands for serving.",
    .groups = {{"Measure and report",
                {&subcommand_disb, &subcommand_overhead, &subcommand_ablation, &subcommand_preset,
                 &subcommand_histogram, &subcommand_plot, &subcommand_report}},
               {"Record, replay and predict",
                {&subcommand_record, &subcommand_replay, &subcommand_whatif, &subcommand_distance}},
               {"Other", {&subcommand_version, &subcommand_help}}},
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
