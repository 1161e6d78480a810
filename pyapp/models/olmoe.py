"""OLMoE (Muennighoff et al. 2024, arXiv 2409.02060): Llama's blocks with a mixture of experts, whose queries and keys
are normalised, all heads together.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import RMSNorm
from pyapp.nn.decoder import RotaryTable
from pyapp.nn.decoder_blocks import JointNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import SparseFeedForward

from .loading.config import DecoderConfig, check_choice
from .loading.gguf import EXPERTS, HEAD_NORMS, KEYS, NAMES, Gguf
from .loading.weights import gated_experts_apart

MODEL_TYPES = ("olmoe",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is that of an expert; queries, keys and values are clipped to
    ±`clip_qkv`.
    """

    model_type = "olmoe"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    clip_qkv: float | None = None
    num_experts: int = 64
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)


class Attention(JointNormAttention):
    """Self-attention whose queries and keys are normalised, all heads together, and clipped with the values."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__(
            layer, config.hidden_size, config.heads(), rotary, config.rms_norm_eps, bias=config.attention_bias
        )
        self.clip = config.clip_qkv

    def normalized(self, qkv: Tensor) -> Tensor:
        y = super().normalized(qkv)
        return y if self.clip is None else y.clamp(-self.clip, self.clip)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = Attention(config, layer, rotary)
        feed_forward = SparseFeedForward(
            size, config.intermediate_size, config.num_experts, config.num_experts_per_tok, config.hidden_act,
            normalized=config.norm_topk_prob,
        )  # fmt: skip
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class OlmoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf(
    "olmoe", names=NAMES | HEAD_NORMS | EXPERTS,
    keys=KEYS | {"num_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"causal-lm": OlmoeForCausalLM}
