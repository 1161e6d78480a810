"""BROS (Hong et al. 2021, arXiv 2108.04539): BERT, whose scores of attention also depend on where two words of a page
are to one another.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log, sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.encoders.encoders import (
    BertEmbeddings,
    BertLayers,
    Pooler,
    SelfAttention,
    TokenLabelsHead,
    headed,
    visible_keys,
)
from pyapp.nn.vision.page_encoder import PAGE, PageEncoder

from .loading.config import check_positive, require
from .loading.encoder_config import BertConfig

MODEL_TYPES = ("bros",)
BASE = "bros"  # the encoder's name in files with a head
IGNORED = r"(bros\.)?bbox_embeddings\.bbox_sinusoid_emb\.[xy]_pos_emb\.inv_freq"  # computed here
SIDES = 8  # of the corners of a box
CORNERS = (0, 1, 2, 1, 2, 3, 0, 3)  # the sides of a box that are the corners' places


@dataclass(frozen=True, kw_only=True)
class Config(BertConfig):
    """The hyper-parameters, by the names of config.json. bbox_scale: the width of a page in the places' sinusoids."""

    model_type = "bros"

    dim_bbox: int = SIDES
    bbox_scale: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim_bbox == SIDES, f"dim_bbox is {self.dim_bbox}, and only {SIDES} is known")
        require(
            self.hidden_size % (4 * 2 * SIDES) == 0,
            f"hidden_size {self.hidden_size} is not a multiple of {4 * 2 * SIDES}",
        )
        check_positive(self, "bbox_scale")

    @property
    def features(self) -> int:
        """The sines and cosines of a box."""
        return self.hidden_size // 4


class BoxAttention(SelfAttention):
    """Attention with scores of words and of the distances of their boxes.

    A distance's sines and cosines are those of a turn of one box's by the other's: the scores of distances are a
    product of turned queries and of the keys' boxes, and both products are one.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config.hidden_size, config.num_attention_heads)

    def forward(self, x: Tensor, mask: Tensor | None, sines: Tensor, cosines: Tensor, table: Tensor) -> Tensor:  # type: ignore[override]
        """x (B, T, D), sines and cosines (B, 1, T, S) of the boxes, table (D / H, 2 S) → (B, T, D)."""
        batch, tokens, width = x.shape
        qkv = self.joined(self, x).reshape(batch, tokens, 3 * self.heads, -1)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads).transpose(1, 2) for i in range(3))  # (B, H, T, D / H)
        a, b = (q @ table).chunk(2, 3)  # (B, H, T, S) each: of the distances' sines and cosines
        turned = ops.cat([q, a * cosines + b * sines, b * cosines - a * sines], 3)
        places = ops.cat([sines, cosines], 3).expand(batch, self.heads, tokens, 2 * sines.shape[3])
        scale = 1 / sqrt(v.shape[3])
        y = ops.scaled_dot_product_attention(turned, ops.cat([k, places], 3), v, mask, scale=scale)
        return y.transpose(1, 2).reshape(batch, tokens, width)


class BoxEmbeddings(Module):
    """The projection of the sines and cosines of distances to the features of a head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.bbox_projection = Linear(config.features, config.hidden_size // config.num_attention_heads, bias=False)
        self.each = config.features // SIDES // 2  # sines of a corner's place
        self.scale = config.bbox_scale / PAGE

    def forward(self, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """boxes (B, T, 4) in thousandths → the sines and cosines (B, 1, T, S) of their corners."""
        powers = ops.arange(self.each, dtype="float32", device=boxes.device) / self.each
        speeds = (powers * -log(10000.0)).exp()  # (S / 8,)
        corners = ops.cat([boxes.narrow(2, side, 1) for side in CORNERS], 2).to("float32") * self.scale  # (B, T, 8)
        angles = (corners.unsqueeze(3) * speeds).flatten(2).unsqueeze(1)  # (B, 1, T, S)
        return angles.sin(), angles.cos()

    def table(self) -> Tensor:
        """The projection (D / H, 2 S), of all sines, then of all cosines. Files have both for one corner after the
        other.
        """
        weight = self.bbox_projection.dense_weight()  # (D / H, 2 S)
        return weight.reshape(-1, SIDES, 2, self.each).transpose(1, 2).reshape(weight.shape)


class Bros(PageEncoder):
    """The encoder; with `pooler`, also a layer over the first token."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(config)
        self.bbox_embeddings = BoxEmbeddings(config)
        self.encoder = BertLayers(config, BoxAttention)
        self.pooler = Pooler(config.hidden_size) if pooler else None

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        boxes: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """ids (B, T), boxes (B, T, 4) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        sines, cosines = self.bbox_embeddings(self.boxes_of(ids, boxes))
        x = self.embeddings(ids, type_ids)
        return self.encoder(x, visible_keys(attention_mask), sines, cosines, self.bbox_embeddings.table())


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": Bros,
    "token-classification": headed(TokenLabelsHead, BASE, Bros),
}
