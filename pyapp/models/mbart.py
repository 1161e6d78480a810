"""mBART (Liu et al. 2020, arXiv 2001.08210): BART in many languages, with the norms before each part and after the last
layers. A language's token begins or ends a text.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList, ResidualLinear
from pyapp.nn.encoders import Words
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.sequence_to_sequence import Attention, BartLanguageModel, Memory

from .loading.config import check_fields, read_config, require

MODEL_TYPES = ("mbart",)
BASE = "model"  # the name of encoder and decoder in files with a head
OFFSET = 2  # rows of the table of positions before the first position


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
    pad_token_id: int = 1
    bos_token_id: int = 0
    eos_token_id: int = 2
    decoder_start_token_id: int = 2

    def __post_init__(self) -> None:
        check_fields(self)
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(self.d_model % heads == 0, f"{heads} heads do not divide d_model {self.d_model}")
        require(max(self.encoder_layers, self.decoder_layers) <= 1 << 10, "a model of more than 1,024 layers")
        require(self.pad_token_id < self.vocab_size, f"pad_token_id {self.pad_token_id} is no token")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        return read_config(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": MODEL_TYPES[0]} | asdict(self)

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.d_model

    @property
    def source_width(self) -> None:
        """The source's hidden states have the decoder's width."""


class Stack(Module):
    """The embeddings of the encoder or the decoder; `table` has the words of both."""

    def __init__(self, config: Config, table: Embedding | None) -> None:
        super().__init__()
        width = config.d_model
        self.scale = width**0.5 if config.scale_embedding else 1.0
        self.embed_tokens = Embedding(config.vocab_size, width, config.pad_token_id)
        if table is not None:
            self.embed_tokens.weight = table.weight
        self.embed_positions = Embedding(config.max_position_embeddings + OFFSET, width)
        self.layernorm_embedding = LayerNorm(width)
        self.layer_norm = LayerNorm(width)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids (B, T) at positions (T,) → (B, T, D)."""
        places = self.embed_positions(positions + OFFSET)  # (T, D)
        return self.layernorm_embedding(self.embed_tokens(ids) * self.scale + places)


class EncoderLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, width: int, heads: int, inner: int, activation: str) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, inner)
        self.fc2 = ResidualLinear(inner, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn.encode(self.self_attn_layer_norm(x), x, mask)
        return self.fc2(self.activation(self.fc1(self.final_layer_norm(x))), x)


class DecoderLayer(Module):
    """Attention to the text, attention to the source and a feed-forward part, each with a norm before it and a residual
    around it.
    """

    def __init__(self, width: int, heads: int, inner: int, activation: str) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = LayerNorm(width)
        self.encoder_attn = Attention(width, heads)
        self.encoder_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, inner)
        self.fc2 = ResidualLinear(inner, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        x = self.self_attn.own(self.self_attn_layer_norm(x), x, memory, layer)
        x = self.encoder_attn.source(self.encoder_attn_layer_norm(x), x, memory, layer)
        return self.fc2(self.activation(self.fc1(self.final_layer_norm(x))), x)


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
        return self.layer_norm(x)


class Decoder(Stack):
    """The decoder."""

    def __init__(self, config: Config, table: Embedding | None = None) -> None:
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
        return self.layer_norm(x)


class MBartModel(Module):
    """Encoder and decoder over one table of words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.shared = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = Encoder(config, self.shared)
        self.decoder = Decoder(config, self.shared)


class MBart(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = MBartModel(config)
        table = model.shared if config.tie_word_embeddings else None
        super().__init__(config, model, config.vocab_size, table)


class MBartTextDecoder(Module):
    """The decoder alone, which writes the text of what another encoder has read."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.model = Module()
        self.model.decoder = Decoder(config)
        table = self.model.decoder.embed_tokens if config.tie_word_embeddings else None
        self.lm_head = Words(config.d_model, config.vocab_size, table, bias=False)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        return self.lm_head(self.model.decoder(tokens, memory))


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": MBart, "text-decoder": MBartTextDecoder}
