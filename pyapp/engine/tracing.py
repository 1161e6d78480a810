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


@contextmanager
def observed(observer: Observer, written: Written | None = None) -> Iterator[None]:
    """Shows the calls of ops to the observer. Tensors must not require gradients. RuntimeError within another one.

    With `written`, what writes in place is shown as the op that makes a new tensor of a copy of the previous value, of
    which `written` is told first; then as `_put_view` for each tensor that a written view belongs to.
    """
    if _LOCK.locked():
        raise RuntimeError("ops are being observed already")
    import_every_op()
    dispatch: Any = sys.modules[Op.__module__]
    with _LOCK:
        thread, inside = threading.get_ident(), [False]
        claims = {name: op.claim for name, op in OPS.items()}
        link, enabled = dispatch._link_to_base, STATE.enabled

        def shown(op: Op, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
            def alone() -> Any:
                inside[0] = True
                try:
                    return run()
                finally:
                    inside[0] = False

            return observer(op, args, alone)

        def watch(op: Op) -> None:
            claim = claims[op.name]

            def answer(*args: Any, **kwargs: Any) -> Any:
                if inside[0] or threading.get_ident() != thread:
                    return NotImplemented if claim is None else claim(*args, **kwargs)

                def run() -> Any:
                    found = NotImplemented if claim is None else claim(*args, **kwargs)
                    return op._without_claim(args, kwargs) if found is NotImplemented else found

                return shown(op, args, run)

            op.claim = answer

        def linked(op: Op, args: tuple[Any, ...], view: Tensor) -> Tensor:
            found = link(op, args, view)
            if not inside[0] and threading.get_ident() == thread:
                shown(op, args, lambda: found)
            return found

        def write(x: Tensor, name: str, compute: Callable[[Tensor], Tensor], copy: bool = True) -> Tensor:
            assert written is not None
            steps, owner = [], x
            result = compute(_copied(x))
            _check_result(x, name, result)
            found = result if result.dtype is x.dtype else result.to(x.dtype)
            steps.append((x, found))
            while owner.view_of is not None:
                view, args, _ = owner.view_of
                owner = args[0]
                found = OPS["_put_view"].call(_copied(owner), found, view, tuple(args[1:]))
                steps.append((owner, found))
            silent(x.copy_, result)
            for target, value in steps:
                written(target, value)
            return x

        def _copied(x: Tensor) -> Tensor:
            old: Tensor = silent(x.clone)
            written(old, x)  # type: ignore[misc]
            return old

        def silent(call: Callable[..., Any], *args: Any) -> Any:
            inside[0] = True
            try:
                return call(*args)
            finally:
                inside[0] = False

        def is_shown(*_: Any) -> bool:
            return not inside[0] and threading.get_ident() == thread

        def writing(name: str, method: Any) -> Any:
            operation, public = method.in_place_of

            def shown_write(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
                if not is_shown():
                    return method(x, *args, **kwargs)
                call = public if kwargs else operation
                return write(x, name, lambda old: call(old, *args, **kwargs))

            return shown_write

        index: Any = sys.modules[setitem.__module__]
        methods = {n: m for n, m in vars(Tensor).items() if hasattr(m, "in_place_of")} if written else {}
        kept = index.tracked, index.write_tracked
        try:
            if written is not None:
                index.tracked, index.write_tracked = is_shown, write
                for name, method in methods.items():
                    setattr(Tensor, name, writing(name, method))
            for op in list(OPS.values()):
                if not op.view:
                    watch(op)
            dispatch._link_to_base = linked
            STATE.enabled = True  # views are linked to their base only then
            yield
        finally:
            index.tracked, index.write_tracked = kept
            for name, method in methods.items():
                setattr(Tensor, name, method)
            STATE.enabled = enabled
            dispatch._link_to_base = link
            for name, claim in claims.items():
                OPS[name].claim = claim


_LOCK = threading.Lock()
