/*
 * main.c - the cutin command: what is needed to serve.
 */
#include "subcommand.h"

static const struct program program = {
    .name = "cutin",
    .purpose = "Real-time GPU work cuts in on best-effort work.",
    .more = "cutin(7) explains how it works.\n"
            "Benchmarks, recordings and predictions are commands of cutin-lab(1).",
    .groups = {{"Run and watch", {&subcommand_run, &subcommand_list, &subcommand_top}},
               {"Control running processes",
                {&subcommand_set, &subcommand_pause, &subcommand_resume, &subcommand_reset,
                 &subcommand_policy}},
               {"Check and measure",
                {&subcommand_doctor, &subcommand_latency, &subcommand_trace, &subcommand_profile}},
               {"Other", {&subcommand_cdi, &subcommand_version, &subcommand_help}}},
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
