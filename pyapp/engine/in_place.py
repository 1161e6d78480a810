"""In-place operations and their gradients, as in torch.

Without gradients a kernel writes into the tensor's memory. With gradients the out-of-place op runs on the previous
value; its result is copied into the tensor's memory, and the tensor gets the node of the result. A write through a view
also changes its base, the tensor that owns the memory: the base gets a new node, and all its views get new nodes from
it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any
from weakref import ref

from .autocast import REGIONS
from .autograd import STATE, Described, Node, enable_grad, no_grad
from .launch import MissingKernel, refuse_capture
from .op import OPS, Op, claim_in_place_of, op
from .operands import at_home
from .shape import is_packed
from .tensor import Tensor, make
from .user_errors import MISTAKES, describe, named, names_itself, tell


def tracked(x: Tensor, *sources: Any) -> bool:
    """Whether autograd must record a write of the sources into x."""
    if not STATE.enabled:
        return False
    for given in (x, *sources):
        if isinstance(given, Tensor) and given._requires_grad:
            return True
    return False


def _previous(x: Tensor, copy: bool) -> Tensor:
    """A tensor with the value and the node of x before the write. `copy`: in memory of its own, because the op saves
    it."""
    with no_grad():
        old = x._row_major() if copy else make(x._storage, x._shape, x.strides, x.dtype, x.offset)
    old._requires_grad, old.node = x._requires_grad, x.node
    return old


def _has_no_overlap(x: Tensor) -> bool:
    """Whether each element of a view certainly has its own place in memory: each stride, in ascending order, is larger
    than the reach of the smaller ones."""
    reach = 0
    for stride, size in sorted(zip(x.strides, x._shape, strict=True)):
        if size > 1 and stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _check(x: Tensor, name: str) -> None:
    step: Tensor = x
    while True:
        if step._requires_grad and step.node is None:
            kind = "a leaf" if step is x and x.view_of is None else "a view of a leaf"
            raise RuntimeError(
                f"{name}: {kind} Variable that requires grad is being used in an in-place operation: cannot write in "
                f"place into {kind} that requires a gradient; use the out-of-place form, or write inside no_grad()"
            )
        if step.view_of is None:
            return
        op, args, owner = step.view_of
        base = owner if op.reads_layout else args[0]
        if (
            (op.name == "_windows" and not _has_no_overlap(step))
            or (op.name == "_strided" and not base.is_contiguous())
            or (op.reads_layout and not (_fills_memory(base) and _has_no_overlap(step)))
        ):
            raise RuntimeError(f"{name}: no gradient for a write through this view, {describe(x)}; clone() it first")
        step = base


def _fills_memory(x: Tensor) -> bool:
    """Whether a tensor's elements lie one after the other from the start of its memory, in any order of the dims."""
    return x.offset == 0 and is_packed(x._shape, x.strides)


def _is_one_of_repeated(x: Tensor, owner: Tensor) -> bool:
    """Whether a view of an expanded tensor shows no element of the owner twice, which lies in memory without gaps."""
    return _fills_memory(owner) and _has_no_overlap(x) and owner.dtype is x.dtype


def _copy_in_order(x: Tensor, like: Tensor) -> Tensor:
    """A copy of x with the strides of `like`, which fills its memory."""
    if like.is_contiguous():
        return x._row_major()
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    copied: Tensor = x.permute(order)._row_major().permute([order.index(d) for d in range(like.ndim)])
    return copied


@op(name="_put_view", saves="none")
def _put_view(x: Tensor, part: Tensor, op: Op, rest: tuple[Any, ...]) -> Tensor:
    """A copy of x in which the elements that `op(x, *rest)` views are those of `part`."""
    whole = _copy_in_order(x, x) if op.reads_layout else x._row_major()
    with no_grad():
        op.forward(whole, *rest).copy_(part)
    return whole


_put_view.takes_complex = True


@_put_view.gradient
def _d_put_view(g: Tensor, _: Any, x: Tensor, part: Tensor, op: Op, rest: tuple[Any, ...]) -> Any:
    hole = part.new_zeros(part._shape, dtype=g.dtype) if x.requires_grad else None
    if op.reads_layout:
        g = _copy_in_order(g, x)
    return (
        None if hole is None else _put_view(g, hole, op, rest),
        op(g if op.reads_layout else g.contiguous(), *rest) if part.requires_grad else None,
    )


def _write_directly(x: Tensor, op: Op, args: tuple[Any, ...]) -> bool:
    """Writes the op's result into x by a kernel, and gives x the op's node, where x owns its memory; the op's gradient
    reads no argument. False, and nothing is written, elsewhere."""
    if x.view_of is not None or x.dtype.is_complex or (REGIONS.count and op.autocast is not None):
        return False
    old = _previous(x, False)
    with no_grad():
        if op.claim_in_place is None or not op.claim_in_place(x, *args):
            return False
    _take_node(x, True, Node(op, (old, *args), x))
    return True


def _take_node(owner: Tensor, requires_grad: bool, node: Any) -> None:
    """Gives a tensor that owns its memory the node of what was written, and its views those that follow."""
    before = owner.node
    owner._requires_grad, owner.node = requires_grad, node
    if before is not None and before.retained is not None and node is not None:  # `grad` is of the newest value
        node.retained, before.retained = before.retained, None
    derive_views(owner)


def write_tracked(x: Tensor, name: str, compute: Callable[[Tensor], Tensor], copy: bool = True) -> Tensor:
    """Writes `compute(previous value of x)` into x, and x gets its gradient. `copy`: compute saves its argument."""
    refuse_capture(name)
    _check(x, name)
    if x.view_of is not None and x.view_of[0].reads_layout:
        _derive(x)
    result = compute(_previous(x, copy))
    _check_result(x, name, result)
    result = result if result.dtype is x.dtype else result.to(x.dtype)
    owner, found = x, result
    while owner.view_of is not None:
        op, args, whole = owner.view_of
        if op.name == "_expand" and owner.numel() > args[0].numel() and _is_one_of_repeated(x, whole):
            place = x._shape, x.strides, x.offset
            owner, found = whole, _put_view(_previous(whole, False), result, OPS["_as_strided"], place)
            break
        owner = whole if op.reads_layout else args[0]  # as_strided counts from the start of the memory
        found = _put_view(_previous(owner, False), found, op, tuple(args[1:]))
    with no_grad():
        x.copy_(result)
    if owner._requires_grad and not found._requires_grad:  # of comparisons: there is a gradient, which is 0
        _take_node(owner, True, Node(_NO_SLOPE, (_previous(owner, False),), found))
    else:
        _take_node(owner, found._requires_grad, found.node)
    return x


_NO_SLOPE: Any = Described("Overwrite", lambda g, *_: (g.new_zeros(g._shape),))


def derive_views(owner: Tensor) -> None:
    """Gives the views of a base new nodes after a write, so that their gradients go to the base's new node."""
    for reference in owner.views or ():
        view = reference()
        if view is None or view.view_of is None:
            continue
        _derive(view)


def _derive(view: Tensor) -> None:
    """Gives a view the node of its base. as_strided counts from the start of the memory, so its base is the owner."""
    assert view.view_of is not None
    op, args, owner = view.view_of
    if op.reads_layout and _fills_memory(owner):
        args = (owner, *args[1:])
    view._requires_grad = args[0]._requires_grad
    view.node = Node(op.of_complex() if view.dtype.is_complex else op, args, view) if view._requires_grad else None


def _become_view(x: Tensor, change: Callable[[Tensor], Tensor], shared: bool) -> None:
    """Turns x into `change(x)`, a view of itself. A new tensor takes the previous shape and node of x; x and its former
    views become views of that tensor. `shared`: others than the caller may have x.
    """
    was = make(x._storage, x._shape, x.strides, x.dtype, x.offset)
    was._requires_grad, was.node, was.view_of = x._requires_grad, x.node, x.view_of
    view = change(was)
    if view is was:
        return
    owner = was.view_of[2] if was.view_of else was
    others = list((x if owner is was else owner).views or ())
    for reference in others:
        other = reference()
        if other is not None and other.view_of is not None:
            op, args, _ = other.view_of
            other.view_of = (op, (was, *args[1:]) if args[0] is x else args, owner)
    if owner is was:
        owner.views, x.views = [*others, ref(x)], None
    else:  # derive_views goes through this list: a tensor must come before its views
        owner.views = [r for known in others for r in ((ref(was), known) if known() is x else (known,))]
    x.point_to(view._storage, view._shape, view.strides, view.dtype, view.offset)
    x.view_of, x.node = view.view_of, view.node
    if shared and x._requires_grad:
        _keep_former(x, was)


def _keep_former(x: Tensor, was: Tensor) -> None:
    """Gradients of what x went into read the shape that it had: their nodes have `was` in its place. Nothing but the
    garbage collector knows these nodes; to ask it takes milliseconds.
    """
    given = [each for each in gc.get_referrers(x) if type(each) is tuple]
    for node in gc.get_referrers(*given) if given else ():
        if isinstance(node, Node) and node.args is not None and any(each is x for each in node.args):
            node.args = tuple(was if each is x else each for each in node.args)


class _Counted:
    count = named(lambda self: sys.getrefcount(self))


def _count_one() -> int:
    alone = _Counted()
    return int(alone.count())


_ALONE = _count_one()  # references to what a caller and a method, wrapped by `named`, hold


def _finish(x: Tensor, name: str, result: Tensor) -> Tensor:
    """Copies `result` into x. An error if it does not fit."""
    _check_result(x, name, result)
    x.copy_(result)
    return x


def _check_result(x: Tensor, name: str, result: Tensor) -> None:
    if result.device is not x.device:
        raise RuntimeError(f"{name}: tensors are on {x.device} and {result.device}; move them to one with .to(device)")
    if result._shape != x._shape:
        raise ValueError(
            f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape {list(result.shape)}: the "
            f"result {describe(result)} does not fit into {describe(x)}"
        )
    if result.dtype.category > x.dtype.category or name == "abs_" and x.dtype.is_complex:
        raise TypeError(
            f"{name}: result type {result.dtype.name} can't be cast to the desired output type {x.dtype.name}: the "
            f"result is {result.dtype}, which does not go into {describe(x)}"
        )


def in_place(name: str, operation: Any, public: Any) -> Any:
    """The method `name_` of an operation, which is an Op or a function. `public` accepts torch's names for arguments.

    Without gradients, an operation with an in-place claim (an op's, or one by the name of a function) writes directly;
    other operations make a result, which is copied. With gradients, the operation gets a copy of the previous value if
    its gradient may read it.
    """
    own = name + "_"
    op = operation if isinstance(operation, Op) else None

    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            call = public if kwargs else operation
            if STATE.enabled:
                for argument in (x, *args, *kwargs.values()):
                    if isinstance(argument, Tensor) and argument._requires_grad:
                        refuse_capture(own)
                        _check(x, own)
                        keeps = op is None or op.vjp is None or op.saves_inputs
                        if op is not None and not (keeps or kwargs) and _write_directly(x, op, args):
                            return x
                        return write_tracked(x, own, lambda old: call(old, *args, **kwargs), keeps)
            if op is None:
                claim = claim_in_place_of(name)
                if claim is not None and claim(x, *args, **kwargs):
                    return x
            elif not kwargs:
                if op.claim_in_place is not None and op.claim_in_place(x, *args):
                    return x
            elif (
                op.by_name_in_place is not None
                and kwargs.keys() == {"alpha"}
                and op.by_name_in_place(x, *args, **kwargs)
            ):
                return x
            with no_grad():
                return _finish(x, own, call(x, *args, **kwargs))
        except MissingKernel:  # in place; the op itself may be computed in another way
            if tracked(x, *args, *kwargs.values()):
                return write_tracked(x, own, lambda old: call(old, *args, **kwargs))
            with no_grad():
                return _finish(x, own, call(x, *args, **kwargs))
        except MISTAKES as error:
            given = (x, *args)
            if (moved := at_home(given)) is not given and moved[0] is x:
                return method(*moved, **kwargs)
            if (found := tell(error, own, given, kwargs)) is None:
                raise
            return found

    method.__name__ = own
    method.__doc__ = f"`{name}`, in place."
    method.operation = public  # type: ignore[attr-defined]  # for its signature
    method.in_place_of = operation, public  # type: ignore[attr-defined]
    return names_itself(method)


def shape_in_place(name: str, change: Any) -> Any:
    """The method `name_` of a function that returns a view of all elements: the tensor itself takes the view's
    shape."""
    own = name + "_"

    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        refuse_capture(own)
        if STATE.enabled:
            _check(x, own)
        if x.requires_grad and x.node is None:
            view = change(x, *args, **kwargs)
            x.point_to(view._storage, view._shape, view.strides, view.dtype, view.offset)
        else:
            shared = sys.getrefcount(x) > _ALONE
            with enable_grad():
                _become_view(x, lambda was: change(was, *args, **kwargs), shared)
        x._storage.version += 1
        return x

    method.__name__ = own
    method.__doc__ = f"`{name}`, in place: the tensor keeps its memory and changes its shape."
    method.operation = change  # type: ignore[attr-defined]
    return named(method)


def check_writable(x: Tensor, name: str) -> None:
    """RuntimeError if x is expanded: several of its elements are one place in memory."""
    if 0 in x.strides and 0 not in x._shape and any(n > 1 and s == 0 for n, s in zip(x._shape, x.strides, strict=True)):
        raise RuntimeError(f"{name}: {describe(x)} is expanded: several elements share one place; clone() it first")
