"""What PyTorch programs do, part by part, in an order that is the same in every run.

    torch_suite.py [PART...]     matmul cnn transformer graph streams amp pools threads
                                 fft profiler"""

import sys
import threading

import torch
import torch.nn.functional as F
from torch import nn

GPU = "cuda"


def matmul():
    a, b = torch.randn(256, 256, device=GPU), torch.randn(256, 256, device=GPU)
    for _ in range(20):
        a = a @ b * 0.01
    torch.bmm(torch.randn(4, 32, 32, device=GPU), torch.randn(4, 32, 32, device=GPU))


def cnn():
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    ).to(GPU)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(10):
        x = torch.randn(8, 3, 32, 32).to(GPU)
        loss = F.cross_entropy(net(x), torch.zeros(8, dtype=torch.long, device=GPU))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    loss.item()


def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.1)
    net = nn.TransformerEncoder(layer, 2).to(GPU)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(10):
        loss = net(torch.randn(4, 16, 64, device=GPU)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


def graph():
    """A training step as a CUDA graph."""
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).to(GPU)
    optimizer = torch.optim.Adam(net.parameters(), capturable=True)
    x = torch.randn(16, 32, device=GPU)

    def step():
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # warm-up, as capture wants it
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()
    for _ in range(10):
        x.normal_()
        captured.replay()


def streams():
    """A ring of streams of two priorities, and copies with pinned memory in each."""
    ring = [torch.cuda.Stream(priority=-(i % 2)) for i in range(4)]
    done = [torch.cuda.Event(enable_timing=True) for _ in ring]
    x = [torch.randn(128, 128, device=GPU) for _ in ring]
    for _ in range(10):
        for i, stream in enumerate(ring):
            with torch.cuda.stream(stream):
                stream.wait_event(done[i - 1])
                x[i] = x[i] @ x[i]
                done[i].record(stream)
    for event in done:
        event.synchronize()
    done[0].elapsed_time(done[1])
    pinned = torch.empty(1 << 16, pin_memory=True)
    for stream in ring:
        with torch.cuda.stream(stream):
            there = pinned.to(GPU, non_blocking=True)
            there.add_(1)
            pinned.copy_(there, non_blocking=True)
        stream.synchronize()


def amp():
    net = nn.Linear(64, 64).to(GPU)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(5):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.randn(8, 64, device=GPU)).sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        optimizer.step()
    query = torch.randn(2, 4, 64, 32, device=GPU, dtype=torch.float16)
    F.scaled_dot_product_attention(query, query, query)


def pools():
    for _ in range(3):
        blocks = [torch.empty(1 << n, device=GPU) for n in range(4, 22)]
        del blocks
        torch.cuda.empty_cache()
    torch.cuda.memory_stats()


def threads():
    """One stream a thread, one thread after the other: order is defined by stream alone."""

    def run():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.randn(64, 64, device=GPU)
            for _ in range(50):
                x = x @ x
        stream.synchronize()

    for _ in range(3):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()


def fft():
    """Lengths that cuFFT has kernels for, that it composes, and a prime one."""
    for shape in (8, 64), (4, 100), (2, 1 << 16), (2, 1021), (2, 32, 32):
        x = torch.randn(shape, device=GPU)
        torch.fft.irfft(torch.fft.rfft(x))
        torch.fft.fft2(x)
        torch.fft.fft(x.double())
    torch.stft(torch.randn(2, 4096, device=GPU), 256, window=torch.ones(256, device=GPU), return_complex=True)


def profiler():
    """CUPTI is there; it sees what the host does, and no work of the simulated GPU."""
    x = torch.randn(64, 64, device=GPU)
    for _ in range(2):
        with torch.profiler.profile() as seen:
            for _ in range(5):
                x = x @ x
            torch.cuda.synchronize()
        counts = {row.key: row.count for row in seen.key_averages()}
        print("aten::mm", counts["aten::mm"])


PARTS = [matmul, cnn, transformer, graph, streams, amp, pools, threads, fft, profiler]
torch.manual_seed(1)
for part in PARTS:
    if len(sys.argv) < 2 or part.__name__ in sys.argv:
        part()
        torch.cuda.synchronize()
        print(part.__name__, "ok", flush=True)
