"""MarkupLM (Li et al. 2021, arXiv 2110.08518): RoBERTa over the texts of a web page, with the path of each in the
page's tree: its tags, and which of their like they are.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Embedding, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    BertLayers,
    Encoder,
    PooledClassifierHead,
    Pooler,
    TokenLabelsHead,
    headed,
    visible_keys,
)

from .loading.config import require
from .loading.encoder_config import BertConfig

MODEL_TYPES = ("markuplm",)
BASE = "markuplm"  # the encoder's name in files with a head
DEEPEST_PATH = 1 << 10
MOST_UNITS = 1 << 16
WIDER = 4  # the layer between the path and the words


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. The first `pad_token_id` + 1 positions are of padding."""

    model_type = "markuplm"

    pad_token_id: int = 0
    max_xpath_tag_unit_embeddings: int = 256
    max_xpath_subs_unit_embeddings: int = 1024
    tag_pad_id: int = 216
    subs_pad_id: int = 1001
    xpath_unit_hidden_size: int = 32
    max_depth: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (
            ("max_depth", DEEPEST_PATH), ("max_xpath_tag_unit_embeddings", MOST_UNITS),
            ("max_xpath_subs_unit_embeddings", MOST_UNITS), ("xpath_unit_hidden_size", MOST_UNITS),
        ):  # fmt: skip
            size = getattr(self, name)
            require(size <= most, f"{name} is {size:,}, expected at most {most:,}")
        tags, counts = self.max_xpath_tag_unit_embeddings, self.max_xpath_subs_unit_embeddings
        require(
            self.tag_pad_id < tags and self.subs_pad_id < counts,
            f"tag_pad_id {self.tag_pad_id} and subs_pad_id {self.subs_pad_id} are not of {tags:,} and {counts:,}",
        )
        require(
            self.pad_token_id < self.max_position_embeddings - 1,
            f"pad_token_id {self.pad_token_id} leaves no positions of {self.max_position_embeddings}",
        )


class PathEmbeddings(Module):
    """The vector of a path: those of its tags and of their numbers, side by side, through two layers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, unit, depth = config.hidden_size, config.xpath_unit_hidden_size, config.max_depth
        self.xpath_unitseq2_embeddings = Linear(unit * depth, width)  # of files, and not used
        self.xpath_unitseq2_inner = Linear(unit * depth, WIDER * width)
        self.inner2emb = Linear(WIDER * width, width)
        for name, count in (
            ("tag", config.max_xpath_tag_unit_embeddings), ("subs", config.max_xpath_subs_unit_embeddings)
        ):  # fmt: skip
            self.add_module(f"xpath_{name}_sub_embeddings", ModuleList(Embedding(count, unit) for _ in range(depth)))

    def forward(self, tags: Tensor, numbers: Tensor) -> Tensor:
        """tags and numbers (B, T, depth) → (B, T, D)."""
        both = self.xpath_tag_sub_embeddings, self.xpath_subs_sub_embeddings
        first, second = (
            ops.cat([table(units.select(2, i)) for i, table in enumerate(tables)], 2)
            for tables, units in zip(both, (tags, numbers), strict=True)
        )  # (B, T, depth * unit)
        return self.inner2emb(ops.relu(self.xpath_unitseq2_inner(first + second)))


class Embeddings(BertEmbeddings):
    """The sum of a token's word, position, type and path, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, skips_padding=True)
        self.xpath_embeddings = PathEmbeddings(config)

    def on_page(self, ids: Tensor, type_ids: Tensor | None, tags: Tensor, numbers: Tensor) -> Tensor:
        """ids and type_ids (B, T), tags and numbers (B, T, depth) → (B, T, D)."""
        return self.LayerNorm(self.summed(ids, type_ids) + self.xpath_embeddings(tags, numbers))


class MarkupLM(Encoder):
    """The encoder; with `pooler`, also a layer over the first token."""

    reads_markup = True

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings - config.pad_token_id - 1
        self.embeddings = Embeddings(config)
        self.encoder = BertLayers(config)
        self.pooler = Pooler(config.hidden_size) if pooler else None

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        tags: Tensor | None = None, numbers: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """ids (B, T), tags and numbers (B, T, depth) of their paths; None: they have none → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        shape = (*ids.shape, self.config.max_depth)
        paths = []
        for name, given, usual in (
            ("tags", tags, self.config.tag_pad_id), ("numbers", numbers, self.config.subs_pad_id)
        ):  # fmt: skip
            if given is not None and given.shape != shape:
                raise ArgumentError(f"MarkupLM: {name} are {describe(given)}, expected {shape}")
            paths.append(ops.full(shape, usual, dtype="int32", device=ids.device) if given is None else given)
        return self.encoder(self.embeddings.on_page(ids, type_ids, *paths), visible_keys(attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": MarkupLM,
    "sequence-classification": headed(PooledClassifierHead, BASE, MarkupLM),
    "token-classification": headed(TokenLabelsHead, BASE, MarkupLM, pooler=False),
    "question-answering": headed(AnswersHead, BASE, MarkupLM, pooler=False),
}
