"""Dense passage retrieval (Karpukhin et al. 2020, arXiv 2004.04906): two BERTs, one for questions and one for passages,
whose first tokens are compared by their product.

Parameters have the names of Hugging Face's files of questions; those of passages are read too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, Linear, Module
from pyapp.nn.encoders.encoders import BertEncoder, Encoder

from .loading.encoder_config import BertConfig

MODEL_TYPES = ("dpr",)
BASE = ""
IGNORED = r"span_predictor\.qa_\w+\.(weight|bias)|.*\.pooler\.dense\.(weight|bias)"
PLACES = ("ctx_encoder.", "span_predictor.encoder.")  # of the encoder, in files of other classes


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. projection_dim: features after a last linear layer; 0: there
    is none.
    """

    model_type = "dpr"

    projection_dim: int = 0


class Dpr(Encoder):
    """The encoder of questions, or of passages. The vector of a text is that of its first token."""

    pooling = "cls"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.question_encoder = Module()
        self.question_encoder.bert_model = BertEncoder(config, pooler=False)
        width = config.projection_dim
        self.question_encoder.encode_proj = Linear(config.hidden_size, width) if width else None

    @property
    def word_embeddings(self) -> Embedding:
        found: Embedding = self.question_encoder.bert_model.word_embeddings
        return found

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D), projected if the model does that."""
        x: Tensor = self.question_encoder.bert_model(ids, attention_mask, type_ids)
        last = self.question_encoder.encode_proj
        return x if last is None else last(x)


def renamed(name: str) -> str:
    """The name in the file of a question's encoder."""
    before = next((place for place in PLACES if name.startswith(place)), None)
    return name if before is None else "question_encoder." + name.removeprefix(before)


TASKS: Mapping[str, Callable[[Config], Module]] = {"features": Dpr}
