"""The nodes of an ONNX graph while a call is traced, and the names of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.device import cpu
from pyapp.engine.dtype import DType
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.formats.onnx_file import ELEMENT_CODES


@dataclass
class Node:
    """A node: its operator, the names of its inputs and outputs, its attributes; `op`, the op of pyapp that it is a
    part of, for messages; `domain`, of an operator that is not ONNX's own."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    op: str = ""
    domain: str = ""


_COPIED = 1 << 16  # elements of constants that are copied when they are named


def _copy(x: Tensor) -> Tensor:
    """A tensor with the same elements in memory of its own, without an op."""
    start, size = x.offset * x.dtype.itemsize, x.numel() * x.dtype.itemsize
    return Tensor.from_buffer(bytes(x._storage.bytes_view()[start : start + size]), x.shape, x.dtype.name)


def element_code(kind: DType) -> int:
    """ONNX's number of an element type."""
    return ELEMENT_CODES[kind.name]


class Graph:
    """The nodes so far, and the names of tensors. `parameters`: names by the identity of tensors; `sized`: sizes of
    inputs may differ, so what is computed from constants is written too, and `sizes` joins several such graphs."""

    def __init__(self, parameters: Mapping[int, str], opset: int, sized: bool = False) -> None:
        self.opset = opset
        self.nodes: list[Node] = []
        self.tensors: dict[str, Tensor] = {}  # of the file, by name
        self.kept: list[tuple[Tensor, int]] = []  # constants, and the versions of their memory
        self.sized = sized
        self.op = ""  # which is written now
        self.arrays: set[str] = set()  # constants of whole numbers that `array` has made
        self.shapes: dict[str, tuple[int, ...]] = {}  # of inputs and results, by name
        self.of_constants: dict[str, tuple[Tensor, int]] = {}  # results of constants alone, and their versions
        # Results that ONNX gives in part: a function gives the name of a part of one, see `operators._lstm_steps`.
        self.parts: dict[str, Callable[[Any], str]] = {}
        self._made_by: dict[str, Node] = {}
        self._versions: dict[int, int] = {}  # of what has a name
        self._alive: list[Tensor] = []  # so that no identity is used twice
        self._computed: dict[int, str] = {}  # names of inputs, and of what was computed
        self._constant: set[int] = set()  # those that were computed from constants
        self._memory: set[int] = set()  # identities of the memory of the others
        self._constants: dict[int, str] = {}
        self._parameters, self._taken = parameters, {*parameters.values()}
        self._count = 0

    def fresh(self, stem: str) -> str:
        """A name that no parameter and no input has."""
        while True:
            self._count += 1
            name = f"{stem}_{self._count}"
            if name not in self._taken and name not in self.shapes:
                return name

    def give(self, x: Tensor, name: str, of_constants: bool = False) -> None:
        """Names a tensor: an input, or a result."""
        self._computed[id(x)] = name
        self._versions[id(x)] = x._storage.version
        self._alive.append(x)
        self.shapes.setdefault(name, tuple(x.shape))
        self._constant.discard(id(x))
        if not of_constants:
            self._memory.add(id(x._storage))
        else:
            self._constant.add(id(x))
            self.of_constants[name] = x, x._storage.version

    def written(self, x: Tensor, value: Tensor) -> None:
        """Gives a tensor that was written in place the name of its new value."""
        name = self._computed.get(id(value))
        if name is not None:
            self.check_unchanged(value)
            self.give(x, name, id(value) in self._constant)

    def check_unchanged(self, x: Tensor) -> None:
        """ModelError for a result whose memory was written through another tensor."""
        if x._storage.version != self._versions[id(x)]:
            raise ModelError(
                "a tensor is read whose memory was written in place through another one, which ONNX cannot say",
                hint="Compute a new tensor instead",
            )

    def is_computed(self, value: Any) -> bool:
        """Whether a value depends on the inputs. ModelError for one of which that is not known."""
        if isinstance(value, (list, tuple)):
            return any(self.is_computed(part) for part in value)
        if not isinstance(value, Tensor):
            return False
        if id(value) not in self._computed:
            self._check_memory(value)
            return False
        return id(value) not in self._constant

    def _check_memory(self, x: Tensor) -> None:
        """ModelError for a tensor without a name in the memory of a result."""
        if id(x._storage) in self._memory:
            raise ModelError(
                f"a tensor of {tuple(x.shape)} after the op {self.op.strip('_')!r} is a view of a result that no op "
                "has made, so that it cannot be written as ONNX",
                hint="Compute a new tensor instead",
            )

    def may_have_sizes(self, value: Any) -> bool:
        """Whether a constant may be another one for other sizes of the inputs: it is not a parameter."""
        if isinstance(value, (list, tuple)):
            return any(self.may_have_sizes(part) for part in value)
        return isinstance(value, Tensor) and id(value) not in self._parameters

    def named(self, x: Tensor) -> str:
        """The name of a tensor; one that was not computed becomes a tensor of the file."""
        known = self._computed.get(id(x))
        if known is not None:
            self.check_unchanged(x)
            if known in self.parts:
                raise ModelError(
                    "the states of an LSTM after each step are read, of which ONNX gives the last one",
                    hint="Read its outputs, or the last state",
                )
            return known
        known = self._constants.get(id(x))
        if known is not None:
            return known
        self._check_memory(x)
        name = self._constants[id(x)] = self._parameters.get(id(x)) or self.fresh("constant")
        self.kept.append((x, x._storage.version))
        # A copy stays as it is when the constant is written, which gives that another name.
        self.tensors[name] = _copy(x) if self._is_copied(x) else x
        return name

    def _is_copied(self, x: Tensor) -> bool:
        """Whether the file gets a copy of a constant."""
        small = x.numel() <= _COPIED and x.device is cpu and x.is_contiguous() and not x.dtype.is_quantized
        return small and id(x) not in self._parameters

    def part_of(self, x: Tensor) -> Callable[[Any], str] | None:
        """What gives parts of a result, where ONNX does not give all of it."""
        return self.parts.get(self._computed.get(id(x), ""))

    def check_constants(self) -> None:
        """ModelError where a tensor of the file has been written in place since it was named."""
        for x, version in self.kept:
            if x._storage.version != version and not (id(x) in self._computed and self._is_copied(x)):
                raise ModelError(
                    "a constant is written in place, which ONNX cannot say", hint="Compute a new tensor instead"
                )

    def array(self, values: Any, kind: str = "int64") -> str:
        """A constant of numbers."""
        array = np.asarray(values, kind)
        name = self.fresh("constant")
        self.tensors[name] = Tensor.from_buffer(array.tobytes(), array.shape, kind)
        if kind == "int64":
            self.arrays.add(name)
        return name

    def node(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node; the name of its output."""
        return self.nodes_of(operator, inputs, 1, **attributes)[0]

    def nodes_of(self, operator: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Adds a node of `count` outputs; their names."""
        names = [self.fresh(operator.lower()) for _ in range(count)]
        self.add(Node(operator, list(inputs), names, attributes, self.op))
        return names

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self._made_by.update(dict.fromkeys(node.outputs, node))

    def result(self, x: Tensor, name: str) -> None:
        """Makes a tensor an output of the graph. ModelError for the name of another result."""
        if name in self._made_by:
            raise ModelError(f"the output's name {name!r} is that of another result", hint="Choose another name")
        self.add(Node("Identity", [self.named(x)], [name], {}))
        self.shapes[name] = tuple(x.shape)

    def maker(self, name: str) -> Node | None:
        """The node that has an output of this name."""
        return self._made_by.get(name)

    def take_back(self, count: int) -> None:
        """Leaves the first `count` nodes."""
        del self.nodes[count:]

    def operand(self, value: Any, kind: DType) -> str:
        """A tensor or a number in an element type."""
        if isinstance(value, Tensor):
            name = self.named(value)
            return name if value.dtype is kind else self.node("Cast", [name], to=element_code(kind))
        if kind.name == "bfloat16":
            return self.node("Cast", [self.array(value, "float32")], to=element_code(kind))
        return self.array(value, kind.name)

    def forget(self) -> None:
        """Lets go of the tensors that are no constants; their shapes stay."""
        self._alive, self._computed, self._versions, self._constant, self._memory = [], {}, {}, set(), set()

    def keep_used(self, outputs: Sequence[str]) -> None:
        """Leaves the nodes and tensors that the outputs need."""
        wanted, kept = set(outputs), []
        for node in reversed(self.nodes):
            if wanted & set(node.outputs):
                kept.append(node)
                wanted |= set(node.inputs)
        self.nodes = kept[::-1]
        self.tensors = {name: x for name, x in self.tensors.items() if name in wanted}

    def share(self, results: Sequence[str]) -> None:
        """One tensor for equal small arrays, and one node for those that compute the same, such as a mask or the
        rotations of each layer. Nodes of the graph's results stay.
        """
        first: dict[Any, str] = {}
        same: dict[str, str] = {}
        for name, x in list(self.tensors.items()):
            if name in self.arrays or x.numel() <= 1 and name.startswith("constant_"):
                same[name] = first.setdefault((x.dtype.name, tuple(x.shape), x.numpy().tobytes()), name)
        kept, computed = list[Node](), dict[Any, Node]()
        for node in self.nodes:
            node.inputs = [same.get(name, name) for name in node.inputs]
            key = (node.operator, tuple(node.inputs), len(node.outputs), repr(sorted(node.attributes.items())))
            before = computed.setdefault(key, node) if not set(node.outputs) & set(results) else node
            if before is node:
                kept.append(node)
            else:
                same.update(zip(node.outputs, before.outputs, strict=True))
        self.nodes = kept
        self.tensors = {name: x for name, x in self.tensors.items() if same.get(name, name) == name}


Sizes = Sequence[int | str]  # of an input or output: numbers, and names of sizes that may differ
Info = tuple[str, Tensor, Sizes]  # of an input or output


@dataclass
class Written:
    """A graph with its inputs and outputs, of the model or, as the attribute of a node, of a branch of it. The tensors
    of a branch are the model's.
    """

    graph: Graph
    inputs: list[Info]
    outputs: list[Info]
