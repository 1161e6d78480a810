"""Convert model files to another type piece by piece, so that memory never holds a whole file."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyapp.engine import quant
from pyapp.engine.blocks.layout import BLOCK_TYPES, READABLE, SHORTER
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.engine.blocks.writing import QUANTIZABLE, quantize_blocks
from pyapp.engine.dtype import ALIASES, DTYPES
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor, adopt_array
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event, Progress

from .checkpoint import Checkpoint, TensorInfo
from .finite import check_finite
from .ggml_file import TYPE_CODES
from .gguf import CONFIG_KEY, GgufFile
from .gguf_shards import ShardedGguf
from .gguf_writer import write_gguf
from .imatrix import read_imatrix
from .mixtures import MIXTURES, Mixture
from .opening import open_checkpoint
from .safe_json import json_object
from .safetensors import CODES as SAFETENSORS_CODES
from .safetensors import write_safetensors
from .sink import Deferred
from .source import AnySource, FileSource, read_whole

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array

# general.architecture of GGUF files that pyapp writes from other formats.
ARCHITECTURE = "pyapp"
PIECE = 1 << 20  # bytes copied together
DENSE = ("float32", "float16", "bfloat16")
CHUNK = 1 << 20  # values quantised between two reports of progress
# Small, or read otherwise than by matrix products: norms, positions, convolutions, states' decay, routers of experts.
KEPT = re.compile(
    r"norm|ln_|pos(ition)?_?emb|rotary|conv|bias|token_types|gamma|beta|attn_rel_b|altup|laurel|per_layer_model_proj"
    r"|ffn_gate_inp|(mlp|block_sparse_moe)\.gate\.|indexer\.[kq]_proj"
    r"|\.ssm_[ad]$|\.A_log$|time_mix_(first|[wva][012]|g[12]|decay_w[12]|lerp_fused)\.",
    re.IGNORECASE,
)
# general.file_type of llama.cpp, for a file that is of one type throughout: the number of the type's first mixture.
FILE_TYPES = dict(reversed(MIXTURES.values()))
FILE_TYPES |= {"float32": 0, "float16": 1, "bfloat16": 32}
OF_ACTIVATIONS = ("q8_1", "q8_K")
# Types of files that pyapp reads as float32 only.
READ_AS_FLOAT32 = re.compile(r"q8_group|.* of (ggml|ggmf|ggjt)( v\d+)?")


def type_name(text: str) -> str:
    """ "Q4_K", "f16", "q4_k_m" … as pyapp spells it: one of QUANTIZABLE, DENSE and MIXTURES. Where a type and a mixture
    differ in their case only ("q4_0", "Q4_0"), that decides. OptionError for others."""
    names = (*QUANTIZABLE, *DENSE, *MIXTURES)
    if text in names:  # "q4_0" is a type, "Q4_0" a mixture
        return text
    for name in names:
        if text.lower() == name.lower():
            return name
    if text in ALIASES and ALIASES[text].name in DENSE:
        return ALIASES[text].name
    known = ", ".join(names)
    raise OptionError(f"unknown type {text[:50]!r}", where="type", hint=f"Types and mixtures: {known}")


def quantize_file(
    source: AnySource,
    target: str | os.PathLike[str],
    kind: str,
    *,
    imatrix: AnySource | None = None,
    keep: str | None = None,
    view: Callable[[Checkpoint], Checkpoint] | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> dict[str, Any]:
    """Writes `target` (.gguf or .safetensors) with the matrices of `source` converted to `kind`; `source` is any file
    that open_checkpoint accepts.

    `kind` is a type ("q4_K", "q8_0", "f16" …), which all matrices get, or one of MIXTURES ("Q4_K_M", "Q4_0" …), which
    gives some of them more bits, as llama.cpp does (mixtures.py). Other tensors stay as they are, and so do matrices
    whose names match KEPT or the regular expression `keep`. Rows that are not a multiple of 256 get the SHORTER type.
    Blocks in .safetensors are read by pyapp alone (block_rows.py). `view` gives a checkpoint other names and
    forms. `imatrix` names the columns that count. `report` receives Progress in bytes of the source. Returns what was
    written: `file size types weighted source_size`. Raises
    OptionError, FileFormatError, ModelError for NaN and infinite weights, Cancelled once `cancel` is set.
    """
    path, kind = Path(target), type_name(kind)
    _check_target(source, path)
    if kind in OF_ACTIVATIONS and path.suffix == ".gguf":
        raise OptionError(
            f"{kind} is llama.cpp's type of activations: it ends with a crash on matrices of it", where="type",
            hint="Take q8_0, or write a .safetensors file",
        )  # fmt: skip
    pattern = _compiled(keep)
    importance = {} if imatrix is None else read_imatrix(imatrix)
    opened = open_checkpoint(source)
    try:
        checkpoint = opened if view is None else view(opened)
        work = _Work(checkpoint, importance, report or (lambda event: None), cancel or Cancel())
        config = checkpoint.config or _config_beside(source)
        kinds = _chosen_types(checkpoint, config, kind, pattern, weighted=bool(importance))
        for name, chosen in kinds.items():
            _check_storable(name, chosen, path, checkpoint.source.name)
        tensors = {name: work.deferred(checkpoint.tensors[name], chosen) for name, chosen in kinds.items()}
        if importance and not work.weighted:
            raise OptionError(
                f"none of the {len(importance)} names of the imatrix is one of the model's",
                where="imatrix", hint="It must be measured on the same model in the same format",
            )  # fmt: skip
        if path.suffix == ".gguf":
            values, types = _metadata(checkpoint, config, kind)
            write_gguf(path, tensors, values, types)
        else:
            write_safetensors(path, tensors, _texts(checkpoint, config))
    finally:
        if opened.source is not source:
            opened.close()
    return {
        "file": str(path),
        "size": path.stat().st_size,
        "types": dict(Counter(tensor.dtype for tensor in tensors.values())),
        "weighted": work.weighted,
        "source_size": checkpoint.size,
    }


def chosen_type(info: TensorInfo, kind: str, keep: re.Pattern[str] | None = None) -> str:
    """The type in which a tensor is written: `kind`, the SHORTER type, or the tensor's present type."""
    own = _own_type(info)
    matrix = len(info.shape) in (2, 3) and info.numel > 0
    if not matrix or KEPT.search(info.name) or (keep and keep.search(info.name)):
        return own
    if own not in READABLE and own not in (*DENSE, "float64"):
        return own
    for wanted in (kind, SHORTER.get(kind)):
        if wanted in DENSE or (wanted and info.shape[-1] % BLOCK_TYPES[wanted].values == 0):
            return wanted
    return own


def _own_type(info: TensorInfo) -> str:
    """The type in which a tensor is copied: its present type, or float32 if no written file can store that type."""
    cut = info.dtype in READABLE and info.shape[-1] % READABLE[info.dtype].values != 0
    return "float32" if cut or READ_AS_FLOAT32.fullmatch(info.dtype) else info.dtype


def _chosen_types(
    checkpoint: Checkpoint, config: Mapping[str, Any], kind: str, keep: re.Pattern[str] | None, weighted: bool
) -> dict[str, str]:
    """The type of each tensor, by name."""
    infos = checkpoint.tensors.values()
    if kind not in MIXTURES:
        return {info.name: chosen_type(info, kind, keep) for info in infos}
    names, stacks = ([info.name for info in infos if len(info.shape) in ranks] for ranks in ((2, 3), (3,)))
    mixture = Mixture(kind, names, config, stacks=stacks, weighted=weighted)
    return {info.name: chosen_type(info, mixture.type_of(info.name), keep) for info in infos}


def _check_storable(name: str, kind: str, path: Path, where: str) -> None:
    """OptionError for a tensor whose type the target's format does not have."""
    if kind in BLOCK_TYPES or kind in (TYPE_CODES if path.suffix == ".gguf" else SAFETENSORS_CODES):
        return
    gguf = path.suffix == ".gguf"
    raise OptionError(
        f"{where}: tensor {name[:100]!r} is {kind}, which {'GGUF' if gguf else 'safetensors'} cannot store",
        where="output",
        hint=f"Write a {'.safetensors' if gguf else '.gguf'} file, or leave the tensor out of the source",
    )


def _check_target(source: AnySource, path: Path) -> None:
    if path.suffix not in (".gguf", ".safetensors"):
        raise OptionError(
            f"cannot tell the format of {path.name}", where="output", hint="End it in .gguf or .safetensors"
        )
    if isinstance(source, str | os.PathLike) and path.exists() and path.samefile(source):
        raise OptionError("the output is the input", where="output", hint="Give it another name")


def _compiled(keep: str | None) -> re.Pattern[str] | None:
    try:
        return None if keep is None else re.compile(keep)
    except re.error as error:
        raise OptionError(f"{keep!r} is not a regular expression: {error}", where="keep") from None


class _Work:
    """The state of converting one file. `weighted` counts the tensors with importance."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        importance: Mapping[str, Array],
        report: Callable[[Event], None],
        cancel: Cancel,
    ) -> None:
        self.checkpoint, self.importance, self.report, self.cancel = checkpoint, importance, report, cancel
        self.total = sum(info.nbytes for info in checkpoint.tensors.values())
        self.done = 0.0
        self.weighted = 0

    def deferred(self, info: TensorInfo, kind: str) -> Deferred:
        if kind == info.dtype:
            return Deferred(kind, info.shape, lambda: self._copied(info))
        weights = self.importance.get(info.name) if kind in BLOCK_TYPES else None
        if weights is not None:
            self.weighted += 1
            matrices = info.shape[0] if len(info.shape) == 3 else 1
            if weights.shape != (matrices, info.shape[-1]) and weights.shape != (1, info.shape[-1]):
                raise OptionError(
                    f"the importance of {info.name!r} has the shape {weights.shape}, the tensor {info.shape}",
                    where="imatrix", hint="It must be measured on the same model",
                )  # fmt: skip
        return Deferred(kind, info.shape, lambda: self._converted(info, kind, weights))

    def _copied(self, info: TensorInfo) -> Iterator[bytes | memoryview]:
        for piece in self.checkpoint.read_pieces(info.name, PIECE):
            yield piece
            self._advance(len(piece))

    def _converted(self, info: TensorInfo, kind: str, weights: Array | None) -> Iterator[bytes | memoryview]:
        """The converted tensor, some rows at a time; each piece is from one matrix."""
        columns = info.shape[-1]
        height = info.shape[-2] if len(info.shape) > 1 else 1  # rows of a matrix
        done = 0
        for rows in self._rows(info):
            while len(rows):
                count = min(len(rows), height - done % height)
                own = None if weights is None else weights[done // height % len(weights)]
                yield _encoded(rows[:count], kind, own)
                rows, done = rows[count:], done + count
                self._advance(info.nbytes * count * columns / info.numel)

    def _rows(self, info: TensorInfo) -> Iterator[Array]:
        """The tensor's rows (some, columns) in order, float32, checked for NaN and infinity. About CHUNK values are in
        memory at a time, except for types that can only be read whole.
        """
        columns = info.shape[-1] if info.shape else 1
        if info.dtype in READABLE and _own_type(info) == info.dtype:
            width = columns // READABLE[info.dtype].values * READABLE[info.dtype].nbytes
        elif info.dtype in (*DENSE, "float64"):
            width = columns * (2 if info.dtype in ("float16", "bfloat16") else 8 if info.dtype == "float64" else 4)
        else:
            width = 0
        if not width or not info.numel:
            yield from self._rows_of_whole(info, columns)
            return
        first = 0
        for piece in self.checkpoint.read_pieces(info.name, max(CHUNK // columns, 1) * width):
            rows = self._values(piece, info, first)
            yield rows.reshape(-1, columns)
            first += rows.size

    def _values(self, piece: bytes | memoryview, info: TensorInfo, first: int) -> Array:
        """The values of some rows, flat; `first` is the index of the first value. ModelError for NaN and infinity."""
        stored = piece, info.dtype
        if info.dtype in READABLE:
            values = dequantize_blocks(piece, info.dtype)
            stored = values.data, "float32"
        else:
            count = memoryview(piece).nbytes // DTYPES[info.dtype].itemsize
            values = Tensor.from_buffer(piece, (count,), info.dtype).to("float32").numpy()
        if not np.isfinite(values).all():  # the search for the place takes longer
            check_finite(*stored, info.name, self.checkpoint.source.name, first)
        return values

    def _rows_of_whole(self, info: TensorInfo, columns: int) -> Iterator[Array]:
        tensor = quant.dequantize(self.checkpoint.read(info.name, finite=True)).to("float32")
        rows: Array = tensor.numpy().reshape(-1, columns)
        step = max(CHUNK // columns, 1)
        yield from (rows[begin : begin + step] for begin in range(0, len(rows), step))

    def _advance(self, nbytes: float) -> None:
        self.cancel.check()
        self.done += nbytes
        self.report(Progress("quantizing", round(self.done), self.total, "bytes"))


def _encoded(part: Array, kind: str, weights: Array | None) -> bytes | memoryview:
    if kind in BLOCK_TYPES:
        return quantize_blocks(part, kind, weights).data
    converted = adopt_array(part).to(kind)
    return memoryview(converted._storage.read(0, converted.nbytes))


def _config_beside(source: AnySource) -> dict[str, Any]:
    """The config.json beside a Hugging Face model's weights; empty if there is none."""
    if not isinstance(source, str | os.PathLike):
        return {}
    try:
        with FileSource(Path(source).with_name("config.json")) as file:
            return json_object(read_whole(file).decode("utf-8"))
    except (OSError, ValueError):  # missing, not a file, too large, or not JSON
        return {}


def _metadata(checkpoint: Checkpoint, config: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], dict[str, str]]:
    """(values, types) for a GGUF file: copied from a GGUF source, else the configuration as JSON and the metadata."""
    values: dict[str, Any] = dict(getattr(checkpoint, "values", {}))
    types: dict[str, str] = dict(getattr(checkpoint, "types", {}))
    if "general.architecture" not in values:
        # Other programs must not load the file as a known architecture: the tensors have the source's names.
        values["general.architecture"] = ARCHITECTURE
        values[CONFIG_KEY] = json.dumps(dict(config))
        values |= {f"source.{key}": text for key, text in checkpoint.metadata.items() if key != "config"}
    values["general.file_type"] = MIXTURES[kind][1] if kind in MIXTURES else FILE_TYPES.get(kind, 0)
    types["general.file_type"] = "uint32"
    if kind in BLOCK_TYPES or kind in MIXTURES:
        values["general.quantization_version"] = 2
        types["general.quantization_version"] = "uint32"
    return values, {key: name for key, name in types.items() if key in values}


def _texts(checkpoint: Checkpoint, config: Mapping[str, Any]) -> dict[str, str]:
    texts = {} if isinstance(checkpoint, GgufFile | ShardedGguf) else dict(checkpoint.metadata)
    return texts | ({"config": json.dumps(dict(config))} if config else {})
