"""Shared by all losses: checks of shapes, weights, the reduction, and the module of a loss."""

from __future__ import annotations

import functools
from typing import Any

from ...engine import Tensor
from ...engine.dtype import promote
from ...engine.shape import broadcast_shapes
from ...engine.user_errors import describe, warn
from ...errors import ArgumentError, ArgumentTypeError
from ..layers.from_function import FunctionLayer, function_layer


def reduce(name: str, values: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of the values as (), or the values. ValueError for another reduction."""
    if reduction == "mean":
        return values.mean()
    if reduction == "sum":
        return values.sum()
    if reduction == "none":
        return values
    raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def same_shape(name: str, input: Tensor, target: Tensor) -> None:
    """ValueError unless both have the same shape."""
    if input.shape != target.shape:
        raise ValueError(
            f"{name}: Target size {list(target.shape)} must be the same as input size {list(input.shape)}: the target "
            f"{describe(target)} does not have the shape of {describe(input)}"
        )


def broadcast(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both tensors in their common dtype and shape, with torch's warning if their shapes differ."""
    if input.dtype is not target.dtype:
        kind = promote(input.dtype, target.dtype)  # a 0-dimensional one counts as well: torch broadcasts first
        input, target = input.to(kind), target.to(kind)
    if input.shape == target.shape:
        return input, target
    warn(
        f"{name}: Using a target size {list(target.shape)} that is different to the input size {list(input.shape)}: "
        f"the target {describe(target)} does not have the shape of {describe(input)}. They are broadcast, "
        "which is rarely intended: give both the same shape"
    )
    shape = broadcast_shapes(input.shape, target.shape, op=name)
    return input.expand(shape), target.expand(shape)


def weighted(name: str, values: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The reduced values; with a weight for each element the mean is weighted."""
    if weight is None:
        return reduce(name, values, reduction)
    if weight.shape != values.shape:
        raise ValueError(f"{name}: the weight {describe(weight)} does not have the shape of {describe(values)}")
    values = values * weight
    return values.sum() / weight.sum() if reduction == "mean" else reduce(name, values, reduction)


def read_old_reduction(name: str, settings: dict[str, Any]) -> None:
    """Turns torch's deprecated `size_average` and `reduce` among keywords into `reduction`."""
    average, reduced = settings.pop("size_average", None), settings.pop("reduce", None)
    if average is not None or reduced is not None:
        settings["reduction"] = "none" if reduced is False else "mean" if average is None or average else "sum"
        warn(f"{name}: size_average and reduce are deprecated; use reduction={settings['reduction']!r}")


def takes_old_reduction(function: Any, name: str) -> Any:
    """The function of a loss, which also takes `size_average` and `reduce`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "size_average" in kwargs or "reduce" in kwargs:
            read_old_reduction(name, kwargs)
        return function(*args, **kwargs)

    return call


class Loss(FunctionLayer):
    """Base of the loss modules. `reduction` is "mean", "sum" or "none"; KLDivLoss also has "batchmean"."""

    reductions: tuple[str, ...] = ("mean", "sum", "none")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        read_old_reduction(type(self).__name__, kwargs)
        super().__init__(*args, **kwargs)
        if self.reduction not in self.reductions:
            raise ArgumentError(f"{type(self).__name__}: unknown reduction {self.reduction!r}")
        for name in ("weight", "pos_weight"):
            value = getattr(self, name, None)
            if value is not None and not isinstance(value, Tensor):
                raise ArgumentTypeError(f"{type(self).__name__}: {name} is a tensor or None, not {value!r:.60}")


def loss_layer(name: str, function: Any, tensors: int = 2, settings: str | None = None, base: type = Loss) -> Any:
    """The module of a loss function, whose first `tensors` parameters are tensors; the others are settings."""
    return function_layer(name, function, settings, tensors, base, shown="")
