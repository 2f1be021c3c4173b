/*
 * docs.c - what the documents say about settings is what the library reads, and the tests that
 * documents name exist.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/level.h"
#include "common/text.h"

struct setting {
    const char *name, *initial,
        *words; /* words: NULL, or the words that it may be; `initial` is then an index */
};

static const struct setting settings[] = {
#define CONFIG_WORD(variable, field, initial, words, help)         {#variable, #initial, words},
#define CONFIG_NUMBER(variable, field, initial, least, most, help) {#variable, #initial, NULL},
#define CONFIG_MICROS                                              CONFIG_NUMBER
#define CONFIG_PATH(variable, field, initial, help)                {#variable, "", NULL},
#include "shim/lookup/config.def"
};

/* "| `NAME` | what it does, with each word that it may be | the default |" */
static void row_says(const char *row, const struct setting *s)
{
    char line[1024], words[128] = "", quoted[64], *save = NULL, *initial;
    size_t number = strlen(s->initial);
    int place = 0;

    snprintf(line, sizeof(line), "%.*s", (int)strcspn(row, "\n"), row);
    cr_assert_str_eq(line + strlen(line) - 2, " |", "%s", line);
    line[strlen(line) - 2] = '\0';
    initial = strstr(line, " | ") + 3;
    cr_assert_not_null(initial = strstr(initial, " | "), "%s: its row has no default", s->name);
    *initial = '\0';
    initial += 3;
    if (!s->words)
        cr_expect(strncmp(initial, s->initial, number) == 0 &&
                      (!number || !initial[number] || initial[number] == ':'),
                  "%s is %s unless set, not %s", s->name, s->initial, initial);
    snprintf(words, sizeof(words), "%s", s->words ? s->words : "");
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save), place++) {
        bool zero = strcmp(w, "0") == 0; /* the table calls this word "off" */

        snprintf(quoted, sizeof(quoted), "`%s`", w);
        cr_expect(zero || strstr(line, quoted), "%s: its row does not name %s", s->name, w);
        if (place == atoi(s->initial))
            cr_expect_str_eq(initial, zero ? "off" : quoted, "%s is %s unless set, not %s", s->name,
                             w, initial);
    }
}

Test(docs, every_setting_has_a_row)
{
    char *page = file_text(SOURCE_DIR "/docs/settings.md"), start[64];

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const char *row;

        snprintf(start, sizeof(start), "\n| `%s` |", settings[i].name);
        row = strstr(page, start);
        cr_expect_not_null(row, "docs/settings.md has no row for %s", settings[i].name);
        if (row)
            row_says(row + 1, &settings[i]);
    }
    free(page);
}

/* A newcomer can read it in a minute. */
Test(docs, readme_is_short)
{
    char *readme = file_text(SOURCE_DIR "/README.md");
    int lines = 0, variables = 0;

    for (const char *at = readme; (at = strchr(at, '\n')); at++)
        lines++;
    for (const char *at = readme; (at = strstr(at, "\n| `CUTIN_")); at++)
        variables++;
    cr_expect_leq(lines, 150);
    cr_expect_leq(variables, 8);
    free(readme);
}

/* The text of all test sources. */
static char *test_sources(void)
{
    char *all = calloc(1, 1);
    size_t size = 1;
    glob_t found;

    cr_assert_eq(glob(SOURCE_DIR "/tests/*/*.c", 0, NULL, &found), 0);
    cr_assert_eq(glob(SOURCE_DIR "/tests/*/*/*.c", GLOB_APPEND, NULL, &found), 0);
    cr_assert_eq(glob(SOURCE_DIR "/tests/*/*/*/*.c", GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text = file_text(found.gl_pathv[i]);

        all = realloc(all, size += strlen(text));
        cr_assert_not_null(all);
        strcat(all, text);
        free(text);
    }
    globfree(&found);
    return all;
}

/* True where `name` stands like a test's name: between a bracket or a blank and a bracket or a
 * comma. */
static bool is_test(const char *sources, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = sources; (at = strstr(at, name)); at += length)
        if (at > sources && strchr("( ", at[-1]) && strchr("),", at[length]))
            return true;
    return false;
}

/* Every test that a document names exists, and it names at least this many. */
static void names_tests(const char *path, unsigned least)
{
    char *text = file_text(path), *sources = test_sources(), *save = NULL;
    unsigned named = 0;

    /* Names of tests are code of small letters, digits and at least one underscore. */
    strtok_r(text, "`", &save);
    for (char *code; (code = strtok_r(NULL, "`", &save)); strtok_r(NULL, "`", &save)) {
        if (strspn(code, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(code) ||
            !strchr(code, '_') || strcmp(code, "kill_storm") == 0)
            continue;
        cr_expect(is_test(sources, code), "%s names a test %s", path, code);
        named++;
    }
    cr_expect_geq(named, least);
    free(sources);
    free(text);
}

Test(docs, tests_named_in_hazards_exist)
{
    names_tests(SOURCE_DIR "/docs/hazards.md", 40);
}

Test(docs, tests_named_in_differences_exist)
{
    names_tests(SOURCE_DIR "/docs/differences.md", 30);
}

Test(docs, tests_named_in_security_exist)
{
    names_tests(SOURCE_DIR "/docs/security.md", 10);
}
