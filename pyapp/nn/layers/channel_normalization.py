"""Norms over groups of channels and over batches."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, float32, int64, no_grad
from ...engine.operands import is_half
from ...engine.ops import channel_norms as engine
from ...engine.ops import ones, zeros
from ...engine.ops import running_statistics as by_statistics
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..module import Module
from ..parameter import new_parameter
from .from_function import function_layer, torch_function
from .lazy import LazyModuleMixin, lazy_layer

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LocalResponseNorm", "batch_norm", "group_norm", "instance_norm", "local_response_norm",
]  # fmt: skip

batch_norm, group_norm, instance_norm, local_response_norm = map(
    torch_function,
    (by_statistics.batch_norm, engine.group_norm, by_statistics.instance_norm, engine.local_response_norm),
)


def _scale(module: Module, channels: int, affine: bool, bias: bool, device: Any, dtype: Any) -> None:
    """Weight and bias (C,), or None."""
    module.weight = new_parameter(ones, channels, device=device, dtype=dtype) if affine else None
    module.bias = new_parameter(zeros, channels, device=device, dtype=dtype) if affine and bias else None


def _reset_scale(module: Module) -> None:
    with no_grad():
        for parameter, value in ((module.weight, 1.0), (module.bias, 0.0)):
            if parameter is not None:
                parameter.fill_(value)


class GroupNorm(Module):
    """Normalises (N, C, ...) by the mean and variance over the channels of each of `num_groups` groups and all further
    dims, then multiplies by the weight and adds the bias (C,) (Wu and He 2018, https://arxiv.org/abs/1803.08494).
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
            raise ArgumentError(
                f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups ({num_groups}): "
                f"{num_channels} channels do not make {num_groups} groups"
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _scale(self, num_channels, affine, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Sets the weight to ones and the bias to zeros."""
        _reset_scale(self)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim < 2 or input.shape[1] != self.num_channels:
            raise ArgumentError(f"GroupNorm: takes (N, {self.num_channels}, ...), got {describe(input)}")
        return engine.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
        return f"{text}, bias={self.bias is not None}"


class _NormBase(Module):
    """Base of the norms by channel: settings, weight and bias (C,), and running statistics."""

    _version = 2
    ranks: tuple[int, ...] = ()
    lacking_in_older_states = ("num_batches_tracked",)

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
        """Resets the running statistics to their initial values."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1.0)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Resets weight, bias and running statistics to their initial values."""
        self.reset_running_stats()
        _reset_scale(self)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(_NormBase):
    """Normalises each channel of (N, C, ...) by its mean and variance over the batch in training, and by the running
    statistics in evaluation (the batch's if none are tracked), then multiplies by the weight and adds the bias. The
    running variance is unbiased. `momentum` None averages over all batches (Ioffe and Szegedy 2015,
    https://arxiv.org/abs/1502.03167).
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.ranks or input.shape[1] != self.num_features:
            ranks, count = " or ".join(map(str, self.ranks)), self.num_features
            told = (
                f"expected {' or '.join(f'{rank}D' for rank in self.ranks)} input (got {input.ndim}D input)"
                if input.ndim not in self.ranks
                else f"running_mean should contain {input.shape[1]} elements not {count}"
            )
            raise ArgumentError(
                f"{type(self).__name__}: {told}: takes {ranks} dims with {count} channels, got {describe(input)}"
            )
        if self.track_running_stats and not self.training:
            found: Tensor = by_statistics.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
            return found
        if is_half(input):  # whose sums are not exact enough, or too large
            wide: Tensor = self.forward(input.to(float32))
            return wide.to(input.dtype)
        if not input.numel():
            if self.training and self.track_running_stats:
                self.num_batches_tracked.add_(1)
            nothing: Tensor = by_statistics.batch_norm(input, None, None, self.weight, self.bias, True, eps=self.eps)
            return nothing
        y, count, mean, var = self._normalized(input)
        if self.training and self.track_running_stats:
            self._track(mean, var, count / (count - 1))
        return y

    def _normalized(self, input: Tensor) -> tuple[Tensor, int, Tensor, Tensor]:
        """(the result, the number of values of each channel, their mean and variance (C,), outside the graph)."""
        count = input.numel() // max(1, input.shape[1])
        self._check_count(count, input)
        y, mean, var = by_statistics.batch_normalized(input, self.weight, self.bias, self.eps)
        return y, count, mean, var

    def _check_count(self, count: int, input: Tensor) -> None:
        if self.training and count < 2:
            raise ArgumentError(
                f"{type(self).__name__}: Expected more than 1 value per channel when training: training needs more "
                f"than one value per channel, got {describe(input)}; call eval(), or take larger batches"
            )

    def _track(self, mean: Tensor, var: Tensor, correction: float) -> None:
        """`correction`: what makes the variance unbiased."""
        self.num_batches_tracked.add_(1)
        share = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        by_statistics.track(self.running_mean, self.running_var, mean, var, share, correction)


class BatchNorm1d(BatchNorm):
    __doc__ = f"(N, C) or (N, C, L). {BatchNorm.__doc__}"
    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    __doc__ = f"(N, C, H, W). {BatchNorm.__doc__}"
    ranks = (4,)


class BatchNorm3d(BatchNorm):
    __doc__ = f"(N, C, D, H, W). {BatchNorm.__doc__}"
    ranks = (5,)


class _InstanceNorm(_NormBase):
    """Normalises each channel of each sample of (N, C, ...) or (C, ...) by its mean and variance; in evaluation with
    `track_running_stats`, by the running statistics (Ulyanov et al. 2016, https://arxiv.org/abs/1607.08022).
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

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim + 1 in self.ranks and input.ndim not in self.ranks:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        if input.ndim not in self.ranks or input.shape[1] != self.num_features:
            raise ArgumentError(f"{type(self).__name__}: takes {self.num_features} channels, got {describe(input)}")
        mean, var = self.running_mean, self.running_var
        own = self.training or not self.track_running_stats
        return by_statistics.instance_norm(
            input, mean, var, self.weight, self.bias, own, self.momentum or 0.0, self.eps
        )


class InstanceNorm1d(_InstanceNorm):
    __doc__ = f"(N, C, L) or (C, L). {_InstanceNorm.__doc__}"
    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = f"(N, C, H, W) or (C, H, W). {_InstanceNorm.__doc__}"
    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = f"(N, C, D, H, W) or (C, D, H, W). {_InstanceNorm.__doc__}"
    ranks = (5,)


LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    lazy_layer(kind, "num_features") for kind in (BatchNorm1d, BatchNorm2d, BatchNorm3d)
)


def _lazy_tracking(becomes: type[Module]) -> Any:
    """An instance norm that has a weight and running statistics by default, as torch's lazy ones have."""
    lazy = lazy_layer(becomes, "num_features")

    def __init__(
        self: Any, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        LazyModuleMixin.__init__(
            self, eps, momentum, affine, track_running_stats, bias=bias, device=device, dtype=dtype
        )

    __init__.__qualname__ = f"{lazy.__name__}.__init__"
    lazy.__init__ = __init__
    return lazy


LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = map(
    _lazy_tracking, (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)
)


LocalResponseNorm = function_layer("LocalResponseNorm", local_response_norm, shown="=size alpha beta k")
