"""The language model of Kosmos-2 (Peng et al. 2023, arXiv 2306.14824): the decoder of BART's form with fixed positions,
and a norm within attention and within the feed-forward part (Wang et al. 2022, arXiv 2210.06423).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import CausalLanguageModel, GroupedQueryAttention, Text
from pyapp.nn.layers.gated import activated, activation_named
from pyapp.nn.sequence_to_sequence.bart_decoder import BartStack, MaskedText, Waves

from .loading.config import DecoderConfig, check_form, check_padding

MODEL_TYPES = ("kosmos_2_text_model",)
FIELDS = {"embed_dim": "hidden_size", "layers": "num_hidden_layers", "attention_heads": "num_attention_heads"}
# What a text_config leaves out.
NESTED_DEFAULTS = {
    "vocab_size": 65037, "embed_dim": 2048, "layers": 24, "ffn_dim": 8192, "attention_heads": 32, "pad_token_id": 1,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json, by their usual names."""

    model_type = "kosmos_2_text_model"
    defaults = {"max_position_embeddings": 2048, "tie_word_embeddings": True}

    ffn_dim: int
    activation_function: str = "gelu"
    layer_norm_eps: float = 1e-5
    scale_embedding: bool = True
    pad_token_id: int = 1

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        check_form(values, {"add_cross_attention": False})
        own = {new: values[old] for old, new in FIELDS.items() if old in values and new not in values}
        return super().from_dict({**values, **own})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_padding(self.pad_token_id, self.vocab_size)


class Attention(GroupedQueryAttention):
    """Self-attention with a norm before the last projection."""

    output = "out_proj"

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(layer, config.hidden_size, config.heads(), None, bias=True)
        self.inner_attn_ln = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        found: Tensor = self.out_proj(self.inner_attn_ln(self.attend(self.qkv(self, x), text)), residual)
        return found


class FeedForward(Module):
    """Two layers with an activation and a norm between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.activation = activation_named(config.activation_function)
        self.fc1 = Linear(config.hidden_size, config.ffn_dim)
        self.fc2 = ResidualLinear(config.ffn_dim, config.hidden_size)
        self.ffn_layernorm = LayerNorm(config.ffn_dim, config.layer_norm_eps)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + feed-forward (..., hidden_size)."""
        return self.fc2(self.ffn_layernorm(activated(self.fc1, x, self.activation)), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.layer_norm_eps
        self.self_attn = Attention(config, layer)
        self.self_attn_layer_norm, self.final_layer_norm = LayerNorm(size, epsilon), LayerNorm(size, epsilon)
        self.ffn = FeedForward(config)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.self_attn_layer_norm(x), text, x)
        found: Tensor = self.ffn(self.final_layer_norm(x), x)
        return found


class Kosmos2TextForCausalLM(CausalLanguageModel):
    """The language model."""

    whole_text = MaskedText

    def __init__(self, config: Config) -> None:
        size, first = config.hidden_size, config.pad_token_id + 1
        positions = Waves(config.max_position_embeddings + first, size)
        blocks = (Block(config, layer) for layer in range(config.num_hidden_layers))
        stack = BartStack(
            config.vocab_size, size, blocks, positions, config.scale_embedding, first=first,
            epsilon=config.layer_norm_eps,
        )  # fmt: skip
        super().__init__(config, stack)


TASKS = {"causal-lm": Kosmos2TextForCausalLM}
