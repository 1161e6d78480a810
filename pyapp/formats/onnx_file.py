"""ONNX models: the graph of operators and its tensors, read lazily and without protobuf.

Source: https://github.com/onnx/onnx/blob/main/docs/IR.md and onnx/onnx.proto3 (the numbers of the fields). The file is
untrusted: depth, counts and lengths have limits, and a tensor is read only if its bytes are as many as its shape says.
Large tensors stay in the file until they are read, and are mapped natively.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine.device import Device
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError

from .checkpoint import Checkpoint, TensorInfo
from .dense_tensors import read_dense
from .finite import check_finite
from .foreign_dtypes import READABLE, element_bits, read_foreign
from .protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, MessageReader
from .source import ByteSource, open_source

DEPTH_LIMIT = 64  # graphs within graphs, types within types
TEXT_LIMIT = 1 << 20  # bytes of a name or a text
NODES_LIMIT = 1 << 20  # of a file
RANK_LIMIT = 64
NUMBERS_LIMIT = 1 << 24  # of a list in an attribute
SMALL = 1 << 12  # bytes; smaller tensors are kept in memory
FIELD_NUMBERS = 32  # those of the messages are below
# The fields of an attribute with one value, or with several, and the codes of their types.
ONE_VALUE = {2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 14: 13, 22: 11}
SEVERAL_VALUES = {7: 6, 8: 7, 9: 8, 10: 9, 11: 10, 15: 14, 23: 12}
TYPE_KINDS = {1: "tensor", 4: "sequence", 5: "map", 8: "sparse", 9: "optional"}
HINT = "The file is damaged, or no ONNX model: export or download it again"

# Element types by their codes in the file.
ELEMENT_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2", 27: "float6_e2m3fn", 28: "float6_e3m2fn",
}  # fmt: skip
ELEMENT_CODES = {name: code for code, name in ELEMENT_TYPES.items()}
BITS = {"uint4": 4, "int4": 4, "uint2": 2, "int2": 2, "float6_e2m3fn": 8, "float6_e3m2fn": 8}
BITS |= {name: element_bits(name) for name in ELEMENT_CODES if name not in (*BITS, "string")}

Dim: TypeAlias = "int | str | None"  # a size, the name of a size, or unknown
External: TypeAlias = "Callable[[str], ByteSource]"


@dataclass(frozen=True)
class ValueType:
    """The type of a value. `kind`: "tensor", "sparse", "sequence", "optional", "map" or "unknown". A tensor has an
    `element` type and perhaps a `shape`; the others an `inner` type, a map also the `element` type of its keys."""

    kind: str
    element: str = ""
    shape: tuple[Dim, ...] | None = None
    inner: ValueType | None = None


@dataclass(frozen=True)
class ValueInfo:
    """A named value of a graph."""

    name: str
    type: ValueType


@dataclass
class StoredTensor:
    """A tensor of the file. Its elements are `data` (little-endian, packed as in `raw_data`), bytes of a source, or
    texts."""

    name: str
    element: str
    shape: tuple[int, ...]
    data: bytes | None = None
    place: tuple[ByteSource, int, int] | None = None  # source, offset, number of bytes
    texts: list[bytes] | None = None

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        if self.texts is not None:
            return sum(len(text) for text in self.texts)
        return -(-self.numel * BITS[self.element] // 8)

    def read(self) -> bytes | memoryview:
        """The bytes of the elements."""
        if self.data is not None:
            return self.data
        if self.place is None:
            raise ValueError(f"tensor {self.name!r} holds texts")
        return self.place[0].read(self.place[1], self.place[2])


@dataclass
class SparseTensor:
    """A tensor with few elements: `values` (N,) at `indices` (N,) of the flattened tensor, or (N, rank)."""

    name: str
    values: StoredTensor
    indices: StoredTensor
    shape: tuple[int, ...]


@dataclass
class Node:
    """One application of an operator. Names of absent inputs and outputs are empty."""

    op: str
    domain: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)  # attributes of a function that have the caller's value
    overload: str = ""

    @property
    def title(self) -> str:
        """How errors name the node."""
        return f"node {self.name!r}" if self.name else f"the node that makes {next(filter(None, self.outputs), '?')!r}"


@dataclass
class GraphRecord:
    """A graph: nodes in an order in which they can run, initialisers and types of values by name."""

    name: str = ""
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, StoredTensor | SparseTensor] = field(default_factory=dict)
    inputs: list[ValueInfo] = field(default_factory=list)
    outputs: list[ValueInfo] = field(default_factory=list)
    values: dict[str, ValueType] = field(default_factory=dict)


@dataclass
class Function:
    """A function of the file: a graph that nodes call by its name."""

    domain: str
    name: str
    overload: str
    inputs: list[str]
    outputs: list[str]
    attributes: list[str]
    defaults: dict[str, Any]
    nodes: list[Node]
    opsets: dict[str, int]


@dataclass
class OnnxModel:
    """What a file has. `opsets` are versions by domain, `functions` those of the file by (domain, name, overload)."""

    ir_version: int = 0
    producer: str = ""
    opsets: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    graph: GraphRecord = field(default_factory=GraphRecord)
    functions: dict[tuple[str, str, str], Function] = field(default_factory=dict)


def domain_of(name: str) -> str:
    """A domain by one name: the default domain has two."""
    return "" if name == "ai.onnx" else name


class OnnxFile(Checkpoint):
    """An ONNX model: `model` has its graph; `tensors` its initialisers.

    External data is read from files in the folder of the model, or from `external`: their names and sources.
    FileFormatError for damaged and hostile files.
    """

    def __init__(self, source: ByteSource, external: Mapping[str, ByteSource] | None = None) -> None:
        super().__init__(source)
        self.format = "ONNX"
        self._external = _ExternalFiles(source, external)
        self.model = _Reader(source, self._external).model()
        self._stored: dict[str, StoredTensor] = {}
        for name, tensor in self.model.graph.tensors.items():
            if isinstance(tensor, StoredTensor) and tensor.texts is None:
                self._stored[name] = tensor
                self.tensors[name] = TensorInfo(name, _named(tensor.element), tensor.shape, tensor.nbytes)
        self.metadata = dict(self.model.metadata)
        opsets = {domain or "ai.onnx": version for domain, version in self.model.opsets.items()}
        self.config = {"model_type": "onnx", "producer": self.model.producer, "opsets": opsets}

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        return read_tensor(self._stored[info.name], finite, device)

    def read_bytes(self, name: str) -> bytes | memoryview:
        return self._stored[name].read()

    def _place(self, name: str) -> tuple[ByteSource, int, int] | None:
        return self._stored[name].place

    def __enter__(self) -> OnnxFile:
        return self

    def close(self) -> None:
        super().close()
        self._external.close()


def _named(element: str) -> str:
    """The type of a tensor without a pyapp dtype: 4-bit and 2-bit integers are read as bytes."""
    return {"uint4": "uint8", "int4": "int8", "uint2": "uint8", "int2": "int8"}.get(element, element)


def _size_named(name: str) -> str | None:
    """The name of a size; None where it names none: some exporters write "?", "-1" or "None" for every unknown size."""
    return name if name != "None" and any(c.isalpha() or c == "_" for c in name) else None


def unpack_small(element: str, data: bytes | memoryview, count: int) -> Any:
    """4-bit or 2-bit integers, the first in the lowest bits of a byte → a NumPy array of int8 or uint8."""
    bits = BITS[element]
    codes = np.frombuffer(data, np.uint8)
    parts = np.stack([codes >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)], -1).reshape(-1)[:count]
    if element.startswith("u"):
        return parts
    return ((parts.astype(np.int8) << (8 - bits)) >> (8 - bits)).astype(np.int8)


def read_tensor(stored: StoredTensor, finite: bool = False, device: Device | None = None) -> Tensor:
    """The tensor of a stored one; of types without a pyapp dtype as `foreign_dtypes` says. TypeError for texts."""
    if stored.texts is not None:
        raise TypeError(f"{stored.name!r} is a tensor of texts")
    element, shape = stored.element, stored.shape
    info = TensorInfo(stored.name, _named(element), shape, stored.nbytes)
    if BITS[element] < 8 and "int" in element:
        values = unpack_small(element, stored.read(), stored.numel)
        tensor = Tensor.from_buffer(values.tobytes(), shape, _named(element))
        return tensor if device is None else tensor.to(device)
    name = stored.place[0].name if stored.place else stored.name
    if element in READABLE:
        return read_foreign(stored.read(), info, finite, device, name)
    if stored.place is not None:
        return read_dense(stored.place[0], stored.place[1], info, finite, device)
    data = stored.read()
    if finite:
        check_finite(data, element, stored.name, name)
    tensor = Tensor.from_buffer(data, shape, element)
    return tensor if device is None else tensor.to(device)


def tensor_of_message(source: ByteSource) -> StoredTensor:
    """The tensor of a file that is one TensorProto, as ONNX's test data are."""
    return _Reader(source, _ExternalFiles(source, None)).tensor(Field(1, BYTES, 0, 0, source.size))


class _ExternalFiles:
    """The files of external data: only those in the folder of the model."""

    def __init__(self, source: ByteSource, given: Mapping[str, ByteSource] | None) -> None:
        self._source, self._given = source, dict(given or {})
        self._opened: dict[str, ByteSource] = {}

    def __call__(self, location: str) -> ByteSource:
        if location in self._given:
            return self._given[location]
        if location in self._opened:
            return self._opened[location]
        name, path = self._source.name, getattr(self._source, "path", None)
        hint = "External data must lie in files beside the model"
        parts = location.replace("\\", "/").split("/")
        if not location or "\0" in location or location[0] in "/\\" or ":" in parts[0] or ".." in parts:
            raise FileFormatError(f"its external data {location!r} lies outside its folder", where=name, hint=hint)
        if path is None:
            raise FileFormatError(
                f"it has external data in {location!r}, which was not given", where=name,
                hint="Give the file: external={name: source}",
            )  # fmt: skip
        folder = Path(path).resolve().parent
        target = (folder / location).resolve()
        if not target.is_relative_to(folder):
            raise FileFormatError(f"its external data {location!r} lies outside its folder", where=name, hint=hint)
        if not os.path.exists(target):
            raise FileFormatError(f"its external data {location!r} is missing", where=name, hint=hint)
        if os.path.isdir(target):
            raise FileFormatError(f"its external data {location!r} is a folder", where=name, hint=hint)
        found = self._opened[location] = open_source(target)
        return found

    def close(self) -> None:
        for source in self._opened.values():
            source.close()  # type: ignore[attr-defined]
        self._opened.clear()


class _Reader(MessageReader):
    """Reads the messages of onnx.proto3."""

    def __init__(self, source: ByteSource, external: External) -> None:
        super().__init__(source, "ONNX model", HINT)
        self._external = external
        self._nodes = 0

    def model(self) -> OnnxModel:
        model, graphs = OnnxModel(), 0
        functions: list[Field] = []
        for f in self.fields(0, self.source.size):
            match f.number:
                case 1:
                    model.ir_version = self.int_of(f)
                case 2:
                    model.producer = self.text_of(f, TEXT_LIMIT)
                case 7:
                    graphs += 1
                    model.graph = self.graph(f, 0)
                case 8:
                    domain, version = self._opset(f)
                    model.opsets[domain] = version
                case 14:
                    key, value = self._pair(f)
                    model.metadata[key] = value
                case 25:
                    functions.append(f)
        if graphs != 1:
            raise self.broken(f"it has {graphs} graphs, expected one")
        for f in functions:
            function = self._function(f, model.opsets)
            model.functions[function.domain, function.name, function.overload] = function
        return model

    def _once(self, f: Field) -> dict[int, Field]:
        """The fields of a message that has each once, by their numbers; of several the last counts."""
        return {part.number: part for part in self.inside(f) if part.number < FIELD_NUMBERS}

    def _text(self, parts: dict[int, Field], number: int) -> str:
        return self.text_of(parts[number], TEXT_LIMIT) if number in parts else ""

    def _opset(self, f: Field) -> tuple[str, int]:
        parts = self._once(f)
        return domain_of(self._text(parts, 1)), self.int_of(parts[2]) if 2 in parts else 1

    def _pair(self, f: Field) -> tuple[str, str]:
        parts = self._once(f)
        return self._text(parts, 1), self._text(parts, 2)

    def graph(self, f: Field, depth: int) -> GraphRecord:
        if depth > DEPTH_LIMIT:
            raise self.broken(f"graphs are nested more than {DEPTH_LIMIT} deep")
        graph = GraphRecord()
        for part in self.inside(f):
            match part.number:
                case 1:
                    graph.nodes.append(self.node(part, depth))
                case 2:
                    graph.name = self.text_of(part, TEXT_LIMIT)
                case 5:
                    tensor = self.tensor(part)
                    graph.tensors[tensor.name] = tensor
                case 11:
                    graph.inputs.append(self._value_info(part))
                case 12:
                    graph.outputs.append(self._value_info(part))
                case 13:
                    info = self._value_info(part)
                    graph.values[info.name] = info.type
                case 15:
                    sparse = self.sparse(part)
                    graph.tensors[sparse.name] = sparse
        return graph

    def node(self, f: Field, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > NODES_LIMIT:
            raise self.broken(f"it has more than {NODES_LIMIT:,} nodes")
        node = Node("", "", "", [], [])
        for part in self.inside(f):
            match part.number:
                case 1:
                    node.inputs.append(self.text_of(part, TEXT_LIMIT))
                case 2:
                    node.outputs.append(self.text_of(part, TEXT_LIMIT))
                case 3:
                    node.name = self.text_of(part, TEXT_LIMIT)
                case 4:
                    node.op = self.text_of(part, TEXT_LIMIT)
                case 5:
                    self._attribute(part, node.attributes, node.references, depth)
                case 7:
                    node.domain = domain_of(self.text_of(part, TEXT_LIMIT))
                case 8:
                    node.overload = self.text_of(part, TEXT_LIMIT)
        if not node.op:
            raise self.broken(f"{node.title} has no operator")
        return node

    def _attribute(self, f: Field, values: dict[str, Any], references: dict[str, str], depth: int) -> None:
        name, reference, kind = "", "", 0
        single: dict[int, Any] = {}  # by the codes of their types
        lists: dict[int, list[Any]] = {}
        for part in self.inside(f):
            if part.number == 1:
                name = self.text_of(part, TEXT_LIMIT)
            elif part.number == 21:
                reference = self.text_of(part, TEXT_LIMIT)
            elif part.number == 20:
                kind = self.int_of(part)
            elif part.number in ONE_VALUE:
                single[ONE_VALUE[part.number]] = self._values(part, depth)[0]
            elif part.number in SEVERAL_VALUES:
                lists.setdefault(SEVERAL_VALUES[part.number], []).extend(self._values(part, depth))
        if not name:
            raise self.broken(f"an attribute at byte {f.start:,} has no name")
        if reference:
            references[name] = reference
            return
        if kind in SEVERAL_VALUES.values():
            values[name] = lists.get(kind, [])
        elif kind in single:
            values[name] = single[kind]
        elif kind in (1, 2, 3):  # a value of zero is not written
            values[name] = {1: 0.0, 2: 0, 3: b""}[kind]
        elif kind == 0 and len(single) == 1:
            values[name] = next(iter(single.values()))
        else:
            raise self.broken(f"attribute {name!r} has no value of its type {kind}")

    def _values(self, part: Field, depth: int) -> list[Any]:
        """The values in a field of an attribute."""
        match part.number:
            case 2:
                return [self.float_of(part)]
            case 3:
                return [self.int_of(part)]
            case 4:
                return [self.bytes_of(part, 1 << 26)]
            case 5 | 10:
                return [self.tensor(part)]
            case 6 | 11:
                return [self.graph(part, depth + 1)]
            case 7:
                return self.floats_of(part, NUMBERS_LIMIT)
            case 8:
                return self.ints_of(part, NUMBERS_LIMIT)
            case 9:
                return [self.bytes_of(part, TEXT_LIMIT)]
            case 14 | 15:
                return [self._type(part, 0)]
        return [self.sparse(part)]

    def _value_info(self, f: Field) -> ValueInfo:
        parts = self._once(f)
        return ValueInfo(self._text(parts, 1), self._type(parts.get(2), 0))

    def _type(self, f: Field | None, depth: int) -> ValueType:
        if depth > DEPTH_LIMIT:
            raise self.broken(f"types are nested more than {DEPTH_LIMIT} deep")
        parts = {} if f is None else self._once(f)
        for number in parts.keys() & TYPE_KINDS.keys():  # one of them
            kind, inner = TYPE_KINDS[number], self._once(parts[number])
            if kind in ("sequence", "optional"):
                return ValueType(kind, inner=self._type(inner.get(1), depth + 1))
            element = self._element(self.int_of(inner[1])) if 1 in inner else ""
            if kind == "map":
                return ValueType(kind, element, inner=self._type(inner.get(2), depth + 1))
            return ValueType(kind, element, self._shape(inner[2]) if 2 in inner else None)
        return ValueType("unknown")

    def _shape(self, f: Field) -> tuple[Dim, ...]:
        dims: list[Dim] = []
        for part in self.inside(f):
            if part.number != 1:
                continue
            size = self._once(part)
            if 2 in size:
                dims.append(_size_named(self.text_of(size[2], TEXT_LIMIT)))
            else:
                count = self.int_of(size[1]) if 1 in size else -1
                dims.append(None if count < 0 else count)
            if len(dims) > RANK_LIMIT:
                raise self.broken(f"a shape has more than {RANK_LIMIT} dims")
        return tuple(dims)

    def _element(self, code: int) -> str:
        if code == 0:
            return ""
        if code not in ELEMENT_TYPES:
            raise self.broken(f"the element type {code} is unknown; known are 1 to {max(ELEMENT_TYPES)}")
        return ELEMENT_TYPES[code]

    def tensor(self, f: Field) -> StoredTensor:
        """A tensor, whose bytes are as many as its shape says."""
        shape: list[int] = []
        element, name, location = "", "", 0
        raw: Field | None = None
        typed: list[Field] = []
        external: dict[str, str] = {}
        texts: list[bytes] = []
        for part in self.inside(f):
            match part.number:
                case 1:
                    shape += self.ints_of(part, RANK_LIMIT)
                case 2:
                    element = self._element(self.int_of(part))
                case 4 | 5 | 7 | 10 | 11:
                    typed.append(part)
                case 6:
                    texts.append(self.bytes_of(part, 1 << 26))
                case 8:
                    name = self.text_of(part, TEXT_LIMIT)
                case 9:
                    raw = part
                case 13:
                    key, value = self._pair(part)
                    external[key] = value
                case 14:
                    location = self.int_of(part)
        if not element:
            raise self.broken(f"tensor {name!r} has no element type")
        if len(shape) > RANK_LIMIT or any(size < 0 for size in shape):
            raise self.broken(f"tensor {name!r} has the shape {tuple(shape)}")
        made = StoredTensor(name, element, tuple(shape))
        if made.numel >= 1 << 60:
            raise self.broken(f"tensor {name!r} of shape {tuple(shape)} has {made.numel:,} elements")
        if element == "string":
            if location == 1 or len(texts) != made.numel:
                raise self.broken(f"tensor {name!r} of shape {tuple(shape)} has {len(texts):,} texts")
            made.texts = texts
            return made
        if location == 1:
            return self._external_tensor(made, external)
        if raw is not None:
            if raw.kind != BYTES or raw.size != made.nbytes:
                raise self._lies(made, raw.size)
            if raw.size <= SMALL:
                made.data = self.bytes_of(raw, SMALL)
            else:
                made.place = self.source, raw.start, raw.size
            return made
        return self._typed_tensor(made, typed)

    def _lies(self, made: StoredTensor, size: int) -> FileFormatError:
        return self.broken(
            f"tensor {made.name!r} of {made.element} and shape {made.shape} needs {made.nbytes:,} bytes, "
            f"the file has {size:,}"
        )

    def _external_tensor(self, made: StoredTensor, external: dict[str, str]) -> StoredTensor:
        try:
            offset, length = int(external.get("offset", 0)), int(external.get("length", made.nbytes))
        except ValueError:
            raise self.broken(f"the place of tensor {made.name!r} is {external}") from None
        source = self._external(external.get("location", ""))
        if length != made.nbytes:
            raise self._lies(made, length)
        if offset < 0 or offset + length > source.size:
            raise self.broken(
                f"tensor {made.name!r} lies at bytes {offset:,} to {offset + length:,} of {source.name}, which has "
                f"{source.size:,}"
            )
        made.place = source, offset, length
        return made

    def _typed_tensor(self, made: StoredTensor, typed: list[Field]) -> StoredTensor:
        """The elements from float_data, int32_data, int64_data, double_data or uint64_data."""
        element = made.element
        plain = {"float32": 4, "complex64": 4, "float64": 10, "complex128": 10}
        if element in plain:
            total = sum(part.size for part in typed)
            if any(part.number != plain[element] or part.kind == VARINT for part in typed) or total != made.nbytes:
                raise self._lies(made, total)
            if len(typed) == 1 and total > SMALL:
                made.place = self.source, typed[0].start, total
            else:
                made.data = b"".join(self._bytes(part.start, part.end) for part in typed)
            return made
        wanted = 7 if element == "int64" else 11 if element in ("uint32", "uint64") else 5
        count = made.numel if BITS[element] >= 8 else made.nbytes
        numbers: list[int] = []
        for part in typed:
            if part.number != wanted or part.kind in (FIXED32, FIXED64):
                raise self.broken(f"tensor {made.name!r} of {element} has its elements in field {part.number}")
            numbers += self.ints_of(part, max(count, 1))
        if len(numbers) != count:
            raise self.broken(
                f"tensor {made.name!r} of {element} and shape {made.shape} needs {count:,} numbers, "
                f"the file has {len(numbers):,}"
            )
        size = max(BITS[element] // 8, 1)
        mask = (1 << 8 * size) - 1
        made.data = b"".join((number & mask).to_bytes(size, "little") for number in numbers)
        return made

    def sparse(self, f: Field) -> SparseTensor:
        parts, shape = self._once(f), []
        for part in self.inside(f):
            if part.number == 3:
                shape += self.ints_of(part, RANK_LIMIT)
        values, indices = (self.tensor(parts[number]) if number in parts else None for number in (1, 2))
        if values is None or indices is None or indices.element != "int64":
            raise self.broken(f"the sparse tensor at byte {f.start:,} has no values, or no int64 indices")
        count = values.numel
        if len(values.shape) != 1 or indices.shape not in ((count,), (count, len(shape))) or min(shape, default=0) < 0:
            raise self.broken(
                f"sparse tensor {values.name!r} of shape {tuple(shape)} has values of shape {values.shape} at indices "
                f"of shape {indices.shape}"
            )
        return SparseTensor(values.name, values, indices, tuple(shape))

    def _function(self, f: Field, opsets: dict[str, int]) -> Function:
        made = Function("", "", "", [], [], [], {}, [], {})
        for part in self.inside(f):
            match part.number:
                case 1:
                    made.name = self.text_of(part, TEXT_LIMIT)
                case 4:
                    made.inputs.append(self.text_of(part, TEXT_LIMIT))
                case 5:
                    made.outputs.append(self.text_of(part, TEXT_LIMIT))
                case 6:
                    made.attributes.append(self.text_of(part, TEXT_LIMIT))
                case 7:
                    made.nodes.append(self.node(part, 0))
                case 9:
                    domain, version = self._opset(part)
                    made.opsets[domain] = version
                case 10:
                    made.domain = domain_of(self.text_of(part, TEXT_LIMIT))
                case 11:
                    self._attribute(part, made.defaults, {}, 0)
                case 13:
                    made.overload = self.text_of(part, TEXT_LIMIT)
        return replace(made, opsets=opsets | made.opsets)
