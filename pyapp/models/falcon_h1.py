"""Falcon-H1 (Zuo et al. 2025, arXiv 2507.22448): in every block attention and a mixer of Mamba 2 side by side, with
factors for nearly all parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat, full
from pyapp.nn import Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.mamba2 import Mamba2Mixer, Mamba2Settings

from .loading.config import DecoderConfig, require
from .loading.gguf import KEYS, Gguf, GgufForm, key_lengths, mamba2_forms, mamba2_names
from .loading.mamba_layers import MAMBA_FIELD_KEYS, MambaFields, from_gguf, inner_size, mamba_fields

MODEL_TYPES = ("falcon_h1",)


@dataclass(frozen=True, kw_only=True)
class Config(MambaFields, DecoderConfig):
    """The fields of config.json. The mlp_multipliers are those of the gate and of the result; the ssm_multipliers those
    of the gate, the channels, what goes into the state and out of it, and the steps.
    """

    model_type = "falcon_h1"
    defaults = {"max_position_embeddings": 8192, "num_key_value_heads": 8}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    projectors_bias: bool = False
    mamba_rms_norm: bool = False
    mamba_norm_before_gate: bool = True
    embedding_multiplier: float = 1.0
    lm_head_multiplier: float = 1.0
    key_multiplier: float = 1.0
    attention_in_multiplier: float = 1.0
    attention_out_multiplier: float = 1.0
    ssm_in_multiplier: float = 1.0
    ssm_out_multiplier: float = 1.0
    mlp_multipliers: list[float]
    ssm_multipliers: list[float]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the sizes of heads of Mamba 2, and the usual factors."""
        inner = values.get("mamba_d_ssm", 1024)
        given: dict[str, Any] = {"mlp_multipliers": [1.0] * 2, "ssm_multipliers": [1.0] * 5}
        if not values.get("mamba_rms_norm"):
            values = values | {"mamba_norm_before_gate": True}  # there is no norm
        return given | values | mamba_fields(values, inner)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_mamba()
        for name, count in (("mlp_multipliers", 2), ("ssm_multipliers", 5)):
            factors = getattr(self, name)
            known = len(factors) == count and all(type(factor) in (int, float) for factor in factors)
            require(known, f"{name} is {factors!r:.60}, expected {count} numbers")

    @property
    def mixer(self) -> Mamba2Settings:
        """The sizes of a block's mixer."""
        return self.mamba_settings(
            self.rms_norm_eps, self.hidden_act, output_bias=self.projectors_bias, factors=tuple(self.ssm_multipliers),
            norm=self.mamba_rms_norm, gate_last=self.mamba_norm_before_gate,
        )  # fmt: skip


class Attention(GroupedQueryAttention):
    """Self-attention with scaled keys."""

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable, bias: bool, factor: float
    ) -> None:  # fmt: skip
        super().__init__(layer, hidden_size, heads, rotary, bias=bias)
        self.factor = factor

    def normalized(self, qkv: Tensor) -> Tensor:
        inner, kv = self.q_proj.out_features, self.k_proj.out_features
        keys = qkv.narrow(-1, inner, kv) * self.factor
        return cat([qkv.narrow(-1, 0, inner), keys, qkv.narrow(-1, inner + kv, kv)], -1)


class FeedForward(Module):
    """down_proj(up_proj(x) * activation(gate_proj(x))), with factors of the gate and of the result."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = Linear(size, inner, bias=bias)
        self.up_proj = Linear(size, inner, bias=bias)
        self.down_proj = ResidualLinear(inner, size, bias=bias)
        self.activation = activation_named(config.hidden_act)
        self.of_gate, self.of_result = config.mlp_multipliers

    def forward(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size)."""
        return self.down_proj(self.up_proj(x) * self.activation(self.gate_proj(x) * self.of_gate)) * self.of_result


class Block(Module):
    """Attention and a mixer of the same norm, both added to the residual, then feed-forward. The cache has the states
    of the mixer in layer 2 i, the keys and values in layer 2 i + 1.
    """

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.mamba = Mamba2Mixer(size, config.mixer, 2 * layer)
        self.self_attn = Attention(
            2 * layer + 1, size, config.heads(), rotary, config.attention_bias, config.key_multiplier
        )
        self.feed_forward = FeedForward(config)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.pre_ff_layernorm = RMSNorm(size, epsilon)
        self.to_mixer, self.from_mixer = config.ssm_in_multiplier, config.ssm_out_multiplier
        self.to_attention, self.from_attention = config.attention_in_multiplier, config.attention_out_multiplier

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.input_layernorm(x)
        mixed = self.mamba(own * self.to_mixer, text) * self.from_mixer
        attended = self.self_attn(own * self.to_attention, text) * self.from_attention
        x = x + mixed + attended
        return x + self.feed_forward(self.pre_ff_layernorm(x))


class FalconH1Stack(DecoderStack):
    """The decoder, whose embeddings are scaled by `scale`."""

    last_norm = "final_layernorm"
    scale = 1.0

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embed_tokens(tokens) * self.scale


class FalconH1ForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()), config.hidden_size
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        stack = FalconH1Stack(config.vocab_size, size, blocks, RMSNorm(size, config.rms_norm_eps))
        stack.scale = config.embedding_multiplier
        super().__init__(config, stack)
        self.state_shapes = [config.mixer.states, None] * config.num_hidden_layers

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x) * self.config.lm_head_multiplier


def _scale(name: str, config: Config) -> float | Tensor | None:
    """The factors of a parameter: GGUF files have them in the weights."""
    part, last = name.split(".")[-2:]
    factor, own = 1.0, last == "weight"  # what scales the input of a layer does not scale its bias
    if part == "in_proj":
        mixer = config.mixer
        rows = zip(config.ssm_multipliers, (mixer.inner, mixer.inner, mixer.shared, mixer.shared, mixer.heads),
            strict=True)  # fmt: skip
        return cat([full((size,), factor) for factor, size in rows]) * (config.ssm_in_multiplier if own else 1.0)
    if part in ("q_proj", "k_proj", "v_proj"):
        factor = (config.key_multiplier if part == "k_proj" else 1.0) * (config.attention_in_multiplier if own else 1.0)
    factors = {
        "o_proj": config.attention_out_multiplier, "out_proj": config.ssm_out_multiplier,
        "gate_proj": config.mlp_multipliers[0], "down_proj": config.mlp_multipliers[1],
        "lm_head": config.lm_head_multiplier, "embed_tokens": config.embedding_multiplier,
    }  # fmt: skip
    factor = factors.get(part, factor)
    return None if factor == 1.0 else factor


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    there = values["tensors"]
    norm = "blk.0.ssm_norm.weight" in there  # after the gate, as llama.cpp has it
    return from_gguf(found, values) | {
        "mamba_rms_norm": norm, "mamba_norm_before_gate": not norm, "mlp_bias": "blk.0.ffn_up.bias" in there,
        "projectors_bias": "blk.0.ssm_out.bias" in there,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    alike = not config.tie_word_embeddings or config.embedding_multiplier == config.lm_head_multiplier
    require(alike, "GGUF cannot say other factors of logits than of embeddings with the same weight")
    return key_lengths(config) | inner_size(config)


_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "pre_ff_layernorm": "ffn_norm",
    "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
}  # fmt: skip
GGUF = Gguf(
    "falcon-h1", scale=_scale, read=_from_gguf, write=_to_gguf, keys=KEYS | MAMBA_FIELD_KEYS,
    names={"model.embed_tokens": "token_embd", "model.final_layernorm": "output_norm", "lm_head": "output"}
    | {f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _NAMES.items()}
    | mamba2_names("model.layers.{}.mamba"),
    forms=mamba2_forms("mamba", lambda config: config.mamba_n_groups)
    | {".pre_ff_layernorm.weight": GgufForm(bare=True)},
    unsaid=(
        "embedding_multiplier", "lm_head_multiplier", "key_multiplier", "attention_in_multiplier",
        "attention_out_multiplier", "ssm_in_multiplier", "ssm_out_multiplier", "mlp_multipliers", "ssm_multipliers",
    ),
)  # fmt: skip
TASKS = {"causal-lm": FalconH1ForCausalLM}
