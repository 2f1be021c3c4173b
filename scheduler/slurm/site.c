/* site.c - see site.h. */
#include "scheduler/slurm/site.h"

#include <errno.h>
#include <stdio.h>

#include "common/machine_socket.h"
#include "common/text.h"
#include "scheduler/policy/job.h"
#include "common/level.h"

struct argument {
    const char *name;
    int (*take)(struct site *site, const struct argument *a, const char *value);
    size_t at; /* in struct site; the kind of a rule */
    const char *form;
};

static int take_path(struct site *site, const struct argument *a, const char *value)
{
    if (value[0] != '/' || strlen(value) >= SITE_PATH)
        return -EINVAL;
    snprintf((char *)site + a->at, SITE_PATH, "%s", value);
    return 0;
}

static int take_level(struct site *site, const struct argument *a, const char *value)
{
    site->level = request_level(value);
    return site->level == -EINVAL ? -EINVAL : 0;
}

static int take_comment(struct site *site, const struct argument *a, const char *value)
{
    site->comment = strcmp(value, "on") == 0;
    return site->comment || strcmp(value, "off") == 0 ? 0 : -EINVAL;
}

static int take_rule(struct site *site, const struct argument *a, const char *value)
{
    const char *colon = strrchr(value, ':');
    struct site_rule *rule = &site->rule[site->rules];
    size_t length = colon ? (size_t)(colon - value) : 0;

    if (length == 0 || length >= SITE_NAME || site->rules == SITE_RULES)
        return -EINVAL;
    rule->kind = (enum site_kind)a->at;
    rule->level = request_level(colon + 1);
    snprintf(rule->name, sizeof(rule->name), "%.*s", (int)length, value);
    site->rules++;
    return rule->level == -EINVAL ? -EINVAL : 0;
}

#define RULE_FORM "NAME:LEVEL with LEVEL be, 1, 2, rt or off, at most 64 of them"
static const struct argument arguments[] = {
    {"default", take_level, 0, "be, 1, 2, rt or off"},
    {"partition", take_rule, SITE_PARTITION, RULE_FORM},
    {"qos", take_rule, SITE_QOS, RULE_FORM},
    {"comment", take_comment, 0, "on or off"},
    {"library", take_path, offsetof(struct site, library), "an absolute path"},
    {"socket", take_path, offsetof(struct site, socket), "an absolute path"},
    {"jobs", take_path, offsetof(struct site, jobs), "an absolute path"},
};

int site_parse(struct site *site, int argc, char *const argv[], char *why, size_t size)
{
    *site = (struct site){.library = CUTIN_LIBRARY,
                          .socket = MACHINE_SOCKET,
                          .jobs = JOB_FOLDER,
                          .comment = true,
                          .level = REQUEST_OFF};
    for (int i = 0; i < argc; i++) {
        const struct argument *a = arguments, *end = a + sizeof(arguments) / sizeof(*a);
        size_t length = strcspn(argv[i], "=");

        while (a < end && (strlen(a->name) != length || strncmp(a->name, argv[i], length) != 0))
            a++;
        if (a == end || !argv[i][length]) {
            snprintf(why, size, "%.100s: unknown argument; see cutin-slurm(7)", argv[i]);
            return -EINVAL;
        }
        if (a->take(site, a, argv[i] + length + 1) != 0) {
            snprintf(why, size, "%.100s: expected %s=%s", argv[i], a->name, a->form);
            return -EINVAL;
        }
    }
    return 0;
}

static int rule_level(const struct site *site, enum site_kind kind, const char *name)
{
    for (uint32_t i = 0; name && i < site->rules; i++)
        if (site->rule[i].kind == kind && strcmp(site->rule[i].name, name) == 0)
            return site->rule[i].level;
    return REQUEST_NONE;
}

int site_level(const struct site *site, const char *partition, const char *qos)
{
    int level = rule_level(site, SITE_QOS, qos);

    if (level == REQUEST_NONE)
        level = rule_level(site, SITE_PARTITION, partition);
    return level == REQUEST_NONE ? site->level : level;
}

int request_level(const char *word)
{
    int level = word_index(LEVEL_WORDS " off", word);

    return level < 0 ? -EINVAL : level == CUTIN_LEVELS ? REQUEST_OFF : level;
}

const char *request_level_name(int level)
{
    if (level == REQUEST_OFF)
        return "off";
    return level >= 0 && level < CUTIN_LEVELS ? level_name((uint32_t)level) : "";
}

/* Adds a word, with a blank before all but the first; a word that does not fit is left out. */
static void word_add(char *out, size_t size, const char *word, size_t length)
{
    size_t used = strlen(out), blank = used > 0;

    if (used + blank + length < size)
        snprintf(out + used, size - used, "%s%.*s", blank ? " " : "", (int)length, word);
}

void request_comment(int level, const char *comment, char *out, size_t size)
{
    static const char mine[] = "cutin=";
    char word[16];

    out[0] = '\0';
    while (*comment) {
        size_t length = strcspn(comment, " ");

        if (length > 0 && strncmp(comment, mine, sizeof(mine) - 1) != 0)
            word_add(out, size, comment, length);
        comment += length + (comment[length] == ' ');
    }
    if (level < 0)
        return;
    snprintf(word, sizeof(word), "%s%s", mine, request_level_name(level));
    word_add(out, size, word, strlen(word));
}
