"""EmbeddingGemma 2, its reader of texts (Google 2026, https://huggingface.co/google/embeddinggemma-2): Gemma 4's layers
as an encoder, whose tokens attend to both sides, with an input of each layer that is a projection of the words alone,
and a projection of the last states to the width of the embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import cat
from pyapp.nn import GatedFeedForward, Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import visible_keys
from pyapp.nn.encoders.rotary_encoder import NormFirstRotaryEncoder, RotaryAttention
from pyapp.nn.heads import Heads, split_heads
from pyapp.nn.layers.gated import activation_named

from .loading.config import FULL, LOCAL_BASE, SLIDING, DecoderConfig, check_heads, check_padding, layer_types, require

MODEL_TYPES = ("embedding_gemma2_text", "embedding_gemma2")
BASE = "language_model"  # the encoder's name in files of the model that also sees and hears
IGNORED = r"(model\.)?(vision_tower|audio_tower|embed_vision|embed_audio)\..*"
ROTARY = {
    SLIDING: {"rope_type": "default", "rope_theta": LOCAL_BASE},
    FULL: {"rope_type": "default", "rope_theta": 1_000_000.0},
}
# What the text_config of the model that also sees and hears may leave out.
NESTED_DEFAULTS = {
    "vocab_size": 262_144, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 24,
    "num_attention_heads": 4,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. global_head_dim and num_global_key_value_heads: those of layers without a window.
    sliding_window: the farthest token on each side that a layer with a window sees. embedding_dim: the width of the
    embeddings.
    """

    model_type = "embedding_gemma2_text"
    defaults = {"max_position_embeddings": 262_144, "num_key_value_heads": 2, "head_dim": 256}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool = False
    sliding_window: int = 512
    layer_types: list[str]
    global_head_dim: int = 512
    num_global_key_value_heads: int = 1
    hidden_size_per_layer_input: int = 512
    embedding_dim: int = 768
    pad_token_id: int | None = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; of a model that also sees and hears, its `text_config`."""
        own = values.get("text_config")
        return super().from_dict(NESTED_DEFAULTS | own if isinstance(own, dict) else values)

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, of which the last has no window, and with the heads of those without
        a window, which files give for each layer.
        """
        pattern = values.get("sliding_window_pattern", 6)
        require(type(pattern) is int and pattern > 0, f"sliding_window_pattern is {pattern!r:.40}")
        kinds = [*layer_types(values, lambda layer: (layer + 1) % pattern != 0)[:-1], FULL]
        rotary, own = values["rope_parameters"], values.get("per_layer_config")
        first = kinds.index(FULL)
        found = own.get(str(first), own.get(first)) if isinstance(own, dict) else None
        found = found if isinstance(found, dict) else {}
        more = {
            ours: found[theirs]
            for ours, theirs in (("global_head_dim", "head_dim"), ("num_global_key_value_heads", "num_key_value_heads"))
            if theirs in found
        }
        return values | more | {
            "layer_types": kinds, "rope_parameters": ROTARY if "rope_type" in rotary else rotary,
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)
        heads, kv_heads, size = self.num_attention_heads, self.num_global_key_value_heads, self.global_head_dim
        check_heads(self.hidden_size, heads, kv_heads, size, self.max_position_embeddings)
        require({*self.layer_types} <= {*self.rope_parameters}, "rope_parameters has not all types of layer_types")

    def attention(self, kind: str) -> Heads:
        """The attention of layers of a kind."""
        if kind == SLIDING:
            return self.heads(window=self.sliding_window, scale=1.0)
        return Heads(self.num_attention_heads, self.num_global_key_value_heads, self.global_head_dim, scale=1.0)

    def norm(self, features: int) -> RMSNorm:
        """A norm of so many features."""
        return RMSNorm(features, self.rms_norm_eps)


class Attention(RotaryAttention):
    """Attention with normalised queries, keys and values."""

    def __init__(self, config: Config, kind: str) -> None:
        super().__init__(config.hidden_size, config.attention(kind), config.attention_bias)
        size = self.heads.head_dim
        self.q_norm, self.k_norm = config.norm(size), config.norm(size)
        self.v_norm = RMSNorm(size, config.rms_norm_eps, elementwise_affine=False)

    def normalized(self, qkv: Tensor) -> Tensor:
        q, k, v = split_heads(qkv, self.heads)
        return cat([self.q_norm(q), self.k_norm(k), self.v_norm(v)], -2).reshape(qkv.shape)


class LayerInput(Module):
    """The input of each layer for every token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        own, self.scale = config.hidden_size_per_layer_input, config.hidden_size**-0.5
        self.per_layer_model_projection = Linear(config.hidden_size, config.num_hidden_layers * own, bias=False)
        self.per_layer_projection_norm = config.norm(own)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, layers, hidden_size_per_layer_input)."""
        own = self.per_layer_projection_norm.weight.shape[0]
        y = (self.per_layer_model_projection(x) * self.scale).reshape(*x.shape[:-1], -1, own)
        return self.per_layer_projection_norm(y)


class GatedInput(Module):
    """A layer's input, gated by the state and added to it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, own = config.hidden_size, config.hidden_size_per_layer_input
        self.activation = activation_named(config.hidden_activation)
        self.per_layer_input_gate = Linear(size, own, bias=False)
        self.per_layer_projection = Linear(own, size, bias=False)
        self.post_per_layer_input_norm = config.norm(size)

    def forward(self, x: Tensor, own: Tensor) -> Tensor:
        """x (B, T, D), own (B, T, hidden_size_per_layer_input) → (B, T, D)."""
        added = self.per_layer_projection(self.activation(self.per_layer_input_gate(x)) * own)
        return x + self.post_per_layer_input_norm(added)


class Block(Module):
    """Attention and feed-forward, each between two norms, with a residual around it, and the layer's input. All is
    multiplied by a number of the layer's, which is not trained.
    """

    def __init__(self, config: Config, kind: str) -> None:
        super().__init__()
        size, self.kind = config.hidden_size, kind
        self.self_attn = Attention(config, kind)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_activation)
        self.input_layernorm, self.post_attention_layernorm = config.norm(size), config.norm(size)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = config.norm(size), config.norm(size)
        self.register_buffer("layer_scalar", ops.ones(1))
        self.ple_block = GatedInput(config)

    def forward(self, x: Tensor, mask: Tensor | None, tables: Mapping[str, Tensor], own: Tensor) -> Tensor:
        """x (B, T, D), own (B, T, hidden_size_per_layer_input) → (B, T, D)."""
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), mask, tables[self.kind]))
        x = x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
        y: Tensor = self.ple_block(x, own) * self.layer_scalar
        return y


class EmbeddingGemma2(NormFirstRotaryEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        blocks = (Block(config, kind) for kind in config.layer_types)
        super().__init__(config, blocks, config.norm(config.hidden_size))
        self.ple = LayerInput(config)
        self.embedding_projection = Linear(config.hidden_size, config.embedding_dim, bias=False)

    @property
    def output_size(self) -> int:
        """The features of a token's last state."""
        found: int = self.config.embedding_dim
        return found

    def rotary_tables(self) -> Any:
        values = self.config.to_dict()
        sizes = {kind: self.config.attention(kind).head_dim for kind in {*self.config.layer_types}}
        return {kind: RotaryTable(values | {"head_dim": size}, kind) for kind, size in sizes.items()}

    def tables(self, length: int) -> Any:
        return {kind: table.upto(length, self.device) for kind, table in self.rotary.items()}

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, embedding_dim)."""
        self.check(ids, attention_mask)
        mask, tables = visible_keys(attention_mask), self.tables(ids.shape[1])
        x = self.embed_tokens(ids) * sqrt(self.config.hidden_size)  # (B, T, D)
        inputs = self.ple(x)  # (B, T, layers, hidden_size_per_layer_input)
        for number, layer in enumerate(self.layers):
            x = layer(x, mask, tables, inputs.select(-2, number))
        y: Tensor = self.embedding_projection(self.norm(x))
        return y


TASKS = {"features": EmbeddingGemma2}
