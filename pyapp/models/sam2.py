"""Segment Anything 2 for pictures (Ravi et al. 2024, arXiv 2408.00714): a Hiera (Ryali et al. 2023, arXiv 2306.00989)
sees a picture once, in maps of several sizes, and a small decoder cuts out what points or boxes show.

With a memory (nn/vision/mask_memory.py) it follows what it has cut out through a video.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from itertools import accumulate
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.mask_memory import RememberingMasks
from pyapp.nn.vision.segment_anything import (
    Form,
    Head,
    MaskDecoder,
    PlaceEmbedding,
    PromptedMasks,
    PromptEncoder,
    last_of,
    vectors_of,
)
from pyapp.nn.vision.vision import check_pictures
from pyapp.nn.vision.windows import in_windows, out_of_windows

from .loading.config import check_fields, optional_object, read_config, require
from .loading.masks_config import MaskConfig, PromptConfig
from .loading.memory_config import MemoryConfig
from .loading.pictures_config import DEEPEST, PATCHES, WIDEST, check_numbers, pair

MODEL_TYPES = ("sam2", "sam2_video")
IMAGE_PROCESSOR = "Sam2"  # of files that name none
BASE = ""
IGNORED = (
    r"(memory_|mask_downsample|object_pointer_proj|temporal_positional_encoding_projection_layer|"
    r"no_memory_positional_encoding|no_object_pointer|occlusion_spatial_embedding_parameter).*"  # of videos alone
)
EPSILON = 1e-5  # of the decoder's layers
LEVELS = 3  # maps that the decoder reads
SIDES = ("patch_kernel_size", "patch_stride", "patch_padding", "window_positional_embedding_background_size")


@dataclass(frozen=True, kw_only=True)
class BackboneConfig:
    """The fields of vision_config.backbone_config."""

    hidden_size: int = 96
    num_channels: int = 3
    image_size: tuple[int, int] = (1024, 1024)
    patch_kernel_size: tuple[int, int] = (7, 7)
    patch_stride: tuple[int, int] = (4, 4)
    patch_padding: tuple[int, int] = (3, 3)
    window_positional_embedding_background_size: tuple[int, int] = (7, 7)
    num_query_pool_stages: int = 3
    blocks_per_stage: tuple[int, ...] = (1, 2, 7, 2)
    embed_dim_per_stage: tuple[int, ...] = (96, 192, 384, 768)
    num_attention_heads_per_stage: tuple[int, ...] = (1, 2, 4, 8)
    window_size_per_stage: tuple[int, ...] = (8, 4, 14, 7)
    global_attention_blocks: tuple[int, ...] = (5, 7, 9)
    mlp_ratio: float = 4.0
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        check_fields(self)
        check_numbers("blocks_per_stage", self.blocks_per_stage, DEEPEST)
        stages = len(self.blocks_per_stage)
        for name, most, least in (
            ("embed_dim_per_stage", WIDEST, 1), ("num_attention_heads_per_stage", 1 << 12, 1),
            ("window_size_per_stage", 256, 0),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, least, stages)
        check_numbers("global_attention_blocks", (*self.global_attention_blocks, 0), 1 << 12, 0)
        require(self.num_channels <= 1 << 10, f"num_channels is {self.num_channels:,}, expected at most 1,024")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")
        require(
            stages == LEVELS + 1 == self.num_query_pool_stages + 1,
            f"{stages} stages, {self.num_query_pool_stages} of them with fewer places, are not supported: only "
            f"{LEVELS + 1} and {LEVELS}",
        )
        require(
            self.hidden_size == self.embed_dim_per_stage[0] and len({*self.embed_dim_per_stage}) == stages,
            f"embed_dim_per_stage is {self.embed_dim_per_stage}, expected another width for each stage, from "
            f"{self.hidden_size}",
        )
        for width, heads in zip(self.embed_dim_per_stage, self.num_attention_heads_per_stage, strict=True):
            require(width % heads == 0, f"num_attention_heads_per_stage: {heads} do not divide {width} channels")
        windows = self.window_size_per_stage
        require(not any(n % 2 for n in windows[:LEVELS]), f"window_size_per_stage is {windows}, of odd windows")
        rows, columns = self.grid
        require(rows * columns <= PATCHES, f"{rows:,} x {columns:,} patches are too many")
        fits = all(n > 0 and n % (1 << LEVELS) == 0 and (not windows[0] or n % windows[0] == 0) for n in self.grid)
        require(fits, f"image_size is {self.image_size}, which gives {rows} x {columns} patches: they fit no windows")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BackboneConfig:
        """From an object. ModelError for a network of another kind."""
        stride = values.get("query_stride", [2, 2])
        require(stride in (2, None, [2, 2], (2, 2)), f"query_stride {stride!r:.60} is not supported, only [2, 2]")
        sides = {name: pair(values, name, getattr(cls, name)) for name in (*SIDES, "image_size")}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list) and name not in sides}
        return read_config(cls, {**values, **lists, **sides})

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of places before the first stage."""
        high, wide = (
            (side + 2 * padding - kernel) // stride + 1
            for side, padding, kernel, stride in zip(
                self.image_size, self.patch_padding, self.patch_kernel_size, self.patch_stride, strict=True
            )
        )
        return high, wide


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """The fields of vision_config."""

    fpn_hidden_size: int = 256
    fpn_top_down_levels: tuple[int, ...] = (2, 3)
    num_feature_levels: int = LEVELS
    fpn_kernel_size: int = 1
    fpn_stride: int = 1
    fpn_padding: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_numbers("fpn_top_down_levels", (*self.fpn_top_down_levels, 0), LEVELS, 0)
        require(self.num_feature_levels == LEVELS, f"num_feature_levels is {self.num_feature_levels}, not {LEVELS}")
        kernel = self.fpn_kernel_size, self.fpn_stride, self.fpn_padding
        require(kernel == (1, 1, 0), f"filters of the kernel, stride and padding {kernel} are not supported")


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(MaskConfig):
    """The fields of mask_decoder_config."""

    hidden_act: str = "gelu"
    dynamic_multimask_via_stability: bool = True
    dynamic_multimask_stability_delta: float = 0.05
    dynamic_multimask_stability_thresh: float = 0.98


@dataclass(frozen=True)
class Config:
    """The configurations of the parts, and `values`, the whole object of the config.json."""

    backbone_config: BackboneConfig
    vision_config: VisionConfig
    prompt_encoder_config: PromptConfig
    mask_decoder_config: DecoderConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored. ModelError for parts that do not fit together."""

        vision = optional_object(values, "vision_config")
        levels = vision.get("fpn_top_down_levels")
        given = {**vision, **({"fpn_top_down_levels": tuple(levels)} if isinstance(levels, list) else {})}
        backbone = BackboneConfig.from_dict(optional_object(vision, "backbone_config"))
        neck = read_config(VisionConfig, given)
        own = optional_object(values, "prompt_encoder_config")
        sides = {name: pair(own, name, usual)[0] for name, usual in (("image_size", 1024), ("patch_size", 16))}
        prompt = read_config(PromptConfig, {**own, **sides})
        mask = read_config(DecoderConfig, optional_object(values, "mask_decoder_config"))
        widths = {neck.fpn_hidden_size, prompt.hidden_size, mask.hidden_size}
        require(len(widths) == 1, f"the parts have several widths: {', '.join(map(str, sorted(widths)))}")
        channels = vision.get("backbone_channel_list")
        wanted = [*backbone.embed_dim_per_stage[::-1]]
        require(channels in (None, wanted), f"backbone_channel_list is {channels!r:.60}, the stages have {wanted}")
        side = prompt.image_size
        require(
            backbone.image_size == (side, side),
            f"image_size is {side} in prompt_encoder_config and {backbone.image_size} in vision_config",
        )
        return cls(backbone, neck, prompt, mask, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": MODEL_TYPES[0], **self.values}

    @property
    def num_channels(self) -> int:
        """The channels of pictures."""
        return self.backbone_config.num_channels


def largest_of_four(x: Tensor) -> Tensor:
    """x (B, H, W, ...) → (B, H / 2, W / 2, ...): the largest values of four neighbours. Lines, then columns: each step
    reduces one dim of three, which kernels of every device do.
    """
    batch, high, wide, *rest = x.shape
    x = x.reshape(batch * high // 2, 2, -1).amax(1)  # (B * H / 2, W * ...)
    return x.reshape(batch * high * wide // 4, 2, -1).amax(1).reshape(batch, high // 2, wide // 2, *rest)


class Attention(Module):
    """Attention of all places of a window; `pools`: of four queries the largest values are one."""

    def __init__(self, before: int, width: int, heads: int, pools: bool) -> None:
        super().__init__()
        self.heads, self.pools = heads, pools
        self.qkv = Linear(before, 3 * width)
        self.proj = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, H, W, D) → (B, H', W', width), whose sides are the same or half of them."""
        batch, high, wide, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, high * wide, 3, self.heads, -1).unbind(2)  # (B, H * W, heads, d)
        if self.pools:
            q = largest_of_four(q.reshape(batch, high, wide, *q.shape[2:])).reshape(batch, -1, *q.shape[2:])
            high, wide = high // 2, wide // 2
        return self.proj(attend(q, k, v, None)).reshape(batch, high, wide, -1)


class Block(Module):
    """Attention within windows (0: of all places), and a feed-forward part. A stage's first has more channels, and
    leaves a fourth of the places.
    """

    def __init__(self, config: BackboneConfig, before: int, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.layer_norm1 = LayerNorm(before, config.layer_norm_eps)
        self.attn = Attention(before, width, heads, before != width)
        self.layer_norm2 = LayerNorm(width, config.layer_norm_eps)
        self.mlp = Head(width, int(width * config.mlp_ratio), width, 2, config.hidden_act)
        self.proj = Linear(before, width) if before != width else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, H, W, D) → (B, H', W', width)."""
        y, window = self.layer_norm1(x), self.window
        if self.proj is not None:
            x = largest_of_four(self.proj(y))  # (B, H / 2, W / 2, width)
        if not window:
            y = self.attn(y)
        else:
            below, right = -y.shape[1] % window, -y.shape[2] % window
            y = in_windows(ops.pad(y, [0, 0, 0, right, 0, below]) if below or right else y, window)
            parts = y.shape[:3]  # pictures, and the rows and columns of windows
            y = self.attn(y.reshape(-1, window, window, y.shape[4]))
            y = out_of_windows(y.reshape(*parts, y.shape[1] * y.shape[2], y.shape[3]), y.shape[1])
        x = x + y[:, : x.shape[1], : x.shape[2]]
        return x + self.mlp(self.layer_norm2(x))


class Backbone(Module):
    """The network that sees the picture."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config, width = config, config.hidden_size
        self.patch_embed = Module()
        self.patch_embed.projection = Conv2d(
            config.num_channels, width, config.patch_kernel_size, config.patch_stride, config.patch_padding
        )
        windows, side = config.window_size_per_stage, config.window_positional_embedding_background_size
        self.pos_embed = new_parameter(ops.zeros, 1, width, *side)
        self.pos_embed_window = new_parameter(ops.zeros, 1, width, windows[0], windows[0])
        self.blocks, self.ends = ModuleList(), [end - 1 for end in accumulate(config.blocks_per_stage)]
        for stage, depth in enumerate(config.blocks_per_stage):
            for i in range(depth):
                # The first block of a stage still attends as the stage before it, over its places.
                earlier = stage - 1 if i == 0 and stage else stage
                own = 0 if len(self.blocks) in config.global_attention_blocks else windows[earlier]
                heads, (before, after) = config.num_attention_heads_per_stage[stage], (earlier, stage)
                widths = config.embed_dim_per_stage
                self.blocks.append(Block(config, widths[before], widths[after], heads, own))

    def steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, list[Tensor]]:
        """pixel_values (B, 3, H, W) → the map (B, H', W', D) of each stage; yields how many blocks are done, and how
        many there are.
        """
        check_pictures("SAM 2", pixel_values, self.config.num_channels, self.config.image_size)
        x = self.patch_embed.projection(pixel_values)  # (B, D, rows, columns)
        rows, columns = x.shape[2:]
        whole = ops.interpolate(self.pos_embed, size=(rows, columns), mode="bicubic", align_corners=False)
        side = self.pos_embed_window.shape[2]
        places = whole + self.pos_embed_window.repeat(1, 1, rows // side, columns // side)
        found: list[Tensor] = []
        x = (x + places).permute(0, 2, 3, 1)  # (B, rows, columns, D)
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self.ends:
                found.append(x)
            yield i + 1, len(self.blocks)
        return found


class Neck(Module):
    """The maps of the stages in the same number of channels; coarser ones are added to finer ones."""

    def __init__(self, config: VisionConfig, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.added = config.fpn_top_down_levels
        self.convs = ModuleList(Conv2d(width, config.fpn_hidden_size, 1) for width in reversed(widths))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """maps (B, H, W, D) of the stages → those (B, C, H, W) of the last three, the coarsest first."""
        found: list[Tensor] = []
        last = len(maps) - 1
        for level, conv in zip(range(last, -1, -1), self.convs, strict=True):
            x = conv(maps[level].permute(0, 3, 1, 2))
            if level in self.added and level != last:
                x = x + ops.interpolate(found[-1], size=x.shape[2:], mode="nearest")
            found.append(x)
        return found[-LEVELS:]


class Decoder(MaskDecoder):
    """As MaskDecoder, with a token that says whether there is an object, and with finer maps. Where the mask of a
    prompt with one meaning is unstable, the best of the others takes its place.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__(config, Form(config.attention_downsample_rate, "o_proj", config.num_hidden_layers, EPSILON))
        width = config.hidden_size
        self.conv_s0 = Conv2d(width, width // 8, 1)
        self.conv_s1 = Conv2d(width, width // 4, 1)
        self.obj_score_token = Embedding(1, width)
        self.pred_obj_score_head = Head(width, width, 1, 3)

    first_mask = 2  # the number of the token of the first mask

    def own_tokens(self) -> list[Tensor]:
        return [vectors_of(self.obj_score_token), *super().own_tokens()]

    def scores(self, x: Tensor) -> Tensor:
        return super().scores(x).sigmoid()


class Sam2(PromptedMasks):
    """Masks of what points and boxes show. `features` sees a picture once; `masks` is quick."""

    boxes_end = True

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.vision_config.fpn_hidden_size
        self.shared_image_embedding = PlaceEmbedding(width // 2)
        self.vision_encoder = Module()
        self.vision_encoder.backbone = Backbone(config.backbone_config)
        self.vision_encoder.neck = Neck(config.vision_config, config.backbone_config.embed_dim_per_stage)
        self.prompt_encoder = PromptEncoder(config.prompt_encoder_config, tables=False)
        self.prompt_encoder.shared_embedding = PlaceEmbedding(width // 2)
        self.mask_decoder = Decoder(config.mask_decoder_config)
        self.no_memory_embedding = new_parameter(ops.zeros, 1, 1, width)

    @property
    def pixels(self) -> tuple[int, int]:
        return self.config.backbone_config.image_size

    def seen_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, list[Tensor]]:
        """The maps (B, C, H, W), (B, C / 4, 2 * H, 2 * W) and (B, C / 8, 4 * H, 4 * W), before any memory."""
        maps = yield from self.vision_encoder.backbone.steps(pixel_values)
        coarse, middle, fine = self.vision_encoder.neck(maps)
        decoder: Any = self.mask_decoder
        return [coarse, decoder.conv_s1(middle), decoder.conv_s0(fine)]

    def features_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, list[Tensor]]:
        """The maps of seen_in_steps; the first one says that there is no memory."""
        seen = yield from self.seen_in_steps(pixel_values)
        return [self.plain(seen[0]), *seen[1:]]

    def plain(self, seen: Tensor) -> Tensor:
        """A map (B, C, H, W) without memory."""
        return seen + self.no_memory_embedding.reshape(1, -1, 1, 1)

    def maps(self, features: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        return features[0], features[1:]

    def waves(self, places: Tensor) -> Tensor:
        found: Tensor = self.prompt_encoder.shared_embedding(places)
        return found

    def single(self, masks: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config.mask_decoder_config
        own, score = super().single(masks, scores)
        if not config.dynamic_multimask_via_stability:
            return own, score
        best = scores[:, 1:].argmax(1, keepdim=True)  # (B, 1)
        others = masks[:, 1:].gather(1, best.reshape(-1, 1, 1, 1).expand(-1, 1, *masks.shape[2:]))
        inside, around = (
            (own > edge).to("float32").sum((2, 3))
            for edge in (
                config.dynamic_multimask_stability_delta,
                -config.dynamic_multimask_stability_delta,
            )
        )  # (B, 1) each
        stable = ops.where(around > 0, inside / around.clamp(1), 1.0) >= config.dynamic_multimask_stability_thresh
        return (
            ops.where(stable.reshape(-1, 1, 1, 1), own, others),
            ops.where(stable, score, scores[:, 1:].gather(1, best)),
        )


class Sam2Tracker(Sam2, RememberingMasks):
    """Masks of what points and boxes show in one frame of a video, in all its frames."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        width, (side, _) = config.vision_config.fpn_hidden_size, config.backbone_config.image_size
        self.add_memory(MemoryConfig.from_dict(config.values, width, side))

    def seen(self, pixel_values: Tensor) -> list[Tensor]:
        """What the model sees of a frame (1, 3, H, W): the maps of seen_in_steps."""
        found: list[Tensor] = last_of(self.seen_in_steps(pixel_values))
        return found


TASKS: Mapping[str, Callable[[Config], Module]] = {"mask-generation": Sam2, "mask-tracking": Sam2Tracker}
