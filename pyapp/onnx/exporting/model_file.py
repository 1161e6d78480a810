"""The bytes of an ONNX model: Protocol Buffers by https://github.com/onnx/onnx/blob/main/onnx/onnx.proto."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from pyapp.engine import Tensor, quant
from pyapp.errors import ModelError
from pyapp.formats.protobuf import bytes_field, bytes_head, float_field, int_field
from pyapp.formats.sink import AnySink, open_sink

from .graph import Graph, Sizes, Written, element_code

_IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}  # by opset
USUAL_OPSET = 20
LARGEST = 2_000_000_000  # bytes of a file; protobuf's limit is 2^31 - 1
INSIDE = 1024  # bytes up to which tensors stay in the model where the others have a file of their own
ALIGNMENT = 4096  # of tensors in that file, so that it can be mapped
_EXTERNAL = 1  # TensorProto.DataLocation


def checked_opset(version: int | None) -> int:
    """The opset of a file. ValueError for one that is not written."""
    if version is not None and version not in _IR_VERSIONS:
        raise ValueError(f"export: opset_version is {min(_IR_VERSIONS)} to {max(_IR_VERSIONS)}, not {version!r}")
    return USUAL_OPSET if version is None else version


def data_path(file: str | os.PathLike[str]) -> Path:
    """Where the tensors of a model are that has them in a file of their own."""
    return Path(f"{os.fspath(file)}.data")


def _attribute(name: str, value: Any) -> bytes:
    head = bytes_field(1, name)
    if isinstance(value, Written):
        return head + bytes_field(6, b"".join(_graph_parts(value, name))) + int_field(20, 5)
    if isinstance(value, str):
        return head + bytes_field(4, value) + int_field(20, 3)
    if isinstance(value, float):
        return head + float_field(2, value) + int_field(20, 1)
    if isinstance(value, int):
        return head + int_field(3, value) + int_field(20, 2)
    if value and isinstance(value[0], str):
        return head + b"".join(bytes_field(9, part) for part in value) + int_field(20, 8)
    return head + b"".join(int_field(8, part) for part in value) + int_field(20, 7)


def _info(name: str, x: Tensor, sizes: Sizes) -> bytes:
    shape = b"".join(
        bytes_field(1, int_field(1, size) if isinstance(size, int) else bytes_field(2, size)) for size in sizes
    )
    kind = bytes_field(1, int_field(1, element_code(x.dtype)) + bytes_field(2, shape))
    return bytes_field(1, name) + bytes_field(2, kind)


def _data(x: Tensor) -> Any:
    """The bytes of a dense tensor."""
    flat = x.detach().cpu().contiguous()
    return flat._storage.bytes_view()[flat.offset * flat.dtype.itemsize :][: flat.numel() * flat.dtype.itemsize]


def _entry(key: str, value: str) -> bytes:
    return bytes_field(13, bytes_field(1, key) + bytes_field(2, value))


class _Outside:
    """The places of tensors in a file beside the model."""

    def __init__(self, name: str) -> None:
        self.name, self.size = name, 0
        self.places: dict[str, tuple[int, Tensor]] = {}

    def take(self, name: str, x: Tensor, nbytes: int) -> bytes:
        """The fields that say where a tensor is."""
        at = -(-self.size // ALIGNMENT) * ALIGNMENT
        self.places[name] = at, x
        self.size = at + nbytes
        return (
            _entry("location", self.name) + _entry("offset", str(at)) + _entry("length", str(nbytes))
            + int_field(14, _EXTERNAL)
        )  # fmt: skip

    def write(self, sink: IO[bytes]) -> None:
        written = 0
        for at, x in self.places.values():
            sink.write(bytes(at - written))
            data = _data(x)
            sink.write(data)
            written = at + len(data)


def _graph_parts(written: Written, name: str) -> list[bytes]:
    """The fields of a graph without its tensors."""
    parts: list[bytes] = []
    for node in written.graph.nodes:
        body = b"".join(bytes_field(1, name) for name in node.inputs)
        body += b"".join(bytes_field(2, name) for name in node.outputs)
        body += bytes_field(3, node.outputs[0]) + bytes_field(4, node.operator)
        body += b"".join(bytes_field(5, _attribute(name, value)) for name, value in node.attributes.items())
        body += bytes_field(7, node.domain) if node.domain else b""
        parts.append(bytes_field(1, body))
    parts.append(bytes_field(2, name))
    parts += [bytes_field(11, _info(*info)) for info in written.inputs]
    return parts + [bytes_field(12, _info(*info)) for info in written.outputs]


def _domains(graph: Graph) -> set[str]:
    """The domains of its operators beside ONNX's, and those of branches and steps."""
    inner = [v for node in graph.nodes for v in node.attributes.values() if isinstance(v, Written)]
    return {node.domain for node in graph.nodes if node.domain}.union(*(_domains(part.graph) for part in inner))


def write_model(written: Written, file: AnySink, external_data: bool | None) -> None:
    """Writes the model: with external_data the large tensors into a file beside it, FILE.data; None: if it has more
    than 2 GB. ModelError for one so large that has no place for such a file."""
    graph = written.graph
    dense = {name: quant.dequantize(x) if x.dtype.is_quantized else x for name, x in graph.tensors.items()}
    parts = _graph_parts(written, "pyapp")
    heads, size = _heads(dense, None)
    size += sum(len(part) for part in parts)
    path = Path(file) if isinstance(file, (str, os.PathLike)) else None
    outside, places = None, ExitStack()
    if external_data or external_data is None and size > LARGEST and path is not None:
        if path is None:
            raise ValueError("export: external_data needs the path of a file, beside which the tensors are written")
        outside = _Outside(data_path(path).name)
        heads, size = _heads(dense, outside)
        size += sum(len(part) for part in parts)
    if size > LARGEST:
        raise ModelError(
            f"the model has {size:,} bytes, an ONNX file at most {LARGEST:,}",
            hint="Give the path of a file, and leave out external_data=False: the tensors get a file of their own",
        )
    start = int_field(1, _IR_VERSIONS[graph.opset]) + bytes_field(2, "pyapp")
    with places:
        if outside is not None and path is not None:
            data = places.enter_context(open_sink(path.with_name(outside.name)))
            outside.write(data)
            data.flush()
            os.fsync(data.fileno())
        # Both are complete before one of them takes the place of an older one: old tensors stay beside the old model.
        sink = places.enter_context(open_sink(file))
        _put(sink, start, bytes_head(7, size), *parts)
        for name, x in dense.items():
            _put(sink, heads[name])
            if outside is None or name not in outside.places:
                _put(sink, _data(x))
        for domain, version in (("", graph.opset), *((name, 1) for name in sorted(_domains(graph)))):
            _put(sink, bytes_field(8, bytes_field(1, domain) + int_field(2, version)))


def _heads(dense: Mapping[str, Tensor], outside: _Outside | None) -> tuple[dict[str, bytes], int]:
    """What precedes the bytes of each tensor, and the size of all."""
    heads, size = {}, 0
    for name, x in dense.items():
        fields = b"".join(int_field(1, n) for n in x.shape) + int_field(2, element_code(x.dtype)) + bytes_field(8, name)
        nbytes = x.numel() * x.dtype.itemsize
        if outside is not None and nbytes > INSIDE:
            inner, nbytes = fields + outside.take(name, x, nbytes), 0
        else:
            inner = fields + bytes_head(9, nbytes)
        heads[name] = bytes_head(5, len(inner) + nbytes) + inner
        size += len(heads[name]) + nbytes
    return heads, size


def _put(sink: IO[bytes], *parts: Any) -> None:
    for part in parts:
        sink.write(part)
