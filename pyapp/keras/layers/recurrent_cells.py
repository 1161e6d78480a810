"""The cells of recurrent layers: one step of each, with Keras' gate orders: LSTM i, f, c, o; GRU z, r, h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...engine.ops.recurrent import gru_steps, lstm_steps, rnn_steps
from .. import activations, initializers
from ..call_arguments import arguments_of
from ..core import Layer
from ..other_layers import as_layer
from ..structures import flatten
from .weight_rules import add_weight, set_rules

__all__ = ["GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells"]


class Cell(Layer):
    """Base of one step: weights kernel (features, gates * units), recurrent_kernel (units, gates * units), bias."""

    gates: int
    converted = {"activation": activations.get, "recurrent_activation": activations.get}
    states = 1  # how many tensors (B, units) are kept from step to step

    def __init__(
        self, units: int, activation: Any, use_bias: bool, kernel_initializer: Any, recurrent_initializer: Any,
        bias_initializer: Any, kernel_regularizer: Any, recurrent_regularizer: Any, bias_regularizer: Any,
        kernel_constraint: Any, recurrent_constraint: Any, bias_constraint: Any, dropout: float,
        recurrent_dropout: float, seed: int | None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        if not isinstance(units, int) or units < 1:
            raise ValueError(f"{type(self).__name__}: units is a positive integer, not {units!r}")
        self.units, self.activation, self.use_bias = units, activation, use_bias
        self.dropout, self.recurrent_dropout = min(1.0, max(0.0, dropout)), min(1.0, max(0.0, recurrent_dropout))
        self.seed, self.generator = seed, None if seed is None else Generator(seed)
        set_rules(self, "kernel", kernel_initializer, kernel_regularizer, kernel_constraint)
        set_rules(self, "recurrent", recurrent_initializer, recurrent_regularizer, recurrent_constraint)
        set_rules(self, "bias", bias_initializer, bias_regularizer, bias_constraint)
        self.bias: Tensor | None = None

    @property
    def state_size(self) -> int | list[int]:
        """The units of the state, or of each of several."""
        return self.units if self.states == 1 else [self.units] * self.states

    @property
    def output_size(self) -> int:
        return self.units

    def get_initial_state(self, batch_size: int | None = None) -> list[Tensor]:
        """Zeros for each state (B, units)."""
        return self.zero_states(batch_size or 1, ops.zeros((), dtype=self.compute_dtype))

    def bias_shape(self) -> tuple[int, ...]:
        return (self.gates * self.units,)

    def build(self, input_shape: Any) -> None:
        self.kernel = add_weight(self, "kernel", (input_shape[-1], self.gates * self.units))
        self.recurrent_kernel = add_weight(self, "recurrent", (self.units, self.gates * self.units), "recurrent_kernel")
        if self.use_bias:
            self.bias = add_weight(self, "bias", self.bias_shape())

    def input_part(self, x: Tensor) -> Tensor:
        """The inputs' share of the gates, (..., gates * units), for all steps at once."""
        return ops.linear(x, self.kernel.T, self.bias)

    def step(self, part: Tensor, states: list[Tensor]) -> list[Tensor]:
        """The next states, the output first, from the inputs' share of this step."""
        raise NotImplementedError

    def all_steps(self, parts: Tensor, states: list[Tensor], reverse: bool) -> list[Tensor]:
        """The states (steps, B, units) after each step, the outputs first, from the inputs' shares (steps, B, gates *
        units), by one op for all steps; with `reverse` from the last to the first. Only where `has_all_steps`."""
        raise NotImplementedError

    def has_all_steps(self) -> bool:
        """Whether all_steps does what step does: a class between may have a step or advance of its own."""
        own = next(kind for kind in type(self).__mro__ if {"step", "advance", "all_steps"} & kind.__dict__.keys())
        return "all_steps" in own.__dict__ and self.has_usual_activations()

    def has_usual_activations(self) -> bool:
        """Whether the functions are those of the ops for all steps: tanh, and sigmoid for gates."""
        gate = getattr(self, "recurrent_activation", activations.sigmoid)
        return self.activation is activations.tanh and gate is activations.sigmoid

    def zero_states(self, batch: int, like: Tensor) -> list[Tensor]:
        return [ops.zeros((batch, self.units), dtype=like.dtype, device=like.device) for _ in range(self.states)]

    def advance(self, part: Tensor, states: list[Tensor], training: bool) -> tuple[Tensor, list[Tensor]]:
        """The output and the next states, from the inputs' share of this step."""
        after = self.step(part, states)
        return after[0], after

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> Any:
        several = isinstance(states, (list, tuple))
        output, after = self.advance(self.input_part(inputs), list(states) if several else [states], training)
        return output, after if several else after[0]


class SimpleRNNCell(Cell):
    """h = activation(x @ kernel + h @ recurrent_kernel + bias)."""

    gates = 1

    def __init__(
        self, units: int, activation: Any = "tanh", use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
        recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.0,
        recurrent_dropout: float = 0.0, seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            units, activation, use_bias, kernel_initializer, recurrent_initializer, bias_initializer,
            kernel_regularizer, recurrent_regularizer, bias_regularizer, kernel_constraint, recurrent_constraint,
            bias_constraint, dropout, recurrent_dropout, seed, **settings,
        )  # fmt: skip

    def step(self, part: Tensor, states: list[Tensor]) -> list[Tensor]:
        return [self.activation(part + states[0] @ self.recurrent_kernel)]

    def has_usual_activations(self) -> bool:
        return self.activation in (activations.tanh, activations.relu)

    def all_steps(self, parts: Tensor, states: list[Tensor], reverse: bool) -> list[Tensor]:
        name = "tanh" if self.activation is activations.tanh else "relu"
        return [rnn_steps(parts, states[0], self.recurrent_kernel.T, name, reverse)]


class GRUCell(Cell):
    """Cho et al. 2014, arXiv 1406.1078; with reset_after the reset gate acts after the product, as in cuDNN."""

    gates = 3

    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
        bias_regularizer: Any = None, kernel_constraint: Any = None, recurrent_constraint: Any = None,
        bias_constraint: Any = None, dropout: float = 0.0, recurrent_dropout: float = 0.0, seed: int | None = None,
        reset_after: bool = True, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            units, activation, use_bias, kernel_initializer, recurrent_initializer, bias_initializer,
            kernel_regularizer, recurrent_regularizer, bias_regularizer, kernel_constraint, recurrent_constraint,
            bias_constraint, dropout, recurrent_dropout, seed, **settings,
        )  # fmt: skip
        self.recurrent_activation, self.reset_after = recurrent_activation, reset_after

    def bias_shape(self) -> tuple[int, ...]:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def input_part(self, x: Tensor) -> Tensor:
        bias = self.bias[0] if self.bias is not None and self.reset_after else self.bias
        return ops.linear(x, self.kernel.T, bias)

    def step(self, part: Tensor, states: list[Tensor]) -> list[Tensor]:
        (h,), n = states, self.units
        if self.reset_after:
            hidden = ops.linear(h, self.recurrent_kernel.T, None if self.bias is None else self.bias[1])
            update, reset = self._gates(part[:, : 2 * n] + hidden[:, : 2 * n])
            new = self.activation(part[:, 2 * n :] + reset * hidden[:, 2 * n :])
        else:
            update, reset = self._gates(part[:, : 2 * n] + h @ self.recurrent_kernel[:, : 2 * n])
            new = self.activation(part[:, 2 * n :] + (reset * h) @ self.recurrent_kernel[:, 2 * n :])
        return [update * h + (1 - update) * new]

    def _gates(self, x: Tensor) -> Sequence[Tensor]:
        """The update and reset gates of (B, 2 * units); each has its own activation, which may be softmax."""
        return self.recurrent_activation(x.unflatten(-1, (2, self.units))).unbind(-2)

    def has_usual_activations(self) -> bool:
        return self.reset_after and super().has_usual_activations()

    def all_steps(self, parts: Tensor, states: list[Tensor], reverse: bool) -> list[Tensor]:
        n = self.units

        def reset_first(x: Tensor) -> Tensor:
            """The gates of the last dim in the order reset, update, new."""
            return ops.cat([x[..., n : 2 * n], x[..., :n], x[..., 2 * n :]], -1)

        bias = None if self.bias is None else reset_first(self.bias[1])
        return [gru_steps(reset_first(parts), states[0], reset_first(self.recurrent_kernel).T, bias, reverse)]


class _WithForget:
    """bias_initializer with ones for the forget gate (Jozefowicz et al. 2015)."""

    def __init__(self, inner: Any, units: int) -> None:
        self.inner, self.units = initializers.get(inner), units

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        assert self.inner is not None
        values, n = self.inner(shape, dtype=dtype), self.units
        values[n : 2 * n].fill_(1.0)
        return values


class LSTMCell(Cell):
    """Hochreiter and Schmidhuber 1997."""

    gates = 4
    states = 2

    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
        recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.0,
        recurrent_dropout: float = 0.0, seed: int | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        first = _WithForget(bias_initializer, units) if unit_forget_bias else bias_initializer
        super().__init__(
            units, activation, use_bias, kernel_initializer, recurrent_initializer, first, kernel_regularizer,
            recurrent_regularizer, bias_regularizer, kernel_constraint, recurrent_constraint, bias_constraint, dropout,
            recurrent_dropout, seed, **settings,
        )  # fmt: skip
        self.recurrent_activation = recurrent_activation

    def step(self, part: Tensor, states: list[Tensor]) -> list[Tensor]:
        h, c = states
        n, gate = self.units, self.recurrent_activation
        total = part + h @ self.recurrent_kernel
        c = gate(total[:, n : 2 * n]) * c + gate(total[:, :n]) * self.activation(total[:, 2 * n : 3 * n])
        return [gate(total[:, 3 * n :]) * self.activation(c), c]

    def all_steps(self, parts: Tensor, states: list[Tensor], reverse: bool) -> list[Tensor]:
        y = lstm_steps(parts, *states, self.recurrent_kernel.T, reverse)  # (2, steps, B, units)
        return [y[0], y[1]]


class OwnCell:
    """How RNN runs a cell that a user wrote: a layer with `state_size`, a number or several, whose call(inputs, states)
    gives the output and the next states. It may have `output_size` and `get_initial_state(batch_size)`."""

    dropout = recurrent_dropout = 0.0  # such a cell has its own
    generator = None

    def __init__(self, cell: Layer) -> None:
        self.cell = cell
        size = cell.state_size
        self.sizes = [size] if isinstance(size, int) else list(size)
        self.states = len(self.sizes)
        self.units = getattr(cell, "output_size", None) or self.sizes[0]

    def input_part(self, x: Tensor) -> Tensor:
        return x

    def advance(self, part: Tensor, states: list[Tensor], training: bool) -> tuple[Tensor, list[Tensor]]:
        more = {"training": training} if "training" in arguments_of(type(self.cell).call) else {}
        output, after = self.cell(part, tuple(states), **more)
        return output, flatten(after)

    def zero_states(self, batch: int, like: Tensor) -> list[Tensor]:
        if hasattr(self.cell, "get_initial_state"):
            return flatten(self.cell.get_initial_state(batch_size=batch))
        shapes = [(batch, *((size,) if isinstance(size, int) else size)) for size in self.sizes]
        return [ops.zeros(shape, dtype=like.dtype, device=like.device) for shape in shapes]


def stepper(owner: str, cell: Any) -> Any:
    """What runs the steps of a cell. TypeError for what is none."""
    if isinstance(cell, (Cell, StackedRNNCells)):
        return cell
    if isinstance(cell, Layer) and hasattr(cell, "state_size"):
        return OwnCell(cell)
    raise TypeError(f"{owner}: takes a cell, such as LSTMCell, or a layer with state_size, not {cell!r:.60}")


class StackedRNNCells(Layer):
    """Cells of which each reads the outputs of the one before."""

    dropout = recurrent_dropout = 0.0  # each cell has its own

    def __init__(self, cells: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self._steppers = [stepper("StackedRNNCells", cell) for cell in cells]
        for cell in self._steppers:
            if cell.dropout or cell.recurrent_dropout:
                raise ValueError(f"StackedRNNCells: {cell.name} has dropout, which layers of one cell have alone")
        self.cells = [as_layer(cell) for cell in cells]

    @property
    def units(self) -> int:
        return int(self._steppers[-1].units)

    output_size = units

    @property
    def state_size(self) -> list[Any]:
        """The state sizes of the cells."""
        return [getattr(cell, "state_size", None) for cell in self.cells]

    def get_initial_state(self, batch_size: int | None = None) -> list[Any]:
        """The first states of each cell."""
        return self.by_cell(self.zero_states(batch_size or 1, ops.zeros((), dtype=self.compute_dtype)))

    def build(self, input_shape: Any) -> None:
        for cell, stepper in zip(self.cells, self._steppers, strict=True):
            if not cell.built:
                cell.build(input_shape)
                cell.built = True
            input_shape = (*input_shape[:-1], stepper.units)

    def zero_states(self, batch: int, like: Tensor) -> list[Tensor]:
        return [state for stepper in self._steppers for state in stepper.zero_states(batch, like)]

    def input_part(self, x: Tensor) -> Tensor:
        found: Tensor = self._steppers[0].input_part(x)
        return found

    def by_cell(self, states: list[Tensor]) -> list[Any]:
        """The states of each cell, a list."""
        found: list[Any] = []
        for cell in self._steppers:
            own, states = states[: cell.states], states[cell.states :]
            found.append(own)
        return found

    def advance(self, part: Tensor, states: list[Tensor], training: bool) -> tuple[Tensor, list[Tensor]]:
        """The output of the last cell, and the next states of all, in the order of the cells."""
        after: list[Tensor] = []
        for number, cell in enumerate(self._steppers):
            own, states = states[: cell.states], states[cell.states :]
            part, new = cell.advance(part if number == 0 else cell.input_part(part), own, training)
            after += new
        return part, after

    def call(self, inputs: Tensor, states: Any, training: bool = False) -> Any:
        output, after = self.advance(self.input_part(inputs), flatten(states), training)
        return output, self.by_cell(after)
