"""Shows an observer every call of an op, for writing down what a function of tensors computes.

Ops are changed while an observer looks, so that calls cost nothing otherwise. Calls of other threads are not shown.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .grad_mode import STATE
from .in_place import _check_result
from .op import LATE_CLAIMS, OPS, Op
from .ops._index import OP_MODULES
from .ops.index import setitem
from .tensor import Tensor

# observer(op, arguments, run) gives the result, by run(), or NotImplemented: then the op's definition is called, whose
# ops are shown instead. Views are shown when they are made: run() gives the view.
Observer = Callable[[Op, tuple[Any, ...], Callable[[], Any]], Any]


def import_every_op() -> None:
    """Imports the ops and claims that are else defined on first use: who changes every op would not know them."""
    for module in set(OP_MODULES.values()):
        importlib.import_module(f"{__package__}.ops.{module}")
    importlib.import_module(".claims", __package__)
    for module in set(LATE_CLAIMS.values()):
        importlib.import_module(module)


# written(tensor, value): a tensor was written in place; it now has the value of another one.
Written = Callable[[Tensor, Tensor], None]


# read(tensor, computes): Python reads the values of a tensor. `computes`: a function does that computes with them by
# NumPy, outside ops.
Read = Callable[[Tensor, bool], None]
_READERS = ("numpy", "tolist", "item", "__bool__", "__int__", "__float__", "__index__")
_COMPUTING = ("constant_array", "data_view", "read_values")


@contextmanager
def observed(observer: Observer, written: Written | None = None, read: Read | None = None) -> Iterator[None]:
    """Shows the calls of ops to the observer. Results require no gradient. RuntimeError within another one.

    With `written`, what writes in place is shown as the op that makes a new tensor of a copy of the previous value, of
    which `written` is told first; then as `_put_view` for each tensor that a written view belongs to. It is told of
    what `detach` and `data` give, too; and `read` of tensors whose values Python reads.
    """
    if _LOCK.locked():
        raise RuntimeError("ops are being observed already")
    import_every_op()
    with _LOCK:
        observation = _Observation(observer, written, read)
        try:
            observation.begin()
            yield
        finally:
            observation.end()


class _Observation:
    """What `observed` puts in place of the ops' claims, of the link from views to their base and of the methods that
    write in place; `end` puts the old ones back. Calls of other threads, and those that the observer makes, are not
    shown.
    """

    def __init__(self, observer: Observer, written: Written | None, read: Read | None) -> None:
        self._observer, self._written, self._read = observer, written, read
        self._thread, self._inside = threading.get_ident(), False
        self._dispatch: Any = sys.modules[Op.__module__]
        self._index: Any = sys.modules[setitem.__module__]
        self._claims = {name: op.claim for name, op in OPS.items()}
        self._link, self._enabled = self._dispatch._link_to_base, STATE.enabled
        self._with_gradient = Op._with_gradient
        self._methods = {n: m for n, m in vars(Tensor).items() if hasattr(m, "in_place_of")} if written else {}
        self._tracking = self._index.tracked, self._index.write_tracked
        self._aliases: dict[str, Any] = {name: vars(Tensor)[name] for name in ("detach", "data")} if written else {}
        self._readers = {name: vars(Tensor)[name] for name in (*_READERS, *_COMPUTING)} if read else {}

    def begin(self) -> None:
        if self._written is not None:
            self._index.tracked, self._index.write_tracked = self._is_shown, self._write
            for name, method in self._methods.items():
                setattr(Tensor, name, self._shown_method(name, method))
            for name, alias in self._aliases.items():
                is_property = isinstance(alias, property)
                shown = self._shown_alias(alias.fget if is_property else alias)
                setattr(Tensor, name, property(shown, alias.fset) if is_property else shown)
        for name, method in self._readers.items():
            setattr(Tensor, name, self._shown_reader(method, name in _COMPUTING))
        for op in list(OPS.values()):
            if not op.view:
                op.claim = self._shown_claim(op)
        self._dispatch._link_to_base = self._linked
        Op._with_gradient = self._shown_with_gradient()  # type: ignore[method-assign]
        STATE.traced = True
        STATE.enabled = True  # views are linked to their base only then

    def end(self) -> None:
        self._index.tracked, self._index.write_tracked = self._tracking
        for name, method in (*self._methods.items(), *self._aliases.items(), *self._readers.items()):
            setattr(Tensor, name, method)
        STATE.traced = False
        STATE.enabled = self._enabled
        self._dispatch._link_to_base = self._link
        Op._with_gradient = self._with_gradient  # type: ignore[method-assign]
        for name, claim in self._claims.items():
            OPS[name].claim = claim

    def _is_shown(self, *_: Any) -> bool:
        return not self._inside and threading.get_ident() == self._thread

    def _silently(self, call: Callable[..., Any], *args: Any) -> Any:
        """A call whose ops are not shown."""
        self._inside = True
        try:
            return call(*args)
        finally:
            self._inside = False

    def _show(self, op: Op, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        return self._observer(op, args, lambda: self._silently(run))

    # -- calls of ops

    def _shown_claim(self, op: Op) -> Callable[..., Any]:
        claim = self._claims[op.name]

        def answer(*args: Any, **kwargs: Any) -> Any:
            if not self._is_shown():
                return NotImplemented if claim is None else claim(*args, **kwargs)

            def run() -> Any:
                found = NotImplemented if claim is None else claim(*args, **kwargs)
                return op._without_claim(args, kwargs) if found is NotImplemented else found

            return self._show(op, args, run)

        return answer

    def _linked(self, op: Op, args: tuple[Any, ...], view: Tensor) -> Tensor:
        found: Tensor = self._link(op, args, view)
        if self._is_shown():
            self._show(op, args, lambda: found)
        return found

    def _shown_with_gradient(self) -> Callable[..., Any]:
        """What serves arguments that require a gradient: as for the others, since an op with a gradient hides the views
        that its definition makes."""

        def answer(op: Op, args: tuple[Any, ...]) -> Any:
            if threading.get_ident() != self._thread:
                return self._with_gradient(op, args)
            if op.view:
                return self._linked(op, args, op.definition(*args))  # type: ignore[misc]
            return op.forward(*args)

        return answer

    def _shown_reader(self, method: Callable[..., Any], computes: bool) -> Callable[..., Any]:
        def answer(x: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._read is not None and self._is_shown():
                self._read(x, computes)
                return self._silently(lambda: method(x, *args, **kwargs))
            return method(x, *args, **kwargs)

        return answer

    # -- writes in place, and other tensors of the same memory

    def _shown_alias(self, method: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """What `detach` and `data` give has the value of the tensor."""

        def answer(x: Tensor) -> Tensor:
            found = method(x)
            if self._written is not None and self._is_shown():
                self._written(found, x)
            return found

        return answer

    def _shown_method(self, name: str, method: Any) -> Any:
        operation, public = method.in_place_of

        def shown_write(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if not self._is_shown():
                found: Tensor = method(x, *args, **kwargs)
                return found
            call = public if kwargs else operation
            return self._write(x, name, lambda old: call(old, *args, **kwargs))

        return shown_write

    def _write(self, x: Tensor, name: str, compute: Callable[[Tensor], Tensor], copy: bool = True) -> Tensor:
        assert self._written is not None
        steps, owner = [], x
        result = compute(self._copied(x))
        _check_result(x, name, result)
        found = result if result.dtype is x.dtype else result.to(x.dtype)
        steps.append((x, found))
        while owner.view_of is not None:
            view, args, _ = owner.view_of
            owner = args[0]
            found = OPS["_put_view"].call(self._copied(owner), found, view, tuple(args[1:]))
            steps.append((owner, found))
        self._silently(x.copy_, result)
        for target, value in steps:
            self._written(target, value)
        return x

    def _copied(self, x: Tensor) -> Tensor:
        old: Tensor = self._silently(x.clone)
        self._written(old, x)  # type: ignore[misc]
        return old


_LOCK = threading.Lock()
