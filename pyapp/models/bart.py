"""BART (Lewis et al. 2019, arXiv 1910.13461): an encoder and a decoder with learned positions, for summaries and
translation; with heads for labels of texts and for answers. Also models of the same layers: PLBART for programs (Ahmad
et al. 2021, arXiv 2103.06333), MVP, trained on many tasks (Tang et al. 2022, arXiv 2206.12131), without its prompts,
and the small Blenderbot (Roller et al. 2020, arXiv 2004.13637), which answers what is said to it.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.nn import Embedding, Linear, Module
from pyapp.nn.encoders.encoders import visible_keys
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import (
    BartLanguageModel,
    BartModel,
    Decoder,
    WholeMemory,
)
from pyapp.nn.sequence_to_sequence.text_heads import AnswerFinder, ClassificationHead, EndClassifier, WholeReader

from .loading.config import require
from .loading.labels import Labelled
from .loading.sequence_config import FamilyConfig

MODEL_TYPES = ("bart", "plbart", "mvp", "blenderbot-small")
BASE = "model"  # the name of encoder and decoder in files with a head
# What a config.json leaves out, by its model_type.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "plbart": {"scale_embedding": True, "decoder_start_token_id": 0, "forced_eos_token_id": 2},
    "mvp": {"decoder_start_token_id": 2, "forced_eos_token_id": 2},
    "blenderbot-small": {
        "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "decoder_start_token_id": 1,
        "forced_eos_token_id": 2,
    },
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(Labelled, FamilyConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "bart"
    usual = DEFAULTS

    bos_token_id: int = 0
    forced_eos_token_id: int | None = None
    use_prompt: bool = False
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.use_prompt, "MVP with prompts (use_prompt) is not supported", "Load one without, RUCAIBox/mvp")


class SmallDecoder(Decoder):
    """The decoder of the small Blenderbot: the norm is of the words before they are at positions."""

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids (B, T), or their vectors (B, T, D), at positions (T,) → (B, T, D)."""
        assert self.layernorm_embedding is not None
        words = ids if ids.ndim == 3 else self.embed_tokens(ids) * self.scale
        return self.layernorm_embedding(words) + self.embed_positions(positions)


def model_of(config: Config) -> BartModel:
    """Encoder and decoder of a configuration."""
    if config.kind != "blenderbot-small":
        return BartModel(config)
    return BartModel(config, lambda own: Embedding(own.max_position_embeddings, own.d_model), 0, SmallDecoder)


class Bart(BartLanguageModel):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        model = model_of(config)
        table = model.shared if config.tie_word_embeddings else None
        super().__init__(config, model, config.vocab_size, table)


class BartHeaded(WholeReader):
    """Encoder and decoder below a head. PLBART's last token comes first."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.model = model_of(config)

    @property
    def encoder(self) -> BartHeaded:
        """What limits the number of tokens (`most`), as in encoders."""
        return self

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.model.shared.weight.device

    def first(self, ids: Tensor) -> Tensor:
        if self.config.kind != "plbart":
            return super().first(ids)
        count = (ids != self.config.pad_token_id).to("int64").sum(1, True)  # (B, 1)
        return ops.gather(ids, 1, (count - 1).clamp(0))

    def states(self, ids: Tensor, attention_mask: Tensor | None, tokens: Tensor) -> Tensor:
        encoded = self.model.encoder(ids, visible_keys(attention_mask))  # (B, T, D)
        return self.model.decoder(tokens, WholeMemory(encoded, attention_mask, ids.shape[1]))


class BartForSequenceClassification(BartHeaded, EndClassifier):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.classification_head = ClassificationHead(config.d_model, len(config.labels))


class BartForQuestionAnswering(BartHeaded, AnswerFinder):
    """Scores of an answer's start and end at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.qa_outputs = Linear(config.d_model, 2)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "seq2seq-lm": Bart,
    "sequence-classification": BartForSequenceClassification,
    "question-answering": BartForQuestionAnswering,
}
