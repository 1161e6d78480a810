"""torch.library: ops of one's own with a name, such as "mine::scale", which pyapp.ops has as `ops.mine.scale`.

    @custom_op("mine::scale", mutates_args=())
    def scale(x: Tensor, factor: float) -> Tensor:
        return pyapp.from_numpy(x.numpy() * factor)

    scale.register_autograd(lambda ctx, g: (g * ctx.factor, None), setup_context=keep_factor)

An op that is made of other ops, or that has kernels in C, is better one of docs/custom_ops.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from .engine import ops
from .engine.autograd import STATE, no_grad
from .engine.autograd_function import Function
from .engine.tensor import Tensor

_NAME = re.compile(r"(\w+)::(\w+)(?:\.\w+)?")
_SCHEMA = re.compile(r"\s*(?:[\w:.]*)\((.*)\)\s*->.*", re.DOTALL)


class _Namespace:
    """The ops of a namespace, as attributes."""

    _name: str

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ops.{self._name}: there is no op {name!r}; make it by pyapp.library")


def _namespace(name: str) -> _Namespace:
    """The namespace of that name. ValueError where pyapp.ops has the name for something else."""
    found = vars(ops).get(name)
    if found is None and not hasattr(ops, name):
        found = _Namespace(name)
        setattr(ops, name, found)
    if not isinstance(found, _Namespace):
        raise ValueError(f"library: pyapp.ops.{name} is taken; give your ops another namespace")
    return found


class CustomOpDef:
    """An op of one's own: call it like a function, with tensors, lists of tensors, and other values."""

    def __init__(self, name: str, parameters: inspect.Signature, mutates: Iterable[str] | str) -> None:
        found = _NAME.fullmatch(name)
        if found is None:
            raise ValueError(f'custom_op: a name is like "mine::scale", not {name!r}')
        self._qualname, self.__name__ = name, found[2]
        self._parameters, self._mutates = parameters, mutates
        self._kernels: dict[str | None, Callable[..., Any]] = {}  # by type of device; None: all others
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        setattr(_namespace(found[1]), found[2], self)

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None, /) -> Any:
        """What computes it on a type of device, on several, or (None) on all others; also as a decorator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in [device_types] if device_types is None or isinstance(device_types, str) else device_types:
                self._kernels[kind] = function
            return function

        return register if func is None else register(func)

    def register_fake(self, func: Callable[..., Any], /) -> Callable[..., Any]:
        """What makes its results of tensors on the meta device, which have shapes only; also as a decorator."""
        self._fake = func
        return func

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Its gradient: `backward(ctx, *gradients)` of the results gives one for each argument, None where there is
        none, a list for a list. `setup_context(ctx, inputs, output)` keeps what it needs, as in autograd.Function.
        """
        if self._mutates:
            raise RuntimeError(f"register_autograd: {self._qualname} writes its arguments, so it has no gradient")
        self._backward, self._setup = backward, setup_context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        given, named = bound.args, bound.kwargs
        tensors = _tensors(given)
        if not STATE.enabled or not any(x.requires_grad for x in tensors):
            return self._run(given, named)
        return _Recorded.apply(self, given, named, *tensors)

    def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        tensors = _tensors((*args, *named.values()))
        if any(x.is_meta for x in tensors):
            if self._fake is None:
                raise NotImplementedError(f"{self._qualname}: register_fake says what it gives on the meta device")
            return self._fake(*args, **named)
        kind = tensors[0].device.type if tensors else "cpu"
        kernel = self._kernels.get(kind) or self._kernels.get(None)
        if kernel is None:
            raise NotImplementedError(f"{self._qualname}: has no kernel for {kind}; give it one by register_kernel")
        with no_grad():
            found = kernel(*args, **named)
        if any(x is y for x in _tensors(found if isinstance(found, (list, tuple)) else (found,)) for y in tensors):
            raise RuntimeError(f"{self._qualname}: gives an argument itself; return a clone() of it")
        return found

    @property
    def default(self) -> CustomOpDef:
        """Itself: as of torch's ops, of which there may be several by one name."""
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among values, and in lists and tuples there."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [each for each in value if isinstance(each, Tensor)]
    return found


class _Recorded(Function):
    """A call whose tensors want gradients: the op and its arguments, then the tensors among them."""

    @staticmethod
    def forward(ctx: Any, own: CustomOpDef, args: tuple[Any, ...], named: dict[str, Any], *tensors: Tensor) -> Any:
        output = own._run(args, named)
        ctx.own, ctx.args = own, [_count(value) for value in args]
        ctx.needs_input_grad = tuple(_needs(value) for value in args)  # by the op's arguments
        if own._setup is not None:
            own._setup(ctx, args, output, **({"keyword_only_inputs": named} if named else {}))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        own = ctx.own
        if own._backward is None:
            raise RuntimeError(f"{own._qualname}: has no gradient; give it one by register_autograd")
        found = own._backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(ctx.args):
            raise RuntimeError(f"{own._qualname}: backward gave {len(found)} gradients for {len(ctx.args)} arguments")
        every: list[Any] = []
        for gradient, count in zip(found, ctx.args, strict=True):
            if count is None:
                every.append(gradient)
            elif count:
                every += gradient if isinstance(gradient, (list, tuple)) else [None] * count
        return None, None, None, *every


def _needs(value: Any) -> Any:
    """Whether a gradient of an argument is needed; of a list a list."""
    if isinstance(value, (list, tuple)) and _count(value):
        return [_needs(each) for each in value]
    return isinstance(value, Tensor) and value.requires_grad


def _count(value: Any) -> int | None:
    """How many tensors a list has; None for a tensor, 0 for other values."""
    return None if isinstance(value, Tensor) else len(_tensors((value,)))


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Iterable[str] | str,
    device_types: Any = None, schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Makes an op of a function, also as a decorator. `mutates_args` are the names of the arguments that it writes, or
    "unknown"; `device_types` those that the function serves, by default all. ValueError for a name without "::".
    `tags` have no effect.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        parameters = inspect.signature(function) if schema is None else _signature(schema)
        made = CustomOpDef(name, parameters, mutates_args)
        made.__doc__ = function.__doc__
        made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)


def _signature(schema: str) -> inspect.Signature:
    """The parameters of a schema such as "(Tensor x, float factor=2.0, *, int[]? sizes=None) -> Tensor"."""
    inside = _SCHEMA.fullmatch(schema)
    if inside is None:
        raise ValueError(f'a schema is like "(Tensor x, float factor) -> Tensor", not {schema!r}')
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = []
    for part in filter(None, (part.strip() for part in re.split(r",(?![^\[(]*[\])])", inside[1]))):
        if part == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        name, has_default, default = part.split()[-1].partition("=")
        value = _default(default) if has_default else inspect.Parameter.empty
        found.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(found)


def _default(text: str) -> Any:
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("'\"")


def found_op(op: Any) -> CustomOpDef:
    """The op of a name, or the op itself. RuntimeError where there is none."""
    if isinstance(op, CustomOpDef):
        return op
    name = _NAME.fullmatch(op) if isinstance(op, str) else None
    found = vars(vars(ops).get(name[1], _NO_OPS)).get(name[2]) if name is not None else None
    if not isinstance(found, CustomOpDef):
        raise RuntimeError(f"library: there is no op {op!r}; make it by custom_op or define")
    return found


_NO_OPS = _Namespace("")


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Makes an op of a schema, which `impl` gives kernels."""
    inside = _SCHEMA.fullmatch(schema)
    CustomOpDef(qualname, _signature(schema), "unknown" if inside and "!" in inside[1] else ())


def impl(qualname: str, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """Gives an op a kernel for types of devices, "default" for all others; also as a decorator."""
    kinds = (types,) if isinstance(types, str) else types
    own = found_op(qualname)
    return own.register_kernel([_KEYS.get(kind, kind.lower()) for kind in kinds], func)


_KEYS = {"default": None, "CompositeExplicitAutograd": None, "CompositeImplicitAutograd": None, "": None}


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Gives an op a kernel for types of devices, None for all others; also as a decorator."""
    return found_op(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Says what an op gives on the meta device; also as a decorator."""
    own = found_op(op)
    return own.register_fake if func is None else own.register_fake(func)


impl_abstract = register_fake  # its older name


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:
    """Gives an op a gradient."""
    found_op(op).register_autograd(backward, setup_context=setup_context)


class Library:
    """Ops of a namespace in torch's older form: `define("scale(Tensor x) -> Tensor")`, then `impl("scale", function,
    "CPU")`. ValueError for a kind that is not "DEF", "IMPL" or "FRAGMENT".
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f'Library: the kind is "DEF", "IMPL" or "FRAGMENT", not {kind!r}')
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Makes an op; its name."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}", schema)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "") -> None:
        """Gives an op a kernel."""
        name = op_name if isinstance(op_name, str) else op_name.__name__
        impl(f"{self.ns}::{name.rpartition('::')[2]}", dispatch_key or self.dispatch_key, fn)


__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "impl_abstract", "register_autograd", "register_fake",
    "register_kernel",
]  # fmt: skip
