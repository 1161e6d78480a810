"""Function: an op of the user's own, with its gradient, in torch's form.

class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x

y = Cube.apply(x)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .autograd import SERVED, STATE, Described, Edge, Node, RemovableHandle, edge_of, no_grad
from .grad_mode import WATCHERS
from .graph_nodes import register_hook
from .in_place import derive_views
from .left_nodes import blank
from .operands import unbroadcast
from .saved_tensors import Saved, connected, current_hooks
from .tensor import Tensor, make
from .user_errors import describe


class Gradients(dict[int, Tensor]):
    """The gradients of a node's outputs, for those that have one. Two of these objects can be added."""

    dtype = None
    dense = True

    def __add__(self, other: Gradients) -> Gradients:
        both = Gradients(self)
        for key, gradient in other.items():
            both[key] = both[key] + gradient if key in both else gradient
        return both

    def _accumulate(self, other: Gradients) -> None:
        """The sum, in place of this one."""
        self.update(self + other)


class _FunctionNode(Node):
    """The node of a Function. What its context saved is freed with it; one that saved nothing serves later passes."""

    __slots__ = ("context",)

    context: Context

    def release(self) -> bool:
        if self.context._saved or self.args is None:
            self.drop()
            return False
        self.versions = SERVED
        self.args = tuple([_without_memory(a, edge) for a, edge in zip(self.args, self.edges, strict=True)])
        return True

    def drop(self) -> None:
        super().drop()
        self.context._saved = []


def _without_memory(argument: Any, edge: Edge | None) -> Any:
    """An argument of which only the shape is still needed."""
    is_needed = not isinstance(argument, Tensor) or argument is edge or argument.dtype.is_quantized
    return argument if is_needed else blank(argument)


class OutputNode(Node):
    """Passes the gradient of one output to the node of several. Users see it as that node."""

    __slots__ = ()

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        whole = self.edges[0] if self.edges else None
        return whole.next_functions if isinstance(whole, Node) else ()

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As Node's, with the gradients of all arguments, and of those outputs that have one."""
        whole = self.edges[0]
        assert isinstance(whole, Node)
        return register_hook(whole, lambda inputs, outputs: hook(inputs, tuple(outputs[0].values())))


def output_of(node: Node, index: int, value: Tensor) -> Tensor:
    """The tensor that is output `index` of a node of several: over the memory of `value`."""
    result = make(value._storage, value._shape, value.strides, value.dtype, value.offset)
    result._requires_grad = True
    described = Described(node.op.name, lambda gradient, _, *args: (Gradients({index: gradient}),))
    result.node = OutputNode(described, (), result)  # type: ignore[arg-type]
    result.node.edges = (node,)
    return result


class Context:
    """`ctx`: what forward leaves for backward. Anything may be set on it; tensors go through save_for_backward."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        # (tensor, version, which output it is or -1); in place of the tensor (Saved, its edge) under hooks
        self._saved: list[tuple[Any, int, int]] = []
        self._constant: set[int] = set()
        self._dirty: set[int] = set()
        self._materialize = True
        self._node: Node | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Inputs and outputs that backward reads as `saved_tensors`; writing them in place meanwhile is an error."""
        self._saved = [(t, 0 if t is None else t._storage.version, -1) for t in tensors]

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """What torch's `jvp` reads. Forward mode is that of `backward` here, so nothing needs to be kept."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that save_for_backward was given."""
        found = []
        for tensor, version, output in self._saved:
            if isinstance(tensor, tuple):
                saved, edge = tensor
                tensor = connected(saved.value(), edge, STATE.enabled)
            elif tensor is not None and tensor._storage.version != version:
                raise RuntimeError(
                    f"backward: a saved tensor, {describe(tensor)}, was changed in place since; clone() it first"
                )
            if tensor is not None and output >= 0 and self._node is not None:
                tensor = output_of(self._node, output, tensor)
            found.append(tensor)
        return tuple(found)

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """These outputs have no gradient."""
        self._constant |= {id(t) for t in outputs}

    def mark_dirty(self, *inputs: Tensor) -> None:
        """These inputs were written in place by forward, which returns them: they are outputs from then on."""
        self._dirty |= {id(t) for t in inputs}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for outputs that nothing depends on."""
        self._materialize = value

    def _finish(self, node: Node, outputs: list[Any]) -> None:
        """Outputs among the saved are kept without their node: it holds this context."""
        places = {id(t): i for i, t in enumerate(outputs)}
        self._saved = [
            (t.detach(), version, places[id(t)]) if t is not None and id(t) in places else (t, version, output)
            for t, version, output in self._saved
        ]
        self._node = node
        hooks = current_hooks() if WATCHERS.count else None
        if hooks is not None:
            self._saved = [
                (t, version, output) if t is None else (_packed(t, hooks), version, output)
                for t, version, output in self._saved
            ]


def _packed(tensor: Tensor, hooks: Any) -> tuple[Saved, Edge | None]:
    return Saved(tensor, hooks), edge_of(tensor) if tensor._requires_grad else None


def _kept(argument: Any, ctx: Context) -> Any:
    """What a node keeps of an argument of a Function, of which it needs the shape."""
    if not isinstance(argument, Tensor):
        return argument
    if WATCHERS.count and not argument.dtype.is_quantized:
        return blank(argument)
    return argument.detach() if id(argument) in ctx._dirty else argument  # which would lead back to the node


class Function:
    """Base of user-defined functions: static `forward(ctx, *args)` and `backward(ctx, *gradients)`, or `forward(*args)`
    with `setup_context(ctx, inputs, output)`; called as `apply(*args)`. forward runs without a tape. backward gives a
    gradient (or None) for each argument; its ops are differentiated in turn under create_graph.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a Function needs a static forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError("a Function that is differentiated needs a static backward(ctx, *gradients)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves for backward; with it, forward takes no ctx."""

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward; the result leads back to the arguments that require gradients. Arguments given by name take
        their places among the others.
        """
        if kwargs:
            args = _by_position(cls, args, kwargs)
        recording = STATE.enabled and any(isinstance(a, Tensor) and a.requires_grad for a in args)
        needs = tuple(recording and isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx = Context(needs)
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        if not recording:
            return output
        several = isinstance(output, (tuple, list))
        outputs = list(output) if several else [output]
        _check_dirty(cls.__name__, ctx, args, outputs)
        results = _attach(cls, ctx, args, needs, outputs)
        return tuple(results) if several else results[0]


def _by_position(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call as forward takes them by position, up to the last one that was given."""
    first = () if cls.setup_context is not Function.setup_context else (None,)  # ctx
    bound = inspect.signature(cls.forward).bind(*first, *args, **kwargs)
    if bound.kwargs:
        raise TypeError(f"{cls.__name__}.apply: forward takes {', '.join(bound.kwargs)} by name only; apply passes all "
                        "arguments by position")  # fmt: skip
    return bound.args[len(first) :]


def _attach(
    cls: type[Function], ctx: Context, args: tuple[Any, ...], needs: tuple[bool, ...], outputs: list[Any]
) -> list[Any]:
    shapes = [(t._shape, t.dtype) if isinstance(t, Tensor) else None for t in outputs]

    def vjp(gradients: Gradients, _: Any, *args: Any) -> Any:
        given = [gradients.get(i) for i in range(len(shapes))]
        if ctx._materialize:
            some = next(iter(gradients.values()))
            given = [
                some.new_zeros(shape[0], dtype=shape[1]) if g is None and shape else g
                for g, shape in zip(given, shapes, strict=True)
            ]
        found = cls.backward(ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        return _checked(cls.__name__, found, args, needs)

    described = Described(cls.__name__, vjp)
    first = next(t for t in outputs if isinstance(t, Tensor))
    node = _FunctionNode(described, (), first)  # type: ignore[arg-type]
    node.context = ctx
    node.edges = tuple(edge_of(a) if isinstance(a, Tensor) and a._requires_grad else None for a in args)
    node.args = tuple(_kept(a, ctx) for a in args)
    ctx._finish(node, outputs)
    results = []
    for i, t in enumerate(outputs):
        if not isinstance(t, Tensor) or not t.dtype.has_gradient or id(t) in ctx._constant:
            results.append(t)
            continue
        made = output_of(node, i, t)
        if id(t) in ctx._dirty:  # itself, with another past
            t._requires_grad, t.node = True, made.node

            derive_views(t)
        results.append(t if id(t) in ctx._dirty else made)
    return results


def _check_dirty(name: str, ctx: Context, args: tuple[Any, ...], outputs: list[Any]) -> None:
    """What forward wrote is an input that it returns, and neither a leaf that wants a gradient nor a view."""
    dirty = [a for a in args if id(a) in ctx._dirty]
    if len(dirty) < len(ctx._dirty) or any(all(a is not out for out in outputs) for a in dirty):
        raise RuntimeError(f"{name}: what is marked dirty must be an input, and be returned")
    for tensor in dirty:
        if tensor.view_of is not None:
            raise RuntimeError(f"{name}: {describe(tensor)} is a view, which a Function cannot write; clone() it first")
        if tensor.requires_grad and tensor.node is None:
            raise RuntimeError(f"{name}: cannot write in place into a leaf that requires a gradient")


def _checked(name: str, gradients: tuple[Any, ...], args: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
    """A gradient for each argument, in its shape and dtype; what backward gave for one that needs none is dropped."""
    if len(gradients) < len(args) or any(g is not None for g in gradients[len(args) :]):
        raise RuntimeError(f"{name}.backward gave {len(gradients)} gradients for {len(args)} arguments")
    found = list(gradients[: len(args)])
    for i, (gradient, argument) in enumerate(zip(gradients, args, strict=False)):
        if gradient is None or not isinstance(argument, Tensor):
            continue
        if not needs[i]:
            found[i] = None
            continue
        if not isinstance(gradient, Tensor) or not _expands(argument, gradient):
            raise RuntimeError(
                f"{name}.backward: gradient {i} is {describe(gradient)}, the argument {describe(argument)}"
            )
        if gradient._shape != argument._shape:
            gradient = unbroadcast(gradient, argument)
        found[i] = gradient if gradient.dtype is argument.dtype else _of_kind(gradient, argument)
    return tuple(found)


def _of_kind(gradient: Tensor, argument: Tensor) -> Tensor:
    """A gradient in the dtype of its argument, as torch gives it; of sparse gradients and those of integers nothing
    changes."""
    kind = argument.dtype
    return gradient.to(kind) if kind.has_gradient and gradient.dense and not kind.is_quantized else gradient


def _expands(argument: Tensor, gradient: Tensor) -> bool:
    """Whether the gradient has the argument's shape, or that of its broadcast form."""
    if gradient._shape == argument._shape:
        return True
    ends = gradient._shape[gradient.ndim - argument.ndim :]
    return gradient.ndim >= argument.ndim and all(n in (1, m) for n, m in zip(argument._shape, ends, strict=True))


class _Once(Function):
    """A gradient that has none itself."""

    @staticmethod
    def forward(ctx: Context, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        raise RuntimeError("once_differentiable: this Function has no second derivative (create_graph=True)")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward that is not made of ops: it runs without recording, and to differentiate what it gives for
    gradients that depend on something is an error.
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            found = backward(ctx, *gradients)
        if not STATE.enabled or not any(isinstance(g, Tensor) and g._requires_grad for g in gradients):
            return found
        several = isinstance(found, tuple)
        marked = [
            _Once.apply(g.detach().requires_grad_()) if isinstance(g, Tensor) and g.dtype.has_gradient else g
            for g in (found if several else (found,))
        ]
        return tuple(marked) if several else marked[0]

    return wrapped


__all__ = ["Context", "Described", "Edge", "Function", "Gradients", "once_differentiable", "output_of"]
