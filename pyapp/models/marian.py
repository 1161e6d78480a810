"""Marian (Junczys-Dowmunt et al. 2018, arXiv 1804.00344): the translators of OPUS-MT, with BART's layers and fixed
positions: sines, then cosines.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import Embedding, Module, ModuleList
from pyapp.nn.sequence_to_sequence import BartLanguageModel, DecoderLayer, EncoderLayer, Memory

from .loading.config import check_fields, read_config, require

MODEL_TYPES = ("marian",)
BASE = "model"  # the name of encoder and decoder in files with a head
IGNORED = r"(model\.)?(encoder|decoder)\.embed_positions\.weight"  # tensors of files that are computed here
MAX_TIMESCALE = 10000.0


@dataclass(frozen=True)
class Config:
    """The hyper-parameters, by the names of config.json."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_layers: int
    decoder_attention_heads: int
    decoder_ffn_dim: int
    activation_function: str = "gelu"
    max_position_embeddings: int = 1024
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    share_encoder_decoder_embeddings: bool = True
    decoder_vocab_size: int | None = None
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58100

    def __post_init__(self) -> None:
        check_fields(self)
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(self.d_model % heads == 0, f"{heads} heads do not divide d_model {self.d_model}")
        require(max(self.encoder_layers, self.decoder_layers) <= 1 << 10, "a model of more than 1,024 layers")
        require(self.pad_token_id < self.vocab_size, f"pad_token_id {self.pad_token_id} is no token")

    @property
    def target_words(self) -> int:
        """The words of the decoder."""
        own = None if self.share_encoder_decoder_embeddings else self.decoder_vocab_size
        return self.vocab_size if own is None else own

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        return read_config(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": MODEL_TYPES[0]} | asdict(self)


class Positions(Module):
    """The fixed table of positions (P, D), made at its first use."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.shape = (positions, width)
        self._table: Tensor | None = None

    def forward(self, positions: Tensor) -> Tensor:
        """positions (T,) → their rows (T, D)."""
        if self._table is None or self._table.device is not positions.device:
            self._table = ops.from_numpy(sinusoids(*self.shape)).to(positions.device)
        return ops.embedding(self._table, positions)


def sinusoids(positions: int, width: int) -> Any:
    """Array (P, D) float32: the sines of all angles, then their cosines (Vaswani et al. 2017, arXiv 1706.03762)."""
    exponents = 2 * (np.arange(width) // 2) / width
    angles = np.arange(positions)[:, None] / MAX_TIMESCALE ** exponents[None, :]
    return np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], 1).astype(np.float32)


class Stack(Module):
    """The embeddings of the encoder or the decoder."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__()
        width = config.d_model
        self.scale = width**0.5 if config.scale_embedding else 1.0
        self.embed_tokens = Embedding(*table.weight.shape, config.pad_token_id)
        self.embed_tokens.weight = table.weight
        self.embed_positions = Positions(config.max_position_embeddings, width)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids (B, T) at positions (T,) → (B, T, D)."""
        return self.embed_tokens(ids) * self.scale + self.embed_positions(positions)


class Encoder(Stack):
    """The encoder."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__(config, table)
        self.layers = ModuleList(
            EncoderLayer(
                config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim, config.activation_function
            )
            for _ in range(config.encoder_layers)
        )

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        x = self.embed(ids, ops.arange(ids.shape[1], dtype="int32", device=ids.device))
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Decoder(Stack):
    """The decoder."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__(config, table)
        self.layers = ModuleList(
            DecoderLayer(
                config.d_model, config.decoder_attention_heads, config.decoder_ffn_dim, config.activation_function
            )
            for _ in range(config.decoder_layers)
        )

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, D)."""
        x = self.embed(tokens, memory.positions(tokens))
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, i)
        return x


class MarianModel(Module):
    """Encoder and decoder over one table of words, or over one each."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        table = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        if config.share_encoder_decoder_embeddings:
            self.shared = table
        self.encoder = Encoder(config, table)
        if not config.share_encoder_decoder_embeddings:
            table = Embedding(config.target_words, config.d_model, config.pad_token_id)
        self.decoder = Decoder(config, table)


class MarianMT(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = MarianModel(config)
        table = model.decoder.embed_tokens if config.tie_word_embeddings else None
        super().__init__(config, model, config.target_words, table)


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": MarianMT}
