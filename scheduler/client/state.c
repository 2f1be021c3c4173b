/*
 * state.c - this process's own state as a client.
 */
#include "scheduler/client/state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/futex.h"

void state_notice(struct client_state *self, enum notice kind, int severity, const char *format,
                  ...)
{
    struct said_text *at;
    va_list args;

    if (self->said[kind] || self->texts == NOTICES)
        return;
    self->said[kind] = true;
    at = &self->text[self->texts++];
    at->severity = severity;
    va_start(args, format);
    vsnprintf(at->text, sizeof(at->text), format, args);
    va_end(args);
}

void state_log_notices(struct client_state *self)
{
    for (uint32_t i = 0; i < self->texts && self->cfg.log; i++)
        self->cfg.log(self->text[i].severity, self->text[i].text);
    self->texts = 0;
}

void state_wake(struct client_state *self)
{
    atomic_fetch_add(&self->news, 1);
    futex_wake(&self->news);
}

void state_defer_order(struct client_state *self, uint32_t kind, uint32_t value)
{
    if (self->remote_count < REMOTES)
        self->remote[self->remote_count++] = (struct message_remote){.kind = kind, .value = value};
}

uint32_t state_word(const struct client_state *self, uint32_t level)
{
    return atomic_load_explicit(&self->activity.flat, memory_order_relaxed) ? 0 : level;
}

void state_grant(struct client_state *self, uint32_t level)
{
    /* Only best effort has a share. */
    self->hold_limit.share_percent = state_word(self, level) == level ? self->share_percent : 0;
    if (atomic_exchange(&self->level, level) != level)
        state_defer_order(self, CONTROL_LEVEL, level);
    atomic_store(&self->activity.ceiling, level);
    atomic_fetch_add(&self->activity.preemptible.generation, 1);
}

uint32_t state_slot(const struct client_state *self, uint32_t nth)
{
    return (self->cfg.first_slot + nth) % PAGE_DEVICES;
}

void state_identify(struct client_state *self)
{
    struct cutin_page *page = self->page;

    page->client = self->id;
    page->pid = getpid();
    page->uid = getuid();
    atomic_store(&page->level, atomic_load(&self->level));
    atomic_store(&page->lowest, self->cfg.lowest);
    snprintf(page->name, sizeof(page->name), "%.15s", program_invocation_short_name);
}

void state_refill(struct client_state *self, const struct cutin_page *old)
{
    atomic_fetch_add(&self->generation, 1);
    for (uint32_t n = 0; n < self->devices; n++) {
        uint32_t d = state_slot(self, n);

        memcpy(self->page->device[d].uuid, old->device[d].uuid, 16);
        atomic_store_explicit(&self->page->device[d].used, 1, memory_order_release);
    }
    atomic_fetch_add(&self->page->above, self->above_own);
    page_add_counters(self->page, old);
    /* Release: a reader that sees it finds the counters. Partner: usage.c's past. */
    atomic_store_explicit(&self->page->counted_since_ns, self->counted_since_ns,
                          memory_order_release);
    hold_limit_reset(&self->hold_limit);
    activity_refresh_all(&self->activity);
}

void state_leave_daemon(struct client_state *self)
{
    struct cutin_page old;

    page_copy(&old, self->page);
    self->id = 0;
    if (page_make_private(self->page) != 0) {
        /* The mapping failed for lack of memory: the old page stays, without the bits of others. */
        for (uint32_t d = 0; d < PAGE_DEVICES; d++)
            for (uint32_t l = 0; l < PAGE_LEVELS; l++) {
                atomic_fetch_and(&self->page->device[d].want[l], PAGE_BIT_SELF);
                atomic_fetch_and(&self->page->device[d].hold[l], PAGE_BIT_SELF);
            }
        atomic_store(&self->page->above, self->above_own);
        return;
    }
    state_identify(self);
    state_refill(self, &old);
}
