/*
 * arrows.c - which folder (docs/design.md) may include which: a table, compared with every include
 * of every source. A word of a row is a folder, or one file of a folder whose other files must not
 * be included. Inside a folder, too, files include each other one way only (a source and its header
 * count as one), except in folders that are one object. The guard of a header is its path.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct folder {
    const char *name, *may;
} folders[] = {
    {"common", "tests/mutants.h"}, /* only in builds for tests */
    {"vhq", "common"},

    {"shim", "cuda.h"},
    {"shim/lookup", "common cuda.h"},
    {"shim/suspend", "shim/lookup"},
    {"shim/handles", "common"},
    {"shim/objects",
     "common shim/front.h shim/lookup shim/handles vhq/vhq.h scheduler/client/client.h"},
    {"shim/learn", "common shim/lookup shim/handles shim/objects vhq/vhq.h "
                   "scheduler/client/client.h scheduler/client/waker.h"},
    {"shim/path", "common shim/lookup shim/objects shim/learn vhq/vhq.h scheduler/client/client.h "
                  "scheduler/wire/page.h"},
    {"shim/pace", "common shim/handles shim/objects shim/path shim/learn shim/suspend/groups.h "
                  "scheduler/client/client.h scheduler/wire/page.h"},
    {"shim/graph",
     "common shim/handles shim/objects shim/path shim/learn shim/pace scheduler/client/client.h"},
    {"shim/wrap",
     "common shim/cutin.h shim/lookup shim/handles shim/objects shim/path shim/learn shim/pace "
     "shim/graph scheduler/client/client.h"},

    {"scheduler/wire", "common"},
    {"scheduler/client", "common scheduler/wire"},
    {"scheduler/policy", "common scheduler/wire"},
    {"scheduler/peers", "common scheduler/policy scheduler/wire"},
    {"scheduler/daemon", "common scheduler/peers scheduler/policy scheduler/wire"},
    {"scheduler/slurm", "common scheduler/policy/job.h"},

    {"examples", "shim/cutin.h cuda.h"},
    {"tools/cutin",
     "common tools/cutin/statistics/figures.h scheduler/wire tools/simgpu/face/simconfig.h"},
    {"tools/cutin/run", "common tools/cutin tools/facts/fact.h shim/lookup/conf.h"},
    {"tools/cutin/statistics", ""},
    {"tools/cutin/operate", "common tools/cutin scheduler/wire scheduler/policy/policy.h"},
    {"tools/cutin/worker",
     "common/clock.h tools/cutin tools/facts/driver.h examples/kernels_ptx.h"},
    {"tools/cutin/doctor",
     "common tools/cutin tools/cutin/run tools/cutin/statistics/figures.h tools/facts "
     "scheduler/wire shim/lookup/api.def shim/lookup/conf.h shim/lookup/elf.h cuda.h"},
    {"tools/cutin/trace", "common tools/cutin tools/cutin/run/run.h"},
    {"tools/cutin/latency",
     "common tools/cutin tools/cutin/run/run.h tools/cutin/statistics tools/cutin/worker "
     "tools/cutin/operate/clients.h tools/cutin/trace scheduler/wire"},
    /* The laboratory uses cutin's engine; no folder of cutin includes the laboratory. */
    {"tools/lab", "common tools/cutin tools/cutin/run/run.h tools/cutin/latency/bench.h "
                  "tools/cutin/statistics/figures.h tools/facts/driver.h tools/facts/fact.h "
                  "examples/kernels_ptx.h"},
    {"tools/lab/distance", "common shim/front.h shim/lookup/each.h shim/lookup/newer.h cuda.h"},
    {"tools/lab/disb", "common/clock.h tools/lab/lab.h tools/lab/record/workload.h tools/cutin "
                       "tools/cutin/statistics "
                       "tools/cutin/worker tools/facts/driver.h "
                       "examples/kernels_ptx.h"},
    {"tools/lab/record",
     "common tools/lab/lab.h tools/cutin tools/cutin/run/run.h tools/cutin/statistics "
     "tools/cutin/trace/trace_view.h tools/facts/driver.h "
     "examples/kernels_ptx.h"},
    {"tools/lab/report", "common tools/lab/lab.h tools/cutin"},
    {"tools/lab/predict", "tools/lab/lab.h tools/lab/record/workload.h tools/cutin/statistics"},
    {"tools/packaging", ""},
    {"tools/docs", "shim/lookup/api.def"},
    {"tools/facts", "common/clock.h tools/cutin/statistics/figures.h shim/lookup/api.def "
                    "shim/lookup/shim.h shim/suspend/groups.h examples/kernels_ptx.h cuda.h"},

    /* The simulated driver uses names of the driver's functions, and nothing else of cutin. Its
     * folders have one order: each includes only folders below it. Two calls go up that no include
     * shows: streams ask captures (stream/capture.h), which are unfinished graphs, and graph/
     * answers; and they report their end to pools (stream/stream.h), in memory/. A table of
     * pointers between them would hide that and cure nothing. */
    {"tools/simgpu/face", "shim/lookup/api.def cuda.h"},
    {"tools/simgpu/device", "tools/simgpu/face"},
    {"tools/simgpu/stream",
     "tools/simgpu/face tools/simgpu/device tools/simgpu/rm shim/suspend/nvrm.h"},
    {"tools/simgpu/memory", "tools/simgpu/face tools/simgpu/device tools/simgpu/stream"},
    {"tools/simgpu/program", "tools/simgpu/face tools/simgpu/device tools/simgpu/stream "
                             "tools/simgpu/memory/memory.h examples/storage.h"},
    {"tools/simgpu/graph", "tools/simgpu/face tools/simgpu/device tools/simgpu/stream "
                           "tools/simgpu/memory tools/simgpu/program"},
    {"tools/simgpu/rm", ""},
    {"tools/simgpu/clock", ""},
    {"tools/simgpu/runtime", "tools/simgpu/face/simconfig.h tools/simgpu/device"},
    {"tools/simgpu/nvml", "tools/simgpu/face/simconfig.h tools/simgpu/device"},
};
enum { FOLDERS = sizeof(folders) / sizeof(*folders) };

/* The files of these folders include each other in circles. */
static const char *const one_object[] = {
    "scheduler/client",
    "tools/simgpu/graph",
    "tools/simgpu/memory",
    "tools/simgpu/stream",
};
enum { ONE_OBJECT = sizeof(one_object) / sizeof(*one_object) };

/* Headers that the build makes, named as if they were beside the files they are made from. */
static const char *const made[] = {
    "examples/kernels_ptx.h",
    "examples/storage_kernels_ptx.h",
    "shim/lookup/api_index.h",
    "tools/lab/disb/disb_json.h",
};

/* What programs find in libcutin.so is in shim/wrap, except what they find functions by. */
static const char *const exporting[] = {"shim/lookup", "shim/suspend", "shim/wrap"};

/* Every include, as paths from SOURCE_DIR. */
static struct include {
    char file[96], target[192];
    unsigned line;
} *includes;
static size_t include_count;

/* Every line that exports a function. */
static struct include exports[640];
static size_t export_count;

/* Every header, and the name that keeps its text from being included twice. */
static struct guard {
    char file[96], name[112];
} guards[640];
static size_t guard_count;

static bool exists(const char *path)
{
    char whole[512];

    snprintf(whole, sizeof(whole), "%s/%s", SOURCE_DIR, path);
    return access(whole, R_OK) == 0;
}

static int folder_length(const char *file)
{
    const char *slash = strrchr(file, '/');

    return slash ? (int)(slash - file) : 0;
}

/* Looks beside the including file first, as compilers do. False: it is a library's header. */
static bool include_resolve(struct include *in, char quote, const char *name)
{
    if (quote == '<') {
        snprintf(in->target, sizeof(in->target), "%s", name);
        return strncmp(name, "cuda", 4) == 0;
    }
    snprintf(in->target, sizeof(in->target), "%.*s/%s", folder_length(in->file), in->file, name);
    if (exists(in->target))
        return true;
    snprintf(in->target, sizeof(in->target), "%s", name);
    for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
        if (strcmp(made[i] + folder_length(made[i]) + 1, name) == 0)
            snprintf(in->target, sizeof(in->target), "%s", made[i]);
    return true;
}

static bool is_source(const char *file)
{
    static const char *const ends[] = {".c", ".h", ".S", ".def", ".inc"};
    const char *dot = strrchr(file, '.');

    for (size_t i = 0; dot && i < sizeof(ends) / sizeof(*ends); i++)
        if (strcmp(dot, ends[i]) == 0)
            return true;
    return false;
}

/* Whether the word names the file or its folder. */
static bool word_names(const char *word, const char *file)
{
    size_t length = strcspn(word, " ");

    return (length == strlen(file) || length == (size_t)folder_length(file)) &&
           strncmp(word, file, length) == 0;
}

static const char *word_next(const char *word)
{
    word += strcspn(word, " ");
    return word + strspn(word, " ");
}

static const struct folder *file_folder(const char *file)
{
    for (size_t i = 0; i < FOLDERS; i++)
        if (word_names(folders[i].name, file))
            return &folders[i];
    return NULL;
}

static bool folder_may(const struct folder *folder, const char *target)
{
    for (const char *word = folder->may; *word; word = word_next(word))
        if (word_names(word, target))
            return true;
    return false;
}

static bool folder_uses(const struct folder *folder, const char *word)
{
    for (size_t i = 0; i < include_count; i++)
        if (file_folder(includes[i].file) == folder && word_names(word, includes[i].target))
            return true;
    return false;
}

/* One is installed as <cutin.h>; the other is given to compilers with -include. */
static bool guard_is_free(const char *file)
{
    return strcmp(file, "shim/cutin.h") == 0 || strcmp(file, "tools/packaging/floor.h") == 0;
}

static void guard_expected(const char *file, char *name, size_t size)
{
    snprintf(name, size, "CUTIN_%.100s", file);
    for (; *name; name++)
        *name = isalnum((unsigned char)*name) ? (char)toupper((unsigned char)*name) : '_';
}

static void file_read(const char *path)
{
    struct include in = {.line = 0};
    struct guard guard = {.name = ""};
    char *line = NULL, quote[2], name[96];
    size_t size = 0;
    FILE *f = fopen(path, "r");

    cr_assert_not_null(f, "%s cannot be read", path);
    snprintf(in.file, sizeof(in.file), "%s", path + sizeof(SOURCE_DIR));
    cr_expect_not_null(file_folder(in.file), "%s is in no folder of the table", in.file);
    while (getline(&line, &size, f) > 0) {
        in.line++;
        if (!*guard.name)
            sscanf(line, "#ifndef %111s", guard.name);
        if (strncmp(in.file, "shim/", 5) == 0 &&
            (strstr(line, "EXPORT ") || strncmp(line, "BOTH(", 5) == 0 ||
             strncmp(line, "WRAPPED(", 8) == 0 || strncmp(line, "BEGINS(", 7) == 0)) {
            cr_assert_lt(export_count, sizeof(exports) / sizeof(*exports));
            exports[export_count++] = in;
        }
        if (sscanf(line, " # include %1[\"<]%95[^\">]", quote, name) != 2 ||
            !include_resolve(&in, *quote, name))
            continue;
        includes = realloc(includes, (include_count + 1) * sizeof(*includes));
        cr_assert_not_null(includes);
        includes[include_count++] = in;
    }
    if (strcmp(strrchr(path, '.'), ".h") == 0) {
        cr_assert_lt(guard_count, sizeof(guards) / sizeof(*guards));
        memcpy(guard.file, in.file, sizeof(guard.file));
        guards[guard_count++] = guard;
    }
    free(line);
    fclose(f);
}

static int file_found(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    if (type == FTW_F && is_source(path))
        file_read(path);
    return 0;
}

static void includes_read(void)
{
    static const char *const houses[] = {"common", "vhq", "shim", "scheduler", "tools", "examples"};
    char path[512];

    for (size_t i = 0; i < sizeof(houses) / sizeof(*houses); i++) {
        snprintf(path, sizeof(path), "%s/%s", SOURCE_DIR, houses[i]);
        cr_assert_eq(nftw(path, file_found, 16, FTW_PHYS), 0, "%s", path);
    }
    cr_assert_gt(include_count, 500); /* it was 832 when this was written */
}

/* ---- circles of files ------------------------------------------------------------------------ */

enum { UNITS = 640 };

static char units[UNITS][96]; /* a source and its header, or one of them alone */
static size_t unit_count;
static bool reaches[UNITS][UNITS];

static size_t unit_of(const char *file)
{
    const char *dot = strrchr(file, '.');
    bool pair = strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0;
    size_t i, length = pair ? (size_t)(dot - file) : strlen(file);

    for (i = 0; i < unit_count; i++)
        if (strlen(units[i]) == length && memcmp(units[i], file, length) == 0)
            return i;
    cr_assert_lt(unit_count, UNITS);
    snprintf(units[unit_count], sizeof(*units), "%.*s", (int)length, file);
    return unit_count++;
}

static void reach(void)
{
    for (size_t i = 0; i < include_count; i++)
        if (file_folder(includes[i].target))
            reaches[unit_of(includes[i].file)][unit_of(includes[i].target)] = true;
    for (size_t k = 0; k < unit_count; k++)
        for (size_t i = 0; i < unit_count; i++)
            for (size_t j = 0; reaches[i][k] && j < unit_count; j++)
                reaches[i][j] |= reaches[k][j];
}

static bool include_circles(const struct include *in)
{
    return file_folder(in->target) && unit_of(in->file) != unit_of(in->target) &&
           reaches[unit_of(in->target)][unit_of(in->file)];
}

Test(arrows, every_include_is_allowed_to_its_folder)
{
    includes_read();
    for (size_t i = 0; i < include_count; i++) {
        const struct include *in = &includes[i];
        const struct folder *folder = file_folder(in->file);

        cr_expect(!folder || folder == file_folder(in->target) || folder_may(folder, in->target),
                  "%s:%u includes %s, which %s may not", in->file, in->line, in->target,
                  folder->name);
    }
}

Test(arrows, the_guard_of_a_header_is_its_path)
{
    char expected[112];

    includes_read();
    for (size_t i = 0; i < guard_count; i++) {
        guard_expected(guards[i].file, expected, sizeof(expected));
        cr_expect(guard_is_free(guards[i].file) || strcmp(guards[i].name, expected) == 0,
                  "%s has the guard %s, not %s", guards[i].file, guards[i].name, expected);
    }
}

Test(arrows, functions_are_exported_by_wrappers_alone)
{
    includes_read();
    cr_assert_gt(export_count, 60); /* 80 lines when this was written, some with several rows */
    for (size_t i = 0; i < export_count; i++) {
        size_t folder = 0;

        while (folder < sizeof(exporting) / sizeof(*exporting) &&
               !word_names(exporting[folder], exports[i].file))
            folder++;
        cr_expect_lt(folder, sizeof(exporting) / sizeof(*exporting), "%s:%u exports a function",
                     exports[i].file, exports[i].line);
    }
}

Test(arrows, nothing_is_allowed_that_no_include_needs)
{
    includes_read();
    for (size_t i = 0; i < FOLDERS; i++)
        for (const char *word = folders[i].may; *word; word = word_next(word))
            cr_expect(folder_uses(&folders[i], word), "%s includes nothing of %.*s",
                      folders[i].name, (int)strcspn(word, " "), word);
}

Test(arrows, files_include_each_other_one_way_except_in_one_object)
{
    bool found[ONE_OBJECT] = {false};

    includes_read();
    reach();
    for (size_t i = 0; i < include_count; i++) {
        const struct include *in = &includes[i];
        size_t o = 0;

        if (!include_circles(in))
            continue;
        while (o < ONE_OBJECT && !word_names(one_object[o], in->file))
            o++;
        if (o < ONE_OBJECT)
            found[o] = true;
        else
            cr_expect_fail("%s:%u includes %s, which leads back to it", in->file, in->line,
                           in->target);
    }
    for (size_t o = 0; o < ONE_OBJECT; o++)
        cr_expect(found[o], "%s has no circle any more", one_object[o]);
}
