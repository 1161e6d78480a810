"""Gradients of results that vmap has by kernels alone, though they depend on learnt tensors: a backward pass computes
them, for all examples by the kernels of one, or where a graph is recorded by the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

from .autocast import STATE as AUTOCAST
from .autograd import Described, Edge, Node, edge_of, enable_grad, gradients_at
from .autograd_function import output_of
from .device import cpu
from .grad_mode import WATCHERS
from .launch import Recorder, capture_or_run
from .lazy import np
from .native import RECORD_BYTES
from .ops.create import empty
from .ops.stacking import cat
from .recompute import _Recomputed, inputs_of
from .replay_for_each import Copy, replay_for_each
from .tensor import Tensor, set_requires_grad

Run = Callable[[list[Any]], list[Any]]  # the leaves of an example's arguments → those of its result
_MOST_READ = 1 << 18  # elements of the tensors that a function reads; of more its kernels take the time, not its Python
_MOST_WORK = 64  # thousands of elements that a kernel computes, of all kernels in the mean
_MOST_KEPT = 1 << 22  # elements of gradients that are kept for each example by itself


class Examples(NamedTuple):
    """A call of vmap: what runs an example, the leaves of all arguments and the dim of each along which the examples
    lie (None: the same for all), and how many there are."""

    run: Run
    arguments: list[tuple[Any, int | None]]
    size: int

    def learnt(self, results: Sequence[Any], start: int) -> list[Edge] | None:
        """What the first example's results depend on, whose first node has the serial number `start`. None where a
        backward pass could not find it, on other devices, whose kernels are not run for many, and where the kernels
        take so long that they should not run twice."""
        edges = [
            e for e in inputs_of([x for x in results if isinstance(x, Tensor)], start) if not getattr(e, "is_closed", 0)
        ]
        given = [x for x, _ in self.arguments if isinstance(x, Tensor)]
        known = {id(edge_of(x)) for x in given if x._requires_grad}
        read = sum(e.numel() for e in edges if isinstance(e, Tensor)) + sum(
            x.numel() // (1 if dim is None else self.size) for x, dim in self.arguments if isinstance(x, Tensor)
        )
        apart = all(e.device is cpu if isinstance(e, Tensor) else id(e) in known for e in edges)
        apart = apart and all(type(x) is Tensor for x in given)
        return edges if apart and read <= _MOST_READ and AUTOCAST.dtype is None and not WATCHERS.count else None

    @contextmanager
    def constant(self, edges: Iterable[Edge]) -> Iterator[None]:
        """Inside, the learnt tensors require no gradient."""
        every = [*edges, *(x for x, _ in self.arguments)]
        held = [x for x in every if isinstance(x, Tensor) and x._requires_grad]
        for x in held:
            set_requires_grad(x, False)
        try:
            yield
        finally:
            for x in held:
                set_requires_grad(x, True)

    def gradients(self, edges: Sequence[Edge], given: dict[int, Tensor]) -> dict[int, Tensor | None] | None:
        """The gradients of these edges, by id, from those of results (examples, ...), by number. None where they need
        more than the kernels of one example."""
        own: list[Any] = []  # an example's leaves
        sources: list[tuple[Edge, Edge, int | None]] = []  # (edge, what has its gradient, dim of the examples)
        wanted = {id(e) for e in edges}
        for x, dim in self.arguments:
            held = x
            if isinstance(x, Tensor):
                held = x.detach() if dim is None else x.detach().select(dim, 0).clone().contiguous()
                if x._requires_grad and id(edge_of(x)) in wanted:
                    sources.append((edge_of(x), held.requires_grad_(), dim))
            own.append(held)
        sources += [(e, e, None) for e in edges]  # also arguments, which may be read in other ways too
        stop = frozenset(id(e) for e in edges if isinstance(e, Node))
        weights = [g[0].clone().contiguous() for g in given.values()]

        def one() -> list[Tensor | None]:
            with enable_grad():
                results = self.run(own)
            pairs = [(results[i], w) for i, w in zip(given, weights, strict=True) if results[i]._requires_grad]
            at: list[Edge] = [x for _, x, _ in sources]
            found = gradients_at(at, [y for y, _ in pairs], [w for _, w in pairs], False, False, stop)
            parts = [found.get(id(x)) for x in at]
            return [None if g is None else g.contiguous() for g in parts]

        parts, graph, recording = capture_or_run(one)
        if graph is None or recording.gradients:
            return None
        moving = [
            (to, x.detach().movedim(dim, 0).contiguous())
            for to, (x, dim) in zip(own, self.arguments, strict=True)
            if dim is not None
        ]
        moving += [(w, g.contiguous()) for w, g in zip(weights, given.values(), strict=True)]
        return self._summed(recording, moving, sources, parts)

    def _summed(
        self, recording: Recorder, moving: list[Any], sources: list[Any], parts: list[Tensor | None]
    ) -> dict[int, Tensor | None] | None:
        found: dict[int, Tensor | None] = {}
        taken = [(i, g) for i, g in enumerate(parts) if g is not None]
        each = max(1, _MOST_KEPT // max(1, sum(g.numel() for _, g in taken)))
        pieces: list[list[Tensor]] = [[] for _ in taken]
        for first in range(0, self.size, each):
            count = min(each, self.size - first)
            rows = [empty((count, *g._shape), dtype=g.dtype, device=g.device) for _, g in taken]
            before = [Copy(to, of[first], of.strides[0] * of.dtype.itemsize) for to, of in moving]
            after = [
                Copy(row[0], g, row.strides[0] * row.dtype.itemsize) for row, (_, g) in zip(rows, taken, strict=True)
            ]
            if not replay_for_each(recording, before, after, count):
                return None
            for piece, row, (i, _) in zip(pieces, rows, taken, strict=True):
                piece.append(row.sum(0) if sources[i][2] is None else row)
        for piece, (i, _) in zip(pieces, taken, strict=True):
            edge, _, dim = sources[i]
            whole = sum(piece[1:], piece[0]) if dim is None else _joined(piece).movedim(0, dim)
            known = found.get(id(edge))
            found[id(edge)] = whole if known is None else known + whole
        return found


def _joined(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else cat(pieces)


def is_small(recording: Recorder) -> bool:
    """Whether the kernels of an example take less time than the Python that records them."""
    parts = [part[1] for part in recording.parts if not callable(part)]
    works = [np.frombuffer(bytes(part), np.int32).reshape(-1, RECORD_BYTES // 4)[:, 1] for part in parts]
    return sum(int(work.sum()) for work in works) <= _MOST_WORK * sum(map(len, works))


class _Batch(_Recomputed):
    """The node of all results of vmap. The graph of its second run is behind it in later passes."""

    __slots__ = ("examples", "outputs", "seen")

    examples: Examples | None
    outputs: list[Tensor] | None
    seen: list[tuple[Tensor, int]]

    def gradients(self, gradient: Any, create_graph: bool) -> Iterable[tuple[Edge, Tensor | None]]:
        if self.outputs is not None:
            return [(edge_of(self.outputs[i]), g) for i, g in gradient.items() if self.outputs[i]._requires_grad]
        if self.again is None or self.examples is None:
            raise self._freed()
        if any(x._storage.version != version for x, version in self.seen):
            raise self._changed()
        wanted = [e for e in self.edges if e is not None]
        found = None if create_graph else self.examples.gradients(wanted, gradient)
        if found is None:
            with enable_grad():
                outputs = self.outputs = self.again()
            kept = [(outputs[i], g) for i, g in gradient.items() if outputs[i]._requires_grad]
            stop = frozenset(id(e) for e in wanted if isinstance(e, Node))
            found = gradients_at(wanted, [t for t, _ in kept], [g for _, g in kept], True, create_graph, stop)
            self.edges = tuple(edge_of(y) for y in outputs if y._requires_grad)
        return [(edge, found.get(id(edge))) for edge in wanted]

    def drop(self) -> None:
        super().drop()
        self.examples = self.outputs = None


def differentiable(
    examples: Examples, edges: list[Edge], rows: list[Tensor], needs: list[bool], again: Callable[[], list[Tensor]]
) -> list[Tensor]:
    """The results (examples, ...) with gradients, those that need one: of `edges`, from `again()`, which computes them
    with a graph."""
    node = _Batch(Described("vmap", None), (), rows[0])  # type: ignore[arg-type]
    node.edges, node.again, node.shapes = tuple(edges), again, None
    node.examples, node.outputs = examples, None
    every = chain(edges, (x for x, _ in examples.arguments))
    node.seen = [(x, x._storage.version) for x in every if isinstance(x, Tensor) and x.dense]
    return [output_of(node, i, x) if need else x for i, (x, need) in enumerate(zip(rows, needs, strict=True))]


__all__ = ["Examples", "differentiable", "is_small"]
