"""Automatic differentiation, by torch.autograd's names; and checkpoint, torch.utils.checkpoint's."""

from __future__ import annotations

import importlib
from typing import Any

from ..engine.autograd import backward, enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from ..engine.autograd_function import Function, once_differentiable
from ..engine.gradcheck import gradcheck, gradgradcheck
from ..engine.recompute import checkpoint, checkpoint_sequential

__all__ = [
    "Function", "backward", "checkpoint", "checkpoint_sequential", "enable_grad", "grad", "gradcheck", "gradgradcheck",
    "is_grad_enabled", "no_grad", "once_differentiable", "set_grad_enabled",
]  # fmt: skip


class set_detect_anomaly:
    """No effect, as function and as context manager: an error of backward() names the op in any case."""

    def __init__(self, mode: bool = True, check_nan: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


detect_anomaly = set_detect_anomaly


def Variable(data: Any, requires_grad: bool = False) -> Any:
    """A tensor on the same memory that is a leaf, as in torch."""
    return data.detach().requires_grad_(requires_grad)


def __getattr__(name: str) -> Any:
    if name in ("function", "functional", "graph", "profiler"):
        return importlib.import_module(f".{name}", __name__)
    if name == "inference_mode":
        return importlib.import_module("..engine.ops.torch_synonyms", __name__).inference_mode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
