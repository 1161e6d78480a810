"""GLM-4 and GLM-Edge (arXiv 2406.12793): rotary positions of half of each head, in neighbouring pairs."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import JoinedGatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import NAMES, Gguf, biases

MODEL_TYPES = ("glm",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "glm"
    defaults = {"max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "num_key_value_heads": 2}

    intermediate_size: int
    rms_norm_eps: float = 1.5625e-7
    hidden_act: str = "silu"
    attention_bias: bool = True


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it, and a residual around both."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(interleaved=True)
        attention = GroupedQueryAttention(
            layer, size, heads, rotary, bias=config.attention_bias, output_bias=False
        )  # fmt: skip
        feed_forward = JoinedGatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class GlmForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf(
    "chatglm", names=NAMES | {"model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up"}, read=biases,
)  # fmt: skip
TASKS = {"causal-lm": GlmForCausalLM}
