/*
 * plot.c - `cutin-lab plot`, and what the gnuplot scripts draw: figures of a result as variables
 * and data of gnuplot (data/common.gp says which).
 *
 * Strings from the object are in single quotes, where gnuplot knows no escapes but the quote
 * itself, and numbers are printed here. So a file of figures cannot make gnuplot run anything.
 */
#include "plot.h"
#include "tools/cutin/paths.h"
#include "tools/cutin/result.h"
#include "tools/lab/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Prints a variable of the script. */
static void plot_text(FILE *script, const char *name, const char *text)
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

/* Prints text and numbers of an object, as variables that begin with `prefix`. */
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

/* Adds to `names` the keys of an object that it lacks, or the values of the elements of an array at
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

/* Prints no exponents, because gnuplot does not read them where it turns a word into a number. */
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

/* Prints a block that is never empty, so that each block keeps its number. */
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

/* ---- gnuplot ------------------------------------------------------------------------------- */

enum { NOT_FOUND = 127 };

static const char *const endings[PLOT_FORMATS] = {[PLOT_PNG] = ".png", [PLOT_SVG] = ".svg"};

static const char absent[] = "gnuplot is not installed, so there is no plot; on Debian or Ubuntu: "
                             "apt-get install gnuplot-nox";

static int format_of(const char *file)
{
    size_t length = strlen(file);

    for (int format = 0; format < PLOT_FORMATS; format++)
        if (length > 4 && strcmp(file + length - 4, endings[format]) == 0)
            return format;
    return -EINVAL;
}

/* CUTIN_FROM_BIN_DATA comes from the build: it leads from the command's folder to the data. */
int data_path(const char *name, char path[PATH_MAX], char *why, size_t why_bytes)
{
    struct paths paths;
    int n;

    paths_find(&paths);
    n = snprintf(path, PATH_MAX, "%s/" CUTIN_FROM_BIN_DATA "/cutin/report/%s", dirname(paths.self),
                 name);
    if (n < PATH_MAX && access(path, R_OK) == 0)
        return 0;
    snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno));
    return -ENOENT;
}

/* Writes the figures and the call of the script that draws them to a memory file, so that neither
 * process waits for the other. Returns a descriptor or -errno. */
static int figures_file(const struct result_kind *kind, const json_t *root, enum plot_format format,
                        const char *folder)
{
    int fd = memfd_create("cutin-plot", MFD_CLOEXEC), copy = fd < 0 ? -1 : dup(fd);
    FILE *script = copy < 0 ? NULL : fdopen(copy, "w");
    int rc = script ? 0 : -errno;

    if (script) {
        plot_text(script, "format", endings[format] + 1);
        plot_text(script, "folder", folder);
        plot_figures(script, kind, root);
        fprintf(script, "load folder.'/%s.gp'\n", kind->name);
        if (fclose(script) != 0)
            rc = -EIO;
    }
    if (rc != 0 && fd >= 0)
        close(fd);
    if (rc == 0)
        lseek(fd, 0, SEEK_SET);
    return rc == 0 ? fd : rc;
}

static int run_gnuplot(int script, int out)
{
    pid_t pid = fork();
    int status = 0;

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        dup2(script, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        unsetenv("LD_PRELOAD");
        setenv("LC_ALL", "C.UTF-8", 1); /* else it warns, in C, of a degree sign */
        /* The user's own settings would change the picture. */
        execlp("gnuplot", "gnuplot", "--default-settings", (char *)NULL);
        _exit(NOT_FOUND);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        return -ENOENT;
    return status == 0 ? 0 : -EIO;
}

int plot_draw(const struct result_kind *kind, const json_t *root, enum plot_format format, int fd,
              char *why, size_t why_bytes)
{
    char name[64], path[PATH_MAX];
    int script, rc;

    if (!kind) {
        snprintf(why, why_bytes, "these figures cannot be drawn");
        return -EINVAL;
    }
    snprintf(name, sizeof(name), "%s.gp", kind->name);
    rc = data_path(name, path, why, why_bytes);
    if (rc != 0)
        return rc;
    script = figures_file(kind, root, format, dirname(path));
    if (script < 0) {
        snprintf(why, why_bytes, "no plot: %s", strerror(-script));
        return script;
    }
    rc = run_gnuplot(script, fd);
    close(script);
    if (rc == -ENOENT)
        snprintf(why, why_bytes, "%s", absent);
    else if (rc != 0)
        snprintf(why, why_bytes, "gnuplot could not draw the plot");
    return rc;
}

int plot_write(const struct result_kind *kind, const json_t *root, const char *file, char *why,
               size_t why_bytes)
{
    int format = format_of(file), rc, fd;

    if (format < 0) {
        snprintf(why, why_bytes, "%s ends neither with .png nor with .svg", file);
        return format;
    }
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        rc = -errno;
        snprintf(why, why_bytes, "cannot write %s: %s", file, strerror(-rc));
        return rc;
    }
    rc = plot_draw(kind, root, (enum plot_format)format, fd, why, why_bytes);
    close(fd);
    if (rc != 0)
        unlink(file);
    return rc;
}

/* ---- the command --------------------------------------------------------------------------- */

static int plot(const struct subcommand *cmd, int argc, char **argv)
{
    char why[2 * PATH_MAX];
    json_error_t error;
    json_t *root;
    int rc;

    options_read(cmd, argc, argv);
    if (optind + 2 != argc)
        fail_usage(cmd, "give a file of figures and a file for the picture");
    root = json_load_file(argv[optind], 0, &error);
    if (!root)
        return say(cmd, "%s: %s", argv[optind], error.text);
    rc = plot_write(result_kind_of(root), root, argv[optind + 1], why, sizeof(why));
    json_decref(root);
    return rc == 0 ? EXIT_SUCCESS : say(cmd, "%s", why);
}

const struct subcommand subcommand_plot = {
    .name = "plot",
    .summary = "draw the figures of a result",
    .synopsis = "RESULT.json FILE.png|FILE.svg",
    .about = "Draws what latency, overhead, ablation or disb printed with --json. Needs gnuplot.",
    .run = plot,
};
