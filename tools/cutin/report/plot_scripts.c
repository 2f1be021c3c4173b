/*
 * plot_scripts.c - what each kind of result looks like: the gnuplot scripts.
 *
 * Strings from the object stand in single quotes, where gnuplot knows no escapes but the quote
 * itself; figures are printed by us. So no file of figures can make gnuplot run anything.
 */
#include "plot.h"
#include "result.h"

#include <math.h>
#include <string.h>

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* ---- styles -------------------------------------------------------------------------------- */

/* Colours that the colour-blind tell apart (Okabe and Ito), and dashes for black-and-white print. */
static const struct style {
    const char *name, *colour;
    int dash;
} styles[] = {
    {"alone", "#555555", 2},         {"rt-only", "#555555", 2},
    {"native", "#d55e00", 4},        {"ungated", "#e69f00", 3},
    {"cutin", "#0072b2", 1},         {"sequential", "#e69f00", 3},
    {"streams", "#009e73", 5},       {"priority-streams", "#cc79a7", 6},
    {"cutin-streams", "#56b4e9", 7}, {"bare", "#555555", 2},
    {"pass_through", "#009e73", 5},  {"inline", "#0072b2", 1},
    {"buffered", "#e69f00", 3},
};

static const struct style *style_of(const char *name)
{
    static const struct style other = {"", "#000000", 1};

    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
        if (strcmp(styles[i].name, name) == 0)
            return &styles[i];
    return &other;
}

const char *plot_colour(const char *name)
{
    return style_of(name)->colour;
}

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

static double number_at(const json_t *root, const char *path)
{
    const json_t *value = result_get(root, path);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text_at(const json_t *root, const char *path)
{
    const char *text = json_string_value(result_get(root, path));

    return text ? text : "";
}

/* The last line of a title: where the figures come from. */
static void print_origin(const json_t *root, char *out, size_t size)
{
    const json_t *config = result_get(root, "config");
    bool simulated = json_is_true(result_get(config, "simulated"));
    const char *gpu = text_at(config, "gpu"), *cpu = text_at(config, "machine.cpu");
    double cpus = number_at(config, "machine.cpus");
    int n = snprintf(out, size, "%s", gpu[0] ? gpu : simulated ? "simulated GPU" : "GPU");

    if (simulated && !strstr(gpu, "simulated") && gpu[0])
        n += snprintf(out + n, size - (size_t)n, " (simulated)");
    if (cpu[0] && (size_t)n < size)
        n += snprintf(out + n, size - (size_t)n, " on %g x %s", isnan(cpus) ? 1 : cpus, cpu);
    if ((size_t)n < size)
        snprintf(out + n, size - (size_t)n, ", cutin %s", text_at(config, "version"));
}

/* ---- CDFs ---------------------------------------------------------------------------------- */

static void print_cdf_data(FILE *script, const char *prefix, int index, const json_t *cdf)
{
    size_t percent;
    json_t *value;

    fprintf(script, "$%s%d << END\n", prefix, index);
    json_array_foreach(cdf, percent, value)
        fprintf(script, "%.3f %zu\n", fmax(json_number_value(value), 0.001), percent);
    fprintf(script, "END\n");
}

/* One curve per member of `modes`; `at` leads from a mode to its figures. */
static void print_cdf(FILE *script, const char *prefix, json_t *modes, const char *at, bool legend)
{
    const char *name;
    json_t *mode;
    int n = 0;

    json_object_foreach(modes, name,
                        mode) if (json_array_size(result_get(result_get(mode, at), "cdf_us")) > 0)
        print_cdf_data(script, prefix, n++, result_get(result_get(mode, at), "cdf_us"));
    if (n == 0)
        return;
    fprintf(script, "plot ");
    n = 0;
    json_object_foreach(modes, name, mode)
    {
        const json_t *figures = result_get(mode, at);
        const struct style *s = style_of(name);
        char title[128];

        if (json_array_size(result_get(figures, "cdf_us")) == 0)
            continue;
        snprintf(title, sizeof(title), "%s: p50 %.0f us, p99 %.0f us", name,
                 number_at(figures, "p50_us"), number_at(figures, "p99_us"));
        fprintf(script, "%s$%s%d using 1:2 with lines lw %g dt %d lc rgb '%s' ", n ? ", " : "",
                prefix, n, s->dash == 1 ? 2.5 : 1.8, s->dash, s->colour);
        n++;
        if (legend) {
            fprintf(script, "title ");
            print_quoted(script, title);
        } else {
            fprintf(script, "notitle");
        }
    }
    fprintf(script, "\n");
}

/* ---- cutin latency ------------------------------------------------------------------------- */

static bool latency_is(const json_t *root)
{
    return json_is_object(result_get(root, "modes")) && result_get(root, "added_us");
}

static struct plot_size latency_size(const json_t *root)
{
    return (struct plot_size){800, 500};
}

static void latency_script(const json_t *root, FILE *script)
{
    char title[512], origin[400];

    print_origin(root, origin, sizeof(origin));
    snprintf(title, sizeof(title),
             "Real-time latency beside best-effort kernels of %.0f us, %.0f samples each",
             number_at(root, "config.be_kernel_us"), number_at(root, "config.samples"));
    fprintf(script, "set title ");
    print_quoted(script, title);
    fprintf(script, ".\"\\n\".");
    print_quoted(script, origin);
    fprintf(script,
            "\nset logscale x\nset xlabel 'launch to completion, microseconds (logarithmic)'\n"
            "set ylabel 'share of samples, percent'\nset yrange [0:100]\n"
            "set grid xtics\nset rmargin 5\nset key bottom right Left reverse samplen 4 "
            "box lc rgb '#cccccc' opaque\n");
    print_cdf(script, "mode", result_get(root, "modes"), "", true);
}

/* ---- bars ---------------------------------------------------------------------------------- */

/*
 * Groups of bars: one group per row, one bar per column. `value` is NAN where there is none. The
 * caller has set the axes.
 */
struct bars {
    size_t rows, columns;
    const char *(*row)(const void *of, size_t row);
    const char *(*column)(const void *of, size_t column);
    double (*value)(const void *of, size_t row, size_t column);
    const char *format; /* of the figure above a bar, NULL: none */
    const void *of;
    bool legend;
};

static double bar_at(const struct bars *b, size_t row, size_t column)
{
    return (double)row + ((double)column + 0.5) * 0.84 / (double)b->columns - 0.42;
}

static void print_bar_data(FILE *script, const char *prefix, const struct bars *b, size_t column,
                           double least)
{
    fprintf(script, "$%s%zu << END\n", prefix, column);
    for (size_t r = 0; r < b->rows; r++) {
        double value = b->value(b->of, r, column);

        /* What lies below the axis still shows as a line on it. */
        if (!isnan(value))
            fprintf(script, "%g %g %g\n", bar_at(b, r, column), fmax(value, least), value);
    }
    fprintf(script, "END\n");
}

static bool column_empty(const struct bars *b, size_t column)
{
    for (size_t r = 0; r < b->rows; r++)
        if (!isnan(b->value(b->of, r, column)))
            return false;
    return true;
}

static void print_bar_plot(FILE *script, const char *prefix, const struct bars *b, size_t column)
{
    const char *name = b->column(b->of, column);

    fprintf(script,
            "$%s%zu using 1:2:(%g) with boxes fill solid 0.85 border lc rgb '#222222' lc rgb '%s' "
            "lw 0.7 title ",
            prefix, column, 0.8 / (double)b->columns, plot_colour(name));
    print_quoted(script, b->legend ? name : "");
    if (b->format)
        fprintf(script,
                ", $%s%zu using 1:(column(2)>0?column(2):0):(sprintf('%s', column(3))) with labels "
                "rotate by 90 left offset 0,0.3 font ',9' notitle",
                prefix, column, b->format);
}

static void print_bars(FILE *script, const char *prefix, const struct bars *b, double least)
{
    const char *between = "plot ";

    fprintf(script, "set xrange [-0.6:%g]\nset xtics scale 0 (", (double)b->rows - 0.4);
    for (size_t r = 0; r < b->rows; r++) {
        fprintf(script, "%s", r ? ", " : "");
        print_quoted(script, b->row(b->of, r));
        fprintf(script, " %zu", r);
    }
    fprintf(script, ")\n");
    for (size_t c = 0; c < b->columns; c++)
        if (!column_empty(b, c))
            print_bar_data(script, prefix, b, c, least);
    for (size_t c = 0; c < b->columns; c++) {
        if (column_empty(b, c))
            continue;
        fprintf(script, "%s", between);
        print_bar_plot(script, prefix, b, c);
        between = ", ";
    }
    fprintf(script, "\n");
}

/* ---- cutin overhead ------------------------------------------------------------------------ */

static const char *const overhead_calls[] = {"launch", "event_record", "memcpy_async"};
static const char *const overhead_modes[] = {"pass_through", "inline", "buffered"};

static bool overhead_is(const json_t *root)
{
    return json_is_array(result_get(root, "runs")) && result_get(root, "pass_through");
}

static struct plot_size overhead_size(const json_t *root)
{
    return (struct plot_size){1000, 480};
}

static const char *overhead_row(const void *of, size_t row)
{
    return overhead_calls[row];
}

static const char *overhead_column(const void *of, size_t column)
{
    return overhead_modes[column];
}

static double overhead_value(const void *of, size_t row, size_t column)
{
    char path[96];

    snprintf(path, sizeof(path), "%s.%s.added_ns_p50", overhead_modes[column], overhead_calls[row]);
    return number_at(of, path);
}

/* Least and most of all runs, 0 among them: the panels have one scale. */
static void overhead_range(const json_t *runs, double *least, double *most)
{
    const json_t *run;
    size_t i;

    *least = 0;
    *most = 0;
    json_array_foreach((json_t *)(uintptr_t)runs, i,
                       run) for (size_t r = 0; r < ROWS(overhead_calls);
                                 r++) for (size_t c = 0; c < ROWS(overhead_modes); c++)
    {
        *least = fmin(*least, overhead_value(run, r, c));
        *most = fmax(*most, overhead_value(run, r, c));
    }
}

static void overhead_script(const json_t *root, FILE *script)
{
    json_t *runs = result_get(root, "runs"), *run;
    char origin[400], title[64];
    double least, most;
    size_t i;

    overhead_range(runs, &least, &most);
    print_origin(root, origin, sizeof(origin));
    fprintf(script,
            "set multiplot layout 1,%zu margins 0.08,0.98,0.18,0.76 spacing 0.06,0.1 title ",
            json_array_size(runs));
    print_quoted(script,
                 "What cutin adds to a driver call, median in nanoseconds; below 0: cheaper "
                 "than the bare call");
    fprintf(script, ".\"\\n\".");
    print_quoted(script, origin);
    fprintf(script,
            "\nset key outside bottom center horizontal Left reverse samplen 1.5\n"
            "set xzeroaxis lt 1 lc rgb '#333333'\nset ylabel 'added ns per call'\n"
            "set yrange [%g:%g]\n",
            least * 1.15, most * 1.2 + 1);
    json_array_foreach(runs, i, run)
    {
        struct bars bars = {ROWS(overhead_calls),
                            ROWS(overhead_modes),
                            overhead_row,
                            overhead_column,
                            overhead_value,
                            "%.0f",
                            run,
                            true};
        double threads = number_at(run, "threads");

        snprintf(title, sizeof(title), "%.0f thread%s", threads,
                 threads == 1 ? "" : "s, a stream each");
        fprintf(script, "set title ");
        print_quoted(script, title);
        fprintf(script, "\n");
        print_bars(script, "call", &bars, -1e300);
        fprintf(script, "set ylabel ''\n");
    }
    fprintf(script, "unset multiplot\n");
}

/* ---- cutin latency --ablation -------------------------------------------------------------- */

static json_t *ablation_rows(const json_t *root)
{
    return result_get(root, json_is_array(result_get(root, "rows")) ? "rows" : "ablation");
}

static bool ablation_is(const json_t *root)
{
    json_t *first = json_array_get(ablation_rows(root), 0);

    return result_get(first, "variant") && result_get(first, "added_us");
}

static struct plot_size ablation_size(const json_t *root)
{
    size_t rows = json_array_size(ablation_rows(root));

    return (struct plot_size){1000, 190 + 34 * (int)(rows < 64 ? rows : 64)};
}

static double ablation_most(json_t *rows)
{
    double most = 0;
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) most =
        fmax(most, fmax(number_at(row, "added_us.p50"), number_at(row, "added_us.p99")));
    return most;
}

/* Column `c` of $rows as lying bars with their figures; less than nothing is drawn as nothing. */
static void print_bar_column(FILE *script, int c, double offset, double half, const char *colour,
                             const char *title, const char *format)
{
    fprintf(script,
            "$rows using (0):($1+%g):(0):(column(%d)>0?column(%d):0):($1+%g):($1+%g) with "
            "boxxyerror fs solid 0.85 lc rgb '%s' title '%s', "
            "'' using (column(%d)>0?column(%d):0):($1+%g):(sprintf(' %s',column(%d))) with labels "
            "left font ',9' notitle",
            offset, c, c, offset - half, offset + half, colour, title, c, c, offset, format, c);
}

/* Rows from top to bottom; p50 and p99 as two bars in the left half, throughput in the right. */
static void ablation_script(const json_t *root, FILE *script)
{
    json_t *rows = ablation_rows(root), *row;
    size_t i, n = json_array_size(rows);
    char origin[400], label[160];

    print_origin(root, origin, sizeof(origin));
    fprintf(script, "set multiplot title ");
    print_quoted(script,
                 "What each part of cutin is good for: real-time latency added, and what best "
                 "effort keeps");
    fprintf(script, ".\"\\n\".");
    print_quoted(script, origin);
    fprintf(script, "\n$rows << END\n");
    json_array_foreach(rows, i, row)
        fprintf(script, "%zu %g %g %g\n", i, number_at(row, "added_us.p50"),
                number_at(row, "added_us.p99"), number_at(row, "be_throughput_ratio"));
    fprintf(script, "END\nset yrange [%g:-0.6]\nset ytics scale 0 (", (double)n - 0.4);
    json_array_foreach(rows, i, row)
    {
        snprintf(label, sizeof(label), "%s, %.0f us", text_at(row, "variant"),
                 number_at(row, "be_kernel_us"));
        fprintf(script, "%s", i ? ", " : "");
        print_quoted(script, label);
        fprintf(script, " %zu", i);
    }
    fprintf(script,
            ")\nunset grid\nset grid xtics lt 1 lc rgb '#d0d0d0' lw 0.6\nset bmargin at screen %g\n"
            "set tmargin at screen %g\nset lmargin at screen 0.26\nset rmargin at screen 0.66\n"
            "set xlabel 'added latency, microseconds'\nset xrange [0:%g]\n"
            "set key at graph 1,1.04 bottom right horizontal Left reverse samplen 1.5\n",
            70.0 / ablation_size(root).height, 1 - 96.0 / ablation_size(root).height,
            ablation_most(rows) * 1.15 + 1);
    fprintf(script, "plot ");
    print_bar_column(script, 2, -0.18, 0.16, "#0072b2", "p50", "%.0f");
    fprintf(script, ", ");
    print_bar_column(script, 3, 0.18, 0.16, "#d55e00", "p99", "%.0f");
    fprintf(script, "\nset lmargin at screen 0.70\nset rmargin at screen 0.97\nset ytics ('' 0)\n"
                    "set xlabel 'best-effort throughput, share of native'\nset xrange [0:1.25]\n"
                    "set xtics 0.2\nunset key\nplot ");
    print_bar_column(script, 4, 0, 0.3, "#009e73", "", "%.2f");
    fprintf(script, "\nunset multiplot\n");
}

/* ---- cutin disb ---------------------------------------------------------------------------- */

enum { DISB_WIDTH = 1200, DISB_TITLE = 50, DISB_PANEL = 270, DISB_CDF = 260, DISB_CDF_COLUMNS = 3 };

static bool disb_is(const json_t *root)
{
    return json_object_size(result_get(root, "workloads")) > 0 && result_get(root, "models");
}

static size_t cdf_rows(const json_t *root)
{
    size_t workloads = json_object_size(result_get(root, "workloads"));

    return (workloads + DISB_CDF_COLUMNS - 1) / DISB_CDF_COLUMNS;
}

static struct plot_size disb_size(const json_t *root)
{
    return (struct plot_size){DISB_WIDTH,
                              DISB_TITLE + 2 * DISB_PANEL + 25 + (int)cdf_rows(root) * DISB_CDF};
}

/* What the bars are of: rows are workloads, columns modes, each in the order of the object. */
struct disb_bars {
    json_t *workloads;
    const char *mode[16];
    size_t modes;
    const char *figure;
};

static const char *disb_row(const void *of, size_t row)
{
    const struct disb_bars *b = of;
    const char *name;
    json_t *workload;

    json_object_foreach(b->workloads, name, workload)
    {
        if (row-- == 0)
            return name;
    }
    return "";
}

static const char *disb_column(const void *of, size_t column)
{
    return ((const struct disb_bars *)of)->mode[column];
}

static double disb_value(const void *of, size_t row, size_t column)
{
    const struct disb_bars *b = of;
    json_t *workload = json_object_get(b->workloads, disb_row(of, row));
    json_t *mode = json_object_get(json_object_get(workload, "modes"), b->mode[column]);

    return mode ? number_at(mode, b->figure) : NAN;
}

/* Modes in the order in which they first appear. */
static void disb_columns(struct disb_bars *b)
{
    const char *name, *mode;
    json_t *workload, *value;

    json_object_foreach(b->workloads, name, workload)
    {
        json_object_foreach(json_object_get(workload, "modes"), mode, value)
        {
            size_t i = 0;
            while (i < b->modes && strcmp(b->mode[i], mode) != 0)
                i++;
            if (i == b->modes && b->modes < ROWS(b->mode))
                b->mode[b->modes++] = mode;
        }
    }
}

/* A panel `height` pixels high whose top is `top` pixels below the top of the picture. */
static void place(FILE *script, const json_t *root, double left, double width, double top,
                  double height)
{
    double all = disb_size(root).height;

    fprintf(script,
            "set lmargin at screen %g\nset rmargin at screen %g\n"
            "set tmargin at screen %g\nset bmargin at screen %g\n",
            left, left + width, 1 - top / all, 1 - (top + height) / all);
}

static double disb_most(const struct disb_bars *b)
{
    double most = 1;

    for (size_t r = 0; r < json_object_size(b->workloads); r++)
        for (size_t c = 0; c < b->modes; c++)
            most = fmax(most, disb_value(b, r, c));
    return most;
}

static void disb_panels(FILE *script, const json_t *root)
{
    static const struct {
        const char *figure, *title;
    } panels[] = {
        {"rt_vs_alone", "Real-time p99 latency, times that of rt-only (logarithmic, 1 is best)"},
        {"throughput_vs_rt_only", "Requests per second of all clients, times those of rt-only "
                                  "(logarithmic, more is better)"},
    };
    struct disb_bars b = {.workloads = result_get(root, "workloads")};
    struct bars bars = {
        json_object_size(b.workloads), 0, disb_row, disb_column, disb_value, "%.3g", &b, true};

    disb_columns(&b);
    bars.columns = b.modes;
    fprintf(script,
            "set logscale y\nset key at screen 0.5,%g center horizontal Left reverse "
            "samplen 1.5\n",
            1 - 50.0 / disb_size(root).height);
    for (size_t i = 0; i < ROWS(panels); i++) {
        b.figure = panels[i].figure;
        place(script, root, 0.06, 0.92, DISB_TITLE + 60 + (double)i * (DISB_PANEL - 10),
              DISB_PANEL - 80);
        fprintf(script, "set title '%s'\nset yrange [0.5:%g]\n", panels[i].title,
                4 * disb_most(&b));
        print_bars(script, i ? "throughput" : "latency", &bars, 0.5);
        fprintf(script, "unset key\n");
    }
}

static void disb_script(const json_t *root, FILE *script)
{
    json_t *workloads = result_get(root, "workloads"), *workload;
    char origin[400], text[640];
    const char *name;
    size_t i = 0;

    print_origin(root, origin, sizeof(origin));
    snprintf(text, sizeof(text), "%s, %.0f s per mode, models at %g x the published speed", origin,
             number_at(root, "config.seconds"), number_at(root, "config.speed"));
    fprintf(script, "set multiplot title ");
    print_quoted(script, text);
    fprintf(script, "\n");
    disb_panels(script, root);
    fprintf(script,
            "unset logscale\nset logscale x\nset xrange [*:*]\nset yrange [0:100]\n"
            "unset key\nset ytics 25\nset xtics scale 1 autofreq\n"
            "set xtics ('0.1' 1e2, '0.2' 2e2, '0.5' 5e2, '1' 1e3, '2' 2e3, '5' 5e3, '10' 1e4, "
            "'20' 2e4, '50' 5e4, '100' 1e5, '200' 2e5, '' 5e5, '1000' 1e6, '' 2e6, '' 5e6, "
            "'10000' 1e7) font ',9'\n"
            "set grid xtics\n");
    json_object_foreach(workloads, name, workload)
    {
        char prefix[32];

        place(script, root, 0.06 + 0.32 * (double)(i % DISB_CDF_COLUMNS), 0.28,
              DISB_TITLE + 2 * DISB_PANEL + 55 + (double)(i / DISB_CDF_COLUMNS) * DISB_CDF,
              DISB_CDF - 90);
        snprintf(text, sizeof(text), "%s: real-time latency, ms (log)", name);
        fprintf(script, "set title ");
        print_quoted(script, text);
        fprintf(script, "\nset ylabel '%s'\n", i % DISB_CDF_COLUMNS ? "" : "percent of requests");
        snprintf(prefix, sizeof(prefix), "cdf%zu_", i++);
        print_cdf(script, prefix, json_object_get(workload, "modes"), "rt", false);
    }
    fprintf(script, "unset multiplot\n");
}

/* ---- the table ----------------------------------------------------------------------------- */

const struct result_kind result_kinds[] = {
    {"latency", "cutin latency", latency_is, latency_size, latency_script},
    {"overhead", "cutin overhead", overhead_is, overhead_size, overhead_script},
    {"disb", "cutin disb", disb_is, disb_size, disb_script},
    {"ablation", "cutin latency --ablation", ablation_is, ablation_size, ablation_script},
    {0},
};

const struct result_kind *result_kind_of(const json_t *root)
{
    for (const struct result_kind *kind = result_kinds; kind->name; kind++)
        if (kind->is(root))
            return kind;
    return NULL;
}
