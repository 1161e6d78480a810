"""Control flow: graphs within nodes."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..limits import count_step
from ..registry import operator
from ..values import array_of, like, made_of, scalar
from .shapes import cut, padded, reshaped

STEPS_LIMIT = 1 << 40


@operator("If", reads=(0,))
def if_(condition: Tensor, *, then_branch: Any, else_branch: Any) -> Any:
    return tuple((then_branch if scalar(condition) else else_branch)())


def joined(values: list[Any], axis: int, first: bool = False) -> Any:
    """Values of one shape as one tensor with a new axis."""
    if first:
        values = values[::-1]
    if all(isinstance(v, Tensor) for v in values) and values[0].dtype.name not in ("uint16", "uint32", "uint64"):
        return ops.stack(values, axis)
    return like(values[0], np.stack([array_of(v) for v in values], axis))


@operator("Loop", reads=(0, 1))
def loop(count: Any = None, condition: Any = None, *states: Any, body: Any) -> Any:
    """body(step, condition, states…) → condition, states…, outputs of each step, which are stacked."""
    most, go_on = (STEPS_LIMIT if count is None else int(scalar(count))), bool(scalar(condition, True))
    kept, carried, step = list(states), len(states), 0
    collected: list[list[Any]] = [[] for _ in range(body.outputs - 1 - carried)]
    while step < most and go_on:
        count_step()
        found = body(made_of(np.array(step, np.int64)), made_of(np.array(True)), *kept)
        go_on, kept = bool(scalar(found[0])), list(found[1 : 1 + carried])
        for series, value in zip(collected, found[1 + carried :], strict=True):
            series.append(value)
        step += 1
    return *kept, *(joined(series, 0) if series else body.empty(1 + carried + k) for k, series in enumerate(collected))


@operator("Scan", since=9)
def scan(
    *inputs: Any, body: Any, num_scan_inputs: int, scan_input_axes: Any = None, scan_input_directions: Any = None,
    scan_output_axes: Any = None, scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    """body(states…, slices…) → states…, outputs of each step: over an axis of the scan inputs."""
    carried = len(inputs) - num_scan_inputs
    kept, series = list(inputs[:carried]), inputs[carried:]
    if not series or carried < 0:
        raise ValueError(f"it scans {num_scan_inputs} of {len(inputs)} inputs")
    axes = [axis % x.ndim for axis, x in zip(scan_input_axes or [0] * len(series), series, strict=True)]
    backwards = scan_input_directions or [0] * len(series)
    lengths = {x.shape[axis] for x, axis in zip(series, axes, strict=True)}
    if len(lengths) != 1:
        raise ValueError(f"its inputs have different lengths: {sorted(lengths)}")
    length = lengths.pop()
    collected: list[list[Any]] = [[] for _ in range(body.outputs - carried)]
    for step in range(length):
        count_step()
        slices = []
        for x, axis, back in zip(series, axes, backwards, strict=True):
            at = length - 1 - step if back else step
            slices.append(reshaped(cut(x, axis, at, at + 1), [n for d, n in enumerate(x.shape) if d != axis]))
        found = body(*kept, *slices)
        kept = list(found[:carried])
        for parts, value in zip(collected, found[carried:], strict=True):
            parts.append(value)
    out_axes = scan_output_axes or [0] * len(collected)
    directions = scan_output_directions or [0] * len(collected)
    return *kept, *(
        joined(parts, axis % (parts[0].ndim + 1), bool(back)) if parts else body.empty(carried + k)
        for k, (parts, axis, back) in enumerate(zip(collected, out_axes, directions, strict=True))
    )


@operator("Scan")
def scan_of_batches(lengths: Any, *inputs: Any, body: Any, num_scan_inputs: int, directions: Any = None) -> Any:
    """Opset 8: every input has a batch in front; each sequence is scanned alone."""
    carried = len(inputs) - num_scan_inputs
    batch = inputs[0].shape[0]
    sizes = [inputs[carried].shape[1]] * batch if lengths is None else [int(n) for n in array_of(lengths)]
    rows = []
    for row, size in enumerate(sizes):
        parts = [reshaped(cut(x, 0, row, row + 1), x.shape[1:]) for x in inputs]
        parts = [p if k < carried else cut(p, 0, 0, size) for k, p in enumerate(parts)]
        rows.append(scan(*parts, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions))
    longest, found = inputs[carried].shape[1], []
    for k, values in enumerate(zip(*rows, strict=True)):
        if k >= carried:
            values = tuple(padded(v, [0] * v.ndim, [longest - v.shape[0], *[0] * (v.ndim - 1)]) for v in values)
        found.append(joined(list(values), 0))
    return tuple(found)


@operator("SequenceMap")
def sequence_map(sequence: list[Any], *further: Any, body: Any) -> Any:
    """body of each element, and of those of further sequences; tensors are given to every call."""
    columns: list[list[Any]] = [[] for _ in range(body.outputs)]
    for at, value in enumerate(sequence):
        found = body(value, *(x[at] if isinstance(x, list) else x for x in further))
        for column, part in zip(columns, found, strict=True):
            column.append(part)
    return tuple(columns)
