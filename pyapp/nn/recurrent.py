"""RNN, LSTM and GRU in torch's parameter names and gate orders."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.op import describe
from ..engine.ops import empty, zeros
from .dropout import dropout
from .layers import _Initialization, _parameter
from .module import Module


class _Recurrent(Module):
    """Layers over a sequence (T, B, input_size), or (B, T, input_size) with `batch_first`, or (T, input_size) without
    a batch. Returns (output, last state): output (T, B, D * hidden) of the last layer, D = 2 when bidirectional, else
    1; state (num_layers * D, B, hidden), layer by layer, forwards before backwards. `dropout` acts between the layers.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        if min(input_size, hidden_size, num_layers) < 1 or not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{type(self).__name__}: sizes and num_layers must be at least 1 and proj_size below hidden_size, "
                f"got {input_size}, {hidden_size}, {num_layers}, {proj_size}"
            )
        if not 0 <= dropout <= 1:
            raise ValueError(f"{type(self).__name__}: dropout must be in [0, 1], got {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self.output_size = proj_size or hidden_size
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            columns = input_size if layer == 0 else self.output_size * self.directions
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih{suffix}", _parameter(empty, rows, columns))
                setattr(self, f"weight_hh{suffix}", _parameter(empty, rows, self.output_size))
                if bias:
                    setattr(self, f"bias_ih{suffix}", _parameter(empty, rows))
                    setattr(self, f"bias_hh{suffix}", _parameter(empty, rows))
                if proj_size:
                    setattr(self, f"weight_hr{suffix}", _parameter(empty, proj_size, hidden_size))
        if _Initialization.on:
            self.reset_parameters()

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self.directions]

    def reset_parameters(self) -> None:
        """Uniform in ±1 / sqrt(hidden_size), as torch."""
        bound = 1 / sqrt(self.hidden_size)
        with no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound)

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        """The next state, the output first, from the input's part of the gates, (B, gates * hidden)."""
        raise NotImplementedError

    def _hidden_part(self, h: Tensor, suffix: str) -> Tensor:
        return ops.linear(h, getattr(self, f"weight_hh{suffix}"), getattr(self, f"bias_hh{suffix}", None))

    def _direction(self, x: Tensor, state: list[Tensor], suffix: str) -> tuple[Tensor, list[Tensor]]:
        """One layer in one direction: x (T, B, in) → (T, B, out), and its last state."""
        parts = ops.linear(x, getattr(self, f"weight_ih{suffix}"), getattr(self, f"bias_ih{suffix}", None))
        count = x.shape[0]
        backwards = suffix.endswith("_reverse")
        outputs: list[Any] = [None] * count
        for t in range(count - 1, -1, -1) if backwards else range(count):
            state = self._step(parts[t], state, suffix)
            outputs[t] = state[0]
        return ops.stack(outputs), state

    def _run(self, x: Tensor, given: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        batched = x.ndim == 3
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ValueError(f"{type(self).__name__}: takes 2 or 3 dims, the last {self.input_size}, got {describe(x)}")
        if not batched:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        if not x.shape[0]:
            raise ValueError(f"{type(self).__name__}: the sequence must not be empty, got {describe(x)}")
        states = self._first_states(x, given, batched)
        last: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            if layer:
                x = dropout(x, self.dropout, self.training)
            ways = []
            for suffix in self._suffixes(layer):
                output, state = self._direction(x, [s[len(last)] for s in states], suffix)
                ways.append(output)
                last.append(state)
            x = ways[0] if len(ways) == 1 else ops.cat(ways, -1)
        found = tuple(ops.stack([state[i] for state in last]) for i in range(len(states)))
        if not batched:
            return x.squeeze(1), tuple(s.squeeze(1) for s in found)
        return (x.transpose(0, 1) if self.batch_first else x), found

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.output_size,)

    def _first_states(self, x: Tensor, given: tuple[Tensor, ...] | None, batched: bool) -> list[Tensor]:
        """(num_layers * D, B, size) each, zeros where none are given."""
        count, batch = self.num_layers * self.directions, x.shape[1]
        if given is None:
            return [zeros((count, batch, size), dtype=x.dtype) for size in self._state_sizes()]
        states = []
        for state, size in zip(given, self._state_sizes(), strict=True):
            wanted = (count, batch, size) if batched else (count, size)
            if state.shape != wanted:
                raise ValueError(f"{type(self).__name__}: a first state must be {list(wanted)}, got {describe(state)}")
            states.append(state if batched else state.unsqueeze(1))
        return states

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0),
            ("bidirectional", False),
        ):  # fmt: skip
            value = getattr(self, name)
            text += "" if value == default else f", {name}={value}"
        return text


class RNN(_Recurrent):
    __doc__ = f"h = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh. {_Recurrent.__doc__}"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        self.nonlinearity = nonlinearity

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        total = x + self._hidden_part(state[0], suffix)
        return [total.tanh() if self.nonlinearity == "tanh" else total.relu()]

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, (last,) = self._run(input, None if hx is None else (hx,))
        return output, last


class GRU(_Recurrent):
    __doc__ = f"Gates in the order reset, update, new (Cho et al. 2014). {_Recurrent.__doc__}"
    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        (h,) = state
        hidden, n = self._hidden_part(h, suffix), self.hidden_size
        both = (x[:, : 2 * n] + hidden[:, : 2 * n]).sigmoid()
        reset, update = both[:, :n], both[:, n:]
        new = (x[:, 2 * n :] + reset * hidden[:, 2 * n :]).tanh()
        return [new + update * (h - new)]

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, (last,) = self._run(input, None if hx is None else (hx,))
        return output, last


class LSTM(_Recurrent):
    __doc__ = f"""Gates in the order input, forget, cell, output (Hochreiter and Schmidhuber 1997), the state
    is (h, c). With `proj_size` h is projected to that size. {_Recurrent.__doc__}"""
    gates = 4

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.output_size, self.hidden_size)

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        h, c = state
        total, n = x + self._hidden_part(h, suffix), self.hidden_size
        take, forget = total[:, :n].sigmoid(), total[:, n : 2 * n].sigmoid()
        c = forget * c + take * total[:, 2 * n : 3 * n].tanh()
        h = total[:, 3 * n :].sigmoid() * c.tanh()
        if self.proj_size:
            h = ops.linear(h, getattr(self, f"weight_hr{suffix}"))
        return [h, c]

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, (h, c) = self._run(input, None if hx is None else tuple(hx))
        return output, (h, c)
