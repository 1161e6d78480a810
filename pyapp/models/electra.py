"""ELECTRA (Clark et al. 2020, arXiv 2003.10555): BERT's layers over embeddings that may be narrower than the layers.

Parameters have the names of Hugging Face's files. The heads for masked words and for replaced tokens belong to the
generator and the discriminator that are trained together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.encoders import (
    BertEmbeddings,
    BertLayers,
    DenseClassifierHead,
    Encoder,
    Headed,
    LinearHead,
    Transform,
    Words,
    visible_keys,
)  # fmt: skip
from pyapp.nn.layers.gated import activation_named

from .loading.config import require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("electra",)
BASE = "electra"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "electra"

    embedding_size: int
    type_vocab_size: int = 2
    pad_token_id: int | None = 0
    is_decoder: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.is_decoder, "ELECTRA as a decoder is not supported")


class Electra(Encoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(
            config.vocab_size, config.embedding_size, config.max_position_embeddings, config.type_vocab_size,
            config.layer_norm_eps, config.pad_token_id,
        )  # fmt: skip
        narrow = config.embedding_size != config.hidden_size
        self.embeddings_project = Linear(config.embedding_size, config.hidden_size) if narrow else None
        self.encoder = BertLayers.of(config)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x = self.embeddings(ids, type_ids)  # (B, T, embedding_size)
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)
        return self.encoder(x, visible_keys(attention_mask))


class ElectraForMaskedLM(Headed):
    """The generator: scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__("electra", Electra(config))
        self.generator_predictions = Transform(config.hidden_size, config.embedding_size, "gelu", config.layer_norm_eps)
        table = self.encoder.word_embeddings if config.tie_word_embeddings else None
        self.generator_lm_head = Words(config.embedding_size, config.vocab_size, table)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        return self.generator_lm_head(self.generator_predictions(x))


class Replaced(Module):
    """A score for each token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.dense_prediction = Linear(config.hidden_size, 1)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T)."""
        return self.dense_prediction(self.activation(self.dense(x))).squeeze(-1)


class ElectraForPreTraining(Headed):
    """The discriminator: above 0 where a token was probably replaced."""

    def __init__(self, config: Config) -> None:
        super().__init__("electra", Electra(config))
        self.discriminator_predictions = Replaced(config)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T)."""
        return self.discriminator_predictions(x)


def sequence_classification(config: Config) -> DenseClassifierHead:
    """Scores of the labels of a text, or of a pair of texts."""
    return DenseClassifierHead(BASE, Electra(config), ops.gelu)


def token_classification(config: Config) -> LinearHead:
    """Scores of the labels of each token."""
    return LinearHead(("electra", "classifier"), Electra(config), config.hidden_size, len(config.labels))


def question_answering(config: Config) -> LinearHead:
    """Scores of an answer's start and end at each token."""
    return LinearHead(("electra", "qa_outputs"), Electra(config), config.hidden_size, 2)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Electra,
    "masked-lm": ElectraForMaskedLM,
    "replaced-tokens": ElectraForPreTraining,
    "sequence-classification": sequence_classification,
    "token-classification": token_classification,
    "question-answering": question_answering,
}
