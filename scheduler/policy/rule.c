/* rule.c - see rule.h. */
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/text.h"
#include "scheduler/policy/proc.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 /* Linux 4.13 */
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* ---- subjects -------------------------------------------------------------------------------- */

/* Paths outside a cgroup namespace begin with "/..": from there it is unknown where that is. */
static bool path_is_whole(const char *path, size_t length)
{
    for (size_t at = 0; at < length; at++)
        if (path[at] == '/' && length - at >= 3 && memcmp(path + at, "/..", 3) == 0 &&
            (length - at == 3 || path[at + 3] == '/'))
            return false;
    return length > 0 && path[0] == '/';
}

const char *cgroups_next(const char **lines, size_t *length)
{
    const char *line = *lines, *end, *path;

    if (!line || !*line)
        return NULL;
    end = strchrnul(line, '\n');
    *lines = *end ? end + 1 : end;
    path = memchr(line, ':', (size_t)(end - line));
    path = path ? memchr(path + 1, ':', (size_t)(end - path - 1)) : NULL;
    path = path ? path + 1 : end;
    *length = (size_t)(end - path);
    return path;
}

char *cgroups_read(const char *file)
{
    char *text = NULL;
    size_t size = 0, length;
    FILE *in = fopen(file, "re");
    bool known;

    if (!in)
        return NULL;
    known = getdelim(&text, &size, '\0', in) > 0 && *text && !ferror(in);
    fclose(in);
    for (const char *line = text, *path; known && (path = cgroups_next(&line, &length));)
        known = path_is_whole(path, length);
    if (!known) {
        free(text);
        text = NULL;
    }
    return text;
}

int cgroups_check(char *why, size_t why_size)
{
    const ino_t initial = 0xEFFFFFFB; /* CGROUP_NS_INIT_INO of linux/nsfs.h */
    char self[16] = "";
    struct stat namespace;

    if (readlink("/proc/self", self, sizeof(self) - 1) < 0 || atol(self) != getpid()) {
        snprintf(why, why_size, "cgroup:/PATH needs /proc of cutind's own PID namespace");
        return -ENOTSUP;
    }
    if (stat("/proc/self/ns/cgroup", &namespace) == 0 && namespace.st_ino == initial)
        return 0;
    snprintf(why, why_size,
             "cgroup:/PATH needs the machine's cgroup namespace, but this cutind runs in another "
             "one, which hides the cgroups of others: start it as a service of the machine, in a "
             "privileged container, or with --cgroupns=host of Docker and podman");
    return -ENOTSUP;
}

uint32_t id_known(uint32_t id, const char *map)
{
    enum { OVERFLOW = 65534 }; /* user_namespaces(7) */
    unsigned first, outside, count;
    bool whole;
    FILE *f;

    if (id != OVERFLOW)
        return id;
    f = fopen(map, "re");
    whole = f && fscanf(f, "%u %u %u", &first, &outside, &count) == 3 && count == UINT32_MAX;
    if (f)
        fclose(f);
    return whole ? id : ID_UNKNOWN;
}

int subject_of_socket(struct subject *who, int socket)
{
    struct pollfd p = {.events = POLLIN};
    struct proc_stat leader;
    struct ucred cred;
    socklen_t size = sizeof(cred);
    char path[40];

    *who = (struct subject){.process = -1};
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
        return -errno;
    who->uid = id_known(cred.uid, "/proc/self/uid_map");
    who->gid = id_known(cred.gid, "/proc/self/gid_map");
    who->pid = cred.pid;
    /* The process at the other end, even if another has its number now, or it has none here, in
     * another PID namespace. On an older kernel: the process that has the number now. */
    size = sizeof(who->process);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &who->process, &size) != 0)
        who->process = errno == ENOPROTOOPT ? (int)syscall(SYS_pidfd_open, who->pid, 0) : -1;
    /* What is read belongs to the right process if that one lives afterwards. The kernel puts a
     * main thread that has ended into the root of cgroups of version 1, whatever other threads do.
     * A process in a PID namespace that cutind does not see into has the number 0 here, and no
     * cgroup. */
    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)who->pid);
    p.fd = who->process;
    if (p.fd >= 0 && who->pid > 0 && (who->cgroups = cgroups_read(path)) &&
        (poll(&p, 1, 0) != 0 || proc_stat(who->pid, &leader) != 0 ||
         (leader.flags & PROC_EXITING))) {
        free(who->cgroups);
        who->cgroups = NULL;
    }
    /* The first call says how much room is needed; a kernel without groups of peers says
     * nothing. */
    size = 0;
    if ((getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) != 0 && errno != ERANGE) ||
        size == 0)
        return 0;
    who->groups = malloc(size);
    if (!who->groups)
        return -ENOMEM;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, who->groups, &size) == 0)
        who->group_count = (uint32_t)(size / sizeof(gid_t));
    for (uint32_t i = 0; i < who->group_count; i++)
        who->groups[i] = id_known(who->groups[i], "/proc/self/gid_map");
    return 0;
}

void subject_clear(struct subject *who)
{
    free(who->groups);
    free(who->cgroups);
    if (who->process >= 0)
        close(who->process);
}

/* ---- rules ---------------------------------------------------------------------------------- */

#define ID_MOST (UINT32_MAX - 1) /* to the kernel the highest id means "no user" */

enum form { EVERYBODY, USER, UIDS, GROUP, GID, CGROUP, ACCOUNT, FORMS };
static const struct {
    const char *word;
    enum rule_kind kind;
} forms[FORMS] = {
    [EVERYBODY] = {"everybody", RULE_EVERYBODY},
    [USER] = {"user:", RULE_USERS},
    [UIDS] = {"uid:", RULE_USERS},
    [GROUP] = {"group:", RULE_GROUP},
    [GID] = {"gid:", RULE_GROUP},
    [CGROUP] = {"cgroup:", RULE_CGROUP},
    [ACCOUNT] = {"account:", RULE_ACCOUNT},
};

static int rule_parse(struct rule *rule, const char *text)
{
    char range[RULE_WORD], *last;
    const struct passwd *user;
    const struct group *group;
    enum form form = 0;
    size_t length;

    while (form < FORMS && strncmp(text, forms[form].word, strlen(forms[form].word)) != 0)
        form++;
    if (form == FORMS)
        return -EINVAL;
    text += strlen(forms[form].word);
    *rule = (struct rule){.kind = forms[form].kind};
    if (form == EVERYBODY || !*text)
        return form == EVERYBODY && !*text ? 0 : -EINVAL;
    switch (form) {
    case USER:
        user = getpwnam(text);
        rule->first = rule->last = user ? user->pw_uid : 0;
        return user ? 0 : -ENOENT;
    case UIDS:
        snprintf(range, sizeof(range), "%s", text);
        last = strchr(range, '-');
        if (last)
            *last++ = '\0';
        if (!number_read(range, 0, ID_MOST, &rule->first) ||
            !number_read(last ? last : range, rule->first, ID_MOST, &rule->last))
            return -EINVAL;
        return 0;
    case GROUP:
        group = getgrnam(text);
        rule->first = group ? group->gr_gid : 0;
        return group ? 0 : -ENOENT;
    case GID:
        return number_read(text, 0, ID_MOST, &rule->first) ? 0 : -EINVAL;
    case CGROUP: /* a pattern for the whole tree would match everything, and is refused */
        for (length = strlen(text); length > 0 && text[length - 1] == '/';)
            length--;
        if (length == 0 || !path_is_whole(text, length) || strstr(text, "//") || length >= PATH_MAX)
            return -EINVAL;
        rule->path = strndup(text, length);
        return rule->path ? 0 : -ENOMEM;
    default:
        snprintf(rule->account, sizeof(rule->account), "%s", text);
        return job_account_check(text);
    }
}

int rules_add(struct rules *list, const char *text)
{
    struct rule *grown = realloc(list->rule, (list->count + 1) * sizeof(*grown));
    int rc;

    if (!grown)
        return -ENOMEM;
    list->rule = grown;
    rc = rule_parse(&grown[list->count], text);
    list->count += rc == 0;
    return rc;
}

void rules_clear(struct rules *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->rule[i].path);
    free(list->rule);
    *list = (struct rules){0};
}

/* The pattern applies to as many parts of the path as it has itself; what is below belongs to it. A
 * backslash is an ordinary character: systemd writes "-" in names as "\x2d". */
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
    return fnmatch(pattern, begin, FNM_PATHNAME | FNM_NOESCAPE) == 0;
}

static bool rule_matches(const struct rule *rule, const struct subject *who)
{
    const char *lines = who->cgroups, *path;
    bool in_group = who->gid == rule->first;
    size_t length;

    switch (rule->kind) {
    case RULE_EVERYBODY:
        return true;
    case RULE_USERS:
        return who->uid >= rule->first && who->uid <= rule->last;
    case RULE_GROUP:
        for (uint32_t i = 0; i < who->group_count; i++)
            in_group |= who->groups[i] == rule->first;
        return in_group;
    case RULE_ACCOUNT:
        return strcmp(who->job.account, rule->account) == 0;
    case RULE_CGROUP: /* in any of the hierarchies; cgroup version 2 has only one */
        while ((path = cgroups_next(&lines, &length)))
            if (path_matches(rule->path, path, length))
                return true;
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
