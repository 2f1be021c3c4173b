/*
 * recorded.c - programs that once failed (see recorded.h). `cutin-oracle --record` prints an entry.
 */
#include "recorded.h"

#include <stdio.h>
#include <string.h>

static const struct recorded {
    const char *name;
    enum setting setting;
    uint32_t threads;
    uint8_t flags[OTHER - CREATED];
    int8_t priority[OTHER - CREATED];
    struct intent intents[MAX_INTENTS];
    uint8_t forms, contexts; /* as in struct program; below, the second context's streams */
    uint8_t other_flags[OTHER_CREATED];
    int8_t other_priority[OTHER_CREATED];
    uint8_t devices, green;
    int8_t green_priority[GREEN_CREATED];
} recorded[] = {
#include "recorded.inc"
};

unsigned recorded_count(void)
{
    return sizeof(recorded) / sizeof(*recorded);
}

const char *recorded_name(unsigned i)
{
    return recorded[i].name;
}

enum setting recorded_setting(unsigned i)
{
    return i < recorded_count() ? recorded[i].setting : SETTING_DEFAULT;
}

/* The intents end with a barrier without random numbers. */
static bool intent_none(const struct intent *in)
{
    static const struct intent none = {.kind = OP_BARRIER};
    return memcmp(in, &none, sizeof(none)) == 0;
}

void recorded_draw(struct program *p, unsigned i)
{
    const struct recorded *from = &recorded[i];
    if (i >= recorded_count())
        return;
    p->threads = from->threads;
    p->forms = from->forms;
    p->contexts = from->contexts;
    memcpy(p->stream_flags + CREATED, from->flags, sizeof(from->flags));
    memcpy(p->stream_priority + CREATED, from->priority, sizeof(from->priority));
    memcpy(p->stream_flags + OTHER + CREATED, from->other_flags, sizeof(from->other_flags));
    memcpy(p->stream_priority + OTHER + CREATED, from->other_priority,
           sizeof(from->other_priority));
    p->devices = from->devices;
    p->green = from->green && green_known();
    memset(p->stream_flags + GREEN + CREATED, 1, GREEN_CREATED);
    memcpy(p->stream_priority + GREEN + CREATED, from->green_priority,
           sizeof(from->green_priority));
    memcpy(p->intents, from->intents, sizeof(from->intents));
    while (p->intent_count < MAX_INTENTS && !intent_none(&p->intents[p->intent_count]))
        p->intent_count++;
}

void recorded_print(const struct program *p, uint64_t mask, int fd)
{
    static const char *const settings[] = {"SETTING_DEFAULT", "SETTING_TINY", "SETTING_LEVELS",
                                           "SETTING_NO_MEMOPS", "SETTING_REAL_TIME"};
    int other = OTHER + CREATED, green = GREEN + CREATED;
    dprintf(fd, "    {\"\",\n     %s,\n     %u,\n     {", settings[program_setting(p->seed)],
            p->threads);
    for (int s = CREATED; s < OTHER; s++)
        dprintf(fd, "%d%s", p->stream_flags[s], s + 1 < OTHER ? ", " : "},\n     {");
    for (int s = CREATED; s < OTHER; s++)
        dprintf(fd, "%d%s", p->stream_priority[s], s + 1 < OTHER ? ", " : "},\n     {\n");
    for (uint32_t i = 0; i < p->intent_count; i++) {
        if (!(mask >> i & 1))
            continue;
        dprintf(fd, "        {OP_%s, {", op_kind_name(p->intents[i].kind));
        for (int k = 0; k < 8; k++)
            dprintf(fd, "%uu%s", p->intents[i].r[k], k < 7 ? ", " : "}},\n");
    }
    dprintf(
        fd,
        "    },\n     %d,\n     %d,\n     {%d, %d},\n     {%d, %d},\n     %d,\n     %d,\n     {%d, "
        "%d}},\n",
        p->forms, p->contexts, p->stream_flags[other], p->stream_flags[other + 1],
        p->stream_priority[other], p->stream_priority[other + 1], p->devices, p->green,
        p->stream_priority[green], p->stream_priority[green + 1]);
}
