"""A step of a training that becomes one call: its kernels are captured as a Graph for inputs of steady shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..engine import Graph, Tensor, capture, no_grad
from ..engine.ops.random import default_generator

_GRAPHS = 4  # shapes of inputs that are kept


class CompiledStep:
    """`step(*inputs)` takes tensors (or None) and returns nothing: it changes tensors in place, all of which `changes`
    lists. The first call with inputs of a shape runs as it is; the second is captured, later ones replay it.

    Where the step cannot be captured, it runs as it is from then on, and `reason` says why.
    """

    def __init__(self, step: Callable[..., None], changes: Callable[[], Iterable[Tensor]]) -> None:
        self.step, self.changes = step, changes
        self.reason: str | None = None
        self._seen: set[Any] = set()
        self._graphs: dict[Any, tuple[Graph, list[Tensor | None]]] = {}

    @property
    def captured(self) -> bool:
        """Whether there is a Graph."""
        return bool(self._graphs)

    def reset(self) -> None:
        """Forgets the Graphs: what the step does has changed."""
        self._seen, self._graphs, self.reason = set(), {}, None

    def __call__(self, *inputs: Tensor | None) -> None:
        if self.reason is not None:
            self.step(*inputs)
            return
        key = tuple(None if x is None else (x.shape, x.dtype, x.device) for x in inputs)
        found = self._graphs.get(key)
        if found is not None:
            graph, held = found
            with no_grad():
                for place, given in zip(held, inputs, strict=True):
                    if place is not None and given is not None:
                        place.copy_(given)
            graph.replay()
        elif key in self._seen:
            self._capture(key, inputs)
        else:
            self._seen.add(key)
            self.step(*inputs)

    def _capture(self, key: Any, inputs: tuple[Tensor | None, ...]) -> None:
        held = [None if x is None else x.detach().clone() for x in inputs]
        tensors = list(self.changes())
        with no_grad():
            before = [x.detach().clone() for x in tensors]
        random_state = default_generator.get_state()
        try:
            graph = capture(lambda: self.step(*held))
        except (RuntimeError, NotImplementedError) as error:
            self.reason = str(error)
            with no_grad():  # what a part of the step has changed already
                for x, value in zip(tensors, before, strict=True):
                    x.copy_(value)
            default_generator.set_state(random_state)
            self.step(*inputs)
            return
        if len(self._graphs) == _GRAPHS:
            self._graphs.pop(next(iter(self._graphs)))
        self._graphs[key] = graph, held
