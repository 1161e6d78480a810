"""Calls of a module with the example's inputs, or with inputs of other sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.ops import tensor
from pyapp.errors import ModelError
from pyapp.export import Dim, ExportedProgram
from pyapp.export.inputs import Inputs
from pyapp.nn import Module

from .draws import CALLS, MANY_CALLS, Draws
from .formulas import Formulas, written_out
from .graph import Graph, Sizes, Written
from .sizes import join
from .tracing import traced


def tensors_of(found: Any) -> list[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(found, Tensor):
        return [found]
    parts = found.values() if isinstance(found, Mapping) else found if isinstance(found, (list, tuple)) else None
    if parts is None:
        raise TypeError(f"export: the module gives {type(found).__name__}, expected tensors, or lists or dicts of them")
    return [x for part in parts if part is not None for x in tensors_of(part)]


def _resized(x: Tensor, sizes: Mapping[int, int]) -> Tensor:
    """x with other sizes: its elements again from the beginning, or fewer."""
    for dim, size in sizes.items():
        x = x.index_select(dim, tensor([k % x.shape[dim] for k in range(size)], dtype="int64", device=x.device))
    return x.clone()


def _parts(title: str, titles: Collection[str]) -> list[str]:
    """The names of the sizes of which a size is the sum, as its own name says: "past + new"."""
    parts = title.split(" + ")
    return parts if len(parts) > 1 and all(part in titles for part in parts) else []


class Call:
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
        """(number in the example, smallest, largest) of each size that is no sum of others. ValueError where the
        example has several numbers for one.
        """
        found: dict[str, tuple[int, int, int | None]] = {}
        for (at, dim), title in titles.items():
            size: Any = self.inputs.sizes[self.at[at]][dim]
            number = self.examples[at].shape[dim]
            if _parts(title, titles.values()):
                continue
            known = found.setdefault(title, (number, size.min, size.max))
            if known[0] != number:
                raise ValueError(f"export: {title!r} is {known[0]} and {number} in the example")
        for (at, dim), title in titles.items():
            wanted = sum(found[part][0] for part in _parts(title, titles.values()))
            if wanted and wanted != self.examples[at].shape[dim]:
                raise ValueError(f"export: {title!r} is {wanted} and {self.examples[at].shape[dim]} in the example")
        return found

    def resized(self, titles: Mapping[tuple[int, int], str], numbers: Mapping[str, int]) -> list[Tensor]:
        """The example's inputs with other sizes, of which `numbers` has those that are no sums."""
        sizes = {
            title: sum(numbers[part] for part in _parts(title, titles.values()) or [title]) for title in titles.values()
        }
        return [
            _resized(x, {dim: sizes[title] for (k, dim), title in titles.items() if k == at})
            for at, x in enumerate(self.examples)
        ]


def sized_graph(
    call: Call, parameters: Mapping[int, str], opset: int, outputs: Sequence[str] | None
) -> tuple[Graph, list[Tensor], dict[str, Sizes], list[str]]:
    """(graph, outputs of the first call, the sizes of inputs and outputs by name, the names of the outputs)."""
    errors: list[_CallFails] = []
    draw = Draws({size for sizes in call.inputs.sizes for size in sizes if isinstance(size, int)})
    call.run(call.examples)  # what a module makes at its first call, it has made now
    for way, together in (("wide", False), ("", False), ("near", False), ("factor", False), ("near", True)):
        titles = call.titles(together)
        if together and not any(title.startswith("size_") for title in titles.values()):
            continue
        limits = call.limits(titles)
        if way == "factor" and all(number % 2 for number, _, _ in limits.values()):
            continue
        try:
            for count in (CALLS, MANY_CALLS):
                made = _joined_calls(call, titles, draw.calls(limits, way, count), parameters, opset, outputs)
                if made is not None:
                    return made
        except _CallFails as error:
            if way != "wide":
                errors.append(error)
    raise errors[0]


class _CallFails(ModelError):
    """The module does not run with sizes that may be given."""


def _joined_calls(
    call: Call, titles: Mapping[tuple[int, int], str], drawn: Sequence[Mapping[str, int]],
    parameters: Mapping[int, str], opset: int, names: Sequence[str] | None,
) -> tuple[Graph, list[Tensor], dict[str, Sizes], list[str]] | None:  # fmt: skip
    """None where more calls are needed to tell what a number is."""
    graphs, shapes = list[Graph](), list[list[tuple[int, ...]]]()
    outputs: list[Tensor] = []
    for numbers in drawn:
        given = call.resized(titles, numbers)
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
        outputs = tensors_of(found)
        made = titles_of(names, len(outputs))
        for x, name in zip(outputs, made, strict=True):
            graph.result(x, name)
        graphs.append(graph)
        shapes.append([tuple(x.shape) for x in (*given, *outputs)])
        graph.forget()
    all_names = [*call.names, *made]
    if join(graphs, call.names, made) and len(drawn) < MANY_CALLS:
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
    return graphs[0], outputs, infos, made


def _size(formulas: Formulas, numbers: tuple[int, ...], otherwise: str) -> int | str:
    formula = formulas.find(numbers)
    if isinstance(formula, int):
        return formula
    return otherwise if formula is None else written_out(formula)


def titles_of(names: Sequence[str] | None, count: int) -> list[str]:
    found = list(names or [f"output_{at}" for at in range(count)])
    if len(found) != count:
        raise ValueError(f"export: {count} outputs and the names {found}")
    return found


@contextmanager
def named_parameters(module: Any, taken: Sequence[str]) -> Iterator[dict[int, str]]:
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


def written_graph(call: Call, parameters: Mapping[int, str], opset: int, names: Sequence[str] | None) -> Written:
    """The graph of a call, whose outputs have these names."""
    if call.titles(False):
        graph, outputs, sizes, titles = sized_graph(call, parameters, opset, names)
    else:
        given = [x.clone() for x in call.examples]
        graph, found = traced(lambda: call.run(given), given, parameters, call.names, opset)
        outputs = tensors_of(found)
        titles = titles_of(names, len(outputs))
        for x, title in zip(outputs, titles, strict=True):
            graph.result(x, title)
        graph.keep_used(titles)
        sizes = {name: tuple(x.shape) for name, x in zip((*call.names, *titles), (*given, *outputs), strict=True)}
    graph.share(titles)
    return Written(
        graph, [(name, x, sizes[name]) for name, x in zip(call.names, call.examples, strict=True)],
        [(name, x, sizes[name]) for name, x in zip(titles, outputs, strict=True)],
    )  # fmt: skip
