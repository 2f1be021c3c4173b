/*
 * device.c - who takes part in the shared devices: the file, its lock, clients, contexts and
 * streams. The engine thread of a client holds a robust mutex, which shows that the client lives.
 * When the kernel releases that mutex, any other client removes what the dead one left.
 */
#include "tools/simgpu/device/device.h"
#include "tools/simgpu/device/timeline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

enum { DEVICE_MAGIC = 0x73696d47, DEVICE_VERSION = 5, LOCK_RETRY_NS = 100000000 };

/* ---- the file -------------------------------------------------------------------------------- */

static void mutex_init_shared(pthread_mutex_t *m)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(m, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* A new file is all zero, so only the mutexes have to be made. */
static void shared_init(struct device_shared *sh, const struct device_params *params)
{
    mutex_init_shared(&sh->lock);
    for (int i = 0; i < DEVICE_CLIENTS; i++)
        mutex_init_shared(&sh->clients[i].alive);
    sh->params = *params;
    sh->bytes = sizeof(*sh);
    sh->version = DEVICE_VERSION;
    device_publish();
    sh->magic = DEVICE_MAGIC;
}

/*
 * Two locks on the file. Each process holds a shared flock for life. The kernel releases it however
 * the process ends, so a file that no process has locked is litter. The write lock on the first
 * byte is the door: only one process at a time joins or leaves.
 */
static int file_door(int fd, short type, bool patiently)
{
    struct flock door = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
    int rc;
    do
        rc = fcntl(fd, patiently ? F_OFD_SETLKW : F_OFD_SETLK, &door);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

static bool file_is_linked(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/* Opens or makes the file of that name, and takes the shared flock and the door. */
static int file_enter(const char *name)
{
    for (;;) {
        int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return -errno;
        int rc = flock(fd, LOCK_SH) == 0 ? file_door(fd, F_WRLCK, true) : -errno;
        if (rc == 0 && file_is_linked(fd))
            return fd;
        file_door(fd, F_UNLCK, false); /* or a child of fork that has it open keeps it locked */
        close(fd);
        if (rc != 0 && rc != -EINTR)
            return rc;
        /* The file was unlinked meanwhile, by its last user or by a sweep. Open the name again. */
    }
}

/* Removes the files of devices whose processes were all killed. A file may be removed only under an
 * exclusive lock, and while it still has its name, which may otherwise be another file's. */
static void files_sweep(const char *name)
{
    char path[sizeof("/dev/shm/") + NAME_MAX];
    const char *dash = strchr(name, '-'); /* names are /simgpu-UID-ID */
    dash = dash ? strchr(dash + 1, '-') : NULL;
    size_t prefix = dash ? (size_t)(dash - name) : 0;
    DIR *dir = prefix ? opendir("/dev/shm") : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, name + 1, prefix) != 0)
            continue;
        snprintf(path, sizeof(path), "/dev/shm/%s", e->d_name);
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && file_is_linked(fd))
            unlink(path);
        if (fd >= 0) {
            flock(fd, LOCK_UN); /* or a child of fork that has it open keeps it locked */
            close(fd);
        }
    }
    if (dir)
        closedir(dir);
}

static int file_map(int fd, struct device_shared **sh)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size != 0 && st.st_size != (off_t)sizeof(**sh))
        return -EPROTO;
    if (st.st_size == 0 && ftruncate(fd, (off_t)sizeof(**sh)) < 0)
        return -errno;
    /* Allocate the part in front of the rings now: a full disk would later be SIGBUS. */
    int error = posix_fallocate(fd, 0, (off_t)offsetof(struct device_shared, rings));
    if (error)
        return -error;
    void *map = mmap(NULL, sizeof(**sh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    *sh = map;
    return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Under the device's lock. device_point_done reads the id without it. */
static void stream_id_set(struct device_stream *s, uint32_t id)
{
    __atomic_store_n(&s->id, id, __ATOMIC_RELEASE);
}

static void context_free(struct device_shared *sh, uint32_t slot)
{
    sh->contexts[slot].id = 0;
    for (int g = 0; g < DEVICE_GPUS; g++)
        if (sh->gpus[g].current == slot + 1)
            sh->gpus[g] = (struct device_gpu){0};
}

static void client_remove(struct device_shared *sh, uint32_t client)
{
    for (uint32_t i = 0; i < sh->streams_used; i++)
        if (sh->streams[i].id && sh->streams[i].client == client)
            stream_id_set(&sh->streams[i], 0);
    for (uint32_t i = 0; i < DEVICE_CONTEXTS; i++)
        if (sh->contexts[i].id && sh->contexts[i].client == client)
            context_free(sh, i);
    sh->clients[client].sleep_until_ns = 0;
    device_publish();
    sh->clients[client].in_use = 0;
}

/* Whether this client's engine thread is gone. If it is, the caller then holds `alive`. */
static bool client_lock_if_dead(struct device_client *c)
{
    int rc = pthread_mutex_trylock(&c->alive);
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(&c->alive);
    return rc == 0 || rc == EOWNERDEAD;
}

bool device_reap_dead(struct device *d)
{
    bool found = false;
    for (uint32_t i = 0; i < DEVICE_CLIENTS; i++) {
        struct device_client *c = &d->shared->clients[i];
        if (!c->in_use || i == d->client || !client_lock_if_dead(c))
            continue;
        client_remove(d->shared, i);
        pthread_mutex_unlock(&c->alive);
        found = true;
    }
    return found;
}

bool device_has_other_clients(const struct device *d)
{
    for (uint32_t i = 0; i < DEVICE_CLIENTS; i++)
        if (d->shared->clients[i].in_use && i != d->client)
            return true;
    return false;
}

static int client_claim(struct device *d)
{
    for (uint32_t i = 0; i < DEVICE_CLIENTS; i++) {
        struct device_client *c = &d->shared->clients[i];
        if (c->in_use || !client_lock_if_dead(c))
            continue;
        c->pid = (int32_t)getpid();
        c->sleep_until_ns = 0;
        memset(c->memory, 0, sizeof(c->memory));
        device_publish();
        c->in_use = 1;
        d->client = i;
        return 0;
    }
    return -EUSERS;
}

static void futex_wake_all(uint32_t *word)
{
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A file that is empty, or whose maker died while it made it, is made anew behind the door. */
static int shared_join(struct device *d, const struct device_params *params)
{
    struct device_shared *sh = d->shared;
    if (sh->magic == 0)
        shared_init(sh, params);
    if (sh->magic != DEVICE_MAGIC || sh->version != DEVICE_VERSION || sh->bytes != sizeof(*sh))
        return -EPROTO;
    d->client = DEVICE_CLIENTS;
    device_lock(d);
    device_reap_dead(d);
    if (!device_has_other_clients(d)) { /* all that dead clients left goes, with their parameters */
        sh->params = *params;
        sh->clock = 0;
        memset(sh->gpus, 0, sizeof(sh->gpus));
    }
    if (params->gpus > sh->params.gpus) /* else the work of the added devices would never run */
        sh->params.gpus = params->gpus;
    int rc = client_claim(d);
    device_unlock(d);
    /* A client that was alone sleeps without a look at its neighbours. Now it may wait for works of
     * this client, so it has to wake up. */
    for (uint32_t i = 0; rc == 0 && i < DEVICE_CLIENTS; i++)
        if (i != d->client && sh->clients[i].in_use)
            futex_wake_all(&sh->clients[i].wake);
    return rc;
}

int device_open(struct device *d, const char *name, const struct device_params *params)
{
    snprintf(d->name, sizeof(d->name), "%s", name);
    files_sweep(name);
    d->fd = file_enter(name);
    if (d->fd < 0)
        return d->fd;
    int rc = file_map(d->fd, &d->shared);
    if (rc == 0) {
        rc = shared_join(d, params);
        if (rc < 0)
            munmap(d->shared, sizeof(*d->shared));
    }
    file_door(d->fd, F_UNLCK, true);
    if (rc < 0) {
        close(d->fd);
        d->shared = NULL;
    }
    return rc;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void lock_taken(struct device *d, int rc)
{
    if (rc != EOWNERDEAD)
        return;
    device_repair(d->shared);
    pthread_mutex_consistent(&d->shared->lock);
}

static int lock_timed(struct device *d, uint64_t patience_ns)
{
    pthread_mutex_t *lock = &d->shared->lock;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + patience_ns;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    int rc = pthread_mutex_timedlock(lock, &until);
#ifdef __SANITIZE_THREAD__
    /* libtsan knows that an untimed lock of a dead owner's mutex acquires it. It does not know the
     * same of a timed one. */
    if (rc == EOWNERDEAD) {
        __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
        __tsan_mutex_post_lock(lock, __tsan_mutex_try_lock, 0);
    }
#endif
    return rc;
}

/*
 * The lock is timed, because the kernel may leave a sleeper asleep. The owner unlocks and wakes
 * another sleeper, then locks again, and the lock word no longer says that threads sleep. Then both
 * die before the woken one has looked. For a dead owner the kernel wakes a sleeper only if the word
 * says that there is one; for a dead sleeper only if the lock has no owner.
 */
void device_lock(struct device *d)
{
    int rc = pthread_mutex_trylock(&d->shared->lock);
    while (rc == EBUSY || rc == ETIMEDOUT)
        rc = lock_timed(d, LOCK_RETRY_NS);
    lock_taken(d, rc);
}

/* Finds engines that sleep past their next event, and counts them as awake from now on. */
static uint64_t sleepers_find(struct device_shared *sh)
{
    uint64_t due[DEVICE_CLIENTS], late = 0;
    device_due_all(sh, due);
    for (uint32_t i = 0; i < DEVICE_CLIENTS; i++) {
        struct device_client *c = &sh->clients[i];
        if (!c->in_use || due[i] >= c->sleep_until_ns)
            continue;
        c->sleep_until_ns = 0;
        late |= 1ull << i;
    }
    return late;
}
static_assert(DEVICE_CLIENTS <= 64, "clients fit a 64-bit mask");

void device_unlock(struct device *d)
{
    uint64_t late = sleepers_find(d->shared);
    pthread_mutex_unlock(&d->shared->lock);
    for (; late; late &= late - 1)
        futex_wake_all(&d->shared->clients[__builtin_ctzll(late)].wake);
}

void device_close(struct device *d, uint64_t patience_ns)
{
    struct device_shared *sh = d->shared;
    if (!sh)
        return;
    /* The mapping stays, because other threads of an exiting process may be about to use it. This
     * does not wait for a process that joins; that process then removes the file when it leaves. */
    bool alone = file_door(d->fd, F_WRLCK, false) == 0;
    int rc = lock_timed(d, patience_ns);
    if (rc == 0 || rc == EOWNERDEAD) {
        lock_taken(d, rc);
        client_remove(sh, d->client);
        device_reap_dead(d);
        if (alone && !device_has_other_clients(d))
            shm_unlink(d->name);
        device_unlock(d);
    }
    if (alone) /* the mapping keeps the file open, and its locks, beyond close() */
        file_door(d->fd, F_UNLCK, false);
    close(d->fd);
}

/* ---- contexts and streams -------------------------------------------------------------------- */

/* 0 means a free slot, so an id is never 0, also when the generation wraps round. */
static uint32_t id_next(uint32_t *generation, uint32_t slots, uint32_t slot)
{
    do {
        ++*generation;
    } while (*generation * slots + slot == 0);
    return *generation * slots + slot;
}

/* Threads of a process that has left, because it exits, get nothing more. */
static bool client_has_left(const struct device *d)
{
    return !d->shared->clients[d->client].in_use;
}

uint32_t device_context_open(struct device *d, uint32_t gpu)
{
    if (client_has_left(d))
        return 0;
    for (uint32_t i = 0; i < DEVICE_CONTEXTS; i++) {
        struct device_context *c = &d->shared->contexts[i];
        if (c->id)
            continue;
        uint32_t id = id_next(&c->generation, DEVICE_CONTEXTS, i);
        c->client = d->client;
        c->gpu = gpu;
        c->aborted = c->off = c->sms = 0;
        c->slice_ns = 0;
        device_publish();
        c->id = id;
        return id;
    }
    return 0;
}

void device_context_close(struct device *d, uint32_t context)
{
    uint32_t slot = context % DEVICE_CONTEXTS;
    for (uint32_t i = 0; i < d->shared->streams_used; i++)
        if (d->shared->streams[i].id && d->shared->streams[i].context == slot)
            stream_id_set(&d->shared->streams[i], 0);
    context_free(d->shared, slot);
}

/* Allocates the memory of the slot's ring now. An allocation can fail; a page fault in a full file
 * system kills. */
static bool ring_allocate(struct device *d, uint32_t slot)
{
    size_t at = offsetof(struct device_shared, rings) + slot * sizeof(d->shared->rings[0]);
    return posix_fallocate(d->fd, (off_t)at, (off_t)sizeof(d->shared->rings[0])) == 0;
}

uint32_t device_stream_open(struct device *d, uint32_t context, int priority)
{
    struct device_shared *sh = d->shared;
    for (uint32_t i = 0; i < DEVICE_STREAMS && !client_has_left(d); i++) {
        struct device_stream *s = &sh->streams[i];
        if (s->id)
            continue;
        if (i >= sh->streams_used) {
            if (!ring_allocate(d, i))
                return 0;
            sh->streams_used = i + 1;
        }
        uint32_t id = id_next(&s->generation, DEVICE_STREAMS, i);
        s->client = d->client;
        s->context = context % DEVICE_CONTEXTS;
        s->priority = priority;
        s->queue = 0;
        s->head = 1;
        s->tail = s->reaped = 0;
        __atomic_store_n(&s->completed, 0, __ATOMIC_RELAXED);
        device_publish();
        stream_id_set(s, id);
        return id;
    }
    return 0;
}

void device_stream_close(struct device *d, uint32_t stream)
{
    struct device_stream *s = device_stream(d, stream);
    if (s->id == stream)
        stream_id_set(s, 0);
}

void device_complete(struct device *d, uint32_t stream, uint64_t seq)
{
    struct device_stream *s = device_stream(d, stream);
    __atomic_store_n(&s->completed, seq, __ATOMIC_RELEASE); /* pairs with device_point_done */
}

/* Where another stream has just taken the slot, this may say "not complete" once. The next look
 * sees the new id. */
bool device_point_done(const struct device *d, struct op_point p)
{
    const struct device_stream *s = &d->shared->streams[p.stream % DEVICE_STREAMS];
    if (__atomic_load_n(&s->id, __ATOMIC_ACQUIRE) != p.stream)
        return true;
    uint64_t completed = __atomic_load_n(&s->completed, __ATOMIC_ACQUIRE);
    return (int32_t)((uint32_t)completed - p.seq) >= 0;
}

/* ---- memory: how much each client has taken -------------------------------------------------- */

bool device_memory_take(struct device *d, uint32_t gpu, uint64_t bytes, uint64_t limit)
{
    device_lock(d);
    bool fits = bytes <= limit && gpu_memory_used(d->shared, gpu) <= limit - bytes;
    if (!fits && bytes <= limit && device_reap_dead(d))
        fits = gpu_memory_used(d->shared, gpu) <= limit - bytes;
    if (fits)
        d->shared->clients[d->client].memory[gpu] += bytes;
    device_unlock(d);
    return fits;
}

void device_memory_give(struct device *d, uint32_t gpu, uint64_t bytes)
{
    device_lock(d);
    d->shared->clients[d->client].memory[gpu] -= bytes;
    device_unlock(d);
}

uint64_t device_memory_used(struct device *d, uint32_t gpu)
{
    device_lock(d);
    uint64_t sum = gpu_memory_used(d->shared, gpu);
    device_unlock(d);
    return sum;
}
