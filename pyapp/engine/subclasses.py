"""Classes of users that derive from Tensor, and torch's protocol `__torch_function__`.

An operation with a tensor of such a class gives tensors of that class, or what the class's `__torch_function__` gives:

    class Logged(pyapp.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            print(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

Tensor imports this module when the first such class is defined. Until then operations pay nothing for it: ops look here
where they look for a region of autocast; views and other methods get a wrapper. A function that is no op itself, such
as `nn.functional.dropout`, arrives as the ops that it is made of.

Other objects with `__torch_function__` are asked where an operation finds that they are no tensors. A
TorchFunctionMode is asked before all of them, whatever the arguments are.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from types import FunctionType, TracebackType
from typing import Any

from .autocast import REGIONS
from .autograd import EXTENSIONS, STATE
from .declare import FUNCTIONS, GUARDS, METHODS
from .op import ASK, Op
from .tensor import Tensor, make
from .thread_local import ThreadLocal

_PACKAGE = __name__.partition(".")[0]
_OWN = ("detach", "data")  # of Tensor itself, not of METHODS
_NEVER = frozenset(  # they give no tensors, or call an op that asks
    "__init__ __torch_function__ as_subclass numpy tolist item backward register_hook retain_grad is_tensor".split()
)


class _Thread(ThreadLocal):
    """How many regions without the protocol this thread is in, and its modes, the innermost last."""

    off = 0
    modes: tuple[TorchFunctionMode, ...] = ()


_thread = _Thread()


class DisableTorchFunctionSubclass:
    """A context in which tensors of all classes are plain tensors to operations, which give plain tensors."""

    def __enter__(self) -> None:
        _thread.off += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _thread.off -= 1


class _Pass(DisableTorchFunctionSubclass):
    """The context of a backward pass, in a mode of gradients."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode

    def __enter__(self) -> None:
        super().__enter__()
        self._mode.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._mode.__exit__(kind, error, at)
        super().__exit__(kind, error, at)


def _disabled_torch_function_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """As `__torch_function__` of a class: its tensors are plain tensors to operations."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


_disabled_torch_function_impl.plain = True  # type: ignore[attr-defined]


def overrides(kind: type) -> bool:
    """Whether operations ask a class what they give."""
    if issubclass(kind, Tensor):
        for base in kind.__mro__:
            own = vars(base)
            if base is Tensor or "__torch_function__" in own:
                asks = not getattr(kind.__torch_function__, "plain", False)  # type: ignore[attr-defined]
                return asks and kind.__module__.partition(".")[0] != _PACKAGE
            if "plain_results" in own:
                return False
    return hasattr(kind, "__torch_function__")


def _asked(values: Iterable[Any], deep: bool = True) -> list[type]:
    """The classes to ask: derived ones before their bases, else from left to right."""
    found: list[type] = []
    for value in values:
        kind = type(value)
        if kind is Tensor:
            continue
        if deep and kind in (list, tuple):
            more = _asked(value, False)
        else:
            more = [kind] if overrides(kind) else []
        for each in more:
            if each not in found:
                before = next((i for i, known in enumerate(found) if issubclass(each, known)), len(found))
                found.insert(before, each)
    return found


def ask(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the classes of the arguments give for a call; NotImplemented where there are none to ask.

    TypeError if all of them give NotImplemented.
    """
    if _thread.off:
        return NotImplemented
    asked = _asked((*args, *kwargs.values()) if kwargs else args)
    if _thread.modes:
        return _ask_mode(function, asked, args, kwargs)
    if not asked:
        return NotImplemented
    for kind in asked:
        found = kind.__torch_function__(function, tuple(asked), args, kwargs)  # type: ignore[attr-defined]
        if found is not NotImplemented:
            return found
    names = ", ".join(kind.__name__ for kind in asked)
    raise TypeError(f"{function.__name__}: {names} do not implement it: __torch_function__ gave NotImplemented")


class TorchFunctionMode:
    """A context whose `__torch_function__(func, types, args, kwargs)` gives what each operation inside it gives, of
    plain tensors and functions that make tensors too. Inside that method the mode is off.

        class Counted(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                counts[func.__name__] += 1
                return func(*args, **(kwargs or {}))
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_function__")

    def __enter__(self) -> Any:
        if not ASK:
            _begin()
        _thread.modes = (*_thread.modes, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _thread.modes = _thread.modes[:-1]


def _ask_mode(function: Callable[..., Any], asked: list[type], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost mode gives for a call. TypeError for NotImplemented."""
    modes = _thread.modes
    _thread.modes = modes[:-1]
    try:
        found = modes[-1].__torch_function__(function, tuple(asked), args, kwargs)
    finally:
        _thread.modes = modes
    if found is NotImplemented:
        raise TypeError(f"{function.__name__}: {type(modes[-1]).__name__} does not implement it")
    return found


def of_class(value: Any, kind: type, args: Iterable[Any] = ()) -> Any:
    """A plain tensor, or those in lists and tuples, as tensors of a class. One that was an argument stays as it is."""
    if type(value) is Tensor:
        if any(value is each for each in args):
            return as_subclass(value, kind)
        value.__class__ = kind
        return value
    if isinstance(value, (list, tuple)):
        made = [of_class(each, kind, args) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def torch_function(cls: type, func: Any, types: tuple[type, ...], args: Any = (), kwargs: Any = None) -> Any:
    """Tensor.__torch_function__: the result as tensors of the class. NotImplemented where another class, which is not a
    base of it, takes part."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        found = func(*args, **(kwargs or {}))
    return of_class(found, cls, args)


@classmethod  # type: ignore[misc]
def __torch_function__(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What an operation gives that a tensor of this class takes part in: by default tensors of the class."""
    return torch_function(cls, func, types, args, kwargs)


Tensor.__torch_function__ = __torch_function__  # type: ignore[attr-defined]


def _without_arguments(cls: type) -> Any:
    """A tensor of a class, made without its __new__, which may want arguments, before its state is set."""
    return object.__new__(cls)


def _reduced(x: Tensor, protocol: Any) -> Any:
    return _without_arguments, (type(x),), x.__getstate__()


Tensor.__reduce_ex__ = _reduced  # type: ignore[method-assign, assignment]


def as_subclass(x: Tensor, cls: type) -> Any:
    """The same memory, with its place in the graph, as a tensor of a class that derives from Tensor."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass: takes a class that derives from Tensor, not {cls!r}")
    with DisableTorchFunctionSubclass():
        made = x.view(x._shape) if x._requires_grad and STATE.enabled else x.detach()
    return _turned(made, cls)


def make_subclass(cls: type, data: Tensor, require_grad: bool = False, **_: Any) -> Any:
    """Tensor._make_subclass: a leaf of the class over the memory of `data`."""
    made = make(data._storage, data._shape, data.strides, data.dtype, data.offset)
    return _turned(made, cls).requires_grad_(require_grad)


Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]


def _turned(made: Tensor, cls: type) -> Any:
    try:
        made.__class__ = cls
    except TypeError as error:
        raise TypeError(f"{cls.__name__}: a class of tensors has no __slots__ and no second built-in base") from error
    return made


def _around(found: Callable[..., Any]) -> Callable[..., Any]:
    """A method that asks the classes of its arguments."""

    @functools.wraps(found)
    def method(*args: Any, **kwargs: Any) -> Any:
        if type(args[0] if args else None) is not Tensor or _thread.modes:
            result = ask(method, args, kwargs)
            if result is not NotImplemented:
                return result
        return found(*args, **kwargs)

    method.asks_classes = True  # type: ignore[attr-defined]
    return method


def guarded(name: str, found: Any) -> Any:
    """What Tensor has by that name, as tensors of all classes need it."""
    if name in _NEVER or hasattr(found, "asks_classes"):
        return found
    if isinstance(found, property):
        if found.fget is None or hasattr(found.fget, "asks_classes"):
            return found
        return property(_around(found.fget), found.fset, found.fdel, found.__doc__)
    operation = getattr(found, "operation", None)
    is_asked = isinstance(operation, Op) and not operation.view
    return found if not isinstance(found, FunctionType) or is_asked else _around(found)


def _begin() -> None:
    """Lets every operation ask, from now on."""
    ASK.append(ask)
    REGIONS.add(1)
    EXTENSIONS.extend_mode = _Pass
    for name in (*METHODS, *_OWN):
        if not (name.startswith("__") and name != "__getitem__"):  # operators are ops
            setattr(Tensor, name, guarded(name, vars(Tensor)[name]))
    GUARDS.append(guarded)
    package = importlib.import_module(_PACKAGE)
    for name, declaration in FUNCTIONS.items():
        declaration._public = guarded(name, declaration.public)
        if name in vars(package):
            setattr(package, name, declaration._public)


def begin(cls: type) -> None:
    """A class that derives from Tensor was defined."""
    if overrides(cls) and not ASK:
        _begin()


__all__ = [
    "DisableTorchFunctionSubclass", "TorchFunctionMode", "_disabled_torch_function_impl", "as_subclass", "ask",
    "begin", "make_subclass", "overrides", "torch_function",
]  # fmt: skip
