"""Zamba (Glorioso et al. 2024, arXiv 2405.16712): layers of Mamba, whose mixers have heads; before some of them comes
the one block of attention and feed-forward, which reads the words beside the present state.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.engine.ops import arange, cat, empty, ones
from pyapp.nn import Conv1d, Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention
from pyapp.nn.layers.gated import GatedFeedForward, activation_named
from pyapp.nn.parameter import Initialization, new_parameter
from pyapp.nn.recurrent.shared_blocks import MixerLayer, SharedBlocksLanguageModel, SharedLayer
from pyapp.nn.recurrent.state_space import causal_convolution, draw_steps, selective_scan

from .loading.config import LIMITS, DecoderConfig, layers_in, require

MODEL_TYPES = ("zamba",)
LINEAR, HYBRID = "linear_attention", "hybrid"
LARGEST_EXPANSION = 1 << 8


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "zamba"
    defaults = {"max_position_embeddings": 4096, "tie_word_embeddings": True}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "gelu"
    hidden_mamba_act: str = "silu"
    layers_block_type: list[str]
    n_mamba_heads: int = 2
    mamba_d_state: int = 16
    mamba_d_conv: int = 4
    mamba_expand: int = 2
    mamba_dt_rank: int
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers, the rank of the steps, which may be "auto", and the size of heads,
        which read the words, too.
        """
        kinds, layers = values.get("layers_block_type", values.get("layer_types")), layers_in(values)
        hidden, heads = values.get("hidden_size"), values.get("num_attention_heads")
        if type(hidden) is not int or type(heads) is not int:
            return values  # what is missing is told when the fields are read
        if kinds is None:
            every, offset = values.get("attn_layer_period", 6), values.get("attn_layer_offset", 4)
            known = type(every) is int and every > 0 and type(offset) is int
            require(known, f"attn_layer_period is {every!r:.40} and attn_layer_offset {offset!r:.40}")
            rest = [HYBRID if layer % every == offset else LINEAR for layer in range(layers - 3)]
            kinds = [LINEAR, LINEAR, HYBRID, *rest][:layers]
        known = isinstance(kinds, list) and all(kind in ("mamba", LINEAR, HYBRID) for kind in kinds)
        require(known, f"layers_block_type is {kinds!r:.60}, expected a list of {LINEAR!r} and {HYBRID!r}")
        rank = values.get("mamba_dt_rank", "auto")
        return values | {
            "layers_block_type": [HYBRID if kind == HYBRID else LINEAR for kind in kinds],
            "mamba_dt_rank": -(-hidden // 16) if rank == "auto" else rank,
            "head_dim": values.get("attention_head_dim") or 2 * hidden // heads,
        }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds, layers, heads = self.layers_block_type, self.num_hidden_layers, self.n_mamba_heads
        require(len(kinds) == layers, f"layers_block_type has {len(kinds)} kinds of layers, of {layers}")
        kernel, expand = self.mamba_d_conv, self.mamba_expand
        require(2 <= kernel <= LIMITS["conv_kernel"], f"mamba_d_conv is {kernel}, expected 2 to 256")
        require(expand <= LARGEST_EXPANSION, f"mamba_expand is {expand}, expected at most {LARGEST_EXPANSION}")
        require(self.inner % heads == 0, f"n_mamba_heads {heads} does not divide {self.inner} channels")
        for name, most in (("mamba_d_state", "state_size"), ("mamba_dt_rank", "time_step_rank")):
            require(getattr(self, name) <= LIMITS[most], f"{name} is {getattr(self, name):,}, which is too many")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, by the names of config.json."""
        values = super().to_dict()
        return values | {"attention_head_dim": values["head_dim"]}

    @property
    def inner(self) -> int:
        """The channels of a mixer."""
        return self.mamba_expand * self.hidden_size

    @property
    def states(self) -> list[tuple[int, ...]]:
        """The shapes of the states of a mixer: the last inputs of all channels, and a state of each head."""
        size = self.inner // self.n_mamba_heads, self.mamba_d_state
        return [(self.mamba_d_conv - 1, self.inner), *[size] * self.n_mamba_heads]


class Mixer(Module):
    """Projects to channels, mixes each with its last tokens and with its state, and gates the result. Each of the
    heads, groups of channels, has projections of its own.
    """

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, inner, heads = config.hidden_size, config.inner, config.n_mamba_heads
        rank, state, bias = config.mamba_dt_rank, config.mamba_d_state, config.mamba_proj_bias
        self.layer, self.heads, self.sizes = layer, heads, (rank, state, state)
        self.activation = activation_named(config.hidden_mamba_act)
        self.in_proj = Linear(size, 2 * inner, bias=bias)
        self.conv1d = Conv1d(inner, inner, config.mamba_d_conv, groups=inner, bias=config.mamba_conv_bias)
        self.x_proj_weight = new_parameter(empty, heads, rank + 2 * state, inner // heads)
        self.dt_proj_weight = new_parameter(empty, heads, inner // heads, rank)
        self.dt_proj_bias = new_parameter(empty, heads, inner // heads)
        self.A_log = new_parameter(empty, heads, inner // heads, state)
        self.D = new_parameter(ones, heads, inner // heads)
        self.out_proj = ResidualLinear(inner, size, bias=bias)
        if Initialization.on:
            with no_grad():
                self.A_log.copy_(arange(1, state + 1, dtype="float32").log())
                self.x_proj_weight.uniform_(-((inner // heads) ** -0.5), (inner // heads) ** -0.5)
                self.dt_proj_weight.uniform_(-(rank**-0.5), rank**-0.5)
            draw_steps(self.dt_proj_bias)

    def forward(self, x: Tensor, text: Any, residual: Tensor | None = None) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + the mixed tokens, or these alone (..., T, hidden_size)."""
        both = self.in_proj(text.masked(x))  # (..., T, 2 inner): an input and a gate of each channel
        both = both.reshape(*both.shape[:-1], both.shape[-1] // 2, 2)
        convolve = partial(causal_convolution, weight=self.conv1d.weight, bias=self.conv1d.bias)
        mixed = text.masked(self.activation(text.carry(self.layer, 0, convolve, both.select(-1, 0))))
        found = []
        for head, own in enumerate(mixed.chunk(self.heads, -1)):  # (..., T, inner / H)
            projected = own @ self.x_proj_weight.select(0, head).transpose(0, 1)
            rank, inward, outward = projected.split(self.sizes, -1)
            steps = rank @ self.dt_proj_weight.select(0, head).transpose(0, 1) + self.dt_proj_bias.select(0, head)
            scan = partial(selective_scan, decay=-self.A_log.select(0, head).exp())
            y = text.carry(self.layer, 1 + head, scan, own, steps.softplus(), inward, outward)
            found.append(y + own * self.D.select(0, head))
        return self.out_proj(cat(found, -1) * both.select(-1, 1).silu(), residual)


class Attention(GroupedQueryAttention):
    """Self-attention, without positions, of the present states and the words, side by side."""

    def __init__(self, config: Config) -> None:
        heads = config.heads(scale=(config.head_dim / 2) ** -0.5)
        super().__init__(0, 2 * config.hidden_size, heads, None)
        self.o_proj = ResidualLinear(heads.heads * heads.head_dim, config.hidden_size, bias=False)


class SharedBlock(Module):
    """Attention and feed-forward, each with a norm before it, without residuals."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config)
        self.feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(2 * size, epsilon)
        self.pre_ff_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, words: Tensor, text: Any, layer: int, use: int) -> Tensor:
        """x and words (..., T, hidden_size) → (..., T, hidden_size). layer: of the cache."""
        own = self.self_attn
        qkv = own.qkv(own, self.input_layernorm(cat([x, words], -1)))
        y = own.o_proj(text.attention(layer, qkv, own.heads, None))
        found: Tensor = self.feed_forward(self.pre_ff_layernorm(y))
        return found


class ZambaForCausalLM(SharedBlocksLanguageModel):
    """The language model. Without tied embeddings the uses of the block are not tied either, as in transformers."""

    def __init__(self, config: Config) -> None:
        size, shared, layers, uses = config.hidden_size, SharedBlock(config), [], 0
        shapes: list[Any] = []
        for kind in config.layers_block_type:
            place = len(shapes)
            shapes += [None, config.states] if kind == HYBRID else [config.states]
            layer: Any = MixerLayer(Mixer(config, len(shapes) - 1), RMSNorm(size, config.rms_norm_eps))
            if kind == HYBRID:
                shared = shared if config.tie_word_embeddings else SharedBlock(config)
                layer = SharedLayer("shared_transf", shared, size, layer, place, uses)
                uses += 1
            layers.append(layer)
        super().__init__(config, layers, RMSNorm(size, config.rms_norm_eps), shapes)


TASKS = {"causal-lm": ZambaForCausalLM}
