"""Mistral (Jiang et al. 2023, arXiv 2310.06825): Llama's blocks, with attention to a window of the last tokens."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, TENSOR_SCALINGS, WINDOW, WITH_WINDOW, Gguf, pairs_of_llama

MODEL_TYPES = ("mistral",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "mistral"
    defaults = {"max_position_embeddings": 131072, "num_key_value_heads": 8}

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    sliding_window: int | None = 4096


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        heads = config.heads(window=config.sliding_window)
        self.self_attn = GroupedQueryAttention(layer, size, heads, rotary)
        self.mlp = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = self.self_attn(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class MistralForCausalLM(CausalLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary = RotaryTable(config.to_dict())
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, DecoderStack(config.vocab_size, config.hidden_size, blocks, norm))


# llama.cpp reads no window for "llama": it attends to the whole text there.
GGUF = Gguf(
    "llama", order=pairs_of_llama, keys=KEYS | WINDOW, index=WITH_WINDOW.format("llama"),
    scalings=TENSOR_SCALINGS,
)  # fmt: skip
TASKS = {"causal-lm": MistralForCausalLM}
