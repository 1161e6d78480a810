"""Recurrent layers: RNN, GRU, LSTM. x (T, B, I); with layout 1 (B, T, I)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pyapp.engine import Tensor, int64, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import WATCH, array_of, made_of, text
from .activations import hard_sigmoid, leaky_relu, thresholded_relu

Weights: TypeAlias = "Tensor | Sequence[Tensor]"  # (D, rows, columns), or the matrix of each direction, perhaps packed

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
        self, x: Tensor, w: Weights, r: Weights, bias: Any, lengths: Any, defaults: list[str], *, activations: Any,
        activation_alpha: Any, activation_beta: Any, clip: float | None, direction: bytes, layout: int,
    ) -> None:  # fmt: skip
        self.layout, self.clip = layout, clip
        self.x = x.transpose(0, 1) if layout else x
        self.steps, self.batch = self.x.shape[:2]
        self.w, self.r, self.bias = w, r, bias
        self.hidden = r[0].shape[-1]
        how = text(direction)
        if how not in ("forward", "reverse", "bidirectional"):
            raise ValueError(f"direction is {how!r}")
        self.reverse = [how == "reverse"] if how != "bidirectional" else [False, True]
        if len(w) != len(self.reverse) or len(r) != len(self.reverse):
            raise ValueError(f"W of {len(w)} and R of {len(r)} directions do not fit the direction {how}")
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
        self._active = None if lengths is None else self._steps_of(lengths)

    def _steps_of(self, lengths: Tensor) -> Tensor | list[Tensor | None]:
        """(T, B, 1) bool: which sequences have each step. Of known lengths a list, with None where all have it."""
        if not WATCH.knows(lengths):  # they are compared by kernels, so that the layer can be recorded
            steps = made_of(np.arange(self.steps, dtype=np.int64)[:, None, None], device=self.x.device)
            active: Tensor = steps < lengths.to(int64)[:, None]
            return active
        known = array_of(lengths)
        masks = [known[:, None] > step for step in range(self.steps)]
        return [None if mask.all() else made_of(mask, device=self.x.device) for mask in masks]

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

    def active(self, step: int) -> Tensor | None:
        """(B, 1) bool of the sequences that have this step; None: all."""
        return None if self._active is None else self._active[step]

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


def _chosen(active: Tensor | None, new: Tensor, old: Tensor | None) -> Tensor:
    """The new value of sequences that go on; of others the old one, or 0."""
    if active is None:
        return new
    return ops.where(active, new, ops.zeros_like(new) if old is None else old)


def _added(row: Tensor, h: Tensor, r: Tensor) -> Tensor:
    """row (B, N) + h (B, H) r (N, H): one product where the row can be its bias."""
    return ops.linear(h, r, row[0]) if row.shape[0] == 1 else row + ops.linear(h, r)


def _parts(x: Tensor, n: int) -> list[Tensor]:
    """The gates (B, n) that lie side by side in x."""
    return [x[:, at : at + n] for at in range(0, x.shape[1], n)]


def _sum(bias: Tensor | None, size: int) -> Tensor | None:
    """The sum of the biases of W and R, in which they lie one after the other."""
    return None if bias is None else bias[:size] + bias[size:]


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
        rows = ops.linear(layer.x, wd, _sum(bd, layer.hidden))
        found: list[Any] = [None] * layer.steps
        for t in layer.order(d):
            active = layer.active(t)
            new = f(_added(rows[t], h, rd))
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
        inner = None  # the bias of a candidate's own product
        if bd is None or not linear_before_reset:
            rows = ops.linear(layer.x, wd, _sum(bd, 3 * n))
        else:
            inner = bd[5 * n :]
            rows = ops.linear(layer.x, wd, ops.cat([bd[: 2 * n] + bd[3 * n : 5 * n], bd[2 * n : 3 * n]]))
        gated, own = rd[: 2 * n], rd[2 * n :]
        found: list[Any] = [None] * layer.steps
        for t in layer.order(d):
            active, row = layer.active(t), rows[t]
            gates = f(_added(row[:, : 2 * n], h, gated))
            z, reset = gates[:, :n], gates[:, n:]
            if linear_before_reset:
                candidate = g(row[:, 2 * n :] + reset * ops.linear(h, own, inner))
            else:
                candidate = g(_added(row[:, 2 * n :], reset * h, own))
            new = candidate + z * (h - candidate)
            found[t], h = _chosen(active, new, None), _chosen(active, new, h)
        outputs.append(found)
        last.append(h)
    return layer.results(outputs, last)


@operator("LSTM")
def lstm(
    x: Tensor, w: Weights, r: Weights, bias: Any = None, lengths: Any = None, initial_h: Any = None,
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
        rows = ops.linear(layer.x, wd, _sum(bd, 4 * n))
        peep = None if peepholes is None else [peepholes[d][at * n : (at + 1) * n] for at in range(3)]
        found: list[Any] = [None] * layer.steps
        for t in layer.order(d):
            active, total = layer.active(t), _added(rows[t], h, rd)
            if peep is None and not input_forget:
                i, o, forget = _parts(f(total[:, : 3 * n]), n)
            else:
                i, o, forget = _parts(total, n)[:3]
                if peep is not None:
                    i, forget = i + peep[0] * c, forget + peep[2] * c
                i = f(i)
                forget = 1 - i if input_forget else f(forget)
            new_c = forget * c + i * g(total[:, 3 * n :])
            if peep is not None or input_forget:
                o = f(o if peep is None else o + peep[1] * new_c)
            new = o * k(new_c)
            found[t], h, c = _chosen(active, new, None), _chosen(active, new, h), _chosen(active, new_c, c)
        outputs.append(found)
        last_h.append(h)
        last_c.append(c)
    return layer.results(outputs, last_h, last_c)
