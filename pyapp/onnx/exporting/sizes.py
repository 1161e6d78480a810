"""Sizes of inputs that may differ: joins the graphs of several calls, with other sizes each, into one.

The calls must give the same nodes. Where they differ in a number, that number is a function of sizes: a dim of an
input or of an earlier result, a product, a sum, a quotient of them. The function that gives the number of every call is
written as nodes, which compute it from `Shape`. A constant that differs is one that is filled with a number, that
counts, or that has one number on each side of a diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.errors import ModelError

from .formulas import Formulas, Numbers
from .graph import Graph, Node, element_code

_OPERATORS = {"*": "Mul", "+": "Add", "//": "Div", "%": "Mod", "min": "Min", "max": "Max"}


def join(graphs: Sequence[Graph], inputs: Sequence[str], outputs: Sequence[str]) -> bool:
    """Makes the first graph that of all calls. Whether a number is a rounded quotient, a remainder or a limit of sizes:
    a few calls do not tell these for certain.
    """
    first = graphs[0]
    _fold(graphs)
    for graph in graphs:
        graph.keep_used(outputs)
    for nodes in zip(*(graph.nodes for graph in graphs), strict=False):
        _check_alike(nodes)
    if len({len(graph.nodes) for graph in graphs}) > 1:
        raise _differs("the number of ops")
    if any(graph.tensors.keys() != first.tensors.keys() for graph in graphs):
        raise _differs("the constants that it reads")
    joined = _Joined(graphs, inputs)
    joined.write()
    first.keep_used(outputs)
    return joined.formulas.uncertain


def _differs(what: str) -> ModelError:
    return ModelError(
        f"{what} of the module depends on sizes that may differ",
        hint="Leave these sizes out of dynamic_axes or dynamic_shapes, or export a part of the module",
    )


def _check_alike(nodes: Sequence[Node]) -> None:
    first = nodes[0]
    for node in nodes[1:]:
        if node.operator != first.operator or node.inputs != first.inputs or node.outputs != first.outputs:
            raise _differs(f"which op follows ({first.op.strip('_') or first.operator!r}, or {node.op.strip('_')!r})")
        for name, value in first.attributes.items():
            if node.attributes.get(name) != value:
                raise _differs(f"{name!r} of {first.op.strip('_') or first.operator!r}")


def _is_same(tensors: Sequence[Tensor]) -> bool:
    first = tensors[0]
    return all(
        x is first
        or x.shape == first.shape
        and x.dtype is first.dtype
        and (
            x._storage is first._storage and x.offset == first.offset and x.strides == first.strides or _equal(x, first)
        )
        for x in tensors[1:]
    )


def _equal(x: Tensor, y: Tensor) -> bool:
    if x.dtype.is_quantized:
        return x._storage.bytes_view() == y._storage.bytes_view()
    return bool((x.detach() == y.detach()).all()) or bool(np.array_equal(x.numpy(), y.numpy(), equal_nan=True))


def _fold(graphs: Sequence[Graph]) -> None:
    """Results of constants alone that all calls have in common become constants."""
    for name, (value, version) in graphs[0].of_constants.items():
        found = [graph.of_constants.get(name) for graph in graphs]
        if value._storage.version != version or any(one is None for one in found) or value.dtype.is_complex:
            continue
        tensors = [one[0] for one in found if one is not None and one[0]._storage.version == one[1]]
        if len(tensors) < len(graphs) or not _is_same(tensors):
            continue
        for graph, tensor in zip(graphs, tensors, strict=True):
            graph.tensors[name] = tensor
            graph.nodes = [node for node in graph.nodes if node.outputs != [name]]


def _runs(array: Any) -> list[tuple[int, int, int]]:
    """(start, count, step) of the runs of a vector, each as long as it can be, with steps of -1, 0 or 1."""
    found: list[tuple[int, int, int]] = []
    numbers, at = array.tolist(), 0
    while at < len(numbers):
        step = numbers[at + 1] - numbers[at] if at + 1 < len(numbers) else 1
        step, end = (step if step in (-1, 0, 1) else 1), at + 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        found.append((numbers[at], end - at, step))
        at = end
    return found


def _limits(inside: Sequence[Any], formulas: Formulas) -> tuple[Any, Any] | None:
    """(first, last) diagonal of a band, as formulas; None for one that reaches the corner in every call. None if these
    are no bands. A call whose matrix is smaller than the band does not tell its limits.
    """
    found: list[list[int | None]] = [[], []]
    for array in inside:
        rows, columns = array.shape
        place = np.subtract.outer(-np.arange(rows), -np.arange(columns))  # column - row
        own = place[array]
        if not own.size or (array != ((place >= own.min()) & (place <= own.max()))).any():
            return None
        found[0].append(int(own.min()) if own.min() > 1 - rows else None)
        found[1].append(int(own.max()) if own.max() < columns - 1 else None)
    limits = [_limit(numbers, formulas) for numbers in found]
    if any(limit is None and set(numbers) != {None} for limit, numbers in zip(limits, found, strict=True)):
        return None
    return None if limits == [None, None] else (limits[0], limits[1])


def _limit(numbers: Sequence[int | None], formulas: Formulas) -> Any:
    """What the numbers of the calls are; None where no call tells it, or no formula gives all of them."""
    known = tuple(number for number in numbers if number is not None)
    if len(set(known)) == 1:
        return known[0]
    return formulas.find(known) if len(known) == len(numbers) else None


class _Joined:
    """The first graph, while its nodes are written anew with formulas in place of numbers that differ."""

    def __init__(self, graphs: Sequence[Graph], inputs: Sequence[str]) -> None:
        self._graphs, self._graph = graphs, graphs[0]
        self.formulas = Formulas(len(graphs))
        self._computed: dict[Any, str] = {}  # the names of sizes, (1,) each, by formula
        self._replaced: dict[str, str] = {}
        self._empty: set[str] = set()  # slices that take nothing
        self._differing = {
            name for name in self._graph.tensors if not _is_same([graph.tensors[name] for graph in graphs])
        }
        for name in inputs:
            self._note_sizes(name)

    def _shapes(self, name: str) -> list[tuple[int, ...]] | None:
        found = [graph.shapes.get(name) for graph in self._graphs]
        return None if None in found else found  # type: ignore[return-value]

    def _note_sizes(self, name: str) -> None:
        for dim, numbers in enumerate(zip(*(self._shapes(name) or [()]), strict=True)):
            if len(numbers) == len(self._graphs):
                self.formulas.add(numbers, (name, dim))

    def write(self) -> None:
        nodes, self._graph.nodes = self._graph.nodes, []
        for node in nodes:
            if node.operator == "Slice" and self._whole_slice(node):
                continue
            if node.operator == "Concat" and self._empty.intersection(node.inputs):
                node.inputs = [name for name in node.inputs if name not in self._empty]
            node.inputs = [self._value(node, at, self._replaced.get(name, name)) for at, name in enumerate(node.inputs)]
            self._graph.add(node)
            for name in node.outputs:
                self._note_sizes(name)
        for name in self._differing:
            self._graph.tensors.pop(name, None)

    def _numbers(self, name: str) -> list[Numbers]:
        """The elements of an array, one of each call."""
        return list(zip(*([int(n) for n in g.tensors[name].reshape(-1).tolist()] for g in self._graphs), strict=True))

    def _whole_slice(self, node: Node) -> bool:
        """Leaves the dims of a Slice out of which all is taken in every call; True if none is left."""
        source, arrays = node.inputs[0], node.inputs[1:]
        shapes = self._shapes(source)
        if len(arrays) < 4 or shapes is None or not all(name in self._graph.arrays for name in arrays):
            return False
        starts, ends, axes, steps = (self._numbers(name) for name in arrays)
        sizes = list(zip(*shapes, strict=True))
        left = [
            k
            for k, axis in enumerate(axes)
            if any(starts[k])
            or set(steps[k]) != {1}
            or any(e < s for e, s in zip(ends[k], sizes[axis[0]], strict=True))
        ]
        if not left:
            self._replaced[node.outputs[0]] = self._replaced.get(source, source)
            return True
        if len(left) < len(axes):
            for at, name in enumerate(arrays, 1):
                for graph in self._graphs:
                    numbers = graph.tensors[name].numpy()[left]
                    graph.tensors[f"{name}_part"] = Tensor.from_buffer(numbers.tobytes(), numbers.shape, "int64")
                    graph.arrays.add(f"{name}_part")
                node.inputs[at] = f"{name}_part"
                if not _is_same([graph.tensors[f"{name}_part"] for graph in self._graphs]):
                    self._differing.add(f"{name}_part")
        return False

    def _value(self, node: Node, at: int, name: str) -> str:
        """The name of an input of a node; what differs becomes nodes before it."""
        if name not in self._differing:
            return name
        tensors = [graph.tensors[name] for graph in self._graphs]
        alike = all(x.shape == tensors[0].shape for x in tensors)
        if name in self._graph.arrays and alike:
            return self._array(node, at, name, tensors[0].ndim)
        key = ("constant", name)
        if key not in self._computed:
            self._computed[key] = self._constant(node, tensors)
        return self._computed[key]

    def _array(self, node: Node, at: int, name: str, rank: int) -> str:
        """Whole numbers, such as a shape."""
        found = [self.formulas.find(numbers) for numbers in self._numbers(name)]
        if node.operator == "Reshape" and at == 1 and found.count(None) == 1:
            found[found.index(None)] = -1
        if None in found:
            numbers = self._numbers(name)[found.index(None)]
            raise _differs(f"a number of the op {node.op.strip('_')!r} ({', '.join(map(str, numbers))} in the calls)")
        parts = [self._size(formula) for formula in found]
        if node.operator == "Slice" and at in (1, 2):
            parts = [self._place(formula, part) for formula, part in zip(found, parts, strict=True)]
        whole = parts[0] if len(parts) == 1 else self._graph.node("Concat", parts, axis=0)
        return self._graph.node("Squeeze", [whole, self._graph.array([0])]) if rank == 0 else whole

    def _place(self, formula: Any, name: str) -> str:
        """A place that a Slice begins or ends at: below 0, ONNX would count it from the end."""
        if isinstance(formula, int) or formula[0] == "known":
            return name
        return self._graph.node("Max", [name, self._graph.array([0])])

    def _size(self, formula: Any) -> str:
        """The name of a size, (1,)."""
        if formula in self._computed:
            return self._computed[formula]
        if isinstance(formula, int):
            name = self._graph.array([formula])
        elif formula[0] == "known":
            source, dim = formula[1]
            name = self._graph.node("Shape", [self._replaced.get(source, source)], start=dim, end=dim + 1)
        else:
            operation, a, b = formula
            name = self._graph.node(_OPERATORS[operation], [self._size(a), self._size(b)])
        self._computed[formula] = name
        return name

    # -- constants of other shapes

    def _shape(self, node: Node, shapes: Sequence[tuple[int, ...]]) -> str:
        found = [self.formulas.find(numbers) for numbers in zip(*shapes, strict=True)]
        if None in found:
            raise _differs(f"the shape of a constant of the op {node.op.strip('_')!r}")
        parts = [self._size(formula) for formula in found]
        return parts[0] if len(parts) == 1 else self._graph.node("Concat", parts, axis=0)

    def _constant(self, node: Node, tensors: Sequence[Tensor]) -> str:
        """Nodes that make a constant whose sizes or numbers differ."""
        kind = tensors[0].dtype
        rank = {x.ndim for x in tensors}
        if len(rank) == 1 and all(x.dtype is kind for x in tensors) and not kind.is_quantized and not kind.is_complex:
            arrays = [x.detach().cpu().numpy() for x in tensors]
            if not any(array.size == 0 for array in arrays):
                made = self._filled(node, tensors[0], arrays) or self._counted(tensors[0], arrays)
                made = made or self._plane(tensors[0], arrays)
                if made:
                    return made
        raise _differs(
            f"a constant of the op {node.op.strip('_')!r} "
            f"({', '.join(str(tuple(x.shape)) for x in tensors)} in the calls)"
        )

    def _filled(self, node: Node, first: Tensor, arrays: Sequence[Any]) -> str | None:
        """One number everywhere; or a number that is a formula."""
        values = [array.reshape(-1)[0] for array in arrays]
        if any((array != value).any() for array, value in zip(arrays, values, strict=True)):
            return None
        if len(set(values)) == 1:
            number: str = self._graph.array(values[0], first.dtype.name)
        else:
            if any(value != int(value) for value in values):
                return None
            formula = self.formulas.find(tuple(int(value) for value in values))
            if formula is None:
                return None
            number = self._graph.node("Cast", [self._size(formula)], to=element_code(first.dtype))
            if not first.ndim:
                number = self._graph.node("Squeeze", [number, self._graph.array([0])])
        if not first.ndim:
            return number
        return self._graph.node("Expand", [number, self._shape(node, [array.shape for array in arrays])])

    def _scalar(self, formula: Any) -> str:
        return self._graph.node("Squeeze", [self._size(formula), self._graph.array([0])])

    def _range(self, arrays: Sequence[Any], dim: int = -1) -> str:
        """0, 1, 2 … along a dim of a constant, int64."""
        count = self.formulas.find(tuple(array.shape[dim] for array in arrays))
        if count is None:
            raise _differs("the length of a constant")
        return self._graph.node("Range", [self._graph.array(0), self._scalar(count), self._graph.array(1)])

    def _counted(self, first: Tensor, arrays: Sequence[Any]) -> str | None:
        """start + step · n, n // step, or runs of numbers, along one dim."""
        if first.ndim != 1 or first.dtype.name == "bool":
            return None
        lengthy = next((array for array in arrays if len(array) > 1), None)
        if lengthy is None:
            return None
        step = lengthy[1] - lengthy[0]
        if all((array == array[0] + step * np.arange(len(array))).all() for array in arrays):
            start = self._start(first, [array[0] for array in arrays])
            if start is not None:
                counted = self._graph.node("Cast", [self._range(arrays)], to=element_code(first.dtype))
                counted = self._graph.node("Mul", [counted, self._graph.array(step, first.dtype.name)])
                return self._graph.node("Add", [counted, start])
        if first.dtype.category != 1:
            return None
        for divisor in range(2, 17):
            if all((array == np.arange(len(array)) // divisor).all() for array in arrays):
                counted = self._graph.node("Div", [self._range(arrays), self._graph.array(divisor)])
                return self._graph.node("Cast", [counted], to=element_code(first.dtype))
        return self._runs(first, [_runs(array) for array in arrays])

    def _start(self, first: Tensor, numbers: Sequence[Any]) -> str | None:
        """The first element of each call: a number, or a formula."""
        if len(set(numbers)) == 1:
            return self._graph.array(numbers[0], first.dtype.name)
        whole = tuple(int(number) for number in numbers)
        formula = self.formulas.find(whole) if all(a == b for a, b in zip(whole, numbers, strict=True)) else None
        return (
            None if formula is None else self._graph.node("Cast", [self._size(formula)], to=element_code(first.dtype))
        )

    def _runs(self, first: Tensor, calls: Sequence[list[tuple[int, int, int]]]) -> str | None:
        """Numbers that go up, down or stay, one run after the other, as paddings read them."""
        if len({tuple(step for _, _, step in runs) for runs in calls}) > 1 or len(calls[0]) > 8:
            return None
        parts = []
        for runs in zip(*calls, strict=True):
            start, count = (self.formulas.find(tuple(run[k] for run in runs)) for k in (0, 1))
            if start is None or count is None:
                return None
            counted = self._graph.node("Range", [self._graph.array(0), self._scalar(count), self._graph.array(1)])
            counted = self._graph.node("Mul", [counted, self._graph.array(runs[0][2])])
            parts.append(self._graph.node("Add", [counted, self._size(start)]))
        whole = self._graph.node("Concat", parts, axis=0)
        return self._graph.node("Cast", [whole], to=element_code(first.dtype))

    def _plane(self, first: Tensor, arrays: Sequence[Any]) -> str | None:
        """A matrix, with dims of one before it, by the places of its elements: column - row."""
        if first.ndim < 2 or any(set(array.shape[:-2]) - {1} for array in arrays):
            return None
        square = [array.reshape(array.shape[-2:]) for array in arrays]
        made = self._band(first, square) or self._sloped(first, square)
        if made is None or first.ndim == 2:
            return made
        return self._graph.node("Unsqueeze", [made, self._graph.array(list(range(first.ndim - 2)))])

    def _band(self, first: Tensor, square: Sequence[Any]) -> str | None:
        """One number in a band along the diagonals, such as a triangle, another one elsewhere."""
        numbers = np.unique(np.concatenate([array.reshape(-1) for array in square]))
        if len(numbers) != 2:
            return None
        for inside, outside in (numbers, numbers[::-1]):
            limits = _limits([array == inside for array in square], self.formulas)
            if limits is None:
                continue
            conditions = [
                self._graph.node(operator, [self._places(square), self._size(limit)])
                for operator, limit in zip(("GreaterOrEqual", "LessOrEqual"), limits, strict=True)
                if limit is not None
            ]
            made = conditions[0] if len(conditions) == 1 else self._graph.node("And", conditions)
            if first.dtype.name == "bool":
                return made if inside else self._graph.node("Not", [made])
            chosen = [self._graph.array(number, first.dtype.name) for number in (inside, outside)]
            return self._graph.node("Where", [made, *chosen])
        return None

    def _places(self, square: Sequence[Any]) -> str:
        """column - row (rows, columns), int64."""
        return self._graph.node("Sub", [self._along(square, 1, 1), self._along(square, 0, 1)])

    def _along(self, square: Sequence[Any], dim: int, step: int) -> str:
        """0, step, 2 · step … along a dim of matrices; the other dim has one element."""
        counted = self._range(square, dim)
        counted = counted if step == 1 else self._graph.node("Mul", [counted, self._graph.array(step)])
        return self._graph.node("Unsqueeze", [counted, self._graph.array([1 - dim])])

    def _sloped(self, first: Tensor, square: Sequence[Any]) -> str | None:
        """Whole numbers that go up or down by one number from row to row, and by another from column to column."""
        if first.dtype.category != 1 or any(min(array.shape) < 2 for array in square):
            return None
        down, right = square[0][1, 0] - square[0][0, 0], square[0][0, 1] - square[0][0, 0]
        starts = [int(array[0, 0]) for array in square]
        for array, start in zip(square, starts, strict=True):
            slopes = np.add.outer(down * np.arange(array.shape[0]), right * np.arange(array.shape[1]))
            if (array != start + slopes).any():
                return None
        begin = self.formulas.find(tuple(starts))
        if begin is None:
            return None
        parts = [self._along(square, 0, int(down)), self._along(square, 1, int(right))]
        made = self._graph.node("Add", [self._graph.node("Add", parts), self._size(begin)])
        return self._graph.node("Cast", [made], to=element_code(first.dtype))
