"""Collectives of NCCL on two devices.    nccl_collectives.py 1|2

In one process (1) that drives both devices in groups, or in two (2) that share a unique id. Kernels have no
effect on the simulated GPU, so nothing is said of results: only that every call and every stream ends."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import nvidia.nccl

DEVICES = 2
COUNT = 1 << 20
FLOAT, SUM = 7, 0
cuda = ctypes.CDLL("libcuda.so.1")
nccl = ctypes.CDLL(str(Path(nvidia.nccl.__path__[0]) / "lib" / "libnccl.so.2"))


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


def check(what, result):
    if result:
        sys.exit(f"{what}: {result}")


def call(library, name, *arguments):
    check(name, getattr(library, name)(*arguments))


class Device:
    """A device with a stream, two buffers and, once there is one, its communicator."""

    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.source, self.target = ctypes.c_uint64(), ctypes.c_uint64()
        self.comm = ctypes.c_void_p()
        call(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ordinal)
        self.enter()
        call(cuda, "cuStreamCreate", ctypes.byref(self.stream), 1)
        for pointer in (self.source, self.target):
            call(cuda, "cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(DEVICES * COUNT * 4))
            call(cuda, "cuMemsetD32_v2", pointer, ordinal, ctypes.c_size_t(DEVICES * COUNT))

    def enter(self):
        call(cuda, "cuCtxSetCurrent", self.context)


def collectives(device):
    d, count = device, ctypes.c_size_t(COUNT)
    yield "ncclAllReduce", d.source, d.target, count, FLOAT, SUM, d.comm, d.stream
    yield "ncclBroadcast", d.source, d.target, count, FLOAT, 0, d.comm, d.stream
    yield "ncclReduceScatter", d.source, d.target, count, FLOAT, SUM, d.comm, d.stream
    yield "ncclAllGather", d.source, d.target, count, FLOAT, d.comm, d.stream
    yield "ncclAllReduce", d.source, d.source, ctypes.c_size_t(256), FLOAT, SUM, d.comm, d.stream


def run(devices):
    """Each collective as one group over all devices of this process, then each pair's exchange."""
    for step in zip(*map(collectives, devices)):
        call(nccl, "ncclGroupStart")
        for one in step:
            call(nccl, *one)
        call(nccl, "ncclGroupEnd")
    call(nccl, "ncclGroupStart")
    for d in devices:
        other = DEVICES - 1 - d.ordinal
        call(nccl, "ncclSend", d.source, ctypes.c_size_t(COUNT), FLOAT, other, d.comm, d.stream)
        call(nccl, "ncclRecv", d.target, ctypes.c_size_t(COUNT), FLOAT, other, d.comm, d.stream)
    call(nccl, "ncclGroupEnd")
    for d in devices:
        d.enter()
        call(cuda, "cuStreamSynchronize", d.stream)
    for d in devices:
        call(nccl, "ncclCommDestroy", d.comm)


def in_one_process():
    devices = [Device(i) for i in range(DEVICES)]
    comms = (ctypes.c_void_p * DEVICES)()
    call(nccl, "ncclCommInitAll", comms, DEVICES, (ctypes.c_int * DEVICES)(*range(DEVICES)))
    for device, comm in zip(devices, comms):
        device.comm = ctypes.c_void_p(comm)
    run(devices)


def rank(number):
    unique = UniqueId.from_buffer_copy(sys.stdin.buffer.read(128))
    device = Device(number)
    call(nccl, "ncclCommInitRank", ctypes.byref(device.comm), DEVICES, unique, number)
    run([device])


def in_processes():
    unique = UniqueId()
    call(nccl, "ncclGetUniqueId", ctypes.byref(unique))
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", str(i)], stdin=subprocess.PIPE)
             for i in range(DEVICES)]
    for process in ranks:
        process.stdin.write(bytes(unique))
        process.stdin.close()
    for i, process in enumerate(ranks):
        check(f"rank {i}", process.wait())


def main():
    call(cuda, "cuInit", 0)
    if sys.argv[1] == "rank":
        rank(int(sys.argv[2]))
        return
    if sys.argv[1] == "2":
        in_processes()
    else:
        in_one_process()
    version = ctypes.c_int()
    call(nccl, "ncclGetVersion", ctypes.byref(version))
    print("nccl", version.value, "on", DEVICES, "devices ended", os.path.basename(sys.argv[1]))


main()
