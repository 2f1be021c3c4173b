/*
 * probes.c - libcutin.so has the probes of the table, and the manual page lists them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/probe.h"

static const struct {
    const char *name;
    int arguments;
} probes[] = {
#define X(name, arguments, help) {#name, arguments},
    PROBES(X)
#undef X
};
enum { COUNT = sizeof(probes) / sizeof(probes[0]) };

/* "8@%rdi -4@8(%rsp)": one per word; none of ours has a blank in it. */
static int count_arguments(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '@';
    return n;
}

/* Places where each probe stands in the library. */
static void read_notes(int found[COUNT])
{
    FILE *in = popen("readelf -n " LIB_DIR "/libcutin.so", "r");
    char line[512], name[64];
    int provider = 0, probe = -1;

    cr_assert_not_null(in);
    while (fgets(line, sizeof(line), in)) {
        char *arguments = strstr(line, "Arguments:");

        if (strstr(line, "Provider:"))
            provider = strstr(line, "Provider: cutin\n") != NULL;
        if (sscanf(line, " Name: %63s", name) == 1) {
            probe = -1;
            for (int i = 0; provider && i < COUNT; i++)
                if (strcmp(probes[i].name, name) == 0)
                    probe = i;
            cr_expect(!provider || probe >= 0, "%s is not in the table", name);
        }
        if (arguments && probe >= 0) {
            found[probe]++;
            cr_expect_eq(count_arguments(arguments), probes[probe].arguments, "%s: %s",
                         probes[probe].name, arguments);
        }
    }
    pclose(in);
}

Test(probes, stand_in_the_library_with_their_arguments)
{
    int found[COUNT] = {0};

    if (!CUTIN_PROBES)
        cr_skip_test("built without <sys/sdt.h> (systemtap-sdt-dev)");
    if (system("command -v readelf >/dev/null") != 0)
        cr_skip_test("there is no readelf (binutils)");
    read_notes(found);
    for (int i = 0; i < COUNT; i++)
        cr_expect_gt(found[i], 0, "no probe %s", probes[i].name);
}

Test(probes, stand_in_the_manual_page)
{
    FILE *in = fopen(SOURCE_DIR "/docs/man/cutin.7", "r");
    static char page[1 << 16];
    char row[64];

    cr_assert_not_null(in);
    page[fread(page, 1, sizeof(page) - 1, in)] = '\0';
    fclose(in);
    for (int i = 0; i < COUNT; i++) {
        snprintf(row, sizeof(row), "\n.It Cm %s Ar ", probes[i].name);
        cr_expect_not_null(strstr(page, row), "cutin(7) does not list %s", probes[i].name);
    }
}
