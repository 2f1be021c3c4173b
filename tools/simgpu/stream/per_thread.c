/*
 * per_thread.c - default streams of threads. A thread has one for each context in which it uses its
 * own stream.
 */
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/engine.h"

/* A thread has few contexts, so a short list does. The id tells whether the slot still has the same
 * stream. */
struct own_stream {
    struct sim_context *context;
    struct sim_stream *stream;
    unsigned long long id;
    struct own_stream *next;
};

static _Thread_local struct own_stream *own_streams;
static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;
pthread_mutex_t own_streams_lock = PTHREAD_MUTEX_INITIALIZER;

static bool own_valid(const struct own_stream *own)
{
    return atomic_load(&own->stream->handle.live) && own->stream->id == own->id;
}

static void own_streams_end(void *list)
{
    own_streams = NULL;
    for (struct own_stream *own = list, *next; own; own = next) {
        next = own->next;
        pthread_mutex_lock(&own_streams_lock);
        if (own_valid(own) && !engine_stopped())
            stream_destroy(own->stream);
        pthread_mutex_unlock(&own_streams_lock);
        free(own);
    }
}

static void own_key_make(void)
{
    pthread_key_create(&own_key, own_streams_end);
}

CUresult stream_per_thread(struct sim_context *ctx, struct sim_stream **out)
{
    struct own_stream *own = own_streams;
    while (own && own->context != ctx)
        own = own->next;
    if (!own) {
        own = calloc(1, sizeof(*own));
        if (!own)
            return CUDA_ERROR_OUT_OF_MEMORY;
        own->context = ctx;
        own->next = own_streams;
        own_streams = own;
        pthread_once(&own_once, own_key_make);
        pthread_setspecific(own_key, own);
    }
    if (!own->stream || !own_valid(own)) {
        CUresult rc = stream_create(ctx, STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0, &own->stream);
        if (rc != CUDA_SUCCESS) {
            own->stream = NULL;
            return rc;
        }
        own->id = own->stream->id;
    }
    *out = own->stream;
    return CUDA_SUCCESS;
}
