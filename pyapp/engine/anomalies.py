"""The search for the op whose gradient fails or has NaN, and for where that op was called."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

from .autograd import EXTENSIONS
from .grad_mode import ANOMALY, STATE, WATCHERS
from .graph_nodes import metadata
from .tensor import Tensor


def set_anomalies(on: bool, check_nan: bool) -> tuple[bool, bool]:
    """Turns the search on or off; returns what was before."""
    before = ANOMALY.on, ANOMALY.check_nan
    if on is not ANOMALY.on:
        WATCHERS.add(1 if on else -1)
    ANOMALY.on, ANOMALY.check_nan = on, check_nan
    return before


def note_calls(node: Any) -> None:
    """Notes in the metadata of a new node the calls that lead to its op, the innermost last, without those inside the
    engine."""
    outside = [call for call in traceback.walk_stack(None) if not _is_inside(call[0].f_globals.get("__name__", ""))]
    metadata(node)["traceback_"] = traceback.StackSummary.extract(iter(outside[::-1])).format()


def _is_inside(module: str) -> bool:
    return module.startswith(f"{__package__}.")


def checked_gradients(node: Any, gradient: Any, create_graph: bool) -> list[tuple[Any, Any]]:
    """The gradients of a node's arguments. Where that fails, or one of them has NaN, a warning says where the op was
    called; RuntimeError for NaN."""
    try:
        found = list(node.gradients(gradient, create_graph))
    except Exception:
        _tell(node)
        raise
    if ANOMALY.check_nan:
        for at, (_, its) in enumerate(found):
            parts = [its] if isinstance(its, Tensor) else list(its.values()) if its is not None else []
            if any(_has_nan(part) for part in parts):
                _tell(node)
                raise RuntimeError(
                    f"backward: Function '{node.name()}' returned nan values in its {at}th output: it gave NaN as "
                    f"gradient {at} of those that it computes"
                )
    return found


def _has_nan(gradient: Tensor) -> bool:
    enabled = STATE.enabled
    STATE.enabled = False
    try:
        return bool(gradient.isnan().any().item())
    finally:
        STATE.enabled = enabled


def _tell(node: Any) -> None:
    calls = metadata(node).get("traceback_")
    where = (
        f"The op was called here:\n{''.join(calls)}"
        if calls
        else "Turn the search for anomalies on before the op runs to see where that was."
    )
    warnings.warn(f"the gradient of {node.name()} has failed. {where}", stacklevel=3)


EXTENSIONS.note_calls, EXTENSIONS.checked_gradients = note_calls, checked_gradients
