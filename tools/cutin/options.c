/*
 * options.c - options of the subcommands from their tables: parsing, help text, error lines.
 */
#include "subcommand.h"
#include "common/text.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_OPTIONS = 40,
    HELP_COLUMN = 26,
    /* Values of getopt_long's `val`. Those of rows count up from VAL_ROW, above every character. */
    VAL_HELP = 0x100,
    VAL_ROW = 0x101,
};

const char *program_name = "cutin";

int say(const struct subcommand *cmd, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s%s%s: %s\n", program_name, cmd ? " " : "", cmd ? cmd->name : "", text);
    return EXIT_FAILURE;
}

_Noreturn void fail_usage(const struct subcommand *cmd, const char *format, ...)
{
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    say(cmd, "%s; see `%s %s%s`", text, program_name, cmd ? cmd->name : "help",
        cmd ? " --help" : "");
    exit(EXIT_USAGE);
}

/* Returns the row of a short option, or -1. */
static int row_of_letter(const struct subcommand *cmd, int letter)
{
    for (int row = 0; cmd->options && cmd->options[row].name; row++)
        if (letter && cmd->options[row].letter == letter)
            return row;
    return -1;
}

/* getopt_long tells what was wrong in three ways: optopt is a row's value, a letter, or 0. */
_Noreturn static void wrong_option(const struct subcommand *cmd, int what, char **argv)
{
    int letter_row = row_of_letter(cmd, optopt);
    const struct option_row *named = optopt >= VAL_ROW ? &cmd->options[optopt - VAL_ROW] : NULL;
    const char *text = argv[optind - 1], *meant = NULL;
    size_t least = EDIT_TOO_FAR, dashes = strspn(text, "-"), length = strcspn(text, "=");

    if (what == ':' && letter_row >= 0)
        fail_usage(cmd, "option -%c needs a value (%s)", optopt, cmd->options[letter_row].arg);
    if (what == ':')
        fail_usage(cmd, "option --%s needs a value (%s)", named->name, named->arg);
    if (optopt >= VAL_HELP)
        fail_usage(cmd, "option --%s takes no value", named ? named->name : "help");
    if (optopt)
        fail_usage(cmd, "unknown option -%c", optopt);
    for (const struct option_row *row = cmd->options; row && row->name; row++) {
        size_t changes =
            row->help ? edit_distance(text + dashes, length - dashes, row->name) : EDIT_TOO_FAR;

        if (changes < least) {
            least = changes;
            meant = row->name;
        }
    }
    if (meant)
        fail_usage(cmd, "unknown option %s (did you mean --%s?)", text, meant);
    fail_usage(cmd, "unknown option %s", text);
}

void options_no_operands(const struct subcommand *cmd, int argc, char **argv)
{
    if (optind < argc)
        fail_usage(cmd, "unexpected argument %s", argv[optind]);
}

static double decimal_of(const struct subcommand *cmd, int row, const char *text)
{
    const double *bounds = cmd->options[row].target.decimal;
    char *end;
    double value = strtod(text, &end);

    /* Digits and a point alone: strtod also accepts " 1", "+1", "nan" and "inf". */
    if (strspn(text, "0123456789.") != strlen(text) || end == text || *end || value < bounds[0] ||
        value > bounds[1])
        fail_usage(cmd, "--%s=%s is not a number from %g to %g", cmd->options[row].name, text,
                   bounds[0], bounds[1]);
    return value;
}

/* The index of the word that was given. */
static int index_at(const struct subcommand *cmd, int row)
{
    const char *const *words = cmd->options[row].target.words;
    char list[256] = "";

    for (int i = 0; words[i]; i++) {
        if (strcmp(optarg, words[i]) == 0)
            return i;
        if (i)
            strncat(list, words[i + 1] ? ", " : " or ", sizeof(list) - strlen(list) - 1);
        strncat(list, words[i], sizeof(list) - strlen(list) - 1);
    }
    fail_usage(cmd, "--%s=%s is not %s", cmd->options[row].name, optarg, list);
}

static uint64_t number_at(const struct subcommand *cmd, int row)
{
    const uint64_t *bounds = cmd->options[row].target.number;
    uint64_t value;

    if (!number_read(optarg, bounds[0], bounds[1], &value))
        fail_usage(cmd, "--%s=%s is not a number from %llu to %llu", cmd->options[row].name, optarg,
                   (unsigned long long)bounds[0], (unsigned long long)bounds[1]);
    return value;
}

static void option_take(const struct subcommand *cmd, int row)
{
    const struct option_target *p = &cmd->options[row].target;
    size_t length;

    switch (p->kind) {
    case OPTION_FLAG:
        *(bool *)p->at = true;
        break;
    case OPTION_NUMERAL:
        number_at(cmd, row);
        /* fall through */
    case OPTION_TEXT:
        *(const char **)p->at = optarg;
        break;
    case OPTION_U32:
        *(uint32_t *)p->at = (uint32_t)number_at(cmd, row);
        break;
    case OPTION_U64:
        *(uint64_t *)p->at = number_at(cmd, row);
        break;
    case OPTION_DECIMAL:
        *(double *)p->at = decimal_of(cmd, row, optarg);
        break;
    case OPTION_US:
        length = strlen(optarg);
        if (length > 2 && strcmp(optarg + length - 2, "us") == 0)
            length -= 2;
        snprintf(p->at, OPTIONS_US, "%.*s", (int)length, optarg);
        decimal_of(cmd, row, p->at);
        break;
    case OPTION_INDEX:
        *(int *)p->at = index_at(cmd, row);
        break;
    case OPTION_WORD:
        *(const char **)p->at = p->words[index_at(cmd, row)];
        break;
    case OPTION_BITS:
        *(uint32_t *)p->at |= 1u << index_at(cmd, row);
        break;
    case OPTION_CUSTOM:
        p->custom(cmd, row, p->at);
        break;
    }
}

void options_read(const struct subcommand *cmd, int argc, char **argv)
{
    struct option table[MOST_OPTIONS + 2];
    char letters[2 * MOST_OPTIONS + 4], *end = stpcpy(letters, cmd->anywhere ? ":h" : "+:h");
    const struct option_row *o = cmd->options;
    int val, n = 0;

    for (; o && o[n].name && n < MOST_OPTIONS; n++) {
        table[n] = (struct option){.name = o[n].name,
                                   .has_arg = o[n].arg ? required_argument : no_argument,
                                   .val = VAL_ROW + n};
        if (o[n].letter)
            end += sprintf(end, "%c%s", o[n].letter, o[n].arg ? ":" : "");
    }
    table[n++] = (struct option){.name = "help", .has_arg = no_argument, .val = VAL_HELP};
    table[n] = (struct option){0};
    opterr = 0;
    while ((val = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        if (val == '?' || val == ':')
            wrong_option(cmd, val, argv);
        if (val == 'h' || val == VAL_HELP) {
            options_help(cmd);
            exit(EXIT_SUCCESS);
        }
        option_take(cmd, val >= VAL_ROW ? val - VAL_ROW : row_of_letter(cmd, val));
    }
}

static void help_row(const struct option_row *row)
{
    char left[64], brief[8] = "";
    int width;

    if (row->letter)
        snprintf(brief, sizeof(brief), "-%c, ", row->letter);
    width = snprintf(left, sizeof(left), "  %s--%s%s%s", brief, row->name, row->arg ? " " : "",
                     row->arg ? row->arg : "");
    printf("%s%*s", left, width < HELP_COLUMN - 1 ? HELP_COLUMN - width : 2, "");
    for (const char *c = row->help; *c; c++) {
        putchar(*c);
        if (*c == '\n')
            printf("%*s", HELP_COLUMN, "");
    }
    putchar('\n');
}

void options_help(const struct subcommand *cmd)
{
    printf("Usage: %s %s%s%s\n%s\n", program_name, cmd->name, cmd->synopsis[0] ? " " : "",
           cmd->synopsis, cmd->summary);
    if (cmd->about)
        printf("\n%s\n", cmd->about);
    printf("\nOptions:\n");
    for (const struct option_row *row = cmd->options; row && row->name; row++)
        if (row->help)
            help_row(row);
    help_row(&(struct option_row){.name = "help", .help = "show this text"});
}
