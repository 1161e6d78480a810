"""torch.cuda's graphs: what a program launches is recorded, and repeated by one call. `pyapp.compile` does the same for
a function, copies its arguments, and notices what has changed.

Recording also runs what it records, once. In torch it does not: there a training step that is recorded counts for
nothing, and what it computes can be read after the first replay only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

from ..engine.autograd import grad, no_grad
from ..engine.autograd_function import Function
from ..engine.launch import Graph, Recorder, capturing, recording
from ..engine.ops.create import ones_like
from ..engine.storage import GraphPools
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from ..nn.module import Module
from .streams import Stream, backend_of, current_stream, stream

_handles = itertools.count(1)
_Callables = TypeVar("_Callables")


def graph_pool_handle() -> tuple[int, int]:
    """A name for memory that graphs share in torch. Here each graph has memory of its own, whatever it is given."""
    return 0, next(_handles)


def is_current_stream_capturing() -> bool:
    """Whether this thread is recording a graph."""
    return capturing()


class CUDAGraph:
    """What was launched between `capture_begin()` and `capture_end()`, or in `with cuda.graph(this):`. `replay()` runs
    it again, with what its tensors then hold: write new inputs into the same tensors (`x.copy_(batch)`). The tensors
    that were made meanwhile stay this graph's, and each replay writes them again.

    Reading a tensor while it is recorded (`item`, `if loss < 1`), or computing without kernels, is a RuntimeError.
    `keep_graph`, `pool` and `capture_error_mode` are accepted as in torch and have no effect.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        backend_of()  # or there is no card
        self._graph: Graph | None = None
        self._recorder: Recorder | None = None
        self._recording: Any = None
        self._pool = graph_pool_handle()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """What this thread launches from here on is recorded."""
        self.reset()
        recorder = Recorder(GraphPools())
        context = recording(recorder)
        context.__enter__()
        self._recorder, self._recording = recorder, context

    def capture_end(self) -> None:
        """The end of what is recorded. RuntimeError where nothing began."""
        recorder = self._stop("capture_end")
        self._graph = Graph(None, recorder)

    def _stop(self, name: str) -> Recorder:
        recorder, context = self._recorder, self._recording
        if recorder is None:
            raise RuntimeError(f"CUDAGraph.{name}: call capture_begin() first")
        self._recorder = self._recording = None
        context.__exit__(None, None, None)
        return recorder

    def replay(self) -> None:
        """Runs what was recorded, in the current stream. RuntimeError where nothing was."""
        if self._graph is None:
            raise RuntimeError("CUDAGraph.replay: nothing was recorded yet; use `with cuda.graph(g):` first")
        self._graph.replay()

    def reset(self) -> None:
        """Forgets what was recorded. The memory of its tensors is freed with the last of them."""
        self._graph = None

    def pool(self) -> tuple[int, int]:
        """A name of its memory, for the argument `pool` of others."""
        return self._pool

    def __repr__(self) -> str:
        return f"<cuda.CUDAGraph of {self._graph if self._graph is not None else 'nothing yet'}>"


class graph:
    """A context whose launches a CUDAGraph records, in a stream (by default the current one). Where the block raises an
    error, nothing is recorded."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if not isinstance(cuda_graph, CUDAGraph):
            raise TypeError(f"cuda.graph: takes a CUDAGraph, not {type(cuda_graph).__name__}")
        self.cuda_graph, self._stream = cuda_graph, stream
        self._within: Any = None

    def __enter__(self) -> None:
        if self._stream is not None:
            self._stream.wait_stream(current_stream(self._stream.device))
        self._within = stream(self._stream)
        self._within.__enter__()
        try:
            self.cuda_graph.capture_begin()
        except BaseException:
            self._within.__exit__(None, None, None)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph._stop("capture_end")
        finally:
            self._within.__exit__(None, None, None)
            if self._stream is not None:  # a replay elsewhere writes the same memory
                current_stream(self._stream.device).wait_stream(self._stream)


def make_graphed_callables(
    callables: _Callables,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> _Callables:
    """A module or function (or a tuple of them, run in this order) that repeats a graph, forward and in its gradient.

    `sample_args`: the tensors that it takes, as a tuple (or a tuple of these): later ones have the same shapes, dtypes
    and `requires_grad`. Results are new at each call of a module in the mode (`training`) that it was recorded in; in
    the other mode it runs as before. `num_warmup_iters`: how often it runs before it is recorded.

    TypeError for arguments that are not tensors; ValueError for a module with hooks, or with buffers that require a
    gradient.
    """
    if not isinstance(callables, tuple):
        (made,) = _graphed((callables,), (sample_args,), num_warmup_iters, allow_unused_input)
        return made
    if not isinstance(sample_args, tuple) or len(sample_args) != len(callables):
        raise ValueError("make_graphed_callables: takes a tuple of arguments for each of the callables")
    return _graphed(callables, sample_args, num_warmup_iters, allow_unused_input)  # type: ignore[return-value]


def _graphed(callables: tuple[Any, ...], samples: Any, warm_up: int, allow_unused: bool) -> tuple[Any, ...]:
    parts = [_Part(call, args) for call, args in zip(callables, samples, strict=True)]
    for part in parts:
        for _ in range(warm_up):
            part.run_once(allow_unused)
    for part in parts:
        part.record_forward()
    for part in reversed(parts):
        part.record_backward(allow_unused)
    return tuple(part.callable() for part in parts)


class _Part:
    """A callable and the two graphs of it."""

    def __init__(self, call: Any, args: Any) -> None:
        args = args if isinstance(args, tuple) else (args,)
        for arg in args:
            if not isinstance(arg, Tensor):
                raise TypeError(f"make_graphed_callables: the arguments are tensors, not {type(arg).__name__}")
        self.call, self.args = call, args
        self.parameters: tuple[Tensor, ...] = ()
        if isinstance(call, Module):
            if any(buffer.requires_grad for buffer in call.buffers()):
                raise ValueError("make_graphed_callables: a buffer of the module requires a gradient")
            if any(module._hooks for module in call.modules()):
                raise ValueError("make_graphed_callables: remove the hooks of the module first; a replay skips them")
            self.parameters = tuple(call.parameters())
        self.inputs = (*args, *self.parameters)
        self.wanted = [i for i, x in enumerate(self.inputs) if x.requires_grad]
        self.single = False
        self.differentiable: list[bool] = []  # of the outputs, in the end
        self.outputs: tuple[Tensor, ...] = ()
        self.gradients: tuple[Tensor, ...] = ()  # of the outputs that have one
        self.found: tuple[Tensor | None, ...] = ()  # the gradients of the inputs that want one
        self.forward, self.backward = CUDAGraph(), CUDAGraph()

    def _call(self) -> tuple[Tensor, ...]:
        found = self.call(*self.args)
        self.single = isinstance(found, Tensor)
        outputs = (found,) if self.single else tuple(found)
        for output in outputs:
            if not isinstance(output, Tensor):
                raise TypeError(f"make_graphed_callables: the results are tensors, not {type(output).__name__}")
        return outputs

    def _differentiable(self) -> list[Tensor]:
        return [x for x in self.outputs if x.requires_grad]

    def _grad(self, allow_unused: bool) -> tuple[Tensor | None, ...]:
        wanted = [self.inputs[i] for i in self.wanted]
        outputs = self._differentiable()
        if not (wanted and outputs):
            return (None,) * len(wanted)
        return grad(outputs, wanted, self.gradients, allow_unused=allow_unused)

    def run_once(self, allow_unused: bool) -> None:
        """As it will be recorded: what is made at the first run is there then."""
        self.outputs = self._call()
        self.gradients = tuple(ones_like(x) for x in self._differentiable())
        self._grad(allow_unused)
        self.outputs = self.gradients = ()

    def record_forward(self) -> None:
        with graph(self.forward):
            self.outputs = self._call()

    def record_backward(self, allow_unused: bool) -> None:
        self.gradients = tuple(ones_like(x) for x in self._differentiable())
        with graph(self.backward):
            self.found = self._grad(allow_unused)
        self.differentiable = [x.requires_grad for x in self.outputs]
        self.outputs = tuple(x.detach() for x in self.outputs)  # not the nodes after them

    def callable(self) -> Any:
        part, differentiable = self, self.differentiable

        class Graphed(Function):
            """The two graphs as one op."""

            @staticmethod
            def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
                part.fill(part.args, inputs[: len(part.args)])
                part.forward.replay()
                found = tuple(x.clone() for x in part.outputs)
                ctx.mark_non_differentiable(*(x for x, has in zip(found, differentiable, strict=True) if not has))
                return found

            @staticmethod
            def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
                given = [g for g, has in zip(gradients, differentiable, strict=True) if has]
                part.fill(part.gradients, given)
                part.backward.replay()
                found: list[Tensor | None] = [None] * len(part.inputs)
                for i, gradient in zip(part.wanted, part.found, strict=True):
                    found[i] = None if gradient is None else gradient.clone()
                return tuple(found)

        def run(*args: Tensor) -> Any:
            found = Graphed.apply(*args, *part.parameters)
            found = found if isinstance(found, tuple) else (found,)
            return found[0] if part.single else found

        if not isinstance(self.call, Module):
            return run
        module, plain, mode = self.call, self.call.forward, self.call.training

        def forward(*args: Tensor) -> Any:
            return run(*args) if module.training == mode else plain(*args)

        module.forward = forward  # type: ignore[method-assign]
        return module

    def fill(self, places: Sequence[Tensor], given: Sequence[Tensor]) -> None:
        """Writes what a call is given where the graph reads it. ValueError where it does not fit."""
        if len(places) != len(given):
            raise ValueError(f"a graphed callable: takes {len(places)} tensors, not {len(given)}")
        with no_grad():
            for place, x in zip(places, given, strict=True):
                if x.shape != place.shape or x.dtype is not place.dtype:
                    raise ValueError(f"a graphed callable: takes {describe(place)}, not {describe(x)}")
                if x is not place:
                    place.copy_(x)


__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]
