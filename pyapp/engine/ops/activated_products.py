"""A linear layer and its activation in one step, for a device that has a kernel for both together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtype as _dtype
from ..autocast import converted
from ..autograd import is_grad_enabled
from ..declare import function
from ..op import op
from ..tensor import Tensor
from .activation import gelu, relu
from .linalg.products import linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu_tanh": lambda x: gelu(x, "tanh")}


def _by_autocast(fused: Any, args: tuple[Any, ...], dtype: Any) -> Any:
    x, weight, bias, activation = args
    kind = _dtype.float32 if weight.dtype.is_quantized else dtype
    return fused(*converted((x, weight, bias), kind), activation)


@op(autocast=_by_autocast)
def _linear_activated(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    return ACTIVATIONS[activation](linear(x, weight, bias))


@function()
def linear_activated(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "relu") -> Tensor:
    """activation(x weightᵀ + bias) for x (..., K), weight (N, K) and bias (N,) → (..., N), as by linear; "relu" or
    "gelu_tanh" (gelu by its tanh approximation). With gradients these are two steps: backward needs what is between.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"linear_activated: activation is {activation!r:.50}, expected {' or '.join(ACTIVATIONS)}")
    if is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias)):
        return ACTIVATIONS[activation](linear(x, weight, bias))
    return _linear_activated(x, weight, bias, activation)
