"""Find the reader of a model file by its content, never by its name.

Only the header is read, and every field of a header is checked against a limit before memory is allocated.
"""

from __future__ import annotations

from collections.abc import Callable

from pyapp.errors import FileFormatError

from .checkpoint import Checkpoint
from .llama2c import looks_like_llama2c
from .source import AnySource, ByteSource, close_source, looks_like_text, open_source


def open_checkpoint(source: AnySource, *, mapping: bool = True) -> Checkpoint:
    """Opens a llama2.c (v0, v1, v2), safetensors, GGUF, older GGML, NumPy (npy, npz), PyTorch or ONNX file by its
    content; also model.safetensors.index.json or pytorch_model.bin.index.json with the shards beside it, and a part of
    a GGUF file in several with the other ones beside it.

    `source` is a path, bytes or a ByteSource. With `mapping=False`, tensors are always read, never mapped (see
    FileSource). Raises FileFormatError for other or broken files, OSError as open() does.
    """
    opened = open_source(source, mapping=mapping)
    try:
        return _reader(sniff(opened))(opened)
    except BaseException:
        if opened is not source:
            close_source(opened)
        raise


def _reader(kind: str) -> Callable[[ByteSource], Checkpoint]:
    """The reader of files of a kind; only its module is imported."""
    match kind:
        case "safetensors":
            from .safetensors import SafetensorsFile

            return SafetensorsFile
        case "gguf":
            from .gguf_shards import open_gguf

            return open_gguf
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
        case "ONNX":
            from .onnx_file import OnnxFile

            return OnnxFile
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


SUPPORTED = "Supported are llama2.c checkpoints (v0, v1, v2), safetensors, GGUF, npy, npz, PyTorch and ONNX files"
_RECORDING = "Transcribe it with `pyapp transcribe`, or give a model"
_PICTURE = "Give the weights of a model"
# Other files by their first bytes: the kind of file, and a hint for the user.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "Save the weights as safetensors"),
    (b"\x1f\x8b", "a gzip archive", "Unpack it first"),
    (b"BZh", "a bzip2 archive", "Unpack it first"),
    (b"\xfd7zXZ\0", "an xz archive", "Unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "Unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "Run `git lfs pull`"),
    (b"<", "a web page or XML", "The download saved an error or login page: use the direct link to the file"),
    (b"RIFF", "a WAVE recording", _RECORDING),
    (b"ID3", "an MP3 recording", _RECORDING),
    (b"\xff\xfb", "an MP3 recording", _RECORDING),
    (b"fLaC", "a FLAC recording", _RECORDING),
    (b"OggS", "an Ogg recording", _RECORDING),
    (b"\x89PNG", "a PNG picture", _PICTURE),
    (b"\xff\xd8\xff", "a JPEG picture", _PICTURE),
    (b"GIF8", "a GIF picture", _PICTURE),
    (b"%PDF", "a PDF document", _PICTURE),
    (b"\x7fELF", "a program or library", _PICTURE),
)  # fmt: skip


def sniff(source: ByteSource) -> str:
    """The format by content: "safetensors", "index.json" (of its shards), "gguf", "legacy ggml", "whisper.cpp",
    "llama2.c", "npy", "npz", "pytorch", "ONNX" or "tokenizer.bin".
    FileFormatError for other files; it names well-known kinds.

    A version 0 llama2.c file has no signature: it is recognised if most numbers of its header are possible.
    """
    head = bytes(source.read(0, min(source.size, 64)))
    if not head:
        raise FileFormatError("the file is empty", where=source.name, hint="Download or copy it again")
    if head[:4] == b"24ka":
        return "llama2.c"
    if head[:4] == b"GGUF":
        return "gguf"
    if head[:4] in (b"lmgg", b"fmgg", b"tjgg"):
        from .legacy_ggml import is_language_model  # late, as readers

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
            "this is a Python pickle, not PyTorch's", where=source.name, hint=f"Save the weights. {SUPPORTED}"
        )
    for signature, what, hint in _FOREIGN:
        if head.startswith(signature):
            raise FileFormatError(f"this is {what}", where=source.name, hint=f"{hint}. {SUPPORTED}")
    if head.lstrip()[:1] in (b"{", b"["):
        if source.name.endswith((".safetensors.index.json", ".bin.index.json")):
            return "index.json"
        raise FileFormatError("this is a JSON text", where=source.name, hint=f"Give the weights. {SUPPORTED}")
    if looks_like_onnx(head, source.size):
        return "ONNX"
    if _looks_like_tokenizer(head):
        return "tokenizer.bin"
    if looks_like_llama2c(head):
        return "llama2.c"
    what = "a text" if looks_like_text(head) else "a file of a kind that pyapp does not know"
    raise FileFormatError(f"this is {what}", where=source.name, hint=f"Give the weights of a model. {SUPPORTED}")


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


# Fields of an ONNX model that follow the first one, as tags.
_MODEL_FIELDS = {2 << 3 | 2, 3 << 3 | 2, 4 << 3 | 2, 5 << 3, 6 << 3 | 2, 7 << 3 | 2, 8 << 3 | 2, 14 << 3 | 2}


def looks_like_onnx(head: bytes, size: int) -> bool:
    """Whether the bytes begin like an ONNX model: field 1, the version of the format, then another field of a model."""
    return len(head) > 4 and head[0] == 8 and 0 < head[1] < 64 and head[2] in _MODEL_FIELDS and size > 8


def _looks_like_tokenizer(head: bytes) -> bool:
    """Whether the bytes are a tokenizer.bin: the longest piece's length, then scores, lengths and pieces. A v0 header
    has hidden_dim in the place of the first score: a float other than 0 would be a negative or enormous hidden_dim.
    """
    if len(head) < 13:
        return False
    longest, score, length = (int.from_bytes(head[i : i + 4], "little") for i in (0, 4, 8))
    second = head[12 + length : 20 + length]
    fits = len(second) < 8 or int.from_bytes(second[4:], "little") <= longest
    return 0 < length <= longest <= 4096 and not 0 < score < 1 << 20 and fits
