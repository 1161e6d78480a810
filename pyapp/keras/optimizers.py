"""Optimisers by Keras' names, with its formulas and defaults. They follow a float or a schedule.

`keras.optimizers.schedules` has the schedules. An update is one kernel for each weight (ElementProgram).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import sqrt
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.element_programs import ElementProgram
from ..engine.launch import capturing, record_call, run_at_replays
from ..engine.ops.element_updates import update_elements
from ..engine.ops.optimizer_steps import AdamWNumbers, AdamWSettings, adamw_step
from . import schedules
from .lookup import Configured, Lookup
from .schedules import LearningRateSchedule

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "schedules",
]


class Optimizer(Configured):
    """Base. `learning_rate` may be changed at any time; `iterations` counts the steps. Gradients are clipped by value,
    by the norm of each, or by the norm of all. `weight_decay` shrinks the weights by learning_rate * weight_decay.
    """

    replays = False  # whether a Graph's kernels do the step; else the host launches them at each replay
    states: tuple[str, ...] = ()  # what is kept for each weight

    def __init__(
        self, learning_rate: Any = 0.001, weight_decay: float | None = None, clipnorm: float | None = None,
        clipvalue: float | None = None, global_clipnorm: float | None = None, use_ema: bool = False,
        name: str | None = None, **others: Any,
    ) -> None:  # fmt: skip
        lr = others.pop("lr", None)
        if lr is not None:
            raise TypeError(f"{type(self).__name__}: the argument is called learning_rate")
        for ignored in ("ema_momentum", "ema_overwrite_frequency", "jit_compile"):
            others.pop(ignored, None)
        if use_ema or any(value is not None for value in others.values()):
            wrong = "use_ema" if use_ema else ", ".join(k for k, v in others.items() if v is not None)
            raise TypeError(f"{type(self).__name__} has no setting {wrong}")
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
        self.variables: list[Tensor] = []
        self._kept: dict[int, dict[str, Tensor]] = {}
        self._undecayed: set[int] = set()

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._rate if self.schedule is None else float(self.schedule(self.iterations))

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if isinstance(value, LearningRateSchedule):
            self.schedule = value
            return
        if self.schedule is not None:
            raise TypeError(f"{type(self).__name__}: the learning rate follows a schedule and cannot be set")
        self._rate = float(value)

    def exclude_from_weight_decay(self, var_list: Iterable[Tensor]) -> None:
        """Weights that do not decay."""
        self._undecayed |= {id(w) for w in var_list}
        self.replays = False  # weights have different numbers

    def build(self, variables: Iterable[Tensor]) -> None:
        """Makes the states of weights that have none."""
        with no_grad():
            for weight in variables:
                if id(weight) not in self._kept:
                    self.variables.append(weight)
                    self._kept[id(weight)] = {name: self.first_state(name, weight) for name in self.states}

    def first_state(self, name: str, weight: Tensor) -> Tensor:
        return ops.zeros_like(weight)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Tensor]]) -> None:
        """One step, from pairs of gradients and weights; weights without a gradient (None) stay."""
        pairs = [(g, w) for g, w in grads_and_vars if g is not None]
        self.apply([g for g, _ in pairs], [w for _, w in pairs])

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        """One step: gradients, and the weights in the same order (by default those of `build`)."""
        weights = list(self.variables if trainable_variables is None else trainable_variables)
        pairs = [(g, w) for g, w in zip(grads, weights, strict=True) if g is not None]
        self.build(w for _, w in pairs)
        with no_grad():
            clipped = self._clipped([g for g, _ in pairs])

            def step() -> None:
                with no_grad():
                    self.begin_step()
                    for grad, (_, weight) in zip(clipped, pairs, strict=True):
                        self.update(weight, grad, self._kept[id(weight)])
                    self.iterations += 1

            if self.replays:
                step()
            else:
                run_at_replays(step, *clipped, *(w for _, w in pairs))

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

    def decay(self, weight: Tensor) -> float:
        """What a weight is multiplied by before the step: 1 - learning_rate * weight_decay."""
        return (
            1.0 - self.learning_rate * self.weight_decay
            if self.weight_decay and id(weight) not in self._undecayed
            else 1.0
        )

    def begin_step(self) -> None:
        """Computes what all weights of the step share."""

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        """One step of one weight, in place."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, the learning rate, and the states of the weights in the order of `build`."""
        return {
            "iterations": self.iterations, "learning_rate": self._rate,
            "states": [self._kept[id(w)] for w in self.variables],
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of state_dict. ValueError where the shapes do not fit."""
        states = state["states"]
        if len(states) != len(self.variables):
            raise ValueError(f"the state has {len(states)} weights, the optimiser {len(self.variables)}")
        for weight, entry in zip(self.variables, states, strict=True):
            if entry.keys() != self._kept[id(weight)].keys() or any(
                v.shape != self._kept[id(weight)][k].shape for k, v in entry.items()
            ):
                raise ValueError(f"the state does not fit {type(self).__name__}")
        with no_grad():
            for weight, entry in zip(self.variables, states, strict=True):
                for name, value in entry.items():
                    self._kept[id(weight)][name].copy_(value)
        self.iterations, self._rate = int(state["iterations"]), float(state["learning_rate"])


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

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        rate, keep = -self.learning_rate, self.decay(weight)
        if self.momentum:
            numbers = (keep, rate, self.momentum)
            update_elements(weight, (grad, kept["momentum"]), _momentum(self.nesterov), numbers)
        else:
            update_elements(weight, (grad,), _descent(), (keep, rate))


@cache
def _descent() -> ElementProgram:
    return ElementProgram(lambda w, g, keep, rate: (w * keep + g * rate, None), 2, 2)


@cache
def _momentum(nesterov: bool) -> ElementProgram:
    def sgd(w: Any, g: Any, m: Any, keep: Any, rate: Any, momentum: Any) -> Any:
        m = m * momentum + g * rate
        return w * keep + (m * momentum + g * rate if nesterov else m), None, m

    return ElementProgram(sgd, 3, 3)


class _ReplayedNumbers:
    """The numbers of Adam's steps in a Graph: before its kernels the host counts the step and writes them."""

    def __init__(self, optimizer: Adam) -> None:
        self.optimizer, self.settings = optimizer, AdamWSettings()

    def advance(self) -> None:
        self.settings.renew(self.optimizer.numbers())
        self.optimizer.iterations += 1


class Adam(Optimizer):
    """Kingma and Ba 2015 (arXiv 1412.6980). epsilon is added to the root of the uncorrected squares, as in Keras."""

    replays = True
    states: tuple[str, ...] = ("momentum", "velocity")

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        amsgrad: bool = False, weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        if amsgrad:
            self.replays, self.states = False, ("momentum", "velocity", "velocity_hat")
        self._settings = AdamWSettings()
        self._replayed: _ReplayedNumbers | None = None

    def numbers(self) -> AdamWNumbers:
        """Those of the next step. The kernel divides the root of the squares by its correction before it adds epsilon;
        Keras does not, so epsilon is divided too."""
        t, b1, b2 = self.iterations + 1, self.beta_1, self.beta_2
        of_squares = 1 - b2**t
        return AdamWNumbers(
            self.learning_rate, b1, b2, self.epsilon / sqrt(of_squares), self.weight_decay or 0.0, 1 - b1**t, of_squares
        )

    def begin_step(self) -> None:
        if capturing():
            self._replayed = _ReplayedNumbers(self)
            self._settings = self._replayed.settings
        elif self._replayed is not None:
            self._settings, self._replayed = AdamWSettings(), None
        self._settings.numbers = self.numbers()

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        if self._replayed is not None and not self._replayed.settings._tensors:
            record_call(self._replayed.advance, (self._settings.on(weight.device),))
        numbers = self._settings.numbers
        assert numbers is not None
        m, v = kept["momentum"], kept["velocity"]
        if not self.amsgrad and not (numbers.decay and id(weight) in self._undecayed):
            adamw_step(weight, m, v, grad, self._settings)
            return
        scale = 1 / sqrt(numbers.square_correction)
        values = (
            self.decay(weight), numbers.beta1, 1 - numbers.beta1, numbers.beta2, 1 - numbers.beta2, scale,
            numbers.epsilon, -numbers.rate / numbers.mean_correction,
        )  # fmt: skip
        states = (grad, m, v, *((kept["velocity_hat"],) if self.amsgrad else ()))
        update_elements(weight, states, _adam(self.amsgrad), values)


@cache
def _adam(amsgrad: bool) -> ElementProgram:
    def adam(w: Any, g: Any, m: Any, v: Any, *rest: Any) -> Any:
        hat, numbers = (rest[:1], rest[1:]) if amsgrad else ((), rest)
        keep, b1, share1, b2, share2, scale, epsilon, rate = numbers
        m, v = m * b1 + g * share1, v * b2 + g * g * share2
        hat = tuple(before.maximum(v) for before in hat)
        return w * keep + m / ((hat[0] if amsgrad else v).sqrt() * scale + epsilon) * rate, None, m, v, *hat

    return ElementProgram(adam, 4 + amsgrad, 8)


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

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        numbers = (self.decay(weight), self.rho, 1 - self.rho, self.epsilon, self.learning_rate, self.momentum)
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

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        numbers = (self.decay(weight), self.epsilon, self.learning_rate)
        update_elements(weight, (grad, kept["accumulator"]), _adagrad(), numbers)


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

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        numbers = (self.decay(weight), self.rho, 1 - self.rho, self.epsilon, self.learning_rate)
        update_elements(weight, (grad, kept["accumulated_grad"], kept["accumulated_delta"]), _adadelta(), numbers)


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

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        rate = self.learning_rate / (1 - self.beta_1 ** (self.iterations + 1))
        numbers = (self.decay(weight), self.beta_1, 1 - self.beta_1, self.beta_2, self.epsilon, -rate)
        update_elements(weight, (grad, kept["m"], kept["u"]), _adamax(), numbers)


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

    def _momenta(self) -> tuple[float, float, float]:
        """The momentum of this step and of the next, and the product of all so far, this step's included."""
        product = 1.0
        for t in range(1, self.iterations + 2):
            product *= self._momentum_of(t)
        return self._momentum_of(self.iterations + 1), self._momentum_of(self.iterations + 2), product

    def _momentum_of(self, t: int) -> float:
        return self.beta_1 * (1.0 - 0.5 * 0.96**t)

    def begin_step(self) -> None:
        self._now = self._momenta()

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        now, following, product = self._now
        rate = self.learning_rate
        numbers = (
            self.decay(weight), self.beta_1, 1 - self.beta_1, self.beta_2, 1 - self.beta_2,
            1 / sqrt(1 - self.beta_2 ** (self.iterations + 1)), self.epsilon,
            -rate * (1 - now) / (1 - product), -rate * following / (1 - product * following),
        )  # fmt: skip
        update_elements(weight, (grad, kept["momentum"], kept["velocity"]), _nadam(), numbers)


@cache
def _nadam() -> ElementProgram:
    def nadam(
        w: Any, g: Any, m: Any, v: Any, keep: Any, b1: Any, share1: Any, b2: Any, share2: Any, scale: Any, epsilon: Any,
        of_grad: Any, of_mean: Any,
    ) -> Any:  # fmt: skip
        m, v = m * b1 + g * share1, v * b2 + g * g * share2
        return w * keep + (g * of_grad + m * of_mean) / (v.sqrt() * scale + epsilon), None, m, v

    return ElementProgram(nadam, 4, 9)


class Lion(Optimizer):
    """Steps by the sign of the momentum (Chen et al. 2023, arXiv 2302.06675)."""

    states = ("momentum",)

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, weight_decay: float | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.beta_1, self.beta_2 = beta_1, beta_2

    def update(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor]) -> None:
        numbers = (self.decay(weight), self.beta_1, 1 - self.beta_1, self.beta_2, 1 - self.beta_2, -self.learning_rate)
        update_elements(weight, (grad, kept["momentum"]), _lion(), numbers)


@cache
def _lion() -> ElementProgram:
    def lion(w: Any, g: Any, m: Any, keep: Any, b1: Any, share1: Any, b2: Any, share2: Any, rate: Any) -> Any:
        return w * keep + (m * b1 + g * share1).sign() * rate, None, m * b2 + g * share2

    return ElementProgram(lion, 3, 6)


_lookup = Lookup("optimizer", globals(), Optimizer, {n.lower(): n for n in ("SGD", "RMSprop", "AdamW")})
get = _lookup.get
