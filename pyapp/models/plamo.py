"""PLaMo 2 (Preferred Networks 2025, arXiv 2509.04897) and PLaMo 3 (https://huggingface.co/pfnet/plamo-3-nict-2b-base):
blocks between two norms, the second of which has small weights at first. PLaMo 2 has mixers with states between layers
that attend; each head has its own step, and what goes into the states and out of them is normalised. PLaMo 3 attends
in all layers, most of which have a window.

Layers of PLaMo 2 that attend see all tokens before, as in llama.cpp and vLLM: `attention_window_size` is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import empty, ones
from pyapp.nn import Linear, Module, Parameter, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, SelfAttention, Text, normalized_heads
from pyapp.nn.layers.convolution import Conv1d
from pyapp.nn.layers.gated import JoinedGatedFeedForward
from pyapp.nn.layers.normalization import OffsetRMSNorm
from pyapp.nn.parameter import new_parameter
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.state_space import causal_convolution, chunked_scan

from .loading.config import LIMITS, DecoderConfig, layer_types, require
from .loading.gguf import KEYS, MAMBA_FORMS, NAMES, WINDOW, Gguf, GgufForm, attending, key_lengths

MODEL_TYPES = ("plamo2", "plamo3")
# Other names of fields, and what a config.json leaves out.
FIELDS = {"hidden_size_per_head": "head_dim", "window_size": "sliding_window"}
SHARED: dict[str, Any] = {
    "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 2048, "tie_word_embeddings": True,
    "intermediate_size": 13312,
}  # fmt: skip
USUAL: dict[str, dict[str, Any]] = {
    "plamo2": SHARED,
    "plamo3": SHARED | {"rope_theta": 1_000_000.0, "sliding_window": 2048},
}
LOCAL_BASE = 10_000.0  # of the angles of layers with a window
SLIDING = "sliding_attention"
OFFSETS = {"post_mixer_norm": 1 / 5, "post_mlp_norm": 1 / 5**1.5}  # of norms; others: 1
SMALLEST_STEPS = 64  # numbers from which the steps of all heads are made


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "plamo3"

    kind: str = "plamo3"
    intermediate_size: int
    rms_norm_eps: float = 1e-6
    sliding_window: int | None = None
    layer_types: list[str]
    mamba_enabled: bool = False
    mamba_step: int = 2
    mamba_num_heads: int = 64
    mamba_d_state: int = 64
    mamba_d_conv: int = 4

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        kind = str(values.get("kind") or values.get("model_type") or cls.model_type)
        require(kind in USUAL, f"kind is {kind!r:.60}, expected one of {', '.join(USUAL)}")
        own = {FIELDS.get(name, name): value for name, value in values.items()}
        require(
            own.get("rope_scaling_factor", 1) == 1, "rope_scaling_factor is not 1, which is not known",
            "Give the config.json of a published model",
        )  # fmt: skip
        mixes = {"mamba_enabled": True} if kind == "plamo2" else {}
        found: Config = super().from_dict({**USUAL[kind], **mixes, **own, "kind": kind})
        return found

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of layers, and rotary parameters for each of those that attend."""
        window, pattern = values.get("sliding_window"), values.get("sliding_window_pattern", 8)
        require(type(pattern) is int and pattern >= 1, f"sliding_window_pattern is {pattern!r:.40}")
        kinds = layer_types(values, lambda layer: bool(window) and (layer + 1) % pattern != 0)
        rotary: dict[str, Any] = values["rope_parameters"]
        if "rope_type" in rotary:
            local = {"rope_type": "default", "rope_theta": values.get("rope_local_theta", LOCAL_BASE)}
            rotary = {SLIDING: local, "full_attention": rotary}
        return values | {"layer_types": kinds, "rope_parameters": rotary}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.mamba_step >= 1, f"mamba_step is {self.mamba_step}, expected 1 or more")
        kernel, size = self.mamba_d_conv, self.mamba_d_state
        require(
            2 <= kernel <= LIMITS["conv_kernel"], f"mamba_d_conv is {kernel}, expected 2 to {LIMITS['conv_kernel']}"
        )
        require(1 <= size <= LIMITS["state_size"], f"mamba_d_state is {size:,}, expected 1 to {LIMITS['state_size']:,}")
        heads, most = self.mamba_num_heads, LIMITS["num_attention_heads"]
        require(1 <= heads <= most, f"mamba_num_heads is {heads:,}, expected 1 to {most:,}")
        require(self.sliding_window is None or self.sliding_window >= 1, "sliding_window is less than 1")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"model_type": self.kind}

    def attends(self, layer: int) -> bool:
        """Whether a layer attends."""
        layers, place = self.num_hidden_layers, self.mamba_step // 2
        if not self.mamba_enabled:
            return True
        return layer == layers - 1 if layers <= place else layer % self.mamba_step == place

    def window(self, layer: int) -> int | None:
        """The window of a layer."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None

    @property
    def inner(self) -> int:
        """The channels of a mixer's heads."""
        return self.mamba_num_heads * self.head_dim

    @property
    def states(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the states of a mixer."""
        return (self.mamba_d_conv - 1, self.inner), (self.mamba_num_heads, self.head_dim, self.mamba_d_state)


class HeadsNorm(Module):
    """The root mean square norm of each head, times its weights (heads, features)."""

    def __init__(self, heads: int, features: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = Parameter(ones(heads, features))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., heads, features) → as x."""
        return x * (x.square().mean(-1, True) + self.epsilon).rsqrt() * self.weight


class Attention(SelfAttention):
    """Self-attention from one projection, with norms of queries and keys."""

    tensor_parallel = {"qkv_proj": ("outputs", "queries", "keys", "keys"), "o_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, epsilon = config.heads(window=config.window(layer)), config.rms_norm_eps
        super().__init__(layer, heads, rotary)
        self.qkv_proj = Linear(config.hidden_size, heads.width, bias=False)
        self.o_proj = ResidualLinear(heads.heads * heads.head_dim, config.hidden_size, bias=False)
        self.names = ("q", "k") if config.kind == "plamo2" else ("q_norm", "k_norm")
        for name, count in zip(self.names, (heads.heads, heads.kv_heads), strict=True):
            one = HeadsNorm(count, heads.head_dim, epsilon)
            self.add_module(name, one if config.kind == "plamo2" else OffsetRMSNorm(heads.head_dim, epsilon))

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → attention (..., T, hidden_size)."""
        norms = (self.get_submodule(name) for name in self.names)
        return self.o_proj(self.attend(normalized_heads(self.qkv_proj(x), self.heads, *norms), text))


class Mixer(Module):
    """Projects to heads, mixes each channel with its last tokens and each head with its state, and gates the result."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        inner, heads, size, epsilon = config.inner, config.mamba_num_heads, config.mamba_d_state, config.rms_norm_eps
        steps = max(SMALLEST_STEPS, config.hidden_size // 16)
        self.layer, self.heads, self.parts = layer, heads, (size, size, steps)
        self.in_proj = Linear(config.hidden_size, 2 * inner, bias=False)
        self.conv1d = Conv1d(inner, inner, config.mamba_d_conv, groups=inner, bias=False)
        self.bcdt_proj = Linear(inner, 2 * size + steps, bias=False)
        self.B_norm, self.C_norm, self.dt_norm = (RMSNorm(count, epsilon) for count in self.parts)
        self.dt_proj = Linear(steps, heads, bias=False)
        self.dt_bias = new_parameter(empty, heads)
        self.A_log = new_parameter(empty, heads)
        self.D = Parameter(ones(heads))
        self.out_proj = ResidualLinear(inner, config.hidden_size, bias=False)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → the mixed tokens (..., T, hidden_size)."""
        projected = self.in_proj(text.masked(x)).reshape(*x.shape[:-1], self.heads, -1)  # (..., T, H, 2 P)
        size = projected.shape[-1] // 2
        gate, mixed = (projected.narrow(-1, first, size).flatten(-2) for first in (0, size))
        convolve = partial(causal_convolution, weight=self.conv1d.weight)
        mixed = text.masked(text.carry(self.layer, 0, convolve, mixed).silu())  # (..., T, inner)
        inward, outward, steps = self.bcdt_proj(mixed).split(self.parts, -1)
        steps = (self.dt_proj(self.dt_norm(steps)) + self.dt_bias).softplus()  # (..., T, H)
        scan = partial(chunked_scan, decay=-self.A_log.exp(), groups=1)
        y = text.carry(self.layer, 1, scan, mixed, steps, self.B_norm(inward), self.C_norm(outward))
        by_head = (*mixed.shape[:-1], self.heads, size)
        y = (y.reshape(by_head) + mixed.reshape(by_head) * self.D.unsqueeze(-1)).reshape(mixed.shape)
        return self.out_proj(y * gate.silu())


class Block(Module):
    """Attention or a mixer, and feed-forward, each between two norms, with a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        super().__init__()
        table = rotary[config.layer_types[layer]]
        self.mixer: Module = Attention(config, layer, table) if config.attends(layer) else Mixer(config, layer)
        self.mlp = JoinedGatedFeedForward(config.hidden_size, config.intermediate_size)
        for name in ("pre_mixer_norm", "post_mixer_norm", "pre_mlp_norm", "post_mlp_norm"):
            own = OffsetRMSNorm(config.hidden_size, config.rms_norm_eps, offset=OFFSETS.get(name, 1.0))
            self.add_module(name, own)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        before, after, second, last = (self.get_submodule(f"{name}_norm") for name in (
            "pre_mixer", "post_mixer", "pre_mlp", "post_mlp",
        ))  # fmt: skip
        x = x + after(self.mixer(before(x), text))
        y: Tensor = x + last(self.mlp(second(x)))
        return y


class PlamoForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        layers = range(config.num_hidden_layers)
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        norm = OffsetRMSNorm(config.hidden_size, config.rms_norm_eps)
        blocks = (Block(config, layer, rotary) for layer in layers)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))
        self.state_shapes = [None if config.attends(layer) else config.states for layer in layers]


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    name = re.sub(r"^model\.layers\.layers\.", "model.layers.", name)
    return re.sub(r"\.(B_norm|C_norm|dt_norm|q|k)_weight$", r".\1.weight", name)


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """PLaMo 3's windows."""
    pattern = values.get("attention.sliding_window_pattern", 8)
    if isinstance(pattern, list):
        kinds: dict[str, Any] = {"layer_types": [SLIDING if slides else "full_attention" for slides in pattern]}
    else:
        kinds = {"sliding_window_pattern": pattern}
    local = {"rope_local_theta": values.get("rope.freq_base_swa", LOCAL_BASE)}
    return {"sliding_window": None} | found | kinds | local | {"model_type": "plamo3"}


def _to_gguf(config: Config) -> dict[str, Any]:
    slides = [kind == SLIDING for kind in config.layer_types]
    local = config.rope_parameters.get(SLIDING, {}).get("rope_theta", LOCAL_BASE)
    own: dict[str, Any] = {"rope.freq_base_swa": float(local), "attention.sliding_window_pattern": slides}
    return key_lengths(config) | (own if any(slides) else {"attention.sliding_window": None})


def _mixing_from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers of PLaMo 2 attend: those with heads of keys."""
    attends, kv_heads = attending(found)
    heads = found.get("num_attention_heads")
    heads = max((count for count in heads if type(count) is int), default=0) if isinstance(heads, list) else heads
    places = [layer for layer, own in enumerate(attends) if own]
    step = 2 * len(attends)  # only the last attends
    if len(places) > 1:
        step = places[1] - places[0]
    elif places and places[0] != len(attends) - 1:
        step = 2 * places[0] + 1
    size = values.get("attention.key_length", 128)
    return found | {
        "model_type": "plamo2", "num_key_value_heads": kv_heads, "num_attention_heads": heads, "head_dim": size,
        "mamba_enabled": not all(attends), "mamba_step": step,
    }  # fmt: skip


def _mixing_to_gguf(config: Config) -> dict[str, Any]:
    require(config.mamba_enabled, "llama.cpp has no PLaMo 2 without mixers", "Write safetensors")
    attends = [config.attends(layer) for layer in range(config.num_hidden_layers)]
    return key_lengths(config) | {
        "attention.head_count": [config.num_attention_heads if own else 0 for own in attends],
        "attention.head_count_kv": [config.num_key_value_heads if own else 0 for own in attends],
        "ssm.inner_size": config.inner, "ssm.group_count": 0,
    }  # fmt: skip


def _shifted(offset: float) -> GgufForm:
    """Of a norm whose file has its weights with the offset, under a name without .weight."""
    return GgufForm(True, write=lambda config, value: value + offset, read=lambda config, value: value - offset)


_PARTS = {
    "pre_mixer_norm": "attn_norm", "post_mixer_norm": "post_attention_norm", "pre_mlp_norm": "ffn_norm",
    "post_mlp_norm": "post_ffw_norm", "mixer.qkv_proj": "attn_qkv", "mixer.o_proj": "attn_output",
    "mlp.gate_up_proj": "ffn_up", "mixer.q_norm": "attn_q_norm", "mixer.k_norm": "attn_k_norm",
    "mixer.q": "attn_q_norm", "mixer.k": "attn_k_norm", "mixer.in_proj": "ssm_in", "mixer.conv1d": "ssm_conv1d",
    "mixer.bcdt_proj": "ssm_x", "mixer.dt_proj": "ssm_dt", "mixer.dt_bias": "ssm_dt.bias", "mixer.A_log": "ssm_a",
    "mixer.D": "ssm_d", "mixer.out_proj": "ssm_out", "mixer.dt_norm": "ssm_dt_norm", "mixer.B_norm": "ssm_b_norm",
    "mixer.C_norm": "ssm_c_norm",
}  # fmt: skip
_BARE = GgufForm(True)
_NORMS = {f"{name}.weight": _shifted(offset) for name, offset in OFFSETS.items()}
GGUF = Gguf(
    "plamo3", read=_from_gguf, write=_to_gguf, keys=KEYS | WINDOW, forms=_NORMS,
    names=NAMES | {f"model.layers.{{}}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in _PARTS.items()},
    offset=("pre_mixer_norm.weight", "pre_mlp_norm.weight", "q_norm.weight", "k_norm.weight", "model.norm.weight"),
    unsaid=("kind", "mamba_enabled", "mamba_step", "mamba_num_heads", "mamba_d_state", "mamba_d_conv"),
)  # fmt: skip
GGUF = replace(GGUF, others=(
    replace(
        GGUF, architecture="plamo2", read=_mixing_from_gguf, write=_mixing_to_gguf,
        suits=lambda config: config.kind == "plamo2", unsaid=("kind", "mamba_step", "sliding_window", "layer_types"),
        keys=KEYS | {
            "mamba_d_state": "ssm.state_size", "mamba_d_conv": "ssm.conv_kernel",
            "mamba_num_heads": "ssm.time_step_rank",
        },
        forms=_NORMS | MAMBA_FORMS | {".mixer.dt_bias": _BARE}
        | {f".mixer.{part}_norm.weight": _BARE for part in ("dt", "B", "C")},
    ),
))  # fmt: skip
TASKS = {"causal-lm": PlamoForCausalLM}
