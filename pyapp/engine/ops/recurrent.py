"""Recurrent layers over all steps in one direction, and the functions of one step: an LSTM (Hochreiter and Schmidhuber
1997), a GRU (Cho et al. 2014, arXiv 1406.1078) and a plain one.

T is the number of steps, B of sequences, H of hidden units. The inputs' share of the gates comes from outside, from one
product for all steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import float32, float64
from ..op import op
from ..tensor import Tensor
from .composite_gradient import fused_gradient
from .linalg.products import linear
from .stacking import stack

_WITH_KERNELS = (float32, float64)


def _lstm_next(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next h and c, as in `lstm_cell`."""
    n = c._shape[-1]
    take, forget = gates[:, :n].sigmoid(), gates[:, n : 2 * n].sigmoid()
    c = forget * c + take * gates[:, 2 * n : 3 * n].tanh()
    return gates[:, 3 * n :].sigmoid() * c.tanh(), c


def _gru_next(x: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    """The next h, as in `gru_cell`."""
    n = h._shape[-1]
    both = (x[:, : 2 * n] + hidden[:, : 2 * n]).sigmoid()
    reset, update = both[:, :n], both[:, n:]
    new = (x[:, 2 * n :] + reset * hidden[:, 2 * n :]).tanh()
    return new + update * (h - new)


@op(saves="both", name="_lstm_cell")
def _lstm_cell(gates: Tensor, c: Tensor) -> Tensor:
    """(2, B, H): what `lstm_cell` gives."""
    return stack(_lstm_next(gates, c))


lstm_cell_backward = fused_gradient(_lstm_cell, of_result=True)


@op(name="_gru_cell")
def _gru_cell(x: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    return _gru_next(x, hidden, h)


gru_cell_backward = fused_gradient(_gru_cell)


def lstm_cell(gates: Tensor, c: Tensor) -> Sequence[Tensor]:
    """gates (B, 4H) in the order input, forget, cell, output, before their functions; c (B, H) → the next h and c."""
    if gates.dtype is c.dtype and c.dtype in _WITH_KERNELS:
        return _lstm_cell(gates, c).unbind()
    return _lstm_next(gates, c)


def gru_cell(x: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    """x and hidden (B, 3H), the shares of the input and of h in the order reset, update, new; h (B, H) → the next h."""
    return (_gru_cell if x.dtype is h.dtype and h.dtype in _WITH_KERNELS else _gru_next)(x, hidden, h)


def steps_of(count: int, reverse: bool) -> Sequence[int]:
    """The steps in the order in which they are computed."""
    return range(count - 1, -1, -1) if reverse else range(count)


@op(saves="both")
def lstm_steps(x: Tensor, h: Tensor, c: Tensor, weight: Tensor, reverse: bool = False) -> Tensor:
    """x (T, B, 4H), with the biases; the first h and c (B, H); weight (4H, H) → (2, T, B, H): h and c after each
    step. `reverse`: from the last step to the first.
    """
    found: list[tuple[Tensor, Tensor]] = [(h, c)] * x._shape[0]
    for t in steps_of(x._shape[0], reverse):
        h, c = lstm_cell(x[t] + linear(h, weight), c)
        found[t] = h, c
    return stack([stack([one[i] for one in found]) for i in range(2)])


lstm_steps_backward = fused_gradient(lstm_steps, of_result=True)


@op(saves="both")
def gru_steps(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None = None, reverse: bool = False) -> Tensor:
    """x (T, B, 3H); the first h (B, H); weight (3H, H) and bias (3H) of h's share → (T, B, H): h after each step."""
    found = [h] * x._shape[0]
    for t in steps_of(x._shape[0], reverse):
        h = found[t] = gru_cell(x[t], linear(h, weight, bias), h)
    return stack(found)


gru_steps_backward = fused_gradient(gru_steps, of_result=True)


@op(saves="both")
def rnn_steps(x: Tensor, h: Tensor, weight: Tensor, activation: str = "tanh", reverse: bool = False) -> Tensor:
    """x (T, B, H), with the biases; the first h (B, H); weight (H, H); "tanh" or "relu" → (T, B, H): h after each
    step.
    """
    found = [h] * x._shape[0]
    for t in steps_of(x._shape[0], reverse):
        total = x[t] + linear(h, weight)
        h = found[t] = total.tanh() if activation == "tanh" else total.relu()
    return stack(found)


rnn_steps_backward = fused_gradient(rnn_steps, of_result=True)
