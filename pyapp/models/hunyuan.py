"""Hunyuan (Tencent 2025, https://github.com/Tencent-Hunyuan/Hunyuan-A13B): Llama's blocks with norms of rotated queries
and keys; the larger models have mixtures of experts beside one that every token has. Maincoder (Maincode 2025,
https://huggingface.co/Maincode/Maincoder-1B) is the same with neighbouring rotary pairs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.decoders.decoder_blocks import LateNormAttention, PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, RoutedFeedForward, Router
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice, require
from .loading.gguf import EXPERTS, KEYS, NAMES, Gguf, biases
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("hunyuan_v1_dense", "hunyuan_v1_moe", "maincoder")

NORMS = {"q": ".self_attn.query_layernorm.", "k": ".self_attn.key_layernorm."}


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. num_experts 0: none; moe_topk: how many a token has, in each layer."""

    model_type = "hunyuan_v1_dense"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_experts: int = 0
    moe_topk: list[int]
    kind: str = "hunyuan_v1_dense"

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the experts of each layer."""
        layers, chosen = values.get("num_hidden_layers"), values.get("moe_topk", 1)
        kind = values.get("kind") or values.get("model_type") or cls.model_type
        experts = values.get("num_experts", 1) if kind == "hunyuan_v1_moe" else 0
        chosen = [chosen] * layers if type(layers) is int and type(chosen) is int and layers <= 1 << 10 else chosen
        return values | {"num_experts": experts, "moe_topk": chosen, "kind": kind}

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = self.moe_topk
        known = len(counts) == self.num_hidden_layers and all(type(count) is int and count >= 1 for count in counts)
        require(known, f"moe_topk is {counts!r:.60}, expected a number, or one for each layer")
        if self.num_experts:
            check_choice(max(counts), self.num_experts)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}


class Gate(Module):
    """The router of a layer, under the names of the files."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.wg = Router(config.hidden_size, config.num_experts, config.moe_topk[layer])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As Router.forward."""
        found: tuple[Tensor, Tensor] = self.wg(x)
        return found


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, inner, epsilon = config.hidden_size, config.intermediate_size, config.rms_norm_eps
        heads = config.heads(interleaved=config.kind == "maincoder")
        attention = LateNormAttention(layer, size, heads, rotary, epsilon, bias=config.attention_bias)
        feed_forward: Module = GatedFeedForward(size, inner, config.hidden_act)
        if config.num_experts:
            experts = Experts(size, inner, config.num_experts, config.hidden_act)
            feed_forward = RoutedFeedForward(Gate(config, layer), experts, shared=("shared_mlp", feed_forward))
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class HunyuanForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor: Maincoder's norms have other names."""
    return re.sub(r"\.self_attn\.(q|k)_norm\.", lambda found: NORMS[found[1]], name)


stored = gated_experts_apart


def _with_experts(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return biases(found, values) | {"model_type": "hunyuan_v1_moe"}


def _to_gguf(config: Config) -> dict[str, Any]:
    """The experts, of which llama.cpp has the same number in each layer."""
    alike = len({*config.moe_topk}) == 1
    require(alike, f"GGUF cannot say that layers have other numbers of experts: {config.moe_topk!r:.60}")
    inner = dict.fromkeys(("expert_feed_forward_length", "expert_shared_feed_forward_length"), config.intermediate_size)
    return {"expert_used_count": config.moe_topk[0], "expert_shared_count": 1} | inner


def _as_maincoder(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return biases(found, values) | {"model_type": "maincoder"}


_PARTS = {
    "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
    "mlp.gate.wg": "ffn_gate_inp", "mlp.shared_mlp.gate_proj": "ffn_gate_shexp",
    "mlp.shared_mlp.up_proj": "ffn_up_shexp", "mlp.shared_mlp.down_proj": "ffn_down_shexp",
}  # fmt: skip
GGUF = Gguf(
    "hunyuan-dense", read=biases, unsaid=("kind",),
    names=NAMES | EXPERTS | {f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
)  # fmt: skip
GGUF = replace(GGUF, others=(
    replace(GGUF, architecture="maincoder", read=_as_maincoder, suits=lambda config: config.kind == "maincoder"),
    replace(
        GGUF, architecture="hunyuan-moe", read=_with_experts, write=_to_gguf,
        suits=lambda config: config.num_experts > 0,
        keys=KEYS | {"num_experts": "expert_count", "moe_topk": "expert_used_count"},
    ),
))  # fmt: skip
TASKS = {"causal-lm": HunyuanForCausalLM}
