/*
 * preload.c - libcutin.so inside programs that are not its clients, and what it shows to the
 * loader: exported names, needed libraries, silence.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIBRARY LIB_DIR "/libcutin.so"
#define PRELOAD "LD_PRELOAD=" LIBRARY

TestSuite(preload, .init = sandbox_enter, .fini = sandbox_leave);

static const char *const driver_names[] = {
#define API_PASS(symbol, ...)  #symbol,
#define API_DRAIN(symbol, ...) #symbol,
#define API_WRAP(symbol, ...)  #symbol,
#include "shim/lookup/api.def"
};

static bool is_ours(const char *name)
{
    static const char *const own[] = {"dlsym", "dlvsym", "ioctl", "cuResetHQ"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    return strncmp(name, "cutin_", 6) == 0;
}

/* Functions of CUPTI that tell when it records. */
static bool is_cuptis(const char *name)
{
    static const char *const says[] = {"cuptiActivityEnable", "cuptiActivityDisable",
                                       "cuptiUnsubscribe", "cuptiFinalize"};

    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
        if (strncmp(name, says[i], strlen(says[i])) == 0)
            return true;
    return false;
}

static bool is_cudas(const char *name)
{
    for (size_t i = 0; i < sizeof(driver_names) / sizeof(driver_names[0]); i++)
        if (strcmp(name, driver_names[i]) == 0)
            return true;
    return false;
}

Test(preload, exports_only_cuda_cupti_lookup_and_own_symbols)
{
    struct process *nm =
        process_run((const char *[]){"nm", "-D", "--defined-only", LIBRARY, NULL}, NULL, 20);
    int seen_ours = 0, seen_cudas = 0;
    char *save = NULL;

    cr_assert_eq(nm->status, 0, "nm: %s", process_err(nm));
    process_out(nm);
    for (char *line = strtok_r(nm->text[0], "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *name = strrchr(line, ' ') + 1;

        name[strcspn(name, "@")] = '\0';
        seen_ours += is_ours(name);
        seen_cudas += is_cudas(name);
        cr_expect(is_ours(name) || is_cudas(name) || is_cuptis(name), "exports %s", name);
    }
    cr_expect_geq(seen_ours, 3);
    cr_expect_gt(seen_cudas, 100);
    process_free(nm);
}

Test(preload, library_depends_only_on_libc)
{
    struct process *ldd = process_run((const char *[]){"ldd", LIBRARY, NULL}, NULL, 20);
    char *save = NULL;

    cr_assert_eq(ldd->status, 0);
    process_out(ldd);
    for (char *line = strtok_r(ldd->text[0], "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        cr_expect(strstr(line, "linux-vdso") || strstr(line, "libc.so.6") ||
                      strstr(line, "/ld-linux"),
                  "needs %s", line);
    process_free(ldd);
}

Test(preload, program_without_cuda_prints_the_same)
{
    const char *const bare[] = {"env", "-i", "PATH=/usr/bin:/bin", "ls", "/", NULL};
    const char *const with[] = {"env", "-i", "PATH=/usr/bin:/bin", PRELOAD, "ls", "/", NULL};
    struct process *expected = process_run(bare, NULL, 20), *got = process_run(with, NULL, 20);

    cr_expect_eq(got->status, 0);
    cr_expect_str_eq(process_out(got), process_out(expected));
    cr_expect_str_empty(process_err(got));
    process_free(expected);
    process_free(got);
}

Test(preload, program_without_cuda_gets_no_thread)
{
    const char *const argv[] = {
        "env", "-i", "PATH=/usr/bin:/bin", PRELOAD, "cat", "/proc/self/status", NULL};
    struct process *cat = process_run(argv, NULL, 20);

    cr_expect_eq(cat->status, 0);
    cr_expect_eq(number_after(process_out(cat), "Threads:"), 1);
    process_free(cat);
}

/* Builds a 32-bit program without 32-bit headers. The loader must run it without the library. */
static bool build_32bit(const char *source, const char *program)
{
    static const char *const libc[] = {"/lib32/libc.so.6", "/usr/lib32/libc.so.6",
                                       "/lib/i386-linux-gnu/libc.so.6"};
    FILE *f = fopen(source, "w");
    bool built = false;

    cr_assert_not_null(f);
    fputs("int puts(const char *); void _exit(int);\n"
          "int fflush(void *);\n"
          "__attribute__((force_align_arg_pointer)) void _start(void)\n"
          "{ puts(\"thirty-two\"); fflush(0); _exit(7); }\n",
          f);
    fclose(f);
    for (size_t i = 0; i < sizeof(libc) / sizeof(libc[0]) && !built; i++) {
        struct process *gcc = process_run(
            (const char *[]){"gcc", "-m32", "-nostdlib", "-fno-pie", "-no-pie",
                             "-fno-stack-protector", source, libc[i],
                             "-Wl,-dynamic-linker,/lib/ld-linux.so.2", "-o", program, NULL},
            NULL, 30);
        built = gcc->status == 0;
        process_free(gcc);
    }
    return built;
}

Test(preload, program_of_32_bits_still_runs)
{
    const char *program = sandbox_path("program32");
    struct process *p;

    if (!build_32bit(sandbox_path("program32.c"), program))
        cr_skip_test("no 32-bit C library to link with");
    p = process_run((const char *[]){program, NULL}, NULL, 20);
    if (p->status != 7) {
        process_free(p);
        cr_skip_test("this machine does not run 32-bit programs");
    }
    process_free(p);
    p = process_run((const char *[]){program, NULL}, (const char *[]){PRELOAD, NULL}, 20);
    cr_expect_eq(p->status, 7);
    cr_expect_str_eq(process_out(p), "thirty-two\n");
    process_free(p);
    /* `cutin run` runs it, too. */
    p = process_run((const char *[]){BIN_DIR "/cutin", "run", "--no-daemon", "--", program, NULL},
                    NULL, 20);
    cr_expect_eq(p->status, 7, "cutin run: %s", process_err(p));
    process_free(p);
}
