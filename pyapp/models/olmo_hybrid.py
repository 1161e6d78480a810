"""OLMo Hybrid (OLMo Team 2026): three layers with a state by the gated delta rule, whose rates may be up to 2, for one
of OLMo 3's that attends, in the published models without positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import JointNormAttention, PostNormBlock
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.recurrent.delta_layer import GatedDeltaLayer
from pyapp.nn.recurrent.hybrid import HybridLanguageModel

from .loading.config import layers_in
from .loading.delta_config import ATTENTION, LINEAR, DeltaConfig
from .loading.stored import Stored

MODEL_TYPES = ("olmo_hybrid",)
EPSILON = 1e-5  # of the norms of what states give
# What published files call the norms of layers with states, and the library.
OLDER_NAMES = {"attention_layer_norm": "input_layernorm", "feedforward_layer_norm": "post_attention_layernorm"}


@dataclass(frozen=True, kw_only=True)
class Config(DeltaConfig):
    """The fields of config.json. placed: whether the layers that attend have rotary positions; a file says that they
    have not by a rope_theta that is null in its rope_parameters.
    """

    model_type = "olmo_hybrid"
    defaults = {"max_position_embeddings": 65536}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    linear_allow_neg_eigval: bool = True
    placed: bool = True

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        rotary = values.get("rope_parameters")
        bare = isinstance(rotary, Mapping) and "rope_theta" in rotary and rotary["rope_theta"] is None
        return super().from_dict({**values, "placed": not bare})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, every fourth of which attends, and the sizes of the states."""
        kinds = [LINEAR if (layer + 1) % 4 else ATTENTION for layer in range(layers_in(values))]
        if ATTENTION not in kinds:
            kinds[-1] = ATTENTION
        heads: Any = values.get("num_attention_heads")
        values = {"linear_num_key_heads": heads, "linear_num_value_heads": heads, "layer_types": kinds} | values
        count: Any = values["linear_num_key_heads"]
        width: Any = values.get("hidden_size")
        if "linear_key_head_dim" not in values and type(count) is int and count > 0 and type(width) is int:
            values["linear_key_head_dim"] = int(0.75 * width / count)
        size = values.get("linear_key_head_dim")
        return ({"linear_value_head_dim": 2 * size} if type(size) is int else {}) | values

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        bare = {} if values.pop("placed") else {"rope_theta": None}
        return values | {"rope_parameters": self.rope_parameters | bare}


class DeltaNet(GatedDeltaLayer):
    """A layer with a state."""

    names = "o_norm", "o_proj"

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(config, layer, EPSILON, strength=2.0 if config.linear_allow_neg_eigval else 1.0)
        size, keys, values = config.hidden_size, config.key_size, config.value_size
        self.q_proj = Linear(size, keys, bias=False)
        self.k_proj = Linear(size, keys, bias=False)
        self.v_proj = Linear(size, values, bias=False)
        self.a_proj = Linear(size, self.heads, bias=False)
        self.b_proj = Linear(size, self.heads, bias=False)
        self.g_proj = Linear(size, values, bias=False)

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mixed = cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], -1)
        return mixed, self.g_proj(x), self.b_proj(x), self.a_proj(x)


class StateBlock(Module):
    """A layer with a state and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.linear_attn = DeltaNet(config, layer)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.linear_attn(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return y


def block(config: Config, layer: int, rotary: RotaryTable | None) -> Module:
    """A layer."""
    if config.layer_types[layer] == LINEAR:
        return StateBlock(config, layer)
    size, epsilon = config.hidden_size, config.rms_norm_eps
    attention = JointNormAttention(layer, size, config.heads(), rotary, epsilon, bias=config.attention_bias)
    feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
    return PostNormBlock(attention, feed_forward, partial(RMSNorm, size, epsilon))


class OlmoHybridForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, size = RotaryTable(config.to_dict()) if config.placed else None, config.hidden_size
        blocks = (block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, DecoderStack(config.vocab_size, size, blocks, RMSNorm(size, config.rms_norm_eps)))
        self.state_shapes = config.state_shapes


def renamed(name: str) -> str:
    """The library's name of a file's tensor."""
    return re.sub("|".join(OLDER_NAMES), lambda found: OLDER_NAMES[found.group()], name)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the convolutions of a layer: those of queries, keys and values apart."""
    found = {}
    for layer in range(config.num_hidden_layers):
        before = f"model.layers.{layer}.linear_attn."
        names = tuple(f"{before}{part}_conv1d.weight" for part in "qkv")
        if names[0] in tensors:
            found[f"{before}conv1d.weight"] = Stored(names, join=cat)
    return found


TASKS = {"causal-lm": OlmoHybridForCausalLM}
