"""python -m bench.programs [REGEX] [--runs 7]

Times programs of many small ops beside the same ones on torch, on one thread: the processor's time of a run, medians of
samples taken in turn. They are written as users write them, so most of the time is that of Python. Needs torch.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

Program = Callable[[], Any]


def _random(P: Any, seed: int, *shape: int, scale: float = 1.0) -> Any:
    import numpy as np

    return P.from_numpy((np.random.default_rng(seed).standard_normal(shape) * scale).astype("float32"))


def _whole(P: Any, seed: int, high: int, *shape: int) -> Any:
    import numpy as np

    return P.from_numpy(np.random.default_rng(seed).integers(0, high, shape))


def decoding(P: Any) -> Program:
    """48 tokens of a decoder of four layers, with keys and values joined by cat."""
    F, width, heads, count, most = P.nn.functional, 128, 4, 4, 48
    size = width // heads
    shapes = {"qkv": (3 * width, width), "o": (width, width), "gate": (4 * width, width), "up": (4 * width, width),
              "down": (width, 4 * width)}  # fmt: skip
    layers = [
        {name: _random(P, 10 * i + j, *shape, scale=0.05) for j, (name, shape) in enumerate(shapes.items())}
        | {"first": P.ones(width), "second": P.ones(width)}
        for i in range(count)
    ]
    table = _random(P, 99, 512, width, scale=0.05)
    angles = P.outer(P.arange(most).float(), 10000 ** (-P.arange(0, size, 2).float() / size))  # (T, D / 2)
    cos, sin = P.cat([angles.cos()] * 2, -1), P.cat([angles.sin()] * 2, -1)

    def norm(x: Any, weight: Any) -> Any:
        return x * P.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight

    def turned(x: Any, at: int) -> Any:
        a, b = x.chunk(2, -1)
        return x * cos[at] + P.cat([-b, a], -1) * sin[at]

    def run() -> int:
        cache: list[Any] = [None] * count
        token, total = P.tensor([[3]]), 0
        for at in range(most):
            x = table[token]  # (1, 1, D)
            for i, layer in enumerate(layers):
                parts = (norm(x, layer["first"]) @ layer["qkv"].t()).chunk(3, -1)
                q, k, v = (part.view(1, 1, heads, size).transpose(1, 2) for part in parts)  # (1, H, 1, D / H)
                q, k = turned(q, at), turned(k, at)
                if cache[i] is not None:
                    k, v = P.cat([cache[i][0], k], 2), P.cat([cache[i][1], v], 2)
                cache[i] = k, v
                weights = P.softmax(q @ k.transpose(-2, -1) / size**0.5, -1)  # (1, H, 1, S)
                x = x + (weights @ v).transpose(1, 2).reshape(1, 1, width) @ layer["o"].t()
                h = norm(x, layer["second"])
                x = x + (F.silu(h @ layer["gate"].t()) * (h @ layer["up"].t())) @ layer["down"].t()
            token = (x @ table.t())[:, -1].argmax(-1, keepdim=True)
            total += token.item()
        return total

    def without_gradients() -> int:
        with P.no_grad():
            return run()

    return without_gradients


def meta_learning(P: Any) -> Program:
    """Five steps of MAML (Finn et al. 2017, arXiv 1703.03400): four tasks, three inner steps each."""
    P.manual_seed(0)
    F, nn = P.nn.functional, P.nn
    net = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
    optimizer = P.optim.Adam(net.parameters(), 1e-3)
    x = _random(P, 0, 4, 10, 1)
    y = P.sin(x)

    def forward(weights: list[Any], x: Any) -> Any:
        x = F.relu(F.linear(x, weights[0], weights[1]))
        x = F.relu(F.linear(x, weights[2], weights[3]))
        return F.linear(x, weights[4], weights[5])

    def run() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            total = 0
            for task in range(4):
                weights = list(net.parameters())
                for _ in range(3):
                    loss = F.mse_loss(forward(weights, x[task]), y[task])
                    slopes = P.autograd.grad(loss, weights, create_graph=True)
                    weights = [w - 0.01 * g for w, g in zip(weights, slopes, strict=True)]
                total = total + F.mse_loss(forward(weights, x[task]), y[task])
            total.backward()  # type: ignore[attr-defined]
            optimizer.step()

    return run


def differential_equation(P: Any) -> Program:
    """Three training steps through 20 steps of the classical Runge-Kutta method."""
    P.manual_seed(0)
    net = P.nn.Sequential(P.nn.Linear(2, 32), P.nn.Tanh(), P.nn.Linear(32, 2))
    optimizer = P.optim.Adam(net.parameters(), 1e-3)
    start, wanted, h = P.tensor([[2.0, 0.0]]), P.zeros(20, 2), 0.1

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            y, found = start, []
            for _ in range(20):
                a = net(y)
                b = net(y + h / 2 * a)
                c = net(y + h / 2 * b)
                d = net(y + h * c)
                y = y + h / 6 * (a + 2 * b + 2 * c + d)
                found.append(y)
            ((P.cat(found) - wanted) ** 2).mean().backward()
            optimizer.step()

    return run


def random_field(P: Any) -> Program:
    """Three gradients of a conditional random field's likelihood: 8 texts of 30 tokens, 9 labels."""
    batch, tokens, labels = 8, 30, 9
    moves = _random(P, 0, labels, labels).requires_grad_()
    start = P.zeros(labels, requires_grad=True)
    scores = _random(P, 1, batch, tokens, labels).requires_grad_()
    wanted = _whole(P, 2, labels, batch, tokens)
    mask = P.ones(batch, tokens, dtype=P.bool)
    mask[0, 20:] = False

    def run() -> None:
        rows = P.arange(batch)
        for _ in range(3):
            forward = start + scores[:, 0]  # (B, K)
            path = start[wanted[:, 0]] + scores[rows, 0, wanted[:, 0]]  # (B,)
            for t in range(1, tokens):
                step = forward.unsqueeze(2) + moves.unsqueeze(0) + scores[:, t].unsqueeze(1)  # (B, K, K)
                forward = P.where(mask[:, t].unsqueeze(1), P.logsumexp(step, 1), forward)
                own = moves[wanted[:, t - 1], wanted[:, t]] + scores[rows, t, wanted[:, t]]
                path = path + own * mask[:, t]
            (P.logsumexp(forward, 1) - path).mean().backward()
            moves.grad = start.grad = scores.grad = None

    return run


PROGRAMS = {
    "decoding with a cache": decoding, "MAML": meta_learning, "Runge-Kutta": differential_equation,
    "conditional random field": random_field,
}  # fmt: skip


def _seconds(run: Program) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="?", default="", help="programs whose name this regular expression finds")
    parser.add_argument("--runs", type=int, default=7, help="samples of each figure")
    arguments = parser.parse_args()
    import torch

    import pyapp

    pyapp.set_num_threads(1)
    torch.set_num_threads(1)
    for name, make in PROGRAMS.items():
        if re.search(arguments.only, name):
            ours, theirs = make(pyapp), make(torch)
            pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(arguments.runs + 2)][2:]  # the first warm up
            a, b = (median(values) * 1e3 for values in zip(*pairs, strict=True))
            print(f"{a / b:6.2f}  {name:28} {a:8.1f} ms, torch {b:8.1f} ms", flush=True)


if __name__ == "__main__":
    main()
