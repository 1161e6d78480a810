"""AFM (Arcee AI 2025): Llama's blocks with squared ReLU and no gates."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import RMSNorm
from pyapp.nn.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.feed_forward import FeedForward

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


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(), rotary, bias=config.attention_bias)
        feed_forward = FeedForward(
            size, config.intermediate_size, config.hidden_act, bias=config.mlp_bias, names=("up_proj", "down_proj")
        )
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))


class ArceeForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, RMSNorm(config.hidden_size, config.rms_norm_eps))


GGUF = Gguf("arcee", order=pairs_of_llama, read=biases)
TASKS = {"causal-lm": ArceeForCausalLM}
