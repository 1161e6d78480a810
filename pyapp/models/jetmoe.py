"""JetMoE (Shen et al. 2024, arXiv 2404.07413): Llama's blocks with experts for feed-forward and for attention: those of
the latter project to queries and from their results, and share the keys and values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops import cat
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable, SelfAttention, Text
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.experts import Experts, Router
from pyapp.nn.parameter import new_parameter

from .loading.config import LIMITS, DecoderConfig, check_choice, require

MODEL_TYPES = ("jetmoe",)
BLOCK_EPSILON = 1e-6  # of the norms of blocks, whatever config.json says of the last one


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json. A token has a query of each of its experts for each key."""

    model_type = "jetmoe"
    defaults = {"max_position_embeddings": 4096, "num_key_value_heads": 16, "tie_word_embeddings": True}

    intermediate_size: int
    kv_channels: int = 128
    activation_function: str = "silu"
    rms_norm_eps: float = 1e-6
    num_local_experts: int = 8
    num_experts_per_tok: int = 2

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, with the heads that follow from its other fields."""
        keys, chosen, size = values.get("num_key_value_heads", 16), values.get("num_experts_per_tok", 2), "kv_channels"
        for name, number in (("num_key_value_heads", keys), ("num_experts_per_tok", chosen)):
            plausible = type(number) is int and 1 <= number <= LIMITS["num_key_value_heads"]
            require(plausible, f"{name} is {number!r:.40}, expected a whole number from 1 to 4,096")
        own = {"num_attention_heads": keys * chosen, "head_dim": values.get(size, 128)}
        return super().from_dict({**values, **own})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.num_experts_per_tok, self.num_local_experts)


class RoutedExperts(Experts):
    """Experts with their router, and a bias of all results. `ungated`: those of attention."""

    def __init__(self, config: Config, inner: int, ungated: bool = False) -> None:
        size, count = config.hidden_size, config.num_local_experts
        super().__init__(size, inner, count, config.activation_function, ungated=ungated)
        self.router = Module()
        self.router.layer = Router(size, count, config.num_experts_per_tok)
        self.bias = new_parameter(ops.zeros, size)


class FeedForward(RoutedExperts):
    """A mixture of experts, added to the residual."""

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:  # type: ignore[override]
        """x and residual (..., hidden_size) → (..., hidden_size)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        return residual + (super().forward(flat, *self.router.layer(flat)) + self.bias).reshape(x.shape)


class Attention(SelfAttention):
    """Self-attention whose queries are those of the experts of a token."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__(layer, config.heads(), rotary)
        inner = config.num_key_value_heads * config.head_dim
        self.experts = RoutedExperts(config, inner, ungated=True)
        self.kv_proj = Linear(config.hidden_size, 2 * inner, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        heads, experts, flat = self.heads, self.experts, x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        keys, size, tokens = heads.kv_heads, heads.head_dim, flat.shape[0]
        shares, chosen = experts.router.layer(flat)  # (N, K)
        count, ids = chosen.shape[1], chosen.reshape(-1)
        each = flat.unsqueeze(1).expand(tokens, count, flat.shape[1]).reshape(-1, flat.shape[1])  # (N K, hidden_size)
        # The queries of a key, which are those of all experts, lie together.
        q = experts.product("up_proj", each, ids).reshape(tokens, count, keys, size).transpose(1, 2)
        qkv = cat([q.reshape(tokens, -1), self.kv_proj(flat)], -1).reshape(*x.shape[:-1], heads.width)
        y = self.attend(qkv, text).reshape(tokens, keys, count, size).transpose(1, 2).reshape(-1, keys * size)
        y = experts.product("down_proj", y, ids).reshape(tokens, count, -1) * shares.unsqueeze(-1)
        return residual + (y.sum(1) + experts.bias).reshape(x.shape)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.self_attention = Attention(config, layer, rotary)
        self.mlp = FeedForward(config, config.intermediate_size)
        self.input_layernorm = RMSNorm(config.hidden_size, BLOCK_EPSILON)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, BLOCK_EPSILON)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attention(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class JetMoeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters, as Hugging Face's files have them."""
        found = {}
        for name, value in tensors.items():
            own = re.sub(r"\.(gate_)?up_proj$", ".input_linear.weight", name)
            found[re.sub(r"\.down_proj$", ".output_linear.weight", own)] = value
        return found


def renamed(name: str) -> str:
    """The parameter of a file's tensor: the stacks of experts have other names there."""
    first = "up_proj" if ".self_attention." in name else "gate_up_proj"
    return name.replace("input_linear.weight", first).replace("output_linear.weight", "down_proj")


TASKS = {"causal-lm": JetMoeForCausalLM}
