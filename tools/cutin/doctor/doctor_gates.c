/*
 * doctor_gates.c - what CUTIN_GATES=auto does here, by the record that `cutin run` and this command
 * write.
 */
#include "doctor.h"
#include "common/record.h"
#include "tools/cutin/gates.h"

#include <stdio.h>
#include <string.h>

static void say_age(char out[48], uint64_t s)
{
    static const struct {
        uint64_t seconds;
        const char *name;
    } units[] = {{86400, "days"}, {3600, "hours"}, {60, "minutes"}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (s >= 2 * units[i].seconds) {
            snprintf(out, 48, "seen %llu %s ago", (unsigned long long)(s / units[i].seconds),
                     units[i].name);
            return;
        }
    snprintf(out, 48, s < 10 ? "seen just now" : "seen a minute ago");
}

static bool find_record(const struct probe *p, struct record *r)
{
    char version[64];
    uint8_t key[16];

    record_key(key, p->gpu);
    record_version(version, p->driver_version);
    return record_read("gates", key, r) == 0 && strcmp(r->version, version) == 0;
}

void check_gates(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;
    struct record r;
    char age[48];

    if (p->stage < PROBE_GPU) {
        find(f, VERDICT_NOTE, NULL, "not tried");
        return;
    }
    if (d->again || !find_record(p, &r))
        gates_learn(&d->paths, d->sim, true);
    if (!find_record(p, &r)) {
        find(f, VERDICT_WARN, "set XDG_CACHE_HOME or HOME to a folder that can be written",
             "not used by CUTIN_GATES=auto: whether they hold cannot be recorded");
        return;
    }
    say_age(age, r.age_s);
    if (strcmp(r.way, "none") == 0)
        find(f, VERDICT_NOTE, "cutin doctor --again looks again",
             "not used by CUTIN_GATES=auto: %s (%s)", r.why, age);
    else
        find(f, VERDICT_OK, NULL,
             "hold%s, and CUTIN_GATES=auto uses them (%s; --again looks again)",
             strcmp(r.way, "graphs") == 0 ? ", in graphs too" : ", but not in graphs", age);
}
