"""The base of Keras' optimisers: clipping, weight decay, moving averages, accumulated gradients, and their state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.element_programs import HeldNumbers, Numbers
from ..engine.launch import recorder, stop_capture
from ..engine.ops.element_updates import update_elements
from ..engine.ops.optimizer_steps import COMBINED
from ..train.floats import floatx
from ..train.names import unique_name
from ..train.stateless import check_count, holding, values_of
from ..train.variable import Variable, as_variable
from . import initializers, schedules
from .lookup import Configured
from .optimizer_numbers import Count, Setting, number_variable
from .schedules import LearningRateSchedule

_NAMES = {"gathered": "gradient_accumulator"}  # of what all optimisers can keep, where Keras calls it otherwise


class Optimizer(Configured):
    """Base. `learning_rate` may be changed at any time; `iterations` counts the steps. Gradients are clipped by value,
    by the norm of each, or by the norm of all. `weight_decay` shrinks the weights by learning_rate * weight_decay.
    With `use_ema` moving averages of the weights replace them at the end of `fit`, and after each
    `ema_overwrite_frequency` steps. `gradient_accumulation_steps`: the mean of so many gradients is one step.
    `loss_scale_factor` keeps small gradients of short floats from becoming 0.

    A subclass of one's own writes `update_step(gradient, variable, learning_rate)`, which changes the variable in
    place, and makes what it keeps in `build(variables)`, after `super().build(variables)`, with
    `add_variable_from_reference`. Its steps run eagerly.
    """

    keras_module = "keras.optimizers"

    states: tuple[str, ...] = ()  # what is kept for each weight
    names_of_states: Mapping[str, str] = {}  # the names that Keras' variables have, where they are others

    @property
    def groups_of_states(self) -> tuple[tuple[str, ...], ...]:
        """The states that Keras makes one after the other, each group for all weights."""
        return (self.states,)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, with those of all optimisers; the learning rate is that of now."""
        every = signature(Optimizer.__init__).parameters
        defaults = {name: one.default for name, one in every.items() if one.default is not one.empty}
        found = {**defaults, **super().get_config(), "name": self.name}
        if self.schedule is None and "learning_rate" in found:
            found["learning_rate"] = self._rate
        return found

    def __init__(
        self, learning_rate: Any = 0.001, weight_decay: float | None = None, clipnorm: float | None = None,
        clipvalue: float | None = None, global_clipnorm: float | None = None, use_ema: bool = False,
        ema_momentum: float = 0.99, ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None, gradient_accumulation_steps: int | None = None,
        name: str | None = None, **others: Any,
    ) -> None:  # fmt: skip
        lr = others.pop("lr", None)
        if lr is not None:
            raise ValueError(f"{type(self).__name__}: the argument is called learning_rate")
        others.pop("jit_compile", None)
        if any(value is not None for value in others.values()):
            wrong = ", ".join(k for k, v in others.items() if v is not None)
            raise ValueError(f"{type(self).__name__} has no setting {wrong}")
        if not 0 <= ema_momentum <= 1:
            raise ValueError(f"{type(self).__name__}: ema_momentum is in [0, 1], not {ema_momentum}")
        for setting, value in (
            ("ema_overwrite_frequency", ema_overwrite_frequency),
            ("gradient_accumulation_steps", gradient_accumulation_steps),
        ):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{type(self).__name__}: {setting} is a positive integer, not {value!r}")
        if loss_scale_factor is not None and not loss_scale_factor > 0:
            raise ValueError(f"{type(self).__name__}: loss_scale_factor is positive, not {loss_scale_factor!r}")
        self.loss_scale_factor = loss_scale_factor
        self.use_ema, self.ema_momentum, self.ema_overwrite_frequency = use_ema, ema_momentum, ema_overwrite_frequency
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self._gathered = 0  # gradients since the last step
        if sum(value is not None for value in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ValueError(f"{type(self).__name__}: only one of clipnorm, clipvalue and global_clipnorm")
        self.name = name or unique_name(type(self).__name__)
        self.weight_decay, self.clipnorm, self.clipvalue, self.global_clipnorm = (
            weight_decay, clipnorm, clipvalue, global_clipnorm,
        )  # fmt: skip
        self.schedule: Callable[[int], float] | None = None
        if isinstance(learning_rate, Mapping):
            learning_rate = schedules.deserialize(learning_rate)
        if isinstance(learning_rate, LearningRateSchedule):
            self.schedule = learning_rate
        elif callable(learning_rate):
            self.schedule = lambda _: float(learning_rate())
        elif not isinstance(learning_rate, (int, float)) and not hasattr(learning_rate, "__float__"):
            raise ValueError(
                f"{type(self).__name__}: learning_rate is a number, a schedule or a function, not {learning_rate!r:.40}"
            )
        self._rate = 0.0 if self.schedule else float(learning_rate)
        self.iterations = 0
        self.built = False
        self._added: list[Variable] = []  # what a subclass of one's own keeps, in the order in which it was made
        self._weights: list[Tensor] = []  # in the order of `build`
        self._kept: dict[int, dict[str, Tensor]] = {}
        self._beside: dict[int, dict[str, Tensor]] = {}  # averages of weights, sums of gradients
        self._undecayed: set[int] = set()
        self._undecayed_names: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has, and a pickle: the states in the order of the weights, which are other objects there."""
        order = [id(weight) for weight in self._weights]
        by_order = {name: [getattr(self, name).get(key) for key in order] for name in ("_kept", "_beside")}
        return {**self.__dict__, **by_order, "_undecayed": [key in self._undecayed for key in order]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        order = [id(weight) for weight in self._weights]
        for name in ("_kept", "_beside"):
            held = zip(order, state[name], strict=True)
            setattr(self, name, {key: value for key, value in held if value is not None})
        self._undecayed = {key for key, left_out in zip(order, state["_undecayed"], strict=True) if left_out}

    @property
    def iterations(self) -> Count:
        """How many steps were made: a number, with the methods `numpy` and `assign` of Keras."""
        return Count(self, self._iterations)

    @iterations.setter
    def iterations(self, value: int) -> None:
        self._iterations = int(value)

    @property
    def variables(self) -> list[Tensor]:
        """The number of gradients so far, the learning rate, unless a schedule gives it, and the states of all weights,
        in Keras' order and by its names. What is assigned to them is set in the optimiser."""

        def number(value: float, dtype: str, name: str, attribute: str) -> Variable:
            return number_variable(value, dtype, f"{self.name}/{name}", lambda new: setattr(self, attribute, new))

        found = [number(self.batches, "int32", "iteration", "batches")]
        if self.schedule is None:
            found.append(number(self._rate, floatx(), "learning_rate", "learning_rate"))
        return [*found, *self.ordered_states()]

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Writes arrays into `variables`. ValueError where their number or a shape differs."""
        given, own = list(weights), self.variables
        if len(given) != len(own):
            raise ValueError(f"{self.name}: set_weights takes {len(own)} arrays, got {len(given)}")
        for place, (variable, value) in enumerate(zip(own, given, strict=True)):
            value = ops.as_tensor(value)
            if tuple(value.shape) != tuple(variable.shape):
                raise ValueError(f"{self.name}: weight {place} is {tuple(variable.shape)}, got {tuple(value.shape)}")
            variable.assign(value)

    def save_own_variables(self, store: Any) -> None:
        """Puts `variables` into a dict, as "0", "1", …"""
        for number, variable in enumerate(self.variables):
            store[str(number)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Reads what `save_own_variables` wrote. ValueError where the number of arrays or a shape differs."""
        self.set_weights([store[str(number)] for number in range(len(store))])

    def ordered_states(self) -> list[Tensor]:
        """The states of all weights in Keras' order."""
        kept = [self._states(weight) for weight in self._weights]
        groups = (("average",), ("gathered",), *self.groups_of_states)
        every = [one[name] for group in groups for one in kept for name in group if name in one]
        return [*every, *self._added]

    @property
    def learning_rate(self) -> Setting:
        """The learning rate of the next step: a number, with the methods `numpy` and `assign` of Keras."""
        if self.schedule is None:
            return Setting(self, self._rate)
        return Setting(self, float(self.schedule(self.batches)))  # as in Keras, not that of the steps

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if isinstance(value, LearningRateSchedule):
            self.schedule = value
            return
        if self.schedule is not None:
            raise TypeError(f"{type(self).__name__}: the learning rate follows a schedule and cannot be set")
        self._rate = float(value)

    @property
    def batches(self) -> int:
        """How many gradients were applied: steps, or with `gradient_accumulation_steps` so many for each step."""
        return self.iterations * (self.gradient_accumulation_steps or 1) + self._gathered

    @batches.setter
    def batches(self, count: int) -> None:
        self.iterations, self._gathered = divmod(count, self.gradient_accumulation_steps or 1)

    def exclude_from_weight_decay(
        self, var_list: Iterable[Tensor] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        """Weights that do not decay: those of a list, and those in whose own names one of `var_names`, regular
        expressions, is found ("bias"). They replace those of an earlier call."""
        self._undecayed = {id(w) for w in var_list or ()}
        self._undecayed_names = list(var_names or ())

    def _is_undecayed(self, weight: Tensor) -> bool:
        name = str(getattr(weight, "name", ""))
        return id(weight) in self._undecayed or any(re.search(pattern, name) for pattern in self._undecayed_names)

    def build(self, variables: Iterable[Tensor]) -> None:
        """Makes the states of weights that have none."""
        with no_grad():
            for weight in variables:
                if id(weight) not in self._kept:
                    stop_capture(f"{type(self).__name__} makes its state: the first step cannot be captured", True)
                    self._weights.append(weight)
                    self._kept[id(weight)] = {name: self.first_state(name, weight) for name in self.states}
                    made = (("average", self.use_ema), ("gathered", self.gradient_accumulation_steps))
                    self._beside[id(weight)] = {name: ops.zeros_like(weight) for name, wanted in made if wanted}
                    for name, state in self._states(weight).items():
                        self._name(state, weight, _NAMES.get(name) or self.names_of_states.get(name, name))
        self.built = True

    def _name(self, state: Tensor, weight: Tensor, name: str) -> None:
        """Gives a state the path that Keras' has."""
        path = str(getattr(weight, "path", "variable")).replace("/", "_")
        as_variable(state)._path = f"{self.name}/{path}_{name}"

    def add_variable_from_reference(
        self, reference_variable: Tensor, name: str | None = None, initializer: Any = "zeros"
    ) -> Variable:
        """A variable of the shape and dtype of a weight, for a subclass of one's own. ValueError for a weight that was
        not given to `super().build`, or that has a variable of this name."""
        beside = self._beside.get(id(reference_variable))
        name = name or f"variable_{len(self._added)}"
        if beside is None:
            raise ValueError(f"{type(self).__name__}: call super().build(variables) before it makes {name!r}")
        if name in self._states(reference_variable):
            raise ValueError(f"{type(self).__name__}: this weight has a variable {name!r} already")
        with no_grad():
            shape = tuple(reference_variable.shape)
            value = initializers.get(initializer)(shape, dtype=reference_variable.dtype.name)
            beside[name] = value.to(device=reference_variable.device)
        self._name(beside[name], reference_variable, name)
        self._added.append(beside[name])  # type: ignore[arg-type]
        return self._added[-1]

    def add_optimizer_variables(
        self, trainable_variables: Iterable[Tensor], name: Any, initializer: Any = "zeros"
    ) -> list[Any]:
        """`add_variable_from_reference` for each weight; with several names, a list of variables for each name."""
        weights = list(trainable_variables)
        if isinstance(name, str):
            return [self.add_variable_from_reference(weight, name, initializer) for weight in weights]
        firsts = initializer if isinstance(initializer, (list, tuple)) else [initializer] * len(name)
        found: list[list[Any]] = [[] for _ in name]
        for weight in weights:
            for made, one, first in zip(found, name, firsts, strict=True):
                made.append(self.add_variable_from_reference(weight, one, first))
        return found

    def _get_variable_index(self, variable: Tensor) -> int:
        """The place of a weight among those of `build`. ValueError for another one."""
        for place, weight in enumerate(self._weights):
            if weight is variable:
                return place
        raise ValueError(
            f"{type(self).__name__}: {getattr(variable, 'path', 'this variable')} is not one of its weights"
        )

    def add_variable(
        self, shape: Any, initializer: Any = "zeros", dtype: Any = None, aggregation: str = "none", layout: Any = None,
        name: str | None = None,
    ) -> Variable:  # fmt: skip
        """A variable of its own shape, for a subclass of one's own. `aggregation` and `layout` are accepted: they are
        for distributed training in Keras."""
        with no_grad():
            value = initializers.get(initializer)(tuple(shape), dtype=dtype or floatx())
        variable = as_variable(value)
        variable._path = f"{self.name}/{name or unique_name('variable')}"
        self._added.append(variable)
        return variable

    @staticmethod
    def assign(variable: Variable, value: Any) -> None:
        """Writes a value into a variable."""
        variable.assign(value)

    @staticmethod
    def assign_add(variable: Variable, value: Any) -> None:
        """Adds a value to a variable."""
        variable.assign_add(value)

    @staticmethod
    def assign_sub(variable: Variable, value: Any) -> None:
        """Subtracts a value from a variable."""
        variable.assign_sub(value)

    def update_step(self, gradient: Tensor, variable: Variable, learning_rate: float) -> None:
        """One step of one weight, in place: a subclass of one's own writes it."""
        raise NotImplementedError(f"{type(self).__name__} has no update_step(gradient, variable, learning_rate)")

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        return ops.zeros_like(weight)

    def scale_loss(self, loss: Any) -> Any:
        """The loss whose gradients `apply` takes: with `loss_scale_factor` times it, and apply divides by it."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Tensor]]) -> None:
        """One step, from pairs of gradients and weights; weights without a gradient (None) stay. ValueError where all
        are None, or no pair is given."""
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError(f"{type(self).__name__}: apply_gradients takes pairs of gradients and weights, got none")
        self.apply([g for g, _ in pairs], [w for _, w in pairs])

    def stateless_apply(
        self, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> tuple[list[Tensor], list[Tensor]]:
        """One step from these values of the weights and of the optimiser's variables: (weights, variables) after it.
        The optimiser, and the weights that it was built with, keep their own.
        """
        if not self._weights:
            raise ValueError(f"stateless_apply: {self.name} has no variables yet: call build(trainable_variables)")
        own, weights = self.variables, self._weights
        check_count(f"{self.name}.stateless_apply, optimizer_variables", optimizer_variables, own)
        check_count(f"{self.name}.stateless_apply, trainable_variables", trainable_variables, weights)
        given = [ops.as_tensor(value).detach().clone() for value in optimizer_variables]
        before = values_of(own)
        try:
            with no_grad(), holding(weights, trainable_variables):
                self._assign(given)
                self.apply(grads)
                return values_of(weights), values_of(self.variables)
        finally:
            self._assign(before)

    def _assign(self, values: list[Tensor]) -> None:
        """Writes values into the optimiser's variables."""
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        """One step: gradients, and the weights in the same order (by default those of `build`). Weights whose gradient
        is None stay as they are; ValueError where all are None."""
        if type(self).launch is Optimizer.launch:
            stop_capture(f"{type(self).__name__} makes steps in Python")
        weights = list(self._weights if trainable_variables is None else trainable_variables)
        pairs = paired(self, grads, weights)
        require_gradients(self, pairs, weights)
        if any(id(w) not in self._kept for w in weights):
            self.build(weights)  # those without a gradient too, as in Keras: files have their states
        with no_grad():
            if self.loss_scale_factor is not None:
                pairs = [(g / self.loss_scale_factor, w) for g, w in pairs]
            rate = self.learning_rate
            given = self._mean_gradients(pairs) if self.gradient_accumulation_steps else [g for g, _ in pairs]
            if given is None:
                if self.use_ema:  # Keras counts every gradient
                    self._average([w for _, w in pairs], self._averaging())
                return
            clipped = self._clipped(given)
            recording = recorder()
            by_decay: dict[bool, Any] = {}
            for grad, (_, weight) in zip(clipped, pairs, strict=True):
                decays = self._decays(weight)
                numbers = by_decay.get(decays)
                if numbers is None:
                    numbers = self.numbers(rate, decays)
                    by_decay[decays] = numbers = HeldNumbers(numbers) if recording is not None else numbers
                self.launch(weight, grad, self._kept[id(weight)], numbers)
                constraint = getattr(weight, "_constraint", None)
                if constraint is not None:
                    weight.copy_(constraint(weight.detach()))
            averaging: Any = self._averaging()
            averaging = HeldNumbers(averaging) if recording is not None else averaging
            if self.use_ema:
                self._average([w for _, w in pairs], averaging)
            self.iterations += 1
        if recording is not None:
            recording.actions.append(lambda: self._renew(by_decay, averaging))

    def _mean_gradients(self, pairs: list[tuple[Any, Tensor]]) -> list[Tensor] | None:
        """The mean of the gradients since the last step, if this is the time of a step; else they are kept."""
        stop_capture(f"{type(self).__name__} gathers gradients: only some steps change the weights")
        count = self.gradient_accumulation_steps or 1
        sums = [self._beside[id(weight)]["gathered"] for _, weight in pairs]
        self._gathered += 1
        for total, (grad, _) in zip(sums, pairs, strict=True):
            total.add_(grad)
        if self._gathered < count:
            return None
        self._gathered = 0
        means = [total / count for total in sums]
        for total in sums:
            total.zero_()
        return means

    def _averaging(self) -> tuple[float, float]:
        """The shares of the average so far and of the weights; the first step begins the averages."""
        momentum = self.ema_momentum if self.iterations else 0.0
        return momentum, 1 - momentum

    def _average(self, weights: list[Tensor], numbers: Numbers) -> None:
        """Adds the weights to their moving averages."""
        frequency = self.ema_overwrite_frequency
        if frequency:
            stop_capture(f"{type(self).__name__} writes averages into the weights: only some steps do")
        for weight in weights:
            update_elements(self._beside[id(weight)]["average"], (weight.detach(),), COMBINED, numbers)
        if frequency and (self.iterations + 1) % frequency == 0:
            self._write_averages(weights)

    def averages(self) -> list[tuple[Tensor, Tensor]]:
        """(weight, its moving average) of all weights, with `use_ema`."""
        if not self.use_ema:
            return []
        return [(weight, self._beside[id(weight)]["average"]) for weight in self._weights]

    def _write_averages(self, weights: Iterable[Tensor]) -> None:
        for weight in weights:
            if id(weight) in self._beside:
                weight.copy_(self._beside[id(weight)]["average"])

    def finalize_variable_values(self, var_list: Iterable[Tensor]) -> None:
        """At the end of a training: with `use_ema` the weights become their averages."""
        if self.use_ema:
            with no_grad():
                self._write_averages(var_list)

    def uncount(self) -> None:
        """Takes the last step back that was counted, but has changed nothing."""
        self.iterations -= 1

    def _renew(self, by_decay: dict[bool, HeldNumbers], averaging: HeldNumbers) -> None:
        """Writes the numbers of the next step for a replay of a Graph, and counts the step."""
        rate = self.learning_rate
        for decays, held in by_decay.items():
            held.renew(self.numbers(rate, decays))
        averaging.renew(self._averaging())
        self.iterations += 1

    def _clipped(self, grads: list[Tensor]) -> list[Tensor]:
        if self.clipvalue is not None:
            return [g.clamp(-self.clipvalue, self.clipvalue) for g in grads]
        if self.clipnorm is not None:
            limit = self.clipnorm
            return [g * (limit / (g * g).sum().sqrt().clamp(min=limit)) for g in grads]
        if self.global_clipnorm is not None:
            limit = self.global_clipnorm
            norm = sum(((g * g).sum() for g in grads[1:]), (grads[0] * grads[0]).sum()).sqrt()
            return [g * (limit / norm.clamp(min=limit)) for g in grads]
        return grads

    def _decays(self, weight: Tensor) -> bool:
        return bool(self.weight_decay) and not self._is_undecayed(weight)

    def keep(self, rate: float, decays: bool) -> float:
        """What a weight is multiplied by before the step: 1 - learning_rate * weight_decay."""
        return 1.0 - rate * (self.weight_decay or 0.0) if decays else 1.0

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        """The numbers of the next step, for weights that decay or do not."""
        return self.keep(rate, decays), rate

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        """One step of one weight, in place."""
        assert isinstance(numbers, tuple)
        keep, rate = numbers
        if keep != 1:
            weight.mul_(keep)
        self.update_step(grad, weight, rate)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, the learning rate, and the states of the weights in the order of `build`."""
        return {
            "iterations": int(self.iterations), "learning_rate": self._rate,
            "states": [self._states(w) for w in self._weights], "scaling": {"gathered": self._gathered},
        }  # fmt: skip

    def _states(self, weight: Tensor) -> dict[str, Tensor]:
        return {**self._kept[id(weight)], **self._beside[id(weight)]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of state_dict. ValueError where the shapes do not fit."""
        states = state["states"]
        if len(states) != len(self._weights):
            raise ValueError(f"the state has {len(states)} weights, the optimiser {len(self._weights)}")
        for weight, entry in zip(self._weights, states, strict=True):
            own = self._states(weight)
            if entry.keys() != own.keys() or any(v.shape != own[k].shape for k, v in entry.items()):
                raise ValueError(f"the state does not fit {type(self).__name__}")
        with no_grad():
            for weight, entry in zip(self._weights, states, strict=True):
                for name, value in entry.items():
                    self._states(weight)[name].copy_(value)
        self.iterations, self._rate = int(state["iterations"]), float(state["learning_rate"])
        self._gathered = int(state.get("scaling", {}).get("gathered", 0))


def paired(optimizer: Optimizer, grads: Iterable[Any], weights: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Gradients and their weights, without those that have none. ValueError where their numbers differ."""
    given = list(grads)
    if len(given) != len(weights):
        hint = "" if weights else "; without trainable_variables it takes those of build(), which comes first"
        raise ValueError(
            f"{type(optimizer).__name__}: apply takes a gradient or None for each of {len(weights)} weights, got "
            f"{len(given)}{hint}"
        )
    return [(ops.as_tensor(g), w) for g, w in zip(given, weights, strict=True) if g is not None]


def require_gradients(optimizer: Optimizer, pairs: list[Any], weights: list[Tensor]) -> None:
    """ValueError where no weight has a gradient."""
    if weights and not pairs:
        raise ValueError(
            f"{type(optimizer).__name__}: none of {len(weights)} weights has a gradient: does the loss depend on them?"
        )
