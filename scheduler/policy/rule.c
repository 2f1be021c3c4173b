/*
 * rule.c - who somebody is, and which rules are about him.
 */
#include "scheduler/policy/rule.h"

#include <errno.h>
#include <fnmatch.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 /* Linux 4.13 */
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* ---- subjects -------------------------------------------------------------------------------- */

/* The process at the other end, whoever has its number now; on an older kernel who has it now. */
static int peer_process(int socket, pid_t pid)
{
    int fd;
    socklen_t size = sizeof(fd);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0)
        return fd;
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool has_ended(int process)
{
    struct pollfd p = {.fd = process, .events = POLLIN};

    return poll(&p, 1, 0) != 0;
}

static char *read_cgroups(pid_t pid)
{
    char path[40], *text = NULL;
    size_t size = 0;
    FILE *in;

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    in = fopen(path, "re");
    if (!in)
        return NULL;
    if (getdelim(&text, &size, '\0', in) < 0) {
        free(text);
        text = NULL;
    }
    fclose(in);
    return text;
}

/* What was read is of the right process if that one still lives afterwards. A process in a PID
 * namespace that we do not see into has the number 0, and no cgroup for us. */
static void find_cgroups(struct subject *who, int socket)
{
    int process = who->pid > 0 ? peer_process(socket, who->pid) : -1;

    if (process < 0)
        return;
    who->cgroups = read_cgroups(who->pid);
    if (has_ended(process)) {
        free(who->cgroups);
        who->cgroups = NULL;
    }
    close(process);
}

static int find_groups(struct subject *who, int socket)
{
    socklen_t size = 0;

    /* The first call says how much room is needed; a kernel that knows no groups says nothing. */
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) != 0 && errno != ERANGE)
        return 0;
    if (size == 0)
        return 0;
    who->groups = malloc(size);
    if (!who->groups)
        return -ENOMEM;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, who->groups, &size) == 0)
        who->group_count = (uint32_t)(size / sizeof(gid_t));
    return 0;
}

int subject_of_socket(struct subject *who, int socket)
{
    struct ucred cred;
    socklen_t size = sizeof(cred);

    *who = (struct subject){0};
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
        return -errno;
    who->uid = cred.uid;
    who->gid = cred.gid;
    who->pid = cred.pid;
    find_cgroups(who, socket);
    return find_groups(who, socket);
}

void subject_clear(struct subject *who)
{
    free(who->groups);
    free(who->cgroups);
    who->groups = NULL;
    who->group_count = 0;
    who->cgroups = NULL;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static int parse_id(const char *text, char end, const char **rest, uint32_t *id)
{
    unsigned long long n;
    char *stop;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    n = strtoull(text, &stop, 10);
    /* The highest one means "no user" to the kernel. */
    if (errno || n >= UINT32_MAX || (*stop != '\0' && *stop != end))
        return -EINVAL;
    *id = (uint32_t)n;
    *rest = stop;
    return 0;
}

static int parse_everybody(struct rule *rule, const char *text)
{
    rule->kind = RULE_EVERYBODY;
    return *text ? -EINVAL : 0;
}

static int parse_user(struct rule *rule, const char *text)
{
    const struct passwd *entry = *text ? getpwnam(text) : NULL;

    if (!entry)
        return *text ? -ENOENT : -EINVAL;
    rule->kind = RULE_USERS;
    rule->first = rule->last = entry->pw_uid;
    return 0;
}

static int parse_uids(struct rule *rule, const char *text)
{
    int rc = parse_id(text, '-', &text, &rule->first);

    rule->kind = RULE_USERS;
    rule->last = rule->first;
    if (rc == 0 && *text == '-')
        rc = parse_id(text + 1, '\0', &text, &rule->last);
    return rc == 0 && rule->last < rule->first ? -EINVAL : rc;
}

static int parse_group(struct rule *rule, const char *text)
{
    const struct group *entry = *text ? getgrnam(text) : NULL;

    if (!entry)
        return *text ? -ENOENT : -EINVAL;
    rule->kind = RULE_GROUP;
    rule->first = rule->last = entry->gr_gid;
    return 0;
}

static int parse_gid(struct rule *rule, const char *text)
{
    int rc = parse_id(text, '\0', &text, &rule->first);

    rule->kind = RULE_GROUP;
    rule->last = rule->first;
    return rc;
}

static int parse_account(struct rule *rule, const char *text)
{
    rule->kind = RULE_ACCOUNT;
    if (job_account_check(text) != 0)
        return -EINVAL;
    snprintf(rule->account, sizeof(rule->account), "%s", text);
    return 0;
}

/* A pattern of the whole tree would be no rule about somebody. */
static int parse_cgroup(struct rule *rule, const char *text)
{
    size_t length = strlen(text);

    while (length > 0 && text[length - 1] == '/')
        length--;
    if (length == 0 || text[0] != '/' || strstr(text, "//") || length >= PATH_MAX)
        return -EINVAL;
    rule->kind = RULE_CGROUP;
    rule->path = strndup(text, length);
    return rule->path ? 0 : -ENOMEM;
}

static const struct {
    const char *word;
    int (*parse)(struct rule *rule, const char *text);
} forms[] = {
    {"everybody", parse_everybody}, {"user:", parse_user}, {"uid:", parse_uids},
    {"group:", parse_group},        {"gid:", parse_gid},   {"cgroup:", parse_cgroup},
    {"account:", parse_account},
};

int rule_parse(struct rule *rule, const char *text)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t length = strlen(forms[i].word);

        if (strncmp(text, forms[i].word, length) != 0)
            continue;
        *rule = (struct rule){0};
        return forms[i].parse(rule, text + length);
    }
    return -EINVAL;
}

int rules_add(struct rules *list, const struct rule *rule)
{
    struct rule *grown = realloc(list->rule, (list->count + 1) * sizeof(*grown));

    if (!grown)
        return -ENOMEM;
    list->rule = grown;
    list->rule[list->count++] = *rule;
    return 0;
}

void rules_clear(struct rules *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->rule[i].path);
    free(list->rule);
    *list = (struct rules){0};
}

static bool in_group(const struct subject *who, gid_t group)
{
    if (who->gid == group)
        return true;
    for (uint32_t i = 0; i < who->group_count; i++)
        if (who->groups[i] == group)
            return true;
    return false;
}

/* The pattern is about as many parts of the path as it has itself; what is below belongs to it. */
static bool path_matches(const char *pattern, const char *path, size_t length)
{
    char begin[PATH_MAX];
    size_t parts = 0, end = 0;

    for (const char *at = pattern; (at = strchr(at, '/')); at++)
        parts++;
    while (end < length && (path[end] != '/' || parts-- > 0))
        end++;
    if (end >= sizeof(begin))
        return false;
    memcpy(begin, path, end);
    begin[end] = '\0';
    return fnmatch(pattern, begin, FNM_PATHNAME) == 0;
}

/* In any of the hierarchies, of which cgroup version 2 has one: a line is "ID:CONTROLLERS:PATH". */
static bool in_cgroup(const struct subject *who, const char *pattern)
{
    const char *line = who->cgroups;

    while (line && *line) {
        size_t length = strcspn(line, "\n");
        const char *end = line + length, *path = memchr(line, ':', length);

        path = path ? memchr(path + 1, ':', (size_t)(end - path - 1)) : NULL;
        if (path && path_matches(pattern, path + 1, (size_t)(end - path - 1)))
            return true;
        line = *end ? end + 1 : end;
    }
    return false;
}

static bool rule_matches(const struct rule *rule, const struct subject *who)
{
    switch (rule->kind) {
    case RULE_EVERYBODY:
        return true;
    case RULE_USERS:
        return who->uid >= rule->first && who->uid <= rule->last;
    case RULE_GROUP:
        return in_group(who, rule->first);
    case RULE_ACCOUNT:
        return strcmp(who->job.account, rule->account) == 0;
    case RULE_CGROUP:
        return in_cgroup(who, rule->path);
    }
    return false;
}

bool rules_match(const struct rules *list, const struct subject *who, bool cgroup_alone)
{
    for (uint32_t i = 0; i < list->count; i++)
        if ((!cgroup_alone || list->rule[i].kind == RULE_CGROUP) &&
            rule_matches(&list->rule[i], who))
            return true;
    return false;
}
