"""Gradient checkpointing: backward computes the intermediate values of a function again, instead of keeping them
(Chen et al. 2016, https://arxiv.org/abs/1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import autocast
from .autograd import _SERIAL, STATE, Described, Edge, Node, edge_of, enable_grad, gradients_at
from .autograd_function import output_of
from .ops.random import default_generator
from .tensor import Tensor


def inputs_of(outputs: Sequence[Tensor], start: int) -> list[Edge]:
    """The inputs of a computation whose first node has the serial number `start`: leaves and older nodes."""
    found: dict[int, Edge] = {}
    seen: set[int] = set()
    stack: list[Edge] = [edge_of(t) for t in outputs if t.requires_grad]
    while stack:
        edge = stack.pop()
        if id(edge) in seen:
            continue
        seen.add(id(edge))
        if isinstance(edge, Tensor) or edge.serial < start:
            found[id(edge)] = edge
        else:
            stack.extend(e for e in edge.edges if e is not None)
    return list(found.values())


class _Recomputed(Node):
    """One node for all steps of a checkpointed function. Its gradients come from a second run of the function."""

    __slots__ = ("again", "shapes")

    again: Callable[[], list[Tensor]] | None
    shapes: list[tuple[tuple[int, ...], str]] | None  # None: not to be compared

    def gradients(self, gradient: Any, create_graph: bool) -> Iterable[tuple[Edge, Tensor | None]]:
        if self.again is None:
            raise self._freed()
        wanted = [e for e in self.edges if e is not None]
        with enable_grad():
            outputs = self.again()
        shapes = [(t._shape, t.dtype.name) for t in outputs]
        if self.shapes is not None and shapes != self.shapes:
            raise CheckpointError(
                f"checkpoint: the function returned {self.shapes} in its first run and {shapes} in its second one; "
                "both must compute the same"
            )
        kept = [(outputs[i], g) for i, g in gradient.items() if outputs[i].requires_grad]
        stop = frozenset(id(e) for e in wanted if isinstance(e, Node))
        found = gradients_at(wanted, [t for t, _ in kept], [g for _, g in kept], create_graph, create_graph, stop)
        return [(edge, found.get(id(edge))) for edge in wanted]

    def release(self) -> bool:
        self.drop()
        return False

    def drop(self) -> None:
        super().drop()
        self.again = None


class CheckpointError(RuntimeError):
    """The second run of a function did not compute what the first one did."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Two contexts that do nothing."""
    return nullcontext(), nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The numbers of the arguments' cards and the states of their generators: none, as the CPU draws all numbers."""
    return [], []


def set_device_states(devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None) -> None:
    """Restores what get_device_states gave. ValueError for the states of any card."""
    if any(True for some in (devices, states) for _ in some):
        raise ValueError("set_device_states: cards have no generators here; set_rng_state() restores the CPU's")


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn, determinism_check: str = "default",
    debug: bool = False, early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Returns `function(*args, **kwargs)`. Its intermediate values are freed, and backward computes them again: this
    saves memory and costs time.

    The function must compute the same values again. `preserve_rng_state` repeats the random numbers of the default
    generator. Tensors that the function uses without getting them as arguments receive gradients too. `context_fn`
    gives two contexts: the first run is in one, the second one in the other. CheckpointError, a RuntimeError, if the
    shapes of the second run differ, unless `determinism_check` is "none". `use_reentrant`, `debug` and `early_stop` are
    torch's arguments and have no effect: the second run is the whole function.
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check is 'default' or 'none', not {determinism_check!r}")
    if use_reentrant and kwargs:
        raise ValueError(
            f"checkpoint: with use_reentrant=True the function takes no keyword arguments: {', '.join(kwargs)}"
        )
    if not STATE.enabled:
        return function(*args, **kwargs)
    first, second = context_fn()
    state = default_generator.get_state()
    region = autocast.STATE.dtype, autocast.STATE.device, autocast.STATE.caches
    start = _SERIAL()
    with first:
        output = function(*args, **kwargs)
    several = isinstance(output, (tuple, list))
    outputs = list(output) if several else [output]
    tensors = [t for t in outputs if isinstance(t, Tensor)]
    edges = inputs_of(tensors, start)
    if not edges:
        return output

    def again() -> list[Tensor]:
        now = default_generator.get_state()
        if preserve_rng_state:
            default_generator.set_state(state)
        try:
            with autocast.region(*region), second:  # backward runs outside of them
                repeated = function(*args, **kwargs)
        finally:
            if preserve_rng_state:
                default_generator.set_state(now)
        return [t for t in (repeated if several else [repeated]) if isinstance(t, Tensor)]

    node = _Recomputed(Described("checkpoint", None), (), tensors[0])  # type: ignore[arg-type]
    node.edges = tuple(edges)
    node.again = again
    node.shapes = None if determinism_check == "none" else [(t._shape, t.dtype.name) for t in tensors]
    places = {id(t): i for i, t in enumerate(tensors)}
    results = [output_of(node, places[id(t)], t) if isinstance(t, Tensor) and t.requires_grad else t for t in outputs]
    return type(output)(results) if several else results[0]


def checkpoint_sequential(functions: Iterable[Callable[[Any], Any]], segments: int, input: Any, **kwargs: Any) -> Any:
    """Applies functions one after another, in `segments` segments. Each is a checkpoint except the last, as in
    torch."""
    every = list(functions)
    if segments < 1 or segments > len(every):
        raise ValueError(
            f"checkpoint_sequential: cannot divide {len(every)} functions into {segments} segments; "
            f"use 1 to {len(every)}"
        )
    size = len(every) // segments

    def run(part: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def apply(x: Any) -> Any:
            for function in part:
                x = function(x)
            return x

        return apply

    for i in range(segments - 1):
        input = checkpoint(run(every[i * size : (i + 1) * size]), input, **kwargs)
    return run(every[(segments - 1) * size :])(input)


__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn"]
