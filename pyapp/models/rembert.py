"""RemBERT (Chung et al. 2020, arXiv 2010.12821): BERT with narrow embeddings of words and a wide layer after the last
one, for 110 languages.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    BertLayers,
    Encoder,
    Headed,
    PooledClassifierHead,
    Pooler,
    TokenLabelsHead,
    choosing,
    headed,
    visible_keys,
)  # fmt: skip
from pyapp.nn.layers.gated import activation_named

from .loading.encoder_config import BertConfig

MODEL_TYPES = ("rembert",)
BASE = "rembert"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "rembert"

    input_embedding_size: int = 256
    output_embedding_size: int = 1664
    tie_word_embeddings: bool = False


class Layers(BertLayers):
    """The layers, before them a projection of the embeddings to their width."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding_hidden_mapping_in = Linear(config.input_embedding_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None, *more: Any) -> Tensor:
        """x (B, T, input_embedding_size) → (B, T, D)."""
        return super().forward(self.embedding_hidden_mapping_in(x), mask, *more)


class RemBert(Encoder):
    """The encoder; with `pooler`, also the layer over the first token that a head reads."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(config, config.input_embedding_size)
        self.encoder = Layers(config)
        self.pooler = Pooler(config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        return self.encoder(self.embeddings(ids, type_ids), visible_keys(attention_mask))


class Predictions(Module):
    """Scores of all words, by a table of their own."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.output_embedding_size)
        self.decoder = Linear(config.output_embedding_size, config.vocab_size)
        self.LayerNorm = LayerNorm(config.output_embedding_size, config.layer_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, V)."""
        return self.decoder(self.LayerNorm(self.activation(self.dense(x))))


class RemBertForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, RemBert(config, pooler=False))
        self.cls = Module()
        self.cls.predictions = Predictions(config)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.cls.predictions(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": RemBert,
    "masked-lm": RemBertForMaskedLM,
    "sequence-classification": headed(PooledClassifierHead, BASE, RemBert),
    "token-classification": headed(TokenLabelsHead, BASE, RemBert, pooler=False),
    "question-answering": headed(AnswersHead, BASE, RemBert, pooler=False),
    "multiple-choice": choosing(BASE, RemBert),
}
