"""Branches as functions of tensors: torch.cond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .engine import Tensor
from .engine.user_errors import describe
from .errors import ArgumentError

__all__ = ["cond", "while_loop"]
__top_level__ = ["cond", "while_loop"]


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


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """The operands that remain when `cond_fn` of them, a bool or a tensor of one element, is false: they begin as
    `carried_inputs`, and `body_fn` of them gives the next, as many. ArgumentError for other arguments.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise ArgumentError("while_loop: Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise ArgumentError(
            f"while_loop: Expect carried_inputs to be a tuple of tensors, but got {describe(carried_inputs)}."
        )
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        found = body_fn(*carried)
        following = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(following) != len(carried):
            raise ArgumentError(
                f"while_loop: body_fn gave {len(following)} values, where it takes {len(carried)}: return as many"
            )
        carried = following
    return carried
