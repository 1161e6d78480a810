"""GPT-NeoX and Pythia (Black et al. 2022, arXiv 2204.06745): attention and feed-forward side by side, rotary positions
of a part of each head, layer norms and biases.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Module
from pyapp.nn.decoders.decoder import DecoderStack, RotaryTable, Text
from pyapp.nn.decoders.decoder_blocks import HeadByHeadAttention, RotaryLanguageModel
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import DecoderConfig
from .loading.gguf import KEYS, Gguf, grouped_rows

MODEL_TYPES = ("gpt_neox",)


@dataclass(frozen=True, kw_only=True)
class Config(DecoderConfig):
    """The fields of config.json."""

    model_type = "gpt_neox"
    defaults = {"max_position_embeddings": 2048, "rotary_pct": 0.25}
    ignored = ("num_key_value_heads",)

    intermediate_size: int
    layer_norm_eps: float = 1e-5
    hidden_act: str = "gelu"
    attention_bias: bool = True
    use_parallel_residual: bool = True


class Block(Module):
    """Attention and feed-forward, side by side or one after the other."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.parallel = config.use_parallel_residual
        self.input_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.post_attention_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attention = HeadByHeadAttention(
            layer, config.hidden_size, config.heads(), rotary, bias=config.attention_bias
        )
        self.mlp = FeedForward(
            config.hidden_size, config.intermediate_size, config.hidden_act, names=("dense_h_to_4h", "dense_4h_to_h")
        )

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        y = self.attention(self.input_layernorm(x), text, x)
        return self.mlp(self.post_attention_layernorm(x if self.parallel else y), y)


class GPTNeoXStack(DecoderStack):
    """The decoder."""

    tokens, last_norm = "embed_in", "final_layer_norm"


class GPTNeoXForCausalLM(RotaryLanguageModel):
    """The language model."""

    base_model_prefix = "gpt_neox"

    def __init__(self, config: Config) -> None:
        super().__init__(config, Block, LayerNorm(config.hidden_size, config.layer_norm_eps), stack=GPTNeoXStack)


def renamed(name: str) -> str:
    """The parameter of a file's tensor: published files call the head embed_out."""
    return "lm_head.weight" if name == "embed_out.weight" else name


def _order(name: str, config: Config) -> list[int] | None:
    """llama.cpp stores all queries, all keys, all values."""
    return grouped_rows(config.num_attention_heads, 1, config.head_dim) if ".query_key_value." in name else None


_LAYER = "gpt_neox.layers.{}."
_PARTS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "attention.query_key_value": "attn_qkv",
    "attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
}  # fmt: skip
GGUF = Gguf(
    "gptneox", order=_order,
    names={
        "gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "lm_head": "output",
        **{_LAYER + ours: "blk.{}." + theirs for ours, theirs in _PARTS.items()},
    },
    keys=KEYS | {
        "layer_norm_eps": "attention.layer_norm_epsilon", "use_parallel_residual": "use_parallel_residual",
    },
)  # fmt: skip

TASKS = {"causal-lm": GPTNeoXForCausalLM}
