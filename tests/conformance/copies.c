/*
 * copies.c - copies and memsets: when memory is read and written, and what is refused.
 */
#include "rig.h"

TestSuite(copies, .init = rig_open);

static void words_set(uint32_t *p, uint32_t value)
{
    for (int i = 0; i < WORDS; i++)
        p[i] = value;
}

Test(copies, round_trip_to_device_preserves_data)
{
    static uint32_t in[WORDS], out[WORDS];
    CUdeviceptr p = words_new(0);
    for (uint32_t i = 0; i < WORDS; i++)
        in[i] = i * 2654435761u;
    OK(cuMemcpyHtoD(p, in, BYTES));
    OK(cuMemcpyDtoH(out, p, BYTES));
    cr_assert_eq(memcmp(in, out, BYTES), 0);
}

Test(copies, pageable_source_is_reusable_when_the_call_returns)
{
    struct gate gate;
    static uint32_t in[WORDS];
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    words_set(in, 1);
    gate_queue(&gate, s);
    OK(cuMemcpyHtoDAsync(p, in, BYTES, s));
    words_set(in, 2);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 1);
}

Test(copies, pinned_source_is_read_when_the_copy_runs)
{
    struct gate gate;
    CUstream s = stream_new();
    uint32_t *in = pinned_new();
    CUdeviceptr p = words_new(0);
    words_set(in, 1);
    gate_queue(&gate, s);
    OK(cuMemcpyHtoDAsync(p, in, BYTES, s));
    words_set(in, 2);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 2);
}

Test(copies, pageable_destination_is_written_when_the_call_returns)
{
    static uint32_t out[WORDS];
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    OK(launch_spin(s, 1000000));
    OK(launch_fill(s, p, 9));
    OK(cuMemcpyDtoHAsync(out, p, BYTES, s));
    cr_assert_eq(out[0], 9);
    cr_assert_eq(out[WORDS - 1], 9);
}

Test(copies, pinned_destination_is_written_in_stream_order)
{
    struct gate gate;
    CUstream s = stream_new();
    uint32_t *out = pinned_new();
    CUdeviceptr p = words_new(5);
    gate_queue(&gate, s);
    OK(cuMemcpyDtoHAsync(out, p, BYTES, s));
    cr_assert_eq(out[0], 0);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    cr_assert_eq(out[WORDS - 1], 5);
}

Test(copies, registered_memory_is_pinned)
{
    struct gate gate;
    static uint32_t in[WORDS];
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    OK(cuMemHostRegister(in, BYTES, CU_MEMHOSTREGISTER_PORTABLE));
    words_set(in, 1);
    gate_queue(&gate, s);
    OK(cuMemcpyHtoDAsync(p, in, BYTES, s));
    words_set(in, 2);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    words_are(p, 2);
    OK(cuMemHostUnregister(in));
}

Test(copies, device_to_device_copy_transfers_every_word)
{
    CUdeviceptr a = words_new(3), b = words_new(0);
    OK(cuMemcpyDtoD(b, a, BYTES));
    words_are(b, 3);
}

Test(copies, direction_is_inferred)
{
    static uint32_t host[WORDS];
    CUdeviceptr p = words_new(4), q = words_new(0);
    OK(cuMemcpy((CUdeviceptr)host, p, BYTES));
    cr_assert_eq(host[7], 4);
    words_set(host, 6);
    OK(cuMemcpy(q, (CUdeviceptr)host, BYTES));
    words_are(q, 6);
}

Test(copies, zero_byte_copy_changes_nothing)
{
    CUdeviceptr p = words_new(1);
    uint32_t word = 2;
    OK(cuMemcpyHtoD(p, &word, 0));
    words_are(p, 1);
}

Test(copies, invalid_device_pointers_are_refused)
{
    static uint32_t host[WORDS];
    CUdeviceptr p = words_new(1);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(0, host, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host, 0x10, 4));
    words_are(p, 1); /* the context has no error */
}

Test(copies, memcpy_2d_honours_pitch_and_offset)
{
    enum { W = 12, H = 5 };
    uint8_t in[H][W], out[H][W] = {{0}};
    CUdeviceptr p;
    size_t pitch;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            in[y][x] = (uint8_t)(y * 16 + x);
    OK(cuMemAllocPitch(&p, &pitch, W, H, 4));
    cr_assert_geq(pitch, W);
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = in,
                        .srcPitch = W,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = pitch,
                        .WidthInBytes = W,
                        .Height = H};
    OK(cuMemcpy2D(&up));
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .srcPitch = pitch,
                          .srcXInBytes = 2,
                          .srcY = 1,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out,
                          .dstPitch = W,
                          .WidthInBytes = 4,
                          .Height = 3};
    OK(cuMemcpy2D(&down));
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 4; x++)
            cr_assert_eq(out[y][x], in[y + 1][x + 2]);
    cr_assert_eq(out[0][4], 0);
    up.dstPitch = W - 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&up));
}

Test(copies, memcpy_3d_transfers_every_byte)
{
    enum { W = 8, H = 3, D = 2 };
    uint8_t in[D][H][W], out[D][H][W];
    CUdeviceptr p;
    for (size_t i = 0; i < sizeof(in); i++)
        ((uint8_t *)in)[i] = (uint8_t)i;
    OK(cuMemAlloc(&p, sizeof(in)));
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = in,
                         .srcPitch = W,
                         .srcHeight = H,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = p,
                         .dstPitch = W,
                         .dstHeight = H,
                         .WidthInBytes = W,
                         .Height = H,
                         .Depth = D};
    OK(cuMemcpy3D(&box));
    OK(cuMemcpyDtoH(out, p, sizeof(out)));
    cr_assert_eq(memcmp(in, out, sizeof(in)), 0);
}

Test(copies, arrays_hold_their_elements)
{
    float in[16], out[16] = {0};
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 16, .Height = 0, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    for (int i = 0; i < 16; i++)
        in[i] = (float)i * 1.5f;
    OK(cuArrayCreate(&array, &desc));
    OK(cuMemcpyHtoA(array, 0, in, sizeof(in)));
    OK(cuMemcpyAtoH(out, array, 0, sizeof(out)));
    cr_assert_eq(memcmp(in, out, sizeof(in)), 0);
    CUDA_ARRAY_DESCRIPTOR got;
    OK(cuArrayGetDescriptor(&got, array));
    cr_assert_eq(got.Width, 16);
    OK(cuArrayDestroy(array));
}

Test(copies, memset_fills_8_16_and_32_bit_values)
{
    CUdeviceptr p = words_new(0);
    OK(cuMemsetD8(p, 0xab, BYTES));
    words_are(p, 0xabababab);
    OK(cuMemsetD16(p, 0x1234, BYTES / 2));
    words_are(p, 0x12341234);
    OK(cuMemsetD32(p, 0xdeadbeef, WORDS));
    words_are(p, 0xdeadbeef);
}

Test(copies, memsets_run_in_stream_order)
{
    CUstream s = stream_new();
    CUdeviceptr p = words_new(0);
    OK(cuMemsetD32Async(p, 2, WORDS, s));
    OK(launch_mix(s, p, 10, 1));
    OK(cuMemsetD8Async(p, 0, 4, s));
    OK(launch_mix(s, p, 1, 1));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(word_of(p), 1);
    cr_assert_eq(word_of(p + 4), 22);
}

Test(copies, memset_2d_fills_only_its_rectangle)
{
    CUdeviceptr p = words_new(0);
    uint32_t out[WORDS];
    OK(cuMemsetD2D32(p, 64, 7, 4, 3));
    OK(cuMemcpyDtoH(out, p, BYTES));
    for (int i = 0; i < WORDS; i++)
        cr_assert_eq(out[i], i / 16 < 3 && i % 16 < 4 ? 7 : 0);
}

Test(copies, misaligned_memset_is_refused)
{
    CUdeviceptr p = words_new(0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p + 1, 1, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemsetD16(p + 1, 1, 1));
}

/* "Destination context (ignored with dstMemoryType is ::CU_MEMORYTYPE_ARRAY)" (cuda.h) */
Test(copies, peer_copy_to_array_needs_no_destination_context)
{
    CUDA_ARRAY_DESCRIPTOR desc = {WORDS, 1, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    static uint32_t back[WORDS];
    CUdeviceptr from = words_new(6);
    CUarray array;
    OK(cuArrayCreate(&array, &desc));
    CUDA_MEMCPY3D_PEER there = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = from,
                                .srcContext = rig.ctx,
                                .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                .dstArray = array,
                                .WidthInBytes = BYTES,
                                .Height = 1,
                                .Depth = 1};
    OK(cuMemcpy3DPeer(&there));
    OK(cuMemcpyAtoH(back, array, 0, BYTES));
    cr_assert_eq(back[WORDS - 1], 6);
    there.srcContext = NULL;
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DPeer(&there));
    OK(cuArrayDestroy(array));
}
