"""Optimisers and learning-rate schedules, by torch.optim's names."""

from __future__ import annotations

from .nn import lr_scheduler
from .nn.optim import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Lion", "Optimizer", "RMSprop", "lr_scheduler"]
