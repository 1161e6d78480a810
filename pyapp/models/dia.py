"""Dia (https://github.com/nari-labs/dia): dialogues of two speakers. An encoder reads the bytes of a text, and a
decoder writes the codes of DAC, of each codebook some moments later than of the first one.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.nn import Embedding, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import visible_keys
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import JoinedGatedFeedForward
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory, Memory, SequenceToSequence, WholeMemory
from pyapp.nn.sequence_to_sequence.shared_heads import SharedHeadsAttention

from .loading.config import (
    check_depth,
    check_fields,
    check_heads,
    check_token,
    object_of,
    read_config,
    require,
    rope_parameters,
)
from .loading.sound_parts import MOST_CODEBOOKS

MODEL_TYPES = ("dia",)
SPEAKS = "dialogues"  # in pyapp.models.loading.voice
BASE = "model"
DELAYS = (0, 8, 9, 10, 11, 12, 13, 14, 15)  # where the file says none
MOST_DELAY = 1 << 10  # moments
WIDEST = 1 << 17
TOKENS = ("pad_token_id", "eos_token_id", "bos_token_id")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The fields of encoder_config."""

    max_position_embeddings: int = 1024
    num_hidden_layers: int = 12
    hidden_size: int = 1024
    num_attention_heads: int = 16
    num_key_value_heads: int = 16
    head_dim: int = 128
    intermediate_size: int = 4096
    norm_eps: float = 1e-5
    vocab_size: int = 256
    hidden_act: str = "silu"
    rope_parameters: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_hidden_layers)
        for name in ("hidden_size", "intermediate_size", "vocab_size"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}, at most {WIDEST:,}")
        heads, kv_heads, size = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        check_heads(self.hidden_size, heads, kv_heads, size, self.max_position_embeddings)
        assert self.rotary

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a part; other keys are ignored."""
        return read_config(cls, {**values, "rope_parameters": rope_parameters(values)})

    @property
    def heads(self) -> Heads:
        """The heads of attention to the part's own text, whose scores are not scaled."""
        return Heads(self.num_attention_heads, self.num_key_value_heads, self.head_dim, scale=1.0)

    @property
    def rotary(self) -> RotaryTable:
        """A new table of rotary angles."""
        return RotaryTable.of_heads(self.head_dim, self.max_position_embeddings, self.rope_parameters)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(EncoderConfig):
    """The fields of decoder_config."""

    max_position_embeddings: int = 3072
    num_hidden_layers: int = 18
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_key_value_heads: int = 4
    cross_num_attention_heads: int = 16
    cross_head_dim: int = 128
    cross_num_key_value_heads: int = 16
    cross_hidden_size: int = 1024
    vocab_size: int = 1028
    num_channels: int = 9
    pad_token_id: int = 1025
    eos_token_id: int = 1024
    bos_token_id: int = 1026

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, kv_heads, most = self.cross_num_attention_heads, self.cross_num_key_value_heads, WIDEST
        require(heads % kv_heads == 0, f"cross_num_key_value_heads {kv_heads} does not divide {heads} heads")
        require(heads * self.cross_head_dim <= most, f"cross_head_dim is {self.cross_head_dim:,}")
        require(self.num_channels <= MOST_CODEBOOKS, f"num_channels is {self.num_channels}, at most {MOST_CODEBOOKS}")
        for name in TOKENS:
            check_token(name, getattr(self, name), self.vocab_size)
        special = self.eos_token_id, self.pad_token_id, self.bos_token_id
        plausible = len({*special}) == 3 and min(special) == self.eos_token_id > 0
        require(plausible, f"the codes of the end, of padding and of the beginning are {special}")

    @property
    def cross(self) -> Heads:
        """The heads of attention to the text."""
        return Heads(self.cross_num_attention_heads, self.cross_num_key_value_heads, self.cross_head_dim, scale=1.0)


@dataclass(frozen=True)
class Config:
    """The configurations of both parts, how many moments later than of the first one the codes of each codebook come,
    and `values`, the whole object of the config.json.
    """

    encoder: EncoderConfig
    decoder: DecoderConfig
    delays: tuple[int, ...]
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json. ModelError for parts that do not fit."""
        told = {name: values[name] for name in TOKENS if values.get(name) is not None}
        encoder = EncoderConfig.from_dict(object_of(values, "encoder_config"))
        decoder = DecoderConfig.from_dict({**object_of(values, "decoder_config"), **told})
        given = values.get("delay_pattern")
        given = DELAYS if given is None else given
        books = decoder.num_channels
        plausible = isinstance(given, list | tuple) and len(given) == books
        plausible = plausible and all(type(delay) is int and 0 <= delay <= MOST_DELAY for delay in given)
        require(
            plausible and given[0] == 0,
            f"delay_pattern is {given!r:.80}, expected whole numbers for {books} codebooks, the first one 0",
        )
        read, made = decoder.cross_hidden_size, encoder.hidden_size
        require(read == made, f"cross_hidden_size is {read}, the encoder's hidden_size {made}")
        return cls(encoder, decoder, tuple(given), dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0]}

    @property
    def vocab_size(self) -> int:
        """The tokens of texts: bytes."""
        return self.encoder.vocab_size

    @property
    def num_speakers(self) -> int:
        """One number: the text says who speaks."""
        return 1


class EncoderLayer(Module):
    """Attention and a gated feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.pre_sa_norm, self.post_sa_norm = (RMSNorm(width, config.norm_eps) for _ in range(2))
        self.self_attention = SharedHeadsAttention(layer, config.heads, width)
        self.mlp = JoinedGatedFeedForward(width, config.intermediate_size, config.hidden_act)

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T) → (B, T, D)."""
        x = x + self.self_attention.encode(self.pre_sa_norm(x), mask, table)
        return self.mlp(self.post_sa_norm(x), x)


class Encoder(Module):
    """What reads bytes."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.hidden_size)
        self.layers = ModuleList(EncoderLayer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.rotary = config.rotary

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        x, table = self.embedding(ids), self.rotary.upto(ids.shape[1], ids.device)
        for layer in self.layers:
            x = layer(x, mask, table)
        return self.norm(x)


class DecoderLayer(Module):
    """Attention to the codes so far, to the text, and a gated feed-forward part, each with a norm before it and a
    residual around it.
    """

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.pre_sa_norm, self.pre_ca_norm, self.pre_mlp_norm = (RMSNorm(width, config.norm_eps) for _ in range(3))
        self.self_attention = SharedHeadsAttention(layer, config.heads, width)
        self.cross_attention = SharedHeadsAttention(layer, config.cross, width, config.cross_hidden_size)
        self.mlp = JoinedGatedFeedForward(width, config.intermediate_size, config.hidden_act)

    def forward(self, x: Tensor, memory: Memory, table: Tensor, places: Tensor) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        x = x + self.self_attention.own(self.pre_sa_norm(x), memory, table, places)
        x = x + self.cross_attention.source(self.pre_ca_norm(x), memory)
        return self.mlp(self.pre_mlp_norm(x), x)


class Decoder(Module):
    """What writes codes. Those of a moment are read as the sum of their vectors."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.books, self.entries, self.most = config.num_channels, config.vocab_size, config.max_position_embeddings
        self.embeddings = Module()
        self.embeddings.embed = Embedding(self.books * self.entries, config.hidden_size)
        self.layers = ModuleList(DecoderLayer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.rotary = config.rotary

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R * codebooks, T) → (R, T, D)."""
        offsets = ops.arange(self.books, dtype="int32", device=tokens.device).reshape(1, -1, 1) * self.entries
        codes = tokens.reshape(-1, self.books, tokens.shape[1]) + offsets  # (R, codebooks, T)
        x: Tensor = self.embeddings.embed(codes).sum(1)
        places, table = memory.positions(x), self.rotary.upto(self.most, x.device)
        for layer in self.layers:
            x = layer(x, memory, table, places)
        return self.norm(x)


class Dia(SequenceToSequence):
    """The model. The source is a text of bytes; codes of the codebooks of a text are rows side by side."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, config.encoder.max_position_embeddings
        self.written = config.decoder.max_position_embeddings
        own = config.decoder
        self.model = Module()
        self.model.encoder, self.model.decoder = Encoder(config.encoder), Decoder(own)
        self.logits_dense = Linear(own.hidden_size, own.num_channels * own.vocab_size, bias=False)

    @property
    def device(self) -> Device:
        found: Device = self.model.encoder.embedding.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found: Tensor = self.model.encoder(ids, visible_keys(attention_mask))
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R * codebooks, T) at the positions that the memory says → logits (R * codebooks, T, V)."""
        own = self.config.decoder
        x = self.logits_dense(self.model.decoder(tokens, memory))
        x = x.reshape(x.shape[0], x.shape[1], own.num_channels, own.vocab_size).transpose(1, 2)
        return x.reshape(-1, x.shape[2], own.vocab_size)

    def forward(
        self, ids: Tensor, tokens: Tensor, attention_mask: Tensor | None = None, token_mask: Tensor | None = None
    ) -> Tensor:
        """Texts ids (B, S), codes tokens (B * codebooks, T) → logits (B * codebooks, T, V). The masks, (B, S) and (B,
        T), are 0 for padding.
        """
        self.check_source(ids, attention_mask)
        memory = WholeMemory(self.encode(ids, attention_mask), attention_mask, tokens.shape[1], token_mask)
        return self.decode(tokens, memory)

    def memory(self, ids: Tensor, prompt: Tensor, most: int) -> CachedMemory:
        """What the decoder remembers of a text (1, S), and beside it of none, for at most so many moments, after those
        of the codes prompt (codebooks, T).
        """
        both = ops.cat([ids, ops.zeros_like(ids)])  # as in training, without a text it reads zeros
        count = prompt.shape[1]
        memory = CachedMemory(self.encode(both), None, 1, min(most, self.written or most), count)
        if count:
            self.decode(ops.cat([prompt, prompt]), memory)
            memory.advance(tokens=count)
        return memory


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": Dia}
