/*
 * doctor_records.c - what CUTIN_GATES=auto and CUTIN_SUSPEND=auto do here, by the records that this
 * command writes. `cutin run` writes those of gates, too.
 */
#include "doctor.h"
#include "tools/cutin/run/run.h"

#include <stdio.h>
#include <string.h>

static bool published(const char *what, const char *version, struct finding *f)
{
    int rc = record_publish(what, version);

    if (rc != 0)
        finding_set(f, VERDICT_WARN, "run cutin doctor --for-all as root",
                    "recorded only for this user: %s: %s", RECORD_MACHINE_FOLDER, strerror(-rc));
    return rc == 0;
}

void check_gates(const struct doctor *d, struct finding *f)
{
    const struct probe *p = &d->bare;
    struct record r;
    char age[48], version[64];
    uint8_t key[16];
    uint64_t unit_s;

    record_key(key, p->gpu);
    record_version(version, p->driver_version);
    if (d->again || !gates_recorded(key, version, &r))
        gates_probe(&d->paths, d->sim, true);
    if (!gates_recorded(key, version, &r)) {
        finding_set(f, VERDICT_WARN, "set XDG_CACHE_HOME or HOME to a folder that can be written",
                    "not used by CUTIN_GATES=auto: the result of their test cannot be recorded");
        return;
    }
    if (d->for_all && !published("gates", r.version, f))
        return;
    unit_s = r.age_s >= 2 * 86400 ? 86400 : r.age_s >= 2 * 3600 ? 3600 : 60;
    if (r.age_s >= 2 * unit_s)
        snprintf(age, sizeof(age), "seen %llu %s ago", (unsigned long long)(r.age_s / unit_s),
                 unit_s == 86400  ? "days"
                 : unit_s == 3600 ? "hours"
                                  : "minutes");
    else
        snprintf(age, sizeof(age), r.age_s < 10 ? "seen just now" : "seen a minute ago");
    if (strcmp(r.way, "none") == 0)
        finding_set(f, VERDICT_NOTE, "cutin doctor --again tests again",
                    "not used by CUTIN_GATES=auto: %s (%s)", r.why, age);
    else
        finding_set(f, VERDICT_OK, NULL,
                    "hold%s, and CUTIN_GATES=auto uses them (%s; --again tests again)%s%s",
                    strcmp(r.way, "graphs") == 0 ? ", in graphs too" : ", but not in graphs", age,
                    r.why[0] ? ": " : "", r.why);
}

void suspend_save(struct suspended *s)
{
    const char *driver = "", *uuid = "", *why = NULL, *refused = NULL;
    struct record *record = &s->record;
    uint8_t key[16];
    int unsure = 0;

    json_unpack(s->values, "{s?s, s?s, s?s, s?s, s?s, s?b}", "why", &why, "suspend_why", &refused,
                "suspend_way", &s->way, "suspend_driver", &driver, "uuid", &uuid, "unsure",
                &unsure);
    s->why = refused ? refused : why ? why : "it was not tried";
    json_unpack(s->values, "{s?{s:F}}", "schedule_call_us", "p50", &s->call_us);
    if ((unsure && !s->way) || !driver[0] || strlen(uuid) != 32)
        return;
    for (int i = 0; i < 16; i++)
        if (sscanf(uuid + (ptrdiff_t)2 * i, "%2hhx", &key[i]) != 1)
            return;
    snprintf(record->version, sizeof(record->version), "%s", driver);
    snprintf(record->way, sizeof(record->way), "%s", s->way ? s->way : "none");
    snprintf(record->why, sizeof(record->why), "%s", s->way ? "" : s->why);
    s->record_error = record_write("suspend", key, record);
}

void check_suspend(const struct doctor *d, struct finding *f)
{
    const struct suspended *s = &d->suspend;

    if (!s->values)
        finding_set(f, VERDICT_NOTE, NULL, "not used, because it was not tried");
    else if (d->for_all && !s->record_error && s->record.version[0] &&
             !published("suspend", s->record.version, f))
        return;
    else if (!s->way)
        finding_set(f, VERDICT_NOTE, NULL, "not used, because %s", s->why);
    else if (s->record_error)
        finding_set(f, VERDICT_WARN, "set XDG_CACHE_HOME or HOME to a folder that can be written",
                    "%s stops a running kernel, but this result cannot be recorded: %s", s->way,
                    strerror(-s->record_error));
    else if (s->call_us > 0)
        finding_set(
            f, VERDICT_OK, NULL,
            "a running kernel stops (by %s, a call of %.0f us) and resumes; CUTIN_SUSPEND=auto "
            "uses this",
            s->way, s->call_us);
    else
        finding_set(f, VERDICT_OK, NULL,
                    "a running kernel gives way (by %s) and resumes; CUTIN_SUSPEND=auto uses this",
                    s->way);
}
