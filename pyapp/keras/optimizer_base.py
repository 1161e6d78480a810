"""The base of Keras' optimisers: clipping, weight decay, moving averages, accumulated gradients, and their state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.element_programs import HeldNumbers, Numbers
from ..engine.launch import recorder, stop_capture
from ..engine.lazy import np
from ..engine.ops.element_updates import update_elements
from ..engine.ops.optimizer_steps import COMBINED
from . import schedules
from .lookup import Configured
from .schedules import LearningRateSchedule


class Setting(float):
    """The learning rate of an optimiser as a number that can be written: `optimizer.learning_rate.assign(0.1)`."""

    def __new__(cls, optimizer: Optimizer, value: float) -> Setting:
        found = super().__new__(cls, value)
        found._optimizer = optimizer  # type: ignore[attr-defined]
        return found

    def assign(self, value: Any) -> None:
        """Sets the optimiser's learning rate."""
        self._optimizer.learning_rate = value  # type: ignore[attr-defined]

    def numpy(self) -> Any:
        """The number as a NumPy scalar."""
        return np.float32(self)

    @property
    def value(self) -> float:
        return float(self)


class Optimizer(Configured):
    """Base. `learning_rate` may be changed at any time; `iterations` counts the steps. Gradients are clipped by value,
    by the norm of each, or by the norm of all. `weight_decay` shrinks the weights by learning_rate * weight_decay.
    With `use_ema` moving averages of the weights replace them at the end of `fit`, and after each
    `ema_overwrite_frequency` steps. `gradient_accumulation_steps`: the mean of so many gradients is one step.
    `loss_scale_factor` keeps small gradients of short floats from becoming 0.
    """

    states: tuple[str, ...] = ()  # what is kept for each weight

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
            raise TypeError(f"{type(self).__name__}: the argument is called learning_rate")
        others.pop("jit_compile", None)
        if any(value is not None for value in others.values()):
            wrong = ", ".join(k for k, v in others.items() if v is not None)
            raise TypeError(f"{type(self).__name__} has no setting {wrong}")
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
        self.name = name or type(self).__name__.lower()
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
        self._rate = 0.0 if self.schedule else float(learning_rate)
        self.iterations = 0
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
    def variables(self) -> list[Tensor]:
        """The states of all weights."""
        return [state for weight in self._weights for state in self._states(weight).values()]

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

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        return ops.zeros_like(weight)

    def scale_loss(self, loss: Any) -> Any:
        """The loss whose gradients `apply` takes: with `loss_scale_factor` times it, and apply divides by it."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Tensor]]) -> None:
        """One step, from pairs of gradients and weights; weights without a gradient (None) stay."""
        pairs = [(g, w) for g, w in grads_and_vars if g is not None]
        self.apply([g for g, _ in pairs], [w for _, w in pairs])

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        """One step: gradients, and the weights in the same order (by default those of `build`)."""
        weights = list(self._weights if trainable_variables is None else trainable_variables)
        pairs = [(ops.as_tensor(g), w) for g, w in zip(grads, weights, strict=True) if g is not None]
        self.build(w for _, w in pairs)
        with no_grad():
            if self.loss_scale_factor is not None:
                pairs = [(g / self.loss_scale_factor, w) for g, w in pairs]
            rate = self.learning_rate
            given = self._mean_gradients(pairs) if self.gradient_accumulation_steps else [g for g, _ in pairs]
            if given is None:
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
        raise NotImplementedError

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        """One step of one weight, in place."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, the learning rate, and the states of the weights in the order of `build`."""
        return {
            "iterations": self.iterations, "learning_rate": self._rate,
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
