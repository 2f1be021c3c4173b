/*
 * plot.c - run gnuplot.
 */
#include "result.h"
#include "tools/cutin/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127 };

static const char *const endings[PLOT_FORMATS] = {[PLOT_PNG] = ".png", [PLOT_SVG] = ".svg"};

static const char absent[] = "gnuplot is not there, so there is no plot; on Debian or Ubuntu: "
                             "apt-get install gnuplot-nox";

static int format_of(const char *file)
{
    size_t length = strlen(file);

    for (int format = 0; format < PLOT_FORMATS; format++)
        if (length > 4 && strcmp(file + length - 4, endings[format]) == 0)
            return format;
    return -EINVAL;
}

int data_path(const char *name, char path[PATH_MAX], char *why, size_t why_bytes)
{
    struct paths paths;
    int n;

    paths_find(&paths);
    if (!paths.data[0]) {
        snprintf(why, why_bytes,
                 "the plot scripts are not installed beside %s: no folder share/cutin", paths.self);
        return -ENOENT;
    }
    n = snprintf(path, PATH_MAX, "%s/%s", paths.data, name);
    if (n < PATH_MAX && access(path, R_OK) == 0)
        return 0;
    snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno));
    return -ENOENT;
}

int plot_check(const char *file, char *why, size_t why_bytes)
{
    char folder[PATH_MAX], program[PATH_MAX];
    int rc;

    if (format_of(file) < 0) {
        snprintf(why, why_bytes, "%s ends neither with .png nor with .svg", file);
        return -EINVAL;
    }
    rc = output_error(file);
    if (rc != 0) {
        snprintf(why, why_bytes, "%s: %s", file, strerror(-rc));
        return rc;
    }
    if (program_find("gnuplot", program))
        return data_path("", folder, why, why_bytes);
    snprintf(why, why_bytes, "%s", absent);
    return -ENOENT;
}

/* Figures and the way to the script that draws them, in a memory file, so that nobody waits for
 * anybody. -errno, or a descriptor. */
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

int plot_draw(const json_t *root, enum plot_format format, int fd, char *why, size_t why_bytes)
{
    const struct result_kind *kind = result_kind_of(root);
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

int plot_write(const json_t *root, const char *file, char *why, size_t why_bytes)
{
    int format = format_of(file), rc, fd;

    if (format < 0)
        return plot_check(file, why, why_bytes);
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        rc = -errno;
        snprintf(why, why_bytes, "cannot write %s: %s", file, strerror(-rc));
        return rc;
    }
    rc = plot_draw(root, (enum plot_format)format, fd, why, why_bytes);
    close(fd);
    if (rc != 0)
        unlink(file);
    return rc;
}
