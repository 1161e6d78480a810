"""Functions by which torch's own layers call its kernels, and which programs call, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ..declare import function
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .channel_norms import group_norm
from .conv import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from .normalization import layer_norm
from .reduce import var_mean
from .resample import affine_grid, grid_sample
from .view import permute, reshape

_CONVOLUTIONS: dict[bool, tuple[Callable[..., Tensor], ...]] = {
    False: (conv1d, conv2d, conv3d), True: (conv_transpose1d, conv_transpose2d, conv_transpose3d),
}  # fmt: skip
_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@function()
def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """conv1d, conv2d or conv3d of x (N, C, ...), by its dims; with `transposed` conv_transpose1d and so on."""
    dims = x.ndim - 2
    if not 1 <= dims <= 3:
        raise ValueError(f"convolution: takes 3 to 5 dims, not {describe(x)}")
    found = _CONVOLUTIONS[bool(transposed)][dims - 1]
    if transposed:
        return found(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return found(x, weight, bias, stride, padding, dilation, groups)


@function()
def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over time of x (T, N, C) with weight (K, C, O) and bias (O,), with `pad` zeros at both ends →
    (T + 2 pad - K + 1, N, O)."""
    if x.ndim != 3 or weight.ndim != 3 or weight._shape[1] != x._shape[2]:
        raise ValueError(f"conv_tbc: {describe(x)} (T, N, C) does not fit the weight {describe(weight)} (K, C, O)")
    y = conv1d(permute(x, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, 1, pad)  # (N, O, T')
    return permute(y, (2, 0, 1))


@function()
def grid_sampler(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    """grid_sample with numbers for the modes: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection."""
    if interpolation_mode not in (0, 1, 2) or padding_mode not in (0, 1, 2):
        raise ValueError(
            f"grid_sampler: interpolation_mode is 0, 1 or 2 ({', '.join(_MODES)}), and padding_mode 0, 1 or 2 "
            f"({', '.join(_PADDINGS)}), not {interpolation_mode!r} and {padding_mode!r}"
        )
    return grid_sample(x, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


@function()
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """affine_grid."""
    return affine_grid(theta, size, align_corners)


@function()
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms, of order `pow`, of the slices along a dim, with ones for the other dims; of dim -1 the norm of all."""
    if dim == -1:
        return v.norm(pow)
    d = normalize_dim(dim, v.ndim, "norm_except_dim")
    rows = reshape(v.movedim(d, 0), (v._shape[d], -1)).norm(pow, 1)
    return reshape(rows, tuple(n if i == d else 1 for i, n in enumerate(v._shape)))


@function()
def native_layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(layer_norm, mean, 1 / sqrt(variance + eps)), the latter two with ones for the normalised dims."""
    dims = tuple(range(-len(normalized_shape), 0))
    variance, mean = var_mean(x, dims, correction=0, keepdim=True)
    return layer_norm(x, tuple(normalized_shape), weight, bias, eps), mean, (variance + eps).rsqrt()


@function()
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(group_norm, mean, 1 / sqrt(variance + eps)) of x (N, C, ...) with HxW places, the latter two (N, group)."""
    if x.numel() != N * C * HxW or prod(x._shape[:2]) != N * C:
        raise ValueError(f"native_group_norm: {describe(x)} does not have {N} x {C} x {HxW} elements")
    variance, mean = var_mean(reshape(x, (N, group, C * HxW // group)), -1, correction=0)
    return group_norm(x, group, weight, bias, eps), mean, (variance + eps).rsqrt()
