"""Phi-1, Phi-1.5 and Phi-2 (Li et al. 2023, arXiv 2309.05463): attention and a plain feed-forward layer side by side,
with biases, and rotary positions of a part of each head.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoder import DecoderStack, RotaryTable, SelfAttention, Text, normalized_heads
from pyapp.nn.decoder_blocks import RotaryLanguageModel
from pyapp.nn.layers.gated import activated, activation_named
from pyapp.nn.layers.joined import JoinedLinear

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, NAMES, Gguf

MODEL_TYPES = ("phi",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "phi"
    defaults = {"max_position_embeddings": 2048, "partial_rotary_factor": 0.5}

    intermediate_size: int
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu_new"
    qk_layernorm: bool = False


class Attention(SelfAttention):
    """Self-attention with biases; in some models the queries and keys are normalised, head by head."""

    tensor_parallel = {
        "q_proj": ("outputs", "queries"), "k_proj": ("outputs", "keys"), "v_proj": ("outputs", "keys"),
        "q_layernorm": ("whole",), "k_layernorm": ("whole",), "dense": ("inputs", "queries"),
    }  # fmt: skip

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads, size = config.heads(), config.hidden_size
        super().__init__(layer, heads, rotary)
        inner, kv = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
        self.q_proj = Linear(size, inner)
        self.k_proj = Linear(size, kv)
        self.v_proj = Linear(size, kv)
        self.dense = ResidualLinear(inner, size)
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")
        self.q_layernorm = LayerNorm(heads.head_dim, config.layer_norm_eps) if config.qk_layernorm else None
        self.k_layernorm = LayerNorm(heads.head_dim, config.layer_norm_eps) if config.qk_layernorm else None

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        qkv = self.qkv(self, x)
        if self.q_layernorm is not None and self.k_layernorm is not None:
            qkv = normalized_heads(qkv, self.heads, self.q_layernorm, self.k_layernorm)
        return self.dense(self.attend(qkv, text), residual)


class FeedForward(Module):
    """fc2(activation(fc1 x)), added to the residual."""

    tensor_parallel = {"fc1": ("outputs", "inner"), "fc2": ("inputs", "inner")}

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.activation = activation_named(config.hidden_act)
        self.fc1 = Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = ResidualLinear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + feed-forward (..., hidden_size)."""
        return self.fc2(activated(self.fc1, x, self.activation), residual)


class Block(Module):
    """Attention and feed-forward of the same norm, both added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer, rotary)
        self.mlp = FeedForward(config)
        self.input_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        own = self.input_layernorm(x)
        return self.mlp(own, self.self_attn(own, text, x))


class PhiStack(DecoderStack):
    """The decoder; its last norm has another name."""

    last_norm = "final_layernorm"


class PhiForCausalLM(RotaryLanguageModel):
    """The language model; its head has a bias."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_eps), stack=PhiStack, bias=True)


GGUF = Gguf(
    "phi2",
    names=NAMES | {
        "model.final_layernorm": "output_norm", "model.layers.{}.self_attn.dense": "blk.{}.attn_output",
        "model.layers.{}.mlp.fc1": "blk.{}.ffn_up", "model.layers.{}.mlp.fc2": "blk.{}.ffn_down",
    },
    keys=KEYS | {"layer_norm_eps": "attention.layer_norm_epsilon"},
)  # fmt: skip
TASKS = {"causal-lm": PhiForCausalLM}
