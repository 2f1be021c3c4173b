/*
 * hint_absent.c - cutin.h without libcutin.so and without any CUDA driver: every function is there
 * and says that it did nothing. The same holds if the library is loaded and switched off.
 */
#include "shim/cutin.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(hint_absent, every_function_reports_doing_nothing)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    cr_assert_eq(!!cutin_version(), !!getenv("CUTIN_DISABLE"));
    cr_assert_eq(cutin_stream_reset(NULL), 0);
    cr_assert_eq(cuResetHQ(NULL), 0);
    cr_assert_eq(cutin_stream_hold(NULL), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_stream_release(NULL), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_stream_state(NULL, &state), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_thread_set_level(0), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_stream_set_level(NULL, 0), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_hint_soon(1), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_section_begin(), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_section_end(), CUTIN_NOT_LOADED);
    cr_assert_eq(cutin_hint_deadline(1), CUTIN_NOT_LOADED);
}
