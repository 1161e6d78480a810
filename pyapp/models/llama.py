"""Llama (Touvron et al. 2023, arXiv 2302.13971 and 2307.09288; Llama 3: arXiv 2407.21783): a pre-norm transformer with
rotary positions, grouped heads and SwiGLU. Also TinyLlama, SmolLM2, Yi and others of this architecture.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import TENSOR_SCALINGS, Gguf, biases, pairs_of_llama

MODEL_TYPES = ("llama",)
# What the text_config of a model that sees pictures leaves out.
NESTED_DEFAULTS = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "llama"
    defaults = {"max_position_embeddings": 2048}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.self_attn = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class LlamaForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


GGUF = Gguf("llama", order=pairs_of_llama, read=biases, scalings=TENSOR_SCALINGS)

TASKS = {"causal-lm": LlamaForCausalLM}
