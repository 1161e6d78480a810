"""GGML's files of language models before GGUF: "ggml" without a version, "ggmf" and "ggjt".

Source: llama.cpp's history, llama_file_loader of llama.cpp (May 2023) and convert.py; the layouts of blocks in ggml.c
before and after pull requests 1405 (ggjt 2: nibbles in two halves) and 1508 (ggjt 3: float16 scales). Little-endian:
the magic as uint32; a version, except in "ggml"; seven int32; the vocabulary: length, bytes and, except in "ggml", a
score; then tensors until the end: rank, length of the name, type, sizes (columns first), name, in "ggjt" zeros up to a
multiple of 32, data.
"""

from __future__ import annotations

import struct
from typing import Any

from pyapp.engine.device import Device
from pyapp.engine.dtype import float32
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor, empty_contiguous

from .checkpoint import TensorInfo
from .finite import check_finite
from .ggml_file import TENSOR_TYPES
from .ggml_stream import NUMBER_LIMIT, PIECE_LIMIT, GgmlStream
from .source import ByteSource

MAGICS = {b"lmgg": "ggml", b"fmgg": "ggmf", b"tjgg": "ggjt"}
VERSIONS = {"ggml": (0,), "ggmf": (1,), "ggjt": (1, 2, 3)}
HYPER_PARAMETERS = ("n_vocab", "n_embd", "n_mult", "n_head", "n_layer", "n_rot")
FILE_TYPE_LIMIT = 32
RANK_LIMIT = 2
BLOCK = 32  # values
PIECE = 1 << 15  # blocks read and dequantised together

# Before ggjt 3: bytes of a block, format of its scale and minimum; q5_0 and q5_1 have 4 bytes of fifth bits.
_OLD_BLOCKS = {
    2: ("q4_0", 20, "<f4", ""), 3: ("q4_1", 24, "<f4", "<f4"), 6: ("q5_0", 22, "<f2", ""),
    7: ("q5_1", 24, "<f2", "<f2"), 8: ("q8_0", 36, "<f4", ""),
}  # fmt: skip


class LegacyGgmlFile(GgmlStream):
    """A language model in one of these formats. `config` has the hyper-parameters, `pieces` and `scores` the
    vocabulary. Tensors of float32 and float16 are read as they are, blocks become float32 (q8_0 of ggjt 3: packed).
    """

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source, 4)
        self.kind = MAGICS[bytes(source.read(0, 4))]
        self.file_version = 0
        if self.kind != "ggml":
            self.file_version = self._int32("the version", 0, NUMBER_LIMIT)
            if self.file_version not in VERSIONS[self.kind]:
                known = " or ".join(map(str, VERSIONS[self.kind]))
                self._broken(f"the version of {self.kind} is {self.file_version:,}, expected {known}")
        self.format = f"{self.kind} v{self.file_version}" if self.file_version else self.kind
        numbers = [self._int32(name, 1, NUMBER_LIMIT) for name in HYPER_PARAMETERS]
        self.config = {"model_type": "llama", **dict(zip(HYPER_PARAMETERS, numbers, strict=True))}
        self.file_type = self._int32("the file type", 0, FILE_TYPE_LIMIT)
        self.pieces: list[bytes] = []
        self.scores: list[float] = []
        for _ in range(self.config["n_vocab"]):
            self.pieces.append(self._bytes("a token's length", PIECE_LIMIT))
            score = self._take(4, "a token's score") if self.file_version else bytes(4)
            self.scores.append(struct.unpack("<f", score)[0])
        self._old: dict[str, int] = {}  # type codes of tensors in blocks of before ggjt 3
        self._tensors()

    def _tensor(self) -> None:
        name, code, sizes = self._header(RANK_LIMIT)
        modern = code in (0, 1) or (self.kind == "ggjt" and self.file_version == 3)
        known = TENSOR_TYPES.get(code) if modern else None
        if known is None and not modern and code in _OLD_BLOCKS:
            known = (f"{_OLD_BLOCKS[code][0]} of {self.format}", BLOCK, _OLD_BLOCKS[code][1])
            self._old[name] = code
        if known is None or not known[2]:
            self._broken(f"tensor {name!r} has the type {code}, which {self.format} does not know")
        if self.kind == "ggjt":
            self._skip(-self._at % 32, "the zeros before a tensor")
        self._add(name, sizes, known)

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        if info.name not in self._old:
            return super()._read(info, finite, device)

        tensor = empty_contiguous(info.shape, float32)
        out = tensor.array().reshape(-1, BLOCK)
        begin, _ = self._begins[info.name]
        nbytes = _OLD_BLOCKS[self._old[info.name]][1]
        for first in range(0, len(out), PIECE):
            count = min(PIECE, len(out) - first)
            raw = np.frombuffer(self.source.read(begin + first * nbytes, count * nbytes), "uint8")
            out[first : first + count] = _old_values(
                raw.reshape(count, nbytes), self._old[info.name], halves=self.kind == "ggjt" and self.file_version == 2
            )
        if finite:
            check_finite(tensor._storage.bytes_view()[: 4 * out.size], "float32", info.name, self.source.name)
        return tensor if device is None else tensor.to(device)


def _old_values(blocks: Any, code: int, halves: bool) -> Any:
    """Blocks (count, bytes) of versions before ggjt 3 → values (count, 32). The two nibbles of a byte are values i and
    i + 1, or with `halves` i and i + 16.
    """
    name, _, scale_type, minimum_type = _OLD_BLOCKS[code]
    width = int(scale_type[2:])
    scale = blocks[:, :width].copy().view(scale_type).astype("float32")
    at = width * (2 if minimum_type else 1)
    if name == "q8_0":
        return scale * blocks[:, at:].view("int8")
    quants = np.empty((len(blocks), BLOCK), "int32")
    packed = blocks[:, -16:]
    low, high = (slice(0, 16), slice(16, 32)) if halves else (slice(0, None, 2), slice(1, None, 2))
    quants[:, low], quants[:, high] = packed & 15, packed >> 4
    if name.startswith("q5"):  # the fifth bit of value i is bit i
        bits = blocks[:, at : at + 4].copy().view("<u4")
        quants += ((bits >> np.arange(BLOCK, dtype="uint32")) & 1).astype("int32") << 4
    if not minimum_type:
        return scale * (quants - (8 if name == "q4_0" else 16))
    return scale * quants + blocks[:, width:at].copy().view(minimum_type).astype("float32")


def is_language_model(head: bytes) -> bool:
    """Whether a file that begins with "ggml" is a language model. In files of whisper.cpp two fields are the widths of
    encoder and decoder, which are equal; in language models they are n_mult and the file type, which differ.
    """
    return head[12:16] != head[28:32]
