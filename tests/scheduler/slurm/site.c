/*
 * site.c - the arguments of the Slurm plugin in plugstack.conf.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "scheduler/slurm/site.h"

static struct site site;
static char why[256];

#define PARSE(...)                                                                                 \
    site_parse(&site, sizeof((char *[]){__VA_ARGS__}) / sizeof(char *), (char *[]){__VA_ARGS__},   \
               why, sizeof(why))

Test(site, defaults_are_level_off_and_standard_paths)
{
    cr_assert_eq(site_parse(&site, 0, NULL, why, sizeof(why)), 0);
    cr_assert_eq(site_level(&site, "batch", "normal"), REQUEST_OFF);
    cr_assert_str_eq(site.socket, "/run/cutin/cutin.sock");
    cr_assert_str_eq(site.jobs, "/run/cutin/jobs");
    cr_assert(strstr(site.library, "/libcutin.so") && site.comment);
}

Test(site, qos_overrides_partition_and_partition_overrides_default)
{
    cr_assert_eq(PARSE("default=be", "partition=serve:2", "qos=urgent:rt", "partition=serve:1",
                       "qos=bare:off"),
                 0, "%s", why);
    cr_assert_eq(site_level(&site, "batch", ""), 0);
    cr_assert_eq(site_level(&site, "serve", "normal"), 2, "the first rule of a name");
    cr_assert_eq(site_level(&site, "serve", "urgent"), 3);
    cr_assert_eq(site_level(&site, "serve", "bare"), REQUEST_OFF);
    cr_assert_eq(site_level(&site, "urgent", "serve"), 0, "neither is the other");
    cr_assert_eq(site_level(&site, NULL, NULL), 0);
}

Test(site, paths_and_comment_switch_are_parsed)
{
    cr_assert_eq(PARSE("library=/a/l.so", "socket=/a/s", "jobs=/a/j", "comment=off"), 0, "%s", why);
    cr_assert_str_eq(site.library, "/a/l.so");
    cr_assert_str_eq(site.socket, "/a/s");
    cr_assert_str_eq(site.jobs, "/a/j");
    cr_assert_not(site.comment);
}

Test(site, mistake_names_expected_argument)
{
    static const char *const wrong[][2] = {
        {"default=high", "default=high: expected default=be, 1, 2, rt or off"},
        {"default", "default: unknown argument"},
        {"level=rt", "level=rt: unknown argument"},
        {"partition=rt", "expected partition=NAME:LEVEL"},
        {"partition=:rt", "expected partition=NAME:LEVEL"},
        {"qos=a:4", "expected qos=NAME:LEVEL"},
        {"comment=yes", "expected comment=on or off"},
        {"library=libcutin.so", "expected library=an absolute path"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        cr_assert_eq(PARSE((char *)wrong[i][0]), -EINVAL, "%s", wrong[i][0]);
        cr_assert(strstr(why, wrong[i][1]), "%s", why);
    }
}

Test(site, surplus_rules_are_refused)
{
    char *argv[SITE_RULES + 1];

    for (size_t i = 0; i <= SITE_RULES; i++)
        argv[i] = "qos=a:rt";
    cr_assert_eq(site_parse(&site, SITE_RULES, argv, why, sizeof(why)), 0);
    cr_assert_eq(site_parse(&site, SITE_RULES + 1, argv, why, sizeof(why)), -EINVAL);
}
