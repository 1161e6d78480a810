"""Norms over groups and batches, and small layers: Bilinear, Identity, Flatten."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..engine import Tensor, int64, no_grad, ops
from ..engine.op import describe
from ..engine.ops import empty, ones, zeros
from ..engine.ops import normalization as functional
from ..engine.ops.normalization import per_channel, scaled
from ..errors import ArgumentError
from .function_layers import function_layer
from .layers import _Initialization, _parameter
from .module import Module


def _scale(module: Module, channels: int, affine: bool, bias: bool, device: Any, dtype: Any) -> None:
    """Weight and bias (C,), or None."""
    module.weight = _parameter(ones, channels, device=device, dtype=dtype) if affine else None
    module.bias = _parameter(zeros, channels, device=device, dtype=dtype) if affine and bias else None


def _reset_scale(module: Module) -> None:
    with no_grad():
        for parameter, value in ((module.weight, 1.0), (module.bias, 0.0)):
            if parameter is not None:
                parameter.fill_(value)


class GroupNorm(Module):
    """(N, C, ...): mean and variance over the channels of each of `num_groups` groups and all further dims, then times
    weight plus bias (C,). (Wu and He 2018, https://arxiv.org/abs/1803.08494)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: {num_channels} channels do not make {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _scale(self, num_channels, affine, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Ones and zeros."""
        _reset_scale(self)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ArgumentError(f"GroupNorm: takes (N, {self.num_channels}, ...), got {describe(x)}")
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _NormBase(Module):
    """Settings, weight and bias (C,), and running values of norms by channel."""

    ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _scale(self, num_features, affine, bias, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", zeros((), device=device, dtype=int64))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(self, name, None)

    def reset_running_stats(self) -> None:
        """As at the start."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1.0)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight, bias and running values as at the start."""
        self.reset_running_stats()
        _reset_scale(self)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    """(N, C, ...): mean and variance of each channel over the batch in training, and the running ones in evaluation
    (the batch's where they are not tracked), then times weight plus bias. The running variance is the unbiased one.
    `momentum` None averages over all batches. (Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167)
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            ranks = " or ".join(map(str, self.ranks))
            raise ArgumentError(
                f"{type(self).__name__}: takes {ranks} dims with {self.num_features} channels, got {describe(x)}"
            )
        if self.track_running_stats and not self.training:
            mean, var = (per_channel(t, x.ndim) for t in (self.running_mean, self.running_var))
            return scaled((x - mean) * (var + self.eps).rsqrt(), self.weight, self.bias)
        dims = (0, *range(2, x.ndim))
        count = x.numel() // max(1, x.shape[1])
        if self.training and count < 2:
            raise ArgumentError(
                f"{type(self).__name__}: training needs more than one value per channel, got {describe(x)}"
            )
        mean = x.mean(dims, True)
        centred = x - mean
        var = (centred * centred).mean(dims, True)
        if self.training and self.track_running_stats:
            self._track(mean.detach().reshape(-1), var.detach().reshape(-1) * (count / (count - 1)))
        return scaled(centred * (var + self.eps).rsqrt(), self.weight, self.bias)

    def _track(self, mean: Tensor, var: Tensor) -> None:
        with no_grad():
            self.num_batches_tracked.add_(1)
            share = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
            for running, value in ((self.running_mean, mean), (self.running_var, var)):
                running.copy_(running * (1 - share) + value.to(running.dtype) * share)


class BatchNorm1d(_BatchNorm):
    __doc__ = f"(N, C) or (N, C, L). {_BatchNorm.__doc__}"
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = f"(N, C, H, W). {_BatchNorm.__doc__}"
    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = f"(N, C, D, H, W). {_BatchNorm.__doc__}"
    ranks = (5,)


class _InstanceNorm(_NormBase):
    """(N, C, ...) or (C, ...): each channel of each sample by its own mean and variance, or, in evaluation with
    `track_running_stats`, by the running ones. (Ulyanov et al. 2016, https://arxiv.org/abs/1607.08022)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim + 1 in self.ranks and x.ndim not in self.ranks:
            return self.forward(x.unsqueeze(0)).squeeze(0)
        if x.ndim not in self.ranks or x.shape[1] != self.num_features:
            raise ArgumentError(f"{type(self).__name__}: takes {self.num_features} channels, got {describe(x)}")
        mean, var = self.running_mean, self.running_var
        own = self.training or not self.track_running_stats
        return functional.instance_norm(x, mean, var, self.weight, self.bias, own, self.momentum or 0.0, self.eps)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = f"(N, C, L) or (C, L). {_InstanceNorm.__doc__}"
    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = f"(N, C, H, W) or (C, H, W). {_InstanceNorm.__doc__}"
    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W). {_InstanceNorm.__doc__}"
    ranks = (5,)


LocalResponseNorm = function_layer("LocalResponseNorm", functional.local_response_norm)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 (..., I) and input2 (..., J) with weight (O, I, J) → (..., O)."""
    outputs, first, second = weight.shape
    half = (input1 @ weight.permute(1, 0, 2).reshape(first, -1)).reshape((*input1.shape[:-1], outputs, second))
    y = (half * input2.unsqueeze(-2)).sum(-1)
    return y if bias is None else y + bias


class Bilinear(Module):
    """x1 (..., in1), x2 (..., in2) → (..., out): x1 @ weight[o] @ x2 + bias[o] for each o; weight (out, in1, in2)."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features < 1:
            raise ArgumentError(f"Bilinear: in1_features must be at least 1, got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        made = {"device": device, "dtype": dtype}
        self.weight = _parameter(empty, out_features, in1_features, in2_features, **made)
        self.bias = _parameter(empty, out_features, **made) if bias else None
        if _Initialization.on:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±1 / sqrt(in1), as torch.nn.Bilinear."""
        bound = 1 / sqrt(self.in1_features)
        with no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        sizes = (self.in1_features, self.in2_features)
        if input1.shape[:-1] != input2.shape[:-1] or (input1.shape[-1], input2.shape[-1]) != sizes:
            raise ArgumentError(
                f"Bilinear: takes (..., {sizes[0]}) and (..., {sizes[1]}), got {describe(input1)}, {describe(input2)}"
            )
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Identity(Module):
    """Gives back what it gets; any arguments are taken and forgotten."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return x


class Flatten(Module):
    """Makes one dim of start_dim .. end_dim."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return ops.flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
