"""GLM-4 (0414; arXiv 2406.12793): GLM's blocks with norms after attention and feed-forward, too."""

from __future__ import annotations

from functools import partial

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel, SandwichNormBlock
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


class Block(SandwichNormBlock):
    """Attention and feed-forward, each between two norms, with a residual around it."""

    attention_norm, inner = "post_self_attn_layernorm", ("post_attention_layernorm", "post_mlp_layernorm")

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size = config.hidden_size
        heads = config.heads(interleaved=True)
        attention = GroupedQueryAttention(
            layer, size, heads, rotary, bias=config.attention_bias, output_bias=False
        )  # fmt: skip
        feed_forward = JoinedGatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, partial(RMSNorm, size, config.rms_norm_eps))


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
