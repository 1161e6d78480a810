"""Batch norm over the batches of several processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Tensor
from ...engine.ops import tensor
from ...engine.ops.channel_norms import scaled
from ...engine.processes import differentiable
from ...engine.processes.collectives import all_reduce
from ...engine.processes.group import ProcessGroup, group_or_world, is_initialized
from ...errors import ArgumentError
from ..module import Module
from .channel_normalization import BatchNorm
from .lazy import LazyModuleMixin

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(BatchNorm):
    """BatchNorm1d to 3d of (N, C, ...) whose mean and variance in training are those of the batches of all processes of
    a group (by default all), which may have different sizes. All processes must call it alike, forward and backward.
    In evaluation, and without a group of processes, it is BatchNorm. On CPUs too, unlike torch's.
    """

    ranks = tuple(range(2, 7))

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: ProcessGroup | None = None, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _normalized(self, input: Tensor) -> tuple[Tensor, int, Tensor, Tensor]:
        if not self.training or not is_initialized():
            return super()._normalized(input)
        dims = (0, *range(2, input.ndim))
        count, mean = self._mean(input, dims)
        self._check_count(count, input)
        centred = input - mean
        _, var = self._mean(centred * centred, dims)
        y = scaled(centred * (var + self.eps).rsqrt(), self.weight, self.bias)
        return y, count, mean.detach().reshape(-1), var.detach().reshape(-1)

    def _mean(self, x: Tensor, dims: Sequence[int]) -> tuple[int, Tensor]:
        """The number of values of each channel in all processes, and their mean with these dims kept."""
        group = group_or_world(self.process_group)
        count = tensor([float(x.numel() // max(1, x.shape[1]))], dtype="float64")
        all_reduce(count, group=group)
        total = differentiable.all_reduce(x.sum(dims, True), group=group)
        return int(count.item()), total / max(1.0, count.item())

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """The module with a SyncBatchNorm in place of each BatchNorm1d to 3d, of the same parameters and statistics;
        itself changed, or the new one where it is a batch norm. ArgumentError for one that does not know its
        channels yet.
        """
        if isinstance(module, LazyModuleMixin):
            raise ArgumentError(
                f"convert_sync_batchnorm: a {type(module).__name__} has no parameters yet; call the module once before"
            )
        if isinstance(module, BatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var = module.running_mean, module.running_var
            made.num_batches_tracked = module.num_batches_tracked
            return made.train(module.training)
        for name, child in [*module.named_children()]:
            changed = cls.convert_sync_batchnorm(child, process_group)
            if changed is not child:
                setattr(module, name, changed)
        return module
