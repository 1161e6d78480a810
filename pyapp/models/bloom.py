"""BLOOM (BigScience 2022, arXiv 2211.05100): linear biases of the attention instead of positions, a norm of the
embeddings, layer norms before each part, a plain feed-forward layer and biases.
"""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import tensor
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text, heads_together
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.positions.linear_biases import slopes

from .loading.config import UNGROUPED, DecoderConfig
from .loading.gguf import KEYS, Gguf, grouped_rows

MODEL_TYPES = ("bloom",)
# The names of published files.
OLDER = {
    "n_embed": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers",
    "seq_length": "max_position_embeddings",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "bloom"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}
    ignored = UNGROUPED

    layer_norm_epsilon: float = 1e-5
    apply_residual_connection_post_layernorm: bool = False

    @classmethod
    def from_dict(cls, values: Any) -> Any:
        """From the object of a config.json."""
        return super().from_dict({OLDER.get(name, name): value for name, value in values.items()})


class Attention(SelfAttention):
    """Self-attention from one projection: query, key and value of one head after another."""

    tensor_parallel = {"query_key_value": ("outputs", "groups"), "dense": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int) -> None:
        size, heads = config.hidden_size, config.heads(slopes=tensor(slopes(config.num_attention_heads)))
        super().__init__(layer, heads, None)
        self.query_key_value = Linear(size, heads.width)
        self.dense = ResidualLinear(size, size)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        return self.dense(self.attend(heads_together(self.query_key_value(x), self.heads), text), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it, in some models from the norm."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.layer_norm_epsilon
        self.from_norm = config.apply_residual_connection_post_layernorm
        self.input_layernorm = LayerNorm(size, epsilon)
        self.self_attention = Attention(config, layer)
        self.post_attention_layernorm = LayerNorm(size, epsilon)
        self.mlp = FeedForward(size, 4 * size, "gelu_new", names=("dense_h_to_4h", "dense_4h_to_h"))

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.input_layernorm(x)
        x = self.self_attention(own, text, own if self.from_norm else x)
        own = self.post_attention_layernorm(x)
        return self.mlp(own, own if self.from_norm else x)


class BloomStack(DecoderStack):
    """The decoder, whose embeddings are normalised."""

    tokens, blocks, last_norm = "word_embeddings", "h", "ln_f"

    def __init__(self, config: Config) -> None:
        size, epsilon = config.hidden_size, config.layer_norm_epsilon
        blocks = (Block(config, layer) for layer in range(config.num_hidden_layers))
        super().__init__(config.vocab_size, size, blocks, LayerNorm(size, epsilon))
        self.word_embeddings_layernorm = LayerNorm(size, epsilon)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.word_embeddings_layernorm(self.word_embeddings(tokens))


class BloomForCausalLM(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, BloomStack(config))


def _order(name: str, config: Config) -> list[int] | None:
    """llama.cpp stores all queries, all keys, all values."""
    return grouped_rows(config.num_attention_heads, 1, config.head_dim) if ".query_key_value." in name else None


_PARTS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
    "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}  # fmt: skip
GGUF = Gguf(
    "bloom", order=_order,
    names={
        "transformer.word_embeddings": "token_embd", "transformer.word_embeddings_layernorm": "token_embd_norm",
        "transformer.ln_f": "output_norm", "lm_head": "output",
        **{"transformer.h.{}." + ours: "blk.{}." + theirs for ours, theirs in _PARTS.items()},
    },
    keys=KEYS | {"layer_norm_epsilon": "attention.layer_norm_epsilon"},
    write=lambda config: {
        "feed_forward_length": 4 * config.hidden_size, "rope.freq_base": None, "rope.dimension_count": None,
    },
)  # fmt: skip
TASKS = {"causal-lm": BloomForCausalLM}
