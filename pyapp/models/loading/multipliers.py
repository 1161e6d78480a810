"""The fields of config.json and the keys of GGUF that Granite's models share: factors of embeddings, scores, residuals
and logits.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass

from .config import DecoderConfig, check_positive
from .gguf import KEYS

MULTIPLIER_KEYS = KEYS | {
    "attention_multiplier": "attention.scale", "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale", "logits_scaling": "logit_scale",
}  # fmt: skip
# Of models with experts, one of them for every token.
EXPERT_KEYS = {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"}
EXPERT_NAMES = {
    "model.layers.{}.block_sparse_moe.router": "blk.{}.ffn_gate_inp",
    "model.layers.{}.block_sparse_moe.experts.gate_up_proj": "blk.{}.ffn_gate_exps blk.{}.ffn_up_exps",
    "model.layers.{}.block_sparse_moe.experts.down_proj": "blk.{}.ffn_down_exps",
    "model.layers.{}.shared_mlp.input_linear": "blk.{}.ffn_gate_shexp blk.{}.ffn_up_shexp",
    "model.layers.{}.shared_mlp.output_linear": "blk.{}.ffn_down_shexp",
}

OLDER = {
    "router.layer.weight": "router.weight", "input_linear.weight": "experts.gate_up_proj",
    "output_linear.weight": "experts.down_proj",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MultiplierConfig(DecoderConfig):
    """The fields of config.json."""

    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    embedding_multiplier: float = 1.0
    logits_scaling: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "logits_scaling")

    @property
    def logit_factor(self) -> float:
        """What logits are multiplied by."""
        return 1 / self.logits_scaling


def older_experts(name: str) -> str:
    """The parameter of a file's tensor: older files have other names of the experts."""
    before, place, last = name.rpartition("block_sparse_moe.")
    return f"{before}{place}{OLDER.get(last, last)}" if place else name
