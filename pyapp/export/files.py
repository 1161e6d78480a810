"""Files of exported programs: `export.save` and `export.load`.

A file is a ZIP archive, with members like those of torch's `.pt2`: `models/model.json` has the nodes, inputs and
layers, `data/weights/model.pt` and `data/sample_inputs/model.pt` the tensors (`pyapp.save`), `extra/` what the user
adds. A program is data: functions are those of `_function_of`, methods those of tensors, layers those of pyapp.nn, all
by name. What a file says otherwise is refused, so that no file runs code of its own.
"""

from __future__ import annotations

import builtins
import inspect
import io
import json
import keyword
import operator
import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any

from .. import fft, linalg, special
from ..engine import memory_format as memory_formats
from ..engine.device import Device
from ..engine.dtype import DType, as_dtype
from ..engine.memory_format import layout, memory_format
from ..engine.ops import declared
from ..engine.ops._index import FUNCTION_MODULES, METHOD_MODULES
from ..engine.tensor import Tensor
from ..errors import FileFormatError
from ..formats.safe_json import parse_json
from ..formats.sink import AnySink, open_sink
from ..formats.source import AnySource, close_source, open_source
from ..formats.torch_files import load as load_tensors
from ..formats.torch_files import save as save_tensors
from ..fx import Graph, GraphModule, Node
from ..fx.names import PACKAGE, Namespace, name_of_function
from ..nn import Module, Parameter, functional
from ..traced_numbers import _assert, _assert_async
from . import layers
from .dims import ANY, Dim
from .inputs import Inputs
from .program import ExportedProgram, with_its_mode

_FORMAT, _VERSION = b"pyapp exported program", b"1"
_MODEL, _WEIGHTS, _SAMPLES = "models/model.json", "data/weights/model.pt", "data/sample_inputs/model.pt"
_EXTRA = "extra/"
_MOST_JSON = 1 << 26  # bytes
_NOT_DATA = "apply_ map_ map2_ from_file register_hook register_post_accumulate_grad_hook".split()  # files, functions
_OPERATORS = set(operator.__all__) - {"attrgetter", "itemgetter", "methodcaller", "call"}
_MODULES: dict[str, Any] = {module.__name__: module for module in (functional, linalg, fft, special)}
_ENGINE = f"{PACKAGE}.engine.ops"  # whose functions layers have as activations
_FORMATS = [one for one in vars(memory_formats).values() if isinstance(one, (memory_format, layout))]
_BUILTINS = "getattr len int float bool max min abs sum round tuple list slice".split()


def _function_of(name: str) -> Callable[..., Any] | None:
    """The function that a program may call by this name."""
    place, _, last = name.rpartition(".")
    found: Any = None
    if place in _MODULES and last in _MODULES[place].__all__:
        found = getattr(_MODULES[place], last)
    elif place == "" and last in _BUILTINS:
        found = getattr(builtins, last)
    elif place == "operator" and last in _OPERATORS:
        found = getattr(operator, last)
    elif place in (PACKAGE, _ENGINE) and last in FUNCTION_MODULES and last not in _NOT_DATA:
        found = declared(last).public if place == PACKAGE else declared(last).value
    elif place == PACKAGE:
        found = {"_assert": _assert, "_assert_async": _assert_async}.get(last)
    return found if callable(found) and (place == "" or not isinstance(found, type)) else None


def _is_method(name: str) -> bool:
    return name[:1] != "_" and name not in _NOT_DATA and (name in METHOD_MODULES or name in ("size", "stride", "item"))


# -- writing


class _Writer:
    """Values as JSON, and the tensors among them."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}

    def tensor(self, tensor: Tensor) -> int:
        """The number of a tensor in the file."""
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self.tensors)
            self.tensors.append(tensor)
        return self._numbers[id(tensor)]

    def value(self, value: Any) -> Any:
        """A value as JSON. TypeError for those that a file cannot have."""
        if value is None or isinstance(value, (bool, int, str)) and type(value) in (bool, int, str):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, complex):
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if isinstance(value, Node):
            return {"node": value.name}
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return {"tuple": [self.value(part) for part in value]}
        if isinstance(value, list):
            return [self.value(part) for part in value]
        if isinstance(value, Mapping):
            return {"dict": [[self.value(key), self.value(part)] for key, part in value.items()]}
        if isinstance(value, slice):
            return {"slice": [self.value(part) for part in (value.start, value.stop, value.step)]}
        if value is ...:
            return {"ellipsis": True}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, (Device, memory_format, layout)):
            return {"device": str(value)} if isinstance(value, Device) else {"format": value.name}
        if isinstance(value, Dim):
            return {"dim": [value.__name__, value.min, value.max, value in ANY]}
        if isinstance(value, Tensor):
            return {"tensor": self.tensor(value)}
        if isinstance(value, Module):
            return {"layer": layers.described(value, self.value, type(value).__name__)}
        if callable(value):
            return {"function": self.function(value)}
        raise TypeError(f"export.save: a file cannot have {type(value).__name__}: {value!r:.80}")

    def function(self, function: Any) -> str:
        """The name of a function that a file may call."""
        name = getattr(function, "__name__", "")
        of_engine = name in FUNCTION_MODULES and declared(name).value is function
        name = f"{_ENGINE}.{name}" if of_engine else name_of_function(function)
        if _function_of(name) is not function:
            raise TypeError(f"export.save: the program calls {name}, which no file can name; export.load knows pyapp's")
        return name

    def node(self, node: Node) -> dict[str, Any]:
        if node.op == "call_method" and not _is_method(str(node.target)):
            raise TypeError(f"export.save: the program calls the method {node.target}, which no file can name")
        target = self.function(node.target) if node.op == "call_function" else node.target
        return {
            "op": node.op, "name": node.name, "target": target, "args": self.value(node.args),
            "kwargs": self.value(dict(node.kwargs)),
        }  # fmt: skip


def _layer(writer: _Writer, module: Module, path: str) -> dict[str, Any]:
    """A layer's record, after a look whether it gives the same layer."""
    record = layers.described(module, writer.value, path)
    try:
        what = layers.same(module, layers.made(record, _Reader(writer.tensors).value))
    except FileFormatError as error:
        what = str(error)
    if what:
        name = type(module).__name__
        raise TypeError(f"export.save: a file cannot have the {name} {path!r}: {what} cannot be written")
    record["training"] = {name: part.training for name, part in module.named_modules()}
    return record


def _signature(writer: _Writer, signature: inspect.Signature) -> list[Any]:
    return [
        [p.name, int(p.kind), [writer.value(p.default)] if p.default is not p.empty else []]
        for p in signature.parameters.values()
    ]


def save(
    ep: ExportedProgram, f: AnySink, *, extra_files: Mapping[str, Any] | None = None, opset_version: Any = None,
    pickle_protocol: int = 2,
) -> None:  # fmt: skip
    """Writes a program with its parameters and buffers to a path or an open file, for `load`. `extra_files` are texts
    by their names. TypeError for programs with functions or layers that are not pyapp's.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: takes an ExportedProgram, not {type(ep).__name__}; export() makes one")
    writer, root, graph_module, inputs = _Writer(), ep._root, ep.graph_module, ep.inputs
    modules = dict.fromkeys(str(n.target) for n in ep.graph.nodes if n.op == "call_module")
    # Of the module that was exported, and constants that the graph reads.
    tensors: list[Any] = []
    seen: set[str] = set()
    for path, owner, name, is_parameter in layers.tensors_of(root):
        persistent = name not in owner._non_persistent_buffers_set
        value = getattr(owner, name)
        seen.add(path)
        tensors.append([path, writer.tensor(value), "parameter" if is_parameter else "buffer", persistent,
                        value.requires_grad])  # fmt: skip
    for node in ep.graph.nodes:
        if node.op == "get_attr" and node.target not in seen:
            seen.add(str(node.target))
            value = graph_module
            for part in str(node.target).split("."):
                value = getattr(value, part)
            if not isinstance(value, Tensor):
                raise TypeError(f"export.save: {node.target!r} is a {type(value).__name__}, and no tensor")
            tensors.append([node.target, writer.tensor(value), "constant", False, value.requires_grad])
    program = {
        "name": type(root).__name__,
        "nodes": [writer.node(node) for node in ep.graph.nodes],
        "layers": {path: _layer(writer, graph_module.get_submodule(path), path) for path in modules},
        "tensors": tensors,
        "signature": _signature(writer, inputs.signature),
        "sizes": writer.value(inputs.sizes),
    }
    samples = _Writer()
    program["given"] = samples.value(inputs.given)
    program["example"] = samples.value(ep.example_inputs)
    with open_sink(f) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive_format", _FORMAT)
        archive.writestr("archive_version", _VERSION)
        archive.writestr(_MODEL, json.dumps(program))
        for name, tensors in ((_WEIGHTS, writer.tensors), (_SAMPLES, samples.tensors)):
            data = io.BytesIO()
            save_tensors([tensor.detach() for tensor in tensors], data)
            archive.writestr(name, data.getvalue())
        for name, text in (extra_files or {}).items():
            archive.writestr(_EXTRA + name, text if isinstance(text, bytes) else str(text).encode())


# -- reading


class _Reader:
    """Values of JSON. FileFormatError for what is none of the forms of _Writer."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors = tensors
        self.nodes: dict[str, Node] = {}

    def value(self, data: Any) -> Any:
        if data is None or isinstance(data, (bool, int, str)):
            return data
        if isinstance(data, list):
            return [self.value(part) for part in data]
        if not isinstance(data, dict) or len(data) != 1:
            raise FileFormatError(f"the program has a value of no known form: {data!r:.80}")
        ((kind, held),) = data.items()
        read = getattr(self, f"_read_{kind}", None) if isinstance(kind, str) and kind.isidentifier() else None
        if read is None:
            raise FileFormatError(f"the program has a value of an unknown kind: {kind!r:.80}")
        return read(held)

    def _read_float(self, held: Any) -> float:
        return float.fromhex(held)

    def _read_complex(self, held: Any) -> complex:
        real, imag = held
        return complex(float.fromhex(real), float.fromhex(imag))

    def _read_node(self, held: Any) -> Node:
        if held not in self.nodes:
            raise FileFormatError(f"the program reads {held!r:.60} before it is computed")
        return self.nodes[held]

    def _read_tuple(self, held: Any) -> tuple[Any, ...]:
        return tuple(self.value(part) for part in held)

    def _read_dict(self, held: Any) -> dict[Any, Any]:
        return {self.value(key): self.value(value) for key, value in held}

    def _read_slice(self, held: Any) -> slice:
        start, stop, step = held
        return slice(self.value(start), self.value(stop), self.value(step))

    def _read_ellipsis(self, _: Any) -> Any:
        return ...

    def _read_dtype(self, held: Any) -> DType:
        return as_dtype(held)

    def _read_device(self, held: Any) -> Device:
        return Device(held)

    def _read_format(self, held: Any) -> Any:
        for known in _FORMATS:
            if known.name == held:
                return known
        raise FileFormatError(f"the program has a memory format {held!r:.60}, which there is not")

    def _read_dim(self, held: Any) -> Dim:
        name, least, most, is_any = held
        return getattr(Dim, name) if is_any is True and name in ("AUTO", "DYNAMIC") else Dim(name, min=least, max=most)

    def _read_tensor(self, held: Any) -> Tensor:
        return self._tensors[_index(held, len(self._tensors))]

    def _read_layer(self, held: Any) -> Module:
        return layers.made(held, self.value)

    def _read_function(self, held: Any) -> Callable[..., Any]:
        found = _function_of(held) if isinstance(held, str) else None
        if found is None:
            raise FileFormatError(f"the program calls {held!r:.80}, which is no function of a program")
        return found


def _index(held: Any, count: int) -> int:
    if type(held) is not int or not 0 <= held < count:
        raise FileFormatError(f"the program has a tensor {held!r:.40}; there are {count}")
    return held


def _parts(path: Any) -> list[str]:
    """A path of modules and a name: words of Python, and numbers."""
    parts = path.split(".") if isinstance(path, str) else [""]
    for part in parts:
        if not (part.isidentifier() or part.isdecimal() and part.isascii()) or part.startswith("__"):
            raise FileFormatError(f"the program has a path {path!r:.80}, which is none")
    return parts


def _owner(root: Module, parts: list[str]) -> Module:
    """The module of a path, which is made where it is missing."""
    for part in parts:
        child = root._modules.get(part)
        if child is None:
            if hasattr(root, part):
                raise FileFormatError(f"the program has a module of the name {part!r:.60}, which is taken")
            child = Module()
            root.add_module(part, child)
        root = child
    return root


def _graph(nodes: Any, reader: _Reader, names: set[str]) -> Graph:
    """The graph. Its names become names of Python: those that would hide others are refused."""
    graph, taken = Graph(), Namespace()
    for record in nodes:
        op, name, target = record["op"], record["name"], record["target"]
        if not isinstance(name, str) or not name.isidentifier() or taken.create_name(name) != name:
            raise FileFormatError(f"the program has a node of the name {name!r:.60}, which is no name, or taken")
        args, kwargs = reader.value(record["args"]), reader.value(record["kwargs"])
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise FileFormatError(f"the node {name} has arguments of another form")
        for key in kwargs:
            if not isinstance(key, str) or not key.isidentifier() or keyword.iskeyword(key):
                raise FileFormatError(f"the node {name} has an argument {key!r:.60}, which is no name")
        if op == "call_function":
            target = reader._read_function(target)
            if target is getattr and not (
                len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier() and args[1][0] != "_"
            ):
                raise FileFormatError(f"the node {name} asks for an attribute that is not public")
        elif op == "call_method":
            if not isinstance(target, str) or not _is_method(target) or not args or not isinstance(args[0], Node):
                raise FileFormatError(f"the node {name} calls {target!r:.60}, which is no method of tensors")
        elif op in ("get_attr", "call_module"):
            if target not in names:
                raise FileFormatError(f"the node {name} reads {target!r:.60}, which the program does not have")
        elif op == "placeholder":
            known = isinstance(target, str) and target.isidentifier() and not keyword.iskeyword(target)
            if not known or target in (PACKAGE, "operator", "self") or args or kwargs:
                raise FileFormatError(f"the input {name} has another form")
        elif op != "output" or target != "output":
            raise FileFormatError(f"the node {name} is {op!r:.40}, which is none")
        reader.nodes[name] = graph.create_node(op, target, args, kwargs, name)
    return graph


def _add_layers(root: Module, records: Mapping[str, Any], reader: _Reader) -> None:
    """Makes the layers of a program, each at its path."""
    for path, record in records.items():
        *parents, last = _parts(path)
        layer = layers.made(record, reader.value)
        for name, part in layer.named_modules():
            part.training = record["training"][name] is True
        owner = _owner(root, parents)
        if last in owner._modules or hasattr(owner, last):
            raise FileFormatError(f"the program has {path!r:.80} twice")
        owner.add_module(last, layer)


def _add_tensors(root: Module, records: Any, weights: list[Tensor]) -> None:
    """Puts the parameters, buffers and constants of a program at their paths, those of the layers as well."""
    made: dict[int, Tensor] = {}
    for path, number, kind, persistent, requires_grad in records:
        *parents, last = _parts(path)
        owner, value = _owner(root, parents), weights[_index(number, len(weights))]
        before = vars(owner).get(last)
        if isinstance(before, Tensor) and before.shape != value.shape:
            raise FileFormatError(f"{path} has the shape {value.shape}, the layer has {before.shape}")
        taken = before is not None and not isinstance(before, Tensor) or last[:1] == "_" and hasattr(Module(), last)
        unknown = before is None and hasattr(owner, last) and last not in {*owner._parameters, *owner._buffers}
        if taken or unknown:
            raise FileFormatError(f"the program has a tensor {path!r:.80}, whose name is taken")
        if number not in made:
            made[number] = Parameter(value, requires_grad is True) if kind == "parameter" else value
        if kind == "parameter":
            owner.register_parameter(last, made[number])
        elif kind == "buffer":
            owner.register_buffer(last, made[number], persistent is True)
        else:
            setattr(owner, last, made[number])
    for path, owner, name, _ in layers.tensors_of(root):
        if getattr(owner, name).device.type == "meta":
            raise FileFormatError(f"the program has no tensor for {path}")


def _inputs_of(program: Mapping[str, Any], reader: _Reader, sampled: _Reader) -> Inputs:
    """The inputs of a program, with the sizes that may differ."""
    parameters = [
        inspect.Parameter(
            name, inspect._ParameterKind(kind), default=reader.value(default[0]) if default else inspect.Parameter.empty
        )
        for name, kind, default in program["signature"]
    ]
    inputs = Inputs(inspect.Signature(parameters), sampled.value(program["given"]))
    sizes = reader.value(program["sizes"])
    if [len(one) for one in sizes] != [len(one) for one in inputs.sizes]:
        raise FileFormatError("the program has sizes that its inputs do not have")
    inputs.sizes = sizes
    return inputs


def _rebuilt(program: dict[str, Any], weights: list[Tensor], samples: list[Tensor]) -> ExportedProgram:
    """The program that a file describes."""
    reader, sampled, root = _Reader(weights), _Reader(samples), Module()
    type_name = program["name"]
    if not isinstance(type_name, str) or not type_name.isidentifier() or keyword.iskeyword(type_name):
        raise FileFormatError(f"the program has the name {type_name!r:.60}, which is none")
    _add_layers(root, program["layers"], reader)
    _add_tensors(root, program["tensors"], weights)
    names = {path for path, *_ in program["tensors"]} | set(program["layers"])
    graph = _graph(program["nodes"], reader, names)
    inputs = _inputs_of(program, reader, sampled)
    placed = [node.name for node in graph.nodes if node.op == "placeholder"]
    wanted = [name for name, leaf in zip(inputs.names, inputs.leaves, strict=True) if isinstance(leaf, Tensor)]
    if len(placed) != len(wanted):
        raise FileFormatError(f"the program has {len(placed)} inputs, its example {len(wanted)} tensors")
    module = GraphModule(root, graph, type_name)
    graph.lint()
    for path in program["layers"]:
        parent, _, last = path.rpartition(".")
        setattr(module.get_submodule(parent), last, with_its_mode(module.get_submodule(path)))
    return ExportedProgram(root, module, inputs, sampled.value(program["example"]))


def _bytes_of(f: Any) -> bytes | memoryview:
    if callable(getattr(f, "read", None)) and not hasattr(f, "size"):  # an open file
        held: bytes = f.read()
        return held
    source = open_source(f)
    try:
        return source.read(0, source.size)
    finally:
        if source is not f:
            close_source(source)


def load(
    f: AnySource | IO[bytes], *, extra_files: dict[str, Any] | None = None, expected_opset_version: Any = None
) -> ExportedProgram:
    """Reads a program of `save` from a path, bytes or an open file. No code of the file is run: FileFormatError for
    files that are damaged, or name other functions, methods and layers than pyapp's. `extra_files`: a dict whose values
    become the texts of those names.
    """
    data = _bytes_of(f)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = {one.filename: one for one in archive.infolist()}
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise FileFormatError(f"no exported program: {error!s:.100}", hint="export.save writes such files") from error

    def member(name: str, most: int | None = None) -> bytes:
        one = members.get(name)
        if one is None:
            raise FileFormatError(f"the exported program has no {name}")
        if one.compress_type != zipfile.ZIP_STORED or one.file_size > min(len(data), most or len(data)):
            raise FileFormatError(f"the exported program has a {name} of another form, or too large")
        try:
            return archive.read(one)
        except (zipfile.BadZipFile, EOFError, ValueError, OSError, RuntimeError, NotImplementedError) as error:
            raise FileFormatError(f"the exported program is damaged: {error!s:.100}") from error

    if "archive_format" not in members or member("archive_format", 100) != _FORMAT:
        hint = "Files of torch.export hold torch's own ops: export the module again with pyapp, or to ONNX with torch"
        raise FileFormatError("not an exported program of pyapp", hint=hint)
    if member("archive_version", 100) != _VERSION:
        raise FileFormatError("the exported program is of a newer version of pyapp")
    try:
        program = parse_json(member(_MODEL, _MOST_JSON))
        weights, samples = (list(load_tensors(member(name))) for name in (_WEIGHTS, _SAMPLES))
        if not all(isinstance(tensor, Tensor) for tensor in weights + samples):
            raise FileFormatError("the exported program has weights that are no tensors")
        found = _rebuilt(program, weights, samples)
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, AssertionError) as error:
        raise FileFormatError(f"the exported program is damaged: {type(error).__name__}: {error!s:.200}") from error
    for name in extra_files if extra_files is not None else ():
        extra_files[name] = member(_EXTRA + name).decode("utf-8", "replace")  # type: ignore[index]
    return found
