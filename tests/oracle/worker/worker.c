/*
 * worker.c - the oracle's helper processes: the one that executes programs, and the one whose
 * real-time activity holds them. They alone are linked with the driver.
 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "toggler.h"

static int programs_main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    int fd = atoi(argv[2]);
    uint64_t seed = strtoull(argv[3], NULL, 10), mask = strtoull(argv[6], NULL, 10);
    unsigned step = (unsigned)atoi(argv[4]), count = (unsigned)atoi(argv[5]);
    static struct program p;
    struct outcome *out =
        mmap(NULL, count * sizeof(*out), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (out == MAP_FAILED || run_open())
        return 1;
    for (unsigned i = 0; i < count; i++) {
        program_draw(&p, seed + (uint64_t)step * i);
        program_lower(&p, mask);
        run_program(&p, &out[i]);
    }
    run_close();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--worker"))
        return programs_main(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "--toggler"))
        return toggler_main(argc, argv);
    fprintf(stderr, "oracle-worker: started by cutin-oracle, never by hand\n");
    return 2;
}
