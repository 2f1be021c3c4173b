/*
 * page.c - puts the style, the script and one JSON object of figures into the page of data/.
 */
#include "report.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- figures ------------------------------------------------------------------------------- */

static json_t *text_json(const char *text)
{
    json_t *json = json_string(text);

    return json ? json : json_string("?");
}

/* Members as text, as they are printed: the page's script would write 2.0 as 2. */
static json_t *texts_of(json_t *config)
{
    json_t *texts = json_object(), *value;
    const char *key;

    json_object_foreach(config, key, value)
    {
        char *dumped = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);

        json_object_set_new(texts, key,
                            strcmp(key, "machine") == 0 ? texts_of(value)
                            : dumped                    ? text_json(dumped)
                                                        : json_incref(value));
        free(dumped);
    }
    return texts;
}

/* gnuplot's picture, without what makes it a file of its own. NULL, with one line in `why`. */
static json_t *plot_json(const struct result_kind *kind, const json_t *root, char *why,
                         size_t why_bytes)
{
    int fd = memfd_create("cutin-report", MFD_CLOEXEC);
    char *text = NULL, *svg;
    json_t *plot = NULL;
    struct stat st;

    snprintf(why, why_bytes, progress_cancel ? "interrupted: no plot" : "no memory");
    if (!progress_cancel && fd >= 0 && plot_draw(kind, root, PLOT_SVG, fd, why, why_bytes) == 0 &&
        fstat(fd, &st) == 0)
        text = calloc(1, (size_t)st.st_size + 1);
    if (text && pread(fd, text, (size_t)st.st_size, 0) == st.st_size &&
        (svg = strstr(text, "<svg")))
        plot = json_string(svg);
    free(text);
    if (fd >= 0)
        close(fd);
    return plot;
}

void html_add_result(struct page *page, const char *file, const struct result_kind *kind,
                     json_t *root)
{
    char why[256];
    json_t *plot = plot_json(kind, root, why, sizeof(why));

    if (!plot && !page->why[0])
        snprintf(page->why, sizeof(page->why), "%s", why);
    json_array_append_new(page->results,
                          json_pack("{s:o, s:s, s:s, s:o, s:o*, s:o*, s:O}", "file",
                                    text_json(file), "kind", kind->name, "title", kind->title,
                                    "texts", texts_of(result_get(root, "config")), "plot", plot,
                                    "why", plot ? NULL : text_json(why), "figures", root));
}

void html_add_trace(struct page *page, const char *file, const json_t *root)
{
    json_array_append_new(
        page->traces, json_pack("{s:o, s:o*}", "file", text_json(file), "cut_in", cut_in_of(root)));
}

void html_add_other(struct page *page, const char *file)
{
    json_array_append_new(page->others, text_json(file));
}

void html_free(struct page *page)
{
    json_decref(page->results);
    json_decref(page->traces);
    json_decref(page->others);
}

/* ---- the page ------------------------------------------------------------------------------ */

/* Escapes "<", so that the text cannot end its HTML element. */
static void print_figures(const struct page *page, FILE *out)
{
    json_t *figures = json_pack("{s:O, s:O, s:O}", "results", page->results, "traces", page->traces,
                                "others", page->others);
    char *text = json_dumps(figures, JSON_COMPACT);

    for (const char *c = text; c && *c; c++)
        fputs(*c == '<' ? "\\u003c" : (const char[]){*c, '\0'}, out);
    json_decref(figures);
    free(text);
}

/* Reads the whole file. NULL, with one line in `why`: it cannot be read. */
static char *read_data(const char *name, char *why, size_t why_bytes)
{
    char path[PATH_MAX], *text = NULL;
    size_t room = 0;
    FILE *file;

    if (data_path(name, path, why, why_bytes) != 0)
        return NULL;
    file = fopen(path, "re");
    if (!file || getdelim(&text, &room, '\0', file) < 0) {
        snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* Prints the figures, or the file of that name. */
static bool print_part(const struct page *page, const char *name, FILE *out, char *why,
                       size_t why_bytes)
{
    char *text;

    if (strcmp(name, "figures") == 0) {
        print_figures(page, out);
        return true;
    }
    text = read_data(name, why, why_bytes);
    if (!text)
        return false;
    fputs(text, out);
    free(text);
    return true;
}

char *html_make(const struct page *page, char *why, size_t why_bytes)
{
    char *frame = read_data("page.html", why, why_bytes), *rest = frame, *piece, *text = NULL;
    bool part = false, right = frame; /* every second piece between two @ is a part */
    size_t size;
    FILE *out = frame ? open_memstream(&text, &size) : NULL;

    for (; out && right && (piece = strsep(&rest, "@")); part = !part)
        if (part)
            right = print_part(page, piece, out, why, why_bytes);
        else
            fputs(piece, out);
    if (out)
        fclose(out);
    if (!right) {
        free(text);
        text = NULL;
    }
    free(frame);
    return text;
}
