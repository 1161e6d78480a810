"""The language model of Aria (Li et al. 2024, arXiv 2410.05993): Llama's blocks with experts, of which each token has a
few, and all have some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, RoutedFeedForward, Router
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice
from .loading.stored import Stored
from .loading.stored_experts import experts_transposed, stacks_renamed, with_experts_transposed

MODEL_TYPES = ("aria_text",)
renamed = stacks_renamed
# What the text_config of a model that sees pictures leaves out.
NESTED_DEFAULTS = {
    "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "aria_text"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int = 4096
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    moe_num_experts: int = 8
    moe_topk: int = 2
    moe_num_shared_experts: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.moe_topk, self.moe_num_experts)


class Block(PreNormBlock):
    """Attention and experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, inner, epsilon = config.hidden_size, config.intermediate_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        router = Router(size, config.moe_num_experts, config.moe_topk)
        shared = GatedFeedForward(size, inner * config.moe_num_shared_experts, config.hidden_act, config.mlp_bias)
        experts = Experts(size, inner, config.moe_num_experts)
        feed_forward = RoutedFeedForward(router, experts, "router", ("shared_experts", shared))
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class AriaTextForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters as Hugging Face's files have them: matrices of experts transposed."""
        return with_experts_transposed(tensors)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the stacks of experts: each matrix transposed, unless their shapes say otherwise."""
    shapes = {f"model.{renamed(name).removeprefix('model.')}": info.shape for name, info in tensors.items()}
    layers, place = range(config.num_hidden_layers), "model.layers.{}.mlp.experts"
    return experts_transposed(shapes, place, layers, config.hidden_size, config.intermediate_size)


TASKS = {"causal-lm": AriaTextForCausalLM}
