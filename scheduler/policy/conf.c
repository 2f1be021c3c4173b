/*
 * conf.c - cutind.conf: one row of a table per setting.
 *
 * inih reads line by line. Its reader is replaced by one that counts lines, so that the line of a
 * setting is known, and that refuses lines which inih would cut in two.
 */
#include "scheduler/policy/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text.h"

struct reading {
    FILE *in;
    const char *name;
    unsigned line;
    struct conf *conf;
    char *why;
    size_t why_size;
    bool cgroups; /* there are rules about cgroups */
    void *at;     /* the setting's place in `conf` */
    int rc;
};

/* Only the first mistake is reported. */
static int __attribute__((format(printf, 3, 4))) mistake(struct reading *r, int rc,
                                                         const char *format, ...)
{
    char text[256];
    va_list args;

    if (r->rc != 0)
        return r->rc;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(r->why, r->why_size, "%s:%u: %s", r->name, r->line, text);
    r->rc = rc;
    return rc;
}

struct setting {
    const char *section, *name;
    int (*take)(struct reading *r, const struct setting *s, const char *value);
    size_t at; /* in struct conf */
    unsigned long least, most;
};

static int take_number(struct reading *r, const struct setting *s, const char *value)
{
    uint64_t n;

    if (!number_read(value, s->least, s->most, &n))
        return mistake(r, -EINVAL, "%s = %.40s is not a number from %lu to %lu", s->name, value,
                       s->least, s->most);
    *(uint32_t *)r->at = (uint32_t)n;
    return 0;
}

static int take_mode(struct reading *r, const struct setting *s, const char *value)
{
    char *end;
    unsigned long n = strtoul(value, &end, 8);

    if (*value < '0' || *value > '7' || *end || n > 0777 || (n & 0600) != 0600)
        return mistake(r, -EINVAL,
                       "%s = %.40s is not a mode such as 0660 that lets the owner read and write",
                       s->name, value);
    *(uint32_t *)r->at = (uint32_t)n;
    return 0;
}

static int take_socket_group(struct reading *r, const struct setting *s, const char *value)
{
    const struct group *entry = getgrnam(value);

    if (!entry)
        return mistake(r, -ENOENT, "there is no group %.40s", value);
    r->conf->socket_group = entry->gr_gid;
    r->conf->socket_group_given = true;
    return 0;
}

static int take_log(struct reading *r, const struct setting *s, const char *value)
{
    int n = word_index(LOG_WORDS, value);

    if (n < 0)
        return mistake(r, -EINVAL, "%s = %.40s is not one of the words in cutind.conf(5)", s->name,
                       value);
    *(uint32_t *)r->at = (uint32_t)n;
    return 0;
}

static int take_policy(struct reading *r, const struct setting *s, const char *value)
{
    r->conf->policy = policy_find(value);
    return r->conf->policy
               ? 0
               : mistake(r, -EINVAL, "there is no policy %.40s; see cutind.conf(5)", value);
}

static int take_metrics(struct reading *r, const struct setting *s, const char *value)
{
    char why[256];

    if (strcmp(value, "off") == 0) {
        r->conf->metrics[0] = '\0';
        return 0;
    }
    if (metrics_check(value, why, sizeof(why)) != 0)
        return mistake(r, -EINVAL, "%s", why);
    snprintf(r->conf->metrics, sizeof(r->conf->metrics), "%s", value);
    return 0;
}

static int take_jobs(struct reading *r, const struct setting *s, const char *value)
{
    if (value[0] != '/' || strlen(value) >= sizeof(r->conf->jobs))
        return mistake(r, -EINVAL, "folder = %.40s is not an absolute path", value);
    snprintf(r->conf->jobs, sizeof(r->conf->jobs), "%s", value);
    return 0;
}

static int take_rules(struct reading *r, const struct setting *s, const char *value)
{
    struct rules *rules = r->at;
    char copy[RULE_WORD], *save = NULL;
    int rc = 0;

    snprintf(copy, sizeof(copy), "%s", value);
    if (!*value)
        return mistake(r, -EINVAL, "%s = has no value; leave the line out", s->name);
    for (char *w = strtok_r(copy, ", \t", &save); w && rc == 0; w = strtok_r(NULL, ", \t", &save)) {
        rc = rules_add(rules, w);
        if (rc == 0)
            r->cgroups |= rules->rule[rules->count - 1].kind == RULE_CGROUP;
        else if (rc == -ENOENT)
            mistake(r, rc, "%s: there is no %.60s", s->name, w);
        else if (rc == -EINVAL)
            mistake(r, rc,
                    "%s: %.60s is not user:NAME, uid:N, uid:N-M, group:NAME, gid:N, "
                    "cgroup:/PATH, account:NAME or everybody",
                    s->name, w);
        else
            mistake(r, rc, "%s", strerror(-rc));
    }
    return rc;
}

static int take_cgroups(struct reading *r, const struct setting *s, const char *value)
{
    const struct rules *rules = r->at;
    int rc = take_rules(r, s, value);

    for (uint32_t i = 0; i < rules->count && rc == 0; i++)
        if (rules->rule[i].kind != RULE_CGROUP)
            rc = mistake(r, -EINVAL, "%s takes only cgroup:/PATH", s->name);
    return rc;
}

#define AT(member) offsetof(struct conf, member)
static const struct setting settings[] = {
    {"allow", "1", take_rules, AT(allow[1]), 0, 0},
    {"allow", "2", take_rules, AT(allow[2]), 0, 0},
    {"allow", "rt", take_rules, AT(allow[3]), 0, 0},
    {"allow", "control", take_rules, AT(control), 0, 0},
    {"allow", "contained", take_cgroups, AT(contained), 0, 0},
    {"socket", "mode", take_mode, AT(socket_mode), 0, 0},
    {"socket", "group", take_socket_group, 0, 0, 0},
    {"limits", "connections_per_user", take_number, AT(connections_per_user), 1, 1024},
    {"limits", "clients_per_user", take_number, AT(clients_per_user), 1, 1024},
    {"limits", "clients_per_device", take_number, AT(clients_per_device), 1, 1024},
    {"policy", "min_share_percent", take_number, AT(min_share_percent), 0, 90},
    {"policy", "hold_warning_s", take_number, AT(hold_warning_s), 0, 86400},
    {"policy", "name", take_policy, 0, 0, 0},
    {"metrics", "listen", take_metrics, AT(metrics), 0, 0},
    {"jobs", "folder", take_jobs, 0, 0, 0},
    {"daemon", "log", take_log, AT(log), 0, 0},
};

/* inih's handler: nonzero is success. */
static int take(void *user, const char *section, const char *name, const char *value)
{
    struct reading *r = user;
    bool known = false;

    for (const struct setting *s = settings; s < settings + sizeof(settings) / sizeof(*s); s++) {
        if (strcmp(s->section, section) != 0)
            continue;
        known = true;
        r->at = (char *)r->conf + s->at;
        if (strcmp(s->name, name) == 0)
            return s->take(r, s, value) == 0;
    }
    if (known)
        mistake(r, -EINVAL, "[%.40s] has no setting %.40s; see cutind.conf(5)", section, name);
    else
        mistake(r, -EINVAL, "there is no section [%.40s]; see cutind.conf(5)", section);
    return 0;
}

/* inih's reader: like fgets. */
static char *next_line(char *text, int size, void *stream)
{
    struct reading *r = stream;

    if (r->rc != 0 || !fgets(text, size, r->in))
        return NULL;
    r->line++;
    if (!strchr(text, '\n') && !feof(r->in)) {
        if (strlen(text) + 1 < (size_t)size)
            mistake(r, -EINVAL, "there is a NUL in the line");
        else
            mistake(r, -EINVAL, "the line is longer than %d characters", size - 2);
        return NULL;
    }
    return text;
}

void conf_default(struct conf *conf, uid_t owner)
{
    const char *home = secure_getenv("XDG_CONFIG_HOME");
    int n = -1;

    *conf = (struct conf){.owner = owner,
                          .socket_mode = owner == 0 ? 0666 : 0600,
                          .connections_per_user = 256,
                          .clients_per_user = 128,
                          .clients_per_device = 8,
                          .hold_warning_s = 10,
                          .policy = policies[0],
                          .jobs = JOB_FOLDER,
                          .log = LOG_INFO};
    if (owner != 0 && home && home[0] == '/')
        n = snprintf(conf->path, sizeof(conf->path), "%s/cutin/cutind.conf", home);
    else if (owner != 0 && (home = secure_getenv("HOME")) && home[0] == '/' && home[1])
        n = snprintf(conf->path, sizeof(conf->path), "%s/.config/cutin/cutind.conf", home);
    if (n < 0 || n >= (int)sizeof(conf->path))
        snprintf(conf->path, sizeof(conf->path), "/etc/cutin/cutind.conf");
}

void conf_clear(struct conf *conf)
{
    for (uint32_t level = 0; level < PAGE_LEVELS; level++)
        rules_clear(&conf->allow[level]);
    rules_clear(&conf->control);
    rules_clear(&conf->contained);
}

int conf_parse(struct conf *conf, FILE *in, const char *name, bool check_cgroups, char *why,
               size_t why_size)
{
    struct conf new;
    struct reading r = {.in = in, .name = name, .conf = &new, .why = why, .why_size = why_size};
    char reason[400];
    int line;

    conf_default(&new, conf->owner);
    line = ini_parse_stream(next_line, &r, take, &r);
    if (line > 0 && (unsigned)line < r.line)
        r.rc = 0; /* an earlier line made no sense to inih, which read on */
    if (line != 0 && r.rc == 0) {
        r.line = (unsigned)(line > 0 ? line : 0);
        mistake(&r, -EINVAL, "this is neither `setting = value` nor [section]");
    }
    snprintf(new.path, sizeof(new.path), "%s", name);
    new.loaded = true;
    if (r.rc == 0 && check_cgroups && r.cgroups &&
        (r.rc = cgroups_check(reason, sizeof(reason))) != 0)
        snprintf(why, why_size, "%s: %s", name, reason);
    conf_clear(r.rc == 0 ? conf : &new);
    if (r.rc == 0)
        *conf = new;
    return r.rc;
}

/* A user who can write this file decides which users may have real time. */
static int check_file(int fd, const char *path, uid_t owner, char *why, size_t why_size)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode)) {
        snprintf(why, why_size, "%s: not a regular file", path);
        return -EINVAL;
    }
    if (st.st_uid != owner && st.st_uid != 0) {
        snprintf(why, why_size, "%s: belongs to user %u: it must be root's or your own", path,
                 (unsigned)st.st_uid);
        return -EPERM;
    }
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(why, why_size, "%s: others can write to it (mode %03o): chmod go-w %s", path,
                 (unsigned)(st.st_mode & 0777), path);
        return -EPERM;
    }
    return 0;
}

int conf_load(struct conf *conf, const char *path, char *why, size_t why_size)
{
    static const char *const system = "/etc/cutin/cutind.conf";
    struct conf none;
    FILE *in;
    int fd, rc;

    why[0] = '\0';
    conf_default(&none, conf->owner);
    if (!path)
        path = access(system, F_OK) == 0 ? system : access(none.path, F_OK) == 0 ? none.path : NULL;
    if (!path)
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        rc = -errno;
        snprintf(why, why_size, "%s: %s", path, strerror(-rc));
        return rc;
    }
    rc = check_file(fd, path, conf->owner, why, why_size);
    in = rc == 0 ? fdopen(fd, "r") : NULL;
    if (!in) {
        close(fd);
        return rc == 0 ? -ENOMEM : rc;
    }
    rc = conf_parse(conf, in, path, true, why, why_size);
    fclose(in);
    return rc;
}
