"""StarCoder (Li et al. 2023, arXiv 2305.06161): GPT-2 with one head of keys and values (Shazeer 2019, arXiv
1911.02150).
"""

from __future__ import annotations

from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, ResidualLinear
from pyapp.nn.decoders.decoder import SelfAttention, Text, heads_together
from pyapp.nn.decoders.decoder_blocks import GPT2LanguageModel
from pyapp.nn.heads import Heads

from .loading.gguf import Gguf, grouped_rows
from .loading.gpt2_form import GGUF_KEYS, GGUF_NAMES, Gpt2Config

MODEL_TYPES = ("gpt_bigcode",)


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json."""

    model_type = "gpt_bigcode"

    activation_function: str = "gelu_pytorch_tanh"
    multi_query: bool = True

    @property
    def num_key_value_heads(self) -> int:
        return 1 if self.multi_query else self.n_head


class Attention(SelfAttention):
    """Self-attention from one projection: all queries, then the key and the value that they share; where each head has
    its own, query, key and value of one head after another.
    """

    def __init__(self, config: Config, layer: int) -> None:
        scale = 1 / sqrt(config.head_dim) if config.scale_attn_weights else 1.0
        heads = Heads(config.n_head, config.num_key_value_heads, config.head_dim, scale=scale)
        super().__init__(layer, heads, None)
        self.c_attn = Linear(config.n_embd, heads.width)
        self.c_proj = ResidualLinear(config.n_embd, config.n_embd)
        parts = ("groups",) if heads.kv_heads > 1 else ("queries", "keys", "keys")
        self.tensor_parallel = {"c_attn": ("outputs", *parts), "c_proj": ("inputs", "queries")}

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        qkv = self.c_attn(x)
        if self.heads.kv_heads > 1:
            qkv = heads_together(qkv, self.heads)
        return self.c_proj(self.attend(qkv, text), residual)


class GPTBigCodeForCausalLM(GPT2LanguageModel):
    """The language model."""

    attention = Attention


def _order(name: str, config: Config) -> list[int] | None:
    """llama.cpp stores all queries, all keys, all values."""
    joined = ".c_attn." in name and not config.multi_query
    return grouped_rows(config.n_head, 1, config.head_dim) if joined else None


GGUF = Gguf(
    "starcoder",
    names=GGUF_NAMES,
    keys=GGUF_KEYS,
    unsaid=("n_inner",),  # as a number where it is None
    write=lambda config: {
        "feed_forward_length": config.inner_size,
        "attention.head_count_kv": config.num_key_value_heads,
    },
    read=lambda found, values: found | {
        "n_inner": values.get("feed_forward_length"), "multi_query": values.get("attention.head_count_kv") == 1,
    },
    order=_order,
)  # fmt: skip

TASKS = {"causal-lm": GPTBigCodeForCausalLM}
