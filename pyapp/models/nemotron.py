"""Nemotron-4 and Minitron (Parmar et al. 2024, arXiv 2402.16819): squared ReLU, layer norms whose weights count from 1,
and rotary positions of a part of each head.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.normalization import OffsetLayerNorm

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf, biases

MODEL_TYPES = ("nemotron",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "nemotron"
    defaults = {"max_position_embeddings": 4096, "partial_rotary_factor": 0.5}

    intermediate_size: int
    norm_eps: float = 1e-5
    hidden_act: str = "relu2"
    attention_bias: bool = False
    mlp_bias: bool = False


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.norm_eps
        self.self_attn = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        self.mlp = FeedForward(
            size, config.intermediate_size, config.hidden_act, bias=config.mlp_bias, names=("up_proj", "down_proj")
        )
        self.input_layernorm = OffsetLayerNorm(size, epsilon)
        self.post_attention_layernorm = OffsetLayerNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class NemotronForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = OffsetLayerNorm(config.hidden_size, config.norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


GGUF = Gguf(
    "nemotron", offset="norm.weight", read=biases, keys=KEYS | {"norm_eps": "attention.layer_norm_epsilon"}
)  # fmt: skip
TASKS = {"causal-lm": NemotronForCausalLM}
