/*
 * names.c - names of kernels on their way from the driver to people: whole in files, readable in
 * tables and traces, and unchanged where that is asked for.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

TestSuite(names, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_names"

#define ADD                                                                                        \
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_"                          \
    "addIfEESt5arrayIPcLm3EELb0EEEviT0_T1_"
#define ADD_WHOLE                                                                                  \
    "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "            \
    "std::array<char*, 3ul>, false>"
#define ADD_SHORT "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, ...>"
#define TRITON    "triton_poi_fused_add_relu_0"

/* Longer than every field that ever held a name. */
static char longest[6000];

static void longest_make(void)
{
    int n = snprintf(longest, sizeof(longest), "_Z4longIJ");

    for (int i = 0; i < 5900 - n; i++)
        longest[n + i] = "ifdcs"[i % 5];
    strcat(longest, "EEvv");
}

static char *run(const char *const argv[])
{
    struct process *p = process_run(argv, NULL, 60);
    char *out;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    out = strdup(process_out(p));
    process_free(p);
    return out;
}

#define RUN(...) run((const char *[]){__VA_ARGS__, NULL})

static void learn(void)
{
    longest_make();
    free(RUN(CUTIN, "run", "--sim", "--no-daemon", PROGRAM, ADD, "100", longest, "1", TRITON, "1"));
}

static bool tells(json_t *kernels, const char *function, const char *symbol)
{
    json_t *kernel;
    size_t i;

    json_array_foreach(kernels, i, kernel)
    {
        if (strcmp(json_string_value(json_object_get(kernel, "symbol")), symbol) == 0 &&
            strcmp(json_string_value(json_object_get(kernel, "function")), function) == 0)
            return true;
    }
    return false;
}

Test(names, profile_stores_mangled_and_prints_demangled_names)
{
    char *text;
    json_t *root, *kernels;

    learn();
    text = RUN(CUTIN, "profile");
    cr_expect_not_null(strstr(text, ADD_SHORT " "), "%s", text);
    cr_expect_not_null(strstr(text, TRITON " "), "%s", text);
    cr_expect_null(strstr(text, "_ZN2at"), "%s", text);
    free(text);
    text = RUN(CUTIN, "profile", "--mangled");
    cr_expect_not_null(strstr(text, ADD " "), "%s", text);
    cr_expect_not_null(strstr(text, longest), "%s", text);
    free(text);
    text = RUN(CUTIN, "profile", "--json");
    root = json_loads(text, 0, NULL);
    kernels = json_object_get(json_array_get(json_object_get(root, "gpus"), 0), "kernels");
    cr_expect(tells(kernels, ADD_WHOLE, ADD), "%s", text);
    cr_expect(tells(kernels, TRITON, TRITON), "%s", text);
    json_decref(root);
    free(text);
}

/* Counts the events of this category with this name in a trace merged from a process and the
 * device. */
static size_t events(const char *file, const char *category, const char *name)
{
    json_t *root = json_load_file(file, 0, NULL), *event;
    size_t i, n = 0;

    cr_assert_not_null(root);
    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        const char *cat = json_string_value(json_object_get(event, "cat"));
        n += cat && strcmp(cat, category) == 0 &&
             strcmp(json_string_value(json_object_get(event, "name")), name) == 0;
    }
    json_decref(root);
    return n;
}

Test(names, traces_demangle_unless_mangled_is_requested)
{
    const char *file = sandbox_path("t.json");

    longest_make();
    free(RUN(CUTIN, "trace", "--sim", "-o", file, "--", PROGRAM, "5", ADD, "100", TRITON, "1",
             longest, "1"));
    cr_expect_eq(events(file, "call", ADD_WHOLE), 5);
    cr_expect_eq(events(file, "kernel", ADD_WHOLE), 5, "the simulator's own log");
    cr_expect_eq(events(file, "call", TRITON), 5);
    free(RUN(CUTIN, "trace", "--sim", "--mangled", "-o", file, "--", PROGRAM, "5", ADD, "100",
             longest, "1"));
    cr_expect_eq(events(file, "call", ADD), 5);
    cr_expect_eq(events(file, "call", longest), 5);
    cr_expect_eq(events(file, "kernel", longest), 5, "the simulator's own log");
}
