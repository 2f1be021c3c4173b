/*
 * exports.c - what libcutin.so shows to the loader: all symbols of the table, and which glibc it
 * needs.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *symbol;
    bool intercepted;
} rows[] = {
#define API_PASS(symbol, ...)  {#symbol, false},
#define API_DRAIN(symbol, ...) {#symbol, true},
#define API_WRAP               API_DRAIN
#include "shim/lookup/api.def"
};

/* Runs a command on the library, and keeps its output. */
static struct process *inspect(const char *program, const char *option, const char *other)
{
    const char *const argv[] = {program, option, other, CUTIN, NULL};
    struct process *p = process_run(argv, NULL, 30);

    cr_assert_eq(p->status, 0, "%s: %s", program, process_err(p));
    return p;
}

static bool exports(const char *nm, const char *symbol)
{
    char line[256];

    snprintf(line, sizeof(line), " %s\n", symbol);
    return strstr(nm, line);
}

Test(exports, exactly_the_intercepted_driver_symbols)
{
    struct process *p = inspect("nm", "-D", "--defined-only");
    const char *nm = process_out(p);

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_expect_eq(exports(nm, rows[i].symbol), rows[i].intercepted, "%s is %sexported",
                     rows[i].symbol, rows[i].intercepted ? "not " : "");
    cr_expect(exports(nm, "dlsym") && exports(nm, "dlvsym"));
    cr_expect_not(exports(nm, "dlopen"));
    process_free(p);
}

/* A program on an older system loads the library only if all versions that it needs are there. */
Test(exports, needs_no_newer_glibc_than_2_36)
{
    struct process *p = inspect("objdump", "-T", "-w");
    int newest = 0;

    for (const char *at = process_out(p); (at = strstr(at, "GLIBC_2.")); at++) {
        int minor = atoi(at + sizeof("GLIBC_2.") - 1);
        newest = minor > newest ? minor : newest;
    }
    cr_log_info("libcutin.so needs glibc 2.%d or newer", newest);
    fprintf(stderr, "libcutin.so needs glibc 2.%d or newer\n", newest);
    cr_expect_geq(newest, 2);
    cr_expect_leq(newest, 36);
    cr_expect_null(strstr(process_out(p), "GLIBC_PRIVATE"));
    process_free(p);
}

/* What tools/packages builds runs from glibc 2.17 on. That has the functions of the first rows, in
 * other versions; tools/packaging/floor.h supplies those of the last row. */
Test(exports, needs_only_listed_symbols_newer_than_glibc_2_17)
{
    static const char known[] =
        " dladdr dladdr1 dlclose dlerror dlinfo dlopen dlsym dlvsym fstat stat "
        "pthread_attr_getstacksize pthread_attr_setaffinity_np pthread_attr_setstacksize "
        "pthread_create pthread_detach pthread_join pthread_key_create pthread_key_delete "
        "pthread_mutex_trylock pthread_once pthread_setspecific pthread_sigmask "
        " gettid memfd_create ";
    struct process *p = inspect("nm", "-D", "--undefined-only");
    char name[64], spaced[70];
    int minor;

    for (const char *at = process_out(p); (at = strstr(at, " U ")); at++)
        if (sscanf(at, " U %63[^@\n]@GLIBC_2.%d", name, &minor) == 2 && minor > 17) {
            snprintf(spaced, sizeof(spaced), " %s ", name);
            cr_expect(strstr(known, spaced), "%s needs glibc 2.%d", name, minor);
        }
    process_free(p);
}

/* glibc 2.38 gives these new names (C23), so a library built there would load on no older glibc. */
Test(exports, imports_no_libc_number_parser)
{
    static const char *const renamed[] = {"strto", "__isoc", "sscanf", "fscanf", "atoi"};
    struct process *p = inspect("nm", "-D", "--undefined-only");

    for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++) {
        const char *at = strstr(process_out(p), renamed[i]);
        cr_expect_null(at, "%.*s", at ? (int)strcspn(at, "\n") : 0, at);
    }
    process_free(p);
}

Test(exports, linked_nodelete_symbolic_and_now)
{
    struct process *p = inspect("readelf", "-d", "-W");

    cr_expect(strstr(process_out(p), "NODELETE"));
    cr_expect(strstr(process_out(p), "SYMBOLIC"));
    cr_expect(strstr(process_out(p), "NOW"));
    process_free(p);
}
