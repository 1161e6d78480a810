"""OLMoE (Muennighoff et al. 2024, arXiv 2409.02060): Llama's blocks with a mixture of experts, whose queries and keys
are normalised, all heads together. FlexOlmo (Shi et al. 2025, arXiv 2507.07024) has the norms of OLMo 2's blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import JointNormAttention, PostNormBlock, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import SparseFeedForward

from .loading.config import DecoderConfig, check_choice
from .loading.gguf import EXPERTS, HEAD_NORMS, KEYS, NAMES, Gguf
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("olmoe", "flex_olmo")


# What the config.json of FlexOlmo leaves out.
FLEX = {"rope_theta": 500000.0, "rms_norm_eps": 1e-6, "num_experts": 7, "num_experts_per_tok": 5}


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
    kind: str = "olmoe"  # the model_type

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        kind = values.get("kind", values.get("model_type", cls.model_type))
        return super().from_dict({**(FLEX if kind == "flex_olmo" else {}), **values, "kind": kind})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

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


def block(config: Config, layer: int, rotary: RotaryTable) -> Module:
    """Attention and feed-forward, each with a norm before it, or in FlexOlmo after it, and a residual around it."""
    size, epsilon = config.hidden_size, config.rms_norm_eps
    attention = Attention(config, layer, rotary)
    feed_forward = SparseFeedForward(
        size, config.intermediate_size, config.num_experts, config.num_experts_per_tok, config.hidden_act,
        normalized=config.norm_topk_prob,
    )  # fmt: skip
    if config.kind == "flex_olmo":
        return PostNormBlock(attention, feed_forward, partial(RMSNorm, size, epsilon))
    return PreNormBlock(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class OlmoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf(
    "olmoe", names=NAMES | HEAD_NORMS | EXPERTS,
    keys=KEYS | {"num_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
)  # fmt: skip

stored = gated_experts_apart
TASKS = {"causal-lm": OlmoeForCausalLM}
