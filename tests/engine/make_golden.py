"""Writes golden*.npz: values and gradients of every case in cases.py and its sisters, by torch.

Run: python -m tests.engine.make_golden [name ...] (needs the extra `oracle`). Names: see FILES; all of them by default.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import torch

from .cases import Case, make_inputs, weights_for

FILES = {
    "cases": "golden.npz",
    "cases_gamma": "golden_gamma.npz",
    "cases_more": "golden_more.npz",
    "cases_autograd": "golden_autograd.npz",
    "cases_image": "golden_image.npz",
    "cases_signal": "golden_signal.npz",
    "cases_list": "golden_list.npz",
    "cases_ported": "golden_ported.npz",
    "cases_linalg": "golden_linalg.npz",
}


def write(file: str, cases: list[Case]) -> None:
    golden = {}
    for name, function, specs in cases:
        arrays = make_inputs(name, specs)
        tensors = [torch.tensor(a, requires_grad=a.dtype == np.float32) for a in arrays]
        value = function(torch, *tensors)
        golden[name] = value.numpy(force=True)
        if value.requires_grad:
            (value * torch.tensor(weights_for(tuple(value.shape)))).sum().backward()
            for i, tensor in enumerate(tensors):
                if tensor.grad is not None:
                    golden[f"{name}/grad{i}"] = tensor.grad.numpy(force=True)
    path = Path(__file__).with_name(file)
    np.savez_compressed(path, **golden)
    print(path.name, len(golden), "arrays,", path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    for module in sys.argv[1:] or FILES:
        write(FILES[module], importlib.import_module(f".{module}", __package__).CASES)
