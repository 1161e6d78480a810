"""Layers that act in training only: dropout, noise, penalties on activations."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...nn import functional as F
from ...nn.layers.dropout import SELU_FLOOR
from .. import regularizers
from ..arguments import layer_is_channels_first, share_of
from ..core import Layer
from .channels import DataFormatLayer, check_dims

__all__ = [
    "ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D",
    "SpatialDropout2D", "SpatialDropout3D",
]  # fmt: skip


class _Random(Layer):
    """Base: draws from a generator of its own if it has a seed, else from the default one."""

    probe_scale = 1

    supports_masking = True

    def __init__(self, seed: int | None, **settings: Any) -> None:
        super().__init__(**settings)
        self.seed = seed
        self.generator = None if seed is None else Generator(seed)

    def _kept(self, inputs: Tensor, rate: float, sizes: Any) -> Tensor:
        """1 for what stays, 0 for a share `rate` of the elements. None stands for the size of the inputs."""
        if len(sizes) != inputs.ndim:
            raise ValueError(f"noise_shape {sizes} has {len(sizes)} sizes, the inputs have {inputs.ndim}")
        shape = [size if wanted is None else wanted for size, wanted in zip(inputs.shape, sizes, strict=True)]
        return (ops.rand(shape, generator=self.generator, device=inputs.device) >= rate).to(inputs.dtype)


def _noise_sizes(kind: str, noise_shape: Any) -> tuple[int | None, ...] | None:
    """The sizes of `noise_shape`: positive integers, or None for that of the inputs."""
    if noise_shape is None:
        return None
    sizes = tuple(noise_shape) if isinstance(noise_shape, (list, tuple)) else (0,)
    if not all(size is None or (type(size) is int and size > 0) for size in sizes):
        raise ValueError(f"{kind}: noise_shape is a tuple of positive integers and None, not {noise_shape!r:.40}")
    return sizes


class Dropout(_Random):
    """Zeroes a share `rate` of the elements and divides the rest by 1 - rate. Sizes of 1 in `noise_shape` share a
    draw along their dim.
    """

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.rate = share_of("Dropout: rate", rate)
        self.noise_shape = _noise_sizes("Dropout", noise_shape)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or not self.rate:
            return inputs
        if self.noise_shape is None:
            return F.dropout(inputs, self.rate, generator=self.generator)
        kept = self._kept(inputs, self.rate, self.noise_shape)
        return inputs * kept * (1 / (1 - self.rate) if self.rate < 1 else 0.0)


class _SpatialDropout(DataFormatLayer, _Random):
    """Zeroes whole channels."""

    dims: int
    unknown_to_keras = ("trainable",)

    def __init__(self, rate: float, data_format: str | None = None, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.rate = share_of(f"{type(self).__name__}: rate", rate)
        self.channels_first = layer_is_channels_first(type(self).__name__, data_format)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        check_dims(self, inputs, self.dims)
        if not training or not self.rate:
            return inputs
        space = (1,) * self.dims
        shape = (*inputs.shape[:2], *space) if self.channels_first else (inputs.shape[0], *space, inputs.shape[-1])
        return inputs * (self._kept(inputs, self.rate, shape) * (1 / (1 - self.rate) if self.rate < 1 else 0.0))


class SpatialDropout1D(_SpatialDropout):
    """Zeroes whole channels of (B, steps, channels)."""

    dims = 1
    keras_has_data_format = False

    def __init__(self, rate: float, seed: int | None = None, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(rate, data_format, seed, **settings)


class SpatialDropout2D(_SpatialDropout):
    """Zeroes whole channels of (B, H, W, channels)."""

    dims = 2


class SpatialDropout3D(_SpatialDropout):
    """Zeroes whole channels of (B, D, H, W, channels)."""

    dims = 3


class AlphaDropout(_Random):
    """Dropout that keeps the mean and variance of selu's outputs."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.rate = share_of("AlphaDropout: rate", rate)
        self.noise_shape = _noise_sizes("AlphaDropout", noise_shape)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or not self.rate:
            return inputs
        if self.noise_shape is None or self.rate == 1:
            return F.alpha_dropout(inputs, self.rate, True, generator=self.generator)
        kept, least = self._kept(inputs, self.rate, self.noise_shape), SELU_FLOOR
        scale = ((1 - self.rate) * (1 + self.rate * least * least)) ** -0.5
        return (inputs * kept + (1 - kept) * least - self.rate * least) * scale


class GaussianDropout(_Random):
    """Multiplies by normal numbers of mean 1 and the variance rate / (1 - rate)."""

    def __init__(self, rate: float, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.rate = share_of("GaussianDropout: rate", rate)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or not self.rate:
            return inputs
        noise = ops.randn(inputs.shape, generator=self.generator, device=inputs.device).to(inputs.dtype)
        return inputs * (1.0 + noise * sqrt(self.rate / (1 - self.rate)))


class GaussianNoise(_Random):
    """Adds normal numbers."""

    def __init__(self, stddev: float, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.stddev = share_of("GaussianNoise: stddev", stddev)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or not self.stddev:
            return inputs
        noise = ops.randn(inputs.shape, generator=self.generator, device=inputs.device).to(inputs.dtype)
        return inputs + noise * self.stddev


class ActivityRegularization(Layer):
    """Adds a penalty on its inputs to the loss."""

    supports_masking = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **settings: Any) -> None:
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **settings)

    def call(self, inputs: Tensor) -> Tensor:
        return inputs
