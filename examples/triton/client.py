#!/usr/bin/env python3
"""Asks the models of server.py, over HTTP and gRPC, and checks the answers.

    python3 client.py [--port 8000] [--rounds N]

A round is `small` once and `dense` by as many at once as make a full batch, over each protocol. Prints a line for
each; exit status 1 where an answer was wrong."""

import argparse
import sys
import threading

from server import KERNELS, WORDS, expected


def ask(url, model, number):
    """Whether the answer to that question is right."""
    import numpy
    from pytriton.client import ModelClient
    question = [number * WORDS + i for i in range(WORDS)]
    with ModelClient(url, model, init_timeout_s=300, inference_timeout_s=300) as client:
        answer = client.infer_sample(numpy.array(question, numpy.uint32))["answer"]
    return answer.tolist() == expected(question, model)


def ask_together(url, model, count):
    right = []
    threads = [threading.Thread(target=lambda n=n: right.append(ask(url, model, n))) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(right)


def rounds(port, count, batch, out):
    """How many answers were wrong."""
    wrong = 0
    for _ in range(count):
        for url in f"http://localhost:{port}", f"grpc://localhost:{port + 1}":
            for model, at_once in zip(KERNELS, (batch, 1)):
                right = ask_together(url, model, at_once)
                wrong += at_once - right
                print(f"{url.split(':')[0]} {model}: {right} of {at_once} right", file=out, flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="port of HTTP; gRPC has the next one (8000)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds (1)")
    parser.add_argument("--batch", type=int, default=4, help="questions to `dense` at a time (4)")
    o = parser.parse_args()
    try:
        return 1 if rounds(o.port, o.rounds, o.batch, sys.stdout) else 0
    except ImportError as why:
        print(f"client.py needs nvidia-pytriton: {why}", file=sys.stderr)
        return 77


if __name__ == "__main__":
    sys.exit(main())
