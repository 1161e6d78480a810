"""Parameters as a file stores them, or a process's share of each: parts joined, rows in the model's order."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from pyapp.engine import Device, Tensor, quant
from pyapp.engine.blocks.layout import READABLE
from pyapp.engine.device import as_device, cpu
from pyapp.engine.dtype import float32
from pyapp.engine.ops import cat, tensor
from pyapp.errors import ModelError, OperationError
from pyapp.formats.checkpoint import Checkpoint, TensorInfo

from .matrix_types import FLOATS, in_type
from .slots import Slot
from .stored import SHOWN, Stored

if TYPE_CHECKING:
    from pyapp.nn.part import Part


def read_plan(checkpoint: Checkpoint, plan: Stored, device: Device | str | None = None) -> Tensor:
    """A parameter as the file stores it, its parts joined and its rows in the model's order. ModelError for tensors
    that cannot be joined and ordered so.
    """
    try:
        parts = [_read_part(checkpoint, name, plan.rows, device) for name in plan.names]
        if plan.join is not None or plan.values is not None or len({part.dtype for part in parts}) > 1:
            parts = [_as_listed(part, checkpoint.tensors[name]) for part, name in zip(parts, plan.names, strict=True)]
        if plan.join is not None:
            value = plan.join(parts)
        elif len(parts) == 1:
            value = parts[0]
        elif parts[0].ndim == 2:
            value = quant.concatenate(parts)
        else:
            value = cat(parts)
        return value if plan.values is None else plan.values(value)
    except OperationError as error:  # only the shapes in the file can be wrong here
        shapes = ", ".join(f"{name} {list(checkpoint.tensors[name].shape)}" for name in plan.names[:SHOWN])
        raise ModelError(
            f"the tensors do not fit the configuration: {shapes:.300}", where=checkpoint.source.name,
            hint="Give the config.json that belongs to the weights",
        ) from error  # fmt: skip


def read_share(checkpoint: Checkpoint, plan: Stored, part: Part, device: Device | str | None) -> Tensor:
    """A process's part of a parameter. It alone is read, unless the file has other values."""
    from pyapp.formats.tensor_slices import read_part, runs_of

    if plan.values is not None or plan.join is not None:
        return part.of(read_plan(checkpoint, plan, device))
    columns = part.ranges[0] if part.dim == 1 else None
    wanted = part.ranges if part.dim == 0 else ((0, part.shape[0]),)
    found, start = [], 0
    for name in plan.names:
        height = checkpoint.tensors[name].shape[0]
        order: Any = range(height)
        if plan.rows is not None:  # which row of the file each row of the model is
            order = plan.rows(tensor([[row] for row in order], dtype="int64")).reshape(-1).tolist()
        rows = [
            order[row - start] for first, count in wanted
            for row in range(max(first, start), min(first + count, start + height))
        ]  # fmt: skip
        if rows:
            found.append(read_part(checkpoint, name, runs_of(rows), columns, finite=True, device=device))
        start += height
    if len(found) == 1:
        return found[0]
    return quant.concatenate(found) if found[0].ndim == 2 else cat(found)


def flat_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """The shape of the matrix of all rows of a stack (E, N, K)."""
    return shape[0] * shape[1], shape[2]


def read_stack(
    checkpoint: Checkpoint, slot: Slot, plan: Stored, share: Part | None, kind: str | None, device: Device | str | None
) -> Tensor:
    """The matrices of all experts, or a process's `share` of each, in the type `kind`, or in that of the file: (E, N,
    K), of block types (E * N, K). The file has one stack, one for each part of the rows (the gates and the ups), or
    each matrix by itself.
    """
    experts, rows, _ = shape = slot.shape if share is None else share.own_shape
    parts, start = [], 0
    for name in plan.names:
        part = _stack_rows(checkpoint, name, share, start % slot.shape[1], device)
        parts.append(in_type(part, kind) if rows % quant.BAND == 0 else quant.dequantize(part).to(float32))
        start += checkpoint.tensors[name].shape[-2]
    if len({part.dtype for part in parts}) > 1:
        parts = [_as_listed(part, checkpoint.tensors[name]) for part, name in zip(parts, plan.names, strict=True)]
    if len(parts) == 1:
        whole = parts[0]
    elif all(len(checkpoint.tensors[name].shape) == 3 for name in plan.names):
        heights = [part.shape[0] // experts for part in parts]
        if any(not quant.whole_bands(part, height, height) for part, height in zip(parts, heights, strict=True)):
            parts = [quant.dequantize(part) for part in parts]
        whole = quant.concatenate(
            [quant.rows_of(part, e * n, n) for e in range(experts) for part, n in zip(parts, heights, strict=True)]
        )
    else:
        whole = quant.concatenate(parts)
    return whole if whole.dtype.is_quantized else whole.reshape(shape)


def read_joined_stack(
    checkpoint: Checkpoint, slot: Slot, plan: Stored, kind: str | None, device: Device | str | None
) -> Tensor:
    """As `read_stack`, of a file that has the matrices in another form, which plan.join changes."""
    whole = read_plan(checkpoint, plan, device)
    whole = in_type(whole if whole.dtype.is_quantized else whole.reshape(flat_shape(slot.shape)), kind)
    if slot.shape[1] % quant.BAND:
        whole = quant.dequantize(whole).to(float32)
    return whole if whole.dtype.is_quantized else whole.reshape(slot.shape)


def _stack_rows(
    checkpoint: Checkpoint, name: str, share: Part | None, start: int, device: Device | str | None
) -> Tensor:
    """The rows of a file's matrix or stack of matrices, of which those of each expert begin at row `start` of the
    model's; with a `share` those, and the columns, that a process has.
    """
    if share is None:
        part = checkpoint.read_rows(name, finite=True, device=device)
        return part if part.dtype.is_quantized or part.ndim == 2 else part.reshape(-1, part.shape[-1])
    from pyapp.formats.tensor_slices import read_part

    *lead, rows, _ = checkpoint.tensors[name].shape
    if share.dim == 2:
        return read_part(checkpoint, name, [(0, prod(lead) * rows)], share.ranges[0], finite=True, device=device)
    inside = [(max(first - start, 0), min(first + n - start, rows)) for first, n in share.ranges]
    taken = [(i * rows + first, end - first) for i in range(prod(lead)) for first, end in inside if first < end]
    return read_part(checkpoint, name, taken, finite=True, device=device)


def _read_part(
    checkpoint: Checkpoint, name: str, rows: Callable[[Tensor], Tensor] | None, device: Device | str | None
) -> Tensor:
    info = checkpoint.tensors[name]
    if rows is None or not info.numel:
        return checkpoint.read(name, finite=True, device=device)
    if info.dtype not in READABLE or len(info.shape) != 2:
        value = _as_listed(checkpoint.read(name, finite=True, device=device), info)
        return rows(value if value.ndim == 2 else value.unsqueeze(1)).reshape(info.shape)
    data = memoryview(checkpoint.read_bytes(name)).cast("B")
    matrix = Tensor.from_buffer(data, (info.shape[0], len(data) // info.shape[0]), "uint8")
    ordered = rows(matrix).contiguous()
    return quant.from_blocks(ordered._storage.bytes_view(), info.shape, info.dtype, place_of(device))


def _as_listed(value: Tensor, info: TensorInfo) -> Tensor:
    """A tensor that may be in blocks though the file lists floats (loading.quantised), as these floats."""
    listed = value.dtype.is_quantized and info.dtype in FLOATS
    return quant.dequantize(value).to(info.dtype) if listed else value


def place_of(device: Device | str | None) -> Device:
    return cpu if device is None else as_device(device)
