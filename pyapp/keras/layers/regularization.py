"""Layers that act in training only: dropout, noise, penalties on activations."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ...engine import Tensor, ops
from ...engine.ops.random import Generator
from ...nn import functional as F
from .. import regularizers
from ..arguments import layer_is_channels_first
from ..core import Layer

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


class Dropout(_Random):
    """Zeroes a share `rate` of the elements and divides the rest by 1 - rate. Sizes of 1 in `noise_shape` share a
    draw along their dim.
    """

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        if not 0 <= rate <= 1:
            raise ValueError(f"Dropout: rate is in [0, 1], not {rate}")
        self.rate, self.noise_shape = rate, noise_shape

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or not self.rate:
            return inputs
        if self.noise_shape is None:
            return F.dropout(inputs, self.rate, generator=self.generator)
        shape = [
            size if wanted is None else wanted for size, wanted in zip(inputs.shape, self.noise_shape, strict=True)
        ]
        kept = (ops.rand(shape, generator=self.generator, device=inputs.device) >= self.rate).to(inputs.dtype)
        return inputs * kept * (1 / (1 - self.rate) if self.rate < 1 else 0.0)


class _SpatialDropout(_Random):
    """Zeroes whole channels."""

    dims: int

    def __init__(self, rate: float, seed: int | None = None, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        if not 0 <= rate < 1:
            raise ValueError(f"{type(self).__name__}: rate is in [0, 1), not {rate}")
        self.rate = rate
        self.channels_first = layer_is_channels_first(type(self).__name__, data_format)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or not self.rate:
            return inputs
        space = (1,) * self.dims
        shape = (*inputs.shape[:2], *space) if self.channels_first else (inputs.shape[0], *space, inputs.shape[-1])
        kept = (ops.rand(shape, generator=self.generator, device=inputs.device) >= self.rate).to(inputs.dtype)
        return inputs * (kept * (1 / (1 - self.rate)))


class SpatialDropout1D(_SpatialDropout):
    """Zeroes whole channels of (B, steps, channels)."""

    dims = 1


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
        if noise_shape is not None:
            raise NotImplementedError("AlphaDropout: noise_shape is not supported")
        self.rate = rate

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        return (
            F.alpha_dropout(inputs, self.rate, training, generator=self.generator) if training and self.rate else inputs
        )


class GaussianDropout(_Random):
    """Multiplies by normal numbers of mean 1 and the variance rate / (1 - rate)."""

    def __init__(self, rate: float, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.rate = rate

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or not self.rate:
            return inputs
        noise = ops.randn(inputs.shape, generator=self.generator, device=inputs.device).to(inputs.dtype)
        return inputs * (1.0 + noise * sqrt(self.rate / (1 - self.rate)))


class GaussianNoise(_Random):
    """Adds normal numbers."""

    def __init__(self, stddev: float, seed: int | None = None, **settings: Any) -> None:
        super().__init__(seed, **settings)
        self.stddev = stddev

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
