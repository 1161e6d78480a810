"""What the mixtures of experts of Qwen share: fields of config.json, and the forms of their files."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass

from .config import DecoderConfig, check_choice, require
from .gguf import refuse_windows

GGUF_KEYS = {
    "num_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
}  # fmt: skip
SHARED_EXPERT = {
    "model.layers.{}.mlp.shared_expert.gate_proj": "blk.{}.ffn_gate_shexp",
    "model.layers.{}.mlp.shared_expert.up_proj": "blk.{}.ffn_up_shexp",
    "model.layers.{}.mlp.shared_expert.down_proj": "blk.{}.ffn_down_shexp",
    "model.layers.{}.mlp.shared_expert_gate": "blk.{}.ffn_gate_inp_shexp",
}


@dataclass(frozen=True, kw_only=True)
class QwenExpertsConfig(DecoderConfig):
    """The fields of config.json that say which layers have experts, and how many."""

    intermediate_size: int
    moe_intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    num_experts: int
    num_experts_per_tok: int
    norm_topk_prob: bool = False
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int]
    use_sliding_window: bool = False
    sliding_window: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the number of experts, which has two names."""
        experts = {"num_experts": values.get("num_experts", values.get("num_local_experts"))}
        return {"mlp_only_layers": []} | values | experts

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return layer not in self.mlp_only_layers and (layer + 1) % self.decoder_sparse_step == 0


def to_gguf(config: QwenExpertsConfig) -> dict[str, Any]:
    """No further keys. ModelError for a model that llama.cpp has no form for."""
    require(
        all(config.is_sparse(i) for i in range(config.num_hidden_layers)),
        "llama.cpp has experts in each layer of this architecture",
        "Write safetensors",
    )
    return refuse_windows(config)
