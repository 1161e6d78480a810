"""Keras' optimisers themselves: one kernel for each weight (ElementProgram) where the update is elementwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from math import prod, sqrt
from typing import Any

from ..engine import Tensor, ops
from ..engine.element_programs import ElementProgram, Numbers
from ..engine.launch import stop_capture
from ..engine.ops.element_updates import update_elements
from ..engine.ops.optimizer_steps import adamw_step
from ..optim.adam import adam_program, nadam_program
from ..optim.lion import LION
from ..train.floats import floatx
from ..train.variable import as_variable
from .optimizer_base import Optimizer


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

    @property
    def groups_of_states(self) -> tuple[tuple[str, ...], ...]:
        return ("momentum", "velocity"), ("velocity_hat",)

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
            update_elements(weight, (grad, *kept.values()), adam_program(True, False), numbers)
        else:
            adamw_step(weight, kept["momentum"], kept["velocity"], grad, numbers)


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

    @property
    def groups_of_states(self) -> tuple[tuple[str, ...], ...]:
        return ("velocity",), ("momentum",), ("average_gradient",)

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
        update_elements(weight, (grad, *kept.values()), _ADAGRAD, numbers)


def _adagrad(w: Any, g: Any, total: Any, keep: Any, epsilon: Any, rate: Any) -> Any:
    total = total + g * g
    return w * keep - g * rate / (total + epsilon).sqrt(), None, total


_ADAGRAD = ElementProgram(_adagrad, 3, 3)


class Adadelta(Optimizer):
    """Steps in the units of the weights (Zeiler 2012, arXiv 1212.5701)."""

    states = ("accumulated_grad", "accumulated_delta")
    names_of_states = {"accumulated_delta": "accumulated_delta_var"}

    def __init__(
        self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, weight_decay: float | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        self.rho, self.epsilon = rho, epsilon

    def numbers(self, rate: float, decays: bool) -> tuple[float, ...]:
        return self.keep(rate, decays), self.rho, 1 - self.rho, self.epsilon, rate

    def launch(self, weight: Tensor, grad: Tensor, kept: dict[str, Tensor], numbers: Numbers) -> None:
        update_elements(weight, (grad, *kept.values()), _ADADELTA, numbers)


def _adadelta(
    w: Any, g: Any, squares: Any, deltas: Any, keep: Any, rho: Any, share: Any, epsilon: Any, rate: Any
) -> Any:
    squares = squares * rho + g * g * share
    step = (deltas + epsilon).sqrt() * g / (squares + epsilon).sqrt()
    return w * keep - step * rate, None, squares, deltas * rho + step * step * share


_ADADELTA = ElementProgram(_adadelta, 4, 5)


class Adamax(Optimizer):
    """Adam with the largest gradient in place of the root mean square (Kingma and Ba 2015)."""

    states = ("m", "u")
    names_of_states = {"m": "momentum", "u": "norm"}

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
        update_elements(weight, (grad, *kept.values()), _ADAMAX, numbers)


def _adamax(w: Any, g: Any, m: Any, u: Any, keep: Any, b1: Any, share: Any, b2: Any, epsilon: Any, rate: Any) -> Any:
    m, u = m * b1 + g * share, (u * b2).maximum(g.abs())
    return w * keep + m / (u + epsilon) * rate, None, m, u


_ADAMAX = ElementProgram(_adamax, 4, 6)


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

    @property
    def variables(self) -> list[Tensor]:
        found = super().variables
        if self._weights:
            product = prod(self._momentum_of(t) for t in range(1, self.iterations + 1))
            found.append(as_variable(ops.full((), product, dtype=floatx())))  # follows from the number of steps
        return found

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
        update_elements(weight, (grad, *kept.values()), nadam_program(False), numbers)


class Ftrl(Optimizer):
    """Follows the regularised leader (McMahan et al. 2013), with l1 and l2 penalties. The learning rate of an element
    is `learning_rate` times the sum of its squared gradients to the power of `learning_rate_power`: -0.5 divides by the
    root, 0 keeps the rate. ValueError for a power above 0. Steps with other powers than -0.5 run eagerly.
    """

    states = ("accumulator", "linear")

    def __init__(
        self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0, beta: float = 0.0, weight_decay: float | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, weight_decay, **settings)
        if not learning_rate_power <= 0:
            raise ValueError(f"Ftrl: learning_rate_power is at most 0, not {learning_rate_power!r}")
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
        if self.learning_rate_power == -0.5:
            update_elements(weight, (grad, *kept.values()), _FTRL, numbers)
            return
        total, linear = kept.values()  # both of the shape of the weight
        assert isinstance(numbers, tuple)
        power = -self.learning_rate_power
        new, _, new_total, new_linear = _ftrl(weight, grad, total, linear, *numbers, power=power)
        weight.copy_(new)
        total.copy_(new_total)
        linear.copy_(new_linear)

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Tensor] | None = None) -> None:
        if self.learning_rate_power != -0.5:
            stop_capture("Ftrl has a learning_rate_power for which there is no captured step")
        super().apply(grads, trainable_variables)


def _ftrl(
    w: Any, g: Any, total: Any, linear: Any, keep: Any, rate: Any, most: Any, least: Any, l2: Any, shrinkage: Any,
    *, power: float = 0.5,
) -> Any:  # fmt: skip
    def raised(x: Any) -> Any:
        return x.sqrt() if power == 0.5 else x.pow(power)

    w = w * keep
    before, total = raised(total), total + g * g
    after = raised(total)
    linear = linear + g + w * shrinkage - (after - before) / rate * w
    clipped = linear.maximum(least).minimum(most) if power == 0.5 else linear.clamp(least, most)
    new = (clipped - linear) / (after / rate + l2)
    return new, None, total, linear


_FTRL = ElementProgram(_ftrl, 4, 6)


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
        shape: tuple[int, ...] = weight.shape
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
        update_elements(weight, (grad, *kept.values()), LION, numbers)


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
        update_elements(weight, (grad, *kept.values()), _SCHEDULE_FREE, numbers)


def _schedule_free(
    w: Any, g: Any, z: Any, v: Any, keep: Any, b2: Any, share: Any, scale: Any, epsilon: Any, rate: Any,
    fast: Any, back: Any, of_mean: Any, of_new: Any,
) -> Any:  # fmt: skip
    v = v * b2 + g * g * share
    z = z - g * rate / (v.sqrt() * scale + epsilon)
    mean = (w * keep - z * fast) * back  # of the fast sequence z so far; Keras takes the new z here, the paper not
    return mean * of_mean + z * of_new, None, z, v


_SCHEDULE_FREE = ElementProgram(_schedule_free, 4, 10)


class Muon(Optimizer):
    """Steps of matrices that are made orthogonal (Jordan et al. 2024), by `ns_steps` of Newton and Schulz's iteration
    with the coefficients muon_a, muon_b and muon_c. What is not a matrix, an embedding, or has a path that one of
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

    def ordered_states(self) -> list[Tensor]:
        unused = {id(self._kept[id(w)]["velocity"]) for w in self._weights if not self.by_adam(w)}
        return [state for state in super().ordered_states() if id(state) not in unused]

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
