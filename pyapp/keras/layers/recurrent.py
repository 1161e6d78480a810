"""Recurrent layers over sequences (B, steps, features), with Keras' gate orders: LSTM i, f, c, o; GRU z, r, h."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...engine.ops.recurrent import gru_steps, lstm_steps, rnn_steps
from ...nn import functional as F
from ...train.names import snake_case
from .. import activations, initializers
from ..call_arguments import arguments_of
from ..call_state import STATE
from ..core import Layer
from ..devices import moved_to
from ..lookup import as_json
from ..other_layers import as_layer
from ..structures import flatten
from .weight_rules import add_weight, set_rules

__all__ = [
    "GRU", "LSTM", "RNN", "Bidirectional", "GRUCell", "LSTMCell", "SimpleRNN", "SimpleRNNCell", "StackedRNNCells",
    "TimeDistributed",
]  # fmt: skip


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


class _OwnCell:
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


def _stepper(owner: str, cell: Any) -> Any:
    """What runs the steps of a cell. TypeError for what is none."""
    if isinstance(cell, (Cell, StackedRNNCells)):
        return cell
    if isinstance(cell, Layer) and hasattr(cell, "state_size"):
        return _OwnCell(cell)
    raise TypeError(f"{owner}: takes a cell, such as LSTMCell, or a layer with state_size, not {cell!r:.60}")


class StackedRNNCells(Layer):
    """Cells of which each reads the outputs of the one before."""

    dropout = recurrent_dropout = 0.0  # each cell has its own

    def __init__(self, cells: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self._steppers = [_stepper("StackedRNNCells", cell) for cell in cells]
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


class _Packing:
    """Sequences with their masked steps moved behind the others, so that one op computes all steps of a batch: the
    state after a step of the mask is that after as many steps as the mask has let through. `mask` (B, steps) is in the
    order of the computation; with `reverse`, from the last step to the first."""

    def __init__(self, mask: Tensor, reverse: bool) -> None:
        mask = mask.to("bool")
        self.mask, self.reverse = (mask.flip(1) if reverse else mask), reverse
        self._seen = self.mask.to("int32").cumsum(1)  # (B, steps): the steps that were let through so far

    def packed(self, x: Tensor) -> Tensor:
        """(B, steps, features) in the order in which the steps are computed."""
        batch, steps = self.mask.shape
        order = ops.argsort(~self.mask, stable=True).to("int32")  # (B, steps)
        if self.reverse:
            order = steps - 1 - order
        first = ops.arange(0, batch * steps, steps, dtype="int32", device=x.device).unsqueeze(1)
        return ops.embedding(x.reshape(batch * steps, -1), order + first).to(x.dtype)

    def outputs(self, first: Tensor, after: Tensor) -> Tensor:
        """The states (B, steps, units) after each step of the mask, of those before the first (B, units) and after each
        packed step (steps, B, units)."""
        return self._chosen(first, after, self._seen)

    def last(self, first: Tensor, after: Tensor) -> Tensor:
        """The states (B, units) after the last step."""
        return self._chosen(first, after, self._seen[:, -1:]).squeeze(1)

    @staticmethod
    def _chosen(first: Tensor, after: Tensor, counts: Tensor) -> Tensor:
        every = ops.cat([first.unsqueeze(0), after]).flatten(0, 1)  # (B * (1 + steps), units)
        batch = first.shape[0]
        rows = ops.arange(batch, dtype="int32", device=first.device).unsqueeze(1)
        return ops.embedding(every, counts.to("int32") * batch + rows).to(every.dtype)


class RNN(Layer):
    """A cell over the steps of sequences: (B, steps, features) -> (B, units), or (B, steps, units) with
    return_sequences. `mask` (B, steps) leaves out steps: the states stay as they are.
    """

    supports_masking = True
    resolved = ("zero_output_for_mask",)

    def __init__(
        self, cell: Any, return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False,
        stateful: bool = False, unroll: bool = False, zero_output_for_mask: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell)
        self._steps = _stepper("RNN", cell)
        self.cell = cell
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful = go_backwards, stateful
        self.zero_output_for_mask = zero_output_for_mask
        self.kept: list[Tensor] | None = None  # the states after the last batch
        self._zeros: list[Tensor] | None = None  # of their shapes, after they were forgotten

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor; several cells as the layer that they are."""
        config = super().get_config()
        return {**config, "cell": as_json(self.cell)} if isinstance(config.get("cell"), list) else config

    def build(self, input_shape: Any) -> None:
        self._build_cell((input_shape[0], *input_shape[2:]))

    def _build_cell(self, input_shape: Any) -> None:
        """Makes the weights of the cell, for inputs of one step."""
        if not self.cell.built:
            self.cell.build(input_shape)
            self.cell.built = True

    def _check(self, sequences: Tensor) -> None:
        if sequences.ndim != 3:
            raise ValueError(
                f"layer {self.name} ({type(self).__name__}) takes (batch, steps, features), got {sequences.shape}"
            )

    def _fitting(self, given: list[Any], expected: Sequence[Tensor]) -> list[Tensor]:
        """Initial states, checked: a first state for each batch entry, or one for all."""
        shapes, wanted = [tuple(s.shape) for s in given], [tuple(s.shape) for s in expected]
        fit = len(shapes) == len(wanted) and all(
            len(a) == len(b) and all(m in (n, 1) for m, n in zip(a, b, strict=True))
            for a, b in zip(shapes, wanted, strict=True)
        )
        if not fit:
            raise ValueError(
                f"layer {self.name} ({type(self).__name__}) takes initial states of shapes {wanted}, got {shapes}"
            )
        return [s if a == b else s.expand(b) for s, a, b in zip(given, shapes, wanted, strict=True)]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return flatten(mask)[0] if self.return_sequences and mask is not None else None

    def reset_states(self) -> None:
        """Forgets the states of a stateful layer."""
        if self.kept is not None:
            self._zeros = [ops.zeros_like(state) for state in self.kept]
        self.kept = None

    reset_state = reset_states

    def get_initial_state(self, batch_size: int) -> list[Any]:
        """What the states of a batch begin with: zeros, or what the cell says."""
        cell = self._steps
        if isinstance(cell, (Cell, StackedRNNCells)):
            return cell.get_initial_state(batch_size)
        found: list[Any] = cell.zero_states(batch_size, ops.zeros((), dtype=self.compute_dtype))
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], (list, tuple)):  # [sequences, states…]
            kwargs["initial_state"] = list(args[0][1:])
            args = (args[0][0], *args[1:])
        return super().__call__(*args, **kwargs)

    @property
    def states(self) -> list[Tensor] | None:
        """Of a stateful layer: the states after the last batch, zeros after `reset_state`; None before the first."""
        kept = self._zeros if self.kept is None else self.kept
        return None if kept is None else list(kept)

    def call(
        self, sequences: Tensor, initial_state: Any = None, mask: Tensor | None = None, training: bool = False
    ) -> Any:
        self._check(sequences)
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        mask = None if mask is None else ops.as_tensor(mask)
        cell, batch = self._steps, sequences.shape[0]
        if not sequences.dtype.is_floating_point:
            sequences = sequences.to(self.compute_dtype)
        x = sequences
        if training and cell.dropout:
            x = F.dropout(sequences, cell.dropout, generator=cell.generator)
        dropped = training and cell.recurrent_dropout
        steps = range(sequences.shape[1])
        fused = not dropped and steps and isinstance(cell, Cell) and cell.has_all_steps()
        packing = _Packing(mask, self.go_backwards) if fused and mask is not None else None
        parts = cell.input_part(x if packing is None else packing.packed(x))  # (B, steps, gates * units)
        if initial_state is not None:
            states = self._fitting(flatten(initial_state), cell.zero_states(batch, parts))
        elif self.stateful and self.kept is not None and STATE.symbolic[0] is None:
            if self.kept[0].shape[0] != batch:
                raise ValueError(
                    f"layer {self.name} ({type(self).__name__}) is stateful: it keeps the states of "
                    f"{self.kept[0].shape[0]} sequences, got {batch}. Give it batches of one size, or call "
                    "reset_state() before"
                )
            states = moved_to(sequences.device, self.kept)
        else:
            states = cell.zero_states(batch, parts)
        if packing is not None:
            return self._packed_result(packing, cell.all_steps(parts.transpose(0, 1), states, False), states)
        if fused:
            whole = cell.all_steps(parts.transpose(0, 1), states, self.go_backwards)
            found, states = whole[0], [one[0 if self.go_backwards else -1] for one in whole]
            if self.return_sequences:
                found = (found.flip(0) if self.go_backwards else found).transpose(0, 1)
            return self._result(found if self.return_sequences else states[0], states)
        kept_units = None
        if dropped:
            ones = ops.ones(states[0].shape, dtype=states[0].dtype, device=sequences.device)
            kept_units = F.dropout(ones, cell.recurrent_dropout, generator=cell.generator)
        outputs: list[Tensor] = []
        for t in reversed(steps) if self.go_backwards else steps:
            before = states
            if kept_units is not None:
                before = [states[0] * kept_units, *states[1:]]
            output, after = cell.advance(parts[:, t], before, training)
            if mask is not None:
                seen = mask[:, t].to("bool").reshape(-1, *(1,) * (output.ndim - 1))
                after = [ops.where(seen, new, old) for new, old in zip(after, states, strict=True)]
                kept = ops.zeros_like(output) if self.zero_output_for_mask or not outputs else outputs[-1]
                output = ops.where(seen, output, kept)
            states = after
            outputs.append(output)
        last = outputs[-1] if outputs else states[0]
        return self._result(ops.stack(outputs, 1) if self.return_sequences else last, states)

    def _packed_result(self, packing: _Packing, whole: list[Tensor], first: list[Tensor]) -> Any:
        """What a call gives, of the states after each step of packed sequences, and the first states."""
        zeros = ops.zeros_like(first[0])
        found = packing.outputs(zeros, whole[0]) if self.return_sequences else packing.last(zeros, whole[0])
        if self.zero_output_for_mask:
            seen = packing.mask if self.return_sequences else packing.mask[:, -1]
            found = found * seen.to(found.dtype).unsqueeze(-1)
        wanted = self.stateful or self.return_state
        return self._result(
            found, [packing.last(one, all) for one, all in zip(first, whole, strict=True)] if wanted else first
        )

    def _result(self, result: Tensor, states: list[Tensor]) -> Any:
        """What a call gives, of the outputs or the last one, and the last states, which a stateful layer keeps."""
        if self.stateful and STATE.symbolic[0] is None:  # zeros that show the shapes leave no states
            self.kept = [state.detach() for state in states]
        if not self.return_state:
            return result
        cell = self._steps
        if not isinstance(cell, StackedRNNCells):
            return (result, *states)
        return (result, *(own[0] if len(own) == 1 else own for own in cell.by_cell(states)))


class _Whole(RNN):
    """Base of a cell and its loop in one layer."""

    kind: type[Cell]

    def __init__(
        self, units: int, return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False,
        stateful: bool = False, unroll: bool = False, zero_output_for_mask: bool = False,
        activity_regularizer: Any = None, use_cudnn: Any = "auto", name: str | None = None, trainable: bool = True,
        dtype: Any = None, input_shape: Any = None, **of_cell: Any,
    ) -> None:  # fmt: skip
        cell = self.kind(units, dtype=dtype, name=snake_case(self.kind.__name__), **of_cell)
        super().__init__(
            cell, return_sequences, return_state, go_backwards, stateful, unroll, zero_output_for_mask, name=name,
            trainable=trainable, dtype=dtype, activity_regularizer=activity_regularizer, input_shape=input_shape,
        )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """The arguments of the layer and of its cell."""
        every = {**signature(_Whole).parameters, **signature(self.kind).parameters}
        left_out = {name: one.default for name, one in every.items() if one.default is not one.empty}
        return {**left_out, **super().settings()}


def of_the_cell(kind: type[RNN], cell: type[Cell]) -> None:
    """Gives a layer the settings of its cell as attributes."""

    def setting(name: str) -> property:
        return property(lambda layer: getattr(layer.cell, name))

    for name in {*signature(cell).parameters, *signature(Cell).parameters} - {*signature(Layer).parameters, "settings"}:
        if not hasattr(kind, name):
            setattr(kind, name, setting(name))


class SimpleRNN(_Whole):
    """SimpleRNNCell over sequences."""

    kind = SimpleRNNCell
    unwritten = ("seed",)

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True, **settings: Any) -> None:
        super().__init__(units, activation=activation, use_bias=use_bias, **settings)


class _Gated(_Whole):
    def __init__(
        self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            units, activation=activation, recurrent_activation=recurrent_activation, use_bias=use_bias, **settings
        )


class GRU(_Gated):
    """GRUCell over sequences."""

    kind = GRUCell


class LSTM(_Gated):
    """LSTMCell over sequences."""

    kind = LSTMCell


for _kind in (SimpleRNN, GRU, LSTM):
    of_the_cell(_kind, _kind.kind)


class Bidirectional(Layer):
    """A recurrent layer over sequences and another over reversed ones. `merge_mode`: concat, sum, mul, ave, or None
    for both outputs; with return_state, the states come after them. `weights` are arrays that both begin with, those of
    the layer first."""

    initial_weights: Any = None
    supports_masking = True

    def __init__(
        self, layer: Any, merge_mode: str | None = "concat", weights: Any = None, backward_layer: Any = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        layer = as_layer(layer)
        if not isinstance(layer, RNN):
            raise TypeError(f"Bidirectional: takes a recurrent layer, not {type(layer).__name__}")
        if merge_mode not in ("concat", "sum", "mul", "ave", None):
            raise ValueError(f"Bidirectional: merge_mode is concat, sum, mul, ave or None, not {merge_mode!r}")
        self.merge_mode, self.forward_layer = merge_mode, layer
        own = layer.name.removeprefix("forward_")
        if backward_layer is None:
            config = {**layer.get_config(), "name": f"backward_{own}", "go_backwards": not layer.go_backwards}
            backward_layer = type(layer).from_config(config)
        for setting in ("return_sequences", "return_state", "stateful"):
            if getattr(layer, setting) != getattr(backward_layer, setting):
                raise ValueError(f"Bidirectional: layer and backward_layer need the same {setting}")
        if layer.go_backwards == backward_layer.go_backwards:
            raise ValueError("Bidirectional: one of layer and backward_layer needs go_backwards=True")
        layer.name = f"forward_{own}"
        self.backward_layer = backward_layer
        self.initial_weights = weights
        for one in (layer, backward_layer):  # as in Keras: masked steps of sequences are 0
            one.zero_output_for_mask = one.return_sequences

    def build(self, input_shape: Any) -> None:
        for layer in (self.forward_layer, self.backward_layer):
            layer.build(input_shape)
            layer.built = True
        if self.initial_weights is not None:
            self.set_weights(self.initial_weights)

    def settings(self) -> dict[str, Any]:
        found = {**super().settings(), "backward_layer": as_json(self.backward_layer)}
        return {key: value for key, value in found.items() if key != "weights"}

    def call(
        self, sequences: Tensor, initial_state: Any = None, mask: Tensor | None = None, training: bool = False
    ) -> Any:
        halves = (None, None)
        if initial_state is not None:
            middle = len(initial_state) // 2
            halves = (initial_state[:middle], initial_state[middle:])
        y = self.forward_layer(sequences, initial_state=halves[0], mask=mask, training=training)
        z = self.backward_layer(sequences, initial_state=halves[1], mask=mask, training=training)
        states: tuple[Tensor, ...] = ()
        if self.forward_layer.return_state:
            states, y, z = (*y[1:], *z[1:]), y[0], z[0]
        if self.forward_layer.return_sequences:
            z = z.flip(1)
        result = self._merged(y, z)
        if not states:
            return result
        return (*result, *states) if self.merge_mode is None else (result, *states)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        mask = self.forward_layer.compute_mask(inputs, mask)
        return mask if self.merge_mode else (mask, mask)

    def reset_states(self) -> None:
        """Forgets the states of stateful layers."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()

    reset_state = reset_states

    @property
    def states(self) -> list[Tensor] | None:
        """The states after the last batch, those of the layer first; None before the first call."""
        first, second = self.forward_layer.states, self.backward_layer.states
        return None if first is None or second is None else [*first, *second]

    def _merged(self, y: Tensor, z: Tensor) -> Any:
        if self.merge_mode == "concat":
            return ops.cat([y, z], -1)
        if self.merge_mode == "sum":
            return y + z
        if self.merge_mode == "mul":
            return y * z
        return 0.5 * (y + z) if self.merge_mode == "ave" else (y, z)


class TimeDistributed(Layer):
    """A layer at each step of (B, steps, …); its mask, (B, steps, …), is cut into steps too."""

    supports_masking = True

    def __init__(self, layer: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.layer = as_layer(layer)

    def build(self, input_shape: Any) -> None:
        if len(input_shape) > 2 and not self.layer.built:
            self.layer.build((input_shape[0], *input_shape[2:]))
            self.layer.built = True

    def call(self, inputs: Tensor, training: bool = False, mask: Tensor | None = None) -> Tensor:
        if inputs.ndim < 3:
            raise ValueError(f"takes at least 3 dims, (batch, steps, …), got {tuple(inputs.shape)}")
        if mask is not None and tuple(mask.shape[:2]) != tuple(inputs.shape[:2]):
            raise ValueError(f"the mask {tuple(mask.shape)} does not have the batch and steps of {tuple(inputs.shape)}")
        masked = mask is not None and "mask" in arguments_of(type(self.layer).call)
        if masked or (training and next(self.layer.buffers(), None) is not None):  # statistics of one step at a time
            steps = [
                self.layer(inputs[:, step], **({"mask": mask[:, step]} if masked and mask is not None else {}))
                for step in range(inputs.shape[1])
            ]
            return ops.stack(steps, 1)
        flat = inputs.reshape(inputs.shape[0] * inputs.shape[1], *inputs.shape[2:])
        y = self.layer(flat)
        return y.reshape(inputs.shape[0], inputs.shape[1], *y.shape[1:])
