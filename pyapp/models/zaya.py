"""ZAYA1 (Zyphra 2025, arXiv 2511.17127): queries and keys mixed by convolutions over a few tokens (compressed
convolutional attention, arXiv 2510.04476), values of which half are the token before's, one expert for each token, or
none, chosen by a router that also reads that of the layer before, and scaled residuals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.ops import cat, where
from pyapp.nn import Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, SelfAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.convolution import Conv1d
from pyapp.nn.layers.experts import Experts
from pyapp.nn.parameter import Parameter
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.recurrent import token_before

from .loading.config import DecoderConfig, check_kinds, layers_in, require

MODEL_TYPES = ("zaya",)
FULL, SLIDING = "hybrid", "hybrid_sliding"  # kinds of layers
THETA = {FULL: 5_000_000.0, SLIDING: 10_000.0}  # of the rotary positions that a config.json leaves out
SHORTEST = 1.1920929e-07  # length of a vector that is normalised
LONGEST = 1 << 6  # taps of a convolution


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. cca_time0 and cca_time1: the tokens that each of the two convolutions reads."""

    model_type = "zaya"
    defaults = {
        "max_position_embeddings": 131072, "num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": True,
    }  # fmt: skip

    moe_intermediate_size: int = 2048
    num_experts: int = 16
    num_experts_per_tok: int = 1
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    lm_head_bias: bool = False
    sliding_window: int | None = None
    layer_types: list[str]
    router_hidden_size: int = 256
    cca_time0: int = 2
    cca_time1: int = 2

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, also of those that say a rope_type beside the kinds of layers."""
        rotary, found = values.get("rope_parameters"), dict(values)
        if rotary is None:
            found["rope_parameters"] = {
                kind: {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": 0.5}
                for kind, theta in THETA.items()
            }
        elif isinstance(rotary, dict):
            found["rope_parameters"] = {kind: own for kind, own in rotary.items() if isinstance(own, dict)}
        return super().from_dict(found)

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers."""
        return values | {"layer_types": values.get("layer_types") or [FULL] * layers_in(values)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kinds("layer_types", self.layer_types, self.num_hidden_layers, FULL, SLIDING)
        missing = {*self.layer_types} - {*self.rope_parameters}
        require(not missing, f"rope_parameters has none of {', '.join(sorted(missing))}")
        windows = SLIDING not in self.layer_types or self.sliding_window is not None
        require(windows, "sliding_window is null, and some of layer_types slide")
        require(
            self.num_experts_per_tok == 1, f"num_experts_per_tok is {self.num_experts_per_tok}, and only 1 is known"
        )
        require(self.num_key_value_heads * self.head_dim % 2 == 0, "the values of a token do not have two halves")
        taps = self.cca_time0, self.cca_time1
        require(2 < sum(taps) and max(taps) <= LONGEST, f"cca_time0 and cca_time1 are {taps}, expected 2 to {LONGEST}")

    @property
    def mixed(self) -> int:
        """The features of a token that the convolutions mix: queries and keys."""
        return (self.num_attention_heads + self.num_key_value_heads) * self.head_dim

    @property
    def states(self) -> Sequence[tuple[int, ...]]:
        """The states of a layer: the queries and keys before a token, and the token's input before it."""
        return [(self.cca_time0 + self.cca_time1 - 2, self.mixed), (1, self.hidden_size)]

    def norm(self) -> RMSNorm:
        """A norm of the states."""
        return RMSNorm(self.hidden_size, self.rms_norm_eps)


class Projection(Module):
    """Queries, keys and values of a layer."""

    def __init__(self, config: Config, states: int) -> None:
        super().__init__()
        size, head, bias = config.hidden_size, config.head_dim, config.attention_bias
        self.heads, self.kv_heads, self.head_dim = config.num_attention_heads, config.num_key_value_heads, head
        self.states = states
        keys, mixed = self.kv_heads * head, config.mixed
        self.q_proj = Linear(size, self.heads * head, bias=bias)
        self.k_proj = Linear(size, keys, bias=bias)
        self.v_proj_current = Linear(size, keys // 2, bias=bias)
        self.v_proj_delayed = Linear(size, keys // 2, bias=bias)
        self.conv_qk_depthwise = Conv1d(mixed, mixed, config.cca_time0, groups=mixed)
        self.conv_qk_grouped = Conv1d(mixed, mixed, config.cca_time1, groups=self.heads + self.kv_heads)

    def forward(self, x: Tensor, text: Any) -> tuple[Tensor, Tensor, Tensor]:
        """x (..., T, hidden_size) → (..., T, H, D), (..., T, KV, D) and (..., T, KV D)."""
        x = text.masked(x)
        q, k = self.q_proj(x), self.k_proj(x)
        mixed = text.carry(self.states, 0, self._mixed, cat([q, k], -1))  # (..., T, (H + KV) D)
        before, groups = x.shape[:-1], self.heads // self.kv_heads
        own = k.reshape(*before, self.kv_heads, 1, self.head_dim)
        both = (q.reshape(*before, self.kv_heads, groups, self.head_dim) + own) * 0.5  # (..., T, KV, H / KV, D)
        inner = self.heads * self.head_dim
        queries = mixed.narrow(-1, 0, inner).reshape(*before, self.heads, self.head_dim)
        keys = mixed.narrow(-1, inner, k.shape[-1]).reshape(*before, self.kv_heads, self.head_dim)
        earlier = text.carry(self.states, 1, token_before, x)  # (..., T, hidden_size)
        values = cat([self.v_proj_current(x), self.v_proj_delayed(earlier)], -1)
        return queries + both.reshape(queries.shape), keys + both.mean(-2), values

    def _mixed(self, state: Tensor | None, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, C), state (B, S, C) the inputs before it, None: zeros → (B, T, C) and the next state."""
        texts, tokens, channels = x.shape
        kept = self.conv_qk_depthwise.kernel_size[0] + self.conv_qk_grouped.kernel_size[0] - 2
        state = x.new_zeros((texts, kept, channels)) if state is None else state
        seen = cat([state, x], 1)  # (B, S + T, C)
        y = self.conv_qk_grouped(self.conv_qk_depthwise(seen.transpose(1, 2))).transpose(1, 2)
        return y, seen.narrow(1, tokens, kept)


class KeyScale(Module):
    """A trained factor of the keys of each head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.temp = Parameter(ops.zeros(heads))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., KV, D) → (..., KV, D)."""
        return x * self.temp.unsqueeze(-1)


def normalized(x: Tensor) -> Tensor:
    """Vectors (..., D) of the length √D."""
    return x * (sqrt(x.shape[-1]) / x.square().sum(-1, True).sqrt().clamp(min=SHORTEST))


class Attention(SelfAttention):
    """Self-attention. The cache has the states in layer 2 i, the keys and values in layer 2 i + 1."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        window = config.sliding_window if config.layer_types[layer] == SLIDING else None
        heads: Heads = config.heads(window=window)
        super().__init__(2 * layer + 1, heads, rotary)
        self.qkv_proj = Projection(config, 2 * layer)
        self.qk_norm = KeyScale(heads.kv_heads)
        self.o_proj = ResidualLinear(heads.heads * heads.head_dim, config.hidden_size, bias=config.attention_bias)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        q, k, v = self.qkv_proj(x, text)
        q, k = normalized(q), self.qk_norm(normalized(k))
        before = x.shape[:-1]
        y = self.attend(cat([q.reshape(*before, -1), k.reshape(*before, -1), v], -1), text)
        found: Tensor = self.o_proj(y)
        return found


class Choice(Module):
    """The scores of the experts, and of none of them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.router_hidden_size
        self.norm = RMSNorm(size, config.rms_norm_eps)
        self.fc1, self.fc2 = Linear(size, size), Linear(size, size)
        self.out_proj = Linear(size, config.num_experts + 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, R) → (N, E + 1)."""
        y: Tensor = self.out_proj(self.fc2(self.fc1(self.norm(x)).gelu()).gelu())
        return y


class Router(Module):
    """Chooses one expert for each token, or none, from the token and from what the layer before read of it."""

    def __init__(self, config: Config, first: bool) -> None:
        super().__init__()
        self.experts = config.num_experts
        self.down_proj = Linear(config.hidden_size, config.router_hidden_size)
        self.router_states_scale = None if first else Parameter(ops.ones(config.router_hidden_size))
        self.router_mlp = Choice(config)
        self.balancing_biases = Parameter(ops.zeros(config.num_experts + 1), requires_grad=False)  # of the choice alone

    def forward(self, x: Tensor, earlier: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """x (N, D), earlier (N, R) → shares and experts (N, 1), and what the next layer reads (N, R)."""
        read = self.down_proj(x)
        if self.router_states_scale is not None and earlier is not None:
            read = read + earlier * self.router_states_scale
        shares = self.router_mlp(read).softmax(-1)  # (N, E + 1)
        with no_grad():
            chosen = (shares + self.balancing_biases).topk(1, -1)[1]
        none = chosen == self.experts
        return where(none, 0.0, shares.gather(1, chosen)), where(none, 0, chosen), read


class FeedForward(Module):
    """The experts of a layer."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.gate = Router(config, layer == 0)
        self.experts = Experts(
            config.hidden_size, config.moe_intermediate_size, config.num_experts, config.hidden_act
        )  # fmt: skip

    def forward(self, x: Tensor, earlier: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (..., hidden_size), earlier (N, R) → (..., hidden_size), and what the next layer's router reads (N, R)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        shares, chosen, read = self.gate(flat, earlier)
        return self.experts(flat, shares, chosen).reshape(x.shape), read


class ScaledResidual(Module):
    """The sum of a part's result and the residual, each with trained factors and summands."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.hidden_states_scale, self.hidden_states_bias = Parameter(ops.ones(size)), Parameter(ops.zeros(size))
        self.residual_scale, self.residual_bias = Parameter(ops.ones(size)), Parameter(ops.zeros(size))

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x, residual (..., hidden_size) → (..., hidden_size)."""
        own = (x + self.hidden_states_bias) * self.hidden_states_scale
        return own + (residual + self.residual_bias) * self.residual_scale


class Block(Module):
    """Attention and experts, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer, rotary[config.layer_types[layer]])
        self.mlp = FeedForward(config, layer)
        self.input_layernorm, self.post_attention_layernorm = config.norm(), config.norm()
        self.post_attention_residual_scale = ScaledResidual(config.hidden_size)
        self.post_mlp_residual_scale = ScaledResidual(config.hidden_size)

    def forward(self, x: Tensor, text: Any, earlier: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (..., T, hidden_size), earlier (N, R) → (..., T, hidden_size), and what the next layer's router reads."""
        x = self.post_attention_residual_scale(self.self_attn(self.input_layernorm(x), text), x)
        y, read = self.mlp(self.post_attention_layernorm(x), earlier)
        return self.post_mlp_residual_scale(y, x), read


class ZayaStack(DecoderStack):
    """The decoder, whose embeddings have trained factors and summands."""

    def __init__(self, config: Config, blocks: Sequence[Module]) -> None:
        super().__init__(config.vocab_size, config.hidden_size, blocks, config.norm())
        self.input_hidden_states_scale = Parameter(ops.ones(config.hidden_size))
        self.input_hidden_states_bias = Parameter(ops.zeros(config.hidden_size))

    def embedded(self, tokens: Tensor, text: Any) -> Tensor:
        return (self.embedding(tokens) + self.input_hidden_states_bias) * self.input_hidden_states_scale

    def forward(self, tokens: Tensor, text: Any, x: Tensor | None = None, added: Sequence[Tensor] = ()) -> Tensor:
        x = self.embedded(tokens, text) if x is None else x  # (..., T, hidden_size)
        read = None
        for layer in self.layers:
            x, read = layer(x, text, read)
        return x


class ZayaForCausalLM(HybridLanguageModel):
    """The language model."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, config: Config) -> None:
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*config.layer_types}}
        blocks = [Block(config, layer, rotary) for layer in range(config.num_hidden_layers)]
        super().__init__(config, ZayaStack(config, blocks), bias=config.lm_head_bias)
        self.state_shapes = [config.states, None] * config.num_hidden_layers


TASKS = {"causal-lm": ZayaForCausalLM}
