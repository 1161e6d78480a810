"""Modules, layers, activations, optimisers and schedules."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .layers import Embedding, KVCache, LayerNorm, Linear, RMSNorm
from .module import Module, ModuleList, Parameter, Sequential

if TYPE_CHECKING:
    from .activations import ReLU, Sigmoid, SiLU, Softmax, Tanh
    from .optim import SGD, AdamW, Optimizer, clip_grad_norm_
    from .schedule import Schedule, constant, warmup_cosine, warmup_linear

__all__ = [
    "SGD", "AdamW", "Embedding", "KVCache", "LayerNorm", "Linear", "Module", "ModuleList", "Optimizer", "Parameter",
    "RMSNorm", "ReLU", "Schedule", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh", "clip_grad_norm_", "constant",
    "warmup_cosine", "warmup_linear",
]  # fmt: skip

# Imported when first asked for: the page writes a story without them.
_LATER = {
    **dict.fromkeys(("ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh"), "activations"),
    **dict.fromkeys(("AdamW", "Optimizer", "SGD", "clip_grad_norm_"), "optim"),
    **dict.fromkeys(("Schedule", "constant", "warmup_cosine", "warmup_linear"), "schedule"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
