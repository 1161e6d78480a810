"""Convolutions of sequences (B, steps, channels), images (B, H, W, channels) and volumes. Kernels are
(window…, channels in, channels out), as Keras has them.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ...nn import functional as F
from ...train.metrics import in_float32
from .. import activations
from ..arguments import one_of, positive_integer
from ..nn_functions import conv, conv_transpose, same_padding
from ..weight_attributes import AdaptedWeight
from .channels import ChannelsLayer
from .lora import LoraLayer
from .weight_rules import add_weight, set_rules

__all__ = [
    "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "DepthwiseConv1D",
    "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D",
]  # fmt: skip

_CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def sizes(value: Any, dims: int, name: str, least: int = 1) -> tuple[int, ...]:
    """One number, at least `least`, for each of `dims` dims."""
    found = (value,) * dims if isinstance(value, int) else tuple(value)
    if len(found) != dims or not all(isinstance(n, int) and n >= least for n in found):
        kind = "positive number" if least == 1 else f"number from {least} on"
        raise ValueError(f"{name} takes a {kind} or {dims} of them, got {value!r}")
    return found


class _Convolution(ChannelsLayer):
    """Base of all: the window, the padding, the bias and the activation."""

    paddings: tuple[str, ...] = ("valid", "same")
    converted = {"activation": activations.get}

    def __init__(
        self, kernel_size: Any, strides: Any, padding: str, data_format: str | None, dilation_rate: Any,
        activation: Any, use_bias: bool, bias_initializer: Any, bias_regularizer: Any, bias_constraint: Any,
        activity_regularizer: Any, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(data_format, activity_regularizer=activity_regularizer, **settings)
        kind = type(self).__name__
        self.kernel_size = sizes(kernel_size, self.dims, f"{kind}: kernel_size")
        self.strides = sizes(strides, self.dims, f"{kind}: strides")
        self.dilation_rate = sizes(dilation_rate, self.dims, f"{kind}: dilation_rate")
        self.padding = one_of(f"{kind}: padding", padding, self.paddings)
        self.activation, self.use_bias = activation, use_bias
        set_rules(self, "bias", bias_initializer, bias_regularizer, bias_constraint)
        self.bias: Tensor | None = None

    @property
    def probe_scale(self) -> int:  # type: ignore[override]
        windows = zip(self.kernel_size, self.dilation_rate, self.strides, strict=True)
        return max(max((size - 1) * dilation + 1, stride) for size, dilation, stride in windows)

    def _add_bias(self, channels: int) -> None:
        if self.use_bias:
            self.bias = add_weight(self, "bias", (channels,))

    def _bias(self) -> Tensor | None:
        return None if self.bias is None else in_float32(self.bias)

    def call(self, inputs: Tensor) -> Tensor:
        """Of short floats in float32, which has kernels; the weights are rounded before."""
        found = self.activation(super().call(in_float32(inputs)))
        return found.to(inputs.dtype) if found.dtype is not inputs.dtype and inputs.dtype.is_floating_point else found

    def _padded(self, x: Tensor) -> Tensor:
        """The channels-first input with the zeros that the padding wants."""
        if self.padding == "valid":
            return x
        flat: list[int] = []
        every = zip(x.shape[2:], self.kernel_size, self.strides, self.dilation_rate, strict=True)
        for size, window, stride, dilation in reversed(list(every)):
            if self.padding == "causal":
                flat += [(window - 1) * dilation, 0]
            else:
                flat += same_padding(size, window, stride, dilation)
        return F.pad(x, flat) if any(flat) else x

    def _check(self, input_shape: Any) -> int:
        """The channels of the inputs."""
        if len(input_shape) != self.dims + 2:
            raise ValueError(f"takes {self.dims + 2} dims (batch, {self.dims} of space, channels)")
        channels = input_shape[1 if self.channels_first else -1]
        if channels is None:
            raise ValueError("the number of channels must be known")
        return int(channels)


class _Conv(_Convolution, LoraLayer):
    """With LoRA, A is (window…, channels in, rank)."""

    kernel = AdaptedWeight("kernel")

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
        dilation_rate: Any = 1, groups: int = 1, activation: Any = None, use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
        bias_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, bias_initializer,
            bias_regularizer, bias_constraint, activity_regularizer, **settings,
        )  # fmt: skip
        kind = type(self).__name__
        self.filters = positive_integer(f"{kind}: filters", filters)
        self.groups = positive_integer(f"{kind}: groups", groups)
        if filters % groups:
            raise ValueError(f"{kind}: filters ({filters}) must be a multiple of groups ({groups})")
        set_rules(self, "kernel", kernel_initializer, kernel_regularizer, kernel_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._check(input_shape)
        if channels % self.groups:
            raise ValueError(f"{channels} channels do not divide into {self.groups} groups")
        self.kernel = add_weight(self, "kernel", (*self.kernel_size, channels // self.groups, self.filters))
        self._add_bias(self.filters)
        self._enable_given_lora()

    def convolution_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """The convolution of the inputs with a kernel, without the bias. A subclass may convolve with another one."""
        x = inputs.movedim(1, -1) if self.channels_first else inputs
        y = conv(x, kernel, self.strides, self.padding, None, self.dilation_rate)
        return y.movedim(-1, 1) if self.channels_first else y

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        if type(self).convolution_op is not _Conv.convolution_op:
            x = inputs.movedim(-1, 1) if self.channels_first else inputs
            y = self.convolution_op(x, in_float32(self.kernel))
            y = y.movedim(1, -1) if self.channels_first else y
            return y if self.bias is None else y + in_float32(self.bias)
        weight = in_float32(self.kernel).permute(self.dims + 1, self.dims, *range(self.dims))  # (out, in, window…)
        x = self._padded(inputs.movedim(-1, 1))
        y = _CONVOLVE[self.dims](x, weight, self._bias(), self.strides, 0, self.dilation_rate, self.groups)
        return y.movedim(1, -1)


class Conv1D(_Conv):
    """A convolution of sequences (B, steps, channels); padding may be causal."""

    dims = 1
    paddings = ("valid", "same", "causal")


class Conv2D(_Conv):
    """A convolution of images (B, H, W, channels)."""

    dims = 2


class Conv3D(_Conv):
    """A convolution of volumes (B, D, H, W, channels)."""

    dims = 3


class _Depthwise(_Convolution):
    """Each channel by `depth_multiplier` kernels of its own."""

    def __init__(
        self, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1,
        data_format: str | None = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
        depthwise_constraint: Any = None, bias_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, bias_initializer,
            bias_regularizer, bias_constraint, activity_regularizer, **settings,
        )  # fmt: skip
        self.depth_multiplier = positive_integer(f"{type(self).__name__}: depth_multiplier", depth_multiplier)
        set_rules(self, "depthwise", depthwise_initializer, depthwise_regularizer, depthwise_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._check(input_shape)
        self._add_kernel(channels, "kernel")
        self._add_bias(channels * self.depth_multiplier)

    def _add_kernel(self, channels: int, name: str) -> None:
        self.kernel = add_weight(self, "depthwise", (*self.kernel_size, channels, self.depth_multiplier), name)

    def _depthwise(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Channels-first."""
        dims, channels = self.dims, self.kernel.shape[-2]
        weight = in_float32(self.kernel).permute(dims, dims + 1, *range(dims))  # (channels, multiplier, window…)
        weight = weight.reshape(channels * self.depth_multiplier, 1, *self.kernel_size)
        return _CONVOLVE[dims](self._padded(x), weight, bias, self.strides, 0, self.dilation_rate, channels)

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        return self._depthwise(inputs.movedim(-1, 1), self._bias()).movedim(1, -1)


class DepthwiseConv1D(_Depthwise):
    """A convolution of each channel of sequences by itself."""

    dims = 1


class DepthwiseConv2D(_Depthwise):
    """A convolution of each channel of images by itself."""

    dims = 2


class _Separable(_Depthwise):
    """A depthwise convolution, then one of window 1 over the channels."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
        dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None, use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform", pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros", depthwise_regularizer: Any = None, pointwise_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, depthwise_constraint: Any = None,
        pointwise_constraint: Any = None, bias_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size, strides, padding, depth_multiplier, data_format, dilation_rate, activation, use_bias,
            depthwise_initializer, bias_initializer, depthwise_regularizer, bias_regularizer, activity_regularizer,
            depthwise_constraint, bias_constraint, **settings,
        )  # fmt: skip
        self.filters = positive_integer(f"{type(self).__name__}: filters", filters)
        set_rules(self, "pointwise", pointwise_initializer, pointwise_regularizer, pointwise_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._check(input_shape)
        self._add_kernel(channels, "depthwise_kernel")
        shape = (*(1,) * self.dims, channels * self.depth_multiplier, self.filters)
        self.pointwise_kernel = add_weight(self, "pointwise", shape, "pointwise_kernel")
        self._add_bias(self.filters)

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        x = self._depthwise(inputs.movedim(-1, 1), None)
        weight = in_float32(self.pointwise_kernel).permute(self.dims + 1, self.dims, *range(self.dims))
        return _CONVOLVE[self.dims](x, weight, self._bias()).movedim(1, -1)


class SeparableConv1D(_Separable):
    """A depthwise convolution of sequences, then one over the channels."""

    dims = 1


class SeparableConv2D(_Separable):
    """A depthwise convolution of images, then one over the channels."""

    dims = 2


class _Transposed(_Convolution):
    """The transpose of a convolution: it enlarges by the strides. Kernels are (window…, out, in)."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
        data_format: str | None = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
        bias_constraint: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, bias_initializer,
            bias_regularizer, bias_constraint, activity_regularizer, **settings,
        )  # fmt: skip
        kind = type(self).__name__
        self.output_padding = (
            None if output_padding is None else sizes(output_padding, self.dims, f"{kind}: output_padding", 0)
        )
        if any(n >= stride for n, stride in zip(self.output_padding or (), self.strides, strict=False)):
            raise ValueError(f"{kind}: output_padding {output_padding} must be below strides {self.strides}")
        self.filters = positive_integer(f"{kind}: filters", filters)
        set_rules(self, "kernel", kernel_initializer, kernel_regularizer, kernel_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._check(input_shape)
        self.kernel = add_weight(self, "kernel", (*self.kernel_size, self.filters, channels))
        self._add_bias(self.filters)

    def on_channels_last(self, inputs: Tensor) -> Tensor:
        y = conv_transpose(
            inputs, in_float32(self.kernel), self.strides, self.padding, self.output_padding, None, self.dilation_rate
        )
        bias = self._bias()
        return y if bias is None else y + bias


class Conv1DTranspose(_Transposed):
    """The transpose of a convolution of sequences."""

    dims = 1


class Conv2DTranspose(_Transposed):
    """The transpose of a convolution of images."""

    dims = 2


class Conv3DTranspose(_Transposed):
    """The transpose of a convolution of volumes."""

    dims = 3
