"""BigBird-Pegasus (Zaheer et al. 2020, arXiv 2007.14062): Pegasus for summaries of long texts, whose encoder reads them
in BigBird's blocks.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.block_attention import BlockAttention, in_whole_blocks, longest_whole
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import BartLanguageModel, Decoder, TextStack

from .loading.config import require
from .loading.sequence_config import SequenceToSequenceConfig

MODEL_TYPES = ("bigbird_pegasus",)
BASE = "model"  # the name of encoder and decoder in files with a head
FULL, SPARSE = "original_full", "block_sparse"


@dataclass(frozen=True, kw_only=True)
class Config(SequenceToSequenceConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    max_position_embeddings: int = 4096
    activation_function: str = "gelu_new"
    scale_embedding: bool = True
    pad_token_id: int = 0
    eos_token_id: int = 1
    attention_type: str = SPARSE
    block_size: int = 64
    num_random_blocks: int = 3
    use_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.attention_type
        require(kind in (FULL, SPARSE), f"attention_type is {kind!r:.40}, expected {FULL} or {SPARSE}")
        require(self.block_size <= 1 << 16, f"block_size is {self.block_size:,}")
        require(
            1 <= self.num_random_blocks <= 1 << 10,
            f"num_random_blocks is {self.num_random_blocks}, expected 1 or more",
        )

    @property
    def whole(self) -> int:
        """The largest number of tokens of a text that attends to itself whole."""
        if self.attention_type == FULL:
            return self.max_position_embeddings
        return longest_whole(self.block_size, self.num_random_blocks)


class EncoderLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, bias = config.d_model, config.use_bias
        sizes = config.block_size, config.num_random_blocks, config.whole
        self.self_attn = Module()
        self.self_attn.add_module("self", BlockAttention(width, config.encoder_attention_heads, *sizes, bias))
        self.self_attn.output = ResidualLinear(width, width, bias)
        self.self_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, config.encoder_ffn_dim)
        self.fc2 = ResidualLinear(config.encoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        attention = self.self_attn._modules["self"]
        assert attention is not None
        x = self.self_attn.output(attention(self.self_attn_layer_norm(x), mask), x)
        return self.fc2(self.activation(self.fc1(self.final_layer_norm(x))), x)


class LateNorm(TextStack):
    """Words at their positions. What files call their norm is that after the last layer."""

    def __init__(self, config: Config, positions: Module, table: Embedding, **options: Any) -> None:
        super().__init__(config, positions, 0, table, norm_embedding=False, norm_first=True, **options)
        self.layernorm_embedding, self.layer_norm = self.layer_norm, None

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.embed_tokens(ids) * self.scale + self.embed_positions(positions)

    def norm(self, x: Tensor) -> Tensor:
        assert self.layernorm_embedding is not None
        return self.layernorm_embedding(x)


class TextDecoder(LateNorm, Decoder):
    """The decoder."""


class Encoder(LateNorm):
    """The encoder."""

    def __init__(self, config: Config, positions: Module, table: Embedding) -> None:
        super().__init__(config, positions, table)
        self.whole, self.size = config.whole, config.block_size
        self.layers = ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, D)."""
        x = self.embed(ids, ops.arange(ids.shape[1], dtype="int32", device=ids.device))
        if ids.shape[1] > self.whole:
            x, mask = in_whole_blocks(x, mask, self.size)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x.narrow(1, 0, ids.shape[1]))


class Stacks(Module):
    """Encoder and decoder over one table of words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, places = config.d_model, config.max_position_embeddings
        self.shared = table = Embedding(config.vocab_size, width, config.pad_token_id)
        self.encoder = Encoder(config, Embedding(places, width), table)
        self.decoder = TextDecoder(config, Embedding(places, width), table, attention_bias=config.use_bias)


class BigBirdPegasus(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = Stacks(config)
        table = model.shared if config.tie_word_embeddings else None
        super().__init__(config, model, config.vocab_size, table, base=BASE)


TASKS: Mapping[str, Callable[[Config], Module]] = {"seq2seq-lm": BigBirdPegasus}
