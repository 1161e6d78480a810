"""AFM (Arcee AI 2025): Llama's blocks with squared ReLU and no gates."""

from __future__ import annotations

from functools import partial

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoder_blocks import RotaryLanguageModel
from pyapp.nn.ungated_decoder import UngatedBlock

from .loading.config import DecoderConfig
from .loading.gguf import Gguf, biases, pairs_of_llama

MODEL_TYPES = ("arcee",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "arcee"
    defaults = {"max_position_embeddings": 4096}

    intermediate_size: int
    rms_norm_eps: float = 1e-5
    hidden_act: str = "relu2"
    attention_bias: bool = False
    mlp_bias: bool = False


class ArceeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        norm = partial(RMSNorm, config.hidden_size, config.rms_norm_eps)
        super().__init__(config, partial(UngatedBlock, norm=norm), norm())


GGUF = Gguf("arcee", order=pairs_of_llama, read=biases)
TASKS = {"causal-lm": ArceeForCausalLM}
