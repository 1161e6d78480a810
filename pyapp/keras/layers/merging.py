"""Layers that join several inputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...engine import Tensor, ops
from ..arguments import dim_of
from ..core import Layer
from ..masking import mask_of

__all__ = [
    "Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract", "add", "average",
    "concatenate", "dot", "maximum", "minimum", "multiply", "subtract",
]  # fmt: skip


class _Merge(Layer):
    """Base: takes a list of tensors that broadcast."""

    probe_scale = 1
    supports_masking = True
    unwritten = ("activity_regularizer",)

    def call(self, inputs: Any) -> Tensor:
        if not isinstance(inputs, (list, tuple)) or not inputs:
            raise ValueError(f"layer {self.name} ({type(self).__name__}) takes a list of inputs")
        aligned = _aligned(inputs)
        masks = [_full_mask(x, to) for x, to in zip(inputs, aligned, strict=True)]
        try:
            if any(mask is not None for mask in masks):
                result = self.merge_masked(aligned, masks)
            else:
                result = functools.reduce(self.merge, aligned)
        except RuntimeError as error:
            raise ValueError(f"{error}") from error
        return self.finish(result, len(inputs))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """A step counts if it counts in one of the inputs; no mask if an input has none, as in Keras."""
        if mask is None or any(one is None for one in mask):
            return None
        return functools.reduce(ops.logical_or, [ops.as_tensor(one) for one in mask])

    def merge(self, x: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def merge_masked(self, inputs: Sequence[Tensor], masks: Sequence[Tensor | None]) -> Tensor:
        """The result of inputs of which some have masks of their shapes."""
        return functools.reduce(self.merge, inputs)

    def finish(self, x: Tensor, count: int) -> Tensor:
        return x


def _full_mask(x: Tensor, aligned: Tensor) -> Tensor | None:
    """The mask that an input carries, in the shape of the aligned input."""
    mask = mask_of(x)
    if mask is None or mask.ndim > x.ndim:
        return None
    return mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)).expand(x.shape).reshape(aligned.shape)


def _aligned(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The inputs with as many dims as the longest: new ones stand after the batch. ValueError where the batches
    differ.
    """
    if len({x.shape[0] for x in inputs if x.ndim}) > 1:
        raise ValueError(f"the batches differ: {', '.join(str(tuple(x.shape)) for x in inputs)}")
    dims = max(x.ndim for x in inputs)
    return [x if x.ndim == dims or not x.ndim else x[(slice(None), *(None,) * (dims - x.ndim))] for x in inputs]


class Add(_Merge):
    """The sum."""

    def merge(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class Subtract(_Merge):
    """The first minus the second."""

    def call(self, inputs: Any) -> Tensor:
        if not isinstance(inputs, (list, tuple)) or len(inputs) != 2:
            raise ValueError(f"layer {self.name} (Subtract) takes a list of two inputs")
        first, second = _aligned(inputs)
        return first - second


class Multiply(_Merge):
    """The product. What a mask excludes counts as 1; where all masks exclude it, the product is 0."""

    def merge(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    def merge_masked(self, inputs: Sequence[Tensor], masks: Sequence[Tensor | None]) -> Tensor:
        one = ops.ones((), dtype=inputs[0].dtype, device=inputs[0].device)
        kept = [x if mask is None else ops.where(mask, x, one) for x, mask in zip(inputs, masks, strict=True)]
        product = functools.reduce(self.merge, kept)
        given = [mask for mask in masks if mask is not None]
        if len(given) < len(masks):
            return product
        counts = functools.reduce(ops.logical_or, given)
        return ops.where(counts, product, ops.zeros((), dtype=product.dtype, device=product.device))


class Average(_Merge):
    """The mean."""

    def merge(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y

    def finish(self, x: Tensor, count: int) -> Tensor:
        return x / count


class _Extreme(_Merge):
    """Base: the largest or the smallest. A mask's excluded places take no part."""

    def merge_masked(self, inputs: Sequence[Tensor], masks: Sequence[Tensor | None]) -> Tensor:
        result, counts = inputs[0], masks[0]
        for x, mask in zip(inputs[1:], masks[1:], strict=True):
            other = x if mask is None else ops.where(mask, x, result)
            if counts is not None:
                result = ops.where(counts, result, other)
            counts = None if mask is None or counts is None else counts | mask
            result = self.merge(result, other)
        return result


class Maximum(_Extreme):
    """The largest."""

    def merge(self, x: Tensor, y: Tensor) -> Tensor:
        return x.maximum(y)


class Minimum(_Extreme):
    """The smallest."""

    def merge(self, x: Tensor, y: Tensor) -> Tensor:
        return x.minimum(y)


class Concatenate(Layer):
    """The inputs one after the other along `axis`."""

    probe_scale = 1
    supports_masking = True

    def __init__(self, axis: int = -1, **settings: Any) -> None:
        super().__init__(**settings)
        self.axis = axis

    def call(self, inputs: Any) -> Tensor:
        if not isinstance(inputs, (list, tuple)) or not inputs:
            raise ValueError(f"layer {self.name} (Concatenate) should be called on a list of at least 1 input")
        return ops.cat(list(inputs), self.axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """A step counts if one of its joined features does; all of an input without a mask do."""
        full = []
        if mask is None or all(one is None for one in mask):
            return None
        for x, one in zip(inputs, mask, strict=True):
            if one is None:
                full.append(ops.ones_like(ops.as_tensor(x), dtype="bool"))
            else:
                one = ops.as_tensor(one)
                full.append(one.unsqueeze(-1).expand(x.shape) if one.ndim < x.ndim else one.to("bool"))
        return ops.cat(full, self.axis).any(-1)


class Dot(Layer):
    """Products summed along `axes` of two inputs, example by example; with `normalize` cosines."""

    supports_masking = True

    def __init__(self, axes: Any, normalize: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.axes = axes if isinstance(axes, int) else tuple(axes)
        self.normalize = normalize

    def call(self, inputs: Any) -> Tensor:
        x, y = inputs
        axes = (self.axes, self.axes) if isinstance(self.axes, int) else self.axes
        first, second = (dim_of(axis, t.ndim) for axis, t in zip(axes, (x, y), strict=True))
        if self.normalize:
            x = x / (x * x).sum(first, keepdim=True).clamp(min=1e-12).sqrt()
            y = y / (y * y).sum(second, keepdim=True).clamp(min=1e-12).sqrt()
        left, right = x.movedim(first, -1), y.movedim(second, 1)  # (B, ..., K), (B, K, ...)
        rows, columns = left.shape[1:-1], right.shape[2:]
        product = left.reshape(left.shape[0], -1, left.shape[-1]) @ right.reshape(right.shape[0], right.shape[1], -1)
        return product.reshape(x.shape[0], *(rows + columns or (1,)))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


def add(inputs: Any, **settings: Any) -> Any:
    return Add(**settings)(inputs)


def subtract(inputs: Any, **settings: Any) -> Any:
    return Subtract(**settings)(inputs)


def multiply(inputs: Any, **settings: Any) -> Any:
    return Multiply(**settings)(inputs)


def average(inputs: Any, **settings: Any) -> Any:
    return Average(**settings)(inputs)


def maximum(inputs: Any, **settings: Any) -> Any:
    return Maximum(**settings)(inputs)


def minimum(inputs: Any, **settings: Any) -> Any:
    return Minimum(**settings)(inputs)


def concatenate(inputs: Any, axis: int = -1, **settings: Any) -> Any:
    return Concatenate(axis, **settings)(inputs)


def dot(inputs: Any, axes: Any = -1, **settings: Any) -> Any:
    return Dot(axes, **settings)(inputs)
