"""Granite 4 (IBM Research 2025): Granite's blocks, of which most mix tokens by Mamba 2 and some attend, without
positions in most models; with an expert that every token has, and in larger models a mixture of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.scaled_decoder import ScaledLanguageModel, ScaledSharedFeedForward, sparse_feed_forward
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.mamba2 import Mamba2Mixer

from .loading.config import check_choice, layers_in, require
from .loading.gguf import NAMES, Gguf, attending, mamba2_forms, mamba2_names, pairs_of_llama
from .loading.mamba_layers import MAMBA_FIELD_KEYS, MambaFields, from_gguf, inner_size, mamba_fields
from .loading.multipliers import EXPERT_KEYS, EXPERT_NAMES, MULTIPLIER_KEYS, MultiplierConfig

MODEL_TYPES = ("granitemoehybrid",)
KINDS = {"mamba": "mamba", "linear_attention": "mamba", "attention": "attention", "full_attention": "attention"}
OLDER = {
    "router.layer.weight": "router.weight", "input_linear.weight": "experts.gate_up_proj",
    "output_linear.weight": "experts.down_proj",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(MambaFields, MultiplierConfig):
    """The fields of config.json. num_local_experts 0: only the expert of every token. position_embedding_type None: no
    positions; "rope": rotary ones.
    """

    model_type = "granitemoehybrid"

    num_local_experts: int = 0
    num_experts_per_tok: int = 2
    shared_intermediate_size: int = 1024
    position_embedding_type: str | None = None
    layer_types: list[str]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, and the sizes of heads of Mamba 2."""
        layers = layers_in(values)
        kinds = values.get("layer_types") or values.get("layers_block_type") or ["mamba"] * layers
        known = isinstance(kinds, list | tuple) and len(kinds) == layers and {*map(str, kinds)} <= {*KINDS}
        require(known, f"layer_types is {kinds!r:.60}, expected {layers} of mamba or attention")
        given = {"num_local_experts": 8, "num_experts_per_tok": 2} | values
        if given.get("position_embedding_type") == "nope":
            given["position_embedding_type"] = None
        if not given["num_local_experts"]:
            given["num_experts_per_tok"] = 1
        return given | {"layer_types": [KINDS[kind] for kind in kinds]} | mamba_fields(values)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_mamba()
        if self.num_local_experts:
            check_choice(self.num_experts_per_tok, self.num_local_experts)
        place = self.position_embedding_type
        require(place in (None, "rope"), f"position_embedding_type is {place!r:.40}, expected rope or null")


class Block(Module):
    """Attention or a mixer, and feed-forward, each with a norm before it, scaled and added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.attends = config.layer_types[layer] == "attention"
        if self.attends:
            self.self_attn = GroupedQueryAttention(
                layer, size, config.heads(scale=config.attention_multiplier),
                rotary if config.position_embedding_type == "rope" else None, bias=config.attention_bias,
            )  # fmt: skip
        else:
            settings = config.mamba_settings(epsilon, config.hidden_act, output_bias=config.mamba_proj_bias)
            self.mamba = Mamba2Mixer(size, settings, layer)
        self.block_sparse_moe = sparse_feed_forward(config) if config.num_local_experts else None
        self.shared_mlp = ScaledSharedFeedForward(config)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.scale = config.residual_multiplier

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixer: Module = self.self_attn if self.attends else self.mamba
        x = x + mixer(self.input_layernorm(x), text) * self.scale
        own = self.post_attention_layernorm(x)
        y: Tensor = self.shared_mlp(own)
        if self.block_sparse_moe is not None:
            y = y + self.block_sparse_moe(own)
        return x + y * self.scale


class GraniteMoeHybridForCausalLM(ScaledLanguageModel, HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block)
        states = config.mamba_settings(config.rms_norm_eps, config.hidden_act).states
        self.state_shapes = [states if kind == "mamba" else None for kind in config.layer_types]


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files have older names of the experts."""
    before, place, last = name.rpartition("block_sparse_moe.")
    return f"{before}{place}{OLDER.get(last, last)}" if place else name


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    attends, heads = attending(found)
    shared = values.get("expert_shared_feed_forward_length") or found.get("intermediate_size")
    rotated = values.get("rope.scaling.finetuned", True)
    return from_gguf({"num_local_experts": 0} | found, values) | {
        "layer_types": ["attention" if a else "mamba" for a in attends], "num_key_value_heads": heads,
        "shared_intermediate_size": shared, "position_embedding_type": "rope" if rotated else None,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    heads = [config.num_key_value_heads if kind == "attention" else 0 for kind in config.layer_types]
    return {
        "attention.head_count_kv": heads, "rope.scaling.finetuned": config.position_embedding_type == "rope",
        "expert_shared_feed_forward_length": config.shared_intermediate_size,
    } | inner_size(config)  # fmt: skip


def _names_of(config: Config) -> dict[str, str]:
    """Those of the expert of every token where there are no others."""
    names = {
        "model.layers.{}.shared_mlp.input_linear": "blk.{}.ffn_gate blk.{}.ffn_up",
        "model.layers.{}.shared_mlp.output_linear": "blk.{}.ffn_down",
    }
    return {} if config.num_local_experts else names


GGUF = Gguf(
    "granitehybrid", order=pairs_of_llama, read=_from_gguf, write=_to_gguf, names_of=_names_of,
    names=NAMES | EXPERT_NAMES | mamba2_names("model.layers.{}.mamba"),
    keys=MULTIPLIER_KEYS | EXPERT_KEYS | MAMBA_FIELD_KEYS,
    forms=mamba2_forms("mamba", lambda config: config.mamba_n_groups),
)  # fmt: skip
TASKS = {"causal-lm": GraniteMoeHybridForCausalLM}
