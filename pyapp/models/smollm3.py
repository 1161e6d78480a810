"""SmolLM3 (Hugging Face 2025): Llama's blocks; every fourth layer has no rotary positions (Yang et al. 2025, arXiv
2501.18795).
"""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.gated import GatedFeedForward

from .loading.config import DecoderConfig, layer_types, require
from .loading.gguf import Gguf, pairs_of_llama

MODEL_TYPES = ("smollm3",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "smollm3"
    defaults = {
        "max_position_embeddings": 32768,
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
        "rope_theta": 2000000.0,
    }

    intermediate_size: int
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    layer_types: list[str]
    no_rope_layers: list[int]
    use_sliding_window: bool = False
    sliding_window: int | None = None

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the types of the layers, and 1 for each layer with rotary positions."""
        slides = values.get("use_sliding_window", False)
        every = values.get("no_rope_layer_interval", 4)
        require(type(every) is int and every > 0, f"no_rope_layer_interval is {every!r:.40}, expected a whole number")
        rotated = values.get("no_rope_layers")
        kinds = layer_types(values, lambda layer: False)
        if rotated is None:
            rotated = [int((layer + 1) % every != 0) for layer in range(len(kinds))]
        fits = isinstance(rotated, list) and len(rotated) == len(kinds)
        require(fits, f"no_rope_layers is {rotated!r:.60}, expected {len(kinds)} numbers")
        if values.get("layer_types") is None:
            kinds = ["sliding_attention" if slides and not turns else "full_attention" for turns in rotated]
        return values | {"layer_types": kinds, "no_rope_layers": rotated}


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        window = config.sliding_window if config.layer_types[layer] == "sliding_attention" else None
        table = rotary if config.no_rope_layers[layer] else None
        attention = GroupedQueryAttention(layer, size, config.heads(window=window), table, bias=config.attention_bias)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class SmolLM3ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf("smollm3", order=pairs_of_llama, unsaid=("use_sliding_window", "sliding_window"))

TASKS = {"causal-lm": SmolLM3ForCausalLM}
