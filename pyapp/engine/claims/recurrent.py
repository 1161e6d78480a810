"""Recurrent layers over all steps (native/recurrent_cells.c): two launches for each step, one after the other, of which
one is the product with the recurrent weights. Gradients compute the gates again, by one product for all steps.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from ..device import cpu
from ..dtype import float32, float64
from ..launch import KERNELS, Part, launch_all
from ..native import IN_BROWSER, POINTER_BYTES, fail, library
from ..op import OPS, claims
from ..operands import dense
from ..ops.recurrent import steps_of  # defines the ops
from ..ops.stacking import cat
from ..storage import CAPTURES
from ..tensor import Tensor, empty_contiguous

_LINEAR, _MUL, _UNARY = KERNELS["linear_f32"], KERNELS["mul_f32"], {n: KERNELS[f"{n}_f32"] for n in ("tanh", "maximum")}
_LSTM, _LSTM_BACKWARD = KERNELS["lstm_cell_f32"], KERNELS["lstm_cell_backward_f32"]
_GRU, _GRU_BACKWARD = KERNELS["gru_cell_f32"], KERNELS["gru_cell_backward_f32"]
_CELLS = ("lstm_cell", "lstm_cell_backward", "gru_cell", "gru_cell_backward")
_OF_DOUBLES = {KERNELS[name + "_f32"]: KERNELS[name + "_f64"] for name in _CELLS}


def _fits(x: Tensor, weight: Tensor, gates: int, states: tuple[Tensor, ...], *others: Tensor | None) -> bool:
    """Whether all are float32 on one device, x has steps and rows, and the weight and the first states their sizes."""
    if x.dtype is not float32 or len(x._shape) != 3 or 0 in x._shape or len(weight._shape) != 2:
        return False
    (_, rows, width), n = x._shape, weight._shape[1]
    if width != gates * n or weight._shape[0] != width or any(state._shape != (rows, n) for state in states):
        return False
    return all(t.dtype is float32 and t.device is x.device for t in (weight, *states, *others) if t is not None)


def _kernel_of_one(kernel: Any, h: Tensor, gates: tuple[Tensor, ...], count: int, *others: Tensor) -> Any:
    """The kernel for the dtype of h (B, H), where all have it on one device, and each of the gates is (B, count * H);
    None where there is no such kernel."""
    if len(h._shape) != 2 or any(x._shape != (h._shape[0], count * h._shape[1]) for x in gates):
        return None
    dtype, device = h.dtype, h.device
    if dtype is float64 and not IN_BROWSER:
        kernel = _OF_DOUBLES[kernel]
        if kernel.name not in device.backend.kernels:
            return None
    elif dtype is not float32:
        return None
    return kernel if all(x.dtype is dtype and x.device is device for x in (*gates, *others)) else None


class _Steps:
    """Where rows (B, columns) of each step lie in a dense tensor (T, B, columns)."""

    def __init__(self, of: Any, rows: int, columns: int, first: int = 0) -> None:
        self.of, self.first, self.step = of, 4 * first, 4 * rows * columns

    def __getitem__(self, t: int) -> Part:
        return Part(self.of, self.first + t * self.step)

    def addresses(self, order: Sequence[int]) -> list[int]:
        start, step = self.of.address + self.first, self.step
        return [start + t * step for t in order]


class _Before:
    """The states (T, B, H) before each step; before the first one computed, `first`."""

    def __init__(self, states: _Steps, first: Tensor, count: int, reverse: bool) -> None:
        self.states, self.first = states, first
        self.end, self.back = (count - 1, 1) if reverse else (0, -1)

    def __getitem__(self, t: int) -> Any:
        return self.first if t == self.end else self.states[t + self.back]

    def addresses(self, order: Sequence[int]) -> list[int]:
        before = self.states.addresses([t + self.back for t in order])
        before[order.index(self.end)] = self.first.address
        return before


def _launch_steps(work: int, order: Sequence[int], *calls: tuple[Any, ...]) -> None:
    """launch_all of these kernels at each step, in the order of the steps. Slots that are _Steps or _Before change from
    step to step."""
    if _at(calls[0][1], 0).device is not cpu or CAPTURES.count:
        launch_all(work, *[tuple([_at(slot, t) for slot in call]) for t in order for call in calls])
        return
    first = b"".join([call[0].record(work, *[_at(slot, order[0]) for slot in call[1:]]) for call in calls])
    records = array(_ADDRESS, first * len(order))
    every = len(first) // POINTER_BYTES
    for at, call in enumerate(calls):
        lead = at * every // len(calls) + 8 // POINTER_BYTES  # the record's kernel and work lie before its pointers
        for k, slot in enumerate(call[1 : 1 + len(call[0].pointers)]):
            if isinstance(slot, (_Steps, _Before)):
                records[lead + k :: every] = array(_ADDRESS, slot.addresses(order))
    count = len(order) * len(calls)
    status = library.pyapp_run(records.tobytes(), count)
    if status:
        fail(status, calls[(status >> 8) % len(calls)][0].name)


_ADDRESS = next(code for code in "ILQ" if array(code).itemsize == POINTER_BYTES)


def _at(slot: Any, t: int) -> Any:
    return slot[t] if isinstance(slot, (_Steps, _Before)) else slot


def _all_before(states: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """The states (T, B, H) before each step."""
    own = first.unsqueeze(0)
    return cat([states[1:], own] if reverse else [own, states[:-1]])


def _product(y: Any, x: Any, weight: Tensor, added: Any, rows: int, added_stride: int) -> tuple[Any, ...]:
    """The record of y = x weight' + added, rows of both dense."""
    outputs, inputs = weight._shape
    return (_LINEAR, y, x, weight, added, rows, outputs, inputs, outputs, inputs, added_stride)


def _weight_gradients(gates: Tensor, before: Tensor) -> Tensor:
    """(gates, H) from the gradients of h's share of the gates and the states before each step, all of T x B rows."""
    return OPS["matmul"].forward(gates.reshape(-1, gates._shape[-1]).t(), before.reshape(-1, before._shape[-1]))


# ---- LSTM


@claims("_lstm_cell")
def _lstm_cell(gates: Tensor, c: Tensor) -> Any:
    if (kernel := _kernel_of_one(_LSTM, c, (gates,), 4)) is None:
        return NotImplemented
    (rows, n), c = c._shape, dense(c)
    y = empty_contiguous((2, rows, n), c.dtype, c.device)
    kernel.launch(rows * n >> 6, y, Part(y, c.dtype.itemsize * rows * n), OPS["contiguous"].forward(gates), c, rows, n)
    return y


@claims("lstm_cell_backward")
def _lstm_cell_backward(g: Tensor, y: Tensor, gates: Tensor, c: Tensor) -> Any:
    if (kernel := _kernel_of_one(_LSTM_BACKWARD, c, (gates,), 4, g, y)) is None:
        return NotImplemented
    (rows, n), g, y, c = c._shape, dense(g), dense(y), dense(c)
    gates, grad_c = OPS["contiguous"].forward(gates), OPS["contiguous"].forward(g[1])
    of_c = Part(y, c.dtype.itemsize * rows * n)
    kernel.launch(rows * n >> 6, gates, grad_c, of_c, c, g, None, None, rows, n)
    return gates, grad_c


@claims("lstm_steps")
def _lstm(x: Tensor, h: Tensor, c: Tensor, weight: Tensor, reverse: bool = False) -> Any:
    if not _fits(x, weight, 4, (h, c)):
        return NotImplemented
    (count, rows, width), n = x._shape, weight._shape[1]
    x, h, c, weight = dense(x), dense(h), dense(c), dense(weight)
    y, gates = (
        empty_contiguous((2, count, rows, n), float32, x.device),
        empty_contiguous((rows, width), float32, x.device),
    )
    parts, of_h, of_c = _Steps(x, rows, width), _Steps(y, rows, n), _Steps(y, rows, n, count * rows * n)
    h_before, c_before = (_Before(s, f, count, reverse) for s, f in ((of_h, h), (of_c, c)))
    _launch_steps(
        rows * width * n >> 10, steps_of(count, reverse), _product(gates, h_before, weight, parts, rows, width),
        (_LSTM, of_h, of_c, gates, c_before, rows, n),
    )  # fmt: skip
    return y


@claims("lstm_steps_backward")
def _lstm_backward(
    g: Tensor, y: Tensor, x: Tensor, h: Tensor, c: Tensor, weight: Tensor, reverse: bool = False
) -> Any:  # fmt: skip
    if not _fits(x, weight, 4, (h, c), y, g):
        return NotImplemented
    (count, rows, width), n = x._shape, weight._shape[1]
    g, y, c, weight = dense(g), dense(y), dense(c), dense(weight)
    before = _all_before(y[0], h, reverse)
    gates = OPS["_linear"].forward(before, weight, None, x)  # (T, B, 4H)
    across = dense(weight.t())
    later_h, grad_c = (x.new_zeros((rows, n)) for _ in range(2))
    of_gates, half = _Steps(gates, rows, width), count * rows * n
    of_c, of_h, later_c = _Steps(y, rows, n, half), _Steps(g, rows, n), _Steps(g, rows, n, half)
    c_before = _Before(of_c, c, count, reverse)
    _launch_steps(
        rows * width * n >> 10, steps_of(count, not reverse),
        (_LSTM_BACKWARD, of_gates, grad_c, of_c, c_before, of_h, later_h, later_c, rows, n),
        _product(later_h, of_gates, across, None, rows, 0),
    )  # fmt: skip
    return gates, later_h, grad_c, _weight_gradients(gates, before), None


# ---- GRU


@claims("_gru_cell")
def _gru_cell(x: Tensor, hidden: Tensor, h: Tensor) -> Any:
    if (kernel := _kernel_of_one(_GRU, h, (x, hidden), 3)) is None:
        return NotImplemented
    rows, n = h._shape
    y = empty_contiguous(h._shape, h.dtype, h.device)
    kernel.launch(rows * n >> 6, y, dense(x), dense(hidden), dense(h), rows, n)
    return y


@claims("gru_cell_backward")
def _gru_cell_backward(g: Tensor, x: Tensor, hidden: Tensor, h: Tensor) -> Any:
    if (kernel := _kernel_of_one(_GRU_BACKWARD, h, (x, hidden), 3, g)) is None:
        return NotImplemented
    (rows, n), grad_x = h._shape, empty_contiguous(x._shape, x.dtype, x.device)
    hidden, grad_h = OPS["contiguous"].forward(hidden), OPS["contiguous"].forward(g)
    kernel.launch(rows * n >> 6, grad_x, hidden, grad_h, dense(x), dense(h), None, rows, n)
    return grad_x, hidden, grad_h


@claims("gru_steps")
def _gru(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None = None, reverse: bool = False) -> Any:
    if not _fits(x, weight, 3, (h,), bias):
        return NotImplemented
    (count, rows, width), n = x._shape, weight._shape[1]
    x, h, weight, bias = dense(x), dense(h), dense(weight), None if bias is None else dense(bias)
    y, hidden = (
        empty_contiguous((count, rows, n), float32, x.device),
        empty_contiguous((rows, width), float32, x.device),
    )
    parts, of_h = _Steps(x, rows, width), _Steps(y, rows, n)
    before = _Before(of_h, h, count, reverse)
    _launch_steps(
        rows * width * n >> 10, steps_of(count, reverse), _product(hidden, before, weight, bias, rows, 0),
        (_GRU, of_h, parts, hidden, before, rows, n),
    )  # fmt: skip
    return y


@claims("gru_steps_backward")
def _gru_backward(
    g: Tensor, y: Tensor, x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None = None, reverse: bool = False
) -> Any:
    if not _fits(x, weight, 3, (h,), bias, y, g):
        return NotImplemented
    (count, rows, width), n = x._shape, weight._shape[1]
    g, y, x, h, weight = dense(g), dense(y), dense(x), dense(h), dense(weight)
    before = _all_before(y, h, reverse)
    hidden = OPS["_linear"].forward(before, weight, bias)  # (T, B, 3H)
    across, grad_x = dense(weight.t()), empty_contiguous(x._shape, float32, x.device)
    grad_before = x.new_zeros((rows, n))
    parts, of_x, of_hidden = (_Steps(t, rows, width) for t in (x, grad_x, hidden))
    of_h, of_g = _Steps(y, rows, n), _Steps(g, rows, n)
    h_before = _Before(of_h, h, count, reverse)
    _launch_steps(
        rows * width * n >> 10, steps_of(count, not reverse),
        (_GRU_BACKWARD, of_x, of_hidden, grad_before, parts, h_before, of_g, rows, n),
        _product(grad_before, of_hidden, across, grad_before, rows, n),
    )  # fmt: skip
    of_bias = None if bias is None else hidden.sum((0, 1))
    return grad_x, grad_before, _weight_gradients(hidden, before), of_bias, None


# ---- Plain


@claims("rnn_steps")
def _rnn(x: Tensor, h: Tensor, weight: Tensor, activation: str = "tanh", reverse: bool = False) -> Any:
    if not _fits(x, weight, 1, (h,)) or activation not in ("tanh", "relu"):
        return NotImplemented
    count, rows, n = x._shape
    x, h, weight = dense(x), dense(h), dense(weight)
    y, each = empty_contiguous(x._shape, float32, x.device), rows * n
    parts, of_h = _Steps(x, rows, n), _Steps(y, rows, n)
    _launch_steps(
        rows * n * n >> 10, steps_of(count, reverse),
        _product(of_h, _Before(of_h, h, count, reverse), weight, parts, rows, n),
        (_UNARY["tanh"], of_h, of_h, each) if activation == "tanh"
        else (_UNARY["maximum"], of_h, of_h, None, each, each, 1, 0, 0, 0.0),
    )  # fmt: skip
    return y


@claims("rnn_steps_backward")
def _rnn_backward(
    g: Tensor, y: Tensor, x: Tensor, h: Tensor, weight: Tensor, activation: str = "tanh", reverse: bool = False
) -> Any:
    if not _fits(x, weight, 1, (h,), y, g):
        return NotImplemented
    count, rows, n = x._shape
    g, y, weight = dense(g), dense(y), dense(weight)
    slopes = dense(1.0 - y * y if activation == "tanh" else (y > 0.0).to(float32))
    across, each = dense(weight.t()), rows * n
    grad_x, later = empty_contiguous(x._shape, float32, x.device), x.new_zeros((rows, n))
    of_x, of_g, of_slopes = (_Steps(t, rows, n) for t in (grad_x, g, slopes))
    calls: list[tuple[Any, ...]] = []
    following: Any = None
    for t in reversed(steps_of(count, reverse)):
        if following is not None:
            calls.append(_product(later, following, across, of_g[t], rows, n))
        total = of_g[t] if following is None else later
        following = of_x[t]
        calls.append((_MUL, following, total, of_slopes[t], each, each, each, 0, 0, 0.0))
    calls.append(_product(later, following, across, None, rows, 0))
    launch_all(rows * n * n >> 10, *calls)
    return grad_x, later, _weight_gradients(grad_x, _all_before(y, h, reverse)), None, None
