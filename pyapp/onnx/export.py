"""`export`: writes what a module computes of example inputs as an ONNX file."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.op import Op
from pyapp.engine.ops import tensor
from pyapp.engine.tracing import observed
from pyapp.engine.user_errors import describe
from pyapp.errors import ModelError
from pyapp.export import Dim, ExportedProgram
from pyapp.export.inputs import Inputs
from pyapp.formats.sink import AnySink
from pyapp.nn import Module

from .exporting.graph import Graph
from .exporting.model_file import Sizes, write_model
from .exporting.operators import MOVES, OPSETS, TAKING, WRITERS, moved
from .exporting.sizes import Formulas, join, written_out

# torch's other arguments: the values of them that say what is done here.
_OF_TORCH: dict[str, tuple[Any, ...]] = {
    "export_params": (True,), "keep_initializers_as_inputs": (None, False), "verbose": (None, False),
    "do_constant_folding": (True, False), "dynamo": (True, False), "optimize": (True, False), "training": (None,),
    "report": (False,), "verify": (False,), "profile": (False,), "fallback": (False,),
    "autograd_inlining": (True,),
}  # fmt: skip
_CALLS = 4  # with other sizes each, where sizes may differ
_MANY_CALLS = 10  # where a number is a rounded quotient of sizes
_FURTHER = 8  # sizes from which those of the calls are drawn


def _refuse_complex(op: Op, y: Any) -> None:
    if isinstance(y, Tensor) and y.dtype.is_complex:
        raise ModelError(
            f"the op {op.name.strip('_')!r} gives complex numbers, which ONNX cannot compute with",
            hint="Compute with their real and imaginary parts",
        )


class TracerWarning(UserWarning):
    """What is written may be another computation for other inputs."""


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


def _tell_read(graph: Graph, x: Tensor) -> None:
    """Warns where Python reads what depends on the inputs."""
    if graph.is_computed(x):
        warnings.warn(
            f"export: Python reads a value of {describe(x)}, which depends on the inputs: what follows from it is in "
            "the file as it is for the example",
            TracerWarning,
            stacklevel=4,
        )


def traced(
    function: Callable[..., Any], inputs: Sequence[Tensor], names: Mapping[int, str], given: Sequence[str],
    opset: int = OPSETS[-1], sized: bool = False,
) -> tuple[Graph, Any]:  # fmt: skip
    """(graph, outputs): what the function computes of the inputs, which have the names `given`."""
    graph = Graph(names, opset, sized)
    for x, name in zip(inputs, given, strict=True):
        graph.give(x, name)
    with observed(_Observer(graph), graph.written, lambda x: _tell_read(graph, x)):
        outputs = function()
    graph.check_constants()
    return graph, outputs


def _tensors(found: Any) -> list[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(found, Tensor):
        return [found]
    parts = found.values() if isinstance(found, Mapping) else found if isinstance(found, (list, tuple)) else None
    if parts is None:
        raise TypeError(f"export: the module gives {type(found).__name__}, expected tensors, or lists or dicts of them")
    return [x for part in parts if part is not None for x in _tensors(part)]


class _Call:
    """A call with the example's arguments, or with tensors of other sizes in their place."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.module = module
        if isinstance(module, ExportedProgram):
            self.module, self.inputs = module.module(), module.inputs
        else:
            self.inputs = Inputs.of(module.forward if isinstance(module, Module) else module, args, kwargs)
        self.at = [at for at, leaf in enumerate(self.inputs.leaves) if isinstance(leaf, Tensor)]
        self.examples: list[Tensor] = [self.inputs.leaves[at].detach() for at in self.at]
        self.names = [f"input_{at}" for at in range(len(self.at))]

    def name(self, names: Sequence[str] | None) -> None:
        self.names = list(names or self.names)
        if len(self.names) != len(self.at) or len(set(self.names)) != len(self.names):
            raise ValueError(f"export: {len(self.at)} inputs and the names {self.names}")

    def vary(self, axes: Mapping[str, Any], outputs: Sequence[str] | None) -> None:
        """Notes which sizes may differ, by the names of inputs. ValueError for what does not fit them. Sizes of outputs
        follow from those of inputs, so what is said of them is not needed."""
        for name, dims in axes.items():
            if name not in self.names and (name in outputs if outputs else name.startswith("output_")):
                continue
            if name not in self.names:
                names = ", ".join([*self.names, *(outputs or ())])
                raise ValueError(f"export: dynamic_axes names {name!r}; there are {names}")
            x, sizes = self.examples[self.names.index(name)], self.inputs.sizes[self.at[self.names.index(name)]]
            for dim, title in dims.items() if isinstance(dims, Mapping) else ((dim, None) for dim in dims):
                if not isinstance(dim, int) or not -x.ndim <= dim < x.ndim:
                    raise ValueError(f"export: dynamic_axes: {name} has {x.ndim} dims, no dim {dim!r}")
                if x.shape[dim] == 0:
                    raise ValueError(f"export: {name} is empty at dim {dim}: give an example that is not")
                size = title if isinstance(title, Dim) else Dim("size")
                if size is not title:
                    size.__name__ = str(title or f"{name}_dim_{dim % x.ndim}")  # any text, as in torch
                sizes[dim] = size

    def run(self, examples: Sequence[Tensor]) -> Any:
        leaves = list(self.inputs.leaves)
        for at, x in zip(self.at, examples, strict=True):
            leaves[at] = x
        args, kwargs = self.inputs.called(leaves)
        return self.module(*args, **kwargs)

    def titles(self, together: bool) -> dict[tuple[int, int], str]:
        """The names of the sizes that may differ, by input and dim. `together`: those without a name are one where
        the example has one number."""
        found = {}
        for at, (name, x) in enumerate(zip(self.names, self.examples, strict=True)):
            for dim, size in enumerate(self.inputs.sizes[self.at[at]]):
                if isinstance(size, Dim):
                    unnamed = size in (Dim.AUTO, Dim.DYNAMIC)
                    number = f"size_{x.shape[dim]}" if together else f"{name}_dim_{dim}"
                    found[at, dim] = number if unnamed else size.__name__
        return found

    def limits(self, titles: Mapping[tuple[int, int], str]) -> dict[str, tuple[int, int, int | None]]:
        """(number in the example, smallest, largest) of each size. ValueError where the example has several numbers for
        one."""
        found: dict[str, tuple[int, int, int | None]] = {}
        for (at, dim), title in titles.items():
            size: Any = self.inputs.sizes[self.at[at]][dim]
            number = self.examples[at].shape[dim]
            known = found.setdefault(title, (number, size.min, size.max))
            if known[0] != number:
                raise ValueError(f"export: {title!r} is {known[0]} and {number} in the example")
        return found


class _Draw:
    """Draws sizes for calls. Those of earlier calls come last: what a module keeps for them, such as a table, it would
    not compute again.
    """

    def __init__(self) -> None:
        self._seen: dict[str, list[int]] = {}

    def calls(
        self, limits: Mapping[str, tuple[int, int, int | None]], factor: bool, near: bool, count: int
    ) -> list[dict[str, int]]:
        """Sizes for each call: at least 2, since a size of 1 is broadcast. `factor`: multiples of the power of two that
        the example's number has, as networks with strides need them. `near`: as many as the example's number, or fewer,
        as far as there are such; networks may have a largest number.
        """
        calls: list[dict[str, int]] = [{} for _ in range(count)]
        for title, (number, least, most) in limits.items():
            step = number & -number if factor else 1
            more, fewer = range(1, 3 * _FURTHER), range(-1, -number, -1)
            possible = [number + step * k for k in ((*fewer, 0, *more) if near else (*more, *fewer[:_FURTHER], 0))]
            possible = [n for n in possible if n >= max(least, 2) and (most is None or n <= most)]
            if len(possible) < 2:
                raise ValueError(f"export: {title!r} cannot differ: it is at least {least}, at most {most}")
            seen = self._seen.setdefault(title, [number])
            possible = sorted(possible, key=seen.count)[: count if near else 2 * _FURTHER]
            random.Random(title).shuffle(possible)
            for call in calls:
                # Where two sizes happen to be equal, a module may compute something else.
                call[title] = min(possible, key=lambda n: (n in call.values()) + 2 * seen.count(n))
                seen.append(call[title])
        return calls


def _sized_graph(
    call: _Call, parameters: Mapping[int, str], opset: int, outputs: Sequence[str] | None
) -> tuple[Graph, list[Tensor], dict[str, Sizes], list[str]]:
    """(graph, outputs of the first call, the sizes of inputs and outputs by name, the names of the outputs)."""
    errors: list[Exception] = []
    draw = _Draw()
    call.run(call.examples)  # what a module makes at its first call, it has made now
    for together, factor, near in (
        (False, False, False), (False, False, True), (False, True, False), (True, False, True),
    ):  # fmt: skip
        titles = call.titles(together)
        if together and not any(title.startswith("size_") for title in titles.values()):
            continue
        limits = call.limits(titles)
        if factor and all(number % 2 for number, _, _ in limits.values()):
            continue
        try:
            for count in (_CALLS, _MANY_CALLS):
                made = _joined_calls(call, titles, draw.calls(limits, factor, near, count), parameters, opset, outputs)
                if made is not None:
                    return made
        except (ModelError, _CallFails) as error:
            errors.append(error)
    raise next((error for error in errors if isinstance(error, ModelError)), errors[0])


class _CallFails(ModelError):
    """The module does not run with sizes that may be given."""


def _joined_calls(
    call: _Call, titles: Mapping[tuple[int, int], str], drawn: Sequence[Mapping[str, int]],
    parameters: Mapping[int, str], opset: int, names: Sequence[str] | None,
) -> tuple[Graph, list[Tensor], dict[str, Sizes], list[str]] | None:  # fmt: skip
    """None where more calls are needed to tell what a number is."""
    graphs, results, shapes = list[Graph](), list[list[Tensor]](), list[list[tuple[int, ...]]]()
    for sizes in drawn:
        given = [
            _resized(x, {dim: sizes[title] for (k, dim), title in titles.items() if k == at})
            for at, x in enumerate(call.examples)
        ]
        try:
            graph, found = traced(lambda given=given: call.run(given), given, parameters, call.names, opset, True)
        except ModelError:
            raise
        except Exception as error:
            what = ", ".join(f"{name} {tuple(x.shape)}" for name, x in zip(call.names, given, strict=True))
            raise _CallFails(
                f"the module does not run with {what}, which dynamic_axes or dynamic_shapes allow: {error}",
                hint="Give limits, Dim(name, min=…, max=…) in dynamic_shapes, or leave a size out",
            ) from error
        outputs = _tensors(found)
        made = _output_names(names, len(outputs))
        for x, name in zip(outputs, made, strict=True):
            graph.result(x, name)
        graphs.append(graph)
        shapes.append([tuple(x.shape) for x in (*given, *outputs)])
        results = [outputs]
        graph.forget()
    all_names = [*call.names, *made]
    if join(graphs, call.names, made) and len(drawn) < _MANY_CALLS:
        return None
    formulas = Formulas(len(drawn))
    for (at, dim), title in titles.items():
        formulas.add(tuple(shape[at][dim] for shape in shapes), title)
    infos: dict[str, Sizes] = {}
    for at, name in enumerate(all_names):
        if len({len(shape[at]) for shape in shapes}) > 1:
            raise ModelError(f"{name} has other dims for other sizes of the inputs, which ONNX cannot say")
        columns = zip(*(shape[at] for shape in shapes), strict=True)
        infos[name] = [_size(formulas, numbers, f"{name}_dim_{dim}") for dim, numbers in enumerate(columns)]
    return graphs[0], results[0], infos, made


def _size(formulas: Formulas, numbers: tuple[int, ...], otherwise: str) -> int | str:
    formula = formulas.find(numbers)
    if isinstance(formula, int):
        return formula
    return otherwise if formula is None else written_out(formula)


def _resized(x: Tensor, sizes: Mapping[int, int]) -> Tensor:
    """x with other sizes: its elements again from the beginning, or fewer."""
    for dim, size in sizes.items():
        x = x.index_select(dim, tensor([k % x.shape[dim] for k in range(size)], dtype="int64", device=x.device))
    return x.clone()


def _output_names(names: Sequence[str] | None, count: int) -> list[str]:
    found = list(names or [f"output_{at}" for at in range(count)])
    if len(found) != count:
        raise ValueError(f"export: {count} outputs and the names {found}")
    return found


@contextmanager
def _named_parameters(module: Any, taken: Sequence[str]) -> Iterator[dict[int, str]]:
    """The names of parameters and buffers, by the identity of tensors; meanwhile none of them requires a gradient."""
    names: dict[int, str] = {}
    learning: list[Tensor] = []
    if hasattr(module, "named_parameters"):
        for name, x in (*module.named_parameters(), *module.named_buffers()):
            names[id(x)] = name if name not in taken else f"{name}_parameter"
            if x.requires_grad:
                learning.append(x)
                x.requires_grad_(False)
    try:
        yield names
    finally:
        for x in learning:
            x.requires_grad_(True)


def export(
    module: Any, inputs: Any, file: AnySink, *, kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    opset_version: int | None = None, dynamic_axes: Mapping[str, Any] | None = None, dynamic_shapes: Any = None,
    external_data: bool | None = None, **of_torch: Any,
) -> None:  # fmt: skip
    """Writes a module, a function of tensors or an ExportedProgram as an ONNX file, by torch.onnx.export's names.

    inputs: an example: a tensor or a sequence of arguments, of which a dict at the end and `kwargs` are those by name.
    Sizes are those of the example, except those that `dynamic_axes` ({"input_0": {0: "batch"}}, by `input_names`) or
    `dynamic_shapes` (as in pyapp.export) name: then the module is called with four sets of sizes, and the file computes
    what all of them have in common.

    Parameters keep their names; block-quantised weights become float32. What Python decides by the values of tensors is
    decided as for the example. What is written in place becomes a new tensor. `opset_version`: 17 to 23, 20 by default.
    `external_data`: the tensors are in a file of their own, FILE.data; by default those of a model above 2 GB.
    ModelError: an op has no form in ONNX, or the module computes something else for other sizes. Modules should be in
    evaluation mode: dropout would be a constant mask.
    """
    for name, value in of_torch.items():
        if name not in _OF_TORCH:
            raise TypeError(f"export: got an unexpected keyword argument {name!r}")
        if value not in _OF_TORCH[name]:
            raise NotImplementedError(f"export: {name}={value!r:.60} does nothing here: leave it out")
    opset = OPSETS[1] if opset_version is None else opset_version
    if opset not in range(OPSETS[0], OPSETS[2] + 1):
        raise ValueError(f"export: opset_version is {OPSETS[0]} to {OPSETS[2]}, not {opset_version!r}")
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs or ())
    if args and isinstance(args[-1], dict) and kwargs is None and not isinstance(module, ExportedProgram):
        args, kwargs = args[:-1], args[-1]
    call = _Call(module, args, kwargs or {})
    call.name(input_names)
    call.inputs.vary(dynamic_shapes)
    call.vary(dynamic_axes or {}, output_names)
    with _named_parameters(call.module, call.names) as parameters, no_grad():
        if call.titles(False):
            graph, outputs, sizes, titles = _sized_graph(call, parameters, opset, output_names)
        else:
            given = [x.clone() for x in call.examples]
            graph, found = traced(lambda: call.run(given), given, parameters, call.names, opset)
            outputs = _tensors(found)
            titles = _output_names(output_names, len(outputs))
            for x, title in zip(outputs, titles, strict=True):
                graph.result(x, title)
            graph.keep_used(titles)
            all_tensors = zip((*call.names, *titles), (*given, *outputs), strict=True)
            sizes = {name: tuple(x.shape) for name, x in all_tensors}
        graph.share_arrays()
        write_model(
            graph, [(name, x, sizes[name]) for name, x in zip(call.names, call.examples, strict=True)],
            [(name, x, sizes[name]) for name, x in zip(titles, outputs, strict=True)], file, external_data,
        )  # fmt: skip
