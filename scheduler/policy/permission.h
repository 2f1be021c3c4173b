/*
 * permission.h - who may do what at the daemon.
 *
 * Subjects are what the kernel says about the other end of a socket, never what a client says. The
 * daemon's owner and root may do everything; everybody else what a rule of cutind.conf allows.
 */
#ifndef CUTIN_PERMISSION_H
#define CUTIN_PERMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct conf;

struct subject {
    uid_t uid;
    gid_t gid;
    pid_t pid;
    gid_t *groups; /* supplementary */
    uint32_t group_count;
};

/* Reads it from a connected socket. Returns 0 or -errno. */
int subject_of_socket(struct subject *who, int socket);
void subject_clear(struct subject *who);

/* One rule: everybody, a range of user ids, or a group. */
struct rule {
    enum rule_kind { RULE_EVERYBODY, RULE_USERS, RULE_GROUP } kind;
    uint32_t first, last; /* ids; a group has one */
};

struct rules {
    struct rule *rule;
    uint32_t count;
};

/* "user:NAME", "uid:N", "uid:N-M", "group:NAME", "gid:N" or "everybody". Returns 0, -EINVAL (not of
 * that form) or -ENOENT (no such user or group). */
int rule_parse(struct rule *rule, const char *text);
/* Adds a rule to the list. Returns 0 or -ENOMEM. */
int rules_add(struct rules *list, const struct rule *rule);
void rules_clear(struct rules *list);
bool rules_match(const struct rules *list, const struct subject *who);

/* The daemon's owner, root, and whom `control` allows: may change what concerns others. */
bool permission_control(const struct conf *conf, const struct subject *who);
/* The highest level up to `asked` that this subject may have. */
uint32_t permission_level(const struct conf *conf, const struct subject *who, uint32_t asked);
/* A rule gives this subject more than everybody has without any. */
bool permission_named(const struct conf *conf, const struct subject *who);
/* Why `asked` was not granted, and which line of which file would grant it. */
void permission_explain(const struct conf *conf, const struct subject *who, uint32_t asked,
                        char *out, size_t size);

#endif
