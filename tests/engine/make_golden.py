"""Writes golden_<subject>.npz: values and gradients of every case of cases/<subject>.py, by torch.

Run: python -m tests.engine.make_golden [subject ...] (needs the extra `oracle`). All subjects by default.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from tests.goldens import write_npz

from .cases import SUBJECTS, cases_of, make_inputs, weights_for


def write(subject: str) -> None:
    golden = {}
    for name, function, specs in cases_of(subject):
        arrays = make_inputs(name, specs)
        tensors = [torch.tensor(a, requires_grad=a.dtype == np.float32) for a in arrays]
        value = function(torch, *tensors)
        golden[name] = value.numpy(force=True)
        if value.requires_grad:
            (value * torch.tensor(weights_for(tuple(value.shape)))).sum().backward()
            for i, tensor in enumerate(tensors):
                if tensor.grad is not None:
                    golden[f"{name}/grad{i}"] = tensor.grad.numpy(force=True)
    path = Path(__file__).with_name(f"golden_{subject}.npz")
    write_npz(path, golden)
    print(path.name, len(golden), "arrays,", path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    for subject in sys.argv[1:] or SUBJECTS:
        write(subject)
