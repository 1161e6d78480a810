"""Every case of the ops' tests (tests/engine/cases) in several dtypes, with gradients, on a card and on the CPU:
python -m tests.cuda.sweep [--device cuda] [--dtypes float16,int64] [--subjects images]

Prints the calls that only the CPU takes, what the host computes from copies, and results that differ. Without a card
they run in the emulator. Calls that raise on the CPU are left out: not every op takes every dtype.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor
from tests.engine.cases import SUBJECTS, cases_of, make_inputs, weights_for

from . import emulated

# How far a result may be off, as a share of the largest number: two roundings of the dtype.
CLOSE = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 4e-2}
DTYPES = (*CLOSE, "int64", "bool")


def converted(array: np.ndarray, dtype: str) -> Tensor:
    """Floats in the dtype, on the default device; whole numbers and flags as they are."""
    x = pyapp.tensor(array)
    if not x.is_floating_point():
        return x
    x = (x * 3 if dtype == "int64" else x > 0 if dtype == "bool" else x).to(dtype)
    return x.requires_grad_() if x.is_floating_point() else x


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a result."""
    if isinstance(value, Tensor):
        return [value]
    return [x for part in value for x in tensors_in(part)] if isinstance(value, (list, tuple)) else []


def run(function: Callable[..., Any], arrays: list[np.ndarray], dtype: str, device: str) -> list[Tensor]:
    """The results on a device and the gradients of the inputs, moved to the CPU."""
    pyapp.set_default_device(device)
    try:
        pyapp.manual_seed(0)
        inputs = [converted(array, dtype) for array in arrays]
        results = tensors_in(function(pyapp, *inputs))
        first = next((x for x in results if x.requires_grad and x.is_floating_point()), None)
        if first is not None:
            (first * pyapp.tensor(weights_for(tuple(first.shape))).to(first.dtype)).sum().backward()
        found = [*results, *(x.grad for x in inputs if x.grad is not None)]
        return [x.detach().cpu() for x in found]
    finally:
        pyapp.set_default_device(None)


def numbers(x: Tensor) -> np.ndarray:
    """float64 or complex128."""
    return np.asarray(x.numpy(), np.complex128 if x.dtype.is_complex else np.float64)


def differences(found: list[Tensor], expected: list[Tensor], dtype: str) -> Iterator[str]:
    """What is otherwise than on the CPU."""
    if len(found) != len(expected):
        yield f"{len(found)} results and gradients, {len(expected)} on the CPU"
        return
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if ours.dtype is not theirs.dtype or ours.shape != theirs.shape:
            yield f"number {i} is {ours.dtype}{list(ours.shape)}, on the CPU {theirs.dtype}{list(theirs.shape)}"
            continue
        a, b = numbers(ours), numbers(theirs)
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
            yield f"number {i} has others that are not finite"
            continue
        error = np.abs(a[finite] - b[finite]).max(initial=0) / max(np.abs(b[finite]).max(initial=0), 1e-3)
        if error > CLOSE.get(dtype, 1e-6):
            yield f"number {i} is off by {error:.2g}"


def case_problems(
    function: Callable[..., Any], arrays: list[np.ndarray], dtype: str, device: str
) -> Iterator[str]:  # fmt: skip
    """What is wrong with a case."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = run(function, arrays, dtype, "cpu")
    except Exception:  # not an op of this dtype
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = run(function, arrays, dtype, device)
        except Exception as error:
            yield f"raises {type(error).__name__}: {str(error).splitlines()[0]}"
            return
    yield from sorted({str(each.message) for each in told if "the host computes it" in str(each.message)})
    yield from differences(found, expected, dtype)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=emulated.DEVICE, help="as cuda:0; without it the emulator")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--subjects", default=",".join(SUBJECTS))
    options = parser.parse_args(arguments)
    count = problems = 0
    for subject in options.subjects.split(","):
        for name, function, specs in cases_of(subject):
            arrays = make_inputs(name, specs)
            for dtype in options.dtypes.split(","):
                for told in case_problems(function, arrays, dtype, options.device):
                    print(f"{subject} {name} {dtype}: {told}", flush=True)
                    problems += 1
                count += 1
    print(f"{count} cases on {options.device}, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
