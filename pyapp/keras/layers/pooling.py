"""Pools over windows of sequences, images and volumes, and over all of space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor
from ..arguments import as_floats, layer_is_channels_first, one_of
from ..nn_functions import adaptive_average_pool, adaptive_max_pool, largest_of_windows, mean_of_windows
from .channels import ChannelsLayer, DataFormatLayer, check_dims
from .convolution import sizes

__all__ = [
    "AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D", "AdaptiveMaxPooling1D",
    "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D",
    "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalMaxPooling1D",
    "GlobalMaxPooling2D", "GlobalMaxPooling3D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D",
]  # fmt: skip


class _Pool(ChannelsLayer):
    pool: Callable[..., Tensor]  # of x (B, C, …)

    def __init__(
        self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: str | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(data_format, **settings)
        kind = type(self).__name__
        self.pool_size = sizes(pool_size, self.dims, f"{kind}: pool_size")
        self.strides = sizes(self.pool_size if strides is None else strides, self.dims, f"{kind}: strides")
        self.padding = one_of(f"{kind}: padding", padding, ("valid", "same"))

    @property
    def probe_scale(self) -> int:  # type: ignore[override]
        return max(*self.pool_size, *self.strides)

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        x = inputs.movedim(-1, 1)
        return type(self).pool(x, self.pool_size, self.strides, self.padding).movedim(1, -1)


class _MaxPool(_Pool):
    pool = staticmethod(largest_of_windows)


class _AveragePool(_Pool):
    pool = staticmethod(mean_of_windows)


class MaxPooling1D(_MaxPool):
    """The largest value of each window of (B, steps, channels)."""

    dims = 1


class MaxPooling2D(_MaxPool):
    """The largest value of each window of (B, H, W, channels)."""

    dims = 2


class MaxPooling3D(_MaxPool):
    """The largest value of each window of (B, D, H, W, channels)."""

    dims = 3


class AveragePooling1D(_AveragePool):
    """The mean of each window of (B, steps, channels); padding is not counted."""

    dims = 1


class AveragePooling2D(_AveragePool):
    """The mean of each window of (B, H, W, channels); padding is not counted."""

    dims = 2


class AveragePooling3D(_AveragePool):
    """The mean of each window of (B, D, H, W, channels); padding is not counted."""

    dims = 3


class _GlobalPool(DataFormatLayer):
    probe_scale = 1

    dims: int

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.keepdims = keepdims
        self.channels_first = layer_is_channels_first(type(self).__name__, data_format)
        first = 2 if self.channels_first else 1
        self.space = tuple(range(first, first + self.dims))


class _GlobalAverage(_GlobalPool):
    def call(self, inputs: Tensor) -> Tensor:
        check_dims(self, inputs, self.dims)
        return as_floats(inputs).mean(self.space, keepdim=self.keepdims)


class _GlobalMax(_GlobalPool):
    def call(self, inputs: Tensor) -> Tensor:
        check_dims(self, inputs, self.dims)
        return inputs.amax(self.space, keepdim=self.keepdims)


class GlobalAveragePooling1D(_GlobalAverage):
    """The mean over the steps that the mask does not leave out: (B, steps, channels) -> (B, channels)."""

    dims = 1

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return super().call(inputs)
        weights = mask.to(inputs.dtype).unsqueeze(-1 if self.space == (1,) else 1)
        total = (inputs * weights).sum(self.space, keepdim=self.keepdims)
        return total / weights.sum(self.space, keepdim=self.keepdims)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


class GlobalAveragePooling2D(_GlobalAverage):
    """The mean over images: (B, H, W, channels) -> (B, channels)."""

    dims = 2


class GlobalAveragePooling3D(_GlobalAverage):
    """The mean over volumes."""

    dims = 3


class GlobalMaxPooling1D(_GlobalMax):
    """The largest of the steps: (B, steps, channels) -> (B, channels)."""

    dims = 1


class GlobalMaxPooling2D(_GlobalMax):
    """The largest of images: (B, H, W, channels) -> (B, channels)."""

    dims = 2


class GlobalMaxPooling3D(_GlobalMax):
    """The largest of volumes."""

    dims = 3


class _Adaptive(ChannelsLayer):
    """Windows as large as the output's size asks for."""

    pool: Callable[..., Tensor]

    def __init__(self, output_size: Any, data_format: str | None = None, **settings: Any) -> None:
        super().__init__(data_format, **settings)
        self.output_size = sizes(output_size, self.dims, f"{type(self).__name__}: output_size")

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        return type(self).pool(inputs, self.output_size)


class AdaptiveAveragePooling1D(_Adaptive):
    """The mean of as many windows of sequences as `output_size` says."""

    dims = 1
    pool = staticmethod(adaptive_average_pool)


class AdaptiveAveragePooling2D(_Adaptive):
    """The mean of as many windows of images as `output_size` says."""

    dims = 2
    pool = staticmethod(adaptive_average_pool)


class AdaptiveAveragePooling3D(_Adaptive):
    """The mean of as many windows of volumes as `output_size` says."""

    dims = 3
    pool = staticmethod(adaptive_average_pool)


class AdaptiveMaxPooling1D(_Adaptive):
    """The largest of as many windows of sequences as `output_size` says."""

    dims = 1
    pool = staticmethod(adaptive_max_pool)


class AdaptiveMaxPooling2D(_Adaptive):
    """The largest of as many windows of images as `output_size` says."""

    dims = 2
    pool = staticmethod(adaptive_max_pool)


class AdaptiveMaxPooling3D(_Adaptive):
    """The largest of as many windows of volumes as `output_size` says."""

    dims = 3
    pool = staticmethod(adaptive_max_pool)
