/*
 * figures.c - makes figures of what the clients of a run left in the shared memory.
 */
#include "disb.h"

#include <stdlib.h>

/* Converts an instant of the device's clock to CLOCK_MONOTONIC. The two may run at different
 * speeds. If there is no second pairing, the speeds are taken as equal. */
static double host_ns(const struct disb_entry *entry, double device_ns)
{
    double device = entry->device_ns[1] - entry->device_ns[0],
           host = (double)(entry->clock_ns[1] - entry->clock_ns[0]);
    double rate = entry->clock_ns[1] && device > 0 ? host / device : 1;

    return (double)entry->clock_ns[0] + (device_ns - entry->device_ns[0]) * rate;
}

static uint64_t preempt_ns(const struct disb_shared *shared, const struct disb_entry *entry,
                           const struct disb_sample *sample)
{
    const struct model_kernel *first = (const void *)((const char *)shared + entry->kernels_at);
    double ns =
        host_ns(entry, sample->first_end_ns) - (double)sample->called_at_ns - (double)first->ns;

    return ns > 0 ? (uint64_t)ns : 0; /* shorter than the pairing can resolve */
}

void disb_result_make(struct disb_result *result, const struct disb_shared *shared)
{
    uint64_t *latency, *preempt, sum_ns = 0;
    size_t n = 0, room = 0;

    for (uint32_t i = 0; i < shared->entries; i++)
        room += shared->entry[i].capacity;
    latency = calloc(room + 1, sizeof(*latency));
    preempt = calloc(room + 1, sizeof(*preempt));
    for (uint32_t i = 0; i < shared->entries; i++) {
        const struct disb_entry *entry = &shared->entry[i];
        const struct disb_sample *sample = (const void *)((const char *)shared + entry->samples_at);
        uint32_t completed = atomic_load_explicit(&entry->completed, memory_order_relaxed);

        result->completed += completed;
        result->rt_completed += entry->rt ? completed : 0;
        result->late += entry->rt ? entry->late : 0;
        for (uint32_t k = 0; latency && preempt && k < atomic_load(&entry->samples); k++) {
            latency[n] = sample[k].latency_ns;
            preempt[n++] = preempt_ns(shared, entry, &sample[k]);
            sum_ns += sample[k].latency_ns;
        }
    }
    figures_make(&result->rt, latency, n);
    figures_make(&result->preempt, preempt, n);
    result->mean_us = n ? (double)sum_ns / (double)n / 1000 : 0;
    result->seconds = (double)(shared->end_ns - shared->start_ns) / 1e9;
    result->measured = result->seconds > 0 && (n > 0 || result->completed > 0);
    free(latency);
    free(preempt);
}
