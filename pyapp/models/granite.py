"""Granite 3 (Granite Team 2024): Llama's blocks with factors for embeddings, attention scores, residuals and logits."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn.decoder import RotaryTable
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.scaled_decoder import ScaledBlock, ScaledLanguageModel

from .loading.gguf import TENSOR_SCALINGS, Gguf, biases, pairs_of_llama
from .loading.multipliers import MULTIPLIER_KEYS, MultiplierConfig

MODEL_TYPES = ("granite",)


@dataclass(frozen=True, kw_only=True)
class Config(MultiplierConfig):
    """The fields of config.json."""

    model_type = "granite"

    mlp_bias: bool = False


class Block(ScaledBlock):
    """Attention and feed-forward."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        feed_forward = GatedFeedForward(
            config.hidden_size, config.intermediate_size, config.hidden_act, config.mlp_bias
        )
        super().__init__(config, layer, rotary, feed_forward)


class GraniteForCausalLM(ScaledLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block)


GGUF = Gguf("granite", order=pairs_of_llama, scalings=TENSOR_SCALINGS, keys=MULTIPLIER_KEYS, read=biases)
TASKS = {"causal-lm": GraniteForCausalLM}
