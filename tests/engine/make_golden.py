"""Writes golden.npz and golden_more.npz: values and gradients of every case in cases.py and cases_more.py, by torch.

Run: python -m tests.engine.make_golden (needs the extra `oracle`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from . import cases, cases_more
from .cases import Case, make_inputs, weights_for


def write(file: str, cases: list[Case]) -> None:
    golden = {}
    for name, function, specs in cases:
        arrays = make_inputs(name, specs)
        tensors = [torch.tensor(a, requires_grad=a.dtype == np.float32) for a in arrays]
        value = function(torch, *tensors)
        golden[name] = value.detach().numpy()
        if value.requires_grad:
            (value * torch.tensor(weights_for(tuple(value.shape)))).sum().backward()
            for i, tensor in enumerate(tensors):
                if tensor.grad is not None:
                    golden[f"{name}/grad{i}"] = tensor.grad.numpy()
    path = Path(__file__).with_name(file)
    np.savez_compressed(path, **golden)
    print(path.name, len(golden), "arrays,", path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    write("golden.npz", cases.CASES)
    write("golden_more.npz", cases_more.CASES)
