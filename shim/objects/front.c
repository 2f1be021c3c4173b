/*
 * front.c - the library that stands in front of the driver's functions, if one is preloaded
 * (shim/front.h).
 */
#include "shim/front.h"
#include "shim/lookup/api.h"
#include "shim/objects/capture.h"
#include "shim/objects/stream.h"

_Atomic uint32_t front_copy_ns, front_read_ps;

static void *front_driver(const char *symbol)
{
    int row = api_find(symbol);
    void *real = row >= 0 ? api_get((enum api_index)row) : NULL; /* api_get also fills api_driver */
    return row >= 0 && api_driver[row] ? api_driver[row] : real;
}

static bool front_applies(CUstream stream)
{
    return !shim_bypassed() && !(capture_any() && capture_ask(stream_known(stream), stream));
}

static const struct cutin_behind behind = {
    .driver = front_driver, .applies = front_applies, .log = log_line};

void *shim_stand_in(int row)
{
    enum { UNASKED, THERE, NONE };
    static _Atomic int state;
    int is = atomic_load_explicit(&state, memory_order_acquire), unasked = UNASKED;
    if (is == UNASKED) {
        const struct config *c = config_get();
        is = &cutin_front && cutin_front.version == CUTIN_FRONT_VERSION ? THERE : NONE;
        if (is == THERE) {
            struct cutin_front_cost cost =
                cutin_front.begin(&behind, c->distance_ns, c->distance_tags);
            atomic_store_explicit(&front_copy_ns, cost.copy_ns, memory_order_relaxed);
            atomic_store_explicit(&front_read_ps, cost.read_ps, memory_order_relaxed);
        }
        bool says = atomic_compare_exchange_strong(&state, &unasked, is) && is == NONE;
        if (says && &cutin_front)
            log_line(LOG_WARN,
                     "ignoring the preloaded library in front of the driver: it has version %u, "
                     "libcutin.so needs %u; install both from one release",
                     (unsigned)cutin_front.version, (unsigned)CUTIN_FRONT_VERSION);
        else if (says && c->distance_ns && !c->disabled)
            log_line(LOG_WARN, "CUTIN_DISTANCE_US has no effect: libcutin_distance.so is not "
                               "preloaded (cutin-lab distance does that)");
    }
    return is == THERE ? cutin_front.stand_in(api_rows[row].symbol) : NULL;
}
