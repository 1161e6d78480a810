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
from .op import LATE_CLAIMS, OPS, Op
from .ops._index import OP_MODULES
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


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Shows the calls of ops to the observer. Tensors must not require gradients. RuntimeError within another one."""
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

        try:
            for op in list(OPS.values()):
                if not op.view:
                    watch(op)
            dispatch._link_to_base = linked
            STATE.enabled = True  # views are linked to their base only then
            yield
        finally:
            STATE.enabled = enabled
            dispatch._link_to_base = link
            for name, claim in claims.items():
                OPS[name].claim = claim


_LOCK = threading.Lock()
