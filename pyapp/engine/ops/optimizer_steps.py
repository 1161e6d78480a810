"""Steps of optimisers that have a kernel of their own."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..device import Device
from ..dtype import float32
from ..element_programs import ElementProgram
from ..op import op
from ..storage import Storage
from ..tensor import Tensor, make
from .create import empty_like
from .element_updates import update_elements
from .linalg.products import linear
from .norms import sum_squares


class AdamWNumbers(NamedTuple):
    """The numbers of step t, in the order of the kernel's settings."""

    rate: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    mean_correction: float  # 1 - beta1^t
    square_correction: float  # 1 - beta2^t


class AdamWSettings:
    """The numbers of a step, and the tensor (7,) float32 that kernels read them from, which stays the same."""

    def __init__(self) -> None:
        self.numbers: AdamWNumbers | None = None
        self._tensors: dict[Device, tuple[AdamWNumbers, Tensor]] = {}  # by device, with what they hold

    def on(self, device: Device) -> Tensor:
        """The numbers as a tensor on a device; written only if they have changed. The host writes them: no Graph does
        that again."""
        numbers = self.numbers
        held = self._tensors.get(device)
        if held is not None and held[0] == numbers:
            return held[1]
        assert numbers is not None
        if held is not None:
            written = held[1]
        else:
            written = make(Storage.outside_graphs(4 * len(numbers), device), (len(numbers),), (1,), float32)
        written.assign_constants(numbers)
        self._tensors[device] = numbers, written
        return written

    def renew(self, numbers: AdamWNumbers) -> None:
        """Writes other numbers wherever they are."""
        self.numbers = numbers
        for device in self._tensors:
            self.on(device)


@op()
def adamw_step(parameter: Tensor, mean: Tensor, squares: Tensor, grad: Tensor, settings: AdamWSettings) -> Tensor:
    """One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101), in place; returns
    the parameter. To be called inside no_grad().

    parameter, mean and squares (the moving means of the gradient and of its square) and grad are of one shape.
    """
    numbers = settings.numbers
    assert numbers is not None
    if numbers.decay:
        parameter.mul_(1 - numbers.rate * numbers.decay)
    mean.add_((grad - mean).mul_(1 - numbers.beta1))
    squares.mul_(numbers.beta2).add_((grad * grad).mul_(1 - numbers.beta2))
    root = squares.sqrt().div_(numbers.square_correction**0.5).add_(numbers.epsilon)
    return parameter.sub_((mean / root).mul_(numbers.rate / numbers.mean_correction))


class AdafactorNumbers(NamedTuple):
    """The numbers of a step of Adafactor."""

    share: float  # of the new squares in their moving means
    floor: float  # of the means of squares, and by its square of the squares
    keep: float  # the factor of the parameter: decoupled weight decay
    rate: float  # below zero
    smallest: float  # root mean square of the parameter
    by_limit: float  # 1 / the largest root mean square of a change


@op()
def adafactor_step(parameter: Tensor, grad: Tensor, means: tuple[Tensor, ...], numbers: AdafactorNumbers) -> Tensor:
    """One step of Adafactor (Shazeer and Stern 2018, arXiv 1804.04235), in place; returns the parameter. To be called
    inside no_grad().

    parameter and grad are (..., R, C). means are the moving means of the gradient's squares by rows, (..., R, 1), and
    by columns, (..., 1, C); or that of each element, as for vectors.
    """
    share, floor, keep, rate, smallest, by_limit = numbers
    size = sum_squares(parameter)  # ()
    if len(means) == 2:
        rows, columns = means
        for dim, mean in ((-1, rows), (-2, columns)):
            update_elements(mean, (sum_squares(grad, dim, True),), MEAN, (1 - share, share / grad.shape[dim]))
        total = rows.sum(-2, True)  # (..., 1, 1)
        if total.numel() > 1:
            total = total.expand(grad.shape).contiguous()
        change = update_elements(rows * columns, (grad, total), MATRIX_CHANGE, (floor, 1 / rows.shape[-2]))
    else:
        change = update_elements(empty_like(parameter), (grad, *means), CHANGE, (floor, 1 - share, share))
    more = (keep, rate, 1 / parameter.numel(), smallest, by_limit)
    return update_elements(parameter, (change, size, sum_squares(change)), STEP, more)


def _mean(mean: Any, total: Any, keep: Any, share: Any) -> Any:
    return mean * keep + total * share, None


def _matrix_change(outer: Any, grad: Any, total: Any, floor: Any, share: Any) -> Any:
    """outer: the products of the means of rows and of columns; total: the sum of the former."""
    variance = outer / (total * share).maximum(floor)
    return grad / variance.maximum(floor * floor).sqrt(), None, None


def _change(change: Any, grad: Any, variance: Any, floor: Any, keep: Any, share: Any) -> Any:
    variance = variance * keep + grad * grad * share
    return grad / variance.maximum(floor * floor).sqrt(), None, variance


def _step(
    parameter: Any, change: Any, size: Any, length: Any, keep: Any, rate: Any, share: Any, smallest: Any, by_limit: Any
) -> Any:
    """size and length: the sums of the squares of the parameter and of the change."""
    factor = (size * share).sqrt().maximum(smallest) / ((length * share).sqrt() * by_limit).maximum(1.0)
    return parameter * keep + change * (factor * rate), None, None, None


class MuonNumbers(NamedTuple):
    """The numbers of a step of Muon."""

    share: float  # of the new gradient in the momentum
    ahead: float  # how far from the gradient to the momentum: the momentum's factor (Nesterov), or 1
    epsilon: float  # the smallest norm that is divided by
    coefficients: tuple[float, float, float]  # a, b, c of the iteration
    iterations: int
    keep: float  # the factor of the parameter: decoupled weight decay
    rate: float  # below zero


@op()
def muon_step(parameter: Tensor, momentum: Tensor, grad: Tensor, numbers: MuonNumbers) -> Tensor:
    """One step of Muon (Jordan 2024, https://kellerjordan.github.io/posts/muon), in place; returns the parameter. To be
    called inside no_grad().

    parameter, momentum (the moving mean of the gradient) and grad are (R, C). A Newton-Schulz iteration moves the
    singular values of the momentum near 1: x <- a x + (b G + c G G) x with G = x x^T.
    """
    a, b, c = numbers.coefficients
    step = update_elements(grad.clone(), (momentum,), MOMENTUM, (numbers.share, numbers.ahead))  # (R, C)
    tall = step.shape[0] > step.shape[1]
    x = step.mT.contiguous() if tall else step  # (r, c), r <= c
    x = update_elements(x, (sum_squares(x),), NORMALIZED, (numbers.epsilon,))
    for _ in range(numbers.iterations):
        gram = linear(x, x)  # (r, r)
        mixed = update_elements(linear(gram, gram), (gram,), COMBINED, (c, b))
        x = update_elements(mixed @ x, (x,), COMBINED, (1.0, a))
    x = x.mT.contiguous() if tall else x
    return update_elements(parameter, (x,), COMBINED, (numbers.keep, numbers.rate))


def _momentum(grad: Any, momentum: Any, share: Any, ahead: Any) -> Any:
    new = momentum + (grad - momentum) * share
    return grad + (new - grad) * ahead, new


def _normalized(x: Any, squares: Any, floor: Any) -> Any:
    return x / squares.sqrt().maximum(floor), None


def _combined(x: Any, y: Any, of_x: Any, of_y: Any) -> Any:
    return x * of_x + y * of_y, None


MOMENTUM, NORMALIZED = ElementProgram(_momentum, 2, 2), ElementProgram(_normalized, 2, 1)
COMBINED = ElementProgram(_combined, 2, 2)
MEAN, STEP = ElementProgram(_mean, 2, 2), ElementProgram(_step, 4, 5)
MATRIX_CHANGE, CHANGE = ElementProgram(_matrix_change, 3, 2), ElementProgram(_change, 3, 3)
