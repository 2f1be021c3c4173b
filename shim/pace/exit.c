/*
 * exit.c - the process ends, or is the child of a fork (process.c).
 */
#include "common/clock.h"
#include "scheduler/client/client.h"
#include "shim/learn/profile.h"
#include "shim/pace/gates.h"
#include "shim/pace/pace.h"
#include "shim/path/traced.h"

/* The application ends. What it launched before is to run, as natively, but not for ever. All
 * contexts have the same deadline, because each is drained by a thread of its own. */
struct ending {
    uint64_t until_ns;
    bool late;
};

static void exit_each(struct shim_context *ctx, void *user)
{
    struct ending *e = user;
    uint64_t now = clock_ns();
    uint32_t left_ms = e->until_ns > now ? (uint32_t)((e->until_ns - now) / NS_PER_MS) : 0;
    if (ctx->set && !vhq_set_empty(ctx->set) && vhq_set_drain_timeout(ctx->set, left_ms) != 0)
        e->late = true;
}

void shim_exit_drain(void)
{
    struct ending e = {.until_ns = clock_ns() + UINT64_C(2000) * NS_PER_MS};
    if (vhq_in_dispatcher())
        return;
    suspend_end();
    context_each(exit_each, &e);
    if (e.late)
        log_line(LOG_WARN, "the program ended while its work was held; some of it did not run");
    traced_read();
    shim_engage(false); /* before the client closes: no wrapper may count activity from now on */
    client_close();
    gates_open_all();
    profile_close();
    trace_flush();
}

void shim_fork_child(void)
{
    if (MUTANT(fork_forgotten)) {
        shim_engage(true);
        return;
    }
    trace_stop();
    vhq_after_fork();
    client_after_fork();
}
