/*
 * latency.c - `cutin latency --json` prints what scripts build on. No figure is judged here.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

TestSuite(latency, .init = sandbox_enter, .fini = sandbox_leave, .timeout = 600);

static json_t *get(json_t *root, const char *path)
{
    char copy[128], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key; key = strtok_r(NULL, ".", &save)) {
        root = json_object_get(root, key);
        if (!root)
            return NULL;
    }
    return root;
}

static void is_number(json_t *root, const char *group, const char *mode, const char *key)
{
    char path[128];

    snprintf(path, sizeof(path), "%s.%s.%s", group, mode, key);
    cr_expect(json_is_number(get(root, path)), "%s is not a number", path);
}

static json_t *printed(struct process *p)
{
    json_error_t error;
    json_t *root;

    cr_assert_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    root = json_loads(process_out(p), 0, &error);
    cr_assert_not_null(root, "%s in %s", error.text, process_out(p));
    return root;
}

Test(latency, json_has_every_key)
{
    static const char *const modes[] = {"alone", "native", "cutin"};
    static const char *const figures[] = {"min_us",  "p50_us", "p90_us", "p99_us",
                                          "p999_us", "max_us", "samples"};
    struct process *p = process_run((const char *[]){CUTIN, "latency", "--sim", "--samples", "20",
                                                     "--be-kernel-us", "200", "--json", NULL},
                                    NULL, 80);
    json_t *root = printed(p);

    for (int m = 0; m < 3; m++)
        for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++)
            is_number(root, "modes", modes[m], figures[f]);
    for (int m = 1; m < 3; m++) {
        is_number(root, "added_us", modes[m], "p50");
        is_number(root, "added_us", modes[m], "p99");
        is_number(root, "be", modes[m], "kernels_per_s");
    }
    cr_expect(json_is_object(get(root, "config")));
    cr_expect_eq(json_integer_value(get(root, "modes.cutin.samples")), 20);
    json_decref(root);
    process_free(p);
}

Test(latency, a_graph_has_a_length_and_shares_of_it)
{
    static const char *const modes[] = {"native", "ungated", "cutin"};
    struct process *p = process_run((const char *[]){CUTIN, "latency", "--sim", "--samples", "20",
                                                     "--be-graph", "100", "--be-kernel-us", "20",
                                                     "--solo-ms", "50", "--json", NULL},
                                    NULL, 80);
    json_t *root = printed(p);

    for (int m = 0; m < 3; m++)
        is_number(root, "graph", "added_p99_share", modes[m]);
    cr_expect_eq(json_integer_value(get(root, "graph.kernels")), 100);
    cr_expect_geq(json_number_value(get(root, "graph.length_us")), 100 * 20);
    cr_expect_eq(json_integer_value(get(root, "modes.ungated.samples")), 20);
    cr_expect_str_eq(json_string_value(get(root, "be.checksum")), "identical");
    cr_expect_gt(json_number_value(get(root, "be.gate_us")), 0);
    json_decref(root);
    process_free(p);
}
