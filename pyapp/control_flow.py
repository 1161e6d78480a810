"""Branches as functions of tensors: torch.cond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .engine import Tensor
from .engine.user_errors import describe
from .errors import ArgumentError

__all__ = ["cond"]
__top_level__ = ["cond"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """true_fn(*operands) where `pred`, a bool or a tensor of one element, is true, else false_fn(*operands). The value
    is read, and one branch runs. ValueError and RuntimeError for other arguments.
    """
    if not isinstance(pred, (bool, int, float, Tensor)):
        raise ArgumentError(f"cond: Expected pred to be bool or tensor, but got {describe(pred)}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise ArgumentError(f"cond: Expected pred to be bool or single-element tensor, but got {describe(pred)}.")
    if not callable(true_fn) or not callable(false_fn):
        raise ArgumentError("cond: Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise ArgumentError(f"cond: Expect operands to be a tuple of tensors, but got {describe(operands)}.")
    return (true_fn if bool(pred) else false_fn)(*operands)
