"""Kolibri 1 (Aleph Alpha 2026, https://huggingface.co/Aleph-Alpha/Kolibri-1): blocks with norms on both sides of each
part, a window in four of five layers and rotary positions only there, and a few of many small experts beside one that
every token has.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, RotaryLanguageModel, SandwichNormBlock
from pyapp.nn.layers.experts import Experts, GroupedRouter, RoutedFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import SLIDING, DecoderConfig, check_choice, layer_types, require
from .loading.stored import renaming
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("kolibri1",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "kolibri1"
    defaults = {"max_position_embeddings": 262144, "num_key_value_heads": 4, "head_dim": 128}

    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    num_experts: int = 384
    num_experts_per_tok: int = 6
    norm_topk_prob: bool = False
    sliding_window: int | None = 513
    layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers, and the number of experts, which has two names."""
        experts = {"num_experts": values["num_local_experts"]} if "num_local_experts" in values else {}
        return experts | values | {"layer_types": layer_types(values, lambda layer: (layer + 1) % 5 != 0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        windows = SLIDING not in self.layer_types or self.sliding_window is not None
        require(windows, "sliding_window is null, and some of layer_types slide")


class LogitRouter(GroupedRouter):
    """Chooses by the logits and the bias; the shares are the sigmoids of the chosen logits."""

    def forward(self, x: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (N, D) → shares (N, count) and experts (N, count) int64."""
        logits = self.logits(x)  # (N, E)
        chosen = (logits + self.e_score_correction_bias).topk(self.count, -1)[1]
        shares = logits.gather(1, chosen).sigmoid()
        return (shares / shares.sum(-1, True) if self.normalized else shares), chosen


class Block(SandwichNormBlock):
    """Attention and experts, each between two norms, with a residual around it."""

    attention_norm, inner = "post_self_attn_layernorm", ("post_attention_layernorm", "post_mlp_layernorm")

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, act = config.hidden_size, config.rms_norm_eps, config.hidden_act
        slides = config.layer_types[layer] == SLIDING
        heads = config.heads(window=config.sliding_window if slides else None)
        placed = rotary if slides or config.sliding_window is None else None
        router = LogitRouter(size, config.num_experts, config.num_experts_per_tok, normalized=config.norm_topk_prob)
        experts = Experts(size, config.moe_intermediate_size, config.num_experts, act)
        shared = GatedFeedForward(size, config.shared_expert_intermediate_size, act)
        super().__init__(
            HeadNormAttention(layer, size, heads, placed, epsilon),
            RoutedFeedForward(router, experts, shared=("shared_experts", shared)),
            partial(RMSNorm, size, epsilon),
        )


class KolibriForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


# The parameter of a file's tensor.
renamed = renaming({
    "moe.router.expert_bias": "mlp.gate.e_score_correction_bias", "post_attn_norm": "post_self_attn_layernorm",
    "post_ffn_norm": "post_mlp_layernorm",
})  # fmt: skip
stored = gated_experts_apart
TASKS = {"causal-lm": KolibriForCausalLM}
