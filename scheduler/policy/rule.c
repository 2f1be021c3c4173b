/*
 * rule.c - who somebody is, and which rules are about him.
 */
#include "scheduler/policy/rule.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 /* Linux 4.13 */
#endif

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
    size = 0;
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

void subject_clear(struct subject *who)
{
    free(who->groups);
    who->groups = NULL;
    who->group_count = 0;
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

static const struct {
    const char *word;
    int (*parse)(struct rule *rule, const char *text);
} forms[] = {
    {"everybody", parse_everybody}, {"user:", parse_user}, {"uid:", parse_uids},
    {"group:", parse_group},        {"gid:", parse_gid},   {"account:", parse_account},
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
    }
    return false;
}

bool rules_match(const struct rules *list, const struct subject *who)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (rule_matches(&list->rule[i], who))
            return true;
    return false;
}
