"""Steps of optimisers that have a kernel of their own."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..element_programs import ElementProgram, HeldNumbers, Numbers
from ..op import op
from ..tensor import Tensor
from .create import empty_like
from .element_updates import update_elements
from .linalg.products import linear
from .norms import sum_squares
from .stacking import stack


@op()
def adamw_step(parameter: Tensor, mean: Tensor, squares: Tensor, grad: Tensor, numbers: Numbers) -> Tensor:
    """One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101), in place; returns
    the parameter. To be called inside no_grad().

    parameter, mean and squares (the moving means of the gradient and of its square) and grad are of one shape. The
    numbers are rate, beta1, beta2, epsilon, weight decay, 1 - beta1^t and 1 - beta2^t.
    """
    values: Any = numbers.each(parameter.device) if isinstance(numbers, HeldNumbers) else numbers
    rate, beta1, beta2, epsilon, decay, mean_correction, square_correction = values
    if isinstance(numbers, HeldNumbers) or decay:
        parameter.mul_(1 - rate * decay)
    mean.add_((grad - mean).mul_(1 - beta1))
    squares.mul_(beta2).add_((grad * grad).mul_(1 - beta2))
    root = squares.sqrt().div_(square_correction**0.5).add_(epsilon)
    return parameter.sub_((mean / root).mul_(rate / mean_correction))


class Step(NamedTuple):
    """The step of one parameter: by a program as update_elements takes it; without one by adamw_step."""

    program: ElementProgram | None
    grad: Tensor
    states: tuple[Tensor, ...]  # of adamw_step: mean and squares
    numbers: Numbers


@op()
def optimizer_steps(parameters: list[Tensor], steps: list[Step]) -> Tensor:
    """The steps of several parameters, one after the other, in place; returns the first. To be called inside
    no_grad()."""
    for parameter, (program, grad, states, numbers) in zip(parameters, steps, strict=True):
        if program is None:
            adamw_step(parameter, *states, grad, numbers)
        else:
            update_elements(parameter, (grad, *states), program, numbers)
    return parameters[0]


class AdafactorNumbers(NamedTuple):
    """The numbers of a step of Adafactor, for each of its programs. R and C are the sizes of the last dims, `share` is
    the part of the new squares in their moving means."""

    of_rows: Numbers  # 1 - share, share / C
    of_columns: Numbers  # 1 - share, share / R
    of_elements: Numbers  # floor, 1 - share, share: of what is not a matrix
    change: Numbers  # floor (of the means of squares, and by its square of the squares), 1 / R
    step: Numbers  # factor of the parameter, rate (below zero), 1 / elements, smallest size, 1 / largest change


@op()
def adafactor_step(parameter: Tensor, grad: Tensor, means: tuple[Tensor, ...], numbers: AdafactorNumbers) -> Tensor:
    """One step of Adafactor (Shazeer and Stern 2018, arXiv 1804.04235), in place; returns the parameter. To be called
    inside no_grad().

    parameter and grad are (..., R, C). means are the moving means of the gradient's squares by rows, (..., R, 1), and
    by columns, (..., 1, C); or that of each element, as for vectors.
    """
    size = sum_squares(parameter)  # ()
    if len(means) == 2:
        rows, columns = means
        for dim, mean, its in ((-1, rows, numbers.of_rows), (-2, columns, numbers.of_columns)):
            update_elements(mean, (sum_squares(grad, dim, True),), MEAN, its)
        total = rows.sum(-2, True)  # (..., 1, 1)
        if total.numel() > 1:
            total = total.expand(grad._shape).contiguous()
        change = update_elements(rows * columns, (grad, total), MATRIX_CHANGE, numbers.change)
    else:
        change = update_elements(empty_like(parameter), (grad, *means), CHANGE, numbers.of_elements)
    return update_elements(parameter, (change, size, sum_squares(change)), STEP, numbers.step)


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

    momentum: Numbers  # share of the new gradient; the momentum's factor in what is followed (1 without Nesterov)
    floor: Numbers  # the smallest norm that is divided by
    step: Numbers  # factor of the parameter (decoupled weight decay), rate (below zero)


@op()
def muon_step(
    parameter: Tensor, momentum: Tensor, grad: Tensor, numbers: MuonNumbers, coefficients: tuple[float, float, float],
    iterations: int,
) -> Tensor:  # fmt: skip
    """One step of Muon (Jordan 2024, https://kellerjordan.github.io/posts/muon), in place; returns the parameter. To be
    called inside no_grad().

    parameter, momentum (the moving mean of the gradient) and grad are (R, C). A Newton-Schulz iteration moves the
    singular values of the momentum near 1: x <- a x + (b G + c G G) x with G = x x^T.
    """
    a, b, c = coefficients
    step = update_elements(grad._row_major(), (momentum,), MOMENTUM, numbers.momentum)  # (R, C)
    tall = step.shape[0] > step.shape[1]
    x = step.mT.contiguous() if tall else step  # (r, c), r <= c
    x = update_elements(x, (sum_squares(x),), NORMALIZED, numbers.floor)
    for _ in range(iterations):
        gram = linear(x, x)  # (r, r)
        mixed = update_elements(linear(gram, gram), (gram,), COMBINED, (c, b))
        x = update_elements(mixed @ x, (x,), COMBINED, (1.0, a))
    x = x.mT.contiguous() if tall else x
    return update_elements(parameter, (x,), COMBINED, numbers.step)


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


@op()
def sums_of_squares(tensors: list[Tensor]) -> Tensor:
    """The sum of the squares of each tensor, (n,): in float64 if one of them is, else in float32."""
    kind = "float64" if any(x.dtype.name == "float64" for x in tensors) else "float32"
    wide = (x if x.dtype.itemsize >= 4 else x.to("float32") for x in tensors)
    return stack([(x * x).sum().to(kind).to(tensors[0].device) for x in wide])


@op()
def scale_all(tensors: list[Tensor], factor: Tensor) -> Tensor:
    """Multiplies each tensor by a number (), in place; returns the first. To be called inside no_grad()."""
    for x in tensors:
        x.mul_(factor.to(x.device))
    return tensors[0]
