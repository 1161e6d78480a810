"""Kimi Linear (Kimi Team 2025, arXiv 2510.26692): layers with a state by the delta rule, each feature of which decays
by itself, beside layers of latent attention without positions; mixtures of experts as DeepSeek V3's. Ling 3
(bailing_hybrid, https://huggingface.co/inclusionAI/Ling-3.0-Flash) has latent attention with rotary positions and a
gate of each head, and features that decay by a limited rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat, empty
from pyapp.nn import Conv1d, Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable
from pyapp.nn.decoders.latent_attention import LatentAttention
from pyapp.nn.layers.experts import GroupedRouter, SharedExpertsFeedForward
from pyapp.nn.layers.gated import GatedFeedForward, activation_named
from pyapp.nn.parameter import Initialization, new_parameter
from pyapp.nn.recurrent.delta_rule import gated_delta_rule
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.state_space import causal_convolution

from .loading.config import LIMITS, check_choice, check_groups, check_kinds, layers_in, optional_object, require
from .loading.gguf import BIAS_FORM, EXPERTS, KEYS, NAMES, SHARED_EXPERTS, SIGMOID, Gguf, GgufForm, attending, leading
from .loading.latent import LATENT_FORM, LatentConfig, latent_heads, latent_sizes
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("kimi_linear", "bailing_hybrid")
LING = "bailing_hybrid"
IGNORED = r"model\.layers\.42\..*"  # the layer of Ling's published model that guesses tokens ahead
LINEAR, ATTENTION = "linear_attention", "full_attention"  # kinds of layers
DENSE, SPARSE = "dense", "sparse"  # kinds of feed-forward layers
# What DeepSeek calls the fields of config.json.
FIELDS = {
    "model_max_length": "max_position_embeddings", "moe_renormalize": "norm_topk_prob", "num_expert_group": "n_group",
    "num_experts": "n_routed_experts", "num_experts_per_token": "num_experts_per_tok",
    "num_shared_experts": "n_shared_experts", "num_local_experts": "n_routed_experts",
}  # fmt: skip
OWN = {
    "head_dim": "linear_head_dim",
    "num_heads": "linear_num_heads",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
}
# What Ling's config.json leaves out.
USUAL_OF_LING = {
    "max_position_embeddings": 262144, "n_routed_experts": 512, "n_group": 8, "topk_group": 4, "rms_norm_eps": 1e-6,
    "routed_scaling_factor": 2.5, "first_k_dense_replace": 2, "rope_theta": 6_000_000.0, "kda_safe_gate": True,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(LatentConfig):
    """The fields of config.json, by DeepSeek's names. kda_safe_gate: features decay by a rate of at most
    -kda_lower_bound.
    """

    model_type = "kimi_linear"
    defaults = {"max_position_embeddings": 1048576}

    kind: str = "kimi_linear"  # the model_type
    intermediate_size: int
    moe_intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    n_routed_experts: int = 256
    n_shared_experts: int = 1
    num_experts_per_tok: int = 8
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.446
    layer_types: list[str]
    mlp_layer_types: list[str]
    linear_head_dim: int = 128
    linear_num_heads: int = 32
    linear_conv_kernel_dim: int = 4
    kda_safe_gate: bool = False
    kda_lower_bound: float = -5.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        kind = values.get("kind") or values.get("model_type", cls.model_type)
        found = {FIELDS.get(name, name): value for name, value in values.items()}
        if kind == LING:
            sizes = {
                "linear_num_heads": found.get("num_attention_heads"), "linear_head_dim": found.get("head_dim", 128),
                "linear_conv_kernel_dim": found.get("short_conv_kernel_size", 4),
            }  # fmt: skip
            found = USUAL_OF_LING | sizes | found
        return super().from_dict(found | {"kind": kind})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, which files number from 1 on, and the sizes of the cache."""
        layers, own = layers_in(values), optional_object(values, "linear_attn_config")
        attends, dense = own.get("full_attn_layers"), values.get("first_k_dense_replace", 1)
        numbers = attends if isinstance(attends, list) else [i + 1 for i in range(4, layers, 4)]
        if values["kind"] == LING:
            group = values.get("layer_group_size", 6)
            require(type(group) is int and group >= 1, f"layer_group_size is {group!r:.40}")
            numbers = [*range(group, layers + 1, group)]
        kinds = [ATTENTION if i + 1 in numbers else LINEAR for i in range(layers)]
        parts = [DENSE if type(dense) is int and i < dense else SPARSE for i in range(layers)]
        found = {OWN[name]: value for name, value in own.items() if name in OWN}
        return {"layer_types": kinds, "mlp_layer_types": parts} | values | found | latent_sizes(values)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.n_routed_experts)
        check_kinds("layer_types", self.layer_types, self.num_hidden_layers, LINEAR, ATTENTION)
        check_kinds("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers, DENSE, SPARSE)
        check_groups(self.n_routed_experts, self.n_group, self.topk_group)
        require(self.linear_size <= LIMITS["hidden_size"], f"{self.linear_size:,} features of states are too many")
        kernel = self.linear_conv_kernel_dim
        require(2 <= kernel <= LIMITS["conv_kernel"], f"linear_conv_kernel_dim is {kernel}, expected 2 to 256")
        require(self.kind in MODEL_TYPES, f"kind is {self.kind!r:.60}, expected one of {', '.join(MODEL_TYPES)}")
        require(self.kda_lower_bound < 0, f"kda_lower_bound is {self.kda_lower_bound}, expected a number < 0")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    def saved(self) -> dict[str, Any]:
        """The object of a config.json that transformers reads too."""
        theirs = {name: other for other, name in FIELDS.items() if other != "num_local_experts"}
        return {theirs.get(name, name): value for name, value in super().saved().items()}

    @property
    def rope_interleave(self) -> bool:
        """Whether rotary pairs are neighbours."""
        return self.kind == LING

    @property
    def linear_size(self) -> int:
        """The features of all keys of a layer with a state."""
        return self.linear_num_heads * self.linear_head_dim


class ForgetGate(Module):
    """How fast each feature of the keys decays."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        heads, self.lowest = config.linear_num_heads, config.kda_lower_bound if config.kda_safe_gate else None
        self.whole = config.kind == LING
        if self.whole:
            self.f_proj = Linear(config.hidden_size, config.linear_size, bias=False)
        else:
            self.f_a_proj = Linear(config.hidden_size, config.linear_head_dim, bias=False)
            self.f_b_proj = Linear(config.linear_head_dim, config.linear_size, bias=False)
        self.dt_bias = new_parameter(empty, config.linear_size)
        self.A_log = new_parameter(empty, *((heads,) if self.whole else (1, 1, heads, 1)))
        if Initialization.on:
            self.dt_bias.data.fill_(-4.0)
            self.A_log.data.uniform_(1.0, 16.0).log_()

    def forward(self, x: Tensor) -> Tensor:
        """x (..., T, hidden_size) → logarithms (..., T, H K), 0 or less."""
        step = (self.f_proj(x) if self.whole else self.f_b_proj(self.f_a_proj(x))) + self.dt_bias  # (..., T, H K)
        rate = self.A_log.exp().reshape(-1, 1)  # (H, 1)
        by_head = step.reshape(*x.shape[:-1], rate.shape[0], -1)
        decay = by_head.softplus() * -rate if self.lowest is None else (by_head * rate).sigmoid() * self.lowest
        return decay.reshape(step.shape)


class DeltaAttention(Module):
    """Mixes each channel with its last tokens, and each head with its state, by the delta rule."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, width, features = config.hidden_size, config.linear_size, config.linear_head_dim
        self.layer, self.heads = layer, config.linear_num_heads
        self.activation = activation_named(config.hidden_act)
        self.q_proj = Linear(size, width, bias=False)
        self.k_proj = Linear(size, width, bias=False)
        self.v_proj = Linear(size, width, bias=False)
        self.conv1d = Conv1d(3 * width, 3 * width, config.linear_conv_kernel_dim, groups=3 * width, bias=False)
        self.forget_gate = ForgetGate(config)
        self.b_proj = Linear(size, self.heads, bias=False)
        self.whole = config.kind == LING
        if self.whole:
            self.g_proj = Linear(size, width, bias=False)
        else:
            self.g_a_proj = Linear(size, features, bias=False)
            self.g_b_proj = Linear(features, width, bias=False)
        self.o_norm = RMSNorm(features, config.rms_norm_eps)
        self.o_proj = ResidualLinear(width, size, bias=False)

    def forward(self, x: Tensor, text: Any, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens (..., T, hidden_size)."""
        x = text.masked(x)
        mixed = cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], -1)  # (..., T, 3 H K)
        convolve = partial(causal_convolution, weight=self.conv1d.weight)
        query, key, value = self.activation(text.carry(self.layer, 0, convolve, mixed)).chunk(3, -1)
        rule = partial(gated_delta_rule, groups=self.heads)
        rate, decay = self.b_proj(x).sigmoid(), self.forget_gate(x)
        y = text.carry(self.layer, 1, rule, query, key, value, rate, decay)  # (..., T, H K)
        gate = (self.g_proj(x) if self.whole else self.g_b_proj(self.g_a_proj(x))).sigmoid()
        normed = self.o_norm(y.reshape(*y.shape[:-1], self.heads, -1)).reshape(y.shape)
        return self.o_proj(normed * gate, residual)


class GatedLatentAttention(LatentAttention):
    """Latent attention with a gate of each head."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__(config, layer, rotary)
        self.g_proj = Linear(config.hidden_size, config.num_attention_heads, bias=False)

    def gated(self, x: Tensor, y: Tensor) -> Tensor:
        return y * self.g_proj(x).sigmoid().reshape(y.shape[0], -1, 1)


def attention(config: Config, layer: int, rotary: RotaryTable) -> Module:
    """The attention of a layer, or what it has in place of it."""
    if config.layer_types[layer] != ATTENTION:
        return DeltaAttention(config, layer)
    return GatedLatentAttention(config, layer, rotary) if config.kind == LING else LatentAttention(config, layer, None)


def feed_forward(config: Config, layer: int) -> Module:
    """The feed-forward part of a layer."""
    size = config.hidden_size
    if config.mlp_layer_types[layer] == DENSE:
        return GatedFeedForward(size, config.intermediate_size, config.hidden_act)
    router = GroupedRouter(
        size, config.n_routed_experts, config.num_experts_per_tok, (config.n_group, config.topk_group),
        normalized=config.norm_topk_prob, scaling=config.routed_scaling_factor,
    )  # fmt: skip
    return SharedExpertsFeedForward(config, router)


class Block(Module):
    """Attention or a state, and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = attention(config, layer, rotary)
        self.mlp = feed_forward(config, layer)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


class KimiLinearForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        size, width, features = config.hidden_size, config.linear_size, config.linear_head_dim
        rotary = RotaryTable(config.to_dict() | {"head_dim": config.qk_rope_head_dim})
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, DecoderStack(config.vocab_size, size, blocks, RMSNorm(size, config.rms_norm_eps)))
        shapes = (config.linear_conv_kernel_dim - 1, 3 * width), (config.linear_num_heads, features, features)
        self.state_shapes = [None if kind == ATTENTION else shapes for kind in config.layer_types]


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    name = name.replace(".attention.dense.", ".attention.o_proj.").replace(".attention.", ".self_attn.")
    name = name.replace("model.word_embeddings.", "model.embed_tokens.")
    name = name.replace(".gate.expert_bias", ".gate.e_score_correction_bias")
    for part in ("f_proj.", "f_a_proj.", "f_b_proj.", "dt_bias", "A_log"):
        name = name.replace(f".self_attn.{part}", f".self_attn.forget_gate.{part}")
    return name if ".experts." in name else name.replace(".block_sparse_moe.", ".mlp.")


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts, each matrix by itself, and the convolutions of a layer."""
    place, parts = "block_sparse_moe.experts", ("w1", "w3", "w2")
    if config.kind == LING:
        place, parts = "mlp.experts", ("gate_proj", "up_proj", "down_proj")
    found = experts_apart(tensors, place, parts, config.n_routed_experts, config.num_hidden_layers)
    for layer in range(config.num_hidden_layers):
        before = f"model.layers.{layer}.self_attn."
        names = tuple(f"{before}{part}_conv1d.weight" for part in "qkv")
        if names[0] in tensors or names[0].replace(".self_attn.", ".attention.") in tensors:
            found[f"{before}conv1d.weight"] = Stored(names, join=cat)
    return found


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers attend: those with heads of keys."""
    attends, _ = attending({**found, "num_key_value_heads": values.get("attention.head_count_kv")})
    first = values.get("leading_dense_block_count", 0)
    return latent_heads(found, values, 64, values.get("attention.key_length_mla")) | {
        "layer_types": [ATTENTION if own else LINEAR for own in attends],
        "mlp_layer_types": [DENSE if type(first) is int and i < first else SPARSE for i in range(len(attends))],
        "linear_num_heads": found.get("num_attention_heads"),
        "v_head_dim": values.get("attention.value_length_mla", 128), "q_lora_rank": None,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    require(config.kind != LING, "GGUF files of Ling 3 are not known")
    first = leading(config.mlp_layer_types, DENSE)
    alike = config.linear_num_heads == config.num_attention_heads
    require(alike, f"llama.cpp has as many heads with states as attention: {config.num_attention_heads}")
    require(config.n_group == 1 and config.q_lora_rank is None, "GGUF cannot say n_group or q_lora_rank of this one")
    require(config.norm_topk_prob, "llama.cpp normalises the shares of the chosen experts", "Write safetensors")
    plain, rotated = config.qk_nope_head_dim, config.qk_rope_head_dim
    return {
        "attention.head_count_kv": [int(kind == ATTENTION) for kind in config.layer_types],
        "attention.key_length": config.head_dim, "attention.value_length": config.kv_lora_rank,
        "attention.key_length_mla": plain + rotated, "attention.value_length_mla": config.v_head_dim,
        "rope.dimension_count": rotated, "leading_dense_block_count": first, "expert_gating_func": SIGMOID,
    }  # fmt: skip


def _kernel(part: int) -> GgufForm:
    """The filters of queries, keys or values."""

    def shape(config: Config, whole: tuple[int, ...]) -> tuple[int, ...]:
        return 1, config.linear_size, 1, config.linear_conv_kernel_dim

    def write(config: Config, value: Tensor) -> Tensor:
        return value.narrow(0, part * config.linear_size, config.linear_size)

    return GgufForm(shape=shape, write=write)


def _join_kernels(config: Config, *parts: Tensor) -> Tensor:
    shape = config.linear_size, 1, config.linear_conv_kernel_dim
    return cat([part.reshape(shape) for part in parts])


def _decay(config: Config, value: Tensor) -> Tensor:
    return -value.exp()


def _log_of_decay(config: Config, value: Tensor) -> Tensor:
    return (-value).log()


_LAYER = "model.layers.{}."
_PARTS = {
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_k_b blk.{}.attn_v_b", "self_attn.b_proj": "ssm_beta",
    "self_attn.conv1d": "ssm_conv1d_q blk.{}.ssm_conv1d_k blk.{}.ssm_conv1d_v",
    "self_attn.forget_gate.f_a_proj": "ssm_f_a", "self_attn.forget_gate.f_b_proj": "ssm_f_b",
    "self_attn.forget_gate.dt_bias": "ssm_dt.bias", "self_attn.forget_gate.A_log": "ssm_a",
    "self_attn.g_a_proj": "ssm_g_a", "self_attn.g_b_proj": "ssm_g_b", "self_attn.o_norm": "ssm_norm",
}  # fmt: skip
GGUF = Gguf(
    "kimi-linear", read=_from_gguf, write=_to_gguf, unsaid=("norm_topk_prob", "rope_parameters", "kind"),
    names=NAMES | EXPERTS | SHARED_EXPERTS | {_LAYER + ours: f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    forms={
        "kv_b_proj.weight": LATENT_FORM, "gate.e_score_correction_bias": BIAS_FORM, ".dt_bias": GgufForm(bare=True),
        ".A_log": GgufForm(True, write=_decay, read=_log_of_decay),
        ".conv1d.weight": GgufForm(read=_join_kernels, parts=(_kernel(0), _kernel(1), _kernel(2))),
    },
    keys={name: key for name, key in KEYS.items() if name != "num_key_value_heads"} | {
        "kv_lora_rank": "attention.kv_lora_rank", "n_routed_experts": "expert_count",
        "n_shared_experts": "expert_shared_count", "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length", "routed_scaling_factor": "expert_weights_scale",
        "linear_head_dim": "kda.head_dim", "linear_conv_kernel_dim": "ssm.conv_kernel",
    },
)  # fmt: skip
TASKS = {"causal-lm": KimiLinearForCausalLM}
