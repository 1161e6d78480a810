"""Splinter (Ram et al. 2021, arXiv 2101.00438): BERT's encoder for answers from few examples. A question ends with the
token [QUESTION], whose state the head compares with that of every token, as in the training on repeated parts of texts.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import BertEncoder, Headed
from pyapp.nn.layers.gated import activation_named

from .loading.config import check_token
from .loading.encoder_config import BertConfig

MODEL_TYPES = ("splinter",)
BASE = "splinter"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "splinter"

    question_token_id: int = 104

    def __post_init__(self) -> None:
        super().__post_init__()
        check_token("question_token_id", self.question_token_id, self.vocab_size)


class Splinter(BertEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, pooler=False)


class Transform(Module):
    """LayerNorm(gelu(dense(x)))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.LayerNorm = LayerNorm(width)
        self.activation = activation_named("gelu")

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.LayerNorm(self.activation(self.dense(x)))


class SpanSelection(Module):
    """The scores of an answer's start and end, by the state of the question's token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        for edge in ("start", "end"):
            self.add_module(f"query_{edge}_transform", Transform(width))
            self.add_module(f"{edge}_transform", Transform(width))
            self.add_module(f"{edge}_classifier", Linear(width, width, bias=False))

    def forward(self, x: Tensor, question: Tensor) -> Tensor:
        """x (B, T, D), question (B, 1, D) → scores (B, T, 2)."""
        parts, found = self._modules, []
        for edge in ("start", "end"):
            query = parts[f"{edge}_classifier"](parts[f"query_{edge}_transform"](question))  # (B, 1, D)
            found.append(parts[f"{edge}_transform"](x) @ query.transpose(1, 2))  # (B, T, 1)
        return ops.cat(found, 2)


class SplinterForQuestionAnswering(Headed):
    """Scores of an answer's start and end at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, Splinter(config))
        self.splinter_qass = SpanSelection(config.hidden_size)

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None, *page: Tensor | None
    ) -> Tensor:
        """ids (B, T) → scores of an answer's start and end (B, T, 2). Of several question tokens the first counts, and
        without one the first token.
        """
        x = self.encoder(ids, attention_mask, type_ids)  # (B, T, D)
        places = (ids == self.config.question_token_id).to("int32").argmax(1)  # (B,)
        index = places.to("int64").reshape(-1, 1, 1).expand(x.shape[0], 1, x.shape[2])
        return self.splinter_qass(x, ops.gather(x, 1, index))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Splinter,
    "question-answering": SplinterForQuestionAnswering,
}
