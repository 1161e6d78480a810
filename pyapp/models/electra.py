"""ELECTRA (Clark et al. 2020, arXiv 2003.10555): BERT's layers over embeddings that may be narrower than the layers.

Parameters have the names of Hugging Face's files. The heads for masked words and for replaced tokens belong to the
generator and the discriminator that are trained together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.encoders.encoders import (
    ActivatedChoiceHead,
    AnswersHead,
    DenseClassifierHead,
    GeneratorHead,
    Headed,
    NarrowEncoder,
    TokenLabelsHead,
    choosing,
    headed,
)
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


class Electra(NarrowEncoder):
    """The encoder."""


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
        super().__init__(BASE, Electra(config))
        self.discriminator_predictions = Replaced(config)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T)."""
        return self.discriminator_predictions(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Electra,
    "masked-lm": headed(GeneratorHead, BASE, Electra),
    "replaced-tokens": ElectraForPreTraining,
    "sequence-classification": headed(DenseClassifierHead, BASE, Electra, ops.gelu),
    "token-classification": headed(TokenLabelsHead, BASE, Electra),
    "question-answering": headed(AnswersHead, BASE, Electra),
    "multiple-choice": choosing(BASE, Electra, ActivatedChoiceHead, "sequence_summary.summary", "gelu"),
}
