"""Qwen2-VL (Wang et al. 2024, arXiv 2409.12191), Qwen2.5-VL (Bai et al. 2025, arXiv 2502.13923), Qwen3-VL (Bai et
al. 2025, arXiv 2511.21631) and Qwen3.5 (Qwen Team 2026): a tower for pictures of any size, whose patches have rotary
positions of rows and columns, before Qwen2, Qwen3, Qwen3 with experts or Qwen3.5's language model, whose text has them
too.

Qwen2.5's tower has RMS norms, gated layers and, in most layers, attention within windows. Qwen3's has learned positions
too, and what some of its layers see is added after the first layers of the text (Meng et al. 2024, arXiv 2406.04334);
in Qwen3.5 nothing is added.

EXAONE 4.5 (LG AI Research 2026) has Qwen2.5's tower with fewer heads of keys and values, before EXAONE 4, whose text
has plain positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import GELU, LayerNorm, Linear, Module, ModuleList, RMSNorm, Sequential
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.grid_tower import THETA, FramePatches, GridBlock, grid_angles
from pyapp.nn.vision.vision import ImageModel, squares
from pyapp.nn.vision_language.picture_text import GridPictures
from pyapp.nn.vision_language.videos import Watching
from pyapp.vision.processors.patches import as_videos

from .loading import picture_text
from .loading.config import FileConfig, read_config, require
from .loading.picture_text import GridConfig
from .loading.stored import Stored
from .loading.stored_experts import experts_apart, experts_transposed

MODEL_TYPES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "exaone4_5")
IGNORED = r"(model\.)?mtp.*"  # what guesses several tokens at once
IMAGE_PROCESSOR = "Qwen2VL"  # of files that name none
EPSILON = 1e-6
PARTS = ("text_config", "vision_config", "model_type", "architectures")
TEXTS = {  # by the language model: its names in text_config, and what that leaves out
    "qwen2": (("qwen2", "qwen2_vl_text", "qwen2_5_vl_text"), {"rms_norm_eps": 1e-5}),
    "qwen3": (
        ("qwen3", "qwen3_vl_text"),
        {
            "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 128_000,
            "rope_theta": 500_000.0,
        },
    ),
    "qwen3_moe": (
        ("qwen3_moe", "qwen3_vl_moe_text"),
        {
            "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
            "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 128_000,
            "rope_theta": 500_000.0, "moe_intermediate_size": 1408, "num_experts_per_tok": 4, "num_experts": 60,
        },
    ),
    "qwen3_5_text": (("qwen3_5", "qwen3_5_text"), {}),
    "qwen3_5_moe_text": (("qwen3_5_moe", "qwen3_5_moe_text"), {}),
    "exaone4": (("exaone4", "exaone4_5_text"), {}),
}  # fmt: skip
SECTIONS = {
    "qwen2": (16, 24, 24), "qwen3": (24, 20, 20), "qwen3_moe": (24, 20, 20), "qwen3_5_text": (11, 11, 10),
    "qwen3_5_moe_text": (11, 11, 10),
}  # fmt: skip
OWN_TEXTS = {
    "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
    "exaone4_5": "exaone4",
}  # fmt: skip
renamed = picture_text.renamed


@dataclass(frozen=True, kw_only=True)
class TowerConfig(FileConfig):
    """The fields of vision_config."""

    model_type = "qwen2_vl_vision"
    gated = False
    layer_names = ("fc1", "fc2")  # of a feed-forward part

    depth: int = 32
    embed_dim: int = 1280
    hidden_size: int = 3584
    hidden_act: str = "quick_gelu"
    mlp_ratio: float = 4
    num_heads: int = 16
    in_channels: int = 3
    patch_size: int = 14
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        width, heads = self.width, self.num_heads
        require(
            width <= 1 << 16 and width % heads == 0 and width // heads % 4 == 0,
            f"num_heads {heads} do not divide the tower's width {width:,} into heads of a multiple of 4",
        )
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")
        require(self.depth <= 1 << 10, f"a tower of {self.depth:,} layers")
        require(self.inner <= 1 << 20 and self.out_size <= 1 << 17, "the tower's layers are too wide")
        require(max(self.patch_size, self.spatial_merge_size) <= 256, f"patch_size is {self.patch_size:,}")
        require(
            self.in_channels == 3 and self.temporal_patch_size <= 16, "pictures have 3 channels, patches few frames"
        )

    @property
    def width(self) -> int:
        """The columns of a patch's vector."""
        return self.embed_dim

    @property
    def out_size(self) -> int:
        """The columns of a vector in the text."""
        return self.hidden_size

    @property
    def inner(self) -> int:
        """The columns within a feed-forward part."""
        return int(self.embed_dim * self.mlp_ratio)

    @property
    def window(self) -> int | None:
        """The rows, and columns, of patches of a window; None: attention is to all patches."""
        return None

    @property
    def whole(self) -> tuple[int, ...]:
        """The layers whose attention is to all patches, where there are windows."""
        return ()

    @property
    def rate(self) -> float | None:
        """The rotary positions of a second of a video; None: one for each few frames."""
        return None

    @property
    def learned(self) -> int:
        """The rows, and columns, of learned positions; 0: there are none."""
        return 0

    @property
    def deepstack(self) -> tuple[int, ...]:
        """The layers after which a vector more is made, for the output of the text's first layer, second …"""
        return ()

    @property
    def kv_heads(self) -> int:
        """The heads of keys and values."""
        return self.num_heads


@dataclass(frozen=True, kw_only=True)
class SizedTowerConfig(TowerConfig):
    """The fields of vision_config of newer models: hidden_size is that of the tower."""

    intermediate_size: int = 3420
    out_hidden_size: int = 3584

    @property
    def width(self) -> int:
        return self.hidden_size

    @property
    def out_size(self) -> int:
        return self.out_hidden_size

    @property
    def inner(self) -> int:
        return self.intermediate_size


@dataclass(frozen=True, kw_only=True)
class GatedTowerConfig(SizedTowerConfig):
    """The fields of vision_config of Qwen2.5-VL."""

    model_type = "qwen2_5_vl_vision"
    gated = True

    hidden_act: str = "silu"
    window_size: int = 112
    tokens_per_second: float = 4.0
    fullatt_block_indexes: list[int]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TowerConfig:
        return read_config(cls, {"fullatt_block_indexes": [7, 15, 23, 31], **values})

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = self.fullatt_block_indexes
        require(all(type(layer) is int for layer in whole), f"fullatt_block_indexes is {whole!r:.60}")
        require(bool(self.window), f"window_size {self.window_size} is smaller than a vector's patches")
        require(0 < self.tokens_per_second <= 1 << 10, f"tokens_per_second is {self.tokens_per_second}")

    @property
    def rate(self) -> float | None:
        return self.tokens_per_second

    @property
    def window(self) -> int | None:
        return self.window_size // self.spatial_merge_size // self.patch_size * self.spatial_merge_size

    @property
    def whole(self) -> tuple[int, ...]:
        return tuple(self.fullatt_block_indexes)


@dataclass(frozen=True, kw_only=True)
class GroupedTowerConfig(GatedTowerConfig):
    """The fields of vision_config of EXAONE 4.5. Its videos have no times."""

    model_type = "exaone4_5_vision"

    num_key_value_heads: int = 8
    hidden_size: int = 3584
    num_heads: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, groups = self.num_heads, self.num_key_value_heads
        require(heads % groups == 0, f"num_key_value_heads {groups} do not divide the tower's {heads} heads")

    @property
    def rate(self) -> float | None:
        return None

    @property
    def kv_heads(self) -> int:
        return self.num_key_value_heads


@dataclass(frozen=True, kw_only=True)
class DeepTowerConfig(SizedTowerConfig):
    """The fields of vision_config of Qwen3-VL."""

    model_type = "qwen3_vl_vision"
    layer_names = ("linear_fc1", "linear_fc2")

    depth: int = 27
    hidden_size: int = 1152
    hidden_act: str = "gelu_pytorch_tanh"
    intermediate_size: int = 4304
    patch_size: int = 16
    num_position_embeddings: int = 2304
    deepstack_visual_indexes: list[int]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TowerConfig:
        rotary = values.get("rope_parameters") or {}
        plausible = isinstance(rotary, dict) and rotary.get("rope_theta", THETA) == THETA
        require(plausible, f"rope_parameters of vision_config is {rotary!r:.60}, expected rope_theta {THETA:g}")
        return read_config(cls, {"deepstack_visual_indexes": [8, 16, 24], **values})

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, given, count = self.depth, self.deepstack_visual_indexes, self.num_position_embeddings
        plausible = all(type(layer) is int and 0 <= layer < layers for layer in given) and len({*given}) == len(given)
        require(plausible, f"deepstack_visual_indexes is {given!r:.60}, expected layers of the tower's {layers}")
        square = count <= 1 << 20 and isqrt(count) ** 2 == count
        require(square, f"num_position_embeddings is {count:,}, expected a square up to {1 << 20:,}")

    @property
    def learned(self) -> int:
        return isqrt(self.num_position_embeddings)

    @property
    def deepstack(self) -> tuple[int, ...]:
        return tuple(self.deepstack_visual_indexes)


@dataclass(frozen=True, kw_only=True)
class PlainDeepTowerConfig(DeepTowerConfig):
    """The fields of vision_config of Qwen3.5, whose text sees only what the last layer does."""

    model_type = "qwen3_5_vision"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TowerConfig:
        return super().from_dict({**values, "deepstack_visual_indexes": []})


@dataclass(frozen=True)
class Config(GridConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "qwen2_vl"
    text = "qwen2"
    tower = "qwen2_vl"
    token = ("image_token_id", 151655)
    towers = {
        **dict.fromkeys(("qwen2_vl", "qwen2_vl_vision"), TowerConfig),
        **dict.fromkeys(("qwen2_5_vl", "qwen2_5_vl_vision"), GatedTowerConfig),
        **dict.fromkeys(("qwen3_vl", "qwen3_vl_vision", "qwen3_vl_moe", "qwen3_vl_moe_vision"), DeepTowerConfig),
        **dict.fromkeys(("qwen3_5", "qwen3_5_vision", "qwen3_5_moe", "qwen3_5_moe_vision"), PlainDeepTowerConfig),
        **dict.fromkeys(("exaone4_5", "exaone4_5_vision"), GroupedTowerConfig),
    }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; older ones have the fields of the text in it."""
        text, vision = values.get("text_config"), values.get("vision_config")
        given = values.get("model_type")
        own = OWN_TEXTS.get(given, cls.text) if isinstance(given, str) else cls.text
        names, defaults = TEXTS[own]
        kind = text.get("model_type", own) if isinstance(text, dict) else own
        require(kind in names, f"the language model {kind!r:.50} in text_config is not known")
        text = {name: value for name, value in values.items() if name not in PARTS} if text is None else text
        if isinstance(text, dict):
            text = picture_text.without_mrope({**defaults, **text, "model_type": own})
            text |= {"norm_topk_prob": True} if own == "qwen3_moe" else {}  # files do not say it
        if isinstance(vision, dict):
            vision = {"model_type": values.get("model_type", cls.tower), **vision}
        return super().from_dict({**values, "text_config": text, "vision_config": vision})

    def check(self) -> None:
        self.check_token()
        width, made = self.text_config.hidden_size, self.vision_config.out_size
        require(made == width, f"the tower makes vectors of {made} numbers, the text has {width}")
        layers, deep = self.text_config.num_hidden_layers, len(self.vision_config.deepstack)
        require(deep <= layers, f"deepstack_visual_indexes has {deep} layers, the text only {layers}")
        if self.text_kind in SECTIONS:
            self.check_sections()

    @property
    def text_kind(self) -> str:
        """The model_type of the language model."""
        return str(self.text_config.to_dict()["model_type"])

    @property
    def usual_sections(self) -> tuple[int, ...]:
        return SECTIONS[self.text_kind]

    @property
    def sections(self) -> tuple[int, ...]:
        """Those of GridRotation. Qwen3's pairs turn by time, row, column, time …, and the last by time."""
        if self.text_kind not in SECTIONS:  # the text has plain positions
            return ()
        given = super().sections
        if self.text_kind == "qwen2":
            return given
        found = [0]
        for pair in range(sum(given)):
            axis = pair % 3 if pair < 3 * given[pair % 3] else 0
            while (len(found) - 1) % 3 != axis:
                found.append(0)
            found[-1] += 1
        return tuple(found)


def block(config: TowerConfig, layer: int) -> GridBlock:
    """A layer of the tower."""
    norm: Any = RMSNorm if config.gated else LayerNorm
    mlp: Module = (
        GatedFeedForward(config.width, config.inner, config.hidden_act, True) if config.gated
        else FeedForward(config.width, config.inner, config.hidden_act, names=config.layer_names)
    )  # fmt: skip
    window = None if layer in config.whole else config.window
    return GridBlock(
        config.width, config.num_heads, lambda: norm(config.width, EPSILON), mlp, window, kv_heads=config.kv_heads
    )


class Merger(Module):
    """One vector of the text's size of each square of neighbouring patches."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.side = config.spatial_merge_size
        norm: Any = RMSNorm if config.gated else LayerNorm
        self.ln_q = norm(config.width, EPSILON)
        width = config.width * self.side**2
        self.mlp = Sequential(Linear(width, width), GELU(), Linear(width, config.out_size))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, rows, columns, D) → (B, rows * columns / side², out_size)."""
        found: Tensor = self.mlp(squares(self.ln_q(x), self.side))
        return found


class DeepMerger(Module):
    """As Merger, of Qwen3-VL. whole: the norm is of all of a square's numbers, not of each patch's."""

    def __init__(self, config: TowerConfig, whole: bool) -> None:
        super().__init__()
        self.side, self.whole = config.spatial_merge_size, whole
        width = config.width * self.side**2
        self.norm = LayerNorm(width if whole else config.width, EPSILON)
        self.linear_fc1, self.linear_fc2 = Linear(width, width), Linear(width, config.out_size)
        self.activation = GELU()

    def forward(self, x: Tensor) -> Tensor:
        """x (B, rows, columns, D) → (B, rows * columns / side², out_size)."""
        x = self.norm(squares(x, self.side)) if self.whole else squares(self.norm(x), self.side)
        return self.linear_fc2(self.activation(self.linear_fc1(x)))


class Tower(ImageModel):
    """The Vision Transformer."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = FramePatches(
            config.in_channels, config.width, config.patch_size, config.temporal_patch_size, bias=config.learned > 0
        )
        self.blocks = ModuleList(block(config, layer) for layer in range(config.depth))
        self.merger: Any = DeepMerger(config, whole=False) if config.learned else Merger(config)
        self.pos_embed = Module()
        if config.learned:
            self.pos_embed.weight = new_parameter(ops.zeros, config.learned**2, config.width)
        self.deepstack_merger_list = ModuleList(DeepMerger(config, whole=True) for _ in config.deepstack)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the vectors (B, T, out_size) of pictures; beside each, in the columns after it,
        those for the outputs of the text's first layers, where there are such.
        """
        x = self.patch_embed(pixel_values)  # (B, rows, columns, width)
        if self.config.learned:
            x = x + self._learned(x.shape[1], x.shape[2])
        table = grid_angles(x, self.config.num_heads)
        deep = []  # (B, T, out_size) each
        for layer, one in enumerate(self.blocks):
            x = one(x, table)
            if layer in self.config.deepstack:
                deep.append(self.deepstack_merger_list[self.config.deepstack.index(layer)](x))
        own: Tensor = self.merger(x)
        return ops.cat([own, *deep], -1) if deep else own

    def _learned(self, rows: int, columns: int) -> Tensor:
        """The learned positions (1, rows, columns, width), which the patches' corners share."""
        side, weight = self.config.learned, self.pos_embed.weight  # (side², width)
        table = weight.reshape(1, side, side, -1).permute(0, 3, 1, 2)  # (1, width, side, side)
        found = ops.interpolate(table, size=(rows, columns), mode="bilinear", align_corners=True)
        return found.permute(0, 2, 3, 1)


class Qwen2VLForConditionalGeneration(GridPictures):
    """Pictures and text to text."""

    placeholder = part = "<|image_pad|>"
    around = ("<|vision_start|>", "<|vision_end|>")
    name = "Qwen-VL"
    tower_class = Tower

    @property
    def watcher(self) -> Watching:
        """What of the model sees videos. Qwen3-VL reads their times."""
        config = self.config.vision_config
        told = bool(config.learned)
        return Watching(
            "<|video_pad|>", "<|video_pad|>", self.around, config.temporal_patch_size, config.rate, told,
            as_videos if told else lambda found: found,
        )  # fmt: skip


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the stacks of experts: as the model has them; those of Qwen3-VL also each matrix transposed, as
    published ones do, those of Qwen3.5 also each matrix by itself.
    """
    if config.text_kind == "qwen3_5_moe_text":
        text, parts = config.text_config, ("gate_proj", "up_proj", "down_proj")
        named, root = {renamed(name): info for name, info in tensors.items()}, "language_model.model.layers"
        return experts_apart(named, "mlp.experts", parts, text.num_experts, text.num_hidden_layers, root=root)
    if config.text_kind != "qwen3_moe":
        return {}
    shapes = {renamed(name): info.shape for name, info in tensors.items()}
    text, place = config.text_config, "language_model.model.layers.{}.mlp.experts"
    return experts_transposed(
        shapes, place, range(text.num_hidden_layers), text.hidden_size, text.moe_intermediate_size
    )


TASKS: Mapping[str, Any] = {picture_text.TASK: Qwen2VLForConditionalGeneration}
