"""Automatic differentiation, by torch.autograd's names; and checkpoint, torch.utils.checkpoint's."""

from __future__ import annotations

from types import SimpleNamespace

from .engine import derivatives
from .engine.autograd import backward, enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from .engine.checkpoint import checkpoint, checkpoint_sequential
from .engine.function import Function, once_differentiable
from .engine.gradcheck import gradcheck, gradgradcheck

_FUNCTIONAL = ("hessian", "hvp", "jacobian", "jvp", "vhp", "vjp")
functional = SimpleNamespace(**{name: getattr(derivatives, name) for name in _FUNCTIONAL})

__all__ = [
    "Function", "backward", "checkpoint", "checkpoint_sequential", "enable_grad", "functional", "grad", "gradcheck",
    "gradgradcheck", "is_grad_enabled", "no_grad", "once_differentiable", "set_grad_enabled",
]  # fmt: skip
