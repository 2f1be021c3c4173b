/*
 * python_module.c - the Python module `cutin` of the wheel says what cutin.h says in C, and nothing
 * if the library is not loaded.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(python_module, .init = sandbox_enter, .fini = sandbox_leave);

static const char *const module[] = {"PYTHONPATH=" SOURCE_DIR "/tools/packaging",
                                     "PYTHONDONTWRITEBYTECODE=1", SIMULATOR, NULL};

static void says(const char *expected, const char *const argv[])
{
    struct process *p = process_run(argv, module, 60);

    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_str_eq(process_out(p), expected);
    process_free(p);
}

#define PROGRAM "python3", SOURCE_DIR "/tests/integration/command/python_module.py", NULL
#define UNDER(level)                                                                               \
    (const char *[])                                                                               \
    {                                                                                              \
        CUTIN, "run", "--sim", "--no-daemon", "--priority", level, "--", PROGRAM                   \
    }

Test(python_module, reports_hints_level_and_stream_state)
{
    if (system("python3 -c ''") != 0)
        cr_skip("no python3");
    says("False False False None\n", (const char *[]){PROGRAM});
    says("True False False (0, True, 0)\n", UNDER("be"));
    says("True True True (3, False, 0)\n", UNDER("rt"));
}

/* Ray's plugin is tested without Ray: a stub provides its base class. */
Test(python_module, ray_plugin_sets_worker_level_and_reports_refusal)
{
    struct process *daemon;

    if (system("python3 -c ''") != 0)
        cr_skip("no python3");
    setenv("PATH", BIN_DIR ":/usr/local/bin:/usr/bin:/bin", 1);
    daemon = daemon_start();
    says("rt 2 True\n"
         "level rt is refused on this node: rt = uid:1000 would grant it\n"
         "no command `cutin` on this node: install the wheel where Ray runs, on each node\n",
         (const char *[]){"python3", SOURCE_DIR "/tests/integration/command/ray_plugin.py", NULL});
    process_free(daemon);
}
