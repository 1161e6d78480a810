"""TAPAS (Herzig et al. 2020, arXiv 2004.02349): BERT over a question and the cells of a table. A token's types say the
column and the row of its cell and how its number compares with others; heads choose cells, and what to do with them.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Embedding, LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import (
    BertLayers,
    Encoder,
    Headed,
    PooledClassifierHead,
    Pooler,
    PredictionsHead,
    headed,
    visible_keys,
)
from pyapp.nn.parameter import new_parameter

from .loading.config import check_positive, require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("tapas",)
BASE = "tapas"  # the encoder's name in files with a head
TYPES = 7  # of a token: the text, column, row, whether it was the answer before, both ranks, the relations of numbers
COLUMN, ROW = 1, 2
MOST_TYPES = 1 << 16
MOST_LINES = 1 << 12  # rows or columns
NEVER = -10000.0  # added to the scores of what is not to be chosen
TINY = 1e-10


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json. aggregation_labels: the names of what may be done with the
    chosen cells, by number; no_aggregation_label_index: the one that means nothing.
    """

    model_type = "tapas"

    max_position_embeddings: int = 1024
    type_vocab_sizes: list[int] | tuple[int, ...] = (3, 256, 256, 2, 256, 256, 10)
    pad_token_id: int | None = 0
    reset_position_index_per_cell: bool = True
    temperature: float = 1.0
    max_num_rows: int = 64
    max_num_columns: int = 32
    select_one_column: bool = True
    allow_empty_column_selection: bool = False
    num_aggregation_labels: int = 0
    aggregation_labels: dict[str, str] | None = None
    no_aggregation_label_index: int | None = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.type_vocab_sizes
        require(
            len(sizes) == TYPES and all(type(size) is int and 1 <= size <= MOST_TYPES for size in sizes),
            f"type_vocab_sizes is {list(sizes)!r:.60}, expected {TYPES} whole numbers from 1 to {MOST_TYPES:,}",
        )
        for name in ("max_num_rows", "max_num_columns"):
            size = getattr(self, name)
            require(size <= MOST_LINES, f"{name} is {size:,}, expected at most {MOST_LINES:,}")
        check_positive(self, "temperature")
        count, names = self.num_aggregation_labels, self.aggregation_labels
        require(count <= MOST_TYPES, f"num_aggregation_labels is {count:,}, expected at most {MOST_TYPES:,}")
        require(
            names is None or {str(key) for key in names} == {str(i) for i in range(count)},
            f"aggregation_labels {names!r:.60} do not name {count} aggregations",
        )

    @property
    def aggregations(self) -> list[str]:
        """The names of the aggregations."""
        names = {str(key): str(name) for key, name in (self.aggregation_labels or {}).items()}
        return [names.get(str(i), str(i)) for i in range(self.num_aggregation_labels)]


class Embeddings(Module):
    """The sum of a token's word, position and types, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.word_embeddings = Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, width)
        for i, size in enumerate(config.type_vocab_sizes):
            self.add_module(f"token_type_embeddings_{i}", Embedding(size, width))
        self.LayerNorm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        """ids (B, T), types (B, T, 7) → (B, T, D)."""
        x = self.word_embeddings(ids) + self.position_embeddings(self.positions(types))
        for i in range(TYPES):
            x = x + self._modules[f"token_type_embeddings_{i}"](types.select(2, i))
        return self.LayerNorm(x)

    def positions(self, types: Tensor) -> Tensor:
        """The position of each token (B, T), from the first token of its cell."""
        places = ops.arange(types.shape[1], dtype="int32", device=types.device).unsqueeze(0)  # (1, T)
        if not self.config.reset_position_index_per_cell:
            return places
        cells = types.select(2, COLUMN).to("int32") * self.config.type_vocab_sizes[ROW] + types.select(2, ROW)
        first = (cells.unsqueeze(2) == cells.unsqueeze(1)).to("int32").argmax(2).to("int32")  # (B, T)
        return (places - first).clamp(0, self.config.max_position_embeddings - 1)


class Tapas(Encoder):
    """The encoder; with `pooler`, also the layer over the first token that some heads read."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.encoder = BertLayers(config)
        self.pooler = Pooler(config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T), type_ids (B, T, 7), or (B, T) of texts without a table → hidden states (B, T, D)."""
        self.check(ids, attention_mask)
        return self.encoder(self.embeddings(ids, types_of(ids, type_ids)), visible_keys(attention_mask))


def types_of(ids: Tensor, type_ids: Tensor | None) -> Tensor:
    """The types (B, T, 7) of ids (B, T): zeros where none are given, or those of texts without a table (B, T)."""
    if type_ids is None or type_ids.shape == ids.shape:
        return ops.zeros(*ids.shape, TYPES, dtype="int32", device=ids.device)
    if type_ids.shape != (*ids.shape, TYPES):
        raise ArgumentError(
            f"Tapas: type_ids are {describe(type_ids)}, expected {(*ids.shape, TYPES)} for ids {describe(ids)}"
        )
    return type_ids


class TapasForQuestionAnswering(Headed):
    """Scores of the cells that answer a question, of one column at most, and of what to do with the cells."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, Tapas(config))
        for name in ("output", "column_output"):
            self.register_parameter(f"{name}_weights", new_parameter(ops.zeros, config.hidden_size))
            self.register_parameter(f"{name}_bias", new_parameter(ops.zeros))
        count = config.num_aggregation_labels
        self.aggregation_classifier = Linear(config.hidden_size, count) if count else None

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None, *page: Tensor | None
    ) -> Tensor:
        """ids (B, T), type_ids (B, T, 7) → logits (B, T + A): of each token, whether its cell is of the answer, then of
        the A aggregations.
        """
        encoder = self.encoder
        assert isinstance(encoder, Tapas) and encoder.pooler is not None
        x = encoder(ids, attention_mask, type_ids)  # (B, T, D)
        scores = self._of_cells(x, types_of(ids, type_ids))
        if self.aggregation_classifier is None:
            return scores
        return ops.cat([scores, self.aggregation_classifier(encoder.pooler(x))], 1)

    def _of_cells(self, x: Tensor, types: Tensor) -> Tensor:
        """x (B, T, D), types (B, T, 7) → the logits (B, T) of the tokens' cells, far below 0 outside of the column that
        is chosen first.
        """
        config = self.config
        column, row = (
            types.select(2, kind).to("int32").clamp(0, most - 1)
            for kind, most in ((COLUMN, config.max_num_columns), (ROW, config.max_num_rows))
        )  # (B, T)
        cell = row * config.max_num_columns + column
        together = (cell.unsqueeze(2) == cell.unsqueeze(1)).to(x.dtype)  # (B, T, T)
        share = 1 / together.sum(2)  # (B, T): of a token in its cell
        own = (x @ self.output_weights + self.output_bias) / config.temperature  # (B, T)
        scores = (together @ own.unsqueeze(2)).squeeze(2) * share  # the means of cells
        if not config.select_one_column:
            return scores
        columns = ops.arange(config.max_num_columns, dtype="int32", device=x.device)
        there = (column.unsqueeze(2) == columns).to(x.dtype) * share.unsqueeze(2)  # (B, T, C)
        counts = there.sum(1)  # (B, C): cells
        of_columns = ((x @ self.column_output_weights + self.column_output_bias).unsqueeze(2) * there).sum(1)
        of_columns = of_columns / counts.clamp(TINY) + NEVER * (counts < 0.5).to(x.dtype)  # (B, C)
        if not config.allow_empty_column_selection:
            of_columns = of_columns + NEVER * (columns == 0).to(x.dtype)
        chosen = (column == of_columns.argmax(1).to("int32").unsqueeze(1)).logical_and(column != 0)  # (B, T)
        return scores + NEVER * (1 - chosen.to(x.dtype))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Tapas,
    "masked-lm": headed(PredictionsHead, BASE, Tapas, pooler=False),
    "sequence-classification": headed(PooledClassifierHead, BASE, Tapas),
    "table-question-answering": TapasForQuestionAnswering,
}
