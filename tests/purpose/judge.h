/*
 * judge.h - did real time get in? Verdicts on one run. They come from the event log of the
 * simulated device, in the device's time, and from what the workers report of their calls.
 */
#ifndef PURPOSE_JUDGE_H
#define PURPOSE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record.h"

/* X(name, what is judged, what the figure is) */
#define RULES(X)                                                                                   \
    X(after, "(a) best effort that was submitted after a hold began", "commands")                  \
    X(wait, "(b) wait of real time's first kernel, less the rest of what ran, p99", "us")          \
    X(settle, "    the same within 200 ms after somebody came", "us")                              \
    X(again, "(c) from real time's end to best effort's next start, p50", "us")                    \
    X(idle, "(d) device idle with work asked for and nothing held", "%")                           \
    X(memory, "(e) memory in use above what the jobs hold natively", "MB")                         \
    X(share, "(f) a share's distance from its weight", "%")                                        \
    X(pace, "(g) a solo's time above what it takes natively", "%")

enum rule {
#define X(name, what, unit) RULE_##name,
    RULES(X)
#undef X
        RULE_COUNT
};

struct verdict {
    bool judged[RULE_COUNT], failed[RULE_COUNT];
    double figure[RULE_COUNT];  /* in the rule's unit */
    uint64_t at_ns[RULE_COUNT]; /* when it was so; 0: the whole time */
    uint32_t cut_ins;
    /* Not judged, and only from when all processes have been there for long enough: the time from
     * the first kernel's stream being free for it until it starts, including what ran then; and the
     * part of the time in which the device works. */
    double wait_p50_us, used;
    uint64_t took_ns; /* by a solo's steps */
};

struct run {
    const struct workload *workload;
    const char *log;
    pid_t pid[WORKERS]; /* 0: not there */
    const struct record *record[WORKERS];
    uint64_t begin_ns, end_ns;
    uint64_t native_ns;         /* a solo's time without cutin; 0: it is not to be judged */
    double budget_us, slack_us; /* (b) allows one budget and the stated constant */
    bool stepped;               /* the host's time is modelled, so nothing is allowed for it */
};

/* 0, or -errno: the log cannot be read. */
int judge(const struct run *r, struct verdict *v);

#endif
