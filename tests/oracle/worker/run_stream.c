/*
 * run_stream.c - runs ops about events and streams.
 */
#include "machine.h"

#include <time.h>

#include "hold.h"
#include "trace.h"

/* A query may answer either way, unless the model knows the answer. */
static CUresult judge_query(const struct op *o, uint32_t index, CUresult r)
{
    if (r == CUDA_ERROR_NOT_READY && o->must_be_done)
        broken("a query said not ready although its work had been waited for");
    if (r == CUDA_SUCCESS)
        trace_said_query(index);
    return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

static void poll_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static CUresult event_poll(CUevent event)
{
    CUresult r;
    while ((r = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        poll_nap();
    return r;
}

static CUresult stream_poll(const struct op *o)
{
    CUresult r;
    while ((r = CALL(cuStreamQuery, o, handle(o))) == CUDA_ERROR_NOT_READY)
        poll_nap();
    return r;
}

/* The new event may have the handle of the old one, or certainly has another one. */
static CUresult event_renew(CUevent *event, bool other_handle)
{
    CUevent old = *event;
    CUresult r = other_handle ? cuEventCreate(event, 0) : CUDA_SUCCESS;
    r = r ? r : cuEventDestroy_v2(old);
    return r || other_handle ? r : cuEventCreate(event, 0);
}

CUresult run_event(const struct op *o, uint32_t index)
{
    CUevent *event = &m.event[o->event];
    float ms;
    switch (o->kind) {
    case OP_RECORD:
        return o->variant & 4 ? CALL(cuEventRecordWithFlags, o, *event, handle(o), 0)
                              : CALL(cuEventRecord, o, *event, handle(o));
    case OP_WAIT:
        return CALL(cuStreamWaitEvent, o, handle(o), *event, 0);
    case OP_EVENT_SYNC:
        return cuEventSynchronize(*event);
    case OP_EVENT_POLL:
        return event_poll(*event);
    case OP_EVENT_QUERY:
        return judge_query(o, index, cuEventQuery(*event));
    case OP_ELAPSED: {
        CUresult r = cuEventElapsedTime(&ms, *event, *event);
        return r == CUDA_ERROR_NOT_READY || r == CUDA_ERROR_INVALID_HANDLE ? CUDA_SUCCESS : r;
    }
    default:
        return event_renew(event, o->variant & 1);
    }
}

CUresult run_stream(const struct op *o, uint32_t index)
{
    switch (o->kind) {
    case OP_STREAM_SYNC:
        return CALL(cuStreamSynchronize, o, handle(o));
    case OP_STREAM_QUERY:
        return judge_query(o, index, CALL(cuStreamQuery, o, handle(o)));
    case OP_STREAM_POLL:
        return stream_poll(o);
    case OP_HOLD:
        hold_begin(o->stream, handle(o), 1 + o->a % (o->variant & 2 ? 100 : 1000));
        return CUDA_SUCCESS;
    case OP_SET_ATTRIBUTE: {
        CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_AUTO};
        if (stream_role(o->stream) < CREATED)
            return CUDA_SUCCESS;
        if ((o->variant & 16) && stream_base(o->stream) == MAIN)
            return cuStreamCopyAttributes(handle(o), m.side[o->thread]);
        return cuStreamSetAttribute(handle(o), CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value);
    }
    default: {
        CUstream *s = &m.stream[o->stream];
        hold_end(o->stream);
        m.stream_id[o->stream] = 0;
        CUresult r = cuStreamDestroy_v2(*s);
        return r ? r : machine_stream_create(o->stream);
    }
    }
}
