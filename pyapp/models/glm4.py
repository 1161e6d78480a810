"""GLM-4 (0414; arXiv 2406.12793): GLM's blocks with norms after attention and feed-forward, too."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.gated import JoinedGatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import NAMES, Gguf, biases

MODEL_TYPES = ("glm4",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "glm4"
    defaults = {"max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "num_key_value_heads": 2}

    intermediate_size: int
    rms_norm_eps: float = 1.5625e-7
    hidden_act: str = "silu"
    attention_bias: bool = True


class Block(Module):
    """Attention and feed-forward, each with a norm before it and one after it, and a residual around both."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(interleaved=True)
        self.self_attn = GroupedQueryAttention(
            layer, size, heads, rotary, bias=config.attention_bias, output_bias=False
        )  # fmt: skip
        self.mlp = JoinedGatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.post_self_attn_layernorm = RMSNorm(size, epsilon)
        self.post_mlp_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = x + self.post_self_attn_layernorm(self.self_attn(self.input_layernorm(x), text))
        return x + self.post_mlp_layernorm(self.mlp(self.post_attention_layernorm(x)))


class Glm4ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf(
    "glm4", names=NAMES | {
        "model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up",
        "model.layers.{}.post_self_attn_layernorm": "blk.{}.post_attention_norm",
        "model.layers.{}.post_mlp_layernorm": "blk.{}.post_ffw_norm",
    }, read=biases,
)  # fmt: skip
TASKS = {"causal-lm": Glm4ForCausalLM}
