"""Steps of optimisers."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ..device import cpu
from ..dtype import float32
from ..element_programs import TENSORS, HeldNumbers, Numbers
from ..element_types import CODES, opcodes
from ..launch import KERNELS, LARGEST_WORK, Part, launch_all, launch_records
from ..op import claims
from ..operands import dense, is_half, is_plain
from ..ops.optimizer_steps import (
    COMBINED,
    MATRIX_CHANGE,
    MEAN,
    MOMENTUM,
    NORMALIZED,
    STEP,
    AdafactorNumbers,
    MuonNumbers,
    Step,
    optimizer_steps,
)
from ..shape import dense_layout
from ..storage import CAPTURES
from ..tensor import Tensor, empty_contiguous
from .element_updates import record
from .layouts import is_packed, laid_as

_ADAMW, _REDUCE, _SUM_ROWS, _MUL = (KERNELS[name] for name in ("adamw_f32", "reduce", "sum_rows_f32", "mul_f32"))
_COMPUTE = KERNELS["compute_f32"]
_LINEAR, _MATMUL, _COPY = (KERNELS[name] for name in ("linear_f32", "matmul_f32", "copy_strided"))
_SQUARES = (opcodes("reduce")["sum_squares"].code, CODES[float32], CODES[float32])


@claims("adamw_step")
def _adamw_step(parameter: Tensor, mean: Tensor, squares: Tensor, grad: Tensor, numbers: Numbers) -> Any:
    """Float32 tensors of one shape without gaps, of one order in memory."""
    if not parameter.dtype is mean.dtype is squares.dtype is grad.dtype is float32:
        return NotImplemented
    if not parameter._shape == mean._shape == squares._shape == grad._shape or not is_packed(parameter):
        return NotImplemented
    if not parameter.strides == mean.strides == squares.strides:
        return NotImplemented
    grad = laid_as(grad, parameter)
    count = parameter.numel()
    held = numbers.on(parameter.device) if isinstance(numbers, HeldNumbers) else None
    _ADAMW.launch(4 * count >> 10, parameter, mean, squares, grad, held, count, *_bits(numbers))
    parameter._storage.version += 1
    mean._storage.version += 1
    squares._storage.version += 1
    return parameter


@claims("optimizer_steps")
def _optimizer_steps(parameters: list[Tensor], steps: list[Step]) -> Any:
    """Steps of dense float32 tensors of the CPU in one call. The loop is written for few calls of Python, which take
    longer than the step of a small parameter."""
    if CAPTURES.count or any(x.device is not cpu for x in parameters):
        return NotImplemented
    records: list[bytes] = []
    kernels: list[Any] = []
    known: Any = None  # the program and the numbers of the step before
    written: tuple[int, ...]
    for parameter, step in zip(parameters, steps, strict=True):
        program, grad, states, numbers = step
        tensors = (parameter, *states, grad) if program is None else (parameter, grad, *states)
        shape = parameter._shape
        count, strides = dense_layout(shape)
        for x in tensors:
            if x.dtype is not float32 or x._shape != shape or x.strides != strides or x.device is not cpu:
                launch_records(records, kernels)  # those before it
                records, kernels = [], []
                optimizer_steps.definition([parameter], [step])  # type: ignore[misc]
                break
        else:
            if known is None or known[0] is not program or known[1] != numbers:
                known = program, numbers
                if program is None:
                    kernel, pointers, cost, rest, written = _ADAMW, (0,), 64, _bits(numbers), (0, 1, 2)
                else:
                    code, kernel, written = program.on(cpu), _COMPUTE, program.written
                    cost, pointers = code._shape[0], (*(0,) * (TENSORS - len(tensors)), code.address, 0)
                    rest = (cost // 5, 0, 0, *program.slots(numbers), 0)
                pack, index = kernel.layout.pack, kernel.index
            work = min(count * cost >> 14, LARGEST_WORK)
            records.append(pack(index, work, *[x.address for x in tensors], *pointers, count, *rest))
            kernels.append(kernel)
            for at in written:
                tensors[at]._storage.version += 1
    launch_records(records, kernels)
    return parameters[0]


_NUMBERS = Struct("7d"), Struct("7q")


def _bits(numbers: Numbers) -> tuple[int, ...]:
    """AdamW's numbers as the slots of a record have them; 0 for those that are held elsewhere."""
    pack, bits = _NUMBERS
    return (0,) * 7 if isinstance(numbers, HeldNumbers) else bits.unpack(pack.pack(*numbers))


@claims("adafactor_step")
def _adafactor_step(parameter: Tensor, grad: Tensor, means: tuple[Tensor, ...], numbers: AdafactorNumbers) -> Any:
    """Float32 matrices, in three calls."""
    if len(means) != 2 or len(parameter._shape) != 2 or not parameter._shape == grad._shape:
        return NotImplemented
    (by_row, by_column), (rows, columns) = means, parameter._shape
    if by_row._shape != (rows, 1) or by_column._shape != (1, columns) or not rows or not columns:
        return NotImplemented
    if not (is_plain(parameter) and is_plain(by_row) and is_plain(by_column) and grad.dtype is float32):
        return NotImplemented
    grad, count = dense(grad), rows * columns
    scratch = empty_contiguous((count + rows + columns + 3,), float32, parameter.device)
    change, of_rows, of_columns = scratch, Part(scratch, 4 * count), Part(scratch, 4 * (count + rows))
    total, size, length = (Part(scratch, 4 * (count + rows + columns + i)) for i in range(3))
    launch_all(
        count >> 8,
        (_REDUCE, size, parameter, *_SQUARES, 1, count, 1, count, 1, 1, 0.0),
        (_REDUCE, of_rows, grad, *_SQUARES, rows, columns, 1, columns, 1, 1, 0.0),
        (_REDUCE, of_columns, grad, *_SQUARES, 1, rows, columns, count, columns, 1, 0.0),
        record(MEAN, rows, (by_row, of_rows), numbers.of_rows),
    )
    launch_all(
        count >> 8,
        record(MEAN, columns, (by_column, of_columns), numbers.of_columns),
        (_SUM_ROWS, total, by_row, 1, rows, rows),
        (_MUL, change, by_row, by_column, count, rows, columns, columns, 0, 0.0),
        record(MATRIX_CHANGE, count, (change, grad, total), numbers.change, 4),
    )
    launch_all(
        count >> 8,
        (_REDUCE, length, change, *_SQUARES, 1, count, 1, count, 1, 1, 0.0),
        record(STEP, count, (parameter, change, size, length), numbers.step, 12),
    )
    for written in (parameter, by_row, by_column):
        written._storage.version += 1
    return parameter


@claims("muon_step")
def _muon_step(
    parameter: Tensor, momentum: Tensor, grad: Tensor, numbers: MuonNumbers, coefficients: tuple[float, float, float],
    iterations: int,
) -> Any:  # fmt: skip
    """Float32 matrices, in one call: the Python of an op takes longer than the product of two small matrices."""
    if not (is_plain(parameter) and is_plain(momentum) and grad.dtype is float32):
        return NotImplemented
    if not parameter._shape == momentum._shape == grad._shape or 0 in parameter._shape:
        return NotImplemented
    a, b, c = coefficients
    rows, columns = parameter._shape
    short, long, count, device = min(rows, columns), max(rows, columns), rows * columns, parameter.device
    x, y = (empty_contiguous((short, long), float32, device) for _ in range(2))
    gram, mixed = (empty_contiguous((short, short), float32, device) for _ in range(2))
    total = empty_contiguous((), float32, device)
    change = y if rows > columns else x  # grad, then the step: (rows, columns)
    calls: list[tuple[Any, ...]] = [
        _copy_matrix(change, grad, (rows, columns), grad.strides),
        record(MOMENTUM, count, (change, momentum), numbers.momentum),
    ]
    if change is y:
        calls.append(_copy_matrix(x, y, (short, long), (1, short)))
    calls.append((_REDUCE, total, x, *_SQUARES, 1, count, 1, count, 1, 1, 0.0))
    calls.append(record(NORMALIZED, count, (x, total), numbers.floor, 2))
    for _ in range(iterations):
        calls += (
            (_LINEAR, gram, x, x, None, short, short, long, short, long, 0),
            (_LINEAR, mixed, gram, gram, None, short, short, short, short, short, 0),
            record(COMBINED, short * short, (mixed, gram), (c, b)),
            (_MATMUL, y, mixed, x, 1, short, long, short, 0, short, 1, 0, long, 1, 0, long),
            record(COMBINED, count, (y, x), (1.0, a)),
        )
        x, y = y, x
    if rows > columns:
        calls.append(_copy_matrix(y, x, (rows, columns), (1, long)))
        x = y
    calls.append(record(COMBINED, count, (parameter, x), numbers.step))
    launch_all(count * short >> 10, *calls)
    for written in (parameter, momentum):
        written._storage.version += 1
    return parameter


def _copy_matrix(target: Tensor, source: Tensor, shape: tuple[int, int], strides: Any) -> tuple[Any, ...]:
    """The record that copies a matrix with these strides into dense memory."""
    none = (0,) * 4
    return (_COPY, target, source, 4, 2, *shape, *none, shape[1], 1, *none, *strides, *none)


@claims("sums_of_squares")
def _sums_of_squares(tensors: list[Tensor]) -> Any:
    """Float32 and half types of one device, in one call."""
    device, kind = tensors[0].device, CODES[float32]
    if any(x.device is not device or not (x.dtype is float32 or is_half(x)) for x in tensors):
        return NotImplemented
    y = empty_contiguous((len(tensors),), float32, device)
    calls, most = [], 0
    for at, x in enumerate(tensors):
        count = x.numel()
        most = max(most, count)
        if not is_packed(x):
            x = dense(x)
        calls.append((_REDUCE, Part(y, 4 * at), x, _SQUARES[0], kind, CODES[x.dtype], 1, count, 1, count, 1, 1, 0.0))
    launch_all(most >> 9, *calls)
    return y


@claims("scale_all")
def _scale_all(tensors: list[Tensor], factor: Tensor) -> Any:
    """Float32 tensors without gaps, in one call."""
    device, calls, most = factor.device, [], 0
    if factor.dtype is not float32 or factor._shape:
        return NotImplemented
    for x in tensors:
        if x.dtype is not float32 or x.device is not device or not is_packed(x):
            return NotImplemented
        count = x.numel()
        most = max(most, count)
        calls.append((_MUL, x, x, factor, count, count or 1, 1, 0, 0, 0.0))
    launch_all(most >> 10, *calls)
    for x in tensors:
        x._storage.version += 1
    return tensors[0]
