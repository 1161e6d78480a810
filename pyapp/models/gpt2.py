"""GPT-2 (Radford et al. 2019): learned positions, layer norms before each part, a plain feed-forward layer, biases. As
the decoder of another model its layers also attend to a source.
"""

from __future__ import annotations

from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, LayerNorm, Module, ModuleList
from pyapp.nn.decoders.decoder import SelfAttention, Text
from pyapp.nn.decoders.decoder_blocks import GPT2LanguageModel
from pyapp.nn.encoders.encoders import Words
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.linear import TransposedLinear
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import Memory

from .loading.gguf import Gguf
from .loading.gpt2_form import GGUF_KEYS, GGUF_NAMES, Gpt2Config

MODEL_TYPES = ("gpt2",)


@dataclass(frozen=True, kw_only=True)
class Config(Gpt2Config):
    """The fields of config.json."""

    model_type = "gpt2"

    scale_attn_by_inverse_layer_idx: bool = False

    @property
    def width(self) -> int:
        """The width of hidden states."""
        return self.n_embd

    @property
    def source_width(self) -> None:
        """The source's hidden states have the decoder's width."""

    def scale(self, layer: int) -> float:
        """That of the scores of a layer's attention."""
        found = 1 / sqrt(self.head_dim) if self.scale_attn_weights else 1.0
        return found / (layer + 1) if self.scale_attn_by_inverse_layer_idx else found


class Attention(SelfAttention):
    """Self-attention from one projection of queries, keys and values."""

    tensor_parallel = {"c_attn": ("outputs", "queries", "keys", "keys"), "c_proj": ("inputs", "queries")}

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__(layer, Heads(config.n_head, config.n_head, config.head_dim, scale=config.scale(layer)), None)
        self.c_attn = TransposedLinear(config.n_embd, 3 * config.n_embd)
        self.c_proj = TransposedLinear(config.n_embd, config.n_embd)

    def forward(self, x: Tensor, text: Text, residual: Tensor) -> Tensor:
        """x and residual (..., T, n_embd) → residual + attention (..., T, n_embd)."""
        return self.c_proj(self.attend(self.c_attn(x), text), residual)


class GPT2LMHeadModel(GPT2LanguageModel):
    """The language model."""

    attention = Attention
    transposed = True


class DecoderAttention(Module):
    """Attention of each token to the text so far, or to the source (`q_attn`)."""

    def __init__(self, config: Config, layer: int, to_source: bool) -> None:
        super().__init__()
        width = config.n_embd
        self.heads, self.layer, self.scale = config.n_head, layer, config.scale(layer)
        self.c_attn = TransposedLinear(width, (2 if to_source else 3) * width)
        self.q_attn = TransposedLinear(width, width) if to_source else None
        self.c_proj = TransposedLinear(width, width)

    def split(self, x: Tensor, count: int) -> list[Tensor]:
        """x (B, T, count * D) → count times (B, T, H, D / H)."""
        parts = x.reshape(*x.shape[:2], count * self.heads, -1)
        return [parts.narrow(2, i * self.heads, self.heads) for i in range(count)]

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, H, D / H) of a source (B, S, D)."""
        k, v = self.split(self.c_attn(encoded), 2)
        return k, v

    def forward(self, x: Tensor, memory: Memory, residual: Tensor) -> Tensor:
        """x and residual (R, T, D) → residual + attention (R, T, D)."""
        if self.q_attn is None:
            q, k, v = self.split(self.c_attn(x), 3)
            y = memory.own(self.layer, q, k, v, scale=self.scale)
        else:
            [q] = self.split(self.q_attn(x), 1)
            y = memory.source(self.layer, q, self.project, self.scale)
        return self.c_proj(y, residual)


class DecoderLayer(Module):
    """Attention to the text, to the source and a feed-forward part, each with a norm before it."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        width, epsilon = config.n_embd, config.layer_norm_epsilon
        self.ln_1, self.ln_cross_attn, self.ln_2 = (LayerNorm(width, epsilon) for _ in range(3))
        self.attn, self.crossattention = (DecoderAttention(config, layer, to_source) for to_source in (False, True))
        self.mlp = FeedForward(
            width, config.inner_size, config.activation_function, names=("c_fc", "c_proj"), transposed=True
        )

    def forward(self, x: Tensor, memory: Memory) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        x = self.attn(self.ln_1(x), memory, x)
        x = self.crossattention(self.ln_cross_attn(x), memory, x)
        return self.mlp(self.ln_2(x), x)


class GPT2TextDecoder(Module):
    """GPT-2 as the decoder of another model, with its scores of words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, config.n_positions
        self.transformer = Module()
        self.transformer.wte = Embedding(config.vocab_size, config.n_embd)
        self.transformer.wpe = Embedding(config.n_positions, config.n_embd)
        self.transformer.h = ModuleList(DecoderLayer(config, layer) for layer in range(config.n_layer))
        self.transformer.ln_f = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        table = self.transformer.wte if config.tie_word_embeddings else None
        self.lm_head = Words(config.n_embd, config.vocab_size, table, bias=False)

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        x = self.transformer.wte(tokens) + self.transformer.wpe(memory.positions(tokens))
        for layer in self.transformer.h:
            x = layer(x, memory)
        return self.lm_head(self.transformer.ln_f(x))


GGUF = Gguf(
    "gpt2",
    names=GGUF_NAMES,
    keys=GGUF_KEYS,
    unsaid=("n_inner",),  # as a number where it is None
    write=lambda config: {"feed_forward_length": config.inner_size},
    read=lambda found, values: found | {"n_inner": values.get("feed_forward_length")},
    transposed=("c_attn.weight", "c_proj.weight", "c_fc.weight"),
)  # fmt: skip
TASKS = {"causal-lm": GPT2LMHeadModel, "text-decoder": GPT2TextDecoder}
