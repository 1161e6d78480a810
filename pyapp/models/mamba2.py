"""Mamba 2 (Dao and Gu 2024, arXiv 2405.21060): a state space model with heads, whose states decay as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from math import inf
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.engine.ops import arange, empty, ones
from pyapp.nn import Conv1d, Linear, Module, ResidualLinear
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import Initialization, Parameter, new_parameter
from pyapp.nn.recurrent import StateText
from pyapp.nn.state_space import StateSpaceLanguageModel, causal_convolution, chunked_scan, draw_steps

from .loading.config import check_fields, read_config, require
from .loading.gguf import MAMBA_FORMS, MAMBA_KEYS, MAMBA_NAMES, Gguf, GgufForm

MODEL_TYPES = ("mamba2",)
LONGEST = 1 << 20  # tokens of a text, as llama.cpp says: states know no limit


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json. The steps are at least `shortest_step` and at most `longest_step`, None: without a
    limit (time_step_limit).
    """

    model_type: str = "mamba2"
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_heads: int
    head_dim: int = 64
    state_size: int = 128
    n_groups: int = 8
    conv_kernel: int = 4
    layer_norm_epsilon: float = 1e-5
    hidden_act: str = "silu"
    use_bias: bool = False
    use_conv_bias: bool = True
    tie_word_embeddings: bool = False
    shortest_step: float = 0.0
    longest_step: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.conv_kernel > 1, f"conv_kernel is {self.conv_kernel}, expected 2 or more")
        require(self.num_heads % self.n_groups == 0, f"n_groups {self.n_groups} does not divide num_heads")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        given = dict(values)
        limits = given.get("time_step_limit")
        if limits is not None:
            pair = isinstance(limits, list | tuple) and len(limits) == 2
            require(pair and all(type(x) in (int, float) for x in limits), f"time_step_limit is {limits!r:.60}")
            given["shortest_step"] = max(limits[0], 0.0)
            given["longest_step"] = None if limits[1] == inf else limits[1]
        return read_config(cls, given)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def inner_size(self) -> int:
        """The channels of all heads."""
        return self.num_heads * self.head_dim

    @property
    def max_seq_len(self) -> int:
        """The tokens that the model can read."""
        return LONGEST


class GatedNorm(Module):
    """The root mean square norm, group by group, of x times silu(gate)."""

    def __init__(self, size: int, groups: int, epsilon: float) -> None:
        super().__init__()
        self.groups, self.epsilon = groups, epsilon
        self.weight = Parameter(ones(size))

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """x and gate (..., size) → (..., size)."""
        y = x * gate.silu()
        parts = y.reshape(*y.shape[:-1], self.groups, y.shape[-1] // self.groups)
        parts = parts * (parts.square().mean(-1, True) + self.epsilon).rsqrt()
        return parts.reshape(y.shape) * self.weight


class Mixer(Module):
    """Projects to heads, mixes each channel with its last tokens and each head with its state, and gates the result."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        inner, heads, shared = config.inner_size, config.num_heads, config.n_groups * config.state_size
        width = inner + 2 * shared
        self.layer, self.groups, self.head_dim = layer, config.n_groups, config.head_dim
        self.limits = config.shortest_step, config.longest_step
        self.sizes, self.parts = (inner, width, heads), (inner, shared, shared)
        self.activation = activation_named(config.hidden_act)
        self.in_proj = Linear(config.hidden_size, inner + width + heads, bias=config.use_bias)
        self.conv1d = Conv1d(width, width, config.conv_kernel, groups=width, bias=config.use_conv_bias)
        self.dt_bias = new_parameter(empty, heads)
        self.A_log = new_parameter(empty, heads)
        self.D = Parameter(ones(heads))
        self.norm = GatedNorm(inner, config.n_groups, config.layer_norm_epsilon)
        self.out_proj = ResidualLinear(inner, config.hidden_size, bias=config.use_bias)
        if Initialization.on:
            with no_grad():
                self.A_log.copy_(arange(1, heads + 1, dtype="float32").log())
            draw_steps(self.dt_bias)

    def forward(self, x: Tensor, text: StateText, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens (..., T, hidden_size)."""
        gate, mixed, steps = self.in_proj(text.masked(x)).split(self.sizes, -1)
        convolve = partial(causal_convolution, weight=self.conv1d.weight, bias=self.conv1d.bias)
        mixed = text.masked(self.activation(text.carry(self.layer, 0, convolve, mixed)))
        x, inward, outward = mixed.split(self.parts, -1)
        steps = (steps + self.dt_bias).softplus()  # (..., T, H)
        if self.limits != (0.0, None):
            steps = steps.clamp(*self.limits)
        scan = partial(chunked_scan, decay=-self.A_log.exp(), groups=self.groups)
        y = text.carry(self.layer, 1, scan, x, steps, inward, outward)  # (..., T, inner)
        heads = (*x.shape[:-1], self.D.shape[0], self.head_dim)
        y = (y.reshape(heads) + x.reshape(heads) * self.D.unsqueeze(-1)).reshape(y.shape)
        return self.out_proj(self.norm(y, gate), residual)


class Mamba2ForCausalLM(StateSpaceLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        mixers = (Mixer(config, layer) for layer in range(config.num_hidden_layers))
        width = config.inner_size + 2 * config.n_groups * config.state_size
        state = (config.num_heads, config.head_dim, config.state_size)
        super().__init__(config, mixers, [((config.conv_kernel - 1, width), state)] * config.num_hidden_layers)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: the first files call the embeddings by another name."""
    return name.replace("backbone.embedding.", "backbone.embeddings.")


def _from_gguf(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    tensors, inner, heads = values["tensors"], values.get("ssm.inner_size"), found.get("num_heads")
    if type(inner) is int and type(heads) is int and heads > 0:
        found = found | {"head_dim": inner // heads}
    return found | {
        "use_bias": "blk.0.ssm_in.bias" in tensors, "use_conv_bias": "blk.0.ssm_conv1d.bias" in tensors,
    }  # fmt: skip


def _to_gguf(config: Config) -> dict[str, Any]:
    return {
        "ssm.inner_size": config.inner_size, "context_length": LONGEST, "feed_forward_length": 0,
        "attention.head_count": 0,
    }  # fmt: skip


def _column(config: Config, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of heads are columns in files."""
    return (*shape, 1)


def _by_group(config: Config, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The norm's weight has a row for each group."""
    return config.n_groups, shape[0] // config.n_groups


_FORMS = {
    ".mixer.A_log": replace(MAMBA_FORMS[".mixer.A_log"], shape=_column), ".mixer.D": GgufForm(True, _column),
    ".mixer.dt_bias": GgufForm(True), ".mixer.norm.weight": GgufForm(shape=_by_group),
}  # fmt: skip
GGUF = Gguf(
    "mamba2", names=MAMBA_NAMES | {
        "backbone.layers.{}.mixer.dt_bias": "blk.{}.ssm_dt.bias", "backbone.layers.{}.mixer.norm": "blk.{}.ssm_norm",
    },
    keys=MAMBA_KEYS | {"num_heads": "ssm.time_step_rank", "n_groups": "ssm.group_count"},
    forms=MAMBA_FORMS | _FORMS, read=_from_gguf, write=_to_gguf,
)  # fmt: skip

TASKS = {"causal-lm": Mamba2ForCausalLM}
