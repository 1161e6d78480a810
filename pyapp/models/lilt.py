"""LiLT (Wang et al. 2022, arXiv 2202.13669): RoBERTa beside a narrower transformer of the words' places on the page.
Both add their scores of attention, so that one of them can be replaced: by a model of another language.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    DenseClassifierHead,
    Intermediate,
    NormedResidual,
    Pooler,
    SelfAttention,
    TokenLabelsHead,
    headed,
    positions_from,
    visible_keys,
)  # fmt: skip
from pyapp.nn.vision.page_encoder import PageEncoder, add_tables, placed

from .loading.config import require
from .loading.encoder_config import BertConfig, check_page

MODEL_TYPES = ("lilt",)
BASE = "lilt"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. The first `pad_token_id` + 1 positions are of padding."""

    model_type = "lilt"

    pad_token_id: int = 0
    channel_shrink_ratio: int = 4
    max_2d_position_embeddings: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        check_page(self.max_2d_position_embeddings)
        ratio, width, heads = self.channel_shrink_ratio, self.hidden_size, self.num_attention_heads
        require(
            width % (heads * ratio) == 0 and width % 6 == 0 and self.intermediate_size % ratio == 0,
            f"channel_shrink_ratio {ratio} does not divide hidden_size {width} with {heads} heads, or "
            f"intermediate_size {self.intermediate_size}; or 6 does not divide hidden_size",
        )
        require(
            self.pad_token_id < self.max_position_embeddings - 1,
            f"pad_token_id {self.pad_token_id} leaves no positions of {self.max_position_embeddings}",
        )

    @property
    def narrow(self) -> int:
        """Features of the places' hidden states."""
        return self.hidden_size // self.channel_shrink_ratio


class LayoutEmbeddings(Module):
    """The place and the size of a word on the page, with its position, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        add_tables(self, config.max_2d_position_embeddings, config.hidden_size // 6, config.hidden_size // 6)
        self.box_position_embeddings = Embedding(config.max_position_embeddings, config.narrow, config.pad_token_id)
        self.box_linear_embeddings = Linear(config.hidden_size, config.narrow)
        self.LayerNorm = LayerNorm(config.narrow, config.layer_norm_eps)

    def forward(self, boxes: Tensor, positions: Tensor) -> Tensor:
        """boxes (B, T, 4), positions (B, T) → (B, T, narrow)."""
        x = self.box_linear_embeddings(ops.cat(placed(self, boxes), -1))
        return self.LayerNorm(x + self.box_position_embeddings(positions))


class PairedAttention(SelfAttention):
    """Attention of words and of their places, each with the scores of both."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.num_attention_heads)
        self.layout_query = Linear(config.narrow, config.narrow)
        self.layout_key = Linear(config.narrow, config.narrow)
        self.layout_value = Linear(config.narrow, config.narrow)

    def forward(self, x: Tensor, places: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """x (B, T, D) and places (B, T, narrow) → the same shapes."""
        batch, tokens, _ = x.shape
        own = [layer(x) for layer in (self.query, self.key, self.value)]
        layout = [layer(places) for layer in (self.layout_query, self.layout_key, self.layout_value)]
        q, k, v = (y.reshape(batch, tokens, self.heads, -1).transpose(1, 2) for y in own)  # (B, H, T, D / H)
        a, b, c = (y.reshape(batch, tokens, self.heads, -1).transpose(1, 2) for y in layout)
        # Scores of words and of places, added, are one product of both; each part has its own scale.
        q, k = ops.cat([q / sqrt(q.shape[3]), a / sqrt(a.shape[3])], -1), ops.cat([k, b], -1)
        both = ops.scaled_dot_product_attention(q, k, ops.cat([v, c], -1), mask, scale=1.0)  # (B, H, T, both)
        width = v.shape[3]
        found = [both.narrow(3, 0, width), both.narrow(3, width, c.shape[3])]
        y, z = (part.transpose(1, 2).reshape(batch, tokens, -1) for part in found)
        return y, z


class Attention(Module):
    """Both attentions, their output projections, residuals and norms."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.add_module("self", PairedAttention(config))
        self.output = NormedResidual(config.hidden_size, config.hidden_size, config.layer_norm_eps)
        self.layout_output = NormedResidual(config.narrow, config.narrow, config.layer_norm_eps)

    def forward(self, x: Tensor, places: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) and places (B, T, narrow) → the same shapes."""
        y, z = self._modules["self"](x, places, mask)
        return self.output(y, x), self.layout_output(z, places)


class Layer(Module):
    """Attention and a feed-forward part of words and of places."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        inner, act, epsilon = config.intermediate_size, config.hidden_act, config.layer_norm_eps
        less = inner // config.channel_shrink_ratio
        self.attention = Attention(config)
        self.intermediate = Intermediate(config.hidden_size, inner, act)
        self.output = NormedResidual(inner, config.hidden_size, epsilon)
        self.layout_intermediate = Intermediate(config.narrow, less, act)
        self.layout_output = NormedResidual(less, config.narrow, epsilon)

    def forward(self, x: Tensor, places: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) and places (B, T, narrow) → the same shapes."""
        x, places = self.attention(x, places, mask)
        return self.output(self.intermediate(x), x), self.layout_output(self.layout_intermediate(places), places)


class Layers(Module):
    """The layers, one after the other."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor, places: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) and places (B, T, narrow) → (B, T, D)."""
        for layer in self.layer:
            x, places = layer(x, places, mask)
        return x


class Lilt(PageEncoder):
    """The encoder; with `pooler`, also a layer over the first token."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings - config.pad_token_id - 1
        self.embeddings = BertEmbeddings(config, skips_padding=True)
        self.layout_embeddings = LayoutEmbeddings(config)
        self.encoder = Layers(config)
        self.pooler = Pooler(config.hidden_size) if pooler else None

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        boxes: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """ids (B, T), boxes (B, T, 4) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        positions = positions_from(ids, self.config.pad_token_id)
        places = self.layout_embeddings(self.boxes_of(ids, boxes), positions)
        return self.encoder(self.embeddings(ids, type_ids, positions), places, visible_keys(attention_mask))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Lilt,
    "sequence-classification": headed(DenseClassifierHead, BASE, Lilt, ops.tanh, pooler=False),
    "token-classification": headed(TokenLabelsHead, BASE, Lilt, pooler=False),
    "question-answering": headed(AnswersHead, BASE, Lilt, pooler=False),
}
