"""llama2.c checkpoints, versions 0, 1 and 2, read and written.

Source of the format: export.py, run.c and runq.c of https://github.com/karpathy/llama2.c (MIT). All numbers are
little-endian.

version 0: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, max_seq_len), negative vocab_size
if the classifier has separate weights; then f32: embedding; for all layers attention_norm, wq, wk, wv, wo,
    ffn_norm, w1, w2, w3; norm; two tables of rotary cosines and sines (max_seq_len, head_dim / 2), which readers skip;
    the classifier.
version 1: "ak42" as an int32, version, the seven int32, a byte that is 1 when the classifier is shared, zeros up to
    byte 256; then f32: attention_norm of all layers, ffn_norm of all layers, norm, embedding, wq, wk, wv, wo, w1, w2,
    w3, classifier.
version 2: the same header with an int32 group size after the byte; the norms in f32; then for each other tensor, layer
    by layer, its int8 values and then its f32 scales, one for each run of `group size` values of the flattened tensor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import quant
from pyapp.engine.device import Device
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError

from .checkpoint import Checkpoint, TensorInfo, require, require_size
from .dense_tensors import read_dense
from .finite import check_finite
from .sink import AnySink, float32_values, open_sink
from .source import ByteSource, BytesSource

MAGIC = 0x616B3432  # "ak42"
HEADER_BYTES = 256  # of versions 1 and 2
LEGACY_HEADER_BYTES = 28
FIELDS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
# Far above any model of this family, far below sizes that overflow or exhaust memory.
LIMITS = {
    "dim": 1 << 16,
    "hidden_dim": 1 << 19,
    "n_layers": 1 << 10,
    "n_heads": 1 << 10,
    "n_kv_heads": 1 << 10,
    "vocab_size": 1 << 22,
    "max_seq_len": 1 << 20,
    "group_size": 1 << 16,
}
HINT = "The file is damaged, or not a llama2.c checkpoint: download it again"
LAYER_NORMS = ("attention_norm.weight", "ffn_norm.weight")
LAYER_WEIGHTS = (
    "attention.wq.weight",
    "attention.wk.weight",
    "attention.wv.weight",
    "attention.wo.weight",
    "feed_forward.w1.weight",
    "feed_forward.w2.weight",
    "feed_forward.w3.weight",
)
EMBEDDING, NORM, OUTPUT = "tok_embeddings.weight", "norm.weight", "output.weight"


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file. `offset` is the start of the tensors; `group_size` is 0 except in version 2."""

    version: int
    config: dict[str, int]
    tied: bool
    group_size: int
    offset: int


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a tensor: `scales` is the offset of its group scales, 0 for f32."""

    shape: tuple[int, ...]
    offset: int
    scales: int = 0


class Llama2cFile(Checkpoint):
    """A llama2.c checkpoint. Tensor names and shapes are those of its PyTorch exporter; a tied head has no
    `output.weight`.

    `read` gives float32. In version 2 it gives q8_group tensors if each row consists of whole groups of a multiple of
    32 values; other groups (shorter ones, or groups across rows) are dequantised to float32.
    """

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        header = read_header(source)
        self.version = header.version
        self.group_size = header.group_size
        self.format = f"llama2.c v{header.version}"
        self.config = dict(header.config)
        self.metadata = {"version": str(header.version), "tied": "true" if header.tied else "false"}
        if header.group_size:
            self.metadata["group_size"] = str(header.group_size)
        self._places, end = layout(header)
        require_size(source, end, _describe(header))
        for name, place in self._places.items():
            self.tensors[name] = self._info(name, place)

    def _info(self, name: str, place: Place) -> TensorInfo:
        count = prod(place.shape)
        if place.scales:
            return TensorInfo(name, "q8_group", place.shape, count + 4 * (count // self.group_size))
        return TensorInfo(name, "float32", place.shape, 4 * count)

    def read_bytes(self, name: str) -> bytes | memoryview:
        """The f32 values; for quantised tensors the int8 values followed by the f32 scales."""
        return self.source.read(self._places[name].offset, self.tensors[name].nbytes)

    def _place(self, name: str) -> tuple[ByteSource, int, int]:
        return self.source, self._places[name].offset, self.tensors[name].nbytes

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        place = self._places[info.name]
        if not place.scales:
            return read_dense(self.source, place.offset, info, finite, device)
        count = prod(place.shape)
        quants = self.source.read(place.offset, count)
        scales = self.source.read(place.scales, 4 * (count // self.group_size))
        if finite:
            check_finite(scales, "float32", f"{info.name} (scales)", self.source.name)
        tensor = self._grouped(quants, scales, place.shape)
        return tensor if device is None else tensor.to(device)

    def _grouped(self, quants: bytes | memoryview, scales: bytes | memoryview, shape: tuple[int, ...]) -> Tensor:
        group = self.group_size
        if shape[1] % group and group % quant.BLOCK == 0:
            # One group per row of a (groups, group) matrix: the kernels can unpack it even if groups cross rows.
            rows = quant.from_groups(quants, scales, (prod(shape) // group, group), group)
            return quant.dequantize(rows).reshape(shape)
        return quant.from_groups(quants, scales, shape, group)


def looks_like_llama2c(head: bytes) -> bool:
    """Whether the first bytes can be those of a version 0 checkpoint: most of the header's numbers are possible."""
    count = min(len(head) // 4, len(FIELDS))
    numbers = struct.unpack(f"<{count}i", head[: 4 * count])
    possible = sum(0 < abs(number) <= LIMITS[field] for field, number in zip(FIELDS, numbers, strict=False))
    return 2 * possible > max(count, 2)


def read_header(source: ByteSource) -> Header:
    """Reads and checks the header. FileFormatError names the field, its value and what was expected."""
    size = source.size
    if size < LEGACY_HEADER_BYTES:
        raise FileFormatError(
            f"the file is truncated: a llama2.c header has at least {LEGACY_HEADER_BYTES} bytes, "
            f"{LEGACY_HEADER_BYTES - size} are missing ({size} are there)",
            where=source.name,
            hint=HINT,
        )
    magic, version = struct.unpack("<II", source.read(0, 8))
    if magic != MAGIC:
        values = struct.unpack("<7i", source.read(0, LEGACY_HEADER_BYTES))
        config = dict(zip(FIELDS, values, strict=True))
        tied = config["vocab_size"] > 0
        config["vocab_size"] = abs(config["vocab_size"])
        check_config(config, source)
        return Header(0, config, tied, 0, LEGACY_HEADER_BYTES)
    require(
        version in (1, 2), source, f"version is {version}, expected 1 or 2 after the signature ak42",
        "Export the model again with llama2.c's export.py --version 1 or 2",
    )  # fmt: skip
    require(
        size >= HEADER_BYTES, source,
        f"the file is truncated: the header has {HEADER_BYTES} bytes, {HEADER_BYTES - size} are missing", HINT,
    )  # fmt: skip
    *values_, shared, group = struct.unpack("<7iBi", source.read(8, 33))
    config = dict(zip(FIELDS, values_, strict=True))
    check_config(config, source)
    require(shared in (0, 1), source, f"shared_classifier is {shared}, expected 0 or 1", HINT)
    header = Header(version, config, shared == 1, group if version == 2 else 0, HEADER_BYTES)
    if version == 2:
        _check_group(header, source)
    return header


def check_config(config: dict[str, int], source: ByteSource) -> None:
    """FileFormatError unless every field is within its limits and the numbers of heads are divisors as required."""
    for field in FIELDS:
        value = config[field]
        require(
            1 <= value <= LIMITS[field], source,
            f"{field} is {value}, expected a number from 1 to {LIMITS[field]:,}", HINT,
        )  # fmt: skip
    dim, heads, kv_heads = config["dim"], config["n_heads"], config["n_kv_heads"]
    require(dim % heads == 0, source, f"n_heads is {heads}, expected a divisor of dim = {dim}", HINT)
    require(dim // heads % 2 == 0, source, f"dim / n_heads is {dim // heads}, expected an even number", HINT)
    require(heads % kv_heads == 0, source, f"n_kv_heads is {kv_heads}, expected a divisor of n_heads = {heads}", HINT)


def _check_group(header: Header, source: ByteSource) -> None:
    group, limit = header.group_size, LIMITS["group_size"]
    require(1 <= group <= limit, source, f"group_size is {group}, expected a number from 1 to {limit:,}", HINT)
    for name, shape in tensor_shapes(header.config, header.tied):
        count = prod(shape)
        require(
            len(shape) == 1 or count % group == 0, source,
            f"group_size is {group}, expected a divisor of the {count:,} values of {name}", HINT,
        )  # fmt: skip


def layer_shapes(config: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Shapes (outputs, inputs) of one layer's tensors, by their name in the layer."""
    dim, hidden = config["dim"], config["hidden_dim"]
    kv_dim = dim // config["n_heads"] * config["n_kv_heads"]
    return {
        "attention_norm.weight": (dim,),
        "ffn_norm.weight": (dim,),
        "attention.wq.weight": (dim, dim),
        "attention.wk.weight": (kv_dim, dim),
        "attention.wv.weight": (kv_dim, dim),
        "attention.wo.weight": (dim, dim),
        "feed_forward.w1.weight": (hidden, dim),
        "feed_forward.w2.weight": (dim, hidden),
        "feed_forward.w3.weight": (hidden, dim),
    }


def tensor_shapes(config: dict[str, int], tied: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor, in the order of versions 1 and 2."""
    shapes = layer_shapes(config)
    layers = range(config["n_layers"])
    for kind in LAYER_NORMS:
        yield from ((f"layers.{i}.{kind}", shapes[kind]) for i in layers)
    yield NORM, (config["dim"],)
    yield EMBEDDING, (config["vocab_size"], config["dim"])
    for kind in LAYER_WEIGHTS:
        yield from ((f"layers.{i}.{kind}", shapes[kind]) for i in layers)
    if not tied:
        yield OUTPUT, (config["vocab_size"], config["dim"])


def legacy_order(config: dict[str, int], tied: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor in the order of version 0; the rotary tables are two tensors with the name ""."""
    shapes = layer_shapes(config)
    yield EMBEDDING, (config["vocab_size"], config["dim"])
    for kind in (LAYER_NORMS[0], *LAYER_WEIGHTS[:4], LAYER_NORMS[1], *LAYER_WEIGHTS[4:]):
        yield from ((f"layers.{i}.{kind}", shapes[kind]) for i in range(config["n_layers"]))
    yield NORM, (config["dim"],)
    table = (config["max_seq_len"], config["dim"] // config["n_heads"] // 2)
    yield from (("", table), ("", table))
    if not tied:
        yield OUTPUT, (config["vocab_size"], config["dim"])


def layout(header: Header) -> tuple[dict[str, Place], int]:
    """The place of each tensor, and the file's length in bytes."""
    places: dict[str, Place] = {}
    offset = header.offset
    order = legacy_order if header.version == 0 else tensor_shapes
    for name, shape in order(header.config, header.tied):
        count = prod(shape)
        if header.group_size and len(shape) == 2:
            places[name] = Place(shape, offset, offset + count)
            offset += count + 4 * (count // header.group_size)
        else:
            if name:
                places[name] = Place(shape, offset)
            offset += 4 * count
    return places, offset


def _describe(header: Header) -> str:
    shown = " ".join(f"{field}={value}" for field, value in header.config.items())
    return f"a llama2.c v{header.version} checkpoint with {shown}"


# -- writing


def write_llama2c(
    target: AnySink, config: Mapping[str, int], tensors: Mapping[str, Any], version: int = 1, group_size: int = 64
) -> None:
    """Writes a checkpoint for llama2.c's run (version 0) or runq (version 2), and for this package.

    `target` is a path or a binary file; `config` has the seven fields; `tensors` maps the exporter's names to pyapp
    Tensors or arrays. The head counts as tied when `output.weight` is missing or equal to the embedding. Version 2
    halves `group_size` until it divides dim, as the exporter does. Raises ValueError for a missing tensor, a wrong
    shape, a bad configuration.
    """
    if version not in (0, 1, 2):
        raise ValueError(f"llama2.c checkpoints have the versions 0, 1 and 2, not {version!r}")
    fields = {field: int(config[field]) for field in FIELDS}
    where = BytesSource(b"", name="config")
    check_config(fields, where)
    tied = _is_tied(fields, tensors)
    missing = [name for name, _ in tensor_shapes(fields, tied) if name not in tensors]
    if missing:
        raise ValueError(
            f"cannot write a llama2.c checkpoint: {len(missing)} tensors are missing, first {missing[0]!r}"
        )
    while version == 2 and fields["dim"] % group_size:
        group_size //= 2
    header = Header(version, fields, tied, group_size if version == 2 else 0, 0)
    if version == 2:
        _check_group(header, where)
    with open_sink(target) as file:
        file.write(_pack_header(header))
        order = legacy_order if version == 0 else tensor_shapes
        tables = iter(_rotary_tables(fields)) if version == 0 else iter(())
        for name, shape in order(fields, tied):
            values = float32_values(name, tensors[name], shape) if name else next(tables)
            if header.group_size and len(shape) == 2:
                quants, scales = quantize_groups(name, values, header.group_size)
                file.write(quants.tobytes())
                file.write(scales.tobytes())
            else:
                file.write(values.tobytes())


def quantize_groups(name: str, values: Any, group: int) -> tuple[Any, Any]:
    """int8 values and float32 scales of each run of `group` values: scale = absmax / 127, rounding to nearest, ties to
    even.

    `values` is a float32 NumPy array; ModelError if it contains NaN or infinity.
    """
    rows = values.reshape(-1, group)
    check_finite(memoryview(values.reshape(-1)).cast("B"), "float32", name)
    scales = np.abs(rows).max(axis=1) / np.float32(127)
    divisors = np.where(scales == 0, np.float32(1), scales)
    return np.rint(rows / divisors[:, None]).astype(np.int8), scales


def _is_tied(config: Mapping[str, int], tensors: Mapping[str, Any]) -> bool:
    if OUTPUT not in tensors or EMBEDDING not in tensors:
        return True
    if tensors[OUTPUT] is tensors[EMBEDDING]:
        return True
    shape = (config["vocab_size"], config["dim"])
    output, embedding = (float32_values(name, tensors[name], shape) for name in (OUTPUT, EMBEDDING))
    return bool(np.array_equal(output, embedding))


def _pack_header(header: Header) -> bytes:
    values = [header.config[field] for field in FIELDS]
    if header.version == 0:
        values[5] *= 1 if header.tied else -1
        return struct.pack("<7i", *values)
    packed = struct.pack("<Ii7iB", MAGIC, header.version, *values, header.tied)
    if header.version == 2:
        packed += struct.pack("<i", header.group_size)
    return packed.ljust(HEADER_BYTES, b"\0")


def _rotary_tables(config: Mapping[str, int], theta: float = 10000.0) -> tuple[Any, Any]:
    """Cosines and sines of position * theta^(-2i / head_dim), each (max_seq_len, head_dim / 2) in float32."""
    head_dim = config["dim"] // config["n_heads"]
    frequencies = (theta ** -(np.arange(0, head_dim, 2) / head_dim)).astype(np.float32)
    angles = np.outer(np.arange(config["max_seq_len"], dtype=np.float32), frequencies)
    return np.cos(angles).astype("<f4"), np.sin(angles).astype("<f4")
