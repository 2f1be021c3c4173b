/*
 * clients.c - what `cutin list` makes of a process's counters.
 */
#include "tools/cutin/operate/clients.h"

#include <criterion/criterion.h>

enum { S = 1000000000 };

/* Within one second it was held for a third on one device and for half on the other. Its time
 * before was divided the other way round. */
Test(clients, time_held_on_two_devices_counts_once)
{
    struct message_row then = {.client = 7, .devices = 2, .age_ms = 10000}, now = then;
    const struct clients before = {&then, 1};
    double share;

    then.device[0].hold_ns = 9ull * S;
    then.device[1].hold_ns = 1ull * S;
    now.age_ms = 11000;
    now.device[0].hold_ns = 9ull * S + S / 3;
    now.device[1].hold_ns = 1ull * S + S / 2;
    share = row_figures_make(&now, &before).held_share;
    cr_expect_float_eq(share, 0.5, 1e-6, "%f", share);
    share = row_figures_make(&now, NULL).held_share;
    cr_expect_float_eq(share, (9 + 1 / 3.0) / 11, 1e-6, "%f", share);
}
