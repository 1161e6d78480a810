"""Bamba (IBM, Princeton, CMU and UIUC 2024): Llama's blocks, of which most mix tokens by Mamba 2; the others attend,
with rotary positions in half of each head.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.recurrent.hybrid import HybridBlock, HybridLanguageModel, HybridStack
from pyapp.nn.recurrent.mamba2 import Mamba2Mixer, Mamba2Settings

from .loading.config import DecoderConfig, require
from .loading.mamba_layers import MambaFields, mamba_fields

MODEL_TYPES = ("bamba",)


@dataclass(frozen=True, kw_only=True)
class Config(MambaFields, DecoderConfig):
    """The fields of config.json. attn_layer_indices: the layers that attend."""

    model_type = "bamba"
    defaults = {"max_position_embeddings": 262144, "num_key_value_heads": 8, "attn_layer_indices": []}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    attn_layer_indices: list[int]

    @classmethod
    def adjusted(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The fields with the sizes of heads of Mamba 2, and rotary positions in half of each head."""
        rotary = {"partial_rotary_factor": 0.5} | values["rope_parameters"]
        return values | {"rope_parameters": rotary} | mamba_fields(values)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_mamba()
        chosen, layers = self.attn_layer_indices, self.num_hidden_layers
        known = all(type(layer) is int and 0 <= layer < layers for layer in chosen)
        require(known, f"attn_layer_indices is {chosen!r:.60}, expected numbers below {layers}")

    @property
    def mixer(self) -> Mamba2Settings:
        """The sizes of a layer's mixer."""
        return self.mamba_settings(self.rms_norm_eps, self.hidden_act, output_bias=self.mamba_proj_bias)


class Block(HybridBlock):
    """Attention or a mixer, and feed-forward."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, attends = config.hidden_size, layer in config.attn_layer_indices
        bias = config.attention_bias
        super().__init__(
            GroupedQueryAttention(layer, size, config.heads(), rotary, bias=bias) if attends else None,
            None if attends else Mamba2Mixer(size, config.mixer, layer),
            GatedFeedForward(size, config.intermediate_size, config.hidden_act, config.mlp_bias),
            partial(RMSNorm, size, config.rms_norm_eps),
        )


class BambaForCausalLM(HybridLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        rotary, layers = RotaryTable(config.to_dict()), range(config.num_hidden_layers)
        blocks = (Block(config, layer, rotary) for layer in layers)
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        super().__init__(config, HybridStack(config.vocab_size, config.hidden_size, blocks, norm))
        states = config.mixer.states
        self.state_shapes = [None if layer in config.attn_layer_indices else states for layer in layers]


TASKS = {"causal-lm": BambaForCausalLM}
