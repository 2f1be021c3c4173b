/*
 * conformance.c - the suite's first questions: is there a driver, and what does it say it is?
 */
#include "rig.h"

#include <stdio.h>

Test(driver, version_can_be_queried)
{
    int version = 0;
    OK(cuDriverGetVersion(&version));
    cr_assert_geq(version, 11000);
    FAILS(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion(NULL));
}

Test(driver, calls_before_init_are_refused)
{
    int count;
    CUcontext ctx;
    FAILS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    FAILS(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&ctx));
}

Test(driver, init_takes_no_flags)
{
    FAILS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

Test(driver, device_has_a_name_and_memory, .init = rig_init)
{
    char name[128];
    size_t bytes = 0;
    OK(cuDeviceGetName(name, sizeof(name), rig.dev));
    cr_assert_gt(strlen(name), 0);
    OK(cuDeviceTotalMem(&bytes, rig.dev));
    cr_assert_gt(bytes, 0);
    cr_assert_eq(rig_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    cr_assert_gt(rig_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 0);
}

Test(driver, uuid_is_stable, .init = rig_init)
{
    CUuuid a, b;
    CUdevice other;
    int count = 0;
    OK(cuDeviceGetUuid(&a, rig.dev));
    OK(cuDeviceGetUuid(&b, rig.dev));
    cr_assert_eq(memcmp(a.bytes, b.bytes, sizeof(a.bytes)), 0);
    cr_assert_neq(memcmp(a.bytes, (CUuuid){{0}}.bytes, sizeof(a.bytes)), 0);
    OK(cuDeviceGetCount(&count));
    for (int i = 1; i < count; i++) {
        OK(cuDeviceGet(&other, i));
        OK(cuDeviceGetUuid(&b, other));
        cr_assert_neq(memcmp(a.bytes, b.bytes, sizeof(a.bytes)), 0, "of device %d", i);
    }
}

Test(driver, pci_bus_id_finds_the_device, .init = rig_init)
{
    char bus[32];
    CUdevice dev = -1;
    OK(cuDeviceGetPCIBusId(bus, sizeof(bus), rig.dev));
    OK(cuDeviceGetByPCIBusId(&dev, bus));
    cr_assert_eq(dev, rig.dev);
}

Test(driver, invalid_device_ordinal_is_refused, .init = rig_init)
{
    CUdevice dev;
    FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, 1 << 20));
}

/* cuda.h 13.5: before it starts, NCCL asks for 153,
 * CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_SUPPORTED, and goes on without the feature if it is
 * 0. The last attribute is CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED. */
Test(newest, driver_13_5_answers_its_device_attributes, .init = rig_open_newest)
{
    int version, value = -1;
    OK(cuDriverGetVersion(&version));
    if (version < 13050)
        cr_skip_test("a driver before 13.5");
    OK(cuDeviceGetAttribute(&value, (CUdevice_attribute)153, rig.dev));
    cr_assert_geq(value, 0);
    OK(cuDeviceGetAttribute(&value, (CUdevice_attribute)161, rig.dev));
}
