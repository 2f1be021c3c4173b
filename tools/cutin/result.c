/*
 * result.c - what the JSON objects of the measuring commands have in common.
 */
#include "result.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

json_t *result_number(double value)
{
    return json_real(round(value * 1000) / 1000);
}

const char *result_time(uint64_t ns, char out[RESULT_TIME])
{
    time_t seconds = (time_t)(ns / 1000000000u);
    struct tm tm;
    size_t n = strftime(out, RESULT_TIME, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));

    snprintf(out + n, RESULT_TIME - n, ".%06uZ", (unsigned)(ns % 1000000000u / 1000));
    return out;
}

json_t *result_figures(const struct figures *figures)
{
    json_t *object = json_object(), *cdf = json_array();

#define PUT(field, heading, percent)                                                               \
    json_object_set_new(object, #field, result_number(figures->field));
    FIGURES(PUT)
#undef PUT
    json_object_set_new(object, "samples", json_integer((json_int_t)figures->samples));
    for (int percent = 0; percent < FIGURES_CDF && figures->samples; percent++)
        json_array_append_new(cdf, result_number(figures->cdf_us[percent]));
    json_object_set_new(object, "cdf_us", cdf);
    return object;
}

void result_refuse(json_t *figures, size_t samples)
{
#define REFUSE(field, heading, percent)                                                            \
    if (samples < figures_least_samples(percent))                                                  \
        json_object_set_new(figures, #field, json_null());
    FIGURES(REFUSE)
#undef REFUSE
}

json_t *result_brief(const struct figures *figures)
{
    json_t *brief = result_figures(figures);

    result_refuse(brief, figures->samples);
    json_object_del(brief, "cdf_us");
    return brief;
}

json_t *result_machine(void)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    struct utsname system;
    char line[256];
    const char *cpu = NULL;

    /* Takes the processor's name from /proc/cpuinfo, or the architecture where there is no name. */
    uname(&system);
    while (file && !cpu && fgets(line, sizeof(line), file))
        if (strncmp(line, "model name", 10) == 0 && (cpu = strchr(line, ':'))) {
            line[strcspn(line, "\n")] = '\0';
            cpu += 1 + strspn(cpu + 1, " ");
        }
    if (file)
        fclose(file);
    return json_pack("{s:s, s:i, s:s, s:s}", "cpu", cpu ? cpu : system.machine, "cpus",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "kernel", system.release, "architecture",
                     system.machine);
}

json_t *result_environment(void)
{
    json_t *all = json_object();

    for (char **entry = environ; *entry; entry++) {
        char name[64];
        size_t length = strcspn(*entry, "=");
        if (length >= sizeof(name) || !(*entry)[length] ||
            (strncmp(*entry, "CUTIN_", 6) != 0 && strncmp(*entry, "SIMGPU_", 7) != 0 &&
             strncmp(*entry, "CUDA_", 5) != 0))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)length, *entry);
        json_object_set_new(all, name, json_string(*entry + length + 1));
    }
    return all;
}

json_t *result_command(int argc, char **argv)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s", program_name);
    for (int i = 0; i < argc; i++) {
        strncat(text, " ", sizeof(text) - strlen(text) - 1);
        strncat(text, argv[i], sizeof(text) - strlen(text) - 1);
    }
    return json_string_nocheck(text);
}

int result_print(const json_t *root, FILE *out)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    bool quoted = false;
    size_t plain = 0; /* characters left of the array that goes on one line */

    if (!text)
        return -EIO;
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            fputc(*c++, out);
        else if (*c == '"')
            quoted = !quoted;
        else if (*c == '[' && !quoted && c[1 + strcspn(c + 1, "[]{\"")] == ']')
            plain = strcspn(c, "]");
        else
            plain -= plain > 0;
        if (!plain || !isspace((unsigned char)*c))
            fputc(*c, out);
        if (plain && *c == ',')
            fputc(' ', out);
    }
    fputc('\n', out);
    free(text);
    return ferror(out) ? -EIO : 0;
}

int result_give(json_t *root, bool json)
{
    int rc = json ? result_print(root, stdout) : 0;

    json_decref(root);
    return fflush(stdout) == 0 && rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
