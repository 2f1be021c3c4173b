/*
 * papers.c - the models agree with their papers' figures, each within its stated tolerance.
 */
#include "tools/lab/predict/papers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(papers, each_figure_is_within_its_tolerance)
{
    struct papers_row rows[PAPERS_MOST];
    size_t n, of_distance = 0;

    cr_assert_eq(papers_compare(rows, &n), 0);
    for (size_t i = 0; i < n; i++) {
        of_distance += strcmp(rows[i].model, "DxPU") == 0;
        cr_expect_leq(fabs(rows[i].ours - rows[i].theirs), rows[i].tolerance,
                      "%s, %s: %.2f there, %.2f here", rows[i].model, rows[i].what, rows[i].theirs,
                      rows[i].ours);
    }
    cr_expect_geq(of_distance, 10);
    cr_expect_geq(n - of_distance, 12);
}
