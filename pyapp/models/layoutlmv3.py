"""LayoutLMv3 (Huang et al. 2022, arXiv 2204.08387): one transformer of a page's words, with their places, and of the
patches of its picture. Attention knows the distances of both in the text and on the page. Without a picture it reads
the words alone.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import Conv2d, LayerNorm, Module
from pyapp.nn.encoders.encoders import (
    BertEmbeddings,
    DenseClassifier,
    DenseClassifierHead,
    Headed,
    LinearHead,
    headed,
    visible_keys,
)  # fmt: skip
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.page_encoder import PAGE, PageEncoder, add_tables, placed
from pyapp.nn.vision.page_layers import PageLayers, part_boxes
from pyapp.nn.vision.vision import check_pictures

from .loading.config import require
from .loading.encoder_config import PageLayersConfig

MODEL_TYPES = ("layoutlmv3",)
IMAGE_PROCESSOR = "LayoutLMv3"  # of files that name none
BASE = "layoutlmv3"  # the encoder's name in files with a head
IGNORED = r"(layoutlmv3\.)?visual_bbox"  # computed here
MOST_PATCHES = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Config(PageLayersConfig):
    """The hyper-parameters, by the names of config.json. The first `pad_token_id` + 1 positions are of padding."""

    model_type = "layoutlmv3"

    pad_token_id: int = 1
    layer_norm_eps: float = 1e-5
    visual_embed: bool = True
    input_size: int = 224
    num_channels: int = 3
    patch_size: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.pad_token_id < self.max_position_embeddings - 1,
            f"pad_token_id {self.pad_token_id} leaves no positions of {self.max_position_embeddings}",
        )
        require(
            1 <= self.side**2 <= MOST_PATCHES,
            f"input_size {self.input_size} with patch_size {self.patch_size} makes {self.side**2:,} patches, expected "
            f"1 to {MOST_PATCHES:,}",
        )

    @property
    def side(self) -> int:
        """Patches of a side of a picture."""
        return self.input_size // self.patch_size


class Embeddings(BertEmbeddings):
    """The sum of a token's word, position, type, and place and size on the page, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, skips_padding=True)
        add_tables(self, config.max_2d_position_embeddings, config.coordinate_size, config.shape_size)

    def on_page(self, ids: Tensor, type_ids: Tensor | None, boxes: Tensor) -> Tensor:
        """ids and type_ids (B, T), boxes (B, T, 4) → (B, T, D)."""
        return self.LayerNorm(self.summed(ids, type_ids) + ops.cat(placed(self, boxes), -1))


class PatchEmbeddings(Module):
    """The patches of a picture, without their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.proj = Conv2d(config.num_channels, config.hidden_size, config.patch_size, config.patch_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """(B, C, H, W) → (B, patches, D)."""
        return self.proj(pixel_values).flatten(2).transpose(1, 2)


class Layers(PageLayers):
    """The layers; biases of places count only beside those of positions."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, 1 / sqrt(config.hidden_size // config.num_attention_heads))

    def _bias(self, positions: Tensor, boxes: Tensor) -> Tensor | None:
        return None if self.rel_pos_bias is None else super()._bias(positions, boxes)


class LayoutLMv3(PageEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings - config.pad_token_id - 1
        self.embeddings = Embeddings(config)
        if config.visual_embed:
            self.pixels = (config.input_size, config.input_size)
            self.patch_embed = PatchEmbeddings(config)
            self.cls_token = new_parameter(ops.zeros, 1, 1, config.hidden_size)
            self.pos_embed = new_parameter(ops.zeros, 1, config.side**2 + 1, config.hidden_size)
            self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
            self.norm = LayerNorm(config.hidden_size, 1e-6)
        self.encoder = Layers(config)

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        boxes: Tensor | None = None, pixel_values: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """ids (B, T), boxes (B, T, 4), pixel_values (B, C, H, W) → hidden states of the words (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        (batch, tokens), device = ids.shape, ids.device
        boxes, mask = self.boxes_of(ids, boxes), visible_keys(attention_mask)
        x = self.embeddings.on_page(ids, type_ids, boxes)  # (B, T, D)
        positions = ops.arange(tokens, dtype="int32", device=device)
        if pixel_values is not None:
            require(self.pixels is not None, "this LayoutLMv3 reads no pictures (visual_embed is false)")
            seen = self._seen(pixel_values)  # (B, 1 + patches, D)
            count = seen.shape[1]
            x = self.LayerNorm(ops.cat([x, seen], 1))
            own = ops.from_numpy(patch_boxes(self.config.side)).to(device)  # (1 + patches, 4)
            boxes = ops.cat([boxes.to("int32"), own.unsqueeze(0).expand(batch, count, 4)], 1)
            positions = ops.cat([positions, ops.arange(count, dtype="int32", device=device)], 0)
            if mask is not None:
                every = ops.ones(batch, 1, 1, count, dtype="bool", device=device)
                mask = ops.cat([mask, every], 3)
        positions = positions.unsqueeze(0).expand(batch, positions.shape[0])
        return self.encoder.on_page(x, mask, positions, boxes).narrow(1, 0, tokens)

    def _seen(self, pixel_values: Tensor) -> Tensor:
        """The class token and the patches (B, 1 + patches, D) of pictures."""
        assert self.pixels is not None
        check_pictures("LayoutLMv3", pixel_values, self.config.num_channels, self.pixels)
        patches = self.patch_embed(pixel_values)
        first = self.cls_token.expand(patches.shape[0], 1, patches.shape[2])
        return self.norm(ops.cat([first, patches], 1) + self.pos_embed)


def patch_boxes(side: int) -> Any:
    """The boxes (1 + side², 4) int32 of the class token, which is of the whole page, and of the patches."""
    return np.concatenate([np.array([[1, 1, PAGE - 1, PAGE - 1]], np.int32), part_boxes(side, side)])


class LayoutLMv3ForTokenClassification(LinearHead):
    """Scores of the labels of each token: of a linear layer, or of two where there are ten labels or more."""

    def __init__(self, config: Config) -> None:
        super().__init__((BASE, "classifier"), LayoutLMv3(config), config.hidden_size, len(config.labels))
        if len(config.labels) >= 10:
            self.classifier = TokenScores(config, len(config.labels))


class TokenScores(DenseClassifier):
    """out_proj(tanh(dense(x))) of each token."""

    def __init__(self, config: Config, outputs: int) -> None:
        super().__init__(config.hidden_size, outputs, ops.tanh)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → logits (B, T, outputs)."""
        return self.out_proj(self.activation(self.dense(x)))


class LayoutLMv3ForQuestionAnswering(Headed):
    """Scores of an answer's start and end at each token."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, LayoutLMv3(config))
        self.qa_outputs = TokenScores(config, 2)

    def scores(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B, T, D) → logits (B, T, 2)."""
        return self.qa_outputs(x)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": LayoutLMv3,
    "sequence-classification": headed(DenseClassifierHead, BASE, LayoutLMv3, ops.tanh),
    "token-classification": LayoutLMv3ForTokenClassification,
    "question-answering": LayoutLMv3ForQuestionAnswering,
}
