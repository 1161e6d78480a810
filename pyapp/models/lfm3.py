"""LFM3 (Liquid AI 2026, https://huggingface.co/LiquidAI/LFM3-1.7B): most layers mix a token with the six before it by a
gated convolution, some attend within a window, some to all, with gates of the heads; norms on both sides of each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module, RMSNorm
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable
from pyapp.nn.decoders.decoder_blocks import GatedOutputAttention, HeadNormAttention
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.recurrent.hybrid import HybridLanguageModel
from pyapp.nn.recurrent.short_convolution import ShortConvolution

from .loading.config import FULL, LIMITS, SLIDING, DecoderConfig, check_kinds, layers_in, require

MODEL_TYPES = ("lfm3",)
CONVOLUTION = "conv"  # of layer_types
# The rotary positions that a config.json leaves out.
ROTARY = {
    SLIDING: {"rope_type": "default", "rope_theta": 10_000.0},
    FULL: {"rope_type": "proportional", "rope_theta": 1_000_000.0, "partial_rotary_factor": 0.5},
}


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "lfm3"
    defaults = {
        "max_position_embeddings": 128000, "tie_word_embeddings": True, "num_key_value_heads": 4, "head_dim": 128,
    }  # fmt: skip

    intermediate_size: int = 7680
    norm_eps: float = 1e-5
    conv_bias: bool = False
    conv_L_cache: int = 7
    sliding_window: int | None = 256
    layer_types: list[str]
    use_sandwich_norm: bool = True
    use_attention_gate: bool = True
    attention_bias: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, with rotary positions for both kinds of attention."""
        said = any(values.get(name) is not None for name in ("rope_parameters", "rope_scaling", "rope_theta"))
        return super().from_dict(values if said else {**values, "rope_parameters": ROTARY})

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the kinds of the layers."""
        layers, rotary = layers_in(values), values["rope_parameters"]
        kinds = [FULL if i % 4 == 2 else SLIDING if i % 4 == 0 and i > 0 else CONVOLUTION for i in range(layers)]
        both = {SLIDING: rotary, FULL: rotary} if "rope_type" in rotary else rotary
        return {"layer_types": kinds} | values | {"rope_parameters": both}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kinds("layer_types", self.layer_types, self.num_hidden_layers, FULL, SLIDING, CONVOLUTION)
        kernel, most = self.conv_L_cache, LIMITS["conv_kernel"]
        require(2 <= kernel <= most, f"conv_L_cache is {kernel}, expected 2 to {most}")
        missing = {*self.layer_types} - {CONVOLUTION, *self.rope_parameters}
        require(not missing, f"rope_parameters has none of {', '.join(sorted(missing))}")
        windows = SLIDING not in self.layer_types or self.sliding_window is not None
        require(windows, "sliding_window is null, and some of layer_types slide")


class Block(Module):
    """Attention or a convolution, and feed-forward, each between two norms (use_sandwich_norm False: after one), with a
    residual around it.
    """

    def __init__(self, config: Config, layer: int, rotary: Mapping[str, RotaryTable]) -> None:
        super().__init__()
        size, epsilon, kind = config.hidden_size, config.norm_eps, config.layer_types[layer]
        self.attends = kind != CONVOLUTION
        if self.attends:
            heads = config.heads(window=config.sliding_window if kind == SLIDING else None)
            attention: Any = HeadNormAttention
            if config.use_attention_gate:
                attention = partial(GatedOutputAttention, activation=ops.sigmoid)
            self.self_attn: Module = attention(layer, size, heads, rotary[kind], epsilon, bias=config.attention_bias)
        else:
            self.conv = ShortConvolution(size, config.conv_L_cache, layer, config.conv_bias)
        self.feed_forward = GatedFeedForward(size, config.intermediate_size, names=("w1", "w3", "w2"))
        self.operator_norm = RMSNorm(size, epsilon)
        self.ffn_norm = RMSNorm(size, epsilon)
        self.after = config.use_sandwich_norm
        if self.after:
            self.post_operator_norm = RMSNorm(size, epsilon)
            self.post_ffn_norm = RMSNorm(size, epsilon)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        mixer: Module = self.self_attn if self.attends else self.conv
        if self.after:
            x = x + self.post_operator_norm(mixer(self.operator_norm(x), text))
            return x + self.post_ffn_norm(self.feed_forward(self.ffn_norm(x)))
        x = mixer(self.operator_norm(x), text, x)
        y: Tensor = self.feed_forward(self.ffn_norm(x), x)
        return y


class Lfm3Stack(DecoderStack):
    """The decoder, whose last norm has another name."""

    last_norm = "embedding_norm"


class Lfm3ForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        size, kinds = config.hidden_size, config.layer_types
        rotary = {kind: RotaryTable(config.to_dict(), kind) for kind in {*kinds} - {CONVOLUTION}}
        blocks = (Block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        super().__init__(config, Lfm3Stack(config.vocab_size, size, blocks, RMSNorm(size, config.norm_eps)))
        state = [(config.conv_L_cache - 1, size)]
        self.state_shapes = [state if kind == CONVOLUTION else None for kind in kinds]


def renamed(name: str) -> str:
    """The parameter of a file's tensor."""
    return name.replace(".self_attn.gate_proj.", ".self_attn.g_proj.")


TASKS = {"causal-lm": Lfm3ForCausalLM}
