"""GPT-J (Wang and Komatsuzaki 2021) and CodeGen (Nijkamp et al. 2022, arXiv 2203.13474): attention and feed-forward
side by side, rotary positions of the first features of each head, in neighbouring pairs.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import cat
from pyapp.nn import LayerNorm, Linear, Module, ResidualLinear
from pyapp.nn.decoders.decoder import (
    CausalLanguageModel,
    DecoderStack,
    GroupedQueryAttention,
    RotaryTable,
    SelfAttention,
    Text,
)
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import require
from .loading.gpt2_form import Gpt2Config

MODEL_TYPES = ("gptj", "codegen")
IGNORED = r".*\.attn\.causal_mask"
SHARES = 4  # of the joined projection of CodeGen, which four processors trained


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json. `rotary_dim`: the features of a head that are rotated; None: all."""

    model_type: str = "gptj"  # type: ignore[misc]

    n_positions: int = 2048
    rotary_dim: int | None = 64
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        rotated = self.head_dim if self.rotary_dim is None else self.rotary_dim
        require(
            rotated % 2 == 0 and rotated <= self.head_dim,
            f"rotary_dim is {rotated}, expected an even number up to the {self.head_dim} features of a head",
        )
        joined = self.model_type == "codegen"
        require(not joined or self.n_embd % SHARES == 0, f"n_embd {self.n_embd} is not a multiple of {SHARES}")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def heads(self) -> Heads:
        """The heads of a layer."""
        return Heads(self.n_head, self.n_head, self.head_dim, interleaved=True)


class GPTJAttention(GroupedQueryAttention):
    """Self-attention with another name for the last projection."""

    output = "out_proj"


class CodeGenAttention(SelfAttention):
    """Self-attention from one projection: a quarter of the queries, of the values and of the keys after another."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__(layer, config.heads(), rotary)
        self.qkv_proj = Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.out_proj = ResidualLinear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        width = x.shape[-1]
        shares = self.qkv_proj(x).reshape(*x.shape[:-1], SHARES, 3, width // SHARES)
        q, v, k = (shares.select(-2, part).reshape(*x.shape[:-1], width) for part in range(3))
        return self.out_proj(self.attend(cat([q, k, v], -1), text), residual)


class Block(Module):
    """Attention and feed-forward of the same norm, both added to the residual."""

    def __init__(self, config: Config, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        size = config.n_embd
        self.ln_1 = LayerNorm(size, config.layer_norm_epsilon)
        if config.model_type == "codegen":
            self.attn: Module = CodeGenAttention(config, layer, rotary)
        else:
            self.attn = GPTJAttention(layer, size, config.heads(), rotary)
        self.mlp = FeedForward(size, config.inner_size, config.activation_function, names=("fc_in", "fc_out"))

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, n_embd) → (..., T, n_embd)."""
        own = self.ln_1(x)
        return self.mlp(own, self.attn(own, text, x))


class GPTJStack(DecoderStack):
    """The decoder."""

    tokens, blocks, last_norm = "wte", "h", "ln_f"


class GPTJForCausalLM(CausalLanguageModel):
    """The language model; its head has a bias."""

    base_model_prefix = "transformer"

    def __init__(self, config: Config) -> None:
        parameters = {"rope_type": "default", "rope_theta": 10000.0}
        rotary = RotaryTable.of_heads(config.rotary_dim or config.head_dim, config.n_positions, parameters)
        blocks = (Block(config, layer, rotary) for layer in range(config.n_layer))
        norm = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        super().__init__(config, GPTJStack(config.vocab_size, config.n_embd, blocks, norm), bias=True)


TASKS = {"causal-lm": GPTJForCausalLM}
