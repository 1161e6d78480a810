"""Phi-3 (Abdin et al. 2024, arXiv 2404.14219): Llama's blocks with joined projections, a window, and rotary angles for
long contexts (Ding et al. 2024, arXiv 2402.13753).
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module, ResidualLinear, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, RotaryTable, SelfAttention, Text
from pyapp.nn.layers.gated import JoinedGatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, NAMES, WINDOW, Gguf

MODEL_TYPES = ("phi3",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "phi3"
    defaults = {"max_position_embeddings": 4096, "original_max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    original_max_position_embeddings: int
    sliding_window: int | None = None


class Attention(SelfAttention):
    """Self-attention from one projection of queries, keys and values."""

    tensor_parallel = {"qkv_proj": ("outputs", "queries", "keys", "keys"), "o_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        heads = config.heads(window=config.sliding_window)
        super().__init__(layer, heads, rotary)
        self.qkv_proj = Linear(config.hidden_size, heads.width, bias=False)
        self.o_proj = ResidualLinear(heads.heads * heads.head_dim, config.hidden_size, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, hidden_size) → residual + attention (..., T, hidden_size)."""
        return self.o_proj(self.attend(self.qkv_proj(x), text), residual)


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, layer, rotary)
        self.mlp = JoinedGatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class Phi3ForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


GGUF = Gguf(
    "phi3", scalings=("longrope", "su"),
    names=NAMES | {
        "model.layers.{}.self_attn.qkv_proj": "blk.{}.attn_qkv", "model.layers.{}.mlp.gate_up_proj": "blk.{}.ffn_up",
    },
    keys=KEYS | WINDOW | {
        "original_max_position_embeddings": "rope.scaling.original_context_length",
    },
)  # fmt: skip
TASKS = {"causal-lm": Phi3ForCausalLM}
