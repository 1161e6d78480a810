"""Writes golden_complex.npz: values and first and second gradients of the cases of complex_cases.py, by torch.

Run: python -m tests.engine.make_golden_complex (needs the extra `oracle`).

`values` holds all numbers one after another (complex64); `index` (JSON) has for each case the (shape, dtype) of each
result in complex128, the dtypes in complex64, and which gradients there are, each with its shape.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .complex_cases import CASES, REFUSED, array_of, gradients, inputs, run


def name_of(x: Any) -> str:
    return str(x.dtype).split(".")[-1] if hasattr(x, "dtype") else type(x).__name__


def main() -> None:
    index: dict[str, Any] = {}
    values: list[Any] = []
    for case in CASES:
        tensors = inputs(torch, True)
        results = run(case, tensors)
        if all(isinstance(y, torch.dtype) for y in results):
            index[case] = str(results[0]).split(".")[-1]
            continue
        found = gradients(torch, results, tensors)
        narrow = run(case, inputs(torch, False))
        arrays = [array_of(y) for y in results]
        slopes = [None if g is None or not array_of(g).any() else array_of(g) for g in found]
        values += [a.reshape(-1) for a in [*arrays, *slopes] if a is not None]
        index[case] = [
            [[list(a.shape), name_of(y), name_of(z)] for a, y, z in zip(arrays, results, narrow, strict=True)],
            [None if g is None else list(g.shape) for g in slopes],
        ]
    for case in REFUSED:
        try:
            run(case, inputs(torch, True))
        except Exception:
            continue
        raise AssertionError(f"torch does not refuse {case}")
    path = Path(__file__).with_name("golden_complex.npz")
    flat = np.concatenate([v.astype("complex64") for v in values])
    np.savez_compressed(path, values=flat, index=np.frombuffer(json.dumps(index).encode(), np.uint8))
    print(path.name, len(index), "cases,", path.stat().st_size, "bytes, torch", torch.__version__)


if __name__ == "__main__":
    main()
