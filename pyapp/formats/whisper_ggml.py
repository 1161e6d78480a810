"""whisper.cpp's model files, ggml-*.bin: hyper-parameters, mel filters, vocabulary and tensors in one stream.

Source: https://github.com/ggml-org/whisper.cpp/blob/master/models/convert-pt-to-ggml.py and whisper_model_load of
src/whisper.cpp. Little-endian int32 throughout: the magic "ggml"; eleven hyper-parameters; the mel filters (rows,
columns, float32 values); the vocabulary (count; length and bytes of each piece); then until the end of the file
tensors: rank, length of the name, type, sizes (columns first), name, data.
"""

from __future__ import annotations

from .ggml_file import RANK_LIMIT, TENSOR_TYPES
from .ggml_stream import NUMBER_LIMIT, PIECE_LIMIT, GgmlStream
from .source import ByteSource

MAGIC = b"lmgg"
HYPER_PARAMETERS = (
    "n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer", "n_text_ctx", "n_text_state",
    "n_text_head", "n_text_layer", "n_mels",
)  # fmt: skip
FILTER_COLUMNS_LIMIT = 1 << 14
PIECES_LIMIT = 1 << 20


class WhisperGgmlFile(GgmlStream):
    """A whisper.cpp model. `config` has openai's names of the hyper-parameters, `pieces` the bytes of the vocabulary's
    tokens by id. Tensors have openai's names; blocks are read as in GGUF files.
    """

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source, len(MAGIC))
        self.format = "whisper.cpp ggml"
        numbers = [self._int32("a hyper-parameter", 1, NUMBER_LIMIT) for _ in HYPER_PARAMETERS]
        self.file_type = self._int32("the file type", 0, NUMBER_LIMIT) % 1000  # thousands count versions of the blocks
        self.config = {"model_type": "whisper", **dict(zip(HYPER_PARAMETERS, numbers, strict=True))}
        rows = self._int32("the number of mel filters", 1, NUMBER_LIMIT)
        columns = self._int32("the length of a mel filter", 1, FILTER_COLUMNS_LIMIT)
        self._skip(4 * rows * columns, "the mel filters")
        if rows != self.config["n_mels"]:
            self._broken(f"there are {rows} mel filters for {self.config['n_mels']} mel bins")
        count = self._int32("the number of tokens", 1, PIECES_LIMIT)
        self.pieces = [self._bytes("a token's length", PIECE_LIMIT) for _ in range(count)]
        self._tensors()

    def _tensor(self) -> None:
        name, code, sizes = self._header(RANK_LIMIT)
        if code not in TENSOR_TYPES or not TENSOR_TYPES[code][2]:
            self._broken(f"tensor {name!r} has the unknown type {code}")
        self._add(name, sizes, TENSOR_TYPES[code])
