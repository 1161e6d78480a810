"""Automatic differentiation, by torch.autograd's names; and checkpoint, torch.utils.checkpoint's."""

from __future__ import annotations

from .engine.autograd import backward, enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from .engine.checkpoint import checkpoint, checkpoint_sequential
from .engine.function import Function, once_differentiable
from .engine.gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function", "backward", "checkpoint", "checkpoint_sequential", "enable_grad", "grad", "gradcheck", "gradgradcheck",
    "is_grad_enabled", "no_grad", "once_differentiable", "set_grad_enabled",
]  # fmt: skip
