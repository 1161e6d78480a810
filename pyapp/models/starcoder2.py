"""StarCoder 2 (Lozhkov et al. 2024, arXiv 2402.19173): rotary positions, grouped heads, layer norms, a plain
feed-forward layer and biases.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn import LayerNorm
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, NAMES, WINDOW, Gguf

MODEL_TYPES = ("starcoder2",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "starcoder2"
    defaults = {"max_position_embeddings": 4096, "num_key_value_heads": 2, "tie_word_embeddings": True}

    intermediate_size: int
    norm_epsilon: float = 1e-5
    hidden_act: str = "gelu_pytorch_tanh"
    use_bias: bool = True
    sliding_window: int | None = None


class Block(PreNormBlock):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        size, epsilon = config.hidden_size, config.norm_epsilon
        heads = config.heads(window=config.sliding_window)
        attention = GroupedQueryAttention(layer, size, heads, rotary, bias=config.use_bias)
        feed_forward = FeedForward(
            size, config.intermediate_size, config.hidden_act, bias=config.use_bias, names=("c_fc", "c_proj")
        )
        super().__init__(attention, feed_forward, LayerNorm(size, epsilon), LayerNorm(size, epsilon))


class Starcoder2ForCausalLM(RotaryLanguageModel):
    """The language model."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.norm_epsilon))


GGUF = Gguf(
    "starcoder2",
    names=NAMES | {"model.layers.{}.mlp.c_fc": "blk.{}.ffn_up", "model.layers.{}.mlp.c_proj": "blk.{}.ffn_down"},
    keys=KEYS | WINDOW | {"norm_epsilon": "attention.layer_norm_epsilon"},
    read=lambda found, values: found | {"use_bias": "blk.0.attn_q.bias" in values["tensors"]},
)  # fmt: skip
TASKS = {"causal-lm": Starcoder2ForCausalLM}
