"""Jina Embeddings v3 (Sturua et al. 2024, arXiv 2409.10173): XLM-RoBERTa with rotary positions. Its adapters for tasks
are files of their own.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import ops
from pyapp.nn import Module
from pyapp.nn.encoders import DenseClassifierHead, LinearHead, NormedWordsHead
from pyapp.nn.rotary_encoder import RotaryEncoder, rotary_token_classification

from .loading.config import rope_parameters
from .loading.encoder_config import RotaryEncoderConfig

MODEL_TYPES = ("jina_embeddings_v3",)
BASE = "roberta"  # the encoder's name in files with a head
THETA = 20000.0


@dataclass(frozen=True, kw_only=True)
class Config(RotaryEncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "jina_embeddings_v3"
    gated = False

    type_vocab_size: int = 1
    max_position_embeddings: int = 8194
    layer_norm_eps: float = 1e-5
    pad_token_id: int | None = 1

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "rope_parameters": rope_parameters(values, THETA)})


def features(config: Config) -> RotaryEncoder:
    """The encoder, with a layer over the first token."""
    return RotaryEncoder(config, pooler=True)


def masked_lm(config: Config) -> NormedWordsHead:
    """Scores of the words that may stand at each token."""
    return NormedWordsHead(BASE, RotaryEncoder(config))


def sequence_classification(config: Config) -> DenseClassifierHead:
    """Scores of the labels of a text, or of a pair of texts."""
    return DenseClassifierHead(BASE, RotaryEncoder(config), ops.tanh)


def token_classification(config: Config) -> LinearHead:
    """Scores of the labels of each token."""
    return rotary_token_classification(BASE, config)


def question_answering(config: Config) -> LinearHead:
    """Scores of an answer's start and end at each token."""
    return LinearHead((BASE, "qa_outputs"), RotaryEncoder(config), config.hidden_size, 2)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": features,
    "masked-lm": masked_lm,
    "sequence-classification": sequence_classification,
    "token-classification": token_classification,
    "question-answering": question_answering,
}
