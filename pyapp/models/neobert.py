"""NeoBERT (Le Breton et al. 2025, arXiv 2502.19587): an encoder with the parts of newer decoders: rotary positions,
gated feed-forward parts, and a norm before each part.

Parameters have the names of the files on the hub.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, Linear, Module, ModuleList, ResidualLinear, RMSNorm
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import Encoder, Headed, Words, attend, first_token, visible_keys

from .loading.config import FileConfig, check_form, check_heads, check_padding, read_config
from .loading.labels import Labelled

MODEL_TYPES = ("neobert",)
BASE = "model"  # the encoder's name in files with a head
IGNORED = r"(model\.)?freqs_cis"  # computed here
ANGLES = {"rope_type": "default", "rope_theta": 10000.0}
MULTIPLE = 8  # of the features between the layers of the feed-forward part


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of config.json. The feed-forward part has two thirds of `intermediate_size`
    features.
    """

    model_type = "neobert"

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 28
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    norm_eps: float = 1e-6
    max_length: int = 4096
    pad_token_id: int | None = 0
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_attention_heads
        check_heads(self.hidden_size, heads, heads, None, self.max_length)
        check_padding(self.pad_token_id, self.vocab_size)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored. ModelError for another form of the encoder."""
        check_form(values, {"hidden_act": "SwiGLU", "rms_norm": True, "rope": True, "ngpt": False})
        return read_config(cls, values)

    @property
    def size(self) -> int:
        """Features of a head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def inner(self) -> int:
        """Features between the layers of the feed-forward part."""
        return -(-(2 * self.intermediate_size // 3) // MULTIPLE) * MULTIPLE


class FeedForward(Module):
    """w3(silu(gate) * up), of one projection to gate and up."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.w12 = Linear(config.hidden_size, 2 * config.inner, bias=False)
        self.w3 = ResidualLinear(config.inner, config.hidden_size, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., D) → (..., D)."""
        gate, up = self.w12(x).chunk(2, -1)  # (..., inner)
        return self.w3(ops.silu(gate) * up, residual)


class Block(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.qkv = Linear(width, 3 * width, bias=False)
        self.wo = ResidualLinear(width, width, bias=False)
        self.ffn = FeedForward(config)
        self.attention_norm, self.ffn_norm = (RMSNorm(width, config.norm_eps) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        parts = self.qkv(self.attention_norm(x)).reshape(*x.shape[:2], self.heads, -1)  # each head's query, key, value
        q, k, v = parts.chunk(3, -1)  # (B, T, H, D / H)
        q, k = (ops.rope(part, table, interleaved=True) for part in (q, k))
        x = self.wo(attend(q, k, v, mask), x)
        return self.ffn(self.ffn_norm(x), x)


class NeoBert(Encoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_length
        self.encoder = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.transformer_encoder = ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.layer_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.rotary = RotaryTable.of_heads(config.size, config.max_length, ANGLES)

    @property
    def word_embeddings(self) -> Embedding:
        return self.encoder

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D). There are no token types: those given are ignored."""
        self.check(ids, attention_mask)
        mask, table = visible_keys(attention_mask), self.rotary.upto(ids.shape[1], self.device)
        x = self.encoder(ids)
        for layer in self.transformer_encoder:
            x = layer(x, mask, table)
        return self.layer_norm(x)


class NeoBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, NeoBert(config))
        self.decoder = Words(config.hidden_size, config.vocab_size, None)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.decoder(x)


class NeoBertForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, NeoBert(config))
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.classifier = Linear(config.hidden_size, len(config.labels))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.classifier(self.dense(first_token(x)).tanh())


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": NeoBert,
    "masked-lm": NeoBertForMaskedLM,
    "sequence-classification": NeoBertForSequenceClassification,
}
