"""Writing in place: with kernels where nothing is differentiated; else so that the tape, and every view of the memory,
knows of it, as in torch.

A write under autograd is the out-of-place op on what the tensor was, whose result goes into the tensor's memory and
whose node becomes the tensor's. A write through a view is one into the tensor that it is a view of, from which all
views are then derived again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from ..autograd import STATE, Node, enable_grad, no_grad
from ..launch import refuse_capture
from ..op import Op, describe, primitive
from ..tensor import Tensor, make


def tracked(x: Tensor, *sources: Any) -> bool:
    """Whether a write of the sources into x is part of a gradient computation."""
    return STATE.enabled and (x.requires_grad or any(isinstance(s, Tensor) and s.requires_grad for s in sources))


def _twin(x: Tensor, copy: bool) -> Tensor:
    """What x was: its place in the graph, over memory of its own where the op keeps it."""
    with no_grad():
        old = x.clone() if copy else make(x.storage, x.shape, x.strides, x.dtype, x.offset, x.device)
    old._requires_grad, old.node = x._requires_grad, x.node
    return old


def _apart(x: Tensor) -> bool:
    """Whether no two elements of a view, sorted by their strides, can share a place in memory."""
    reach = 0
    for stride, size in sorted(zip(x.strides, x.shape, strict=True)):
        if size > 1 and stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _check(x: Tensor, name: str) -> None:
    owner = x.seen_through[2] if x.seen_through else x
    if owner.requires_grad and owner.node is None or (x.requires_grad and x.node is None):
        kind = "a leaf" if x.seen_through is None else "a view of a leaf"
        raise RuntimeError(
            f"{name}: cannot write in place into {kind} that requires a gradient; use the out-of-place form, or write "
            "inside no_grad()"
        )
    step: Tensor | None = x
    while step is not None and step.seen_through is not None:
        op, args, _ = step.seen_through
        dense = args[0].is_contiguous()
        if (
            op.name == "_windows"
            or (op.name == "_strided" and not dense)
            or (op.name == "_as_strided" and not (dense and args[0].offset == 0 and _apart(step)))
        ):
            raise RuntimeError(f"{name}: cannot follow a write through this view, {describe(x)}; clone() it first")
        step = args[0]


@primitive(name="_put_view", saves="none", method=False)
def _put_view(x: Tensor, part: Tensor, op: Op, rest: tuple[Any, ...]) -> Tensor:
    """x with `part` in the place that a view op shows."""
    whole = x.clone()
    with no_grad():
        op.forward(whole, *rest).copy_(part)
    return whole


@_put_view.gradient
def _d_put_view(g: Tensor, _: Any, x: Tensor, part: Tensor, op: Op, rest: tuple[Any, ...]) -> Any:
    hole = part.new_zeros(part.shape, dtype=g.dtype) if x.requires_grad else None
    return (
        None if hole is None else _put_view(g, hole, op, rest),
        op(g.contiguous(), *rest) if part.requires_grad else None,
    )


def write_tracked(x: Tensor, name: str, compute: Callable[[Tensor], Tensor], copy: bool = True) -> Tensor:
    """x, holding what `compute(what x was)` gives, with its gradient. `copy`: compute keeps its argument."""
    from .index import copy_

    refuse_capture(name)
    _check(x, name)
    result = compute(_twin(x, copy))
    if result.shape != x.shape:
        raise ValueError(f"{name}: the result {describe(result)} does not fit into {describe(x)}")
    if result.dtype.category > x.dtype.category:
        raise TypeError(f"{name}: the result is {result.dtype}, which does not go into {describe(x)}")
    result = result if result.dtype is x.dtype else result.to(x.dtype)
    owner, found = x, result
    while owner.seen_through is not None:
        op, args, _ = owner.seen_through
        owner = args[0]
        found = _put_view(_twin(owner, False), found, op, tuple(args[1:]))
    with no_grad():
        copy_(x, result)
    owner._requires_grad, owner.node = found._requires_grad, found.node
    derive_views(owner)
    return x


def derive_views(owner: Tensor) -> None:
    """Views show what their owner is now: their gradients go to its new node."""
    for reference in owner.views or ():
        view = reference()
        if view is None or view.seen_through is None:
            continue
        op, args, _ = view.seen_through
        view._requires_grad = args[0]._requires_grad
        view.node = Node(op, args, view) if view._requires_grad else None


# -- other shapes of the same memory, in place


def _reseat(x: Tensor, change: Callable[[Tensor], Tensor]) -> None:
    """Makes x the view of itself that `change` gives. What it was keeps its place in the graph: x, and all that were
    views of x, are now views of that.
    """
    was = make(x.storage, x.shape, x.strides, x.dtype, x.offset, x.device)
    was._requires_grad, was.node, was.seen_through = x._requires_grad, x.node, x.seen_through
    view = change(was)
    if view is was:
        return
    owner = was.seen_through[2] if was.seen_through else was
    others = list((x if owner is was else owner).views or ())
    for reference in others:
        other = reference()
        if other is not None and other.seen_through is not None:
            op, args, _ = other.seen_through
            other.seen_through = (op, (was, *args[1:]) if args[0] is x else args, owner)
    if owner is was:
        owner.views, x.views = [*others, ref(x)], None
    else:  # views are derived again in this order, each after what it is a view of
        owner.views = [r for known in others for r in ((ref(was), known) if known() is x else (known,))]
    x.shape, x.strides, x.seen_through, x.node = view.shape, view.strides, view.seen_through, view.node


def _shape_in_place(name: str) -> Any:
    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        refuse_capture(name + "_")
        change = getattr(Tensor, name)
        if STATE.enabled:
            _check(x, name + "_")
        if x.requires_grad and x.node is None:
            view = change(x, *args, **kwargs)
            x.shape, x.strides = view.shape, view.strides
        else:
            with enable_grad():
                _reseat(x, lambda was: change(was, *args, **kwargs))
        x.storage.version += 1
        return x

    method.__name__ = name + "_"
    method.__doc__ = f"`{name}` of the tensor itself: the same memory, from now on in another shape."
    return method


for _name in ("squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"):
    setattr(Tensor, _name + "_", _shape_in_place(_name))

# Ops that exist with a trailing underscore: those whose gradients read what the tensor was, and the others.
_KEEP = """
    mul div pow remainder fmod clamp log abs sin cos log2 log10 log1p erf elu lgamma square masked_fill lerp
    addcmul addcdiv silu leaky_relu hardtanh nan_to_num
    acos acosh addbmm addmm asin asinh atan atan2 atanh baddbmm clip copysign cosh cumprod cumsum digamma erfc exp2
    float_power hypot ldexp logaddexp logit polygamma rad2deg deg2rad sinc sinh xlogy clamp_min clamp_max sgn absolute
    frac renorm
""".split()
_FORGET = """
    add sub floor_divide neg exp sqrt rsqrt tan expm1 logical_not erfinv tanh sigmoid relu floor ceil round
    bitwise_left_shift bitwise_right_shift bitwise_not eq ne lt le gt ge gcd lcm heaviside logical_and logical_or
    logical_xor trunc sign reciprocal index_add scatter scatter_add bitwise_and bitwise_or bitwise_xor tril triu
""".split()


def in_place(name: str, keeps: bool) -> Any:
    """The in-place form of a method of Tensor."""

    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        from .index import copy_

        if tracked(x, *args, *kwargs.values()):
            return write_tracked(x, name + "_", lambda old: getattr(old, name)(*args, **kwargs), keeps)
        with no_grad():
            result = getattr(x, name)(*args, **kwargs)
        if result.shape != x.shape:
            raise ValueError(f"{name}_: the result {describe(result)} does not fit into {describe(x)}")
        if result.dtype.category > x.dtype.category:
            raise TypeError(f"{name}_: the result is {result.dtype}, which does not go into {describe(x)}")
        return copy_(x, result)

    method.__name__ = name + "_"
    method.__doc__ = f"`{name}`, in place."
    return method


for _name in (*_KEEP, *_FORGET):
    setattr(Tensor, _name + "_", in_place(_name, _name in _KEEP))
for _name, _dunder in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "truediv"), ("pow", "pow"), ("remainder", "mod"),
    ("floor_divide", "floordiv"), ("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor"),
):  # fmt: skip
    setattr(Tensor, f"__i{_dunder}__", getattr(Tensor, _name + "_"))
