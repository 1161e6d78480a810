"""LayoutLM (Xu et al. 2019, arXiv 1912.13318): BERT, with the place and the size of each word on its page.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    BertLayers,
    PooledClassifierHead,
    Pooler,
    PredictionsHead,
    TokenLabelsHead,
    headed,
    visible_keys,
)  # fmt: skip
from pyapp.nn.vision.page_encoder import PAGE, PageEncoder, add_tables, placed

from .loading.encoder_config import BertConfig, check_page

MODEL_TYPES = ("layoutlm",)
BASE = "layoutlm"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "layoutlm"

    max_2d_position_embeddings: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        check_page(self.max_2d_position_embeddings)


class Embeddings(BertEmbeddings):
    """The sum of a token's word, position, type, and place and size on the page, normalised."""

    def __init__(self, config: Config) -> None:
        width = config.hidden_size
        super().__init__(config)
        add_tables(self, config.max_2d_position_embeddings, width, width)

    def on_page(self, ids: Tensor, type_ids: Tensor | None, boxes: Tensor) -> Tensor:
        """ids and type_ids (B, T), boxes (B, T, 4) → (B, T, D)."""
        x = self.summed(ids, type_ids)
        for part in placed(self, boxes):
            x = x + part
        return self.LayerNorm(x)


class LayoutLM(PageEncoder):
    """The encoder; with `pooler`, also the layer over the first token that a head reads."""

    end_box = (PAGE,) * 4

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.encoder = BertLayers(config)
        self.pooler = Pooler(config.hidden_size) if pooler else None

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        boxes: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """ids (B, T), boxes (B, T, 4) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        x = self.embeddings.on_page(ids, type_ids, self.boxes_of(ids, boxes))
        return self.encoder(x, visible_keys(attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": LayoutLM,
    "masked-lm": headed(PredictionsHead, BASE, LayoutLM),
    "sequence-classification": headed(PooledClassifierHead, BASE, LayoutLM),
    "token-classification": headed(TokenLabelsHead, BASE, LayoutLM),
    "question-answering": headed(AnswersHead, BASE, LayoutLM),
}
