"""A model file in another type: read, quantised and written tensor by tensor, so that memory holds one at a time."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyapp.engine.blocks.layout import SHORTER
from pyapp.engine.dtype import ALIASES
from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError, OptionError
from pyapp.events import Cancel, Event, Progress

from .checkpoint import Checkpoint, TensorInfo, open_checkpoint
from .ggml_blocks import BLOCK_TYPES, QUANTIZABLE, quantize_blocks
from .gguf import CONFIG_KEY, GgufFile
from .gguf_writer import write_gguf
from .imatrix import read_imatrix
from .nesting import json_object
from .safetensors import write_safetensors
from .sink import Deferred
from .source import AnySource

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array

DENSE = ("float32", "float16", "bfloat16")
CHUNK = 1 << 20  # values quantised between two reports of progress
# Small, or read otherwise than by matrix products: norms, positions, convolutions, routers of experts.
KEPT = re.compile(r"norm|ln_|pos(ition)?_?emb|rotary|conv|bias|token_types|ffn_gate_inp|gamma|beta", re.IGNORECASE)
# general.file_type of llama.cpp, for a file that is of one type throughout.
FILE_TYPES = {
    "float32": 0, "float16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_K": 10, "q3_K": 11,
    "q4_K": 14, "q5_K": 16, "q6_K": 18, "iq4_nl": 25, "iq4_xs": 30, "bfloat16": 32, "mxfp4": 38,
}  # fmt: skip


def type_name(text: str) -> str:
    """ "Q4_K", "f16" … as pyapp spells it. OptionError for other types."""
    for name in (*QUANTIZABLE, *DENSE):
        if text.lower() == name.lower():
            return name
    if text in ALIASES and ALIASES[text].name in DENSE:
        return ALIASES[text].name
    raise OptionError(f"unknown type {text!r}", where="type", hint=f"Types: {', '.join((*QUANTIZABLE, *DENSE))}")


def quantize_file(
    source: AnySource,
    target: str | os.PathLike[str],
    kind: str,
    *,
    imatrix: AnySource | None = None,
    keep: str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> dict[str, Any]:
    """Writes `target` (.gguf, or .safetensors for float types) with the matrices of `source` as `kind` ("q4_K", "q8_0",
    "f16" …); `source` is any file that open_checkpoint takes.

    Other tensors stay as they are, and so do matrices whose names match KEPT or the regular expression `keep`. Rows
    that are no multiple of 256 get the SHORTER type. `imatrix` names the columns that count. `report` receives
    Progress in bytes of the source. Returns what was written: `file size types source_bytes bytes`. Raises OptionError,
    FileFormatError, ModelError for NaN and infinite weights, Cancelled once `cancel` is set.
    """
    path, kind = Path(target), type_name(kind)
    _check_target(source, path, kind)
    pattern = _compiled(keep)
    importance = {} if imatrix is None else read_imatrix(imatrix)
    checkpoint = open_checkpoint(source)
    try:
        work = _Work(checkpoint, importance, report or (lambda event: None), cancel or Cancel())
        tensors = {
            info.name: work.deferred(info, chosen_type(info, kind, pattern)) for info in checkpoint.tensors.values()
        }
        if importance and not work.weighted:
            raise OptionError(
                f"none of the {len(importance)} names of the imatrix is one of the model's",
                where="imatrix", hint="It must be measured on the same model in the same format",
            )  # fmt: skip
        config = checkpoint.config or _config_beside(source)
        if path.suffix == ".gguf":
            values, types = _metadata(checkpoint, config, kind)
            write_gguf(path, tensors, values, types)
        else:
            write_safetensors(path, tensors, _texts(checkpoint, config))
    finally:
        if checkpoint.source is not source:
            checkpoint.close()
    return {
        "file": str(path),
        "size": path.stat().st_size,
        "types": dict(Counter(tensor.dtype for tensor in tensors.values())),
        "weighted": work.weighted,
        "source_size": checkpoint.source.size,
    }


def chosen_type(info: TensorInfo, kind: str, keep: re.Pattern[str] | None = None) -> str:
    """The type in which a tensor is written: `kind`, the SHORTER one, or its own."""
    own = "float32" if info.dtype == "q8_group" else info.dtype  # which only llama2.c's files have
    matrix = len(info.shape) in (2, 3) and info.numel > 0
    if not matrix or KEPT.search(info.name) or (keep and keep.search(info.name)):
        return own
    if info.dtype not in BLOCK_TYPES and info.dtype not in (*DENSE, "float64", "q8_group"):
        return own
    for wanted in (kind, SHORTER.get(kind)):
        if wanted in DENSE or (wanted and info.shape[-1] % BLOCK_TYPES[wanted].values == 0):
            return wanted
    return own


def _check_target(source: AnySource, path: Path, kind: str) -> None:
    if path.suffix not in (".gguf", ".safetensors"):
        raise OptionError(
            f"cannot tell the format of {path.name}", where="output", hint="End it in .gguf or .safetensors"
        )
    if path.suffix == ".safetensors" and kind not in DENSE:
        raise OptionError(
            f"safetensors files have no type {kind}", where="output", hint=f"Write .gguf, or take {', '.join(DENSE)}"
        )
    if isinstance(source, str | os.PathLike) and path.exists() and path.samefile(source):
        raise OptionError("the output is the input", where="output", hint="Give it another name")


def _compiled(keep: str | None) -> re.Pattern[str] | None:
    try:
        return None if keep is None else re.compile(keep)
    except re.error as error:
        raise OptionError(f"{keep!r} is no regular expression: {error}", where="keep") from None


class _Work:
    """What the tensors of one file have in common while they are converted. `weighted` counts those with importance."""

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
        yield self.checkpoint.read_bytes(info.name)
        self._advance(info.nbytes)

    def _converted(self, info: TensorInfo, kind: str, weights: Array | None) -> Iterator[bytes | memoryview]:
        values = self._values(info)
        rows = max(CHUNK // info.shape[-1], 1)
        for number, matrix in enumerate(values.reshape(-1, *values.shape[-2:])):
            own = None if weights is None else weights[number % len(weights)]
            for start in range(0, len(matrix), rows):
                part = matrix[start : start + rows]
                yield _encoded(part, kind, own)
                self._advance(info.nbytes * part.size / info.numel)

    def _values(self, info: TensorInfo) -> Array:
        """The tensor as a NumPy array (..., rows, columns) of a float type, without NaN and infinity."""
        from pyapp.engine import quant

        tensor = quant.dequantize(self.checkpoint.read(info.name, finite=True))
        return tensor.numpy()

    def _advance(self, nbytes: float) -> None:
        self.cancel.check()
        self.done += nbytes
        self.report(Progress("quantizing", round(self.done), self.total, "bytes"))


def _encoded(part: Array, kind: str, weights: Array | None) -> bytes | memoryview:
    part = part.astype(np.float32)
    if kind in BLOCK_TYPES:
        return quantize_blocks(part, kind, weights).data
    if kind == "bfloat16":
        bits = part.view(np.uint32)
        return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype("<u2").tobytes()
    with np.errstate(over="ignore"):
        return part.astype(np.dtype(kind).newbyteorder("<")).tobytes()


def _config_beside(source: AnySource) -> dict[str, Any]:
    """The config.json that lies beside a Hugging Face model's weights."""
    if isinstance(source, str | os.PathLike):
        path = Path(source).with_name("config.json")
        try:
            return json_object(path.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
    return {}


def _metadata(checkpoint: Checkpoint, config: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], dict[str, str]]:
    """(values, types) for a GGUF file: another GGUF file's own, else the configuration as JSON and the metadata."""
    values: dict[str, Any] = {}
    types: dict[str, str] = {}
    if isinstance(checkpoint, GgufFile):
        values, types = dict(checkpoint.values), dict(checkpoint.types)
        if "split.count" in values:
            raise FileFormatError(
                "this is a part of a model that is cut into several files", where=checkpoint.source.name,
                hint="Join them with llama.cpp's gguf-split --merge first",
            )  # fmt: skip
    else:
        values["general.architecture"] = str(config.get("model_type", "llama2c"))
        values[CONFIG_KEY] = json.dumps(dict(config))
        values |= {f"source.{key}": text for key, text in checkpoint.metadata.items() if key != "config"}
    values["general.file_type"] = FILE_TYPES.get(kind, 0)
    types["general.file_type"] = "uint32"
    if kind in BLOCK_TYPES:
        values["general.quantization_version"] = 2
        types["general.quantization_version"] = "uint32"
    return values, {key: name for key, name in types.items() if key in values}


def _texts(checkpoint: Checkpoint, config: Mapping[str, Any]) -> dict[str, str]:
    texts = {} if isinstance(checkpoint, GgufFile) else dict(checkpoint.metadata)
    return texts | ({"config": json.dumps(dict(config))} if config else {})
