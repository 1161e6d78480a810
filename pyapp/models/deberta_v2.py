"""DeBERTa, also v2 and v3 (He et al. 2020, arXiv 2006.03654; 2021, arXiv 2111.09543): BERT's layers with attention that
also compares words with distances and distances with words.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import Conv1d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertLayer,
    Chooser,
    Encoder,
    Headed,
    Predictions,
    TokenLabelsHead,
    as_bias,
    attend,
    first_token,
    headed,
    one_label,
    visible_keys,
)
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.parameter import new_parameter

from .loading.config import check_divides, require
from .loading.encoder_config import EncoderConfig

MODEL_TYPES = ("deberta-v2", "deberta")
FIRST = "deberta"  # the model_type of the first version
BASE = "deberta"  # the encoder's name in files with a head
KINDS = ("c2p", "p2c")  # words with distances, distances with words
WIDEST_KERNEL = 63  # of the convolution


@dataclass(frozen=True, kw_only=True)
class Config(EncoderConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "deberta-v2"

    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-7
    relative_attention: bool = False
    max_relative_positions: int | None = None
    position_buckets: int | None = None
    position_biased_input: bool = True
    pos_att_type: tuple[str, ...] = ()
    share_att_key: bool = False
    norm_rel_ebd: str = "none"
    embedding_size: int | None = None
    conv_kernel_size: int = 0
    conv_groups: int = 1
    conv_act: str = "tanh"
    pooler_hidden_act: str = "gelu"
    legacy: bool = True
    pad_token_id: int | None = 0
    talking_head: bool = False
    kind: str = "deberta-v2"  # the model_type

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.talking_head, "DeBERTa with talking_head is not known")
        require({*self.pos_att_type} <= {*KINDS}, f"pos_att_type {self.pos_att_type!r:.60} is not known")
        require(
            self.distances <= 1 << 20 and (self.position_buckets is None or self.position_buckets >= 4),
            f"position_buckets {self.position_buckets} or max_relative_positions {self.max_relative_positions} mean "
            "nothing",
        )
        require(
            self.conv_kernel_size <= WIDEST_KERNEL and self.conv_kernel_size % 2 == (self.conv_kernel_size > 0),
            f"conv_kernel_size is {self.conv_kernel_size}, expected an odd number up to {WIDEST_KERNEL}",
        )
        check_divides(self, "conv_groups", "hidden_size")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. Numbers below 1 stand for "none"."""
        kinds = values.get("pos_att_type") or ()
        kinds = kinds.lower().split("|") if isinstance(kinds, str) else kinds
        require(isinstance(kinds, list | tuple), f"pos_att_type is {kinds!r:.60}, expected a list")
        found = {**values, "pos_att_type": tuple(str(kind).strip() for kind in kinds)}
        found["kind"] = values.get("model_type", MODEL_TYPES[0])
        if found["kind"] == FIRST:  # which has none of what later versions added
            found |= dict.fromkeys(("position_buckets", "conv_kernel_size", "share_att_key", "norm_rel_ebd"))
            found = {name: value for name, value in found.items() if value is not None}
        for name in ("max_relative_positions", "position_buckets"):
            if type(found.get(name)) is int and found[name] < 1:
                found[name] = None
        return super().from_dict(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict() | {"pos_att_type": list(self.pos_att_type)}
        return values | {"model_type": values.pop("kind")}

    @property
    def farthest(self) -> int:
        """The largest distance."""
        return self.max_relative_positions or self.max_position_embeddings

    @property
    def distances(self) -> int:
        """Half of the rows of the table of distances."""
        return self.position_buckets or self.farthest

    @property
    def width(self) -> int:
        """Columns of the table of words."""
        return self.embedding_size or self.hidden_size


def distances(tokens: int, buckets: int | None, farthest: int) -> Any:
    """Array (T, T) int64: position of the query - position of the key; with `buckets`, distances of more than half of
    them are counted on a logarithmic scale up to `farthest`.
    """
    apart = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    if buckets is None:
        return apart
    middle = buckets // 2
    far = np.where(np.abs(apart) < middle, middle - 1, np.abs(apart)).astype(np.float32)
    scale = np.log(np.float32((farthest - 1) / middle))
    steps = np.ceil(np.log(far / np.float32(middle)) / scale * np.float32(middle - 1)) + middle
    return np.where(far <= middle, apart, steps * np.sign(apart)).astype(np.int64)


class SelfAttention(Module):
    """Attention by words, and by words and distances."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.config, self.heads = config, config.num_attention_heads
        self.query_proj = Linear(width, width)
        self.key_proj = Linear(width, width)
        self.value_proj = Linear(width, width)
        self.joined = JoinedLinear("query_proj", "key_proj", "value_proj")
        own = config.relative_attention and not config.share_att_key
        self.pos_key_proj = Linear(width, width) if own and "c2p" in config.pos_att_type else None
        self.pos_query_proj = Linear(width, width) if own and "p2c" in config.pos_att_type else None

    @property
    def distant_keys(self) -> Any:
        """What makes keys of distances."""
        return self.pos_key_proj or self.key_proj

    @property
    def distant_queries(self) -> Any:
        """What makes queries of distances."""
        return self.pos_query_proj or self.query_proj

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, D) → queries, keys and values (B, T, H, D / H)."""
        qkv = self.joined(self, x).reshape(*x.shape[:2], 3 * self.heads, -1)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))
        return q, k, v

    def forward(self, x: Tensor, mask: Tensor | None, table: Tensor | None, places: tuple[Tensor, Tensor]) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T), table of distances (2 R, D), places: the rows of the table for (query, key)
        and for (key, query), (T, T) each → (B, T, D).
        """
        q, k, v = self.projected(x)
        scale = 1 / sqrt(q.shape[3] * (1 + len({*self.config.pos_att_type})))
        if table is None:
            return attend(q, k, v, mask, scale)
        bias: Tensor | None = None
        if "c2p" in self.config.pos_att_type:
            bias = self._compared(q, table, self.distant_keys, places[0])
        if "p2c" in self.config.pos_att_type:
            more = self._compared(k, table, self.distant_queries, places[1]).transpose(2, 3)
            bias = more if bias is None else bias + more
        if bias is None:
            return attend(q, k, v, mask, scale)
        return attend(q, k, v, as_bias(mask, bias * scale), scale)

    def _compared(self, words: Tensor, table: Tensor, project: Any, places: Tensor) -> Tensor:
        """words (B, T, H, D / H) times the projected distances, at the places (T, T) → (B, H, T, T)."""
        rows = project(table).reshape(table.shape[0], self.heads, -1).permute(1, 2, 0)  # (H, D / H, 2 R)
        every = words.permute(0, 2, 1, 3) @ rows  # (B, H, T, 2 R)
        index = places.reshape(1, 1, *places.shape).expand(*every.shape[:2], *places.shape)
        return ops.gather(every, 3, index)


class FirstSelfAttention(SelfAttention):
    """The attention of the first version: queries, keys and values of a head from one projection, keys without biases,
    and projections of distances under other names.
    """

    def __init__(self, config: Config) -> None:
        Module.__init__(self)
        width = config.hidden_size
        self.config, self.heads = config, config.num_attention_heads
        self.in_proj = Linear(width, 3 * width, bias=False)
        self.q_bias = new_parameter(ops.zeros, width)
        self.v_bias = new_parameter(ops.zeros, width)
        kinds = config.pos_att_type if config.relative_attention else ()
        self.pos_proj = Linear(width, width, bias=False) if "c2p" in kinds else None
        self.pos_q_proj = Linear(width, width) if "p2c" in kinds else None

    @property
    def distant_keys(self) -> Any:
        return self.pos_proj

    @property
    def distant_queries(self) -> Any:
        return self.pos_q_proj

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        qkv = self.in_proj(x).reshape(*x.shape[:2], self.heads, -1)  # (B, T, H, 3 D / H)
        size = qkv.shape[3] // 3
        q, k, v = (qkv.narrow(3, i * size, size) for i in range(3))
        return q + self.q_bias.reshape(self.heads, size), k, v + self.v_bias.reshape(self.heads, size)


class Convolution(Module):
    """A convolution of the embeddings, which is added to the first layer's output."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, kernel = config.hidden_size, config.conv_kernel_size
        self.conv = Conv1d(width, width, kernel, padding=(kernel - 1) // 2, groups=config.conv_groups)
        self.LayerNorm = LayerNorm(width, config.layer_norm_eps)
        self.activation = activation_named(config.conv_act)

    def forward(self, x: Tensor, residual: Tensor, own: Tensor) -> Tensor:
        """x and residual (B, T, D), own (B, T, 1), 0 for padding → (B, T, D)."""
        y = self.conv(x.transpose(1, 2).contiguous()).transpose(1, 2) * own.to(x.dtype)
        return self.LayerNorm(residual + self.activation(y)) * own.to(x.dtype)


class Embeddings(Module):
    """The words, with their positions and types if the configuration says so, normalised; 0 for padding."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, placed = config.width, config.position_biased_input
        self.word_embeddings = Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, width) if placed else None
        self.token_type_embeddings = Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.embed_proj = Linear(width, config.hidden_size, bias=False) if width != config.hidden_size else None
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, ids: Tensor, type_ids: Tensor | None, own: Tensor) -> Tensor:
        """ids and type_ids (B, T), own (B, T, 1) → (B, T, D)."""
        x = self.word_embeddings(ids)  # (B, T, width)
        if self.position_embeddings is not None:
            x = x + self.position_embeddings(ops.arange(ids.shape[1], dtype="int32", device=ids.device))
        if self.token_type_embeddings is not None:
            types = ops.zeros(1, dtype="int32", device=ids.device) if type_ids is None else type_ids
            x = x + self.token_type_embeddings(types)
        if self.embed_proj is not None:
            x = self.embed_proj(x)
        return self.LayerNorm(x) * own.to(x.dtype)


class Layers(Module):
    """The layers, the table of distances and the convolution."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        own = FirstSelfAttention if config.kind == FIRST else SelfAttention
        self.layer = ModuleList(BertLayer(config, own(config)) for _ in range(config.num_hidden_layers))
        relative = config.relative_attention
        self.rel_embeddings = Embedding(2 * config.distances, config.hidden_size) if relative else None
        normed = "layer_norm" in [part.strip() for part in config.norm_rel_ebd.lower().split("|")]
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps) if normed else None
        self.conv = Convolution(config) if config.conv_kernel_size else None

    def forward(self, x: Tensor, mask: Tensor | None, own: Tensor) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T), own (B, T, 1) → (B, T, D)."""
        table = self._table()
        config, first = self.config, x
        apart = distances(x.shape[1], config.position_buckets, config.farthest)
        span = config.distances
        rows = [np.clip(part + span, 0, 2 * span - 1) for part in (apart, -apart)]
        query_key, key_query = (ops.from_numpy(part).to(x.device) for part in rows)
        for i, layer in enumerate(self.layer):
            x = layer(x, mask, table, (query_key, key_query))
            if i == 0 and self.conv is not None:
                x = self.conv(first, x, own)
        return x

    def _table(self) -> Tensor | None:
        """The distances (2 R, D)."""
        if self.rel_embeddings is None:
            return None
        every = self.rel_embeddings(
            ops.arange(self.rel_embeddings.num_embeddings, dtype="int32", device=self.rel_embeddings.weight.device)
        )
        return every if self.LayerNorm is None else self.LayerNorm(every)


class DebertaV2(Encoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        mask = ops.ones(*ids.shape, device=ids.device) if attention_mask is None else attention_mask
        own = (mask != 0).to("float32").unsqueeze(-1)  # (B, T, 1)
        return self.encoder(self.embeddings(ids, type_ids, own), visible_keys(attention_mask), own)


class TiedPredictions(Module):
    """Scores of all words for each token, with the names of DeBERTa's own files; the matrix is the table of words."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.bias = new_parameter(ops.zeros, config.vocab_size)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D), table (V, D) → (B, T, V)."""
        return ops.linear(self.LayerNorm(self.activation(self.dense(x))), table, self.bias)


class DebertaV2ForMaskedLM(Headed):
    """Scores of the words that may stand at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, DebertaV2(config))
        if config.legacy:
            self.cls = Module()
            table = self.encoder.word_embeddings if config.tie_word_embeddings else None
            self.cls.predictions = Predictions(config, config.width, table)
        else:
            self.lm_predictions = Module()
            self.lm_predictions.lm_head = TiedPredictions(config)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, V)."""
        if self.config.legacy:
            return self.cls.predictions(x)
        return self.lm_predictions.lm_head(x, self.encoder.word_embeddings.weight)


class ContextPooler(Module):
    """activation(dense(x)) of a text's first token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.activation = activation_named(config.pooler_hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, D)."""
        return self.activation(self.dense(first_token(x)))


class DebertaV2ForSequenceClassification(Headed):
    """Scores of the labels of a text, or of a pair of texts."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, DebertaV2(config))
        self.pooler = ContextPooler(config)
        self.classifier = Linear(config.hidden_size, len(config.labels))

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, labels)."""
        return self.classifier(self.pooler(x))


class DebertaV2ForMultipleChoice(Chooser, DebertaV2ForSequenceClassification):
    """Scores of several texts, of which one is right."""

    def __init__(self, config: Config) -> None:
        super().__init__(one_label(config))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": DebertaV2,
    "masked-lm": DebertaV2ForMaskedLM,
    "sequence-classification": DebertaV2ForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, DebertaV2),
    "question-answering": headed(AnswersHead, BASE, DebertaV2),
    "multiple-choice": DebertaV2ForMultipleChoice,
}
