"""LLaDA (Nie et al. 2025, arXiv 2502.09992): Llama's blocks without a causal mask, trained to fill masked places; and
LLaDA-MoE (Zhu et al. 2025, arXiv 2509.24389), with experts, and queries and keys that are normalised head by head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import HeadNormAttention, PreNormBlock
from pyapp.nn.encoders.masked_diffusion import Denoising, MaskedDiffusionModel
from pyapp.nn.layers.experts import SparseFeedForward
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, check_choice, check_form, check_token, require
from .loading.gguf import (
    BOTH_WAYS,
    EXPERTS,
    HEAD_NORMS,
    KEYS,
    NAMES,
    TENSOR_SCALINGS,
    Gguf,
    diffusion_keys,
    pairs_of_llama,
    with_mask,
)
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("llada", "lladamoe")
BLOCK_LENGTH = 32  # of the texts that its authors measured
# Fields that the files of LLaDA without experts, whose code is that of the first OLMo, call otherwise.
FIELDS = {
    "d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads", "mlp_hidden_size": "intermediate_size", "weight_tying": "tie_word_embeddings",
    "max_sequence_length": "max_position_embeddings", "embedding_size": "vocab_size", "activation_type": "hidden_act",
    "include_qkv_bias": "attention_bias",
}  # fmt: skip
# What else that code could do, and no published model does.
FORM = {
    "alibi": False, "rope": True, "block_type": "llama", "layer_norm_type": "rms", "attention_layer_norm": False,
    "include_bias": False, "scale_logits": False, "input_emb_norm": False, "block_group_size": 1,
}  # fmt: skip
# The same of the model with experts.
EXPERTS_FORM = {"moe_router_score_function": "softmax", "moe_router_enable_expert_bias": False}
# The names of parameters in the files of LLaDA without experts.
OWN = {
    "transformer.wte.": "embed_tokens.", "transformer.ln_f.": "norm.", "transformer.blocks.": "layers.",
    ".attn_norm.": ".input_layernorm.", ".ff_norm.": ".post_attention_layernorm.", ".q_proj.": ".self_attn.q_proj.",
    ".k_proj.": ".self_attn.k_proj.", ".v_proj.": ".self_attn.v_proj.", ".attn_out.": ".self_attn.o_proj.",
    ".ff_proj.": ".mlp.gate_proj.", ".up_proj.": ".mlp.up_proj.", ".ff_out.": ".mlp.down_proj.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. `intermediate_size` is that of an expert where there are `num_experts`."""

    model_type = "llada"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    mask_token_id: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_experts: int = 0
    num_experts_per_tok: int = 0
    norm_topk_prob: bool = False
    qk_layernorm: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        values = {**values, **{new: values[old] for old, new in FIELDS.items() if values.get(old) is not None}}
        experts = values.get("num_experts")
        check_form({name: values[name] for name in FORM if values.get(name) is not None}, FORM)
        require(not values.get("clip_qkv"), f"clip_qkv is {values.get('clip_qkv')!r:.40}, and only null is known")
        one_head = values.get("multi_query_attention") and "n_kv_heads" not in values
        values |= {"num_key_value_heads": 1} if one_head else {}
        if experts:
            check_form({name: values[name] for name in EXPERTS_FORM if values.get(name) is not None}, EXPERTS_FORM)
            shared = values.get("shared_expert_intermediate_size") or 0
            require(shared in (0, -1), f"shared_expert_intermediate_size is {shared!r:.40}, and only null is known")
            places = values.get("moe_layer_freq")
            layers = values.get("num_hidden_layers")
            require(
                not places or places in (1, [1] * layers if type(layers) is int and layers < 1024 else None),
                f"moe_layer_freq is {places!r:.60}, and only layers that all have experts are known",
            )
            size = values.get("expert_intermediate_size", values.get("intermediate_size"))
            values = {"mask_token_id": 156_895} | values | {"intermediate_size": size}
        else:
            ratio, size = values.get("mlp_ratio", 4), values.get("hidden_size")
            if type(ratio) is int and type(size) is int:
                values = {"intermediate_size": ratio * size} | values
            values = {"mask_token_id": 126_336, "rope_theta": 500_000.0} | values
        found: Config = super().from_dict(values)
        return found

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_experts)
        require(
            not self.num_experts or self.num_experts_per_tok > 0,
            f"num_experts_per_tok is {self.num_experts_per_tok}, of {self.num_experts} experts",
        )
        check_token("mask_token_id", self.mask_token_id, self.vocab_size)


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon, bias = config.hidden_size, config.rms_norm_eps, config.attention_bias
        attention = (
            HeadNormAttention(layer, size, config.heads(), rotary, epsilon, bias=bias, output_bias=False)
            if config.qk_layernorm
            else GroupedQueryAttention(layer, size, config.heads(), rotary, bias=bias, output_bias=False)
        )
        feed_forward: Module = (
            SparseFeedForward(
                size, config.intermediate_size, config.num_experts, config.num_experts_per_tok, config.hidden_act,
                normalized=config.norm_topk_prob,
            )
            if config.num_experts
            else GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        )  # fmt: skip
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class LLaDA(MaskedDiffusionModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))
        self.denoising = Denoising(config.mask_token_id, block_length=BLOCK_LENGTH)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: LLaDA without experts has other names."""
    if "transformer." not in name:
        return name
    if name.endswith("transformer.ff_out.weight"):
        return "lm_head.weight"
    for own, ours in OWN.items():
        name = name.replace(own, ours, 1)
    return name


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """How published files store the experts: each matrix by itself."""
    return gated_experts_apart(config, tensors) if config.num_experts else {}


def _with_experts(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return with_mask(found, values) | {"qk_layernorm": True, "norm_topk_prob": False}


def _of_experts(config: Config) -> dict[str, Any]:
    require(
        config.qk_layernorm and not config.norm_topk_prob,
        "llama.cpp's llada-moe has norms of queries and keys, and shares of experts as they are", "Write safetensors",
    )  # fmt: skip
    return BOTH_WAYS


GGUF = Gguf(
    "llada", order=pairs_of_llama, read=with_mask, write=lambda config: BOTH_WAYS, scalings=TENSOR_SCALINGS,
    whole_keys=diffusion_keys(False),
    unsaid=("attention_bias",),
    others=(
        Gguf(
            "llada-moe", names=NAMES | HEAD_NORMS | EXPERTS, read=_with_experts, write=_of_experts,
            whole_keys=diffusion_keys(False),
            keys={name: key for name, key in KEYS.items() if name != "intermediate_size"} | {
                "num_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
                "intermediate_size": "expert_feed_forward_length",
            },
            suits=lambda config: config.num_experts > 0,
        ),
    ),
)  # fmt: skip
TASKS = {"text-diffusion": LLaDA}
