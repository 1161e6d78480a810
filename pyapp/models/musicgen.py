"""MusicGen (Copet et al. 2023, arXiv 2306.05284): music of a text. T5 reads the text, and a decoder writes the codes of
EnCodec, of each codebook one moment later than of the one before it.

The parts that read the text and make sound of codes are other architectures, which config.json names. Parameters have
the names of Hugging Face's files.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.sequence_to_sequence import DecoderLayer, FixedPositions, Memory, SequenceToSequence
from pyapp.nn.sound_codes import Codes

from ._index import MODEL_TYPES as MODULES
from ._index import TASKS as TASKS_OF
from .loading.config import check_fields, read_config, require
from .loading.weight_norms import normed_weights
from .loading.weights import Stored

MODEL_TYPES = ("musicgen",)
BASE = ""
IGNORED = (
    r"audio_encoder\.quantizer\.layers\.\d+\.codebook\.(inited|cluster_size|embed_avg)|"
    r"decoder\.model\.decoder\.embed_positions\.weights"
)
PARTS = {"text_encoder": "features", "audio_encoder": "audio-codec"}  # what each part must be for
MOST_CODEBOOKS = 64


@dataclass(frozen=True)
class DecoderConfig:
    """The fields of `decoder` in config.json."""

    vocab_size: int = 2048
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    ffn_dim: int = 4096
    activation_function: str = "gelu"
    scale_embedding: bool = False
    num_codebooks: int = 4
    audio_channels: int = 1
    max_position_embeddings: int = 2048
    pad_token_id: int = 2048

    def __post_init__(self) -> None:
        check_fields(self)
        heads, width = self.num_attention_heads, self.hidden_size
        require(width % heads == 0 and width % 2 == 0, f"{heads} heads do not divide hidden_size {width}, or it is odd")
        require(self.num_codebooks <= MOST_CODEBOOKS, f"num_codebooks is {self.num_codebooks}")
        require(
            self.audio_channels == 1,
            f"audio_channels is {self.audio_channels}: music of several channels is not made here",
            "Choose a model for one channel, such as facebook/musicgen-small",
        )
        require(self.max_position_embeddings <= 1 << 20, f"max_position_embeddings is {self.max_position_embeddings}")
        require(self.pad_token_id <= self.vocab_size, f"pad_token_id is {self.pad_token_id}, above vocab_size")


@dataclass(frozen=True)
class Config:
    """The configurations of the three parts."""

    text_encoder: Any
    audio_encoder: Any
    decoder: DecoderConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known."""
        parts = {}
        for name, task in PARTS.items():
            own = _object(values, name)
            kind = own.get("model_type")
            module = MODULES.get(kind) if isinstance(kind, str) else None
            if module is None or task not in TASKS_OF[module]:
                raise ModelError(f"the {name} {kind!r:.50} is not known for {task}")
            parts[name] = importlib.import_module(f"pyapp.models.{module}").Config.from_dict(own)
        decoder, codec = read_config(DecoderConfig, _object(values, "decoder")), parts["audio_encoder"]
        books, entries = getattr(codec, "codebooks", 0), codec.codebook_size
        require(
            decoder.num_codebooks <= books and decoder.vocab_size <= entries,
            f"the decoder writes {decoder.num_codebooks} codes up to {decoder.vocab_size}, the codec has {books} "
            f"codebooks of {entries} entries",
        )
        return cls(parts["text_encoder"], codec, decoder, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0]}

    @property
    def vocab_size(self) -> int:
        """The tokens of texts."""
        found: int = self.text_encoder.vocab_size
        return found

    @property
    def moments(self) -> int:
        """Moments of a second."""
        found: int = self.audio_encoder.moments
        return found


def _object(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    require(isinstance(found, dict), f"{name} is {found!r:.60}, expected the configuration of the {name}")
    assert isinstance(found, dict)
    return found


def sinusoids(positions: int, width: int) -> Tensor:
    """(positions, width) float32: cosines, then sines."""
    speeds = np.exp(np.arange(width // 2, dtype="float32") * np.float32(-log(10000) / (width // 2 - 1)))
    angles = np.arange(positions, dtype="float32")[:, None] * speeds
    return ops.tensor(np.concatenate([np.cos(angles), np.sin(angles)], 1).astype("float32"))


class CodeDecoder(Module):
    """The codes of a moment are read as the sum of their vectors."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.scale = width**0.5 if config.scale_embedding else 1.0
        self.embed_tokens = ModuleList(Embedding(config.vocab_size + 1, width) for _ in range(config.num_codebooks))
        self.embed_positions = FixedPositions(partial(sinusoids, config.max_position_embeddings, width))
        self.layers = ModuleList(
            DecoderLayer(
                width, config.num_attention_heads, config.ffn_dim, config.activation_function, norm_first=True,
                bias=False,
            )
            for _ in range(config.num_hidden_layers)
        )  # fmt: skip
        self.layer_norm = LayerNorm(width)

    def forward(self, codes: Tensor, places: Tensor, memory: Memory) -> Tensor:
        """codes (R, codebooks, T), places (T,) → (R, T, D)."""
        vectors = [table(codes.select(1, i)) for i, table in enumerate(self.embed_tokens)]
        x = sum(vectors[1:], vectors[0]) * self.scale + self.embed_positions(places)
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, i)
        return self.layer_norm(x)


class MusicDecoder(Module):
    """The decoder with its scores of codes."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.codebooks = config.num_codebooks
        self.model = Module()
        self.model.decoder = CodeDecoder(config)
        self.lm_heads = ModuleList(
            Linear(config.hidden_size, config.vocab_size, bias=False) for _ in range(config.num_codebooks)
        )  # fmt: skip

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R * codebooks, T) → logits (R * codebooks, T, V)."""
        codes = tokens.reshape(-1, self.codebooks, tokens.shape[1])
        x = self.model.decoder(codes, memory.positions(tokens), memory)
        found = ops.stack([head(x) for head in self.lm_heads], 1)  # (R, codebooks, T, V)
        return found.reshape(tokens.shape[0], tokens.shape[1], found.shape[3])


class Musicgen(SequenceToSequence):
    """The model. Tokens are codes: those of the codebooks of a text are rows side by side."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.decoder.max_position_embeddings
        self.text_encoder: Any = _part(config.text_encoder, "text_encoder")
        self.audio_encoder: Any = _part(config.audio_encoder, "audio_encoder")
        self.decoder = MusicDecoder(config.decoder)
        widths = config.text_encoder.d_model, config.decoder.hidden_size
        self.enc_to_dec_proj = None if widths[0] == widths[1] else Linear(*widths)

    @property
    def device(self) -> Device:
        return self.decoder.lm_heads[0].weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.audio_encoder.sample_rate
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x: Tensor = self.text_encoder(ids, attention_mask)
        x = x if self.enc_to_dec_proj is None else self.enc_to_dec_proj(x)
        return x if attention_mask is None else x * attention_mask.to(x.dtype).unsqueeze(2)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.decoder(tokens, memory)

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        self.text_encoder.check(ids, mask)

    def sound(self, codes: Tensor) -> Tensor:
        """codes (B, codebooks, T) → samples (B, 1, N)."""
        found: Tensor = self.audio_encoder.decode(Codes((codes,), (None,)))
        return found


def _part(config: Any, name: str) -> Any:
    """The module of one part."""
    module = importlib.import_module(f"pyapp.models.{MODULES[config.to_dict()['model_type']]}")
    return module.TASKS[PARTS[name]](config)


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-audio": Musicgen}
