/*
 * documented.c - the daemon starts with each configuration that the documents show.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scheduler/place.h"
#include "scheduler/policy/rule.h"
#include "scheduler/wire/query.h"

static const struct {
    const char *file;
    int configurations;
} documents[] = {
    {"clusters.md", 1},
    {"install.md", 1},
    {"kubernetes/cutind.yaml", 1},
    {"man/cutin-slurm.7", 1},
    {"man/cutind.conf.5", 1},
    {"../scheduler/daemon/cutind.conf.sample", 7},
};

/* Replaces names that only the site has; leaves out cgroups if the daemon cannot tell them. */
static const char *line_here(const char *line)
{
    static char here[512];
    char why[256];
    size_t n = 0;

    if ((strstr(line, "cgroup:") && cgroups_check(why, sizeof(why)) != 0) ||
        strncmp(line, "group =", 7) == 0)
        return "\n";
    for (const char *at = line; *at && n + 16 < sizeof(here);) {
        bool group = strncmp(at, "group:", 6) == 0;

        if (group && at > line && at[-1] == 'c') /* cgroup: */
            group = false;
        if (!group && strncmp(at, "user:", 5) != 0) {
            here[n++] = *at++;
            continue;
        }
        n += (size_t)sprintf(here + n, group ? "gid:64999" : "uid:64998");
        at += strcspn(at, ", \n");
    }
    here[n] = '\0';
    return here;
}

static void expect_starts(const char *file, const char *text)
{
    struct message_row *rows;
    struct place place;
    size_t n;

    place_new(&place);
    place_configure(&place, text);
    place_start(&place);
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0, "%s:\n%s", file, text);
    free(rows);
    cr_assert_eq(place_stop(&place), 0);
    place.daemon = 0;
    cr_assert(place_free(&place));
}

/* Starts a daemon with each configuration: from a section's line to the end of the block, or to an
 * empty line. In the sample, settings follow a #, and text follows a # and a space. */
static int start_each(const char *file)
{
    char path[512], line[512], text[4096] = "";
    int n = 0;
    FILE *in;

    snprintf(path, sizeof(path), SOURCE_DIR "/docs/%s", file);
    cr_assert_not_null(in = fopen(path, "r"), "%s", path);
    for (bool more = true; more;) {
        const char *at = (more = fgets(line, sizeof(line), in)) ? line : "\n";

        at += strspn(at, " ");
        at += at[0] == '#' && at[1] != ' ';
        bool section = *at == '[' && strcspn(at, "]") + 2 == strlen(at), end = strchr("`-.\n", *at);

        if ((!text[0] && !section) || (text[0] && !end))
            strncat(text, text[0] ? line_here(at) : "", sizeof(text) - strlen(text) - 1);
        else if (section)
            snprintf(text, sizeof(text), "%s", at);
        if (!text[0] || !end)
            continue;
        expect_starts(file, text);
        text[0] = '\0';
        n++;
    }
    fclose(in);
    return n;
}

Test(documented, configurations_start_the_daemon)
{
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
        cr_assert_eq(start_each(documents[i].file), documents[i].configurations, "%s",
                     documents[i].file);
}
