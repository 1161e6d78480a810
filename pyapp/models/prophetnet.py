"""ProphetNet (Qi et al. 2020, arXiv 2001.04063): an encoder and a decoder with two streams. The first reads the text so
far; the second, which begins with the next position alone, attends to the first and gives the scores of words.

Parameters have the names of Hugging Face's files. Further streams, which predict later words, are for training: their
vectors are loaded, and not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import Words, attend_joined, visible_keys
from pyapp.nn.layers.gated import activated, activation_named
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.positions.relative_positions import distance_buckets
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory, SequenceToSequence

from .loading.config import FileConfig, check_depth, check_padding, check_token, require

MODEL_TYPES = ("prophetnet",)
BASE = "prophetnet"  # the name of encoder and decoder in files
MOST_STREAMS = 1 << 8
MOST_BUCKETS = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The hyper-parameters, by the names of config.json. ngram: the streams that predict."""

    model_type = "prophetnet"

    vocab_size: int
    hidden_size: int = 1024
    num_encoder_layers: int = 12
    num_encoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    num_decoder_layers: int = 12
    num_decoder_attention_heads: int = 16
    decoder_ffn_dim: int = 4096
    activation_function: str = "gelu"
    max_position_embeddings: int = 512
    ngram: int = 2
    num_buckets: int = 32
    relative_max_distance: int = 128
    tie_word_embeddings: bool = True
    pad_token_id: int = 0
    bos_token_id: int = 1
    eos_token_id: int = 2
    decoder_start_token_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for heads in (self.num_encoder_attention_heads, self.num_decoder_attention_heads):
            require(self.hidden_size % heads == 0, f"{heads} heads do not divide hidden_size {self.hidden_size}")
        check_depth(max(self.num_encoder_layers, self.num_decoder_layers))
        check_padding(self.pad_token_id, min(self.vocab_size, self.max_position_embeddings))
        check_token("decoder_start_token_id", self.decoder_start_token_id, self.vocab_size)
        require(self.ngram <= MOST_STREAMS, f"ngram is {self.ngram:,}, expected at most {MOST_STREAMS}")
        require(
            2 <= self.num_buckets <= MOST_BUCKETS and self.num_buckets // 2 < self.relative_max_distance,
            f"num_buckets {self.num_buckets:,} do not fit relative_max_distance {self.relative_max_distance:,}",
        )


class Attention(Module):
    """Multi-head attention, to the text itself or to a source."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        for name in ("key_proj", "value_proj", "query_proj"):
            self.add_module(name, Linear(width, width))
        self.out_proj = ResidualLinear(width, width)
        self.qkv = JoinedLinear("query_proj", "key_proj", "value_proj")

    def encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → x + attention of each text to itself (B, T, D)."""
        return self.out_proj(attend_joined(self.qkv(self, x), self.heads, mask), x)

    def source(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → x + attention to the source (R, T, D)."""
        q = self.query_proj(x).reshape(*x.shape[:2], self.heads, -1)  # (R, T, H, D / H)
        return self.out_proj(memory.source(layer, q, self.project), x)

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, H, D / H) of a source (B, S, D)."""
        k, v = (part(encoded).reshape(*encoded.shape[:2], self.heads, -1) for part in (self.key_proj, self.value_proj))
        return k, v


class StreamAttention(Attention):
    """Attention of both streams to the first one; a token of the second also sees itself. Scores have biases by
    distance, which the token says.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.num_decoder_attention_heads)
        self.buckets = config.num_buckets
        self.relative_pos_embeddings = Linear(config.hidden_size, self.buckets * self.heads)

    def forward(self, x: Tensor, memory: Memory, layer: int, near: Tensor, far: Tensor) -> Tensor:
        """x (R, 2 T, D), the first stream and behind it the second → x + attention (R, 2 T, D). near and far (1, 1, T,
        S): the buckets of the distances of both streams' tokens to the first stream's, minus infinity where a token
        is hidden.
        """
        rows, tokens = x.shape[0], x.shape[1] // 2
        parts = self.qkv(self, x).reshape(rows, 2 * tokens, 3 * self.heads, -1)
        streams = [[parts.narrow(1, at, tokens).narrow(2, i * self.heads, self.heads) for i in range(3)]
                   for at in (0, tokens)]  # (R, T, H, D / H) each  # fmt: skip
        said = self.relative_pos_embeddings(x).reshape(rows, 2 * tokens, self.buckets, self.heads)
        first, second = (said.narrow(1, at, tokens).permute(0, 3, 1, 2) for at in (0, tokens))  # (R, H, T, buckets)
        q, k, v = streams[0]
        y = memory.own(layer, q, k, v, _looked_up(first, near))
        beside = second.narrow(3, 0, 1)  # (R, H, T, 1): of no distance
        own, own_k, own_v = streams[1]
        z = memory.beside(layer, own, own_k, own_v, k, v, _looked_up(second, far), beside)
        return self.out_proj(ops.cat([y, z], 1), x)


def _looked_up(said: Tensor, buckets: Tensor) -> Tensor:
    """The biases (R, H, T, S) of buckets (1, 1, T, S), of which minus infinity stays, from those that tokens say (R, H,
    T, buckets).
    """
    index = buckets.clamp(0).to("int64").expand(*said.shape[:3], buckets.shape[3])
    return ops.where(buckets >= 0, ops.gather(said, 3, index), float("-inf"))


class FeedForward(Module):
    """x + output(activation(intermediate(x)))."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.intermediate = Linear(width, inner)
        self.output = ResidualLinear(inner, width)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.output(activated(self.intermediate, x, self.activation), x)


class EncoderLayer(Module):
    """Attention and a feed-forward part, each with a residual and a norm after it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = Attention(width, config.num_encoder_attention_heads)
        self.self_attn_layer_norm = LayerNorm(width)
        self.feed_forward = FeedForward(width, config.encoder_ffn_dim, config.activation_function)
        self.feed_forward_layer_norm = LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn_layer_norm(self.self_attn.encode(x, mask))
        return self.feed_forward_layer_norm(self.feed_forward(x))


class DecoderLayer(Module):
    """Attention to the text, to the source, and a feed-forward part, each with a residual and a norm after it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = StreamAttention(config)
        self.self_attn_layer_norm = LayerNorm(width)
        self.cross_attn = Attention(width, config.num_decoder_attention_heads)
        self.cross_attn_layer_norm = LayerNorm(width)
        self.feed_forward = FeedForward(width, config.decoder_ffn_dim, config.activation_function)
        self.feed_forward_layer_norm = LayerNorm(width)

    def forward(self, x: Tensor, memory: Memory, layer: int, near: Tensor, far: Tensor) -> Tensor:
        """x (R, 2 T, D) → (R, 2 T, D)."""
        x = self.self_attn_layer_norm(self.self_attn(x, memory, layer, near, far))
        x = self.cross_attn_layer_norm(self.cross_attn.source(x, memory, layer))
        return self.feed_forward_layer_norm(self.feed_forward(x))


class Stack(Module):
    """Words at their positions, which count from the one after that of padding."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.word_embeddings.weight = table.weight
        self.position_embeddings = Embedding(config.max_position_embeddings, config.hidden_size, config.pad_token_id)
        self.embeddings_layer_norm = LayerNorm(config.hidden_size)
        self.last, self.offset = config.max_position_embeddings - 1, config.pad_token_id + 1

    def places(self, positions: Tensor) -> Tensor:
        """The vectors (T, D) of positions (T,) from 0."""
        return self.position_embeddings((positions + self.offset).clamp(0, self.last))


class Encoder(Stack):
    """The encoder."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__(config, table)
        self.layers = ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        places = self.places(ops.arange(ids.shape[1], dtype="int32", device=ids.device))
        x = self.embeddings_layer_norm(self.word_embeddings(ids) + places)
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Decoder(Stack):
    """The decoder."""

    def __init__(self, config: Config, table: Embedding) -> None:
        super().__init__(config, table)
        self.config = config
        self.ngram_embeddings = Embedding(config.ngram, config.hidden_size)
        self.layers = ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → the states (R, T, D) of the stream that predicts the next words."""
        positions, count = memory.positions(tokens), tokens.shape[1]
        words = self.word_embeddings(tokens) + self.places(positions)  # (R, T, D)
        start = self.ngram_embeddings(ops.full((1,), self.config.ngram - 1, dtype="int32", device=tokens.device))
        ahead = (start + self.places(positions + 1)).expand(*words.shape)
        x = self.embeddings_layer_norm(ops.cat([words, ahead], 1))
        near, far = memory.distances(self._buckets).chunk(2, 1)  # (1, 1, T, S) each
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, i, near, far)
        return x.narrow(1, count, count)

    def _buckets(self, tokens: int, keys: int) -> Tensor:
        """The buckets (1, 2, T, S) of the distances of the last T of S tokens, and of those one place further."""
        config, device = self.config, self.word_embeddings.weight.device
        found = [
            distance_buckets(
                tokens, keys, config.num_buckets, config.relative_max_distance, False, keys - tokens + more
            )
            for more in (0, 1)
        ]  # fmt: skip
        return ops.stack(found).to("float32").unsqueeze(0).to(device)


class ProphetNet(SequenceToSequence):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, config.max_position_embeddings
        table = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.prophetnet = Module()
        self.prophetnet.word_embeddings = table
        self.prophetnet.encoder = Encoder(config, table)
        self.prophetnet.decoder = Decoder(config, table)
        tied = table if config.tie_word_embeddings else None
        self.lm_head = Words(config.hidden_size, config.vocab_size, tied, bias=False)

    @property
    def device(self) -> Device:
        found: Device = self.prophetnet.word_embeddings.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found: Tensor = self.prophetnet.encoder(ids, visible_keys(attention_mask))
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.lm_head(self.prophetnet.decoder(tokens, memory))


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": ProphetNet}
