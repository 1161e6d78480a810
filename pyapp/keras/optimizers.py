"""Optimisers by Keras' names, with its formulas and defaults. They follow a float or a schedule.

`keras.optimizers.schedules` has the schedules. An update is one kernel for each weight (ElementProgram).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from inspect import signature
from math import sqrt
from typing import Any

from ..engine import Tensor, float32, no_grad, ops
from ..engine.element_programs import ElementProgram, HeldNumbers, Numbers
from ..engine.launch import recorder, run_at_replays, stop_capture
from ..engine.lazy import np
from ..engine.ops.element_updates import update_elements
from ..engine.ops.optimizer_steps import COMBINED, adamw_step
from ..engine.storage import Storage
from ..engine.tensor import make
from . import schedules
from .lookup import Configured, Lookup, as_json
from .lookup import serialize as serialize
from .schedules import LearningRateSchedule

__all__ = [
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lamb",
    "Lion",
    "LossScaleOptimizer",
    "MultiOptimizer",
    "Muon",
    "Nadam",
    "Optimizer",
    "OptimizerMap",
    "RMSprop",
    "ScheduleFreeAdamW",
    "schedules",
]


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


class SGD(Optimizer):
    """Gradient descent with momentum and Nesterov's variant."""

    def __init__(
        self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False,
        weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        if not 0 <= momentum <= 1:
            raise ValueError(f"SGD: momentum is in [0, 1], not {momentum}")
        self.momentum, self.nesterov = momentum, nesterov
        self.states = ("momentum",) if momentum else ()

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        momentum = (self.momentum,) if self.momentum else ()
        return (self.keep(rate, decays), -rate, *momentum)

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        program = _momentum(self.nesterov) if self.momentum else _descent()
        update_elements(weight, (grad, *kept.values()), program, numbers)


@cache
def _descent() -> ElementProgram:
    return ElementProgram(lambda w, g, keep, rate: (w * keep + g * rate, None), 2, 2)


@cache
def _momentum(nesterov: bool) -> ElementProgram:
    def sgd(w: Any, g: Any, m: Any, keep: Any, rate: Any, momentum: Any) -> Any:
        m = m * momentum + g * rate
        return w * keep + (m * momentum + g * rate if nesterov else m), None, m

    return ElementProgram(sgd, 3, 3)


class Adam(Optimizer):
    """Kingma and Ba 2015 (arXiv 1412.6980). epsilon is added to the root of the uncorrected squares, as in Keras."""

    states: tuple[str, ...] = ("momentum", "velocity")

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        amsgrad: bool = False, weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        if amsgrad:
            self.states = ("momentum", "velocity", "velocity_hat")

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        t, b1, b2 = self.iterations + 1, self.beta_1, self.beta_2
        of_mean, of_squares = 1 - b1**t, 1 - b2**t
        # The kernels divide the root of the squares by its correction before they add epsilon; Keras does not, so
        # epsilon is divided too.
        scale = 1 / sqrt(of_squares)
        epsilon = self.epsilon * scale
        if self.amsgrad:
            return (self.keep(rate, decays), b1, 1 - b1, b2, 1 - b2, scale, epsilon, -rate / of_mean)
        return rate, b1, b2, epsilon, (self.weight_decay or 0.0) if decays else 0.0, of_mean, of_squares

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        if self.amsgrad:
            update_elements(weight, (grad, *kept.values()), _adam(), numbers)
        else:
            adamw_step(weight, kept["momentum"], kept["velocity"], grad, numbers)


@cache
def _adam() -> ElementProgram:
    def adam(
        w: Any, g: Any, m: Any, v: Any, hat: Any, keep: Any, b1: Any, share1: Any, b2: Any, share2: Any, scale: Any,
        epsilon: Any, rate: Any,
    ) -> Any:  # fmt: skip
        m, v = m * b1 + g * share1, v * b2 + g * g * share2
        hat = hat.maximum(v)
        return w * keep + m / (hat.sqrt() * scale + epsilon) * rate, None, m, v, hat

    return ElementProgram(adam, 5, 8)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101)."""

    def __init__(
        self, learning_rate: Any = 0.001, weight_decay: float = 0.004, beta_1: float = 0.9, beta_2: float = 0.999,
        epsilon: float = 1e-7, amsgrad: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, **settings)


class RMSprop(Optimizer):
    """Divides the gradient by the root of the moving mean of its squares (Hinton 2012)."""

    def __init__(
        self, learning_rate: Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
        centered: bool = False, weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        self.states = ("velocity", *(("average_gradient",) if centered else ()), *(("momentum",) if momentum else ()))

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        return self.keep(rate, decays), self.rho, 1 - self.rho, self.epsilon, rate, self.momentum

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _rmsprop(self.centered, bool(self.momentum)), numbers)


@cache
def _rmsprop(centered: bool, moves: bool) -> ElementProgram:
    def rmsprop(w: Any, g: Any, v: Any, *rest: Any) -> Any:
        others, (keep, rho, share, epsilon, rate, momentum) = rest[:-6], rest[-6:]
        v = v * rho + g * g * share
        new: list[Any] = [v]
        spread = v
        if centered:
            mean = others[0] * rho + g * share
            new.append(mean)
            spread = v - mean * mean
        step = g * rate / (spread + epsilon).sqrt()
        if moves:
            step = others[-1] * momentum + step
            new.append(step)
        return w * keep - step, None, *new

    return ElementProgram(rmsprop, 3 + centered + moves, 6)


class Adagrad(Optimizer):
    """Divides the gradient by the root of the sum of its squares (Duchi et al. 2011)."""

    states = ("accumulator",)

    def __init__(
        self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
        weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        return ops.full_like(weight, self.initial_accumulator_value)

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        return self.keep(rate, decays), self.epsilon, rate

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _adagrad(), numbers)


@cache
def _adagrad() -> ElementProgram:
    def adagrad(w: Any, g: Any, total: Any, keep: Any, epsilon: Any, rate: Any) -> Any:
        total = total + g * g
        return w * keep - g * rate / (total + epsilon).sqrt(), None, total

    return ElementProgram(adagrad, 3, 3)


class Adadelta(Optimizer):
    """Steps in the units of the weights (Zeiler 2012, arXiv 1212.5701)."""

    states = ("accumulated_grad", "accumulated_delta")

    def __init__(
        self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, weight_decay: float | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.rho, self.epsilon = rho, epsilon

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        return self.keep(rate, decays), self.rho, 1 - self.rho, self.epsilon, rate

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _adadelta(), numbers)


@cache
def _adadelta() -> ElementProgram:
    def adadelta(
        w: Any, g: Any, squares: Any, deltas: Any, keep: Any, rho: Any, share: Any, epsilon: Any, rate: Any
    ) -> Any:
        squares = squares * rho + g * g * share
        step = (deltas + epsilon).sqrt() * g / (squares + epsilon).sqrt()
        return w * keep - step * rate, None, squares, deltas * rho + step * step * share

    return ElementProgram(adadelta, 4, 5)


class Adamax(Optimizer):
    """Adam with the largest gradient in place of the root mean square (Kingma and Ba 2015)."""

    states = ("m", "u")

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        rate /= 1 - self.beta_1 ** (self.iterations + 1)
        return self.keep(self.learning_rate, decays), self.beta_1, 1 - self.beta_1, self.beta_2, self.epsilon, -rate

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _adamax(), numbers)


@cache
def _adamax() -> ElementProgram:
    def adamax(w: Any, g: Any, m: Any, u: Any, keep: Any, b1: Any, share: Any, b2: Any, epsilon: Any, rate: Any) -> Any:
        m, u = m * b1 + g * share, (u * b2).maximum(g.abs())
        return w * keep + m / (u + epsilon) * rate, None, m, u

    return ElementProgram(adamax, 4, 6)


class Nadam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    states = ("momentum", "velocity")

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self._product = 0, 1.0  # of the momenta up to a step

    def _momenta(self) -> tuple[float, float, float]:
        """The momentum of this step and of the next, and the product of all so far, this step's included."""
        step = self.iterations + 1
        known, product = self._product if self._product[0] <= step else (0, 1.0)
        for t in range(known + 1, step + 1):
            product *= self._momentum_of(t)
        self._product = step, product
        return self._momentum_of(step), self._momentum_of(step + 1), product

    def _momentum_of(self, t: int) -> float:
        return self.beta_1 * (1.0 - 0.5 * 0.96**t)

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        now, following, product = self._momenta()
        return (
            self.keep(rate, decays), self.beta_1, 1 - self.beta_1, self.beta_2, 1 - self.beta_2,
            1 / sqrt(1 - self.beta_2 ** (self.iterations + 1)), self.epsilon,
            -rate * (1 - now) / (1 - product), -rate * following / (1 - product * following),
        )  # fmt: skip

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _nadam(), numbers)


@cache
def _nadam() -> ElementProgram:
    def nadam(
        w: Any, g: Any, m: Any, v: Any, keep: Any, b1: Any, share1: Any, b2: Any, share2: Any, scale: Any, epsilon: Any,
        of_grad: Any, of_mean: Any,
    ) -> Any:  # fmt: skip
        m, v = m * b1 + g * share1, v * b2 + g * g * share2
        return w * keep + (g * of_grad + m * of_mean) / (v.sqrt() * scale + epsilon), None, m, v

    return ElementProgram(nadam, 4, 9)


class Ftrl(Optimizer):
    """Follows the regularised leader (McMahan et al. 2013), with l1 and l2 penalties; the learning rate falls with the
    root of the sum of squared gradients (`learning_rate_power` -0.5, the only one there is).
    """

    states = ("accumulator", "linear")

    def __init__(
        self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0, beta: float = 0.0, weight_decay: float | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        if learning_rate_power != -0.5:
            raise ValueError(f"Ftrl: learning_rate_power is -0.5, not {learning_rate_power!r}")
        strengths = (
            l1_regularization_strength, l2_regularization_strength, l2_shrinkage_regularization_strength,
            initial_accumulator_value,
        )  # fmt: skip
        if min(strengths) < 0:
            raise ValueError(f"Ftrl: the strengths and the first accumulator are at least 0, got {min(strengths)}")
        self.learning_rate_power, self.initial_accumulator_value = learning_rate_power, initial_accumulator_value
        self.l1_regularization_strength, self.l2_regularization_strength = strengths[:2]
        self.l2_shrinkage_regularization_strength, self.beta = l2_shrinkage_regularization_strength, beta

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        return ops.full_like(weight, self.initial_accumulator_value if name == "accumulator" else 0.0)

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        l1 = self.l1_regularization_strength
        l2 = self.l2_regularization_strength + self.beta / (2 * rate)
        return self.keep(rate, decays), rate, l1, -l1, 2 * l2, 2 * self.l2_shrinkage_regularization_strength

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _ftrl(), numbers)


@cache
def _ftrl() -> ElementProgram:
    def ftrl(
        w: Any, g: Any, total: Any, linear: Any, keep: Any, rate: Any, most: Any, least: Any, l2: Any, shrinkage: Any
    ) -> Any:
        w = w * keep
        before, total = total.sqrt(), total + g * g
        root = total.sqrt()
        linear = linear + g + w * shrinkage - (root - before) / rate * w
        new = (linear.maximum(least).minimum(most) - linear) / (root / rate + l2)
        return new, None, total, linear

    return ElementProgram(ftrl, 4, 6)


class Adafactor(Optimizer):
    """Adam with the second moments of rows and columns in place of those of elements (Shazeer and Stern 2018, arXiv
    1804.04235). Steps run eagerly: they read means over the weights.
    """

    states = ("rows", "columns", "velocity")

    def __init__(
        self, learning_rate: Any = 0.001, beta_2_decay: float = -0.8, epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3, clip_threshold: float = 1.0, relative_step: bool = True,
        weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.beta_2_decay, self.epsilon_1, self.epsilon_2 = beta_2_decay, epsilon_1, epsilon_2
        self.clip_threshold, self.relative_step = clip_threshold, relative_step

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        shape = weight.shape
        if name != "velocity":
            shape = () if len(shape) < 2 else shape[:-1] if name == "rows" else (*shape[:-2], shape[-1])
        return ops.zeros(shape, dtype=weight.dtype, device=weight.device)

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        step = self.iterations + 1
        fixed = self.schedule is None
        keep = self.keep(rate, decays)
        rate = min(rate, 1 / sqrt(step)) if fixed and self.relative_step else rate
        return keep, min(rate, 1 / sqrt(step)), 1 - step**self.beta_2_decay

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        stop_capture("Adafactor reads means over the weights")
        super().apply(grads, trainable_variables)

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        assert isinstance(numbers, tuple)
        keep, rate, old = numbers
        weight.mul_(keep)
        squares = grad * grad + self.epsilon_1
        velocity = kept["velocity"]
        if weight.ndim < 2:
            velocity.mul_(old).add_(squares * (1 - old))
        else:
            rows = kept["rows"].mul_(old).add_(squares.mean(-1) * (1 - old))
            columns = kept["columns"].mul_(old).add_(squares.mean(-2) * (1 - old))
            velocity.copy_((rows / rows.mean(-1, True)).unsqueeze(-1) * columns.unsqueeze(-2))
        step = grad / velocity.sqrt()
        step = step / max(1.0, _root_mean_square(step) / self.clip_threshold)
        weight.sub_(step * (max(self.epsilon_2, _root_mean_square(weight)) * rate))


def _root_mean_square(x: Tensor) -> float:
    return sqrt((x * x).mean().item())


class Lion(Optimizer):
    """Steps by the sign of the momentum (Chen et al. 2023, arXiv 2302.06675)."""

    states = ("momentum",)

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, weight_decay: float | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.beta_1, self.beta_2 = beta_1, beta_2

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        return self.keep(rate, decays), self.beta_1, 1 - self.beta_1, self.beta_2, 1 - self.beta_2, -rate

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _lion(), numbers)


@cache
def _lion() -> ElementProgram:
    def lion(w: Any, g: Any, m: Any, keep: Any, b1: Any, share1: Any, b2: Any, share2: Any, rate: Any) -> Any:
        return w * keep + (m * b1 + g * share1).sign() * rate, None, m * b2 + g * share2

    return ElementProgram(lion, 3, 6)


class Lamb(Adam):
    """Adam whose step of a weight is as long as the weight, times the learning rate (You et al. 2020, arXiv
    1904.00962). Steps run eagerly: they read norms."""

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, beta_1, beta_2, epsilon, False, weight_decay, **settings)

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        step = self.iterations + 1
        return self.keep(rate, decays), rate, 1 - self.beta_1**step, 1 - self.beta_2**step

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        stop_capture("Lamb reads norms of the weights")
        super().apply(grads, trainable_variables)

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        assert isinstance(numbers, tuple)
        keep, rate, of_mean, of_squares = numbers
        weight.mul_(keep)
        mean = kept["momentum"].mul_(self.beta_1).add_(grad * (1 - self.beta_1))
        squares = kept["velocity"].mul_(self.beta_2).add_(grad * grad * (1 - self.beta_2))
        step = mean / of_mean / ((squares / of_squares).sqrt() + self.epsilon)
        own, other = weight.square().sum().sqrt().item(), step.square().sum().sqrt().item()
        weight.sub_(step * (rate * (own / other if own > 0 and other > 0 else 1.0)))


class ScheduleFreeAdamW(Optimizer):
    """AdamW that needs no schedule: the weights are between a fast sequence and its mean (Defazio et al. 2024, arXiv
    2405.15682). The learning rate rises over `warmup_steps`."""

    states = ("momentum", "velocity")

    def __init__(
        self, learning_rate: Any = 0.0025, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8,
        warmup_steps: int = 0, weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        if not 0 < beta_1 <= 1:
            raise ValueError(f"ScheduleFreeAdamW: beta_1 is in (0, 1], not {beta_1}")
        self.beta_1, self.beta_2, self.epsilon, self.warmup_steps = beta_1, beta_2, epsilon, warmup_steps

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        return weight.detach().clone() if name == "momentum" else ops.zeros_like(weight)

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        step = self.iterations + 1
        keep = self.keep(rate, decays)
        if self.warmup_steps > 0:
            rate *= min(step / self.warmup_steps, 1.0)
        scale = 1 / sqrt(1 - self.beta_2**step)
        return (
            keep, self.beta_2, 1 - self.beta_2, scale, self.epsilon, rate, 1 - self.beta_1, 1 / self.beta_1,
            self.beta_1 * (1 - 1 / step), 1 - self.beta_1 + self.beta_1 / step,
        )  # fmt: skip

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _schedule_free(), numbers)


@cache
def _schedule_free() -> ElementProgram:
    def schedule_free(
        w: Any, g: Any, z: Any, v: Any, keep: Any, b2: Any, share: Any, scale: Any, epsilon: Any, rate: Any,
        fast: Any, back: Any, of_mean: Any, of_new: Any,
    ) -> Any:  # fmt: skip
        v = v * b2 + g * g * share
        z = z - g * rate / (v.sqrt() * scale + epsilon)
        mean = (w * keep - z * fast) * back  # of the fast sequence z so far; Keras takes the new z here, the paper not
        return mean * of_mean + z * of_new, None, z, v

    return ElementProgram(schedule_free, 4, 10)


class Muon(Optimizer):
    """Steps of matrices that are made orthogonal (Jordan et al. 2024), by `ns_steps` of Newton and Schulz's iteration
    with the coefficients muon_a, muon_b and muon_c. What is no matrix, an embedding, or has a path that one of
    `exclude_layers` (regular expressions) is found in, is trained by AdamW. `rms_rate` multiplies steps by it and the
    root of the longer side. Steps run eagerly."""

    states = ("momentum", "velocity")

    def __init__(
        self, learning_rate: Any = 0.001, adam_beta_1: float = 0.9, adam_beta_2: float = 0.999,
        adam_weight_decay: float | None = 0.004, epsilon: float = 1e-7, weight_decay: float | None = 0.004,
        clipnorm: float | None = None, clipvalue: float | None = None, global_clipnorm: float | None = None,
        use_ema: bool = False, ema_momentum: float = 0.99, ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None, gradient_accumulation_steps: int | None = None, name: str | None = None,
        exclude_layers: Any = None, exclude_embeddings: bool = True, muon_a: float = 3.4445, muon_b: float = -4.775,
        muon_c: float = 2.0315, adam_lr_ratio: float = 1.0, momentum: float = 0.95, ns_steps: int = 5,
        nesterov: bool = True, rms_rate: float | None = 0.2, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            learning_rate, weight_decay, clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum,
            ema_overwrite_frequency, loss_scale_factor, gradient_accumulation_steps, name, **settings,
        )  # fmt: skip
        self.adam_beta_1, self.adam_beta_2, self.adam_weight_decay = adam_beta_1, adam_beta_2, adam_weight_decay
        self.epsilon, self.momentum, self.ns_steps, self.nesterov = epsilon, momentum, ns_steps, nesterov
        self.coefficients = (muon_a, muon_b, muon_c)
        self.adam_lr_ratio, self.rms_rate = adam_lr_ratio, rms_rate
        self.exclude_layers, self.exclude_embeddings = list(exclude_layers or ()), exclude_embeddings

    def by_adam(self, weight: Tensor) -> bool:
        """Whether AdamW trains a weight."""
        path = str(getattr(weight, "path", None) or "")
        if weight.ndim != 2 or (self.exclude_embeddings and "embedding" in path.lower()):
            return True
        return any(re.search(pattern, path) for pattern in self.exclude_layers)

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        needed = name == "momentum" or self.by_adam(weight)
        return ops.zeros_like(weight) if needed else ops.zeros((), dtype=weight.dtype, device=weight.device)

    def _decays(self, weight: Tensor) -> bool:
        return not self._is_undecayed(weight)

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        return rate, float(decays)

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        stop_capture("Muon makes steps orthogonal by products of matrices")
        super().apply(grads, trainable_variables)

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        assert isinstance(numbers, tuple)
        rate, decays = numbers
        adam = self.by_adam(weight)
        decay = (self.adam_weight_decay if adam else self.weight_decay) or 0.0
        weight.mul_(1 - rate * decay * decays)
        momentum = kept["momentum"]
        if adam:
            step, b1, b2 = self.iterations + 1, self.adam_beta_1, self.adam_beta_2
            momentum.mul_(b1).add_(grad * (1 - b1))
            squares = kept["velocity"].mul_(b2).add_(grad * grad * (1 - b2))
            alpha = rate * self.adam_lr_ratio * sqrt(1 - b2**step) / (1 - b1**step)
            weight.sub_(momentum * alpha / (squares.sqrt() + self.epsilon))
            return
        momentum.mul_(self.momentum).add_(grad)
        found = self._orthogonal(grad + momentum * self.momentum if self.nesterov else momentum) * rate
        if self.rms_rate is not None:
            found = found * (sqrt(max(weight.shape)) * self.rms_rate)
        weight.sub_(found)

    def _orthogonal(self, x: Tensor) -> Tensor:
        """A matrix with the singular vectors of x, and singular values near 1."""
        a, b, c = self.coefficients
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (x.square().sum().sqrt() + 1e-7)
        for _ in range(self.ns_steps):
            square = x @ x.T
            x = x * a + (square * b + square @ square * c) @ x
        return x.T if tall else x


class LossScaleOptimizer(Optimizer):
    """Another optimiser for gradients of short floats: the loss is multiplied by a scale, which doubles after
    `dynamic_growth_steps` steps; steps whose gradients are not finite are left out, and halve it.

    A step in a Graph writes the weights and states back that it began with, if a gradient is not finite, and says so in
    `_finite`. The host reads that before the next step, or when it is asked for the scale or the number of steps.
    """

    def __init__(
        self, inner_optimizer: Any, initial_scale: float = 2.0**15, dynamic_growth_steps: int = 2000,
        name: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(0.0, name=name, **settings)
        if any(value is not None and value is not False and value != 0.99 for value in settings.values()):
            raise ValueError(f"LossScaleOptimizer: {', '.join(settings)} are settings of the inner optimiser")
        if dynamic_growth_steps < 1 or not initial_scale > 0:
            raise ValueError("LossScaleOptimizer: dynamic_growth_steps is at least 1, initial_scale positive")
        self._inner: Optimizer = get(inner_optimizer)
        self._inner.loss_scale_factor = None
        self.schedule = self._inner.schedule
        self.initial_scale, self.dynamic_growth_steps = float(initial_scale), dynamic_growth_steps
        self._scale, self._counter = self.initial_scale, 0
        self._held = HeldNumbers((self._scale,))  # of steps in Graphs
        self._finite: Tensor | None = None  # float32 (): 1 if the last step in a Graph changed the weights, else 0
        self._waits = False  # whether such a step has not been looked at

    def get_config(self) -> dict[str, Any]:
        return {**Configured.get_config(self), "name": self.name}

    def __getstate__(self) -> dict[str, Any]:
        self._look()
        return {**super().__getstate__(), "_held": None, "_finite": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._held = HeldNumbers((self._scale,))

    def _look(self) -> None:
        """Counts the last step of a Graph, or takes it back, if the host has not done so yet."""
        if self._waits:
            assert self._finite is not None
            self._waits = False
            finite = bool(self._finite.item())
            if not finite:
                self._inner.uncount()
            self._fit_scale(finite)

    def _fit_scale(self, finite: bool) -> None:
        """Changes the scale after a step, or after one that was left out."""
        self._counter = self._counter + 1 if finite else 0
        if not finite:
            self._scale /= 2
        elif self._counter == self.dynamic_growth_steps:
            self._counter, self._scale = 0, self._scale * 2

    @property
    def inner_optimizer(self) -> Optimizer:
        """The optimiser that makes the steps."""
        self._look()
        return self._inner

    @property
    def dynamic_scale(self) -> float:
        """What the loss of the next step is multiplied by."""
        self._look()
        return self._scale

    @dynamic_scale.setter
    def dynamic_scale(self, value: float) -> None:
        self._look()
        self._scale = value

    @property
    def step_counter(self) -> int:
        """How many steps were made since the scale has changed."""
        self._look()
        return self._counter

    @step_counter.setter
    def step_counter(self, value: int) -> None:
        self._look()
        self._counter = value

    @property
    def iterations(self) -> int:
        """How many steps have changed the weights."""
        inner = self.__dict__.get("_inner")  # the constructor of the base has none yet
        if inner is None:
            return 0
        self._look()
        found: int = inner.iterations
        return found

    @iterations.setter
    def iterations(self, value: int) -> None:
        if "_inner" in self.__dict__:
            self._look()
            self._inner.iterations = value

    @property
    def learning_rate(self) -> Setting:
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    @property
    def variables(self) -> list[Tensor]:
        return self.inner_optimizer.variables

    def build(self, variables: Iterable[Tensor]) -> None:
        self.inner_optimizer.build(variables)

    def _prepare(self) -> None:
        """Before a step of a Graph: the scale is that after the last step."""
        self._look()
        self._held.renew((self._scale,))

    def _scale_of(self, x: Tensor) -> Any:
        """The scale for a product with x."""
        if recorder() is None:
            return self.dynamic_scale
        run_at_replays(self._prepare)
        return self._held.each(x.device)[0].to(x.dtype)

    def scale_loss(self, loss: Any) -> Any:
        return loss * self._scale_of(ops.as_tensor(loss))

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        weights = list(self._inner._weights if trainable_variables is None else trainable_variables)
        pairs = [(ops.as_tensor(g), w) for g, w in zip(grads, weights, strict=True) if g is not None]
        weights = [w for _, w in pairs]
        if not pairs:
            return
        with no_grad():
            if self._inner.gradient_accumulation_steps:
                stop_capture("LossScaleOptimizer around an optimiser that gathers gradients: some steps change nothing")
            self._inner.build(weights)
            scale = self._scale_of(pairs[0][0])
            given = [g / scale for g, _ in pairs]
            if recorder() is None:
                finite = all(bool(g.isfinite().all()) for g, _ in pairs)
                if finite:
                    self._inner.apply(given, weights)
                self._fit_scale(finite)
                return
            # A finite number times 0 is 0, anything else is no number; so are sums with it.
            zeros = sum(((g * 0.0).sum() for g, _ in pairs[1:]), (pairs[0][0] * 0.0).sum())
            if self._finite is None or self._finite.device is not zeros.device:
                self._finite = make(Storage.outside_graphs(4, zeros.device), (), (), float32)
            self._finite.copy_(zeros == 0.0)
            written = [*weights, *(state for weight in weights for state in self._inner._states(weight).values())]
            before = [x.clone() for x in written]
            self._inner.apply(given, weights)
            for x, old in zip(written, before, strict=True):
                flag = self._finite if x.dtype is float32 else self._finite.to(x.dtype)
                update_elements(x, (old, flag), _KEPT, ())
        run_at_replays(self._wait)

    def _wait(self) -> None:
        self._waits = True

    def finalize_variable_values(self, var_list: Iterable[Tensor]) -> None:
        self.inner_optimizer.finalize_variable_values(var_list)

    def state_dict(self) -> dict[str, Any]:
        inner = self.inner_optimizer.state_dict()
        scaling = {"dynamic_scale": self.dynamic_scale, "step_counter": self.step_counter}
        return {**inner, "scaling": {**inner["scaling"], **scaling}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.inner_optimizer.load_state_dict(state)
        scaling = state.get("scaling", {})
        self.dynamic_scale = float(scaling.get("dynamic_scale", self.initial_scale))
        self.step_counter = int(scaling.get("step_counter", 0))


_KEPT = ElementProgram(lambda x, old, finite: (x.where(finite != 0, old), None, None), 3, 0)


class OptimizerMap:
    """Optimisers by the paths of weights: a path itself, or a regular expression that it matches as a whole; others
    have `default_optimizer`."""

    def __init__(self, default_optimizer: Any, optimizer_map: Mapping[str, Any] | None = None) -> None:
        self.default_optimizer: Optimizer = get(default_optimizer)
        self._by_path: dict[str, Optimizer] = {}
        for key, value in (optimizer_map or {}).items():
            self[key] = value

    def __setitem__(self, key: str, optimizer: Any) -> None:
        if key in self._by_path:
            raise ValueError(f"OptimizerMap: {key!r} has an optimiser already")
        if isinstance(optimizer, (LossScaleOptimizer, MultiOptimizer)):
            raise ValueError(f"OptimizerMap: takes no {type(optimizer).__name__}")
        self._by_path[key] = get(optimizer)

    def __getitem__(self, path: str) -> Optimizer:
        if path in self._by_path:
            return self._by_path[path]
        found = [optimizer for pattern, optimizer in self._by_path.items() if re.fullmatch(pattern, path)]
        if len(found) > 1:
            raise ValueError(f"OptimizerMap: several patterns match {path!r}")
        return found[0] if found else self.default_optimizer

    def __len__(self) -> int:
        return len(self._by_path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_path)

    def values(self) -> list[Optimizer]:
        """The optimisers, without the default one."""
        return list(self._by_path.values())

    def __call__(self, variable: Tensor) -> Optimizer:
        return self[str(getattr(variable, "path", ""))]

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"default_optimizer": as_json(self.default_optimizer), "optimizer_map": as_json(self._by_path)}


class MultiOptimizer(Optimizer):
    """Several optimisers, each for some of the weights, which an OptimizerMap (or a function of a weight) chooses."""

    def __init__(self, optimizer_map: Any, loss_scale_factor: float | None = None, name: str | None = None) -> None:
        super().__init__(0.0, loss_scale_factor=loss_scale_factor, name=name)
        if isinstance(optimizer_map, Mapping):
            optimizer_map = OptimizerMap(**optimizer_map.get("config", optimizer_map))
        if not callable(optimizer_map):
            raise TypeError(f"MultiOptimizer: takes an OptimizerMap or a function, not {optimizer_map!r:.60}")
        self.optimizer_map = optimizer_map
        self.optimizers: list[Optimizer] = []

    def get_config(self) -> dict[str, Any]:
        return {**Configured.get_config(self), "name": self.name}

    @property
    def learning_rate(self) -> Setting:
        raise AttributeError("each of the optimisers of a MultiOptimizer has a learning rate of its own")

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        raise AttributeError("each of the optimisers of a MultiOptimizer has a learning rate of its own")

    def _groups(self, weights: Iterable[Tensor]) -> list[tuple[Optimizer, list[Tensor]]]:
        groups: dict[int, tuple[Optimizer, list[Tensor]]] = {}
        for weight in weights:
            chosen = self.optimizer_map(weight)
            groups.setdefault(id(chosen), (chosen, []))[1].append(weight)
        return list(groups.values())

    def build(self, variables: Iterable[Tensor]) -> None:
        for optimizer, weights in self._groups(variables):
            if all(optimizer is not known for known in self.optimizers):
                self.optimizers.append(optimizer)
            optimizer.build(weights)
            self._weights += [w for w in weights if all(w is not known for known in self._weights)]

    @property
    def variables(self) -> list[Tensor]:
        return [state for optimizer in self.optimizers for state in optimizer.variables]

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        weights = list(self._weights if trainable_variables is None else trainable_variables)
        scale = self.loss_scale_factor
        by_weight = {id(w): g for g, w in zip(grads, weights, strict=True) if g is not None}
        self.build(w for w in weights if id(w) in by_weight)
        for optimizer, group in self._groups(w for w in weights if id(w) in by_weight):
            own = [by_weight[id(w)] for w in group]
            optimizer.apply(own if scale is None else [g / scale for g in own], group)
        self.iterations += 1
        recording = recorder()
        if recording is not None:
            recording.actions.append(self._count)

    def _count(self) -> None:
        self.iterations += 1

    def uncount(self) -> None:
        super().uncount()
        for optimizer in self.optimizers:
            optimizer.uncount()

    def finalize_variable_values(self, var_list: Iterable[Tensor]) -> None:
        for optimizer, weights in self._groups(var_list):
            optimizer.finalize_variable_values(weights)

    def _states(self, weight: Tensor) -> dict[str, Tensor]:
        chosen: Optimizer = self.optimizer_map(weight)
        return chosen._states(weight)

    def state_dict(self) -> dict[str, Any]:
        rates = [optimizer.state_dict()["learning_rate"] for optimizer in self.optimizers]
        return {**super().state_dict(), "learning_rate": None, "scaling": {"learning_rates": rates}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({**state, "learning_rate": 0.0})
        rates = state.get("scaling", {}).get("learning_rates", [])
        for optimizer, rate in zip(self.optimizers, rates, strict=False):
            optimizer._rate = float(rate)
        for optimizer in self.optimizers:
            optimizer.iterations = self.iterations


_lookup = Lookup("optimizer", globals(), Optimizer, {name.lower(): name for name in __all__})
get, deserialize = _lookup.get, _lookup.deserialize
