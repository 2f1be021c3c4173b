/*
 * redirect.h - checks what a test writes to stderr (see criterion.h).
 */
#ifndef RUNNER_CRITERION_REDIRECT_H
#define RUNNER_CRITERION_REDIRECT_H

#include <criterion/criterion.h>

void cr_redirect_stderr(void);
/* Whether `text` is what was written since the redirection, or since the last such check. */
bool runner_stderr_is(const char *text);

#define cr_expect_stderr_eq_str(text, ...)                                                         \
    RUNNER_CHECK(runner_stderr_is(text), false, "stderr is " #text, __VA_ARGS__)

#endif
