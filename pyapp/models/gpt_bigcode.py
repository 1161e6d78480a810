"""StarCoder (Li et al. 2023, arXiv 2305.06161): GPT-2 with one head of keys and values (Shazeer 2019, arXiv
1911.02150).
"""

from __future__ import annotations

from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoder import CausalLanguageModel, DecoderStack, SelfAttention, Text, heads_together
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import GPTConfig
from .loading.gguf import GPT_KEYS, GPT_NAMES, Gguf, gpt_sizes, grouped_rows

MODEL_TYPES = ("gpt_bigcode",)


@dataclass(frozen=True, kw_only=True)
class Config(GPTConfig):
    """The fields of config.json."""

    model_type = "gpt_bigcode"

    activation_function: str = "gelu_pytorch_tanh"
    scale_attn_weights: bool = True
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


class Block(Module):
    """Attention and feed-forward, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = Attention(config, layer)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = FeedForward(config.n_embd, config.inner_size, config.activation_function, names=("c_fc", "c_proj"))

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, n_embd) → (..., T, n_embd)."""
        x = self.attn(self.ln_1(x), text, x)
        return self.mlp(self.ln_2(x), x)


class GPTBigCodeStack(DecoderStack):
    """The decoder; a position's embedding is added to the token's."""

    tokens, blocks, last_norm = "wte", "h", "ln_f"

    def __init__(self, config: Config) -> None:
        norm = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        blocks = (Block(config, layer) for layer in range(config.n_layer))
        super().__init__(config.vocab_size, config.n_embd, blocks, norm)
        self.wpe = Embedding(config.n_positions, config.n_embd)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.wte(tokens) + self.wpe(text.positions(tokens))


class GPTBigCodeForCausalLM(CausalLanguageModel):
    """The language model."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        super().__init__(config, GPTBigCodeStack(config))


def _order(name: str, config: Config) -> list[int] | None:
    """llama.cpp stores all queries, all keys, all values."""
    joined = ".c_attn." in name and not config.multi_query
    return grouped_rows(config.n_head, 1, config.head_dim) if joined else None


GGUF = Gguf(
    "starcoder", names=GPT_NAMES, keys=GPT_KEYS, order=_order, unsaid=("n_inner",),  # as a number where it is None
    write=lambda config: gpt_sizes(config) | {"attention.head_count_kv": config.num_key_value_heads},
    read=lambda found, values: found | {
        "n_inner": values.get("feed_forward_length"), "multi_query": values.get("attention.head_count_kv") == 1,
    },
)  # fmt: skip

TASKS = {"causal-lm": GPTBigCodeForCausalLM}
