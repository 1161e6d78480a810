"""torch.nn.parameter's names."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor
from .module import Buffer, Parameter


def is_lazy(param: Any) -> bool:
    """Whether it is a lazy layer's parameter that has no elements yet."""
    return isinstance(param, Tensor) and param.is_parameter and not param.numel()


__all__ = ["Buffer", "Parameter", "is_lazy"]
