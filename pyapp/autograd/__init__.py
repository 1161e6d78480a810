"""Automatic differentiation, by torch.autograd's names; and checkpoint, torch.utils.checkpoint's."""

from __future__ import annotations

import importlib
from typing import Any

from ..engine import autograd as _autograd
from ..engine.anomalies import set_anomalies
from ..engine.autograd import backward, enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from ..engine.autograd_function import Function, once_differentiable
from ..engine.recompute import checkpoint, checkpoint_sequential
from ..engine.user_errors import warn
from .gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function", "backward", "checkpoint", "checkpoint_sequential", "enable_grad", "grad", "gradcheck", "gradgradcheck",
    "is_grad_enabled", "no_grad", "once_differentiable", "set_grad_enabled",
]  # fmt: skip


def _several(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of `outputs` with respect to `inputs`, as torch.autograd.grad. It does not change the `grad` of leaves;
    intermediate tensors that retain their `grad` get it.

    An unused input raises an error; it gives None with `allow_unused`, zeros with `materialize_grads`. With
    `is_grads_batched` each of `grad_outputs` has a first dim more, of as many rows as the gradients have then.
    `only_inputs` has no effect, as in torch.
    """
    if not only_inputs:
        warn("grad: only_inputs has no effect; backward() adds the gradients of all leaves")
    if not is_grads_batched:
        for x in (*_several(inputs), *_several(outputs)):
            if hasattr(type(x), "_gradients_of"):  # of DTensors, which the parts record
                settings = {"retain_graph": retain_graph, "create_graph": create_graph, "allow_unused": allow_unused}
                settings["materialize_grads"] = materialize_grads
                return type(x)._gradients_of(outputs, inputs, grad_outputs, settings)
        return _autograd.grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads=materialize_grads
        )
    from .functional import grads_of_rows  # late: few need it

    return grads_of_rows(
        outputs, inputs, grad_outputs, create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph, allow_unused=allow_unused, materialize_grads=materialize_grads,
    )  # fmt: skip


class set_detect_anomaly:
    """Turns the search for anomalies on or off at once, in all threads; as a context manager, until its end. While it
    is on, ops remember where they were called. Where a gradient cannot be computed, or has NaN with `check_nan`,
    backward() warns with the place where that op was called, and raises RuntimeError for NaN. It costs much time, and
    reads every gradient, so nothing is captured by `compile` meanwhile; replays of Graphs are not checked.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = set_anomalies(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        set_anomalies(*self._before)


class detect_anomaly:
    """`with detect_anomaly():` the search for anomalies is on: see `set_detect_anomaly`."""

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append(set_anomalies(True, self._check_nan))

    def __exit__(self, *_: object) -> None:
        set_anomalies(*self._before.pop())


def Variable(data: Any, requires_grad: bool = False) -> Any:
    """A tensor on the same memory that is a leaf, as in torch."""
    return data.detach().requires_grad_(requires_grad)


def __getattr__(name: str) -> Any:
    if name in ("forward_ad", "function", "functional", "graph", "profiler"):
        return importlib.import_module(f".{name}", __name__)
    if name == "inference_mode":
        return importlib.import_module("..engine.ops.torch_synonyms", __name__).inference_mode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
