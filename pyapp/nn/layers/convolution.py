"""Convolutions, transposed convolutions, and patches (fold, unfold)."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

from ...engine import Tensor, no_grad, ops, quant
from ...engine.ops import conv, empty, pad, zeros
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..module import Module
from ..parameter import Initialization, new_parameter
from .from_function import function_layer, torch_function
from .lazy import lazy_layer

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Fold", "LazyConv1d",
    "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "Unfold", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "fold", "unfold",
]  # fmt: skip

conv1d, conv2d, conv3d = map(torch_function, (ops.conv1d, ops.conv2d, ops.conv3d))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(
    torch_function, (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)
)
fold, unfold = torch_function(conv.col2im, "fold"), torch_function(conv.im2col, "unfold")
Fold, Unfold = function_layer("Fold", fold), function_layer("Unfold", unfold)


def _each(value: Any, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, int) else tuple(value)


class _ConvolutionBase(Module):
    """Settings, parameters and their initialisation: uniform in ±1 / sqrt(fan in), as in torch."""

    dims = 0
    transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        groups: int, bias: bool, padding_mode: str, **made: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        modes = ("zeros",) if self.transposed else ("zeros", "reflect", "replicate", "circular")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ArgumentError(f"{type(self).__name__}: padding is numbers, 'same' or 'valid', not {padding!r}")
        if padding_mode not in modes:
            raise ArgumentError(
                f"{type(self).__name__}: padding_mode is one of {', '.join(modes)}, not {padding_mode!r}"
            )
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{type(self).__name__}: {in_channels} and {out_channels} channels do not make {groups} groups"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = _each(kernel_size, self.dims)
        self.stride, self.dilation = _each(stride, self.dims), _each(dilation, self.dims)
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ArgumentError(f"{type(self).__name__}: padding 'same' takes a stride of 1, not {self.stride}")
        self.padding: Any = padding if isinstance(padding, str) else _each(padding, self.dims)
        self.padding_mode = padding_mode
        self.output_padding: Any = (0,) * self.dims
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = new_parameter(empty, first, second // groups, *self.kernel_size, **made)
        self.bias = new_parameter(zeros, out_channels, **made) if bias else None
        if Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises weight and bias again."""
        fan_in = self.weight.shape[1] * prod(self.kernel_size)
        bound = 1 / sqrt(fan_in) if fan_in else 0.0
        with no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zeros = (0,) * self.dims
        plain = {"padding": zeros, "dilation": (1,) * self.dims, "output_padding": zeros, "groups": 1}
        for name, usual in plain.items():
            if getattr(self, name, usual) != usual:
                text += f", {name}={getattr(self, name)}"
        text += "" if self.bias is not None else ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvolutionBase):
    """x (N, C, ...) or (C, ...) → (N, O, ...). padding: numbers, (before, after) pairs, "same" or "valid"; padding_mode
    "zeros", "reflect", "replicate" or "circular".
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            device=device, dtype=dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution by another weight and bias, which classes for changed weights use."""
        function = getattr(ops, f"conv{self.dims}d")
        if self.padding_mode == "zeros":
            padding: Any = self.padding
        else:
            widths = conv._widths(self.padding, self.kernel_size, self.dilation, type(self).__name__)
            input = pad(input, [n for pair in reversed(widths) for n in pair], self.padding_mode)
            padding = 0
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    __doc__ = f"See conv1d. {_Conv.__doc__}"
    dims = 1


class Conv2d(_Conv):
    __doc__ = f"See conv2d. {_Conv.__doc__}"
    dims = 2


class BlockConv2d(Conv2d):
    """Conv2d whose weight may be of another type than x, also of a block type, as a matrix (O, C / groups * kernel).
    It has the type of x for the moment of each call.
    """

    def forward(self, input: Tensor) -> Tensor:
        weight = self.weight
        if weight.dtype is not input.dtype:
            weight = quant.dequantize(weight).to(input.dtype)
            weight = weight.reshape(self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        return ops.conv2d(input, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv3d(_Conv):
    __doc__ = f"See conv3d. {_Conv.__doc__}"
    dims = 3


class _ConvTranspose(_ConvolutionBase):
    """x (N, C, ...) or (C, ...) → (N, O, ...), each element spread by the weight (C, O / groups, ...). With a stride
    several output sizes are possible; the argument `output_size` of a call chooses one.
    """

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.output_padding = _each(output_padding, self.dims)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        more = self.output_padding
        if output_size is not None:
            wanted = tuple(output_size)[-self.dims :]
            least = [
                (n - 1) * s - 2 * p + d * (k - 1) + 1
                for n, s, p, d, k in zip(
                    input.shape[-self.dims :],
                    self.stride,
                    _each(self.padding, self.dims),
                    self.dilation,
                    self.kernel_size,
                    strict=True,
                )
            ]
            more = tuple(w - n for w, n in zip(wanted, least, strict=True))
            if any(not 0 <= m < max(s, d) for m, s, d in zip(more, self.stride, self.dilation, strict=True)):
                raise ArgumentError(
                    f"{type(self).__name__}: {describe(input)} cannot give output_size {wanted}; least: {least}"
                )
        function = getattr(conv, f"conv_transpose{self.dims}d")
        return function(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    __doc__ = f"See conv_transpose1d. {_ConvTranspose.__doc__}"
    dims = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = f"See conv_transpose2d. {_ConvTranspose.__doc__}"
    dims = 2


class ConvTranspose3d(_ConvTranspose):
    __doc__ = f"See conv_transpose3d. {_ConvTranspose.__doc__}"
    dims = 3


LazyConv1d, LazyConv2d, LazyConv3d = (lazy_layer(kind, "in_channels") for kind in (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    lazy_layer(kind, "in_channels") for kind in (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
)
