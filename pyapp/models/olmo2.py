"""OLMo 2 (OLMo Team 2024, arXiv 2501.00656): norms after attention and feed-forward instead of before, and of all
queries and all keys.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import RotaryTable, Text
from pyapp.nn.decoder_blocks import JointNormAttention, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import HEAD_NORMS, NAMES, Gguf

MODEL_TYPES = ("olmo2",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "olmo2"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False


class Block(Module):
    """Attention and feed-forward, each with a norm after it, added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = JointNormAttention(layer, size, config.heads(), rotary, epsilon, bias=config.attention_bias)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.post_feedforward_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = x + self.post_attention_layernorm(self.self_attn(x, text))
        return x + self.post_feedforward_layernorm(self.mlp(x))


class Olmo2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf(
    "olmo2",
    names=NAMES | HEAD_NORMS | {
        "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
        "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
    },
)  # fmt: skip
TASKS = {"causal-lm": Olmo2ForCausalLM}
