"""LFM2 (Liquid AI 2025, arXiv 2511.23404): most layers mix a token with the two before it by a gated convolution, some
attend. LFM2-MoE has mixtures of experts in all but its first layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention
from pyapp.nn.layers.experts import BiasedFeedForward, Experts, GroupedRouter
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.short_convolution import ShortConvolution

from .loading.config import LARGEST, LIMITS, DecoderConfig, check_choice, require
from .loading.gguf import BIAS_FORM, KEYS, SIGMOID, Gguf, GgufForm, attending
from .loading.qwen_experts import GGUF_KEYS
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("lfm2", "lfm2_moe")
CONVOLUTION, ATTENTION = "conv", "full_attention"  # kinds of layers
LARGEST_KERNEL = 1 << 8


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is what the file's sizes come to. num_experts 0: no layer has
    experts; else those from number num_dense_layers on.
    """

    model_type = "lfm2"
    defaults = {
        "max_position_embeddings": 128000, "rope_theta": 1000000.0, "tie_word_embeddings": True,
        "num_key_value_heads": 8,
    }  # fmt: skip

    intermediate_size: int
    norm_eps: float = 1e-5
    conv_bias: bool = False
    conv_L_cache: int = 3
    layer_types: list[str]
    block_auto_adjust_ff_dim: bool = False
    num_experts: int = 0
    num_dense_layers: int = 0
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 1792
    use_expert_bias: bool = True
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_experts:
            check_choice(self.num_experts_per_tok, self.num_experts)
        kernel = self.conv_L_cache
        require(2 <= kernel <= LARGEST_KERNEL, f"conv_L_cache is {kernel}, expected 2 to {LARGEST_KERNEL}")
        kinds = self.layer_types
        known = len(kinds) == self.num_hidden_layers and {*map(str, kinds)} <= {CONVOLUTION, ATTENTION}
        require(known, f"layer_types is {kinds!r:.60}, expected {self.num_hidden_layers} of conv or full_attention")

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, from the numbers of those that attend, and the size of the
        feed-forward part.
        """
        layers, at = values.get("num_hidden_layers"), values.get("full_attn_idxs")
        kinds = values.get("layer_types")
        if kinds is None and type(layers) is int and 1 <= layers <= LIMITS["num_hidden_layers"]:
            there = range(layers) if not isinstance(at, list) else at
            kinds = [ATTENTION if layer in there else CONVOLUTION for layer in range(layers)]
        sparse = values.get("model_type") == "lfm2_moe"
        size = values.get("intermediate_size", 7168) if sparse else _inner(values)
        experts = {"num_experts": 32, "num_dense_layers": 2} if sparse else {}
        tied = values.get("tie_embedding", values["tie_word_embeddings"])
        given = {"layer_types": kinds, "intermediate_size": size, "tie_word_embeddings": tied}
        return experts | values | given | {"block_auto_adjust_ff_dim": False} | ({} if sparse else {"num_experts": 0})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | ({"model_type": "lfm2_moe"} if self.num_experts else {})


def _inner(values: Mapping[str, Any]) -> Any:
    """The features inside the feed-forward part."""
    size = values.get("block_ff_dim") or values.get("intermediate_size", 12288)
    if values.get("block_auto_adjust_ff_dim") is False or type(size) is not int:
        return size
    factor, multiple = values.get("block_ffn_dim_multiplier", 1.0), values.get("block_multiple_of", 256)
    require(type(factor) in (int, float) and 0 < factor <= 64, f"block_ffn_dim_multiplier is {factor!r:.60}")
    require(type(multiple) is int and 1 <= multiple <= LARGEST, f"block_multiple_of is {multiple!r:.60}")
    return -(-int(factor * int(2 * size / 3)) // multiple) * multiple


class Attention(HeadNormAttention):
    """Self-attention with normalised queries and keys."""

    output, norms = "out_proj", ("q_layernorm", "k_layernorm")


def sparse_feed_forward(config: Config) -> BiasedFeedForward:
    """The mixture of experts of a layer."""
    router = GroupedRouter(
        config.hidden_size, config.num_experts, config.num_experts_per_tok, normalized=config.norm_topk_prob,
        scaling=config.routed_scaling_factor, biased=False, epsilon=1e-6,
    )  # fmt: skip
    experts = Experts(config.hidden_size, config.moe_intermediate_size, config.num_experts)
    return BiasedFeedForward(router, experts, "expert_bias" if config.use_expert_bias else None)


class Block(Module):
    """Attention or a convolution, and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.norm_eps
        self.attends = config.layer_types[layer] == ATTENTION
        if self.attends:
            self.self_attn = Attention(layer, size, config.heads(), rotary, epsilon)
        else:
            self.conv = ShortConvolution(size, config.conv_L_cache, layer, config.conv_bias)
        self.feed_forward: Module = (
            sparse_feed_forward(config)
            if config.num_experts and layer >= config.num_dense_layers
            else GatedFeedForward(size, config.intermediate_size, names=("w1", "w3", "w2"))
        )
        self.operator_norm = RMSNorm(size, epsilon)
        self.ffn_norm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixer: Module = self.self_attn if self.attends else self.conv
        x = mixer(self.operator_norm(x), text, x)
        y: Tensor = self.feed_forward(self.ffn_norm(x), x)
        return y


class Lfm2Stack(DecoderStack):
    """The decoder, whose last norm has another name."""

    last_norm = "embedding_norm"


class Lfm2ForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()), config.hidden_size
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, Lfm2Stack(config.vocab_size, size, blocks, RMSNorm(size, config.norm_eps)))
        state = [(config.conv_L_cache - 1, size)]
        self.state_shapes = [None if kind == ATTENTION else state for kind in config.layer_types]


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    place, parts = "feed_forward.experts", ("w1", "w3", "w2")
    return experts_apart(tensors, place, parts, config.num_experts, config.num_hidden_layers, place)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers attend: those with heads of keys."""
    attends, heads = attending(found)
    given = {"layer_types": [ATTENTION if a else CONVOLUTION for a in attends], "num_key_value_heads": heads}
    kind = "lfm2_moe" if found.get("num_experts") else "lfm2"
    biased = any(name.endswith("exp_probs_b.bias") for name in values["tensors"])
    return found | given | {"block_auto_adjust_ff_dim": False, "model_type": kind, "use_expert_bias": biased}


def _to_gguf(config: Config) -> dict[str, Any]:
    heads = [config.num_key_value_heads if kind == ATTENTION else 0 for kind in config.layer_types]
    return {"attention.head_count_kv": heads} | ({"expert_gating_func": SIGMOID} if config.num_experts else {})


_NAMES = {
    "model.embed_tokens": "token_embd", "model.embedding_norm": "token_embd_norm", "lm_head": "output",
    "model.layers.{}.operator_norm": "blk.{}.attn_norm", "model.layers.{}.ffn_norm": "blk.{}.ffn_norm",
    "model.layers.{}.self_attn.q_proj": "blk.{}.attn_q", "model.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "model.layers.{}.self_attn.v_proj": "blk.{}.attn_v",
    "model.layers.{}.self_attn.out_proj": "blk.{}.attn_output",
    "model.layers.{}.self_attn.q_layernorm": "blk.{}.attn_q_norm",
    "model.layers.{}.self_attn.k_layernorm": "blk.{}.attn_k_norm",
    "model.layers.{}.conv.conv": "blk.{}.shortconv.conv",
    "model.layers.{}.conv.in_proj": "blk.{}.shortconv.in_proj",
    "model.layers.{}.conv.out_proj": "blk.{}.shortconv.out_proj",
    "model.layers.{}.feed_forward.w1": "blk.{}.ffn_gate", "model.layers.{}.feed_forward.w3": "blk.{}.ffn_up",
    "model.layers.{}.feed_forward.w2": "blk.{}.ffn_down",
}  # fmt: skip
_EXPERTS = {
    "model.layers.{}.feed_forward.gate": "blk.{}.ffn_gate_inp",
    "model.layers.{}.feed_forward.expert_bias": "blk.{}.exp_probs_b.bias",
    "model.layers.{}.feed_forward.experts.gate_up_proj": "blk.{}.ffn_gate_exps blk.{}.ffn_up_exps",
    "model.layers.{}.feed_forward.experts.down_proj": "blk.{}.ffn_down_exps",
}
GGUF = Gguf(
    "lfm2", read=_from_gguf, write=_to_gguf, names=_NAMES,
    keys={name: key for name, key in KEYS.items() if name != "rms_norm_eps"} | {
        "norm_eps": KEYS["rms_norm_eps"], "conv_L_cache": "shortconv.l_cache",
    },
    forms={".conv.conv.weight": GgufForm(shape=lambda config, shape: (shape[0], shape[2]))},
    unsaid=("num_dense_layers", "num_experts_per_tok", "moe_intermediate_size", "use_expert_bias"),
)  # fmt: skip
GGUF = replace(GGUF, others=(
    replace(
        GGUF, architecture="lfm2moe", suits=lambda config: config.num_experts > 0, names=_NAMES | _EXPERTS, unsaid=(),
        keys={**GGUF.keys, **GGUF_KEYS, "num_dense_layers": "leading_dense_block_count"},
        forms={**GGUF.forms, ".expert_bias": BIAS_FORM},
    ),
))  # fmt: skip
TASKS = {"causal-lm": Lfm2ForCausalLM}
