"""Nemotron-H and Nemotron 3 (NVIDIA 2025, arXiv 2504.03624 and 2512.20848): each block is one part, a mixer of Mamba 2,
attention without positions, a feed-forward part without gates, or a mixture of such experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, GroupedQueryAttention
from pyapp.nn.layers.experts import Experts, GroupedRouter
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.mamba2 import Mamba2Mixer, Mamba2Settings

from .loading.config import LIMITS, DecoderConfig, check_choice, check_divides, check_groups, require, step_limits
from .loading.gguf import BIAS_FORM, KEYS, Gguf, attending, key_lengths, mamba2_forms, mamba2_names, pairs_of_llama
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("nemotron_h",)
IGNORED = r"mtp\..*"  # the layers that guess tokens ahead
MIXER, ATTENTION, DENSE, SPARSE = "linear_attention", "full_attention", "mlp", "moe"
LETTERS = {"M": MIXER, "*": ATTENTION, "-": DENSE, "E": SPARSE}  # of hybrid_override_pattern
OLDER = {"mamba": MIXER, "attention": ATTENTION}
OLDER_FIELDS = {
    "mamba_n_groups": "n_groups", "mamba_d_conv": "conv_kernel", "mamba_conv_bias": "use_conv_bias",
    "mamba_dt_limit": "time_step_limit",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "nemotron_h"
    defaults = {"max_position_embeddings": 4096, "num_key_value_heads": 8, "head_dim": 128}

    layers_block_type: list[str]
    intermediate_size: int = 21504
    mlp_hidden_act: str = "relu2"
    mlp_bias: bool = False
    layer_norm_epsilon: float = 1e-5
    mamba_num_heads: int = 128
    mamba_head_dim: int = 64
    mamba_hidden_act: str = "silu"
    ssm_state_size: int = 128
    n_groups: int = 8
    conv_kernel: int = 4
    use_bias: bool = False
    use_conv_bias: bool = True
    shortest_step: float = 0.0
    longest_step: float | None = None
    n_routed_experts: int = 8
    num_experts_per_tok: int = 2
    moe_intermediate_size: int = 7688
    moe_shared_expert_intermediate_size: int = 7688
    moe_latent_size: int | None = None
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kind of each layer, which older files say by a letter."""
        given = {OLDER_FIELDS.get(name, name): value for name, value in values.items()}
        kinds, pattern = (
            given.get("layers_block_type") or given.get("layer_types"),
            given.get("hybrid_override_pattern"),
        )
        if kinds is None and isinstance(pattern, str):
            kinds = [LETTERS.get(letter, letter) for letter in pattern[: LIMITS["num_hidden_layers"] + 1]]
        known = isinstance(kinds, list | tuple) and 1 <= len(kinds) <= LIMITS["num_hidden_layers"]
        require(known, f"layers_block_type is {kinds!r:.60}, expected a list of kinds of layers")
        assert kinds is not None
        kinds = [OLDER.get(str(kind), str(kind)) for kind in kinds]
        require({*kinds} <= {*LETTERS.values()}, f"layers_block_type has {[*{*kinds} - {*LETTERS.values()}]!r:.60}")
        return given | {"layers_block_type": kinds, "num_hidden_layers": len(kinds)} | step_limits(given)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.n_routed_experts)
        heads = self.mamba_num_heads
        check_groups(self.n_routed_experts, self.n_group, self.topk_group)
        check_divides(self, "n_groups", "mamba_num_heads")
        require(self.conv_kernel > 1, f"conv_kernel is {self.conv_kernel}, expected 2 or more")
        widest = max(heads * self.mamba_head_dim, self.n_groups * self.ssm_state_size)
        require(widest <= LIMITS["hidden_size"], f"{widest:,} features of a state are too many")
        for name in ("moe_shared_expert_intermediate_size", "moe_latent_size"):
            size, most = getattr(self, name) or 0, LIMITS["intermediate_size"]
            require(size <= most, f"{name} is {size:,}, expected at most {most:,}")

    @property
    def mixer(self) -> Mamba2Settings:
        """The sizes of a layer's mixer."""
        return Mamba2Settings(
            self.mamba_num_heads, self.mamba_head_dim, self.ssm_state_size, self.n_groups, self.conv_kernel,
            self.layer_norm_epsilon, self.mamba_hidden_act, self.use_bias, self.use_bias, self.use_conv_bias,
            (self.shortest_step, self.longest_step),
        )  # fmt: skip


def dense(config: Config, inner: int) -> FeedForward:
    """A feed-forward part."""
    names = "up_proj", "down_proj"
    return FeedForward(config.hidden_size, inner, config.mlp_hidden_act, bias=config.mlp_bias, names=names)


class SparseFeedForward(Module):
    """A mixture of experts without gates, in some models of fewer features, beside an expert that every token has."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, latent = config.hidden_size, config.moe_latent_size
        self.experts = Experts(
            latent or size, config.moe_intermediate_size, config.n_routed_experts, config.mlp_hidden_act, ungated=True
        )
        self.gate = GroupedRouter(
            size, config.n_routed_experts, config.num_experts_per_tok, (config.n_group, config.topk_group),
            normalized=config.norm_topk_prob, scaling=config.routed_scaling_factor,
        )  # fmt: skip
        self.shared_experts = dense(config, config.moe_shared_expert_intermediate_size)
        self.fc1_latent_proj = Linear(size, latent, bias=config.mlp_bias) if latent else None
        self.fc2_latent_proj = Linear(latent, size, bias=config.mlp_bias) if latent else None

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + experts (..., hidden_size)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        own = flat if self.fc1_latent_proj is None else self.fc1_latent_proj(flat)
        y = self.experts(own, *self.gate(flat))
        y = y if self.fc2_latent_proj is None else self.fc2_latent_proj(y)
        return self.shared_experts(x, residual) + y.reshape(x.shape)


class Block(Module):
    """One part, with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, kind = config.hidden_size, config.layers_block_type[layer]
        self.reads = kind in (MIXER, ATTENTION)  # other tokens
        self.norm = RMSNorm(size, config.layer_norm_epsilon)
        self.mixer: Module
        if kind == MIXER:
            self.mixer = Mamba2Mixer(size, config.mixer, layer)
        elif kind == ATTENTION:
            self.mixer = GroupedQueryAttention(layer, size, config.heads(), None)
        else:
            self.mixer = SparseFeedForward(config) if kind == SPARSE else dense(config, config.intermediate_size)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.norm(x)
        y: Tensor = self.mixer(own, text, x) if self.reads else self.mixer(own, x)
        return y


class NemotronHStack(DecoderStack):
    """The decoder."""

    tokens, last_norm = "embeddings", "norm_f"


class NemotronHForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        size = config.hidden_size
        blocks = (Block(config, layer) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(size, config.layer_norm_epsilon)
        super().__init__(config, NemotronHStack(config.vocab_size, size, blocks, norm))
        # Layers that read no other tokens keep nothing of them.
        self.state_shapes = [
            None if kind == ATTENTION else config.mixer.states if kind == MIXER else ()
            for kind in config.layers_block_type
        ]


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files call the model "backbone"."""
    return f"model.{name.removeprefix('backbone.')}" if name.startswith("backbone.") else name


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    there, place = {renamed(name): info for name, info in tensors.items()}, "mixer.experts"
    parts = "up_proj", "down_proj"
    return experts_apart(there, place, parts, config.n_routed_experts, config.num_hidden_layers, place)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds of the layers: those with heads of keys attend, those with neither heads nor features have a mixer."""
    attends, heads = attending(found)
    inner, there = values.get("feed_forward_length"), values["tensors"]
    inner = inner if isinstance(inner, list) else [inner] * len(attends)
    widths = [width for width in inner if type(width) is int and width > 0]
    part = SPARSE if values.get("expert_count") else DENSE
    kinds = [ATTENTION if a else part if width else MIXER for a, width in zip(attends, inner, strict=False)]
    parts = {name.partition(".")[2].partition(".")[2] for name in there}  # without blk.0.
    width, count = values.get("ssm.inner_size"), found.get("mamba_num_heads")
    if type(width) is int and type(count) is int and count > 0:
        found = found | {"mamba_head_dim": width // count}
    return found | {
        "layers_block_type": kinds, "num_key_value_heads": heads, "intermediate_size": max(widths, default=1),
        "mlp_bias": "ffn_up.bias" in parts, "use_bias": "ssm_in.bias" in parts,
        "use_conv_bias": "ssm_conv1d.bias" in parts,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    kinds, sparse = config.layers_block_type, SPARSE in config.layers_block_type
    require(not (sparse and DENSE in kinds), "llama.cpp has no models with layers of both experts and none")
    require(config.n_group == 1, f"GGUF cannot say n_group {config.n_group} for this architecture")
    inner = config.moe_intermediate_size if sparse else config.intermediate_size
    return key_lengths(config) | {
        "attention.head_count_kv": [config.num_key_value_heads if kind == ATTENTION else 0 for kind in kinds],
        "feed_forward_length": [inner if kind in (SPARSE, DENSE) else 0 for kind in kinds],
        "ssm.inner_size": config.mamba_num_heads * config.mamba_head_dim, "rope.freq_base": None,
        "attention.layer_norm_epsilon": config.layer_norm_epsilon,
    } | ({"expert_shared_count": 1, "expert_group_count": 1} if sparse else {})  # fmt: skip


_LAYER = "model.layers.{}."
_PARTS = {
    "norm": "attn_norm", "mixer.q_proj": "attn_q", "mixer.k_proj": "attn_k", "mixer.v_proj": "attn_v",
    "mixer.o_proj": "attn_output", "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down",
    "mixer.gate": "ffn_gate_inp", "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mixer.experts.up_proj": "ffn_up_exps", "mixer.experts.down_proj": "ffn_down_exps",
    "mixer.shared_experts.up_proj": "ffn_up_shexp", "mixer.shared_experts.down_proj": "ffn_down_shexp",
    "mixer.fc1_latent_proj": "ffn_latent_down", "mixer.fc2_latent_proj": "ffn_latent_up",
}  # fmt: skip
_UNSAID = ("moe_intermediate_size", "moe_shared_expert_intermediate_size", "n_routed_experts", "num_experts_per_tok",
           "moe_latent_size", "norm_topk_prob", "routed_scaling_factor", "rope_parameters")  # fmt: skip
GGUF = Gguf(
    "nemotron_h", order=pairs_of_llama, read=_from_gguf, write=_to_gguf, unsaid=_UNSAID,
    names={"model.embeddings": "token_embd", "model.norm_f": "output_norm", "lm_head": "output"}
    | {_LAYER + ours: f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()} | mamba2_names(_LAYER + "mixer"),
    keys={name: key for name, key in KEYS.items() if name not in ("intermediate_size", "rms_norm_eps")} | {
        "layer_norm_epsilon": KEYS["rms_norm_eps"], "mamba_num_heads": "ssm.time_step_rank",
        "ssm_state_size": "ssm.state_size", "n_groups": "ssm.group_count", "conv_kernel": "ssm.conv_kernel",
    },
    forms=mamba2_forms("mixer", lambda config: config.n_groups) | {"gate.e_score_correction_bias": BIAS_FORM},
)  # fmt: skip
GGUF = replace(GGUF, others=(
    replace(
        GGUF, architecture="nemotron_h_moe", suits=lambda config: SPARSE in config.layers_block_type,
        unsaid=("intermediate_size", "rope_parameters"), keys={
            **GGUF.keys, "n_routed_experts": "expert_count", "num_experts_per_tok": "expert_used_count",
            "moe_intermediate_size": "expert_feed_forward_length", "norm_topk_prob": "expert_weights_norm",
            "moe_shared_expert_intermediate_size": "expert_shared_feed_forward_length",
            "routed_scaling_factor": "expert_weights_scale", "moe_latent_size": "moe_latent_size",
        },
    ),
))  # fmt: skip
TASKS = {"causal-lm": NemotronHForCausalLM}
