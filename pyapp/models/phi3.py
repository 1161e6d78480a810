"""Phi-3 (Abdin et al. 2024, arXiv 2404.14219): Llama's blocks with joined projections, a window, and rotary angles for
long contexts (Ding et al. 2024, arXiv 2402.13753). Of Phi-4-multimodal (Microsoft 2025, arXiv 2503.01743) it is the
language model: the parts that see and hear, and their low-rank adapters, are not read.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable, SelfAttention, Text
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import JoinedGatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, NAMES, WINDOW, Gguf

MODEL_TYPES = ("phi3", "phi4_multimodal", "phi4mm")
IGNORED = r"(model\.)?embed_tokens_extend\..*|.*\.lora_[AB]\..*"  # of Phi-4-multimodal


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


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = Attention(config, layer, rotary)
        feed_forward = JoinedGatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class Phi3ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


def renamed(name: str) -> str:
    """The parameter of a file's tensor: Phi-4-multimodal's own files have adapters beside the matrices."""
    return name.replace(".base_layer.", ".")


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
