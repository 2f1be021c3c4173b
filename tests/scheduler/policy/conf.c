/*
 * conf.c - cutind.conf: what is read, and what is reported about a mistake.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/policy/conf.h"

static struct conf conf;
static char why[512];

static int parse_bytes(const char *text, size_t size)
{
    FILE *in = fmemopen((void *)text, size, "r");
    int rc;

    cr_assert_not_null(in);
    why[0] = '\0';
    rc = conf_parse(&conf, in, "FILE", false, why, sizeof(why));
    fclose(in);
    return rc;
}

static int parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static void set_up(void)
{
    conf_default(&conf, 1000);
}

static void tear_down(void)
{
    conf_clear(&conf);
}

TestSuite(conf, .init = set_up, .fini = tear_down);

static uint32_t level_of(uid_t uid, gid_t gid, uint32_t asked)
{
    struct subject who = {.uid = uid, .gid = gid};

    return permission_level(&conf, &who, asked);
}

Test(conf, without_file_only_owner_and_root_exceed_best_effort)
{
    for (uint32_t level = 0; level < PAGE_LEVELS; level++) {
        cr_assert_eq(level_of(1000, 1000, level), level);
        cr_assert_eq(level_of(0, 0, level), level);
        cr_assert_eq(level_of(1001, 1000, level), 0);
    }
}

Test(conf, every_setting_is_read)
{
    cr_assert_eq(parse("# a comment\n"
                       "[socket]\n"
                       "mode = 0660 ; and another\n"
                       "group = root\n"
                       "[allow]\n"
                       "rt = user:nobody, uid:2000-2999\n"
                       "2 = gid:77\n"
                       "1 = everybody\n"
                       "control = uid:5\n"
                       "[limits]\n"
                       "connections_per_user = 7\n"
                       "clients_per_user = 3\n"
                       "clients_per_device = 5\n"
                       "[policy]\n"
                       "name = fair\n"
                       "min_share_percent = 5\n"
                       "hold_warning_s = 7\n"
                       "[metrics]\n"
                       "listen = 127.0.0.1:9475\n"
                       "[jobs]\n"
                       "folder = /run/jobs\n"
                       "[daemon]\n"
                       "log = debug\n"),
                 0, "%s", why);
    cr_assert(conf.loaded && conf.socket_mode == 0660 && conf.socket_group_given);
    cr_assert(conf.policy == policies[1] && conf.min_share_percent == 5);
    cr_assert_str_eq(conf.metrics, "127.0.0.1:9475");
    cr_assert_str_eq(conf.jobs, "/run/jobs");
    cr_assert(conf.connections_per_user == 7 && conf.clients_per_user == 3 &&
              conf.clients_per_device == 5 && conf.hold_warning_s == 7 && conf.log == 3);
    cr_assert_eq(level_of(65534, 9, 3), 3);
    cr_assert_eq(level_of(2000, 9, 3), 3);
    cr_assert_eq(level_of(2999, 9, 3), 3);
    cr_assert_eq(level_of(3000, 9, 3), 1, "everybody may have 1");
    cr_assert_eq(level_of(3000, 77, 3), 2);
    cr_assert_eq(level_of(3000, 77, 1), 1, "and not more than was asked for");
    cr_assert(permission_control(&conf, &(struct subject){.uid = 5}));
    cr_assert_not(permission_control(&conf, &(struct subject){.uid = 6}));
    cr_assert_eq(conf.owner, 1000);
}

/* The sample, whose settings are in comments: as it is, or (`said`) without their #. */
static char *sample(bool said)
{
    static char text[8192];
    FILE *in = fopen(SOURCE_DIR "/scheduler/daemon/cutind.conf.sample", "r");
    size_t size = 0;
    cr_assert_not_null(in);
    for (int c, first = 1; (c = fgetc(in)) != EOF && size < sizeof(text) - 1; first = c == '\n')
        if (said && first && c == '#') {
            int next = fgetc(in);
            if (next == ' ')
                text[size++] = '#';
            ungetc(next, in);
        } else {
            text[size++] = (char)c;
        }
    text[size] = '\0';
    fclose(in);
    return text;
}

Test(conf, sample_shows_the_defaults)
{
    static const char *const lines[] = {"rt", "2", "1", "control", "contained", "mode", "group"};
    struct conf bare;
    conf_default(&bare, 0);
    conf_default(&conf, 0);
    cr_assert_eq(parse(sample(false)), 0, "%s", why);
    cr_assert_eq(conf.allow[3].count + conf.control.count + conf.contained.count, 0);
    cr_assert_eq(parse(sample(true)), 0, "%s", why);
    cr_assert_eq(conf.socket_mode, bare.socket_mode);
    cr_assert_eq(conf.connections_per_user, bare.connections_per_user);
    cr_assert_eq(conf.clients_per_user, bare.clients_per_user);
    cr_assert_eq(conf.clients_per_device, bare.clients_per_device);
    cr_assert_eq(conf.policy, bare.policy);
    cr_assert_eq(conf.min_share_percent, bare.min_share_percent);
    cr_assert_eq(conf.hold_warning_s, bare.hold_warning_s);
    cr_assert_eq(memcmp(&conf.metrics, &bare.metrics, sizeof(bare.metrics)), 0);
    cr_assert_str_eq(conf.jobs, bare.jobs);
    cr_assert_eq(conf.log, bare.log);
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char line[32];
        snprintf(line, sizeof(line), "\n%s = ", lines[i]);
        cr_assert(strstr(sample(true), line), "no line %s", lines[i]);
    }
}

Test(conf, supplementary_groups_count)
{
    gid_t groups[] = {5, 77, 9};
    struct subject who = {.uid = 3, .gid = 3, .groups = groups, .group_count = 3};

    cr_assert_eq(parse("[allow]\nrt = gid:77\n"), 0);
    cr_assert_eq(permission_level(&conf, &who, 3), 3);
    who.group_count = 1;
    cr_assert_eq(permission_level(&conf, &who, 3), 0);
}

Test(conf, account_rule_matches_whole_name_only)
{
    struct subject who = {.uid = 3, .gid = 3, .job = {.account = "inference"}};

    cr_assert_eq(parse("[allow]\n2 = account:inference\nrt = account:infer account:inference2\n"),
                 0, "%s", why);
    cr_assert_eq(permission_level(&conf, &who, 3), 2);
    who.job.account[0] = '\0';
    cr_assert_eq(permission_level(&conf, &who, 3), 0);
}

static uint32_t level_in(uid_t uid, const char *cgroups)
{
    struct subject who = {.uid = uid, .gid = uid, .cgroups = (char *)(uintptr_t)cgroups};

    return permission_level(&conf, &who, 3);
}

Test(conf, cgroup_rule_covers_cgroup_and_its_descendants)
{
    cr_assert_eq(parse("[allow]\n"
                       "rt = cgroup:/kubepods/pod* cgroup:/system.slice/serve.service/\n"
                       "1 = cgroup:/kubepods/*/pod?\n"),
                 0, "%s", why);
    cr_assert_eq(level_in(7, "0::/kubepods/pod5\n"), 3);
    cr_assert_eq(level_in(7, "0::/kubepods/pod5/c0ffee/deeper\n"), 3);
    cr_assert_eq(level_in(7, "0::/kubepods\n"), 0);
    cr_assert_eq(level_in(7, "0::/kubepods/burstable/pod5/c0ffee\n"), 1);
    cr_assert_eq(level_in(7, "0::/kubepods/burstable/pod55\n"), 0);
    cr_assert_eq(level_in(7, "0::/elsewhere/kubepods/pod5\n"), 0);
    cr_assert_eq(level_in(7, "0::/system.slice/serve.service\n"), 3);
    cr_assert_eq(level_in(7, "0::/system.slice/serve.service2\n"), 0);
    cr_assert_eq(level_in(7, "9:name=systemd:/\n4:cpu,cpuacct:/kubepods/pod5/x\n0::/\n"), 3,
                 "in any hierarchy");
    cr_assert_eq(level_in(7, "no such thing:/kubepods/pod5"), 0);
    cr_assert_eq(parse("[allow]\nrt = cgroup:/system.slice/system-my\\x2dserve.slice\n"), 0, "%s",
                 why);
    cr_assert_eq(level_in(7, "0::/system.slice/system-my\\x2dserve.slice/my-serve@1.service\n"), 3,
                 "as systemd writes it, and /proc");
    cr_assert_eq(level_in(7, NULL), 0);
}

Test(conf, contained_process_gains_nothing_from_its_user)
{
    static const char in[] = "0::/kubepods/pod5/c0\n", other[] = "0::/kubepods/pod5/c1\n",
                      out[] = "0::/user.slice\n", given[] = "0::/kubepods/rt/c0\n";
    struct subject root_in = {.cgroups = (char *)(uintptr_t)in}, root_out = root_in,
                   root_other = root_in, root_unknown = {0};
    char reason[320];

    root_out.cgroups = (char *)(uintptr_t)out;
    root_other.cgroups = (char *)(uintptr_t)other;
    cr_assert_eq(parse("[allow]\nrt = uid:5 everybody cgroup:/kubepods/rt\n"
                       "control = uid:0\ncontained = cgroup:/kubepods\n"),
                 0, "%s", why);
    cr_assert_eq(level_in(0, out), 3);
    cr_assert_eq(level_in(0, in), 0, "not even root");
    cr_assert_eq(level_in(1000, in), 0, "nor the owner");
    cr_assert_eq(level_in(5, in), 0);
    cr_assert_eq(level_in(5, given), 3);
    cr_assert_eq(level_in(0, NULL), 0, "it could be there");
    cr_assert_not(permission_control(&conf, &root_in));
    cr_assert(permission_control(&conf, &root_out));
    cr_assert_not(permission_control(&conf, &root_unknown));
    cr_assert(permission_same(&conf, &root_in, &root_in));
    cr_assert_not(permission_same(&conf, &root_in, &root_out));
    cr_assert_not(permission_same(&conf, &root_in, &root_other), "another container's");
    cr_assert_not(permission_same(&conf, &root_unknown, &root_unknown));
    permission_explain(&conf, &root_in, 3, reason, sizeof(reason));
    cr_assert_str_eq(reason, "no rule gives the cgroup of process 0 level rt; allow it with `rt = "
                             "cgroup:/kubepods/pod5/c0` under [allow] in FILE");
    permission_explain(&conf, &root_unknown, 3, reason, sizeof(reason));
    cr_assert(strstr(reason, "cannot find the cgroup of that process"), "%s", reason);
}

/* The line between the quotes is accepted, and grants the level. */
static void proposal_grants(const struct subject *who, const char *contained)
{
    char reason[320], text[400], *rule, *end;

    cr_assert_eq(parse(contained), 0, "%s", why);
    cr_assert_eq(permission_level(&conf, who, 3), 0);
    permission_explain(&conf, who, 3, reason, sizeof(reason));
    cr_assert((rule = strchr(reason, '`')) && (end = strchr(rule + 1, '`')), "%s", reason);
    snprintf(text, sizeof(text), "%s%.*s\n", contained, (int)(end - rule - 1), rule + 1);
    cr_expect_eq(parse(text), 0, "%s", why);
    cr_expect_eq(permission_level(&conf, who, 3), 3, "%s", reason);
}

Test(conf, rule_proposed_by_refusal_grants_the_level)
{
    static char unit[] = "0::/system.slice/system-my\\x2dserve.slice/my-serve@1.service\n";

    proposal_grants(&(struct subject){.uid = 7}, "[allow]\n");
    proposal_grants(&(struct subject){.uid = ID_UNKNOWN}, "[allow]\n");
    proposal_grants(&(struct subject){.uid = 7, .job = {.account = "a"}}, "[allow]\n");
    proposal_grants(&(struct subject){.uid = 7, .cgroups = unit},
                    "[allow]\ncontained = cgroup:/system.slice\n");
}

/* Whether a file of cgroups with that text is understood; NULL: there is no file. */
static bool cgroups_known(const char *text)
{
    char path[64], *read;
    FILE *file;

    snprintf(path, sizeof(path), "/tmp/cutin-cgroups-%d", (int)getpid());
    if (text) {
        file = fopen(path, "we");
        cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
    }
    read = cgroups_read(path);
    cr_assert(!read || strcmp(read, text) == 0);
    unlink(path);
    free(read);
    return read;
}

Test(conf, unexpected_cgroup_paths_are_unknown)
{
    cr_assert(cgroups_known("0::/kubepods/pod5\n"));
    cr_assert(cgroups_known("9:name=systemd:/\n4:memory:/kubepods/pod5\n0::/\n"));
    cr_assert(cgroups_known("0::/a..b/..c/d../...\n"));
    cr_assert(cgroups_known("0::/with:colon"));
    cr_assert_not(cgroups_known("0::/../pod5\n"));
    cr_assert_not(cgroups_known("0::/..\n"));
    cr_assert_not(cgroups_known("0::/../..\n"));
    cr_assert_not(cgroups_known("4:memory:/kubepods/pod5\n0::/../pod5\n"));
    cr_assert_not(cgroups_known("4:memory:/../pod5\n0::/\n"));
    cr_assert_not(cgroups_known("0::/a/../b\n"));
    cr_assert_not(cgroups_known("0::\n"));
    cr_assert_not(cgroups_known("0::kubepods\n"));
    cr_assert_not(cgroups_known("0:/kubepods\n"));
    cr_assert_not(cgroups_known("0::/kubepods\n\n"));
    cr_assert_not(cgroups_known(""));
    cr_assert_not(cgroups_known(NULL));
    cr_assert_null(cgroups_read("/tmp"));
}

Test(conf, user_from_outside_namespace_matches_no_rule)
{
    struct subject outside = {.uid = ID_UNKNOWN, .gid = ID_UNKNOWN};

    cr_assert_eq(parse("[allow]\nrt = uid:1-4294967294 gid:65534\n"), 0, "%s", why);
    cr_assert_eq(permission_level(&conf, &outside, 3), 0);
    cr_assert_not(permission_same(&conf, &outside, &outside), "both could be anybody");
    cr_assert_eq(id_known(1000, "/dev/null"), 1000);
    cr_assert_eq(id_known(65534, "/dev/null"), ID_UNKNOWN, "a namespace that has no ids yet");
    cr_assert_eq(id_known(65534, "/no/such/file"), ID_UNKNOWN);
}

Test(conf, lists_continue_on_further_lines)
{
    cr_assert_eq(parse("[allow]\nrt = uid:5\n  uid:6\nrt = uid:7\n"), 0, "%s", why);
    for (uid_t uid = 5; uid <= 7; uid++)
        cr_assert_eq(level_of(uid, 1, 3), 3);
}

Test(conf, mistakes_name_file_and_line_and_change_nothing)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[allow]\nrt = bob\n", "FILE:2: rt: bob is not user:NAME"},
        {"[allow]\n\nrt = user:no-such-user-at-all\n", "FILE:3: rt: there is no user:no-such"},
        {"[allow]\nrt = group:no-such-group\n", "FILE:2: rt: there is no group:no-such-group"},
        {"[allow]\nrt = uid:5-4\n", "FILE:2: rt: uid:5-4"},
        {"[allow]\nrt = uid:4294967295\n", "FILE:2:"},
        {"[allow]\nrt = uid:-1\n", "FILE:2:"},
        {"[allow]\nrt = user:\n", "FILE:2:"},
        {"[allow]\nrt =\n", "FILE:2: rt = has no value"},
        {"[allow]\nrt = account:\n", "FILE:2: rt: account: is not user:NAME"},
        {"[jobs]\nfolder = jobs\n", "FILE:2: folder = jobs is not an absolute path"},
        {"[allow]\nrt = cgroup:kubepods\n", "FILE:2: rt: cgroup:kubepods is not"},
        {"[allow]\nrt = cgroup:/\n", "FILE:2: rt: cgroup:/ is not"},
        {"[allow]\nrt = cgroup:/a//b\n", "FILE:2:"},
        {"[allow]\nrt = cgroup:/../pod5\n", "FILE:2: rt: cgroup:/../pod5 is not"},
        {"[allow]\ncontained = cgroup:/a uid:5\n", "FILE:2: contained takes only cgroup:/PATH"},
        {"[allow]\nbe = everybody\n", "FILE:2: [allow] has no setting be"},
        {"[permit]\nrt = everybody\n", "FILE:2: there is no section [permit]"},
        {"rt = everybody\n", "FILE:1: there is no section []"},
        {"[allow]\nnonsense\n[daemon]\nlog = loud\n", "FILE:2: this is neither"},
        {"[allow\n", "FILE:1: this is neither"},
        {"[socket]\nmode = 888\n", "FILE:2: mode = 888"},
        {"[socket]\nmode = 0066\n", "FILE:2: mode = 0066"},
        {"[socket]\ngroup = no-such-group\n", "FILE:2: there is no group no-such-group"},
        {"[limits]\nclients_per_user = 0\n", "FILE:2: clients_per_user = 0 is not a number from 1"},
        {"[limits]\nclients_per_user = 5x\n", "FILE:2:"},
        {"[daemon]\nlog = loud\n", "FILE:2: log = loud"},
        {"[policy]\nname = none\n", "FILE:2: there is no policy none"},
        {"[policy]\nmin_share_percent = 91\n", "FILE:2: min_share_percent = 91"},
        {"[metrics]\nlisten = 0.0.0.0:9475\n", "FILE:2: other machines could reach 0.0.0.0:9475"},
        {"[metrics]\nlisten = 10.0.0.1:9475\n", "FILE:2: other machines could reach 10.0.0.1:9475"},
        {"[metrics]\nlisten = [::]:9475\n", "FILE:2: other machines could reach [::]:9475"},
        {"[metrics]\nlisten = 127.0.0.1\n", "FILE:2: 127.0.0.1 is not"},
        {"[metrics]\nlisten = localhost:80\n", "FILE:2: localhost:80 is not"},
        {"[metrics]\nlisten = [::1:80\n", "FILE:2:"},
        {"[metrics]\nlisten = unix:run/s\n", "FILE:2: unix:run/s is not an absolute path"},
    };

    cr_assert_eq(parse("[allow]\nrt = uid:5\n"), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_neq(parse(cases[i].text), 0, "%s", cases[i].text);
        cr_assert_eq(strncmp(why, cases[i].says, strlen(cases[i].says)), 0, "%s", why);
        cr_assert_null(strchr(why, '\n'));
        cr_assert_eq(level_of(5, 1, 3), 3, "as before");
    }
}

Test(conf, overlong_line_is_refused)
{
    char text[1024];
    size_t n = (size_t)snprintf(text, sizeof(text), "[allow]\nrt = uid:5");

    memset(text + n, ' ', 300);
    strcpy(text + n + 300, "\n");
    cr_assert_eq(parse(text), -EINVAL);
    cr_assert_eq(strncmp(why, "FILE:2: the line is longer", 26), 0, "%s", why);
}

Test(conf, line_with_nul_is_refused)
{
    static const char text[] = "[allow]\nrt = uid\0:5\n";

    cr_assert_eq(parse_bytes(text, sizeof(text) - 1), -EINVAL);
    cr_assert_str_eq(why, "FILE:2: there is a NUL in the line");
}

Test(conf, file_writable_by_others_is_refused)
{
    char path[] = "/tmp/cutin-conf-XXXXXX";
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    conf.owner = geteuid();
    cr_assert_eq(fchmod(fd, 0644), 0);
    cr_assert_eq(conf_load(&conf, path, why, sizeof(why)), 0, "%s", why);
    cr_assert_eq(fchmod(fd, 0664), 0);
    cr_assert_eq(conf_load(&conf, path, why, sizeof(why)), -EPERM);
    cr_assert(strstr(why, "chmod go-w"), "%s", why);
    if (geteuid() == 0) {
        cr_assert_eq(fchmod(fd, 0644), 0);
        cr_assert_eq(fchown(fd, 65534, 65534), 0);
        cr_assert_eq(conf_load(&conf, path, why, sizeof(why)), -EPERM);
        cr_assert(strstr(why, "belongs to user 65534"), "%s", why);
    }
    close(fd);
    unlink(path);
    cr_assert_eq(conf_load(&conf, path, why, sizeof(why)), -ENOENT);
    cr_assert_eq(conf_load(&conf, "/tmp", why, sizeof(why)), -EINVAL);
}
