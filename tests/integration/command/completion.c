/*
 * completion.c - bash completes every command and option of the help texts, and what follows them.
 */
#include "tests/integration/process.h"
#include "tests/scheduler/stop.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/policy.h"

TestSuite(completion, .init = sandbox_enter, .fini = sandbox_leave);

/* Returns what bash offers after `line`, one offer a line, with a newline before and after all. The
 * first word of `line` is the program, and its last one is to be completed. */
static const char *offers(const char *line)
{
    static const char script[] = "source " SOURCE_DIR "/tools/cutin/completion.bash || exit\n"
                                 "read -ra COMP_WORDS <<<\"$1\"\n"
                                 "[[ $1 != *' ' ]] || COMP_WORDS+=('')\n"
                                 "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                 "_cutin " BIN_DIR "/${COMP_WORDS[0]}\n"
                                 "echo; printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    static char text[20000];
    struct process *p =
        process_run((const char *[]){"bash", "-c", script, "bash", line, NULL}, NULL, 30);

    cr_assert_eq(p->status, 0, "%s: %s", line, process_err(p));
    cr_expect_str_eq(process_err(p), "");
    snprintf(text, sizeof(text), "%s", process_out(p));
    process_free(p);
    return text;
}

static bool offered(const char *text, const char *word)
{
    char line[64];

    snprintf(line, sizeof(line), "\n%.60s\n", word);
    return strstr(text, line);
}

/* Finds the word after each `start` that begins a line of a help text. Returns how many. */
static int words_of(const char *text, const char *start, char words[][32], int most)
{
    int n = 0;

    for (const char *at = text; at && *at && n < most; at = strchr(at, '\n')) {
        size_t length;

        at += *at == '\n';
        if (strncmp(at, start, strlen(start)) != 0)
            continue;
        at += strlen(start);
        length = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-");
        snprintf(words[n++], 32, "%.*s", (int)length, at);
    }
    return n;
}

static int help_words(const char *program, const char *command, const char *start, char words[][32],
                      int most)
{
    char path[256];
    struct process *p;
    int n;

    snprintf(path, sizeof(path), BIN_DIR "/%s", program);
    p = process_run((const char *[]){path, "help", command, NULL}, NULL, 30);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    n = words_of(process_out(p), start, words, most);
    process_free(p);
    return n;
}

/* Every command and every option of the program is offered. Returns the number of options. */
static int check_program(const char *program, int least)
{
    char commands[40][32], options[40][32], start[40], line[100];
    const char *text;
    int n, all = 0;

    snprintf(start, sizeof(start), "  %s ", program);
    n = help_words(program, NULL, start, commands, 40);
    cr_assert_geq(n, least, "only %d commands", n);
    snprintf(line, sizeof(line), "%s ", program);
    text = offers(line);
    for (int i = 0; i < n; i++)
        cr_expect(offered(text, commands[i]), "%s %s", program, commands[i]);
    for (int i = 0; i < n; i++) {
        int m = help_words(program, commands[i], "  --", options, 40);

        cr_expect_geq(m, 1);
        all += m;
        snprintf(line, sizeof(line), "%s %.31s --", program, commands[i]);
        text = offers(line);
        for (int k = 0; k < m; k++) {
            snprintf(line, sizeof(line), "--%.31s", options[k]);
            cr_expect(offered(text, line), "%s %s %s", program, commands[i], line);
        }
    }
    return all;
}

Test(completion, every_command_and_every_option_is_offered)
{
    int all = check_program("cutin", 13) + check_program("cutin-lab", 10);

    cr_expect_geq(all, 50, "only %d options", all);
}

Test(completion, values_and_operands_are_offered)
{
    static const char *const levels[] = {"be", "1", "2", "rt"};
    const char *text = offers("cutin run --sim --priority ");

    for (size_t i = 0; i < 4; i++)
        cr_expect(offered(text, levels[i]), "%s", levels[i]);
    cr_expect(offered(offers("cutin run --priority r"), "rt"));
    cr_expect_not(offered(offers("cutin run --priority r"), "be"));
    text = offers("cutin policy ");
    for (uint32_t i = 0; policies[i]; i++)
        cr_expect(offered(text, policies[i]->name), "%s", policies[i]->name);
    cr_expect(offered(offers("cutin help do"), "doctor"));
    cr_expect(offered(offers("cutin run ba"), "bash"));
    cr_expect(offered(offers("cutin run --depth 3 -- ba"), "bash"));
    /* Options of the program that is run are not those of `cutin run`. */
    cr_expect_not(offered(offers("cutin run bash --"), "--priority"));
    cr_expect(offered(offers("cutin list --socket /et"), "/etc"));
    cr_expect_not(offered(offers("cutin list "), "--json"));
}

Test(completion, offered_choices_are_in_help_text)
{
    static const char *const lines[] = {
        "cutin-lab preset ",           "cutin latency --stages ",    "cutin latency --mode ",
        "cutin latency --arrivals ",   "cutin-lab disb --mode ",     "cutin-lab disb --workload ",
        "cutin-lab whatif --pages ",   "cutin-lab whatif --blocks ", "cutin-lab whatif --pattern ",
        "cutin-lab replay --arrivals "};

    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char program[32], command[32], path[256], *words = strdup(offers(lines[i])), *rest = words;
        struct process *help;
        int n = 0;

        cr_assert_eq(sscanf(lines[i], "%31s %31s", program, command), 2);
        snprintf(path, sizeof(path), BIN_DIR "/%s", program);
        help = process_run((const char *[]){path, "help", command, NULL}, NULL, 30);
        for (char *word; (word = strsep(&rest, "\n"));) {
            n += *word != '\0';
            cr_expect_not_null(strstr(process_out(help), word), "%s%s", lines[i], word);
        }
        cr_expect_geq(n, 2, "%s", lines[i]);
        process_free(help);
        free(words);
    }
}

Test(completion, short_options_and_values_after_equals_sign_are_offered)
{
    cr_expect(offered(offers("cutin run --priority = r"), "rt")); /* Readline splits it like this */
    cr_expect(offered(offers("cutin run --priority = "), "be"));
    cr_expect(offered(offers("cutin run --priority = rt ba"), "bash"));
    cr_expect(offered(offers("cutin trace --out"), "--output"));
    cr_expect(offered(offers("cutin trace -o /et"), "/etc"));
    cr_expect(offered(offers("cutin trace ba"), "bash"));
    cr_expect_not(offered(offers("cutin trace bash --"), "--merge"));
    cr_expect(offered(offers("cutin trace --merge /et"), "/etc"));
}

Test(completion, ids_of_running_programs_are_offered)
{
    static const char *const lines[] = {"cutin pause ", "cutin set ", "cutin latency --attach "};
    struct process *p;
    char pid[16];

    setenv("CUTIN_SOCKET", sandbox_path("s"), 1);
    p = process_start((const char *[]){BIN_DIR "/cutin", "run", "--sim", "--",
                                       BIN_DIR "/examples/be_training", "--steps", "1000000", NULL},
                      NULL);
    snprintf(pid, sizeof(pid), "%d", (int)p->pid);
    for (int i = 0; i < 600 && !offered(offers("cutin pause "), pid); i++)
        nap_ms(100);
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        cr_expect(offered(offers(lines[i]), pid), "%s", lines[i]);
    process_free(p);
    cr_expect_eq(daemon_stop(sandbox_path("s")), 0);
}
