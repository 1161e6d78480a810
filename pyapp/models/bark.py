"""Bark (Suno 2023, https://github.com/suno-ai/bark): a GPT-2 writes what a text means as tokens, a second one makes of
them the first two codes of each moment of EnCodec, and a third network, which sees all moments, adds the other codes.

Parameters have the names of Hugging Face's files, but those of the two language models (`renamed`). The codec is
another architecture, which config.json names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.sound_codes import Codes
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text
from pyapp.nn.encoders.decoder_encoders import BothWaysText
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.linear import ResidualLinear

from .loading.config import check_depth, check_fields, check_heads, object_of, read_config, require
from .loading.sound_parts import codec_of, module_of_part
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("bark",)
SPEAKS = "stages"  # in pyapp.models.loading.voice
BASE = ""
IGNORED = r"codec_model\.quantizer\.layers\.\d+\.codebook\.(inited|cluster_size|embed_avg)|.*\.attn\.bias"
LANGUAGE = "semantic", "coarse_acoustics"  # the names of the language models
MOST_CODEBOOKS, MOST_POSITIONS = 64, 1 << 16


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return re.sub(rf"^({'|'.join(LANGUAGE)})\.(?!lm_head\.)", r"\1.model.", name)


@dataclass(frozen=True)
class PartConfig:
    """The fields of a network in config.json. n_codes_total, n_codes_given: of the third network: how many codes a
    moment has, and how many it reads at least.
    """

    block_size: int = 1024
    input_vocab_size: int = 10048
    output_vocab_size: int = 10048
    num_layers: int = 12
    num_heads: int = 12
    hidden_size: int = 768
    bias: bool = True
    tie_word_embeddings: bool = True
    n_codes_total: int = 8
    n_codes_given: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_layers)
        check_heads(self.hidden_size, self.num_heads, self.num_heads, None, self.block_size)
        require(self.block_size <= MOST_POSITIONS, f"block_size is {self.block_size:,}")
        total, given = self.n_codes_total, self.n_codes_given
        require(given < total <= MOST_CODEBOOKS, f"n_codes_given is {given}, n_codes_total {total}")

    @property
    def heads(self) -> Heads:
        """The heads of attention."""
        return Heads(self.num_heads, self.num_heads, self.hidden_size // self.num_heads)


@dataclass(frozen=True)
class LanguageConfig(PartConfig):
    """The fields of a language model."""

    tie_word_embeddings: bool = False

    @property
    def vocab_size(self) -> int:
        """The tokens that it writes."""
        return self.output_vocab_size

    @property
    def num_hidden_layers(self) -> int:
        """Its layers."""
        return self.num_layers

    @property
    def num_key_value_heads(self) -> int:
        """The heads of its cache."""
        return self.num_heads

    @property
    def head_dim(self) -> int:
        """The features of a head."""
        return self.hidden_size // self.num_heads

    @property
    def max_seq_len(self) -> int:
        """The tokens that it reads."""
        return self.block_size


@dataclass(frozen=True)
class Config:
    """The configurations of the three networks and of the codec, and `values`, the whole object of the config.json."""

    semantic: LanguageConfig
    coarse: LanguageConfig
    fine: PartConfig
    codec: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that are not known or do not fit."""
        semantic, coarse = (
            read_config(LanguageConfig, {**object_of(values, f"{name}_config"), "tie_word_embeddings": False})
            for name in LANGUAGE
        )
        fine = read_config(PartConfig, object_of(values, "fine_acoustics_config"))
        own = object_of(values, "codec_config")
        codec = codec_of({"model_type": "encodec", **own})
        books, entries = getattr(codec, "codebooks", 0), codec.codebook_size
        require(
            fine.n_codes_total <= books and min(fine.input_vocab_size, fine.output_vocab_size) > entries,
            f"fine_acoustics_config has {fine.n_codes_total} codes below {fine.output_vocab_size}, the codec {books} "
            f"codebooks of {entries} entries",
        )
        require(
            not fine.tie_word_embeddings or fine.input_vocab_size == fine.output_vocab_size,
            f"input_vocab_size is {fine.input_vocab_size}, output_vocab_size {fine.output_vocab_size}",
        )
        return cls(semantic, coarse, fine, codec, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0]}

    @property
    def vocab_size(self) -> int:
        """The tokens that are read, of which those of texts are the last."""
        return self.semantic.input_vocab_size

    @property
    def num_speakers(self) -> int:
        """One voice, another in each sentence, where there are no files of voices."""
        return 1


class Attention(SelfAttention):
    """Attention from one projection: all queries, all keys, all values."""

    def __init__(self, config: PartConfig, layer: int) -> None:
        super().__init__(layer, config.heads, None)
        width = config.hidden_size
        self.att_proj = Linear(width, 3 * width, config.bias)
        self.out_proj = ResidualLinear(width, width, config.bias)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, D) → residual + attention (..., T, D)."""
        return self.out_proj(self.attend(self.att_proj(x), text), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it; `biased`: the norms."""

    def __init__(self, config: PartConfig, layer: int, biased: bool) -> None:
        super().__init__()
        width = config.hidden_size
        self.layernorm_1 = LayerNorm(width, bias=biased)
        self.attn = Attention(config, layer)
        self.layernorm_2 = LayerNorm(width, bias=biased)
        self.mlp = FeedForward(width, 4 * width, "gelu", bias=config.bias, names=("in_proj", "out_proj"))

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, D) → (..., T, D)."""
        x = self.attn(self.layernorm_1(x), text, x)
        y: Tensor = self.mlp(self.layernorm_2(x), x)
        return y


class Stack(DecoderStack):
    """The decoder of a language model; a position's embedding is added to the token's."""

    tokens, last_norm = "input_embeds_layer", "layernorm_final"

    def __init__(self, config: LanguageConfig) -> None:
        width = config.hidden_size
        blocks = (Block(config, layer, config.bias) for layer in range(config.num_layers))
        super().__init__(config.input_vocab_size, width, blocks, LayerNorm(width, bias=config.bias))
        self.position_embeds_layer = Embedding(config.block_size, width)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.embedding(tokens) + self.position_embeds_layer(text.positions(tokens))
        return x


class LanguageModel(CausalLanguageModel):
    """A language model, whose tokens to write are not those to read."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__(config, Stack(config))

    def added(self, tokens: Tensor, others: Tensor) -> Tensor:
        """What the first layer reads (T, D) of tokens (T,) at 0 …, to the first of which `others` (O,) are added."""
        stack: Any = self.stack
        x = stack.embedding(tokens) + stack.position_embeds_layer(
            ops.arange(tokens.shape[0], dtype="int32", device=tokens.device)
        )
        more = stack.embedding(others)  # (O, D)
        return x + ops.pad(more, (0, 0, 0, tokens.shape[0] - others.shape[0]))


class FineModel(Module):
    """The network that adds codes to those that each moment has."""

    def __init__(self, config: PartConfig) -> None:
        super().__init__()
        self.config, width, books = config, config.hidden_size, range(config.n_codes_total)
        self.input_embeds_layers = ModuleList(Embedding(config.input_vocab_size, width) for _ in books)
        self.position_embeds_layer = Embedding(config.block_size, width)
        self.layers = ModuleList(Block(config, layer, True) for layer in range(config.num_layers))
        self.layernorm_final = LayerNorm(width)
        first = config.n_codes_given
        self.lm_heads = ModuleList(Linear(width, config.output_vocab_size, bias=False) for _ in books[first:])
        if config.tie_word_embeddings:
            for head, table in zip(self.lm_heads, self.input_embeds_layers[1:], strict=False):
                head.weight = table.weight

    def forward(self, codes: Tensor, book: int) -> Tensor:
        """codes (B, T, codebooks) → logits (B, T, V) of the codes of a `book`, of all codes up to it. ArgumentError for
        other codes, and a book that it only reads.
        """
        config = self.config
        if codes.ndim != 3 or not 1 <= codes.shape[1] <= config.block_size or codes.shape[2] != config.n_codes_total:
            raise ArgumentError(
                f"FineModel: codes are (B, 1 to {config.block_size}, {config.n_codes_total}), not {describe(codes)}"
            )
        if not config.n_codes_given <= book < config.n_codes_total:
            raise ArgumentError(f"FineModel: book is {config.n_codes_given} to {config.n_codes_total - 1}, not {book}")
        x = self.position_embeds_layer(ops.arange(codes.shape[1], dtype="int32", device=codes.device))
        for number in range(book + 1):
            x = x + self.input_embeds_layers[number](codes.select(2, number))  # (B, T, D)
        text = BothWaysText(codes.shape[1])
        for layer in self.layers:
            x = layer(x, text)
        found: Tensor = self.lm_heads[book - config.n_codes_given](self.layernorm_final(x))
        return found


class Bark(Module):
    """The networks and the codec."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.semantic = LanguageModel(config.semantic)
        self.coarse_acoustics = LanguageModel(config.coarse)
        self.fine_acoustics = FineModel(config.fine)
        codec = module_of_part(config.codec)
        self.codec_model = codec.TASKS["audio-codec"](config.codec)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.semantic.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.codec_model.sample_rate
        return found

    def sound(self, codes: Tensor) -> Tensor:
        """codes (B, codebooks, T) → samples (B, 1, N)."""
        found: Tensor = self.codec_model.decode(Codes((codes,), (None,)))
        return found


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": Bark}
