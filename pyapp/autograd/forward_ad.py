"""Derivatives along tangents, by torch.autograd.forward_ad's names:

    with dual_level():
        y = function(make_dual(x, tangent))
        primal, along = unpack_dual(y)

There is no forward mode: ops record their graph, and `unpack_dual` takes the gradient of a gradient in it. The numbers
are those of forward mode for ops that can be differentiated twice. The cost is that of two backward passes for each
call of `unpack_dual`, and the memory that of the graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..engine.autograd import enable_grad, grad, is_grad_enabled
from ..engine.ops import zeros_like
from ..engine.tensor import Tensor
from ..engine.thread_local import ThreadLocal
from ..engine.user_errors import describe
from ..func import leads_out


class UnpackedDualTensor(NamedTuple):
    """A tensor, and its derivative along the tangents; None where it depends on no dual tensor."""

    primal: Tensor
    tangent: Tensor | None


class _Thread(ThreadLocal):
    """The dual tensors of the level of this thread with their tangents; None outside of levels."""

    duals: list[tuple[Tensor, Tensor]] | None = None


_thread = _Thread()


def enter_dual_level() -> int:
    """Begins a level, which is number 0. RuntimeError inside another one: they cannot be nested."""
    if _thread.duals is not None:
        raise RuntimeError("enter_dual_level: there is a level already; they cannot be nested, use func.jvp for that")
    _thread.duals = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the level. Its dual tensors have no tangents any more."""
    if _thread.duals is None or level not in (None, 0):
        raise RuntimeError("exit_dual_level: there is no such level")
    for dual, _ in _thread.duals:
        if dual.node is None:
            dual.is_closed = True  # outer derivatives do not depend on it
    _thread.duals = None


class dual_level:
    """A context that is a level: tensors that are made dual in it have their tangents until its end."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """The tensor with a tangent of its shape and dtype. It shares the tensor's memory and requires a gradient, whether
    the tensor does or not. RuntimeError outside of a level, inside no_grad, and where the tangent does not fit.
    """
    if _thread.duals is None or level not in (None, 0):
        raise RuntimeError("make_dual: there is no level: call it inside `with dual_level():`")
    if not is_grad_enabled():
        raise RuntimeError("make_dual: derivatives come from the graph of the ops, which no_grad does not record")
    for what in (tensor, tangent):
        if not isinstance(what, Tensor) or not what.dtype.has_gradient:
            raise ValueError(f"make_dual: takes floating-point and complex tensors, got {describe(what)}")
    if tensor.shape != tangent.shape or tensor.dtype is not tangent.dtype:
        raise RuntimeError(f"make_dual: the tangent is {describe(tangent)}, the tensor {describe(tensor)}")
    dual = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
    _thread.duals.append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor and its tangent. Both lead to the leaves that require gradients beside the dual tensors, and to
    nothing where there are none. Hooks on gradients run.
    """
    duals = _thread.duals
    if not duals or level not in (None, 0) or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    with enable_grad():
        weights = zeros_like(tensor).requires_grad_()
        inputs = [dual for dual, _ in duals]
        first: Any = grad(tensor, inputs, weights, retain_graph=True, create_graph=True, allow_unused=True)
        found = [(slope, along) for slope, (_, along) in zip(first, duals, strict=True) if slope is not None]
        moved = None
        if found:
            moved = zeros_like(tensor)
            moving = [(slope, along) for slope, along in found if slope.requires_grad]
            if moving:
                slopes, tangents = [slope for slope, _ in moving], [along for _, along in moving]
                (moved,) = grad(slopes, weights, tangents, retain_graph=True, create_graph=True, materialize_grads=True)
    own = {id(weights), *(id(dual) for dual in inputs if dual.node is None)}
    primal = tensor if leads_out(tensor, own) else tensor.detach()
    if moved is not None and not leads_out(moved, own):
        moved = moved.detach()
    return UnpackedDualTensor(primal, moved)


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
