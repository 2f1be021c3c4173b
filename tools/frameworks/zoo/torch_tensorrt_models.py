"""Torch-TensorRT for RTX: a small network compiled to an engine ahead (dynamo), and by torch.compile."""

import sys

import torch
import torch_tensorrt
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 10)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)).mean((2, 3)))


def main():
    torch.manual_seed(1)
    net, x = Net().eval().cuda(), torch.ones(2, 3, 32, 32, device="cuda")
    settings = {"min_block_size": 1, "use_python_runtime": True}
    ahead = torch_tensorrt.compile(net, ir="dynamo", inputs=[x], **settings)
    compiled = torch.compile(net, backend="torch_tensorrt", dynamic=False, options=settings)
    for name, model in ("dynamo", ahead), ("torch.compile", compiled):
        with torch.no_grad():
            shapes = [tuple(model(x).shape) for _ in range(4)]
        torch.cuda.synchronize()
        print(name, shapes, flush=True)
    return 0


sys.exit(main())
