/*
 * subcommand.h - what the subcommands share: a table row for each, options, error lines, and JSON.
 *
 * A subcommand is one file and one `struct subcommand`. Its options are a table; getopt_long, the
 * help text and the tests all walk that table.
 */
#ifndef CUTIN_TOOLS_CUTIN_SUBCOMMAND_H
#define CUTIN_TOOLS_CUTIN_SUBCOMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct subcommand;

/* Where options_read stores an option's value: a variable of static storage. */
struct option_target {
    enum {
        OPTION_FLAG,
        OPTION_TEXT,
        OPTION_NUMERAL, /* a number, kept as text */
        OPTION_U32,
        OPTION_U64,
        OPTION_DECIMAL,
        OPTION_US,
        OPTION_INDEX, /* the index of the word that was given */
        OPTION_WORD,
        OPTION_BITS, /* a bit for each word that was given, by its index */
        OPTION_CUSTOM,
    } kind;
    void *at;
    union {
        uint64_t number[2]; /* least and most */
        double decimal[2];
        const char *const *words;
        void (*custom)(const struct subcommand *cmd, int row, void *at);
    };
};

#define TAKE_FLAG(v) .target = {OPTION_FLAG, &(v)}
#define TAKE_TEXT(v) .target = {OPTION_TEXT, &(v)}
#define TAKE_NUMBER(v, least, most)                                                                \
    .target = {                                                                                    \
        _Generic((v), const char *: OPTION_NUMERAL, uint32_t: OPTION_U32, uint64_t: OPTION_U64),   \
        &(v), .number = {least, most}}
#define TAKE_DECIMAL(v, least, most) .target = {OPTION_DECIMAL, &(v), .decimal = {least, most}}
#define TAKE_US(v, most)             .target = {OPTION_US, v, .decimal = {0, most}}
#define TAKE_WORD(v, list)                                                                         \
    .target = {_Generic((v), const char *: OPTION_WORD, default: OPTION_INDEX), &(v), .words = list}
#define TAKE_WORDS(v, list) .target = {OPTION_BITS, &(v), .words = list}
#define TAKE_BY(take, v)    .target = {OPTION_CUSTOM, &(v), .custom = take}

struct option_row {
    const char *name; /* long option, without the dashes */
    const char *arg;  /* the argument's name in the help text; NULL: the option takes none */
    const char *help; /* further lines are indented like the first; NULL: hidden from users */
    char letter;      /* the short option for the same; 0: none */
    struct option_target target;
};

struct subcommand {
    const char *name;
    const char *elsewhere;            /* the name of a similar command elsewhere; NULL: none */
    const char *summary;              /* one line for the overview */
    const char *synopsis;             /* what follows the name in the usage line */
    const char *about;                /* a paragraph for --help; NULL: none */
    bool anywhere;                    /* options may follow the operands, too */
    const struct option_row *options; /* ends with a row without a name; --help is implied */
    /* Gets itself, and its name as argv[0]. Returns the exit status. */
    int (*run)(const struct subcommand *cmd, int argc, char **argv);
};

extern const struct subcommand subcommand_run, subcommand_trace, subcommand_list, subcommand_top,
    subcommand_set, subcommand_pause, subcommand_resume, subcommand_reset, subcommand_policy,
    subcommand_latency, subcommand_doctor, subcommand_profile, subcommand_cdi, subcommand_version,
    subcommand_help;

/* A command line program of this tree: its name, and its subcommands in groups. */
struct group {
    const char *heading;
    const struct subcommand *subcommands[8]; /* the last is NULL */
};

struct program {
    const char *name;
    const char *purpose;    /* one line */
    const char *more;       /* lines that say where to read on */
    struct group groups[6]; /* in the order of the help text; the last has no heading */
};

/* Finds the subcommand and runs it. Returns the exit status. */
int program_main(const struct program *program, int argc, char **argv);

/* Exit statuses: a shell's where the command runs a program, and 2 for a wrong command line. */
enum { EXIT_USAGE = 2, EXIT_OWN_FAILURE = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

/* ---- options.c ----------------------------------------------------------------------------- */

/*
 * Reads every option into its target; `optind` is then the first operand. Reading ends at the first
 * operand, unless options may stand anywhere; then the operands are moved to the end. --help prints
 * the help text and exits 0. A wrong option prints one line that names it and exits 2.
 */
void options_read(const struct subcommand *cmd, int argc, char **argv);
/* For commands without operands: if there is one, prints one line and exits 2. */
void options_no_operands(const struct subcommand *cmd, int argc, char **argv);
enum { OPTIONS_US = 16 }; /* bytes of a TAKE_US variable: the text, without "us" at its end */
void options_help(const struct subcommand *cmd);

/* The program's name in help texts, on stderr and in results. */
extern const char *program_name;

/* Prints one object on stdout, indented unless `flags` has JSON_COMPACT. Takes the reference.
 * Returns the exit status. */
struct json_t;
int print_object(struct json_t *root, size_t flags);
/* Prints one line on stderr: "cutin NAME: ...". Returns EXIT_FAILURE, so that a caller can return
 * it. `fail_usage` adds where to look and exits 2. */
int say(const struct subcommand *cmd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void fail_usage(const struct subcommand *cmd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
