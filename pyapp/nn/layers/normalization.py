"""Norms over the last dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.grad_mode import STATE
from ...engine.ops import normalization as engine
from ...engine.ops import ones, zeros
from ..module import Module
from ..parameter import new_parameter
from .from_function import torch_function

__all__ = ["LayerNorm", "OffsetLayerNorm", "OffsetRMSNorm", "RMSNorm", "layer_norm", "normalize", "rms_norm"]

layer_norm, normalize, rms_norm = map(torch_function, (engine.layer_norm, engine.normalize, engine.rms_norm))


class _Norm(Module):
    """Base of RMSNorm and LayerNorm: the shape of the last dims, eps, a weight and an optional bias of that shape."""

    first_weight = 1.0
    weight: Tensor  # None without `affine`
    bias: Tensor  # None without `affine` or `bias`

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None, affine: bool, bias: bool, **made: Any
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps: Any = eps
        self.elementwise_affine = affine
        first = ones if self.first_weight else zeros
        weight: Any = new_parameter(first, *self.normalized_shape, **made) if affine else None
        shift: Any = new_parameter(zeros, *self.normalized_shape, **made) if affine and bias else None
        self.weight, self.bias = weight, shift

    def reset_parameters(self) -> None:
        """Sets the weight to ones, or to zeros where 1 is added to it, and the bias to zeros."""
        with no_grad():
            for parameter, value in ((self.weight, self.first_weight), (self.bias, 0.0)):
                if parameter is not None:
                    parameter.fill_(value)

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        return text if isinstance(self, RMSNorm) else f"{text}, bias={self.bias is not None}"


class RMSNorm(_Norm):
    """Root mean square norm over the last dims, times a weight. eps None means finfo(dtype).eps, as in torch."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, False, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        if self.eps is not None and self.weight is not None and len(self.normalized_shape) == 1:
            return ops.rms_norm(input, self.weight, self.eps)
        y: Tensor = engine.rms_norm(input, self.normalized_shape, self.weight, self.eps)
        return y


class OffsetRMSNorm(_Norm):
    """Root mean square norm over the last dim, times 1 + weight (Gemma, arXiv 2403.08295), or `offset` + weight."""

    first_weight = 0.0

    def __init__(
        self, normalized_shape: int, eps: float = 1e-6, device: Any = None, dtype: Any = None, *, offset: float = 1.0
    ) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps, True, False, device=device, dtype=dtype)
        self.offset = offset

    def forward(self, input: Tensor) -> Tensor:
        weight = self.get_parameter("weight")
        if not STATE.enabled and _has_kernel(input):
            return engine.offset_rms_norm(input, weight, self.offset, self.eps)
        return ops.rms_norm(input, engine.with_offset(weight, self.offset), self.eps)


def _has_kernel(x: Tensor) -> bool:
    """Whether the device adds offsets to weights, and normalises heads, in the kernel of the norm."""
    return "normalize_heads" in x.device.backend.kernels


def heads_at_once(qkv: Tensor, heads: int, kv_heads: int, *norms: Module) -> Tensor | None:
    """[queries, keys, values] (..., (H + 2 KV) * D) with each head's query and key normalised by the two norms, in one
    kernel. None where gradients are recorded, the device has no such kernel or the norms are not alike.
    """
    if STATE.enabled or not _has_kernel(qkv) or not all(isinstance(norm, RMSNorm | OffsetRMSNorm) for norm in norms):
        return None
    first, second = norms
    if any(norm._hooks is not None for norm in norms) or type(first) is not type(second):
        return None
    offsets = {getattr(norm, "offset", 0.0) for norm in norms}
    weights = [norm.weight for norm in norms]
    if len(offsets) != 1 or first.eps != second.eps or first.eps is None or any(w is None for w in weights):
        return None
    return engine.normalized_heads(qkv, *weights, heads, kv_heads, first.eps, offsets.pop())


class LayerNorm(_Norm):
    """Mean and variance norm over the last dims, times a weight, plus a bias."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        if self.bias is not None and len(self.normalized_shape) == 1:
            return ops.layer_norm(input, self.weight, self.bias, self.eps)
        y: Tensor = engine.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return y


class OffsetLayerNorm(_Norm):
    """Mean and variance norm over the last dim, times 1 + weight, plus a bias (Nemotron, arXiv 2402.16819)."""

    first_weight = 0.0

    def __init__(self, normalized_shape: int, eps: float = 1e-5, device: Any = None, dtype: Any = None) -> None:
        super().__init__(normalized_shape, eps, True, True, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        return ops.layer_norm(input, self.get_parameter("weight") + 1.0, self.get_parameter("bias"), self.eps)
