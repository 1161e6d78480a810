"""Normalisations in torch.nn.functional's forms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..autograd import no_grad
from ..dtype import float32
from ..op import describe
from ..shape import normalize_dim
from ..tensor import Tensor
from .norm import layer_norm as _layer_norm_last
from .norm import rms_norm as _rms_norm_last
from .view import reshape


def per_channel(values: Tensor, rank: int) -> Tensor:
    """(C,) → (1, C, 1, ...)."""
    return reshape(values, (1, values.shape[0]) + (1,) * (rank - 2))


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x (N, C, ...) times weight plus bias (C,)."""
    if weight is not None:
        x = x * per_channel(weight, x.ndim)
    return x if bias is None else x + per_channel(bias, x.ndim)


def standardized(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps) over dims; mean and var with these dims kept."""
    mean = x.mean(dims, True)
    centred = x - mean
    var = (centred * centred).mean(dims, True)
    return centred * (var + eps).rsqrt(), mean, var


def _last_dims(name: str, x: Tensor, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ValueError(f"{name}: {describe(x)} does not end in {shape}")
    return shape


def layer_norm(
    x: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) over the last dims, times weight plus bias (Ba et al. 2016, arXiv 1607.06450)."""
    shape = _last_dims("layer_norm", x, normalized_shape)
    if len(shape) == 1 and weight is not None and bias is not None:
        return _layer_norm_last(x, weight, bias, eps)
    y = standardized(x, range(x.ndim - len(shape), x.ndim), eps)[0]
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(
    x: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x²) + eps) over the last dims, times weight; eps defaults to the dtype's (torch's)."""
    shape = _last_dims("rms_norm", x, normalized_shape)
    tiny = {"float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(x.dtype.name, 2.0**-23)
    epsilon = tiny if eps is None else eps
    if len(shape) == 1 and weight is not None:
        return _rms_norm_last(x, weight, epsilon)
    dims = list(range(x.ndim - len(shape), x.ndim))
    y = x * ((x * x).mean(dims, True) + epsilon).rsqrt()
    return y if weight is None else y * weight


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(N, C, ...): mean and variance over the channels of each group and all further dims, then times weight plus bias
    (C,) (Wu and He 2018, arXiv 1803.08494).
    """
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ValueError(f"group_norm: {describe(x)} does not make {num_groups} groups of channels")
    groups = reshape(x, (x.shape[0], num_groups, prod(x.shape[1:]) // num_groups))
    return scaled(reshape(standardized(groups, (2,), eps)[0], x.shape), weight, bias)


def _track(running: Tensor | None, value: Tensor, momentum: float) -> None:
    if running is not None:
        with no_grad():
            running.copy_(running * (1 - momentum) + value.detach().to(running.dtype) * momentum)


def batch_norm(
    x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(N, C, ...): each channel by its mean and variance over the batch in training, whose running values are moved by
    `momentum` (the variance unbiased); by the running ones otherwise (Ioffe and Szegedy 2015, arXiv 1502.03167).
    """
    if x.ndim < 2:
        raise ValueError(f"batch_norm: takes (N, C, ...), got {describe(x)}")
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: evaluation needs running_mean and running_var")
        mean, var = per_channel(running_mean, x.ndim), per_channel(running_var, x.ndim)
        return scaled((x - mean) * (var + eps).rsqrt(), weight, bias)
    count = x.numel() // max(1, x.shape[1])
    if count < 2:
        raise ValueError(f"batch_norm: training needs more than one value per channel, got {describe(x)}")
    y, mean, var = standardized(x, (0, *range(2, x.ndim)), eps)
    _track(running_mean, reshape(mean, -1), momentum)
    _track(running_var, reshape(var, -1) * (count / (count - 1)), momentum)
    return scaled(y, weight, bias)


def instance_norm(
    x: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(N, C, ...): each channel of each sample by its own mean and variance, or by the running ones (Ulyanov et al.
    2016, arXiv 1607.08022).
    """
    if x.ndim < 3:
        raise ValueError(f"instance_norm: takes (N, C, L, ...), got {describe(x)}")
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    count = prod(x.shape[2:])
    if count < 2:
        raise ValueError(f"instance_norm: needs more than one value per channel, got {describe(x)}")
    y, mean, var = standardized(x, range(2, x.ndim), eps)
    _track(running_mean, reshape(mean.mean(0), -1), momentum)
    _track(running_var, reshape(var.mean(0), -1) * (count / (count - 1)), momentum)
    return scaled(y, weight, bias)


def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha mean(x² over `size` neighbouring channels))^beta (Krizhevsky et al. 2012)."""
    from .rearrange import pad, windows

    if x.ndim < 3:
        raise ValueError(f"local_response_norm: takes (N, C, L, ...), got {describe(x)}")
    squares = (x * x).reshape(x.shape[0], x.shape[1], -1)
    wide = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = windows(wide, 1, size, 1, name="local_response_norm").sum(-1) / size
    return x / (reshape(mean, x.shape) * alpha + k) ** beta


def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm, eps) along a dim."""
    from .elementwise import maximum

    return x / maximum(x.norm(p, dim, True), eps)


def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """x with every slice at an index of `dim` of which the p-norm is above `maxnorm` scaled down to that."""
    from .elementwise import where

    if not x.dtype.is_floating_point or x.ndim < 2 or p <= 0 or maxnorm < 0:
        raise ValueError(
            f"renorm: takes floats of 2 dims and more, p above 0 and maxnorm of at least 0, got {describe(x)}, {p}, "
            f"{maxnorm}"
        )
    kept = normalize_dim(dim, x.ndim, "renorm")
    wide = x.to(float32) if x.dtype.itemsize < 4 else x
    sizes = wide.norm(p, [d for d in range(x.ndim) if d != kept], True)
    factors = where(sizes > maxnorm, maxnorm / (sizes + 1e-7), 1.0)  # torch's guard against 0
    return (wide * factors).to(x.dtype)


Tensor.renorm = renorm  # type: ignore[attr-defined]
