"""RoFormer (Su et al. 2021, arXiv 2104.09864): BERT with rotary positions, which were new there.

Parameters have the names of Hugging Face's files. The tokenizers of its Chinese models split words with jieba, which
tokenizer.json cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertLayers,
    DenseClassifierHead,
    Encoder,
    LastChoiceHead,
    PredictionsHead,
    SelfAttention,
    TokenLabelsHead,
    attend,
    choosing,
    headed,
    visible_keys,
)  # fmt: skip

from .loading.config import require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("roformer",)
BASE = "roformer"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json. rotary_value: whether values are rotated too."""

    model_type = "roformer"

    embedding_size: int | None = None
    type_vocab_size: int = 2
    pad_token_id: int | None = 0
    max_position_embeddings: int = 1536
    rotary_value: bool = False
    is_decoder: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.is_decoder, "RoFormer as a decoder is not known")
        require(self.hidden_size // self.num_attention_heads % 2 == 0, "a head has an odd number of features")

    @property
    def width(self) -> int:
        """Features of a token's vector, before the layers."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size


class RotarySelfAttention(SelfAttention):
    """Self-attention with rotary positions, whose pairs are neighbours."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.num_attention_heads)
        self.rotates_values = config.rotary_value

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor) -> Tensor:  # type: ignore[override]
        """x (B, T, D), table (T, D / H / 2, 2) → (B, T, D)."""
        qkv = self.joined(self, x).reshape(*x.shape[:2], 3 * self.heads, x.shape[2] // self.heads)
        count = (3 if self.rotates_values else 2) * self.heads
        turned = ops.rope(qkv.narrow(2, 0, count), table, interleaved=True)  # (B, T, 2 H or 3 H, D / H)
        q, k = turned.narrow(2, 0, self.heads), turned.narrow(2, self.heads, self.heads)
        v = (turned if self.rotates_values else qkv).narrow(2, 2 * self.heads, self.heads)
        return attend(q, k, v, mask)


class Layers(BertLayers):
    """The layers, and the sines and cosines of the positions, which files have."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, RotarySelfAttention)
        self.embed_positions = Embedding(
            config.max_position_embeddings, config.hidden_size // config.num_attention_heads
        )

    def forward(self, x: Tensor, mask: Tensor | None, *more: Any) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        places = ops.arange(x.shape[1], dtype="int32", device=x.device)
        sines, cosines = self.embed_positions(places).detach().chunk(2, -1)  # (T, D / H / 2) each
        return super().forward(x, mask, ops.stack([cosines, sines], -1), *more)


class Embeddings(Module):
    """The sum of a token's word and type, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.width, config.pad_token_id)
        self.token_type_embeddings = Embedding(config.type_vocab_size, config.width)
        self.LayerNorm = LayerNorm(config.width, config.layer_norm_eps)

    def forward(self, ids: Tensor, type_ids: Tensor | None) -> Tensor:
        """ids and type_ids (B, T) → (B, T, width)."""
        types = ops.zeros(1, dtype="int32", device=ids.device) if type_ids is None else type_ids
        return self.LayerNorm(self.word_embeddings(ids) + self.token_type_embeddings(types))


class RoFormer(Encoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        narrow = config.width != config.hidden_size
        self.embeddings_project = Linear(config.width, config.hidden_size) if narrow else None
        self.encoder = Layers(config)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x = self.embeddings(ids, type_ids)  # (B, T, width)
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)
        return self.encoder(x, visible_keys(attention_mask))


def masked_lm(config: Config) -> PredictionsHead:
    """Scores of the words that may stand at each token."""
    return PredictionsHead(BASE, RoFormer(config), config.width)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": RoFormer,
    "masked-lm": masked_lm,
    "sequence-classification": headed(DenseClassifierHead, BASE, RoFormer),
    "token-classification": headed(TokenLabelsHead, BASE, RoFormer),
    "question-answering": headed(AnswersHead, BASE, RoFormer),
    "multiple-choice": choosing(BASE, RoFormer, LastChoiceHead),
}
