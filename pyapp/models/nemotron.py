"""Nemotron-4 and Minitron (Parmar et al. 2024, arXiv 2402.16819): squared ReLU, layer norms whose weights count from 1,
and rotary positions of a part of each head.
"""

from __future__ import annotations

from functools import partial

from pyapp.dataclass import dataclass
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.decoders.ungated_decoder import UngatedBlock
from pyapp.nn.layers.normalization import OffsetLayerNorm

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf, biases

MODEL_TYPES = ("nemotron",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "nemotron"
    defaults = {"max_position_embeddings": 4096, "partial_rotary_factor": 0.5}

    intermediate_size: int
    norm_eps: float = 1e-5
    hidden_act: str = "relu2"
    attention_bias: bool = False
    mlp_bias: bool = False


class NemotronForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        norm = partial(OffsetLayerNorm, config.hidden_size, config.norm_eps)
        super().__init__(config, partial(UngatedBlock, norm=norm), norm())


GGUF = Gguf(
    "nemotron", offset="norm.weight", read=biases, keys=KEYS | {"norm_eps": "attention.layer_norm_epsilon"}
)  # fmt: skip
TASKS = {"causal-lm": NemotronForCausalLM}
