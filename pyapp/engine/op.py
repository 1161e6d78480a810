"""Ops: one definition, optional vjp, kernels by device; and their dispatch, which is the hot path.

    @op(vjp=lambda g, y, x: (g * y,), saves="output")
    def exp(x): ...                      # primitives have NumPy bodies, registered for "cpu"

    @op()
    def rms_norm(x, weight, epsilon): ...   # a definition in other ops: meaning, reference and default gradient

    @rms_norm.kernel("cpu")
    def _(x, weight, epsilon): ...       # may return NotImplemented: then the definition runs

A vjp is `vjp(grad, output, *args) -> gradients aligned with args` (None where there is none), written in ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from .autograd import STATE, Node
from .device import cpu
from .mistakes import MISTAKES, tell
from .tensor import Tensor

Kernel = Callable[..., Any]
OPS: dict[str, Op] = {}


class Op:
    """A named operation on tensors; call it like a function. Its first argument is a Tensor (or a list of them)."""

    def __init__(
        self, name: str, definition: Kernel | None, vjp: Kernel | None, saves: str, view: bool, module: str = ""
    ) -> None:
        self.name = self.__name__ = name
        self.definition = definition
        self.vjp = vjp
        self.saves_inputs = saves in ("inputs", "both")
        self.saves_output = saves in ("output", "both")
        self.reads: Callable[[tuple[Any, ...]], tuple[int, ...]] | None = None  # see read_crosswise
        self.view = view
        self.slices = False  # the result is the part of the first argument that the others tell, each element once
        self.kernels: dict[str, Kernel] = {}
        self.by_name: Kernel | None = None  # what takes a call with keyword arguments, where the op alone does not
        self.fast: Kernel | None = None  # the CPU's kernel where there is one: what a token's hundred calls go through
        self.parameters: tuple[tuple[str, Any], ...] = ()
        self.module = module
        known = OPS.get(name)
        if known is not None and known.module.startswith("pyapp.") and not module.startswith("pyapp."):
            raise ValueError(f"op: there is an op {name!r} in {known.module} already; give yours a name of its own")
        OPS[name] = self

    def kernel(self, device: str) -> Callable[[Kernel], Kernel]:
        """Registers what runs this op on a device.

        It may return NotImplemented for layouts or dtypes that it does not take.
        """

        def register(function: Kernel) -> Kernel:
            self.kernels[device] = function
            return function

        return register

    def gradient(self, vjp: Kernel) -> Kernel:
        """Registers the vjp."""
        self.vjp = vjp
        return vjp

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result, by the fastest way that takes these arguments; leaves no node of its own."""
        first = args[0]
        if isinstance(first, Tensor):
            device = first.device
        else:
            args = _with_tensor_first(args)
            device = _device_of(self.name, args)
        kernel = self.kernels.get(device.type)
        if kernel is not None:
            result = kernel(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if self.definition is None:
            raise NotImplementedError(
                f"{device.type} has no kernel for '{self.name}' with {', '.join(describe(a) for a in args)}"
            )
        return self.definition(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs or not args:
                for name, usual in _NUMPY_NAMES:
                    if name in kwargs:
                        kwargs[usual] = kwargs.pop(name)
                args = named_first(self.name, ("input", "other"), args, kwargs)
                if kwargs and self.by_name is not None:
                    return self.by_name(*args, **kwargs)
            if not STATE.enabled:
                fast = self.fast
                if fast is not None and getattr(args[0], "device", None) is cpu:
                    result = fast(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
            else:
                for argument in args:
                    if isinstance(argument, Tensor) and argument._requires_grad:
                        return self._with_gradient(args, kwargs)
                if kwargs or not isinstance(args[0], Tensor):
                    return self._with_gradient(args, kwargs)
                if self.view:
                    return _seen(self, args, self.forward(*args))
            return self.forward(*args, **kwargs)
        except MISTAKES as error:
            tell(error, self.name.lstrip("_"), args, kwargs)
            raise

    def _with_gradient(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.vjp is None:
            return self.definition(*args, **kwargs) if self.definition is not None else self.forward(*args, **kwargs)
        if kwargs:
            args = self._positional(args, kwargs)
        args = _with_tensor_first(args)
        inputs = _flatten(args)
        STATE.enabled = False
        try:
            result = self.forward(*args)
        finally:
            STATE.enabled = True
        if any(t._requires_grad for t in inputs) and result.dtype.is_floating_point:
            if result is args[0]:
                result = result.detach()
            result._requires_grad = True
            result.node = Node(self, args if isinstance(args[0], Tensor) else (*args[0], *args[1:]), result)
        return _seen(self, args, result) if self.view else result

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if not self.parameters:
            import inspect

            body = self.definition or next(iter(self.kernels.values()))
            self.parameters = tuple((p.name, p.default) for p in inspect.signature(body).parameters.values())
        names = [name for name, _ in self.parameters]
        unknown = kwargs.keys() - set(names)
        if unknown:
            raise TypeError(f"{self.name}() got an unexpected argument {sorted(unknown)[0]!r}")
        return args + tuple(kwargs.get(name, default) for name, default in self.parameters[len(args) :])

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method of Tensor."""
        if instance is None:
            return self
        return _Bound(self, instance)


_NUMPY_NAMES = (("axis", "dim"), ("keepdims", "keepdim"))  # torch takes NumPy's names for these, too


def read_crosswise(edges: tuple[Any, ...]) -> tuple[int, ...]:
    """Of a product, which arguments its gradient reads, so that they must not change before: each where the other one
    wants a gradient (an edge that is not None). An op's `reads` says it; None: all that it saves.
    """
    return tuple(i for i in (0, 1) if edges[1 - i] is not None)


def named_first(name: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The positional arguments, with those that were given by torch's names for the first ones taken from `kwargs`."""
    for at in names[len(args) :]:
        if at not in kwargs:
            break
        args += (kwargs.pop(at),)
    if not args:
        raise TypeError(f"{name}: expects {names[0]!r} first, got {', '.join(kwargs) or 'nothing'}")
    return args


class _Bound:
    """An op as a method."""

    __slots__ = ("instance", "op")

    def __init__(self, op: Op, instance: Tensor) -> None:
        self.op = op
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(self.instance, *args, **kwargs)


_FEW_VIEWS = 32


def _seen(op: Op, args: tuple[Any, ...], view: Tensor) -> Tensor:
    """Notes on a view what it is a view of, and on the memory's owner that there is one: a write through either is then
    known to both. Leaves that require a gradient cannot be written under autograd, and need not know their views.
    """
    source = args[0]
    if view.storage is not source.storage or view is source:
        return view
    owner = source.seen_through[2] if source.seen_through else source
    view.seen_through = (op, args, owner)
    if owner._requires_grad and owner.node is None:
        return view
    known = owner.views
    if known is None:
        known = owner.views = []
    elif len(known) >= _FEW_VIEWS and len(known) & (len(known) - 1) == 0:  # now and then forget those that are gone
        known[:] = [reference for reference in known if reference() is not None]
    known.append(ref(view))
    return view


def _flatten(args: tuple[Any, ...]) -> list[Tensor]:
    found = []
    for argument in args:
        if isinstance(argument, Tensor):
            found.append(argument)
        elif isinstance(argument, (list, tuple)):
            found.extend(t for t in argument if isinstance(t, Tensor))
    return found


def _with_tensor_first(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """add(1, x): the number as a tensor that does not widen x."""
    if len(args) > 1 and isinstance(args[0], (int, float)) and isinstance(args[1], Tensor):
        from .ops.base import as_tensor

        return (as_tensor(args[0], args[1]), *args[1:])
    return args


def _device_of(name: str, args: tuple[Any, ...]) -> Any:
    tensors = _flatten(args)
    if not tensors or not isinstance(args[0], (Tensor, list, tuple)):
        raise TypeError(f"{name}: expects a tensor, got {describe(args[0]) if args else 'nothing'}")
    return tensors[0].device


def describe(value: object) -> str:
    """An argument in an error message: a tensor's dtype, shape and device, anything else itself."""
    if isinstance(value, Tensor):
        return f"{value.dtype.name}{list(value.shape)} on {value.device}"
    return repr(value)


def op(
    vjp: Kernel | None = None, saves: str = "inputs", name: str | None = None, method: bool = False
) -> Callable[[Kernel], Op]:
    """Makes an op of a definition in other ops. `saves`: what the vjp reads: "inputs", "output", "both" or "none"."""

    def wrap(function: Kernel) -> Op:
        made = Op(name or function.__name__, function, vjp, saves, False, function.__module__)
        made.__doc__ = function.__doc__
        if method:
            setattr(Tensor, made.name, made)
        return made

    return wrap


def primitive(
    vjp: Kernel | None = None, saves: str = "inputs", name: str | None = None, method: bool = True
) -> Callable[[Kernel], Op]:
    """Makes an op whose body is its implementation on the CPU; other devices register theirs with `.kernel(device)`."""

    def wrap(function: Kernel) -> Op:
        made = Op(name or function.__name__, None, vjp, saves, False, function.__module__)
        made.__doc__ = function.__doc__
        made.kernels["cpu"] = function
        if method:
            setattr(Tensor, made.name, made)
        return made

    return wrap


def view_op(vjp: Kernel | None, name: str | None = None) -> Callable[[Kernel], Op]:
    """Makes an op that only rearranges shape, strides and offset: any device, no copy."""

    def wrap(function: Kernel) -> Op:
        made = Op(name or function.__name__, function, vjp, "none", True, function.__module__)
        made.__doc__ = function.__doc__
        setattr(Tensor, made.name, made)
        return made

    return wrap
