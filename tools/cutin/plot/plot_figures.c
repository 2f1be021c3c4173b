/*
 * plot_figures.c - what the gnuplot scripts draw: kinds of results, and their figures as variables
 * and data of gnuplot (data/common.gp says which).
 *
 * Strings from the object stand in single quotes, where gnuplot knows no escapes but the quote
 * itself; figures are printed by us. So no file of figures can make gnuplot run anything.
 */
#include "result.h"

#include <math.h>
#include <string.h>

const struct result_kind result_kinds[] = {
    {.name = "latency",
     .title = "cutin latency",
     .members = "modes",
     .sign = "added_us",
     .figures = {"p50_us", "p99_us"},
     .cdf = "cdf_us"},
    {.name = "overhead",
     .title = "cutin-lab overhead",
     .groups = "runs",
     .members = "",
     .label = "threads",
     .sign = "pass_through",
     .figures = {"launch.added_ns_p50", "event_record.added_ns_p50", "memcpy_async.added_ns_p50"}},
    {.name = "disb",
     .title = "cutin-lab disb",
     .groups = "workloads",
     .members = "modes",
     .sign = "models",
     .figures = {"rt_vs_alone", "throughput_vs_rt_only"},
     .cdf = "rt.cdf_us"},
    {.name = "ablation",
     .title = "cutin-lab ablation",
     .members = "rows",
     .label = "variant",
     .sign = "added_us",
     .figures = {"added_us.p50", "added_us.p99", "be_throughput_ratio", "be_kernel_us"}},
    {0},
};

const struct result_kind *result_kind_of(const json_t *root)
{
    for (const struct result_kind *kind = result_kinds; kind->name; kind++) {
        const json_t *all = result_get(root, kind->groups ? kind->groups : kind->members);

        if (json_is_array(all)
                ? kind->label && result_get(json_array_get(all, 0), kind->sign)
                : !kind->label && json_object_size(all) > 0 && result_get(root, kind->sign))
            return kind;
    }
    return NULL;
}

/* ---- what gnuplot reads -------------------------------------------------------------------- */

static void print_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', script);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, script);
    }
    fputc('\'', script);
}

void plot_text(FILE *script, const char *name, const char *text)
{
    fprintf(script, "%s = ", name);
    print_quoted(script, text);
    fputc('\n', script);
}

static void print_names(FILE *script, const char *array, const json_t *names)
{
    json_t *name;
    size_t i;

    fprintf(script, "array %s[%zu] = [", array, json_array_size(names));
    json_array_foreach(names, i, name)
    {
        fputs(i ? ", " : "", script);
        print_quoted(script, json_string_value(name));
    }
    fputs("]\n", script);
}

/* Text and numbers of an object, as variables that begin with `prefix`. */
static void print_variables(FILE *script, const char *prefix, json_t *object)
{
    static const char of_names[] =
        "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char name[160];
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        int n = snprintf(name, sizeof(name), "%s_%s", prefix, key);
        if (n >= (int)sizeof(name) || key[strspn(key, of_names)])
            continue;
        if (json_is_object(value))
            print_variables(script, name, value);
        else if (json_is_string(value))
            plot_text(script, name, json_string_value(value));
        else if (!json_is_null(value) && !json_is_array(value))
            fprintf(script, "%s = %.15g\n", name,
                    json_is_boolean(value) ? json_is_true(value) : json_number_value(value));
    }
}

/* ---- groups and their members -------------------------------------------------------------- */

static bool has_name(const json_t *names, const char *name)
{
    json_t *known;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)names, i,
                       known) if (strcmp(json_string_value(known), name) == 0) return true;
    return false;
}

/* Adds the keys of an object that `names` lacks, or what the elements of an array say at
 * `label`. */
static void add_names(json_t *names, json_t *all, const char *label)
{
    char number[32];
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach(all, key, value) if (json_is_object(value) && !has_name(names, key))
        json_array_append_new(names, json_string(key));
    json_array_foreach(all, i, value)
    {
        value = result_get(value, label);
        snprintf(number, sizeof(number), "%g", json_number_value(value));
        key = json_is_string(value) ? json_string_value(value) : number;
        json_array_append_new(names, json_string(key));
    }
}

static json_t *element(const json_t *all, const json_t *names, size_t i)
{
    return json_is_array(all) ? json_array_get(all, i)
                              : json_object_get(all, json_string_value(json_array_get(names, i)));
}

/* gnuplot takes no exponent where it makes a number of a word. */
static void print_figures(FILE *script, const struct result_kind *kind, const json_t *member)
{
    const json_t *cdf = kind->cdf ? result_get(member, kind->cdf) : NULL;

    fprintf(script, "%zu", json_array_size(cdf));
    for (const char *const *path = kind->figures; *path; path++) {
        const json_t *value = result_get(member, *path);
        if (json_is_number(value))
            fprintf(script, " %.9f", json_number_value(value));
        else
            fputs(" NaN", script);
    }
    fputc('\n', script);
}

/* A block is never empty, so that it keeps its number. */
static void print_cdf(FILE *script, const struct result_kind *kind, const json_t *member)
{
    json_t *cdf = kind->cdf ? result_get(member, kind->cdf) : NULL, *value;
    size_t percent;

    if (json_array_size(cdf) == 0)
        fputs("NaN NaN\n", script);
    json_array_foreach(cdf, percent, value)
        fprintf(script, "%.3f %zu\n", fmax(json_number_value(value), 0.001), percent);
    fputs("\n\n", script);
}

static void print_data(FILE *script, const char *name, const struct result_kind *kind,
                       const json_t *all, const json_t *groups, const json_t *members,
                       void (*print)(FILE *, const struct result_kind *, const json_t *))
{
    fprintf(script, "$%s << END\n", name);
    for (size_t g = 0; g < json_array_size(groups); g++)
        for (size_t m = 0; m < json_array_size(members); m++)
            print(script, kind,
                  element(result_get(element(all, groups, g), kind->members), members, m));
    fputs("END\n", script);
}

void plot_figures(FILE *script, const struct result_kind *kind, const json_t *root)
{
    json_t *all = kind->groups ? json_incref(result_get(root, kind->groups))
                               : json_pack("{s:O}", "", (json_t *)(uintptr_t)root),
           *groups = json_array(), *members = json_array();

    add_names(groups, all, kind->label);
    for (size_t g = 0; g < json_array_size(groups); g++)
        add_names(members, result_get(element(all, groups, g), kind->members), kind->label);
    print_variables(script, "config", result_get(root, "config"));
    print_names(script, "GROUP", groups);
    print_names(script, "MEMBER", members);
    print_data(script, "figures", kind, all, groups, members, print_figures);
    print_data(script, "cdf", kind, all, groups, members, print_cdf);
    json_decref(all);
    json_decref(groups);
    json_decref(members);
}
