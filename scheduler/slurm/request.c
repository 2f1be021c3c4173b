/*
 * request.c - levels and numbers as users write them, and as a job's comment shows them.
 */
#include "scheduler/slurm/site.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/level.h"
#include "common/words.h"

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

int request_number(const char *text, uint32_t most, uint32_t *number)
{
    unsigned long n;
    char *end;

    errno = 0;
    n = strtoul(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || n < 1 || n > most)
        return -EINVAL;
    *number = (uint32_t)n;
    return 0;
}

/* Adds a word, with a blank in front of all but the first; one that does not fit is left out. */
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
