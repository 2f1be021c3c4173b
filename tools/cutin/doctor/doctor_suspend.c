/*
 * doctor_suspend.c - whether kernels that run can be stopped here, and the record by which
 * CUTIN_SUSPEND=auto goes.
 */
#include "doctor.h"
#include "common/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool uuid_parse(const char *text, uint8_t uuid[16])
{
    for (int i = 0; i < 16; i++) {
        unsigned int byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        uuid[i] = (uint8_t)byte;
    }
    return true;
}

void suspend_take(struct suspended *s)
{
    const char *driver = "", *uuid = "", *why = NULL, *refused = NULL;
    struct record record = {.way = "none"};
    uint8_t bytes[16];
    int unsure = 0;

    json_unpack(s->values, "{s?s, s?s, s?s, s?s, s?s, s?b}", "why", &why, "suspend_why", &refused,
                "suspend_way", &s->way, "suspend_driver", &driver, "uuid", &uuid, "unsure",
                &unsure);
    s->why = refused ? refused : why ? why : "it was not tried";
    json_unpack(s->values, "{s?{s:F}}", "schedule_call_us", "p50", &s->call_us);
    if ((unsure && !s->way) || !driver[0] || strlen(uuid) != 32 || !uuid_parse(uuid, bytes))
        return;
    snprintf(record.version, sizeof(record.version), "%s", driver);
    snprintf(record.way, sizeof(record.way), "%s", s->way ? s->way : "none");
    snprintf(record.why, sizeof(record.why), "%s", s->way ? "" : s->why);
    s->record_error = record_write("suspend", bytes, &record);
}

void check_suspend(const struct doctor *d, struct finding *f)
{
    const struct suspended *s = &d->suspend;

    if (!s->values)
        find(f, VERDICT_NOTE, NULL, "not used, because it was not tried");
    else if (!s->way)
        find(f, VERDICT_NOTE, NULL, "not used, because %s", s->why);
    else if (s->record_error)
        find(f, VERDICT_WARN, "set XDG_CACHE_HOME or HOME to a folder that can be written",
             "by %s a kernel that runs stops, but that cannot be recorded: %s", s->way,
             strerror(-s->record_error));
    else if (s->call_us > 0)
        find(f, VERDICT_OK, NULL,
             "a kernel that runs stops (by %s, a call of %.0f us) and goes on, and "
             "CUTIN_SUSPEND=auto uses that",
             s->way, s->call_us);
    else
        find(f, VERDICT_OK, NULL,
             "a kernel that runs gives way (by %s) and goes on, and CUTIN_SUSPEND=auto uses that",
             s->way);
}
