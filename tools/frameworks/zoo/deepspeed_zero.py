"""DeepSpeed: one process trains a small model with ZeRO in stages 1, 2 and 3."""

import os
import socket
import sys

with socket.socket() as free:
    free.bind(("localhost", 0))
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost",
                      MASTER_PORT=str(free.getsockname()[1]))

import deepspeed
import torch
from torch import nn

deepspeed.logger.setLevel("ERROR")
torch.nn.Parameter.__repr__ = object.__repr__  # stage 3 prints them, by counts that no kernel wrote
torch.manual_seed(1)


def train(stage):
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    config = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True},
              "zero_optimization": {"stage": stage, "overlap_comm": False}}
    engine, *_ = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(net.parameters()), config=config)
    for _ in range(4):
        loss = engine(torch.ones(4, 32, dtype=torch.bfloat16, device=engine.device)).square().mean()
        engine.backward(loss)
        engine.step()
    torch.cuda.synchronize()
    engine.destroy()
    return engine.global_steps


def main():
    for stage in 1, 2, 3:
        print("stage", stage, "steps", train(stage), flush=True)
    torch.distributed.destroy_process_group()
    return 0


sys.exit(main())
