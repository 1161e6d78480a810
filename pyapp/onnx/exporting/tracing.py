"""Traces a call: its ops become the nodes of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.op import Op
from pyapp.engine.ops.random import default_generator
from pyapp.engine.tracing import observed
from pyapp.engine.user_errors import describe
from pyapp.errors import ModelError
from pyapp.jit import TracerWarning

from .graph import Graph
from .operators import MOVES, TAKING, moved
from .recurrent import WRITERS


def _refuse_complex(op: Op, y: Any) -> None:
    if isinstance(y, Tensor) and y.dtype.is_complex:
        raise ModelError(
            f"the op {op.name.strip('_')!r} gives complex numbers, which ONNX cannot compute with",
            hint="Compute with their real and imaginary parts",
        )


class _Observer:
    """Writes the ops of a call into a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, op: Op, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        graph = self._graph
        graph.op = op.name
        if any(graph.is_computed(argument) for argument in args):
            return (self._view if op.view or op.name in MOVES else self._result)(op, args, run)
        if not graph.sized or not (op.view or any(graph.may_have_sizes(argument) for argument in args)):
            return run()
        return self._of_constants(op, args, run)

    def _of_constants(self, op: Op, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """What is computed of constants: written where that is possible, else a constant itself."""
        writer, before = WRITERS.get(op.name), len(self._graph.nodes)
        if writer is None and op.definition is not None and not op.view:
            return NotImplemented
        y = run()
        try:
            name = writer(self._graph, y, *args) if writer and isinstance(y, Tensor) else None
        except ModelError:
            name = None
        if name is not None:
            self._graph.give(y, name, of_constants=True)
        else:
            self._graph.take_back(before)
        return y

    def _view(self, op: Op, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        graph, writer, title = self._graph, WRITERS.get(op.name), op.name.strip("_")
        computed = any(graph.is_computed(argument) for argument in args[1:])
        if computed and op.name not in TAKING:
            raise ModelError(f"{title} with places that depend on the inputs cannot be written as ONNX")
        y, before = run(), len(graph.nodes)
        _refuse_complex(op, y)
        name = writer(graph, y, *args) if writer else None
        if name is None:
            graph.take_back(before)
            if computed:
                raise ModelError(
                    f"{title} by bools, or by tensors beside numbers, that depend on the inputs cannot be written as "
                    "ONNX"
                )
            if op.name in ("_as_strided", "_strided") and not args[0].is_contiguous():
                raise ModelError(f"{title} of a view cannot be written as ONNX")
            name = moved(graph, op, y, args[0], args[1:])
        graph.give(y, name)
        return y

    def _result(self, op: Op, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        graph, writer, title = self._graph, WRITERS.get(op.name), op.name.strip("_")
        if writer is None:
            if op.definition is not None:
                return NotImplemented
            raise ModelError(
                f"the op {title!r} cannot be written as ONNX", hint="Export a part of the model without it"
            )
        y, before = run(), len(graph.nodes)
        _refuse_complex(op, y)
        name = writer(graph, y, *args)
        if name is None:
            graph.take_back(before)
            if op.definition is not None:
                return NotImplemented
            raise ModelError(f"the op {title!r} cannot be written as ONNX with these arguments")
        graph.give(y, name)
        return y


def _tell_read(graph: Graph, x: Tensor, computes: bool) -> None:
    """Warns where Python reads what depends on the inputs. ModelError where a function computes with it."""
    if graph.is_computed(x):
        if computes:
            raise ModelError(
                f"a function computes with the elements of {describe(x)} outside ops, which ONNX cannot say",
                hint="Export a part of the model without it",
            )
        warnings.warn(
            f"export: Python reads a value of {describe(x)}, which depends on the inputs: what follows from it is in "
            "the file as it is for the example",
            TracerWarning,
            stacklevel=4,
        )


def _tell_random() -> None:
    warnings.warn(
        "export: the module draws random numbers, which are in the file as they were drawn: call its eval() first",
        TracerWarning,
        stacklevel=4,
    )


def traced(
    function: Callable[..., Any], inputs: Sequence[Tensor], names: Mapping[int, str], given: Sequence[str],
    opset: int, sized: bool = False,
) -> tuple[Graph, Any]:  # fmt: skip
    """(graph, outputs): what the function computes of the inputs, which have the names `given`."""
    graph = Graph(names, opset, sized)
    for x, name in zip(inputs, given, strict=True):
        graph.give(x, name)
    drawn = default_generator.get_state()
    with observed(_Observer(graph), graph.written, lambda x, computes: _tell_read(graph, x, computes)):
        outputs = function()
    if default_generator.get_state() != drawn:
        _tell_random()
    graph.check_constants()
    return graph, outputs
