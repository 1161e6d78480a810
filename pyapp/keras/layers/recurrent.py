"""Recurrent layers over sequences (B, steps, features): loops of the cells of `recurrent_cells`."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

from ...engine import Tensor, ops
from ...nn import functional as F
from ...train.names import snake_case
from ..call_state import STATE
from ..core import Layer
from ..devices import moved_to
from ..lookup import as_json
from ..structures import flatten
from .recurrent_cells import Cell, GRUCell, LSTMCell, SimpleRNNCell, StackedRNNCells, stepper

__all__ = ["GRU", "LSTM", "RNN", "SimpleRNN"]


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
        self._steps = stepper("RNN", cell)
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
        cell, steps = self._steps, sequences.shape[1]
        if not sequences.dtype.is_floating_point:
            sequences = sequences.to(self.compute_dtype)
        if training and cell.dropout:
            sequences = F.dropout(sequences, cell.dropout, generator=cell.generator)
        drops_states = bool(training and cell.recurrent_dropout)
        fused = not drops_states and steps and isinstance(cell, Cell) and cell.has_all_steps()
        packing = _Packing(mask, self.go_backwards) if fused and mask is not None else None
        parts = cell.input_part(
            sequences if packing is None else packing.packed(sequences)
        )  # (B, steps, gates * units)
        states = self._first_states(initial_state, parts)
        if packing is not None:
            return self._packed_result(packing, cell.all_steps(parts.transpose(0, 1), states, False), states)
        if fused:
            return self._fused_result(cell.all_steps(parts.transpose(0, 1), states, self.go_backwards))
        return self._step_by_step(parts, states, mask, training)

    def _first_states(self, given: Any, parts: Tensor) -> list[Tensor]:
        """The states before the first step: those that are given, those that a stateful layer has kept, or zeros."""
        batch = parts.shape[0]
        if given is not None:
            return self._fitting(flatten(given), self._steps.zero_states(batch, parts))
        if not self.stateful or self.kept is None or STATE.symbolic[0] is not None:
            found: list[Tensor] = self._steps.zero_states(batch, parts)
            return found
        if self.kept[0].shape[0] != batch:
            raise ValueError(
                f"layer {self.name} ({type(self).__name__}) is stateful: it keeps the states of "
                f"{self.kept[0].shape[0]} sequences, got {batch}. Give it batches of one size, or call "
                "reset_state() before"
            )
        kept: list[Tensor] = moved_to(parts.device, self.kept)
        return kept

    def _step_by_step(self, parts: Tensor, states: list[Tensor], mask: Tensor | None, training: bool) -> Any:
        """What a call gives, of the inputs' shares (B, steps, …): the cell computes one step after the other."""
        cell = self._steps
        kept_units = None
        if training and cell.recurrent_dropout:  # the same units at each step
            ones = ops.ones(states[0].shape, dtype=states[0].dtype, device=parts.device)
            kept_units = F.dropout(ones, cell.recurrent_dropout, generator=cell.generator)
        outputs: list[Tensor] = []
        steps = range(parts.shape[1])
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

    def _fused_result(self, whole: list[Tensor]) -> Any:
        """What a call gives, of the states (steps, B, units) after each step, the outputs first."""
        last = [one[0 if self.go_backwards else -1] for one in whole]
        if not self.return_sequences:
            return self._result(last[0], last)
        outputs = whole[0].flip(0) if self.go_backwards else whole[0]
        return self._result(outputs.transpose(0, 1), last)

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
