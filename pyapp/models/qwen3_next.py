"""Qwen3-Next and Qwen3.5 (Qwen Team 2025 and 2026): three layers with a state by the gated delta rule for one that
attends, with gates; in larger ones a mixture of experts in each layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, quant
from pyapp.engine.ops import cat, index_select, tensor
from pyapp.nn import Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, SelfAttention, normalized_heads
from pyapp.nn.layers.experts import SharedExpertFeedForward
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.layers.normalization import OffsetRMSNorm
from pyapp.nn.recurrent.delta_layer import GatedDeltaLayer
from pyapp.nn.recurrent.hybrid import HybridLanguageModel

from .loading.config import check_choice, layers_in, require
from .loading.delta_config import ATTENTION, LINEAR, DeltaConfig
from .loading.gguf import (
    DENSE_LAYERS,
    EXPERTS,
    HEAD_NORMS,
    KEYS,
    MAMBA_FORMS,
    NAMES,
    Gguf,
    GgufForm,
    inverse,
    key_lengths,
    with_sections,
    without_layers_ahead,
)  # fmt: skip
from .loading.qwen_experts import GGUF_KEYS, SHARED_EXPERT
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("qwen3_next", "qwen3_5_text", "qwen3_5", "qwen3_5_moe_text", "qwen3_5_moe")
# The tensors of a model that also sees pictures, and those that guess several tokens at once.
IGNORED = r"(model\.)?visual\..*|(model\.)?mtp\..*"
SECTIONS = (11, 11, 10)  # of the rotary pairs of three positions, which are one without pictures


@dataclass(frozen=True, kw_only=True)
class Config(DeltaConfig):
    """The fields of config.json. num_experts 0: no layer has experts. tiled_values: heads of values that share a key
    are not neighbours, but as far apart as there are keys, as in GGUF files of Qwen3.5.
    """

    model_type = "qwen3_next"
    defaults = {
        "max_position_embeddings": 32768, "head_dim": 256, "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
    }  # fmt: skip

    kind: str
    intermediate_size: int = 5632
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    num_experts: int = 0
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = True
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int]
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    tiled_values: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; of a model that also sees pictures, its `text_config`."""
        own = values.get("text_config")
        given = {"tie_word_embeddings": values.get("tie_word_embeddings")} | own if isinstance(own, dict) else values
        found: Config = super().from_dict(given)
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers: every fourth attends; and the experts of the kind."""
        layers = layers_in(values)
        step = values.get("full_attention_interval", 4)
        require(type(step) is int and step >= 1, f"full_attention_interval is {step!r:.40}")
        kinds = values.get("layer_types") or [LINEAR if (i + 1) % step else ATTENTION for i in range(layers)]
        kind = values.get("kind", values.get("model_type", cls.model_type))
        usual = {"qwen3_next": 512, "qwen3_5_moe_text": 256, "qwen3_5_moe": 256}.get(str(kind), 0)
        chosen = 10 if kind == "qwen3_next" else 8
        given = {"num_experts": usual, "num_experts_per_tok": chosen, "mlp_only_layers": []} | values
        return given | {"layer_types": kinds, "kind": kind}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_experts:
            check_choice(self.num_experts_per_tok, self.num_experts)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        return values | {"model_type": values.pop("kind")}

    def is_sparse(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return (
            self.num_experts > 0 and layer not in self.mlp_only_layers and (layer + 1) % self.decoder_sparse_step == 0
        )


class GatedAttention(SelfAttention):
    """Self-attention with normalised queries and keys, whose result a projection of the input gates: q_proj has the
    query and the gate of one head after another.
    """

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, bias, size = config.heads(), config.attention_bias, config.hidden_size
        super().__init__(layer, heads, rotary)
        self.q_proj = Linear(size, 2 * heads.heads * heads.head_dim, bias=bias)
        self.k_proj = Linear(size, heads.kv_heads * heads.head_dim, bias=bias)
        self.v_proj = Linear(size, heads.kv_heads * heads.head_dim, bias=bias)
        self.o_proj = ResidualLinear(heads.heads * heads.head_dim, size, bias=bias)
        self.q_norm = OffsetRMSNorm(heads.head_dim, config.rms_norm_eps)
        self.k_norm = OffsetRMSNorm(heads.head_dim, config.rms_norm_eps)

    def forward(self, x: Tensor, text: Any, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        heads, before = self.heads, x.shape[:-1]
        query, gate = self.q_proj(x).reshape(*before, heads.heads, 2 * heads.head_dim).chunk(2, -1)
        query, gate = (part.reshape(*before, heads.heads * heads.head_dim) for part in (query, gate))
        qkv = normalized_heads(cat([query, self.k_proj(x), self.v_proj(x)], -1), heads, self.q_norm, self.k_norm)
        return self.o_proj(self.attend(qkv, text) * gate.sigmoid(), residual)


class GatedDeltaNet(GatedDeltaLayer):
    """A layer with a state. In Qwen3-Next the rows of the projections are grouped by the heads of keys."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config, layer, config.rms_norm_eps, tiled=config.tiled_values)
        size, values, heads = config.hidden_size, config.value_size, config.linear_num_value_heads
        width = sum(self.sizes)
        self.together = config.kind == "qwen3_next"
        if self.together:
            self.in_proj_qkvz = Linear(size, width + values, bias=False)
            self.in_proj_ba = Linear(size, 2 * heads, bias=False)
        else:
            self.in_proj_qkv = Linear(size, width, bias=False)
            self.in_proj_z = Linear(size, values, bias=False)
            self.in_proj_b = Linear(size, heads, bias=False)
            self.in_proj_a = Linear(size, heads, bias=False)

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if not self.together:
            return self.in_proj_qkv(x), self.in_proj_z(x), self.in_proj_b(x), self.in_proj_a(x)
        before, (keys, _, values), groups = x.shape[:-1], self.sizes, self.groups
        parts = keys // groups, keys // groups, values // groups, values // groups
        query, key, value, gate = (
            part.reshape(*before, part.shape[-1] * groups)
            for part in self.in_proj_qkvz(x).reshape(*before, groups, sum(parts)).split(parts, -1)
        )
        rate, step = (
            part.reshape(*before, self.heads)
            for part in self.in_proj_ba(x).reshape(*before, groups, 2 * self.heads // groups).chunk(2, -1)
        )
        return cat([query, key, value], -1), gate, rate, step


class Block(Module):
    """A layer with a state or attention, and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.attends = config.layer_types[layer] == ATTENTION
        if self.attends:
            self.self_attn = GatedAttention(config, layer, rotary)
        else:
            self.linear_attn = GatedDeltaNet(config, layer)
        self.mlp: Module = (
            SharedExpertFeedForward(config)
            if config.is_sparse(layer)
            else GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        )
        self.input_layernorm = OffsetRMSNorm(size, epsilon)
        self.post_attention_layernorm = OffsetRMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixer: Module = self.self_attn if self.attends else self.linear_attn
        x = mixer(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


class Qwen3NextForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()), config.hidden_size
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(
            config, DecoderStack(config.vocab_size, size, blocks, OffsetRMSNorm(size, config.rms_norm_eps))
        )
        self.state_shapes = config.state_shapes


def _grouped_rows(config: Config) -> list[int]:
    """The row of [all queries, all keys, all values, all gates] that each row of in_proj_qkvz is."""
    groups, keys, values = config.linear_num_key_heads, config.key_size, config.value_size
    parts, start = [], 0
    for size in (keys, keys, values, values):
        parts.append((start, size // groups))
        start += size
    return [first + group * size + row for group in range(groups) for first, size in parts for row in range(size)]


def _rows_of_file(first: bool) -> GgufForm:
    """The form of a tensor of the rows of in_proj_qkvz: of the queries, keys and values, or else of the gates."""

    def size(config: Config) -> int:
        return 2 * config.key_size + config.value_size if first else config.value_size

    def write(config: Config, value: Tensor) -> Tensor:
        order = inverse(_grouped_rows(config))
        own = order[: size(config)] if first else order[-size(config) :]
        return index_select(value, 0, tensor(own, dtype="int64", device=value.device))

    return GgufForm(shape=lambda config, shape: (size(config), shape[1]), write=write)


def _settings(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What follows from others in files of all kinds. llama.cpp normalises the shares of the chosen experts."""
    inner, heads = values.get("ssm.inner_size"), found.get("linear_num_value_heads")
    if type(inner) is int and type(heads) is int and heads > 0:
        found = found | {"linear_value_head_dim": inner // heads}
    biased = any(name.endswith("attn_k.bias") for name in values["tensors"])
    return found | {
        "norm_topk_prob": True, "attention_bias": biased,
        "full_attention_interval": values.get("full_attention_interval", 4),
    }  # fmt: skip


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """llama.cpp has experts in each layer of Qwen3-Next."""
    given = {"intermediate_size": found.get("moe_intermediate_size")} | _settings(found, values)
    return given | {"model_type": "qwen3_next"}


def _from_gguf_newer(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Qwen3.5, whose heads of values are in another order."""
    sparse = bool(found.get("num_experts"))
    given = _settings(without_layers_ahead(with_sections(found, values), values), values)
    given = given | ({"intermediate_size": found.get("moe_intermediate_size")} if sparse else {"num_experts": 0})
    return given | {"model_type": "qwen3_5_moe_text" if sparse else "qwen3_5_text", "tiled_values": True}


def _to_gguf(config: Config) -> dict[str, Any]:
    layers = range(config.num_hidden_layers)
    sparse = all(config.is_sparse(layer) for layer in layers) or not config.num_experts
    require(sparse, "llama.cpp has experts in each layer of this architecture", "Write safetensors")
    attends = [layer + 1 for layer in layers if config.layer_types[layer] == ATTENTION]
    interval = attends[0] if attends else len(layers) + 1
    return key_lengths(config) | {"ssm.inner_size": config.value_size, "full_attention_interval": interval}


def _to_gguf_newer(config: Config) -> dict[str, Any]:
    sections = config.rope_parameters.get("mrope_section", SECTIONS)
    return _to_gguf(config) | {"rope.dimension_sections": [*sections, 0]}


def _value_rows(config: Config, before: int, size: int) -> list[int]:
    """The row that each row of a tensor of Qwen3.5's files is: `before` rows as they are, then `size` of each head of
    values, in the order of the files.
    """
    keys, heads = config.linear_num_key_heads, config.linear_num_value_heads
    order = range(heads) if config.tiled_values else [
        group * (heads // keys) + part for part in range(heads // keys) for group in range(keys)
    ]  # fmt: skip
    return [*range(before), *(before + head * size + row for head in order for row in range(size))]


def _tiled(before: Callable[[Config], int], size: Callable[[Config], int], dim: int = 0) -> Callable[..., Tensor]:
    """Writes a tensor with heads of values in the order of the files, along a dim."""

    def write(config: Config, value: Tensor) -> Tensor:
        order = tensor(_value_rows(config, before(config), size(config)), dtype="int64", device=value.device)
        return index_select(quant.dequantize(value) if dim else value, dim, order)

    return write


def _tiled_decay(config: Config, value: Tensor) -> Tensor:
    return -_EACH(config, value).exp()


def _none(config: Config) -> int:
    return 0


def _one(config: Config) -> int:
    return 1


def _head(config: Config) -> int:
    return config.linear_value_head_dim


def _keys(config: Config) -> int:
    return 2 * config.key_size


_EACH = _tiled(_none, _one)
_COMMON = NAMES | HEAD_NORMS | EXPERTS | SHARED_EXPERT | {
    "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "model.layers.{}.linear_attn.conv1d": "blk.{}.ssm_conv1d", "model.layers.{}.linear_attn.A_log": "blk.{}.ssm_a",
    "model.layers.{}.linear_attn.dt_bias": "blk.{}.ssm_dt.bias",
    "model.layers.{}.linear_attn.norm": "blk.{}.ssm_norm",
    "model.layers.{}.linear_attn.out_proj": "blk.{}.ssm_out",
}  # fmt: skip
_DECAY, _CONVOLUTION = MAMBA_FORMS[".mixer.A_log"], MAMBA_FORMS[".mixer.conv1d.weight"]
GGUF = Gguf(
    "qwen3next", read=_from_gguf, write=_to_gguf, unsaid=DENSE_LAYERS,
    older={"model.layers.{}.linear_attn.in_proj_qkvz": "blk.{}.ssm_in"},
    offset=("layernorm.weight", "q_norm.weight", "k_norm.weight", "model.norm.weight"),
    names=_COMMON | {
        "model.layers.{}.linear_attn.in_proj_qkvz": "blk.{}.attn_qkv blk.{}.attn_gate",
        "model.layers.{}.linear_attn.in_proj_ba": "blk.{}.ssm_ba",
    },
    keys=KEYS | GGUF_KEYS | {
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
        "linear_conv_kernel_dim": "ssm.conv_kernel", "linear_key_head_dim": "ssm.state_size",
        "linear_num_key_heads": "ssm.group_count", "linear_num_value_heads": "ssm.time_step_rank",
    },
    forms={
        ".in_proj_qkvz.weight": GgufForm(parts=(_rows_of_file(True), _rows_of_file(False)), rows=_grouped_rows),
        ".linear_attn.A_log": _DECAY, ".linear_attn.dt_bias": GgufForm(bare=True),
        ".linear_attn.conv1d.weight": _CONVOLUTION,
    },
)  # fmt: skip
_NEWER = replace(
    GGUF, architecture="qwen35", read=_from_gguf_newer, write=_to_gguf_newer,
    suits=lambda config: config.kind != "qwen3_next" and not config.num_experts,
    unsaid=("moe_intermediate_size", "shared_expert_intermediate_size", "num_experts_per_tok", "tiled_values"),
    older={"model.layers.{}.mlp.experts.gate_up_proj": "blk.{}.ffn_gate_up_exps"},
    names=_COMMON | {
        "model.layers.{}.linear_attn.in_proj_qkv": "blk.{}.attn_qkv",
        "model.layers.{}.linear_attn.in_proj_z": "blk.{}.attn_gate",
        "model.layers.{}.linear_attn.in_proj_b": "blk.{}.ssm_beta",
        "model.layers.{}.linear_attn.in_proj_a": "blk.{}.ssm_alpha",
    },
    forms={
        ".in_proj_qkv.weight": GgufForm(write=_tiled(_keys, _head)),
        ".in_proj_z.weight": GgufForm(write=_tiled(_none, _head)),
        ".in_proj_b.weight": GgufForm(write=_EACH), ".in_proj_a.weight": GgufForm(write=_EACH),
        ".linear_attn.A_log": replace(_DECAY, write=_tiled_decay), ".linear_attn.dt_bias": GgufForm(True, write=_EACH),
        ".linear_attn.conv1d.weight": replace(_CONVOLUTION, write=_tiled(_keys, _head)),
        ".linear_attn.out_proj.weight": GgufForm(write=_tiled(_none, _head, 1)),
    },
)  # fmt: skip
_NEWER_EXPERTS = replace(
    _NEWER, architecture="qwen35moe", suits=lambda config: config.kind != "qwen3_next" and config.num_experts > 0,
    unsaid=(*DENSE_LAYERS, "tiled_values"),
)  # fmt: skip
GGUF = replace(GGUF, others=(_NEWER, _NEWER_EXPERTS))
stored = gated_experts_apart
TASKS = {"causal-lm": Qwen3NextForCausalLM}
