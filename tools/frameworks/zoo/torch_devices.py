"""PyTorch with two devices: a model that spans both, copies between them, a tensor that another process opens.

    torch_devices.py [PART...]     pipeline copies share"""

import sys

import torch
import torch.multiprocessing as multiprocessing
from torch import nn


def pipeline():
    """Half of the model on each device; the activations go over, and their gradients back."""
    first, second = nn.Linear(64, 256).to(0), nn.Linear(256, 8).to(1)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for _ in range(10):
        hidden = torch.relu(first(torch.randn(32, 64, device=0)))
        loss = second(hidden.to(1, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


def copies():
    """Streams of both devices that wait for each other's events. Copies are real: the sum is a result."""
    a, b = torch.arange(1 << 16, device="cpu").to(0), torch.empty(1 << 16, dtype=torch.long, device=1)
    here, there = torch.cuda.Stream(0), torch.cuda.Stream(1)
    for _ in range(20):
        with torch.cuda.stream(here):
            b.copy_(a, non_blocking=True)
            sent = here.record_event()
        there.wait_event(sent)
        with torch.cuda.stream(there):
            a.copy_(b, non_blocking=True)
            back = there.record_event()
        here.wait_event(back)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    print("copied", a.cpu().sum().item(), "peers", torch.cuda.can_device_access_peer(0, 1))


def borrower(tensors, done):
    theirs = tensors.get()
    mine = torch.empty_like(theirs, device=1)
    mine.copy_(theirs)
    theirs.copy_(mine.cpu() * 2)
    torch.cuda.synchronize()
    total = mine.cpu().sum().item()
    del theirs
    done.put(total)


def share():
    """By CUDA's handles for memory and events."""
    context = multiprocessing.get_context("spawn")
    tensors, done = context.Queue(), context.Queue()
    process = context.Process(target=borrower, args=(tensors, done))
    process.start()
    for_them = torch.arange(1 << 12, device="cpu").to(0)
    tensors.put(for_them)
    seen = done.get()
    process.join()
    print("shared", seen, for_them.cpu().sum().item(), "exit status", process.exitcode)


PARTS = {f.__name__: f for f in (pipeline, copies, share)}

if __name__ == "__main__":
    torch.manual_seed(0)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
    print("torch", torch.__version__, "ended")
