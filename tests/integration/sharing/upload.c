/*
 * upload.c - best effort's large uploads beside those of a real-time process, by the device's log.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(upload, .init = sandbox_enter, .fini = sandbox_leave);

/* A large upload takes 5.4 ms as a whole, a small one 44 us. */
#define LARGE_MB "128"
enum { MB = 1 << 20, UPLOADS = 300, PIECE = 2 * MB, ADDED_MOST_US = 2000 };

static int small(const struct device_work *w, const void *unused)
{
    return strcmp(w->kind, "copy") == 0 && w->bytes == MB;
}

static int late(const struct device_work *w, const void *unused)
{
    return small(w, unused) && w->end_ns - w->submit_ns > w->cost_ns + ADDED_MOST_US * 1000u;
}

static int large(const struct device_work *w, const void *since)
{
    return strcmp(w->kind, "copy") == 0 && w->bytes > MB && w->submit_ns > *(const uint64_t *)since;
}

static int whole(const struct device_work *w, const void *since)
{
    return large(w, since) && w->bytes > PIECE;
}

static struct process *upload_start(const char *level, const char *mb, const char *pause_us,
                                    const char *file)
{
    struct process *p = process_start((const char *[]){CUTIN, "run", "--sim", "--priority", level,
                                                       "--", BIN_DIR "/tests/program_upload", mb,
                                                       pause_us, sandbox_path(file), NULL},
                                      NULL);
    cr_assert(process_says(p, "uploaded.", 60), "stderr: %s", process_err(p));
    return p;
}

static void upload_end(struct process *p, const char *file)
{
    sandbox_tell(file);
    cr_expect_eq(process_wait(p, 60), 0, "stderr: %s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), "right"), "stdout: %s", process_out(p));
    process_free(p);
}

Test(upload, best_effort_goes_in_pieces_beside_real_time)
{
    device_log_open();
    struct process *rt = upload_start("rt", "1", "2000", "rt");
    uint64_t since = device_now_ns();
    struct process *be = upload_start("be", LARGE_MB, "0", "be");
    int before = device_log_count(small, NULL), now;
    /* On a slow host best effort has hardly begun its second upload when real time is done. */
    while ((now = device_log_count(small, NULL)) < before + UPLOADS ||
           device_log_count(large, &since) <= 128 / 2) {
        cr_assert(process_running(rt) && process_running(be));
        nap_ms(50);
    }
    cr_expect_eq(device_log_count(whole, &since), 0);
    if (clock_steps())
        cr_expect_eq(device_log_count(late, NULL), 0, "of %d", now);
    upload_end(be, "be");
    upload_end(rt, "rt");
}

/* Natively it is one copy, and also while no client above is there to come between. The first is
 * not: a new client counts as having one above until the daemon has seen that there is none. */
Test(upload, lone_process_copies_in_one_piece)
{
    uint64_t since = 0;
    device_log_open();
    struct process *be = upload_start("be", LARGE_MB, "0", "be");
    while (device_log_count(whole, &since) == 0 && device_log_count(large, &since) < UPLOADS) {
        cr_assert(process_running(be));
        nap_ms(5);
    }
    cr_expect_gt(device_log_count(whole, &since), 0);
    upload_end(be, "be");
}
