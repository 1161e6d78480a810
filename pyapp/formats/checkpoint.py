"""One view of every model file: a configuration, metadata, and tensors that are read when asked for.

`open_checkpoint` looks at the content, never at the name. Nothing but the header is read, and every field of a header
is checked against a limit before anything is allocated.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyapp.errors import FileFormatError, ModelError

from .source import AnySource, ByteSource, close_source, open_source, read_into

if TYPE_CHECKING:
    from pyapp.engine.tensor import Tensor

CHECK_CHUNK = 1 << 20  # bytes looked at together by check_finite


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the file stores it. `dtype` is a pyapp dtype's name, or that of a type pyapp has none for
    ("complex64", "float8_e8m0fnu" ...: foreign.py tells as what it is read); `nbytes` counts the bytes in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


class Checkpoint(ABC):
    """An open model file: `format`, `config` (model hyper-parameters), `metadata` (str to str) and `tensors` (by name,
    in file order).

    A context manager; the source stays open for `read` until `close`.
    """

    format: str

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.config: dict[str, Any] = {}
        self.metadata: dict[str, str] = {}
        self.tensors: dict[str, TensorInfo] = {}

    def read(self, name: str, *, finite: bool = False) -> Tensor:
        """The tensor of that name on the CPU. With `finite`, NaN and infinite values raise ModelError. KeyError: no
        such name."""
        if name not in self.tensors:
            raise KeyError(f"{self.source.name} has no tensor {name!r}; it has {_some(self.tensors)}")
        return self._read(self.tensors[name], finite)

    @abstractmethod
    def _read(self, info: TensorInfo, finite: bool) -> Tensor: ...

    @abstractmethod
    def read_bytes(self, name: str) -> bytes | memoryview:
        """The tensor's bytes as they lie in the file (little-endian, row-major). KeyError: no such name."""

    def close(self) -> None:
        close_source(self.source)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.source.name}: {self.format}, {len(self.tensors)} tensors>"


def open_checkpoint(source: AnySource) -> Checkpoint:
    """Opens a llama2.c (v0, v1, v2), safetensors, GGUF, older GGML, NumPy (npy, npz) or PyTorch file by its content;
    and model.safetensors.index.json with its shards beside it.

    `source` is a path, bytes or a ByteSource. Raises FileFormatError for anything else or broken, OSError as open()
    does.
    """
    opened = open_source(source)
    try:
        return _reader(sniff(opened))(opened)
    except BaseException:
        if opened is not source:
            close_source(opened)
        raise


def _reader(kind: str) -> Callable[[ByteSource], Checkpoint]:
    """What opens a file of that kind; only its own module is imported."""
    match kind:
        case "safetensors":
            from .safetensors import SafetensorsFile

            return SafetensorsFile
        case "gguf":
            from .gguf import GgufFile

            return GgufFile
        case "whisper.cpp":
            from .whisper_ggml import WhisperGgmlFile

            return WhisperGgmlFile
        case "legacy ggml":
            from .legacy_ggml import LegacyGgmlFile

            return LegacyGgmlFile
        case "index.json":
            from .sharded import ShardedFile

            return ShardedFile
        case "npy":
            from .numpy_files import NpyFile

            return NpyFile
        case "npz":
            from .numpy_files import NpzFile

            return NpzFile
        case "pytorch":
            from .pytorch import PyTorchFile

            return PyTorchFile
        case "tokenizer.bin":
            return _refuse_tokenizer
        case _:
            from .llama2c import Llama2cFile

            return Llama2cFile


def _refuse_tokenizer(source: ByteSource) -> Checkpoint:
    from .tokenizer_bin import read_tokenizer_bin

    count = len(read_tokenizer_bin(source).pieces)
    raise FileFormatError(
        f"this is a llama2.c tokenizer with {count:,} tokens, not a model",
        where=source.name,
        hint="Give the model file here, and this one as its tokenizer",
    )


# What people pick by mistake, by its first bytes, and what to do instead.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "Save the weights as safetensors"),
    (b"\x1f\x8b", "a gzip archive", "Unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "Run `git lfs pull`"),
    (b"<", "a web page or XML", "The download saved an error or login page: use the direct link to the file"),
)  # fmt: skip


def sniff(source: ByteSource) -> str:
    """The format by content: "safetensors", "index.json" (of its shards), "gguf", "legacy ggml", "whisper.cpp",
    "llama2.c", "npy", "npz", "pytorch" or "tokenizer.bin".
    FileFormatError for other known kinds and for empty files.

    A version 0 llama2.c file has no signature, so whatever is nothing else counts as one and is judged by its header.
    """
    head = bytes(source.read(0, min(source.size, 64)))
    supported = "Supported are llama2.c checkpoints (v0, v1, v2), safetensors, GGUF, npy, npz and PyTorch files"
    if not head:
        raise FileFormatError("the file is empty", where=source.name, hint="Download or copy it again")
    if head[:4] == b"24ka":
        return "llama2.c"
    if head[:4] == b"GGUF":
        return "gguf"
    if head[:4] in (b"lmgg", b"fmgg", b"tjgg"):
        from .legacy_ggml import is_language_model

        return "legacy ggml" if head[:4] != b"lmgg" or is_language_model(head) else "whisper.cpp"
    if len(head) >= 9 and head[8] == 0x7B and int.from_bytes(head[:8], "little") < 1 << 40:
        return "safetensors"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return _sniff_zip(source)
    if head[:1] == b"\x80" and head[1:2] in b"\2\3\4\5" and head[2:3] not in (b"", b"\0"):
        if b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19" in head:  # PyTorch's magic number
            return "pytorch"
        raise FileFormatError(
            "this is a Python pickle, not PyTorch's", where=source.name, hint=f"Save the weights. {supported}"
        )
    for signature, what, hint in _FOREIGN:
        if head.startswith(signature):
            raise FileFormatError(f"this is {what}", where=source.name, hint=f"{hint}. {supported}")
    if head.lstrip()[:1] in (b"{", b"["):
        if source.name.endswith(".safetensors.index.json"):
            return "index.json"
        raise FileFormatError("this is a JSON text", where=source.name, hint=f"Give the weights. {supported}")
    if _looks_like_tokenizer(head):
        return "tokenizer.bin"
    return "llama2.c"


def _sniff_zip(source: ByteSource) -> str:
    from .archive import Archive

    names = Archive(source).names
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        return "pytorch"
    if any(name.endswith(".npy") for name in names):
        return "npz"
    raise FileFormatError(
        "this is a zip archive, but neither PyTorch's nor NumPy's",
        where=source.name,
        hint="Unpack it first. Supported in zip archives are PyTorch files and npz, else safetensors and llama2.c",
    )


def _looks_like_tokenizer(head: bytes) -> bool:
    """tokenizer.bin holds the longest piece's length, then scores, lengths and pieces. Where a score lies, a v0 header
    has hidden_dim: a float other than 0 would be a negative or enormous one."""
    if len(head) < 13:
        return False
    longest, score, length = (int.from_bytes(head[i : i + 4], "little") for i in (0, 4, 8))
    second = head[12 + length : 20 + length]
    fits = len(second) < 8 or int.from_bytes(second[4:], "little") <= longest
    return 0 < length <= longest <= 4096 and not 0 < score < 1 << 20 and fits


# -- NaN and infinity

# Per type: the element's size, the values that the highest byte of a NaN or an infinity can have, and the exponent's
# bits. Almost no weight has such a byte, so a search of bytes, which needs no NumPy, clears a chunk at once.
_EXPONENTS: dict[str, tuple[int, bytes, int]] = {
    "float16": (2, bytes(range(0x7C, 0x80)) + bytes(range(0xFC, 0x100)), 0x7C00),
    "bfloat16": (2, b"\x7f\xff", 0x7F80),
    "float32": (4, b"\x7f\xff", 0x7F800000),
    "float64": (8, b"\x7f\xff", 0x7FF0000000000000),
}


def may_be_infinite(high: bytes, dtype: str) -> bool:
    """Whether one of the highest bytes of elements can be that of a NaN or an infinity."""
    return any(mark in high for mark in _EXPONENTS[dtype][1])


def check_finite(
    data: bytes | bytearray | memoryview, dtype: str, name: str, where: str | None = None, first: int = 0
) -> None:
    """ModelError naming the tensor `name` and the index of its first NaN or infinite value, counted from `first`. Other
    types than floats pass.

    `data` holds little-endian elements; it is looked at in chunks of 1 MiB, so little memory is needed.
    """
    if dtype not in _EXPONENTS:
        return
    size, marks, mask = _EXPONENTS[dtype]
    view = memoryview(data).cast("B")
    pattern = re.compile(b"[" + re.escape(marks) + b"]")
    for start in range(0, len(view), CHECK_CHUNK):
        chunk = bytes(view[start : start + CHECK_CHUNK])
        high = chunk[size - 1 :: size]
        if not may_be_infinite(high, dtype):
            continue
        for found in pattern.finditer(high):
            at = found.start() * size
            bits = int.from_bytes(chunk[at : at + size], "little")
            if bits & mask == mask:
                _raise_not_finite(name, first + start // size + found.start(), bits & (mask - 1) & ~mask, where)


def _raise_not_finite(name: str, index: int, fraction: int, where: str | None) -> None:
    value = "NaN" if fraction else "infinite"
    raise ModelError(
        f"the weights of {name!r} are damaged: element {index:,} is {value}",
        where=where,
        hint="Download or copy the file again; if it stays so, its training diverged and the model cannot be used",
    )


# -- helpers of the formats


def read_tensor(source: ByteSource, offset: int, shape: tuple[int, ...], dtype: str) -> Tensor:
    """A CPU tensor filled straight from the file."""
    from pyapp.engine.dtype import as_dtype
    from pyapp.engine.tensor import empty_contiguous

    tensor = empty_contiguous(shape, as_dtype(dtype))
    if tensor.numel():
        read_into(source, offset, tensor.storage.bytes_view()[: tensor.numel() * tensor.dtype.itemsize])
    return tensor


def require(condition: bool, source: ByteSource, what: str, hint: str) -> None:
    """FileFormatError about this source unless the condition holds."""
    if not condition:
        raise FileFormatError(what, where=source.name, hint=hint)


def require_size(source: ByteSource, expected: int, because: str) -> None:
    """FileFormatError unless the source has exactly `expected` bytes: says how many are missing or too many."""
    missing = expected - source.size
    if missing > 0:
        raise FileFormatError(
            f"the file is truncated: {because} needs {expected:,} bytes, "
            f"{missing:,} are missing at the end ({source.size:,} are there)",
            where=source.name,
            hint="Download or copy it again",
        )
    if missing < 0:
        raise FileFormatError(
            f"the file is too long: {because} needs {expected:,} bytes, {-missing:,} follow that do not belong to it",
            where=source.name,
            hint="It is damaged or of another format: download it again",
        )


def _some(names: Iterable[str], limit: int = 5) -> str:
    listed = list(names)
    return ", ".join(listed[:limit]) + (f" and {len(listed) - limit} more" if len(listed) > limit else "") or "none"
