/*
 * redirect.h - what a test writes on stderr (see criterion.h).
 */
#ifndef RUNNER_CRITERION_REDIRECT_H
#define RUNNER_CRITERION_REDIRECT_H

#include <criterion/criterion.h>

void cr_redirect_stderr(void);
/* Of what was written since then, or since it was last asked. */
bool runner_stderr_is(const char *text);

#define cr_expect_stderr_eq_str(text, ...)                                                         \
    RUNNER_CHECK(runner_stderr_is(text), false, "stderr is " #text, __VA_ARGS__)

#endif
