"""LSTM over sequences of signals, pictures or volumes, whose products are convolutions (Shi et al. 2015, arXiv
1506.04214)."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..arguments import layer_is_channels_first, one_of
from ..nn_functions import conv
from .channels import DataFormatLayer
from .convolution import sizes
from .recurrent import RNN, of_the_cell
from .recurrent_cells import LSTMCell
from .weight_rules import add_weight

__all__ = ["ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"]


class ConvLSTMCell(LSTMCell):
    """One step: kernels (window…, channels, 4 * filters) and (window…, filters, 4 * filters); states
    (B, …, filters)."""

    def __init__(
        self, rank: int, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
        dilation_rate: Any = 1, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(filters, **settings)
        kind = f"ConvLSTM{rank}D"
        self.rank, self.filters = rank, filters
        self.kernel_size = sizes(kernel_size, rank, f"{kind}: kernel_size")
        self.strides = sizes(strides, rank, f"{kind}: strides")
        self.dilation_rate = sizes(dilation_rate, rank, f"{kind}: dilation_rate")
        self.padding = one_of(f"{kind}: padding", padding, ("valid", "same"))
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(f"{kind}: strides and dilation_rate are not both greater than 1")

    def build(self, input_shape: Any) -> None:
        gates = 4 * self.filters
        self.kernel = add_weight(self, "kernel", (*self.kernel_size, input_shape[-1], gates))
        self.recurrent_kernel = add_weight(
            self, "recurrent", (*self.kernel_size, self.filters, gates), "recurrent_kernel"
        )
        if self.use_bias:
            self.bias = add_weight(self, "bias", (gates,))

    def input_part(self, x: Tensor) -> Tensor:
        """(B, steps, …, channels) or (B, …, channels) -> (…, 4 * filters)."""
        flat = x.reshape(-1, *x.shape[-self.rank - 1 :])
        found = conv(flat, self.kernel, self.strides, self.padding, None, self.dilation_rate)
        found = found if self.bias is None else found + self.bias
        return found.reshape(*x.shape[: -self.rank - 1], *found.shape[1:])

    def step(self, part: Tensor, states: list[Tensor]) -> list[Tensor]:
        h, c = states
        gate = self.recurrent_activation
        total = part + conv(h, self.recurrent_kernel, 1, "same")
        into, forget, new, out = total.chunk(4, -1)
        c = gate(forget) * c + gate(into) * self.activation(new)
        return [gate(out) * self.activation(c), c]

    def zero_states(self, batch: int, like: Tensor) -> list[Tensor]:
        shape = (batch, *like.shape[-self.rank - 1 : -1], self.filters)
        return [ops.zeros(shape, dtype=like.dtype, device=like.device) for _ in range(self.states)]


class _ConvLSTM(DataFormatLayer, RNN):
    """Base: (B, steps, …, channels) -> (B, …, filters), or (B, steps, …, filters) with return_sequences."""

    rank: int

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
        dilation_rate: Any = 1, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
        kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
        dropout: float = 0.0, recurrent_dropout: float = 0.0, seed: int | None = None, return_sequences: bool = False,
        return_state: bool = False, go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
        zero_output_for_mask: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        cell = ConvLSTMCell(
            self.rank, filters, kernel_size, strides, padding, dilation_rate, activation=activation,
            recurrent_activation=recurrent_activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias, kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer, bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint, recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint, dropout=dropout, recurrent_dropout=recurrent_dropout, seed=seed,
            dtype=settings.get("dtype"), name="conv_lstm_cell",
        )  # fmt: skip
        super().__init__(
            cell, return_sequences, return_state, go_backwards, stateful, unroll, zero_output_for_mask,
            activity_regularizer=activity_regularizer, **settings,
        )  # fmt: skip
        self.channels_first = layer_is_channels_first(type(self).__name__, data_format)

    def settings(self) -> dict[str, Any]:
        """The arguments, with a number for each dim of space, as Keras writes them."""
        names = ("kernel_size", "strides", "dilation_rate", "padding")
        return {**super().settings(), **{name: getattr(self.cell, name) for name in names}}

    def _check(self, sequences: Tensor) -> None:
        if sequences.ndim != self.rank + 3:
            raise ValueError(
                f"layer {self.name} ({type(self).__name__}) takes {self.rank + 3} dims (batch, steps, {self.rank} of "
                f"space, channels), got {tuple(sequences.shape)}"
            )

    def build(self, input_shape: Any) -> None:
        shape = tuple(input_shape)
        if len(shape) != self.rank + 3:
            raise ValueError(f"takes {self.rank + 3} dims (batch, steps, {self.rank} of space, channels)")
        self._build_cell((shape[0], *shape[3:], shape[2]) if self.channels_first else (shape[0], *shape[2:]))

    def call(
        self, sequences: Tensor, initial_state: Any = None, mask: Tensor | None = None, training: bool = False
    ) -> Any:
        if not self.channels_first:
            return super().call(sequences, initial_state, mask, training)
        if initial_state is not None:
            initial_state = [state.movedim(1, -1) for state in initial_state]
        self._check(sequences)
        found = super().call(sequences.movedim(2, -1), initial_state, mask, training)
        first, *states = found if self.return_state else (found,)
        first = first.movedim(-1, 2 if self.return_sequences else 1)
        return (first, *(state.movedim(-1, 1) for state in states)) if self.return_state else first


of_the_cell(_ConvLSTM, ConvLSTMCell)


class ConvLSTM1D(_ConvLSTM):
    """Over sequences of signals (B, steps, length, channels)."""

    rank = 1


class ConvLSTM2D(_ConvLSTM):
    """Over sequences of pictures (B, steps, H, W, channels)."""

    rank = 2


class ConvLSTM3D(_ConvLSTM):
    """Over sequences of volumes (B, steps, D, H, W, channels)."""

    rank = 3
