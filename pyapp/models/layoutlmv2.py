"""LayoutLMv2 (Xu et al. 2020, arXiv 2012.14740), and LayoutXLM (2021, arXiv 2104.08836) of many languages: one
transformer of a page's words, with their places, and of the features that a convolutional network finds in its picture.
Attention knows the distances of both in the text and on the page. Without a picture it reads the words alone.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import (
    AnswersHead,
    BertEmbeddings,
    Headed,
    Pooler,
    SelfAttention,
    TokenLabelsHead,
    attend_joined,
    first_token,
    headed,
    visible_keys,
)  # fmt: skip
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.detectron import BLOCKS, Pyramid
from pyapp.nn.vision.page_encoder import PAGE, PageEncoder, add_tables, placed
from pyapp.nn.vision.page_layers import PageLayers, part_boxes
from pyapp.nn.vision.vision import check_pictures

from .loading.config import LIMITS, require
from .loading.encoder_config import PageLayersConfig

MODEL_TYPES = ("layoutlmv2", "layoutxlm")
IMAGE_PROCESSOR = "LayoutLMv2"  # of files that name none
BASE = "layoutlmv2"  # the encoder's name in files with a head
# Computed here; and parts of the pyramid that no task reads.
IGNORED = r"(layoutlmv2\.)?visual\.(pixel_(mean|std)|backbone\.fpn_output[345]\.\w+|.*\.num_batches_tracked)"
SIDE = 224  # of pictures
MEAN, DEVIATION = (103.53, 116.28, 123.675), (57.375, 57.12, 58.395)  # of pixels: blue, green, red
# What detectron2_config_args leave out, and the largest number of each.
NETWORK = {"DEPTH": 101, "NUM_GROUPS": 32, "WIDTH_PER_GROUP": 8, "STEM_OUT_CHANNELS": 64, "RES2_OUT_CHANNELS": 256}
WIDEST = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Config(PageLayersConfig):
    """The hyper-parameters, by the names of config.json. image_feature_pool_shape: the rows, the columns and the width
    of a picture's features; detectron2_config_args: settings of the network of pictures.
    """

    model_type = "layoutlmv2"

    fast_qkv: bool = True
    has_visual_segment_embedding: bool = False
    image_feature_pool_shape: list[int] | tuple[int, ...] = (7, 7, 256)
    detectron2_config_args: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = list(self.image_feature_pool_shape)
        require(
            len(shape) == 3 and all(type(one) is int and 1 <= one <= WIDEST for one in shape)
            and shape[0] * shape[1] <= self.max_position_embeddings,
            f"image_feature_pool_shape is {shape!r:.60}, expected rows, columns and a width up to {WIDEST:,}, and at "
            f"most {self.max_position_embeddings:,} parts",
        )  # fmt: skip
        depth = self.network("DEPTH")
        require(depth in BLOCKS, f"MODEL.RESNETS.DEPTH is {depth}, expected one of {', '.join(map(str, BLOCKS))}")
        for name in NETWORK:
            number = self.network(name)
            require(
                type(number) is int and 1 <= number <= WIDEST,
                f"MODEL.RESNETS.{name} is {number!r:.40}, expected a whole number from 1 to {WIDEST:,}",
            )

    def network(self, name: str) -> Any:
        """A setting of the network of pictures."""
        return self.detectron2_config_args.get(f"MODEL.RESNETS.{name}", NETWORK.get(name))

    def of_pixels(self, name: str, usual: tuple[float, ...]) -> tuple[float, ...]:
        """The numbers of the three colours under a name. ModelError for others."""
        found = self.detectron2_config_args.get(f"MODEL.{name}", usual)
        fits = isinstance(found, list | tuple) and len(found) == 3
        require(
            fits and all(type(one) in (int, float) and 0 < one < LIMITS["vocab_size"] for one in found),
            f"MODEL.{name} is {found!r:.60}, expected three numbers above 0",
        )
        return tuple(found)


class JointAttention(SelfAttention):
    """Self-attention from one projection without biases, to which those of queries and values are added."""

    def __init__(self, config: Config) -> None:
        width = config.hidden_size
        Module.__init__(self)
        self.heads = config.num_attention_heads
        self.qkv_linear = Linear(width, 3 * width, bias=False)
        self.q_bias, self.v_bias = (new_parameter(ops.zeros, 1, 1, width) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        q, k, v = self.qkv_linear(x).chunk(3, 2)
        return attend_joined(ops.cat([q + self.q_bias, k, v + self.v_bias], 2), self.heads, mask)


class Embeddings(BertEmbeddings):
    """The sum of a token's word, position, type, and place and size on the page, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        add_tables(self, config.max_2d_position_embeddings, config.coordinate_size, config.shape_size)

    def on_page(self, ids: Tensor, type_ids: Tensor | None, boxes: Tensor) -> Tensor:
        """ids and type_ids (B, T), boxes (B, T, 4) → (B, T, D)."""
        return self.LayerNorm(self.summed(ids, type_ids) + ops.cat(placed(self, boxes), -1))


class Visual(Module):
    """The features of a picture's parts."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        *self.shape, outputs = config.image_feature_pool_shape
        groups = config.network("NUM_GROUPS")
        self.backbone = Pyramid(
            outputs, config.network("DEPTH"), config.network("STEM_OUT_CHANNELS"), config.network("RES2_OUT_CHANNELS"),
            groups * config.network("WIDTH_PER_GROUP"), groups, bool(config.network("STRIDE_IN_1X1")),
        )  # fmt: skip
        for name, values in (
            ("mean", config.of_pixels("PIXEL_MEAN", MEAN)), ("deviation", config.of_pixels("PIXEL_STD", DEVIATION)),
        ):  # fmt: skip
            self.register_buffer(name, ops.tensor(list(values)).reshape(3, 1, 1), persistent=False)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) from 0 to 255, blue first → (B, rows * columns, width)."""
        features = self.backbone((pixel_values - self.mean) / self.deviation)
        return ops.adaptive_avg_pool2d(features, self.shape).flatten(2).transpose(1, 2)


class LayoutLMv2(PageEncoder):
    """The encoder, and a layer over the first token."""

    end_box = (PAGE,) * 4
    pixels = (SIDE, SIDE)

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.visual = Visual(config)
        self.visual_proj = Linear(config.image_feature_pool_shape[2], config.hidden_size)
        self.visual_segment_embedding = (
            new_parameter(ops.zeros, config.hidden_size) if config.has_visual_segment_embedding else None
        )  # fmt: skip
        self.visual_LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.encoder = PageLayers(config, 1.0, JointAttention if config.fast_qkv else None)
        self.pooler = Pooler(config.hidden_size)

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        boxes: Tensor | None = None, pixel_values: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """ids (B, T), boxes (B, T, 4), pixel_values (B, 3, H, W) → hidden states of the words (B, T, D)."""
        return self.read(ids, attention_mask, type_ids, boxes, pixel_values)[0]

    def read(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None,
        boxes: Tensor | None = None, pixel_values: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
        """As `forward`: hidden states of the words (B, T, D), and the picture's parts (B, P, D) before and after the
        layers; None without a picture.
        """
        self.check(ids, attention_mask, type_ids)
        (batch, tokens), device = ids.shape, ids.device
        boxes, mask = self.boxes_of(ids, boxes), visible_keys(attention_mask)
        x = self.embeddings.on_page(ids, type_ids, boxes)  # (B, T, D)
        positions, seen = ops.arange(tokens, dtype="int32", device=device), None
        if pixel_values is not None:
            check_pictures("LayoutLMv2", pixel_values, 3)
            rows, columns, _ = self.config.image_feature_pool_shape
            own = ops.from_numpy(part_boxes(rows, columns)).to(device).unsqueeze(0)  # (1, P, 4)
            own = own.expand(batch, rows * columns, 4)
            places = ops.arange(rows * columns, dtype="int32", device=device)
            seen = self._seen(pixel_values, own, places)
            x, positions = ops.cat([x, seen], 1), ops.cat([positions, places], 0)
            boxes = ops.cat([boxes.to("int32"), own], 1)
            if mask is not None:
                every = ops.ones(batch, 1, 1, rows * columns, dtype="bool", device=device)
                mask = ops.cat([mask, every], 3)
        positions = positions.unsqueeze(0).expand(batch, positions.shape[0])
        x = self.encoder.on_page(x, mask, positions, boxes)
        after = None if seen is None else x.narrow(1, tokens, x.shape[1] - tokens)
        return x.narrow(1, 0, tokens), seen, after

    def _seen(self, pixel_values: Tensor, boxes: Tensor, places: Tensor) -> Tensor:
        """The parts (B, P, D) of pictures, at their boxes (B, P, 4) and positions (P,)."""
        x = self.visual_proj(self.visual(pixel_values)) + self.embeddings.position_embeddings(places)
        x = x + ops.cat(placed(self.embeddings, boxes), -1)
        if self.visual_segment_embedding is not None:
            x = x + self.visual_segment_embedding
        return self.visual_LayerNorm(x)


class LayoutLMv2ForSequenceClassification(Headed):
    """Scores of the labels of a page, from its first token and the means of the picture's parts before and after the
    layers, which are zeros where there is no picture.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, LayoutLMv2(config))
        self.classifier = Linear(3 * config.hidden_size, len(config.labels))

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None, *page: Tensor | None
    ) -> Tensor:
        """ids (B, T), page: boxes (B, T, 4) and pixel_values (B, 3, H, W) → logits (B, labels)."""
        encoder = self.encoder
        assert isinstance(encoder, LayoutLMv2)
        x, *pictures = encoder.read(ids, attention_mask, type_ids, *page)
        first = first_token(x)
        means = [ops.zeros_like(first) if parts is None else parts.mean(1) for parts in pictures]
        return self.classifier(ops.cat([first, *means], 1))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "features": LayoutLMv2,
    "sequence-classification": LayoutLMv2ForSequenceClassification,
    "token-classification": headed(TokenLabelsHead, BASE, LayoutLMv2),
    "question-answering": headed(AnswersHead, BASE, LayoutLMv2),
}
