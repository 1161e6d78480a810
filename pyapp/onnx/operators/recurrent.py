"""Recurrent layers: RNN, GRU, LSTM. x (T, B, I); with layout 1 (B, T, I)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyapp.engine import Tensor, ops

from ..registry import operator
from ..values import array_of, made_of, text
from .activations import hard_sigmoid, leaky_relu, thresholded_relu

# Activations by name: the function of x, alpha and beta, and the defaults of these.
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], float, float]] = {
    "sigmoid": (lambda x, a, b: ops.sigmoid(x), 0, 0),
    "tanh": (lambda x, a, b: ops.tanh(x), 0, 0),
    "relu": (lambda x, a, b: ops.relu(x), 0, 0),
    "affine": (lambda x, a, b: x * a + b, 1, 0),
    "leakyrelu": (lambda x, a, b: leaky_relu(x, alpha=a), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: thresholded_relu(x, alpha=a), 1, 0),
    "scaledtanh": (lambda x, a, b: ops.tanh(x * b) * a, 1, 1),
    "hardsigmoid": (lambda x, a, b: hard_sigmoid(x, alpha=a, beta=b), 0.2, 0.5),
    "elu": (lambda x, a, b: ops.elu(x, a), 1, 0),
    "softsign": (lambda x, a, b: x / (x.abs() + 1), 0, 0),
    "softplus": (lambda x, a, b: ops.softplus(x), 0, 0),
}


class _Layer:
    """What the three layers share: directions, activations, lengths of sequences."""

    def __init__(
        self, x: Tensor, w: Tensor, r: Tensor, bias: Any, lengths: Any, defaults: list[str], *, activations: Any,
        activation_alpha: Any, activation_beta: Any, clip: float | None, direction: bytes, layout: int,
    ) -> None:  # fmt: skip
        self.layout, self.clip = layout, clip
        self.x = x.transpose(0, 1) if layout else x
        self.steps, self.batch = self.x.shape[:2]
        self.w, self.r, self.bias = w, r, bias
        self.hidden = r.shape[-1]
        how = text(direction)
        if how not in ("forward", "reverse", "bidirectional"):
            raise ValueError(f"direction is {how!r}")
        self.reverse = [how == "reverse"] if how != "bidirectional" else [False, True]
        if w.shape[0] != len(self.reverse):
            raise ValueError(f"W of shape {tuple(w.shape)} does not fit the direction {how}")
        names = [text(name) for name in activations or []] or defaults * len(self.reverse)
        alphas, betas = list(activation_alpha or []), list(activation_beta or [])
        self.functions: list[Callable[[Tensor], Tensor]] = []
        for name in names:
            if name.lower() not in _ACTIVATIONS:
                raise ValueError(f"the activation {name!r} is unknown; known are {', '.join(_ACTIVATIONS)}")
            function, alpha, beta = _ACTIVATIONS[name.lower()]
            alpha = alphas.pop(0) if alphas and alpha else alpha
            beta = betas.pop(0) if betas and beta else beta
            self.functions.append(_bound(function, alpha, beta, clip))
        self.lengths = None if lengths is None else array_of(lengths)

    def of(self, direction: int) -> tuple[Tensor, Tensor, Tensor | None, list[Callable[[Tensor], Tensor]]]:
        """W, R, B and the activations of a direction."""
        each = len(self.functions) // len(self.reverse)
        bias = None if self.bias is None else self.bias[direction]
        return self.w[direction], self.r[direction], bias, self.functions[direction * each : (direction + 1) * each]

    def order(self, direction: int) -> list[int]:
        return list(range(self.steps))[:: -1 if self.reverse[direction] else 1]

    def initial(self, given: Any, direction: int) -> Tensor:
        if given is None:
            return ops.zeros((self.batch, self.hidden), dtype=self.x.dtype, device=self.x.device)
        return given[:, direction] if self.layout else given[direction]

    def active(self, step: int) -> Any:
        """(B, 1) bool of the sequences that have this step; None: all."""
        if self.lengths is None or (self.lengths > step).all():
            return None
        return made_of((self.lengths > step)[:, None], device=self.x.device)

    def results(self, outputs: list[list[Tensor]], *last: list[Tensor]) -> tuple[Tensor, ...]:
        """Y (T, D, B, H), and the last states (D, B, H)."""
        y = ops.stack([ops.stack(steps, 0) for steps in outputs], 1)
        states = [ops.stack(states, 0) for states in last]
        if self.layout:
            return (y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in states))
        return (y, *states)


def _bound(function: Any, alpha: float, beta: float, clip: float | None) -> Callable[[Tensor], Tensor]:
    if clip is None:
        return lambda x: function(x, alpha, beta)
    return lambda x: function(ops.clamp(x, -clip, clip), alpha, beta)


def _chosen(active: Any, new: Tensor, old: Tensor | None) -> Tensor:
    """The new value of sequences that go on; of others the old one, or 0."""
    if active is None:
        return new
    return ops.where(active, new, ops.zeros_like(new) if old is None else old)


def _rows(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """x (T, B, I) w (G H, I) + bias → (T, B, G H), in one product."""
    return ops.linear(x, w, bias)


@operator("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, bias: Any = None, lengths: Any = None, initial_h: Any = None, *,
    activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
    direction: bytes = b"forward", hidden_size: int | None = None, layout: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(
        x, w, r, bias, lengths, ["Tanh"], activations=activations, activation_alpha=activation_alpha,
        activation_beta=activation_beta, clip=clip, direction=direction, layout=layout,
    )  # fmt: skip
    outputs, last = [], []
    for d in range(len(layer.reverse)):
        wd, rd, bd, (f,) = layer.of(d)
        h = layer.initial(initial_h, d)
        rows = _rows(layer.x, wd, None if bd is None else bd[: layer.hidden] + bd[layer.hidden :])
        found: list[Any] = [None] * layer.steps
        for t in layer.order(d):
            active = layer.active(t)
            new = f(rows[t] + h @ rd.t())
            found[t], h = _chosen(active, new, None), _chosen(active, new, h)
        outputs.append(found)
        last.append(h)
    return layer.results(outputs, last)


@operator("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, bias: Any = None, lengths: Any = None, initial_h: Any = None, *,
    activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
    direction: bytes = b"forward", hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0,
) -> Any:  # fmt: skip
    """Gates z, r, h (Cho et al. 2014, arXiv 1406.1078)."""
    layer = _Layer(
        x, w, r, bias, lengths, ["Sigmoid", "Tanh"], activations=activations, activation_alpha=activation_alpha,
        activation_beta=activation_beta, clip=clip, direction=direction, layout=layout,
    )  # fmt: skip
    n = layer.hidden
    outputs, last = [], []
    for d in range(len(layer.reverse)):
        wd, rd, bd, (f, g) = layer.of(d)
        h = layer.initial(initial_h, d)
        rows = _rows(layer.x, wd, None if bd is None else bd[: 3 * n])
        rb = ops.zeros((3 * n,), dtype=x.dtype, device=x.device) if bd is None else bd[3 * n :]
        found: list[Any] = [None] * layer.steps
        for t in layer.order(d):
            active, row = layer.active(t), rows[t]
            gates = f(row[:, : 2 * n] + h @ rd[: 2 * n].t() + rb[: 2 * n])
            z, reset = gates[:, :n], gates[:, n:]
            if linear_before_reset:
                candidate = g(row[:, 2 * n :] + reset * (h @ rd[2 * n :].t() + rb[2 * n :]))
            else:
                candidate = g(row[:, 2 * n :] + (reset * h) @ rd[2 * n :].t() + rb[2 * n :])
            new = (1 - z) * candidate + z * h
            found[t], h = _chosen(active, new, None), _chosen(active, new, h)
        outputs.append(found)
        last.append(h)
    return layer.results(outputs, last)


@operator("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, bias: Any = None, lengths: Any = None, initial_h: Any = None,
        initial_c: Any = None,
    peepholes: Any = None, *, activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None,
    clip: float | None = None, direction: bytes = b"forward", hidden_size: int | None = None, input_forget: int = 0,
    layout: int = 0,
) -> Any:  # fmt: skip
    """Gates i, o, f, c (Hochreiter & Schmidhuber 1997)."""
    layer = _Layer(
        x, w, r, bias, lengths, ["Sigmoid", "Tanh", "Tanh"], activations=activations, activation_alpha=activation_alpha,
        activation_beta=activation_beta, clip=clip, direction=direction, layout=layout,
    )  # fmt: skip
    n = layer.hidden
    outputs, last_h, last_c = [], [], []
    for d in range(len(layer.reverse)):
        wd, rd, bd, (f, g, k) = layer.of(d)
        h, c = layer.initial(initial_h, d), layer.initial(initial_c, d)
        rows = _rows(layer.x, wd, None if bd is None else bd[: 4 * n] + bd[4 * n :])
        peep = None if peepholes is None else [peepholes[d][at * n : (at + 1) * n] for at in range(3)]
        found: list[Any] = [None] * layer.steps
        recurrent = rd.t()
        for t in layer.order(d):
            active = layer.active(t)
            i, o, forget, cell = ((rows[t] + h @ recurrent)[:, at * n : (at + 1) * n] for at in range(4))
            if peep is not None:
                i, forget = i + peep[0] * c, forget + peep[2] * c
            i = f(i)
            forget = 1 - i if input_forget else f(forget)
            new_c = forget * c + i * g(cell)
            new = f(o if peep is None else o + peep[1] * new_c) * k(new_c)
            found[t], h, c = _chosen(active, new, None), _chosen(active, new, h), _chosen(active, new_c, c)
        outputs.append(found)
        last_h.append(h)
        last_c.append(c)
    return layer.results(outputs, last_h, last_c)
