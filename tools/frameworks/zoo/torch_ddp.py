"""PyTorch's DistributedDataParallel, two processes with a device each.    torch_ddp.py gloo|nccl

Gradients are averaged by gloo, through host memory, or by NCCL. No result is printed: kernels have no effect on
the simulated GPU."""

import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
STEPS = 10


def net():
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 8))


def train(backend, rank):
    torch.manual_seed(rank)
    # What NCCL gathers never arrives on the simulated GPU, and the first thing that is gathered is a check.
    model = DistributedDataParallel(net().to(rank), device_ids=[rank], init_sync=backend != "nccl")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = model(torch.randn(32, 64, device=rank)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


def collectives(rank):
    x = torch.ones(1 << 16, device=rank)
    dist.all_reduce(x)
    dist.broadcast(x, src=0)
    parts = [torch.empty_like(x) for _ in range(RANKS)]
    dist.all_gather(parts, x)
    torch.cuda.synchronize(rank)


def one(backend, rank, store):
    torch.cuda.set_device(rank)
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=RANKS)
    train(backend, rank)
    collectives(rank)
    dist.barrier()
    dist.destroy_process_group()


def main():
    if len(sys.argv) > 2:
        one(sys.argv[1], int(sys.argv[2]), sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, sys.argv[1], str(i), os.path.join(folder, "store")])
                 for i in range(RANKS)]
        failed = [process.wait() for process in ranks]
    if any(failed):
        sys.exit(f"ranks ended {failed}")
    print("torch", torch.__version__, "DDP over", sys.argv[1], "ended")


main()
