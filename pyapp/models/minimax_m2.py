"""MiniMax M2 (MiniMax 2025, https://github.com/MiniMax-AI/MiniMax-M2): Mixtral's blocks with queries and keys that are
normalised, all heads together, rotary positions in a part of each head, and experts chosen by sigmoids with a bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import JointNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import BiasedFeedForward, Experts, GroupedRouter

from .loading.config import DecoderConfig, check_choice, require
from .loading.gguf import BIAS_FORM, EXPERTS, HEAD_NORMS, KEYS, NAMES, SIGMOID, Gguf, key_lengths
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("minimax_m2",)
# The layers that guess tokens ahead.
IGNORED = r"(model\.)?mtp\..*"


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is that of an expert."""

    model_type = "minimax_m2"
    defaults = {
        "max_position_embeddings": 196608, "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 5000000.0,
    }  # fmt: skip

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    num_local_experts: int = 256
    num_experts_per_tok: int = 8

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the share of a head that is rotated, which files give as its features."""
        rotated, size, parameters = values.get("rotary_dim"), values.get("head_dim"), values["rope_parameters"]
        if rotated is None or "partial_rotary_factor" in parameters:
            return values
        plausible = type(rotated) is int and type(size) is int and 2 <= rotated <= size
        require(plausible, f"rotary_dim is {rotated!r:.40}, of heads of {size!r:.40} features")
        return values | {"rope_parameters": parameters | {"partial_rotary_factor": rotated / size}}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)


class Block(PreNormBlock):
    """Attention and a mixture of experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, count = config.hidden_size, config.rms_norm_eps, config.num_local_experts
        attention = JointNormAttention(layer, size, config.heads(), rotary, epsilon)
        router = GroupedRouter(size, count, config.num_experts_per_tok, biased=False)
        feed_forward = BiasedFeedForward(router, Experts(size, config.intermediate_size, count, config.hidden_act))
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class MiniMaxM2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files call the experts block_sparse_moe."""
    return name if ".experts." in name else name.replace(".block_sparse_moe.", ".mlp.")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    place, parts = "block_sparse_moe.experts", ("w1", "w3", "w2")
    return experts_apart(tensors, place, parts, config.num_local_experts, config.num_hidden_layers)


def _to_gguf(config: Config) -> dict[str, Any]:
    inner = {"expert_feed_forward_length": config.intermediate_size}
    return key_lengths(config) | inner | {"expert_gating_func": SIGMOID}


GGUF = Gguf(
    "minimax-m2", write=_to_gguf, forms={".e_score_correction_bias": BIAS_FORM},
    names=NAMES | HEAD_NORMS | EXPERTS | {
        "model.layers.{}.mlp.e_score_correction_bias": "blk.{}.exp_probs_b.bias",
    },
    keys=KEYS | {"num_local_experts": "expert_count", "num_experts_per_tok": "expert_used_count"},
)  # fmt: skip
TASKS = {"causal-lm": MiniMaxM2ForCausalLM}
