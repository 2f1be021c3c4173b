/*
 * criterion.h - the part of Criterion's interface that the tests use, for builds with a sanitizer.
 *
 * Criterion keeps its tests in an arena at addresses that ThreadSanitizer reserves for its shadow,
 * so it cannot start there. Under AddressSanitizer its forks may hang; docs/CONTRIBUTING.md says
 * why. This replacement runs the same test files, each test in a process forked by a process
 * without threads. A failed assertion prints its place and its condition; use the ordinary build
 * for all other details of a failure.
 */
#ifndef RUNNER_CRITERION_H
#define RUNNER_CRITERION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runner_test {
    const char *suite, *name;
    void (*run)(void);
    /* The names that Criterion gives them, for `.init = ...` and so on. */
    void (*init)(void);
    void (*fini)(void);
    int signal, exit_code;
    bool disabled;
    const char *description;
    struct runner_test *next;
};

void runner_add_test(struct runner_test *t);
void runner_add_suite(struct runner_test *s);
void runner_failed(bool fatal, const char *file, int line, const char *what, const char *format,
                   ...) __attribute__((format(printf, 5, 6)));
_Noreturn void runner_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define Test(suite_, name_, ...)                                                                   \
    static void suite_##_##name_##_run(void);                                                      \
    static struct runner_test suite_##_##name_##_test = {                                          \
        .suite = #suite_, .name = #name_, .run = suite_##_##name_##_run, ##__VA_ARGS__};           \
    static void __attribute__((constructor)) suite_##_##name_##_add(void)                          \
    {                                                                                              \
        runner_add_test(&suite_##_##name_##_test);                                                 \
    }                                                                                              \
    static void suite_##_##name_##_run(void)

#define TestSuite(suite_, ...)                                                                     \
    static struct runner_test suite_##_suite = {.suite = #suite_, ##__VA_ARGS__};                  \
    static void __attribute__((constructor)) suite_##_suite_add(void)                              \
    {                                                                                              \
        runner_add_suite(&suite_##_suite);                                                         \
    }                                                                                              \
    struct runner_test

/* The message's arguments are evaluated only after a failure: they may free what was checked. */
#define RUNNER_CHECK(ok, fatal, what, ...)                                                         \
    ((ok) ? (void)0 : runner_failed(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__))

#define cr_assert(c, ...)     RUNNER_CHECK(!!(c), true, #c, __VA_ARGS__)
#define cr_expect(c, ...)     RUNNER_CHECK(!!(c), false, #c, __VA_ARGS__)
#define cr_assert_not(c, ...) RUNNER_CHECK(!(c), true, "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...) RUNNER_CHECK(!(c), false, "not " #c, __VA_ARGS__)
#define cr_assert_fail(...)   RUNNER_CHECK(false, true, "failed", __VA_ARGS__)
#define cr_expect_fail(...)   RUNNER_CHECK(false, false, "failed", __VA_ARGS__)
#define cr_fatal              cr_assert_fail
#define cr_fail               cr_expect_fail

#define cr_assert_eq(a, b, ...)  RUNNER_CHECK((a) == (b), true, #a " == " #b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)  RUNNER_CHECK((a) == (b), false, #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) RUNNER_CHECK((a) != (b), true, #a " != " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) RUNNER_CHECK((a) != (b), false, #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)  RUNNER_CHECK((a) < (b), true, #a " < " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)  RUNNER_CHECK((a) < (b), false, #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) RUNNER_CHECK((a) <= (b), true, #a " <= " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) RUNNER_CHECK((a) <= (b), false, #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)  RUNNER_CHECK((a) > (b), true, #a " > " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)  RUNNER_CHECK((a) > (b), false, #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) RUNNER_CHECK((a) >= (b), true, #a " >= " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) RUNNER_CHECK((a) >= (b), false, #a " >= " #b, __VA_ARGS__)

#define cr_assert_float_eq(a, b, e, ...)                                                           \
    RUNNER_CHECK((a) - (b) <= (e) && (b) - (a) <= (e), true, #a " == " #b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, e, ...)                                                           \
    RUNNER_CHECK((a) - (b) <= (e) && (b) - (a) <= (e), false, #a " == " #b, __VA_ARGS__)

#define cr_expect_arr_eq(a, b, size, ...)                                                          \
    RUNNER_CHECK(memcmp(a, b, size) == 0, false, #a " == " #b, __VA_ARGS__)
#define cr_expect_arr_neq(a, b, size, ...)                                                         \
    RUNNER_CHECK(memcmp(a, b, size) != 0, false, #a " != " #b, __VA_ARGS__)

#define cr_assert_null(p, ...)     RUNNER_CHECK(!(p), true, #p " is NULL", __VA_ARGS__)
#define cr_expect_null(p, ...)     RUNNER_CHECK(!(p), false, #p " is NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) RUNNER_CHECK(!!(p), true, #p " is not NULL", __VA_ARGS__)
#define cr_expect_not_null(p, ...) RUNNER_CHECK(!!(p), false, #p " is not NULL", __VA_ARGS__)

#define cr_assert_str_eq(a, b, ...)                                                                \
    RUNNER_CHECK(strcmp((a), (b)) == 0, true, #a " is " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)                                                                \
    RUNNER_CHECK(strcmp((a), (b)) == 0, false, #a " is " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)                                                               \
    RUNNER_CHECK(strcmp((a), (b)) != 0, true, #a " is not " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)                                                               \
    RUNNER_CHECK(strcmp((a), (b)) != 0, false, #a " is not " #b, __VA_ARGS__)
#define cr_assert_str_empty(s, ...) RUNNER_CHECK((s)[0] == '\0', true, #s " is empty", __VA_ARGS__)
#define cr_expect_str_empty(s, ...) RUNNER_CHECK((s)[0] == '\0', false, #s " is empty", __VA_ARGS__)
#define cr_assert_str_not_empty(s, ...)                                                            \
    RUNNER_CHECK((s)[0] != '\0', true, #s " is not empty", __VA_ARGS__)
#define cr_expect_str_not_empty(s, ...)                                                            \
    RUNNER_CHECK((s)[0] != '\0', false, #s " is not empty", __VA_ARGS__)

#define cr_skip_test(...) runner_skip(" " __VA_ARGS__)
#define cr_skip           cr_skip_test
#define cr_log_info(...)  (fprintf(stderr, " " __VA_ARGS__), fputc('\n', stderr))

#endif
