"""Programs for every element of some tensors (native/compute.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device import cpu
from ..dtype import float32
from ..element_programs import TENSORS, ElementProgram, HeldNumbers, Numbers
from ..element_types import CODES
from ..launch import KERNELS
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense, is_half
from ..tensor import Tensor
from .layouts import is_packed, laid_as, result_like

_COMPUTE = KERNELS["compute_f32"]
_NONE = tuple((None,) * n for n in range(TENSORS + 1))


def record(
    program: ElementProgram, count: int, tensors: tuple[Any, ...], numbers: Numbers, single: int = 0, half: int = 0
) -> tuple[Any, ...]:
    """The kernel and its slots, for `count` elements. Bit k of `single`: tensor k is one element. `half`: the code of
    the half type that all tensors have."""
    device = tensors[0].device
    steps = program.on(device)
    held = numbers.on(device) if isinstance(numbers, HeldNumbers) else None
    return (
        _COMPUTE, *tensors, *_NONE[TENSORS - len(tensors)], steps, held, count, steps._shape[0] // 5, single,
        0 if held is None else len(numbers), *program.slots(numbers), half,
    )  # fmt: skip


@claims("update_elements")
def _update_elements(first: Tensor, others: tuple[Tensor, ...], program: ElementProgram, numbers: Numbers) -> Any:
    """Float32 tensors, without gaps and of one order in memory where they are written."""
    shape, written = first._shape, program.written
    if not is_packed(first):
        return NotImplemented
    tensors, single = [first], 0
    for at, x in enumerate(others, 1):
        if x.dtype is not float32:
            return NotImplemented
        if x._shape != shape:
            if at in written or x.numel() != 1:
                return NotImplemented
            single |= 1 << at
        elif at not in written:
            x = laid_as(x, first)
        tensors.append(x)
    for at in written:
        x = tensors[at]
        if x.strides != first.strides and not (x.is_contiguous() and first.is_contiguous()):
            return NotImplemented
    if first.dtype is not float32:
        return NotImplemented
    count = first.numel()
    kernel, *slots = record(program, count, tuple(tensors), numbers, single)
    kernel.launch(count * len(program.code) >> 14, *slots)
    for at in written:
        tensors[at]._storage.version += 1
    return first


@claims("computed_elements")
def _computed_elements(tensors: Sequence[Tensor], program: ElementProgram, numbers: tuple[float, ...]) -> Any:
    """Tensors of one shape, those after the first perhaps of one element and no more dims, all of float32 or of one
    half type.
    """
    kind, half = tensors[0].dtype, 0
    if kind is not float32:
        if not is_half(tensors[0]) or IN_BROWSER or tensors[0].device is not cpu:
            return NotImplemented
        half = CODES[kind]
    base = tensors[0]
    if 0 in base.strides and not any(base.strides):  # one element, repeated
        base = next((x for x in tensors if x._shape == base._shape and any(x.strides)), base)
    first, y, count = result_like(base)
    given: list[Tensor] = [y]
    single = 0
    for x in tensors:
        if x.dtype is not kind or (x._shape != y._shape and (x is tensors[0] or x.numel() != 1 or x.ndim > y.ndim)):
            return NotImplemented
        if x.device is not first.device:  # a number of the CPU, which the ops take
            return NotImplemented
    for at, x in enumerate(tensors, 1):
        if x._shape != y._shape:
            single |= 1 << at
        elif x is base:
            x = first
        elif x.strides != y.strides and not any(x.strides):
            single |= 1 << at
        elif x.strides != y.strides:
            if not y.is_contiguous():
                return _computed_elements([dense(x) for x in tensors], program, numbers)
            x = dense(x)
        given.append(x)
    kernel, *slots = record(program, count, tuple(given), numbers, single, half)
    kernel.launch(count * len(program.code) >> 14, *slots)
    return y
