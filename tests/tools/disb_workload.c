/*
 * disb_workload.c - workloads from JSON: arrivals are as asked for, and mistakes are named.
 */
#include "tests/integration/process.h"
#include "tools/lab/disb/disb.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

TestSuite(disb_workload, .init = sandbox_enter, .fini = sandbox_leave);

static struct disb_workload w;
static char why[512];

static int make(const char *client, double seconds, double beyond_s, uint64_t seed)
{
    char text[1024];
    json_t *definition;
    int rc;

    snprintf(text, sizeof(text), "{\"clients\": [%s]}", client);
    definition = json_loads(text, 0, NULL);
    cr_assert_not_null(definition, "%s", text);
    rc = disb_workload_make(&w, "mine", definition, seconds, beyond_s, seed, why, sizeof(why));
    json_decref(definition);
    return rc;
}

/* The arrivals of the only client, in rising order. */
static const struct disb_client *one(const char *arrivals, uint64_t seed)
{
    char client[512];

    snprintf(client, sizeof(client), "{\"model\": \"m\", \"priority\": \"rt\", %s}", arrivals);
    cr_assert_eq(make(client, 10, 0, seed), 0, "%s", why);
    cr_assert_eq(w.clients, 1);
    for (uint32_t i = 1; i < w.client[0].arrivals; i++)
        cr_assert_leq(w.client[0].arrival_ns[i - 1], w.client[0].arrival_ns[i]);
    return &w.client[0];
}

Test(disb_workload, periodic_arrivals_keep_their_rate)
{
    const struct disb_client *c = one("\"arrivals\": \"periodic\", \"per_s\": 50", 1);

    cr_expect_leq(c->arrivals, 500);
    cr_expect_geq(c->arrivals, 499);
    for (uint32_t i = 1; i < c->arrivals; i++) {
        uint64_t gap_ns = c->arrival_ns[i] - c->arrival_ns[i - 1];
        cr_expect(gap_ns >= 18000000 - 1 && gap_ns <= 22000000 + 1, "%lu", gap_ns);
    }
    disb_workload_free(&w);
}

Test(disb_workload, poisson_arrivals_keep_rate_and_follow_the_seed)
{
    const struct disb_client *c = one("\"arrivals\": \"poisson\", \"per_s\": 100", 5);
    uint64_t first_ns = c->arrival_ns[0], last_ns = c->arrival_ns[c->arrivals - 1];
    uint32_t n = c->arrivals;

    cr_expect(n > 850 && n < 1150, "%u arrivals", n); /* 1000 +- 4.7 sigma */
    disb_workload_free(&w);
    c = one("\"arrivals\": \"poisson\", \"per_s\": 100", 5);
    cr_expect_eq(c->arrivals, n);
    cr_expect_eq(c->arrival_ns[0], first_ns);
    cr_expect_eq(c->arrival_ns[n - 1], last_ns);
    disb_workload_free(&w);
    c = one("\"arrivals\": \"poisson\", \"per_s\": 100", 6);
    cr_expect_neq(c->arrival_ns[0], first_ns);
    disb_workload_free(&w);
}

Test(disb_workload, uniform_gaps_stay_in_their_range)
{
    const struct disb_client *c =
        one("\"arrivals\": \"uniform\", \"least_ms\": 100, \"most_ms\": 130", 2);

    cr_expect(c->arrivals >= 75 && c->arrivals <= 101, "%u", c->arrivals);
    for (uint32_t i = 1; i < c->arrivals; i++) {
        uint64_t gap_ns = c->arrival_ns[i] - c->arrival_ns[i - 1];
        cr_expect(gap_ns >= 99999999 && gap_ns <= 130000001, "%lu", gap_ns);
    }
    disb_workload_free(&w);
}

Test(disb_workload, trace_is_cut_at_the_end_of_the_window)
{
    const struct disb_client *c =
        one("\"arrivals\": \"trace\", \"at_ms\": [1.5, 1.5, 9999, 10001]", 1);

    cr_assert_eq(c->arrivals, 3);
    cr_expect_eq(c->arrival_ns[0], 1500000);
    cr_expect_eq(c->arrival_ns[2], 9999000000);
    disb_workload_free(&w);
}

Test(disb_workload, best_effort_arrivals_continue_beyond_the_window)
{
    cr_assert_eq(make("{\"model\": \"m\", \"priority\": \"be\", \"arrivals\": \"periodic\","
                      " \"per_s\": 10, \"count\": 2},"
                      "{\"model\": \"m\", \"priority\": \"rt\", \"arrivals\": \"closed\"}",
                      1, 3, 1),
                 0);
    cr_assert_eq(w.clients, 3);
    cr_expect(w.client[0].arrivals >= 39 && w.client[0].arrivals <= 40);
    cr_expect_not(w.client[1].rt);
    cr_expect_neq(w.client[0].arrival_ns[0], w.client[1].arrival_ns[0], "two clients in step");
    cr_expect(w.client[2].rt && w.client[2].closed);
    disb_workload_free(&w);
}

static void refused(const char *client, const char *names)
{
    cr_expect_eq(make(client, 1, 0, 1), -EINVAL, "accepted: %s", client);
    cr_expect_not_null(strstr(why, names), "\"%s\" does not name %s", why, names);
    cr_expect_not_null(strstr(why, "mine"));
}

Test(disb_workload, error_names_the_wrong_field)
{
    refused("", "no clients");
    refused("{\"priority\": \"rt\"}", "\"model\"");
    refused("{\"model\": \"m\", \"priority\": \"high\"}", "\"priority\"");
    refused("{\"model\": \"m\", \"priority\": \"rt\", \"arrivals\": \"often\"}", "\"arrivals\"");
    refused("{\"model\": \"m\", \"priority\": \"rt\", \"arrivals\": \"poisson\"}", "\"per_s\"");
    refused("{\"model\": \"m\", \"priority\": \"rt\", \"arrivals\": \"poisson\", \"per_s\": 1e9}",
            "\"per_s\"");
    refused("{\"model\": \"m\", \"priority\": \"rt\", \"arrivals\": \"uniform\", \"least_ms\": 5,"
            " \"most_ms\": 4}",
            "\"most_ms\"");
    refused("{\"model\": \"m\", \"priority\": \"rt\", \"arrivals\": \"trace\", \"at_ms\": [2, 1]}",
            "\"at_ms\"");
    refused("{\"model\": \"m\", \"priority\": \"rt\", \"arrivals\": \"closed\", \"count\": 33}",
            "32 clients");
}

Test(disb_workload, all_built_in_workloads_can_be_made)
{
    json_t *root = disb_load(NULL, why, sizeof(why)), *definition;
    static struct disb d = {.speed = 1, .seed = 1};
    const char *name;

    cr_assert_not_null(root, "%s", why);
    cr_expect_eq(json_object_size(json_object_get(root, "workloads")), 6);
    json_object_foreach(json_object_get(root, "workloads"), name, definition)
    {
        cr_assert_eq(disb_workload_make(&w, name, definition, 1, 0, 1, why, sizeof(why)), 0, "%s",
                     why);
        for (uint32_t i = 0; i < w.clients; i++)
            cr_expect_not_null(disb_model(&d, w.client[i].model), "%s", d.why);
        disb_workload_free(&w);
    }
    cr_expect_eq(d.models, 5);
    for (uint32_t i = 0; i < d.models; i++)
        model_free(&d.model[i].model);
    json_decref(root);
}

Test(disb_workload, models_from_a_file_keep_their_kernels)
{
    static struct disb d = {.speed = 2};
    json_t *good = json_loads("{\"mine\": {\"kernels\": [[4, 256, 10], [1, 32, 0.5]]}}", 0, NULL),
           *bad = json_loads("{\"bad\": {\"kernels\": [[4, 2048, 10]]}}", 0, NULL);
    const struct model *m;

    cr_assert_eq(disb_models_add(&d, good), 0, "%s", d.why);
    m = disb_model(&d, "mine");
    cr_assert_not_null(m);
    cr_assert_eq(m->kernels, 2);
    cr_expect_eq(m->kernel[0].ns, 10000); /* as the file says, whatever the speed */
    cr_expect_eq(m->kernel[1].ns, 500);
    cr_expect_eq(disb_models_add(&d, bad), -EINVAL);
    cr_expect_not_null(strstr(d.why, "bad"));
    cr_expect_null(disb_model(&d, "unheard-of"));
    cr_expect_not_null(strstr(d.why, "--model unheard-of=FILE"));
    for (uint32_t i = 0; i < d.models; i++)
        model_free(&d.model[i].model);
    json_decref(good);
    json_decref(bad);
}

Test(disb_workload, a_file_without_workloads_is_refused)
{
    FILE *f = fopen(sandbox_path("x.json"), "w");

    fputs("{\"models\": {}}", f);
    fclose(f);
    cr_expect_null(disb_load(sandbox_path("x.json"), why, sizeof(why)));
    cr_expect_not_null(strstr(why, "docs/disb.md"));
    cr_expect_null(disb_load(sandbox_path("none.json"), why, sizeof(why)));
    cr_expect_not_null(strstr(why, "none.json"), "%s", why);
}
