"""Segment Anything (Kirillov et al. 2023, arXiv 2304.02643): a Vision Transformer that sees a picture once, and a small
decoder that cuts out what points or boxes show.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from math import pi
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Conv2d, ConvTranspose2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders import attend
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sam_tower import EPSILON, SamFeedForward, SamTower
from pyapp.nn.vision import ImageModel, over_channels

from .loading.config import check_fields, read_config, require
from .loading.pictures_config import WIDEST
from .loading.towers_config import SamVisionConfig

MODEL_TYPES = ("sam",)
BASE = ""
IGNORED = r"prompt_encoder\.shared_embedding\.positional_embedding"  # the same as shared_image_embedding's
LAYER_RATE = 2  # of the layers' attention, whatever the configuration says of the last one's


@dataclass(frozen=True, kw_only=True)
class PromptConfig:
    """The fields of prompt_encoder_config."""

    hidden_size: int = 256
    image_size: int | None = None
    patch_size: int | None = None
    mask_input_channels: int = 16
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        check_fields(self)
        channels = self.mask_input_channels
        require(channels % 4 == 0 and channels <= WIDEST, f"mask_input_channels is {channels:,}")


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """The fields of mask_decoder_config."""

    hidden_size: int = 256
    hidden_act: str = "relu"
    mlp_dim: int = 2048
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    attention_downsample_rate: int = 2
    num_multimask_outputs: int = 3
    iou_head_depth: int = 3
    iou_head_hidden_dim: int = 256
    layer_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        check_fields(self)
        for rate in (LAYER_RATE, self.attention_downsample_rate):
            inner = self.hidden_size // rate
            fits = inner > 0 and inner % self.num_attention_heads == 0
            require(fits, f"{self.num_attention_heads} heads do not divide {inner}")
        require(self.hidden_size % 8 == 0, f"hidden_size is {self.hidden_size}, expected a multiple of 8")
        require(max(self.mlp_dim, self.iou_head_hidden_dim) <= WIDEST, "the mask decoder is too wide")
        require(max(self.num_multimask_outputs, self.iou_head_depth) <= 64, "the mask decoder is implausible")


@dataclass(frozen=True)
class Config:
    """The configurations of the parts, and `values`, the whole object of the config.json."""

    vision_config: SamVisionConfig
    prompt_encoder_config: PromptConfig
    mask_decoder_config: MaskConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored. ModelError for parts that do not fit together."""
        parts: list[Mapping[str, Any]] = []
        for name in ("vision_config", "prompt_encoder_config", "mask_decoder_config"):
            own = values.get(name)
            own = {} if own is None else own
            require(isinstance(own, dict), f"{name} is {own!r:.60}, expected an object")
            parts.append(own)
        vision = SamVisionConfig.from_dict(parts[0])
        prompt, mask = read_config(PromptConfig, parts[1]), read_config(MaskConfig, parts[2])
        widths = {vision.output_channels, 2 * vision.num_pos_feats, prompt.hidden_size, mask.hidden_size}
        require(len(widths) == 1, f"the parts have several widths: {', '.join(map(str, sorted(widths)))}")
        for name in ("image_size", "patch_size"):
            sides, given = getattr(vision, name), getattr(prompt, name)
            require(
                given is None or sides == (given, given),
                f"{name} is {given} in prompt_encoder_config and {' x '.join(map(str, sides))} in vision_config",
            )
        require(values.get("tie_word_embeddings") is not False, "SAM with tie_word_embeddings false is not supported")
        return cls(vision, prompt, mask, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0], "vision_config": self.vision_config.to_dict()}

    @property
    def num_channels(self) -> int:
        """The channels of pictures."""
        found: int = self.vision_config.num_channels
        return found


# -- what points and boxes show


class PlaceEmbedding(Module):
    """Waves of random directions over the picture."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.positional_embedding = new_parameter(ops.randn, 2, features)

    def forward(self, places: Tensor) -> Tensor:
        """places (..., 2): x and y as parts of the sides → (..., 2 * features)."""
        x = ((2 * places - 1) @ self.positional_embedding) * (2 * pi)
        return ops.cat([x.sin(), x.cos()], -1)


class MaskEmbedding(Module):
    """A map of a mask that was given as a prompt."""

    def __init__(self, config: PromptConfig) -> None:
        super().__init__()
        channels = config.mask_input_channels
        self.conv1 = Conv2d(1, channels // 4, 2, stride=2)
        self.layer_norm1 = LayerNorm(channels // 4, config.layer_norm_eps)
        self.conv2 = Conv2d(channels // 4, channels, 2, stride=2)
        self.layer_norm2 = LayerNorm(channels, config.layer_norm_eps)
        self.conv3 = Conv2d(channels, config.hidden_size, 1)
        self.activation = activation_named(config.hidden_act)

    def forward(self, masks: Tensor) -> Tensor:
        """masks (B, 1, 4 * side, 4 * side) logits → (B, C, side, side)."""
        x = self.activation(over_channels(self.conv1(masks), self.layer_norm1))
        return self.conv3(self.activation(over_channels(self.conv2(x), self.layer_norm2)))


def vectors_of(table: Embedding) -> Tensor:
    """All vectors (N, C) of a table, whose weights may be quantised."""
    return table(ops.arange(table.num_embeddings, device=table.weight.device))


class PromptEncoder(Module):
    """The tokens of points and boxes."""

    def __init__(self, config: PromptConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.mask_embed = MaskEmbedding(config)
        self.no_mask_embed = Embedding(1, width)
        self.point_embed = ModuleList(Embedding(1, width) for _ in range(4))  # outside, inside, two corners of a box
        self.not_a_point_embed = Embedding(1, width)

    def points(self, waves: Tensor, labels: Tensor) -> Tensor:
        """waves (B, P, N, C) of points, labels (B, P, N): 1 of the object, 0 not of it, -1 no point → (B, P, N, C)."""
        x = ops.where((labels == -1).unsqueeze(3), vectors_of(self.not_a_point_embed), waves)
        for value in (0, 1):
            x = x + (labels == value).unsqueeze(3).to(x.dtype) * vectors_of(self.point_embed[value])
        return x

    def boxes(self, waves: Tensor) -> Tensor:
        """waves (B, P, 2, C) of the corners → (B, P, 2, C)."""
        return waves + ops.cat([vectors_of(self.point_embed[2]), vectors_of(self.point_embed[3])])


class DecoderAttention(Module):
    """Attention between tokens and places, in fewer channels."""

    def __init__(self, config: MaskConfig, rate: int) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.hidden_size // rate
        self.heads = config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, inner) for _ in range(3))
        self.out_proj = Linear(inner, width)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q (B, T, C), k and v (B, S, C) → (B, T, C)."""
        parts = [
            layer(x).reshape(*x.shape[:2], self.heads, -1)
            for layer, x in ((self.q_proj, q), (self.k_proj, k), (self.v_proj, v))
        ]
        return self.out_proj(attend(parts[0], parts[1], parts[2], None))


class TwoWayLayer(Module):
    """Tokens attend to each other, then to the places; then the places attend to the tokens."""

    def __init__(self, config: MaskConfig, first: bool) -> None:
        super().__init__()
        self.first, rate = first, LAYER_RATE
        self.self_attn = DecoderAttention(config, 1)
        self.cross_attn_token_to_image = DecoderAttention(config, rate)
        self.mlp = SamFeedForward(config.hidden_size, config.mlp_dim, config.hidden_act)
        self.cross_attn_image_to_token = DecoderAttention(config, rate)
        for i in range(1, 5):
            self.add_module(f"layer_norm{i}", LayerNorm(config.hidden_size, config.layer_norm_eps))

    def forward(self, x: Tensor, tokens: Tensor, image: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, C) with the prompts (B, T, C), the map image (B, S, C) at places (1, S, C) → both."""
        if self.first:
            x = self.self_attn(x, x, x)
        else:
            q = x + tokens
            x = x + self.self_attn(q, q, x)
        x = self.layer_norm1(x)
        x = self.layer_norm2(x + self.cross_attn_token_to_image(x + tokens, image + places, image))
        x = self.layer_norm3(self.mlp(x, x))
        image = self.layer_norm4(image + self.cross_attn_image_to_token(image + places, x + tokens, x))
        return x, image


class TwoWayTransformer(Module):
    """The layers, and a last look of the tokens at the places."""

    def __init__(self, config: MaskConfig) -> None:
        super().__init__()
        self.layers = ModuleList(TwoWayLayer(config, i == 0) for i in range(config.num_hidden_layers))
        self.final_attn_token_to_image = DecoderAttention(config, config.attention_downsample_rate)
        self.layer_norm_final_attn = LayerNorm(config.hidden_size)

    def forward(self, tokens: Tensor, image: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """tokens (B, T, C), image (B, S, C) at places (1, S, C) → both."""
        x = tokens
        for layer in self.layers:
            x, image = layer(x, tokens, image, places)
        x = x + self.final_attn_token_to_image(x + tokens, image + places, image)
        return self.layer_norm_final_attn(x), image


class Head(Module):
    """Linear layers with ReLUs between them."""

    def __init__(self, width: int, inner: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.proj_in = Linear(width, inner)
        self.layers = ModuleList(Linear(inner, inner) for _ in range(depth - 2))
        self.proj_out = Linear(inner, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., outputs)."""
        x = ops.relu(self.proj_in(x))
        for layer in self.layers:
            x = ops.relu(layer(x))
        return self.proj_out(x)


class MaskDecoder(Module):
    """Masks, and how good each will be: a token for the latter, and one for each mask. The first is for prompts with
    one meaning, the others for several meanings of one point.
    """

    def __init__(self, config: MaskConfig) -> None:
        super().__init__()
        width, masks = config.hidden_size, config.num_multimask_outputs + 1
        self.iou_token = Embedding(1, width)
        self.mask_tokens = Embedding(masks, width)
        self.transformer = TwoWayTransformer(config)
        self.upscale_conv1 = ConvTranspose2d(width, width // 4, 2, stride=2)
        self.upscale_layer_norm = LayerNorm(width // 4, EPSILON)
        self.upscale_conv2 = ConvTranspose2d(width // 4, width // 8, 2, stride=2)
        self.output_hypernetworks_mlps = ModuleList(Head(width, width, width // 8, 3) for _ in range(masks))
        self.iou_prediction_head = Head(width, config.iou_head_hidden_dim, masks, config.iou_head_depth)

    def forward(self, prompts: Tensor, image: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """prompts (B, N, C), image (B, C, side, side), places (1, side², C) → masks (B, M, 4 * side, 4 * side) logits
        and scores (B, M).
        """
        batch, width, rows, columns = image.shape
        own = ops.cat([vectors_of(self.iou_token), vectors_of(self.mask_tokens)])  # (1 + M, C)
        masks = own.shape[0] - 1
        tokens = ops.cat([own.unsqueeze(0).expand(batch, 1 + masks, width), prompts], 1)
        x, image = self.transformer(tokens, image.flatten(2).transpose(1, 2), places)
        image = image.transpose(1, 2).reshape(batch, width, rows, columns)
        image = ops.gelu(over_channels(self.upscale_conv1(image), self.upscale_layer_norm))
        image = ops.gelu(self.upscale_conv2(image))  # (B, C / 8, 4 * rows, 4 * columns)
        filters = [head(x.select(1, 1 + i)) for i, head in enumerate(self.output_hypernetworks_mlps)]
        found = ops.stack(filters, 1) @ image.flatten(2)  # (B, M, pixels)
        return found.reshape(batch, masks, *image.shape[2:]), self.iou_prediction_head(x.select(1, 0))


class Sam(ImageModel):
    """Masks of what points and boxes show. `features` sees a picture once; `masks` is quick."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.shared_image_embedding = PlaceEmbedding(config.vision_config.num_pos_feats)
        self.vision_encoder = SamTower(config.vision_config)
        self.prompt_encoder = PromptEncoder(config.prompt_encoder_config)
        self.mask_decoder = MaskDecoder(config.mask_decoder_config)

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    def features(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, side, side)."""
        return self.vision_encoder(pixel_values)

    def features_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Tensor]:
        """As `features`; yields how many layers are done, and how many there are."""
        return self.vision_encoder.steps(pixel_values)

    def masks(
        self, features: Tensor, points: Tensor | None = None, labels: Tensor | None = None,
        boxes: Tensor | None = None, given: Tensor | None = None, several: bool = True,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Features (B, C, side, side) and P prompts for each picture: points (B, P, N, 2) in pixels x, y with labels
        (B, P, N) integers (1 of the object, 0 not of it, None: all 1), boxes (B, P, 4) left, top, right, bottom, and
        logits `given` (B, 1, 4 * side, 4 * side) → masks (B, P, M, 4 * side, 4 * side) logits, above 0 inside, and the
        score of each (B, P, M). M is 3, the meanings that one point may have, or 1 with several=False.
        """
        self._check(features, points, labels, boxes)
        batch, width, rows, columns = features.shape
        sides = ops.tensor([float(self.pixels[1]), float(self.pixels[0])], device=features.device)
        tokens = []
        if points is not None:
            labels = ops.ones(*points.shape[:3], dtype="int64", device=points.device) if labels is None else labels
            waves = self.shared_image_embedding((points.to("float32") + 0.5) / sides)  # (B, P, N, C)
            tokens.append(self.prompt_encoder.points(waves, labels))
            if boxes is None:
                none = vectors_of(self.prompt_encoder.not_a_point_embed).reshape(1, 1, 1, width)
                tokens.append(none.expand(*points.shape[:2], 1, width))
        if boxes is not None:
            corners = (boxes.to("float32").reshape(*boxes.shape[:2], 2, 2) + 0.5) / sides
            tokens.append(self.prompt_encoder.boxes(self.shared_image_embedding(corners)))
        prompts = ops.cat(tokens, 2)  # (B, P, N', C)
        count = prompts.shape[1]
        if given is None:
            dense = vectors_of(self.prompt_encoder.no_mask_embed).reshape(1, width, 1, 1)
        else:
            dense = self.prompt_encoder.mask_embed(given)
        image = (features + dense).unsqueeze(1).expand(batch, count, width, rows, columns)
        found, scores = self.mask_decoder(
            prompts.flatten(0, 1), image.reshape(batch * count, width, rows, columns), self._places(rows, columns)
        )
        first, last = (1, found.shape[1]) if several else (0, 1)
        found = found[:, first:last].reshape(batch, count, last - first, *found.shape[2:])
        return found, scores[:, first:last].reshape(batch, count, last - first)

    def forward(
        self, pixel_values: Tensor, points: Tensor | None = None, labels: Tensor | None = None,
        boxes: Tensor | None = None, several: bool = True,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """pixel_values (B, 3, H, W) and prompts → masks and scores, as `masks`."""
        return self.masks(self.features(pixel_values), points, labels, boxes, several=several)

    def _places(self, rows: int, columns: int) -> Tensor:
        """The waves of the places of the map (1, rows * columns, C)."""
        device = self.device
        y = ((ops.arange(rows, dtype="float32", device=device) + 0.5) / rows).reshape(rows, 1).expand(rows, columns)
        x = (ops.arange(columns, dtype="float32", device=device) + 0.5) / columns
        places = ops.stack([x.reshape(1, columns).expand(rows, columns), y], 2)  # (rows, columns, 2)
        return self.shared_image_embedding(places.reshape(1, rows * columns, 2))

    def _check(self, features: Tensor, points: Tensor | None, labels: Tensor | None, boxes: Tensor | None) -> None:
        if points is None and boxes is None:
            raise ArgumentError("SAM: give points or boxes")
        batch = features.shape[0]
        shapes = (("points", points, 4, 2), ("boxes", boxes, 3, 4))
        for name, given, ndim, last in shapes:
            if given is not None and (given.ndim != ndim or given.shape[0] != batch or given.shape[-1] != last):
                wanted = "(B, P, N, 2)" if name == "points" else "(B, P, 4)"
                raise ArgumentError(f"SAM: {name} are {wanted} with {batch} for B, not {describe(given)}")
        if labels is not None and (points is None or labels.shape != points.shape[:3]):
            raise ArgumentError(f"SAM: labels are (B, P, N), as many as points, not {describe(labels)}")
        if points is not None and boxes is not None and points.shape[1] != boxes.shape[1]:
            raise ArgumentError(f"SAM: points are for {points.shape[1]} prompts, boxes for {boxes.shape[1]}")


TASKS: Mapping[str, Callable[[Config], Module]] = {"mask-generation": Sam}
