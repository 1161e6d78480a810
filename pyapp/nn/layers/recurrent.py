"""RNN, LSTM and GRU, over sequences and as cells of one step, with torch's parameter names and gate orders."""

from __future__ import annotations

import warnings
from itertools import groupby
from math import sqrt
from typing import Any

from ...engine import Tensor, float32, no_grad, ops
from ...engine.autocast import in_regions_type
from ...engine.ops import empty
from ...engine.ops.recurrent import gru_cell, gru_steps, lstm_cell, lstm_steps, rnn_steps, steps_of
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..module import Module
from ..parameter import Initialization, new_parameter
from ..utils.rnn import PackedSequence
from .dropout import dropout

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]


class _Gates(Module):
    """Base of one step with the parameters weight_ih, weight_hh, bias_ih, bias_hh, each with a suffix."""

    gates = 1
    hidden_size: int
    proj_size = 0

    def _make(self, suffix: str, columns: int, outputs: int, bias: bool, **made: Any) -> None:
        rows = self.gates * self.hidden_size
        setattr(self, f"weight_ih{suffix}", new_parameter(empty, rows, columns, **made))
        setattr(self, f"weight_hh{suffix}", new_parameter(empty, rows, outputs, **made))
        for name in ("bias_ih", "bias_hh"):
            setattr(self, f"{name}{suffix}", new_parameter(empty, rows, **made) if bias else None)

    def reset_parameters(self) -> None:
        """Uniform in ±1 / sqrt(hidden_size), as in torch."""
        bound = 1 / sqrt(self.hidden_size)
        with no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound)

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size,)

    def _input_part(self, x: Tensor, suffix: str) -> Tensor:
        return ops.linear(x, getattr(self, f"weight_ih{suffix}"), getattr(self, f"bias_ih{suffix}"))

    def _hidden_part(self, h: Tensor, suffix: str) -> Tensor:
        return ops.linear(h, getattr(self, f"weight_hh{suffix}"), getattr(self, f"bias_hh{suffix}"))

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        """The next state, its output first. The argument is the input's contribution to the gates, (B, gates *
        hidden).
        """
        raise NotImplementedError

    def _all_steps(self, x: Tensor, state: list[Tensor], suffix: str, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        """The outputs (T, B, out) and the last state, of the input's contributions to the gates (T, B, gates *
        hidden), by ops for all steps.
        """
        raise NotImplementedError

    def _both_biases(self, x: Tensor, suffix: str) -> Tensor:
        bias = getattr(self, f"bias_hh{suffix}")
        return x if bias is None else x + bias


class _Plain(_Gates):
    """h = tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh."""

    nonlinearity: str

    def _check_nonlinearity(self, nonlinearity: str) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"{type(self).__name__}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        total = x + self._hidden_part(state[0], suffix)
        return [total.tanh() if self.nonlinearity == "tanh" else total.relu()]

    def _all_steps(self, x: Tensor, state: list[Tensor], suffix: str, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        x = self._both_biases(x, suffix)
        y = rnn_steps(x, state[0], getattr(self, f"weight_hh{suffix}"), self.nonlinearity, reverse)
        return y, [y[0 if reverse else -1]]


class _Gated(_Gates):
    """Gates in the order reset, update, new (Cho et al. 2014)."""

    gates = 3

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        return [gru_cell(x, self._hidden_part(state[0], suffix), state[0])]

    def _all_steps(self, x: Tensor, state: list[Tensor], suffix: str, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        y = gru_steps(x, state[0], getattr(self, f"weight_hh{suffix}"), getattr(self, f"bias_hh{suffix}"), reverse)
        return y, [y[0 if reverse else -1]]


class _LongShort(_Gates):
    """Gates in the order input, forget, cell, output (Hochreiter and Schmidhuber 1997); the state is (h, c)."""

    gates = 4

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)

    def _step(self, x: Tensor, state: list[Tensor], suffix: str) -> list[Tensor]:
        h, c = lstm_cell(x + self._hidden_part(state[0], suffix), state[1])
        if self.proj_size:
            h = ops.linear(h, getattr(self, f"weight_hr{suffix}"))
        return [h, c]

    def _all_steps(self, x: Tensor, state: list[Tensor], suffix: str, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        x = self._both_biases(x, suffix)
        y = lstm_steps(x, *state, getattr(self, f"weight_hh{suffix}"), reverse)  # (2, T, B, H)
        last = y[:, 0 if reverse else -1]
        return y[0], [last[0], last[1]]


# -- over sequences


class RNNBase(_Gates):
    """Layers over a sequence (T, B, input_size), or (B, T, input_size) with `batch_first`, or (T, input_size) without
    a batch, or a PackedSequence. Returns (output, last state): output (T, B, D * hidden) of the last layer, D = 2 if
    bidirectional, else 1; state (num_layers * D, B, hidden), layer by layer, forward before backward. `dropout` acts
    between the layers.
    """

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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if min(input_size, hidden_size, num_layers) < 1 or not 0 <= proj_size < hidden_size:
            raise ArgumentError(
                f"{type(self).__name__}: sizes and num_layers must be at least 1 and proj_size below hidden_size, "
                f"got {input_size}, {hidden_size}, {num_layers}, {proj_size}"
            )
        if not 0 <= dropout <= 1:
            raise ArgumentError(f"{type(self).__name__}: dropout must be in [0, 1], got {dropout}")
        if dropout and num_layers == 1:
            warnings.warn(
                f"{type(self).__name__}: dropout acts between the layers, so dropout={dropout} has no effect with one "
                "layer",
                stacklevel=3 if type(self) is not RNNBase else 2,
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self.output_size = proj_size or hidden_size
        made = {"device": device, "dtype": dtype}
        for layer in range(num_layers):
            columns = input_size if layer == 0 else self.output_size * self.directions
            for suffix in self._suffixes(layer):
                self._make(suffix, columns, self.output_size, bias, **made)
                if proj_size:
                    setattr(self, f"weight_hr{suffix}", new_parameter(empty, proj_size, hidden_size, **made))
        if Initialization.on:
            self.reset_parameters()

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each layer and direction."""
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return [[self._parameters[k + s] for k in kinds if k + s in self._parameters] for s in suffixes]

    def flatten_parameters(self) -> None:
        """No effect. In torch it makes the parameters contiguous for a GPU."""

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self.directions]

    def _same_rows(self, x: Tensor, state: list[Tensor], suffix: str, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        """The outputs (T, B, out) and the last state, of the input's contributions to the gates (T, B, gates *
        hidden).
        """
        if not self.proj_size and all(t.dtype is float32 for t in (x, *state)):
            return self._all_steps(x, state, suffix, reverse)
        outputs: list[Any] = [None] * x.shape[0]
        parts = x.unbind()
        for t in steps_of(x.shape[0], reverse):
            state = self._step(parts[t], state, suffix)
            outputs[t] = state[0]
        return ops.stack(outputs), state

    def _packed(
        self, x: Tensor, sizes: list[int], first: list[Tensor], suffix: str, reverse: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs (all elements, out) and the last state of each sequence, of packed contributions with the rows of
        each step, which decrease with time. Steps with the same rows are computed together.
        """
        runs = [(rows, len(list(steps))) for rows, steps in groupby(sizes)]
        parts = x.split([rows * steps for rows, steps in runs])
        outputs: list[Any] = [None] * len(runs)
        over: list[list[Tensor]] = []  # final states of the sequences that have ended, the shortest first
        state = [s[: sizes[-1]] for s in first] if reverse else first
        for i in steps_of(len(runs), reverse):
            rows, steps = runs[i]
            before = state[0].shape[0]
            if rows < before:
                over.append([s[rows:] for s in state])
                state = [s[:rows] for s in state]
            elif rows > before:
                state = [ops.cat([s, f[before:rows]]) for s, f in zip(state, first, strict=True)]
            found, state = self._same_rows(parts[i].reshape(steps, rows, -1), state, suffix, reverse)
            outputs[i] = found.flatten(0, 1)
        if over:
            state = [ops.cat([s, *(part[i] for part in reversed(over))]) for i, s in enumerate(state)]
        return ops.cat(outputs), state

    def _layers(self, x: Tensor, sizes: list[int] | None, states: list[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """x (T, B, in), or packed data (all elements, in) with the rows of each step."""
        last: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            if layer:
                x = dropout(x, self.dropout, self.training)
            ways = []
            for suffix in self._suffixes(layer):
                gates, first = self._input_part(x, suffix), [s[len(last)] for s in states]
                reverse = suffix.endswith("_reverse")
                if sizes:
                    found, state = self._packed(gates, sizes, first, suffix, reverse)
                else:
                    found, state = self._same_rows(gates, first, suffix, reverse)
                ways.append(found)
                last.append(state)
            x = ways[0] if len(ways) == 1 else ops.cat(ways, -1)
        return x, tuple(ops.stack([state[i] for state in last]) for i in range(len(states)))

    _small_on_cpu = False  # whether autocast on the CPU gives its type, where torch has a kernel for the whole layer

    def _run(self, x: Any, given: tuple[Tensor, ...] | None) -> tuple[Any, tuple[Tensor, ...]]:
        """The outputs and the last states, in the type of autocast where torch's are."""
        if isinstance(x, PackedSequence):
            packed, last = self._run_packed(x, given)
            data, *states = in_regions_type((packed.data, *last), False)
            return packed._replace(data=data), tuple(states)
        whole, last = self._run_whole(x, given)
        y, *states = in_regions_type((whole, *last), self._small_on_cpu and not self.proj_size)
        return y, tuple(states)

    def _run_whole(self, x: Tensor, given: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        batched = x.ndim == 3
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            told = "input.size(-1) must be equal to input_size" if x.ndim in (2, 3) else "Expected 2D or 3D input"
            raise ArgumentError(
                f"{type(self).__name__}: {told}: takes 2 or 3 dims, the last {self.input_size}, got {describe(x)}"
            )
        if not batched:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        if not x.shape[0]:
            raise ArgumentError(f"{type(self).__name__}: the sequence must not be empty, got {describe(x)}")
        states = self._first_states(x.shape[1], x, given, batched)
        x, found = self._layers(x, None, states)
        if not batched:
            return x.squeeze(1), tuple(s.squeeze(1) for s in found)
        return (x.transpose(0, 1) if self.batch_first else x), found

    def _run_packed(
        self, packed: PackedSequence, given: tuple[Tensor, ...] | None
    ) -> tuple[PackedSequence, tuple[Tensor, ...]]:
        data = packed.data
        if data.ndim != 2 or data.shape[-1] != self.input_size:
            raise ArgumentError(
                f"{type(self).__name__}: takes packed data [..., {self.input_size}], got {describe(data)}"
            )
        sizes = packed.batch_sizes.tolist()
        states = self._first_states(sizes[0], data, given, True)
        if packed.sorted_indices is not None and given is not None:
            states = [s.index_select(1, packed.sorted_indices) for s in states]
        output, found = self._layers(data, sizes, states)
        if packed.unsorted_indices is not None:
            found = tuple(s.index_select(1, packed.unsorted_indices) for s in found)
        return packed._replace(data=output), found

    def _first_states(self, batch: int, x: Tensor, given: tuple[Tensor, ...] | None, batched: bool) -> list[Tensor]:
        """The initial states, (num_layers * D, B, size) each; zeros by default."""
        count = self.num_layers * self.directions
        if given is None:
            return [x.new_zeros((count, batch, size)) for size in self._state_sizes()]
        states = []
        for state, size in zip(given, self._state_sizes(), strict=True):
            wanted = (count, batch, size) if batched else (count, size)
            if state.shape != wanted:
                raise ArgumentError(
                    f"{type(self).__name__}: Expected hidden size {wanted}, got {list(state.shape)}: a first state "
                    f"must be {list(wanted)}, got {describe(state)}"
                )
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


class RNN(_Plain, RNNBase):
    __doc__ = f"{_Plain.__doc__} {RNNBase.__doc__}"

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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._check_nonlinearity(nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity, self.mode = nonlinearity, f"RNN_{nonlinearity.upper()}"

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, (last,) = self._run(input, None if hx is None else (hx,))
        return output, last


class GRU(_Gated, RNNBase):
    __doc__ = f"{_Gated.__doc__} {RNNBase.__doc__}"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, (last,) = self._run(input, None if hx is None else (hx,))
        return output, last


class LSTM(_LongShort, RNNBase):
    __doc__ = f"{_LongShort.__doc__} With `proj_size` h is projected to that size. {RNNBase.__doc__}"
    _small_on_cpu = True

    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
        output, (h, c) = self._run(input, None if hx is None else tuple(hx))
        return output, (h, c)


# -- of one step


class RNNCellBase(_Gates):
    """One step: input (B, input_size) or (input_size,) and the state (default zeros) → the next state."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        if min(input_size, hidden_size) < 1:
            raise ArgumentError(f"{type(self).__name__}: sizes must be at least 1, got {input_size}, {hidden_size}")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._make("", input_size, hidden_size, bias, device=device, dtype=dtype)
        if Initialization.on:
            self.reset_parameters()

    def _next(self, x: Tensor, given: tuple[Tensor, ...] | None) -> list[Tensor]:
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ArgumentError(
                f"{type(self).__name__}: takes 1 or 2 dims, the last {self.input_size}, got {describe(x)}"
            )
        wanted = (*x.shape[:-1], self.hidden_size)
        count = len(self._state_sizes())
        states = [x.new_zeros(wanted) for _ in range(count)] if given is None else list(given)
        for state in states:
            if state.shape != wanted:
                raise ArgumentError(f"{type(self).__name__}: a state must be {list(wanted)}, got {describe(state)}")
        if x.ndim == 2:
            return self._step(self._input_part(x, ""), states, "")
        alone = self._step(self._input_part(x.unsqueeze(0), ""), [s.unsqueeze(0) for s in states], "")
        return [s.squeeze(0) for s in alone]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(_Plain, RNNCellBase):
    __doc__ = f"{_Plain.__doc__} {RNNCellBase.__doc__}"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._check_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, None if hx is None else (hx,))[0]


class GRUCell(_Gated, RNNCellBase):
    __doc__ = f"{_Gated.__doc__} {RNNCellBase.__doc__}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, None if hx is None else (hx,))[0]


class LSTMCell(_LongShort, RNNCellBase):
    __doc__ = f"{_LongShort.__doc__} {RNNCellBase.__doc__}"

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = self._next(input, None if hx is None else tuple(hx))
        return h, c
