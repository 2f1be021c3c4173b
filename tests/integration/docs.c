/*
 * docs.c - what the documents say about settings is what the library reads.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting {
    const char *name, *initial;
};

static const struct setting settings[] = {
#define CONFIG_WORD(variable, field, initial, words, help)         {#variable, words},
#define CONFIG_NUMBER(variable, field, initial, least, most, help) {#variable, #initial},
#define CONFIG_PATH(variable, field, initial, help)                {#variable, initial},
#include "shim/config.def"
#undef CONFIG_WORD
#undef CONFIG_NUMBER
#undef CONFIG_PATH
};

/* The words of a list setting, or the default of a number, stand in its row. */
static void row_says(const char *row, const struct setting *s)
{
    char line[512], words[128], *save = NULL;

    snprintf(line, sizeof(line), "%.*s", (int)strcspn(row, "\n"), row);
    snprintf(words, sizeof(words), "%s", s->initial);
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        if (strcmp(w, "0") != 0)
            cr_expect_not_null(strstr(line, w), "%s: its row does not name %s", s->name, w);
    }
}

Test(docs, readme_has_a_row_for_every_setting)
{
    char *readme = file_text(SOURCE_DIR "/README.md"), start[64];

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const char *row;

        snprintf(start, sizeof(start), "\n| `%s` |", settings[i].name);
        row = strstr(readme, start);
        cr_expect_not_null(row, "README.md has no row for %s", settings[i].name);
        if (row)
            row_says(row + 1, &settings[i]);
    }
    free(readme);
}
