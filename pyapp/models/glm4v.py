"""GLM-4.1V, GLM-4.5V and GLM-4.6V (GLM-V Team 2025, arXiv 2507.01006): a tower for pictures of any size, whose patches
have positions of rows and columns twice, learned and rotary, and a filter that makes one vector of each square of
patches, before GLM-4 or GLM-4.5 with the rotary positions of Qwen2-VL. And GLM-OCR (zai-org/GLM-OCR), a small one for
pages, whose tower has norms of queries and keys and no learned positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import GELU, Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.vision.grid_tower import THETA, FramePatches, GridBlock, grid_angles
from pyapp.nn.vision.towers import first_rows
from pyapp.nn.vision.vision import ImageModel, as_sequence
from pyapp.nn.vision_language.picture_text import GridPictures

from .loading import picture_text
from .loading.config import FileConfig, read_config, require
from .loading.picture_text import GridConfig
from .loading.pictures_config import pair
from .loading.stored import Stored
from .loading.stored_experts import experts_apart

MODEL_TYPES = ("glm4v", "glm4v_moe", "glm46v", "glm_ocr")
IMAGE_PROCESSOR = "Glm4v"  # of files that name none
IGNORED = r"(model\.)?language_model\.layers\.(16|46|92)\..*"  # the layers that guess tokens ahead
# By the model: the language model, its names in text_config, and what that leaves out.
TEXTS: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, Any]]] = {
    "glm4v": (
        "glm4",
        ("glm4", "glm4v_text"),
        {
            "vocab_size": 151_552, "hidden_size": 4096, "intermediate_size": 13_696, "num_hidden_layers": 40,
            "num_attention_heads": 32, "num_key_value_heads": 2, "max_position_embeddings": 32_768,
            "rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0,
        },
    ),
    "glm4v_moe": (
        "glm4_moe",
        ("glm4_moe", "glm4v_moe_text"),
        {
            "vocab_size": 151_424, "hidden_size": 4096, "intermediate_size": 10_944, "num_hidden_layers": 46,
            "num_attention_heads": 96, "num_key_value_heads": 8, "max_position_embeddings": 65_536,
            "attention_bias": True, "moe_intermediate_size": 1408,
        },
    ),
    "glm_ocr": (
        "glm4",
        ("glm4", "glm_ocr_text"),
        {
            "vocab_size": 59_392, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 16,
            "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0, "attention_bias": False,
        },
    ),
}  # fmt: skip
TOKENS = {"glm4v": 151_343, "glm4v_moe": 151_363, "glm_ocr": 59_280}
renamed = picture_text.renamed


@dataclass(frozen=True, kw_only=True)
class TowerConfig(FileConfig):
    """The fields of vision_config."""

    model_type = "glm4v_vision"

    depth: int = 24
    hidden_size: int = 1536
    hidden_act: str = "silu"
    attention_bias: bool = False
    num_heads: int = 12
    in_channels: int = 3
    image_size: tuple[int, int]
    patch_size: int = 14
    rms_norm_eps: float = 1e-5
    spatial_merge_size: int = 2
    temporal_patch_size: int = 2
    out_hidden_size: int = 4096
    intermediate_size: int = 13_696

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        rotary = values.get("rope_parameters") or {}
        plausible = isinstance(rotary, dict) and rotary.get("rope_theta", THETA) == THETA
        require(plausible, f"rope_parameters of vision_config is {rotary!r:.60}, expected rope_theta {THETA:g}")
        return read_config(cls, {**values, "image_size": pair(values, "image_size", 336)})

    def __post_init__(self) -> None:
        super().__post_init__()
        width, heads = self.hidden_size, self.num_heads
        require(
            width <= 1 << 16 and width % heads == 0 and width // heads % 4 == 0,
            f"num_heads {heads} do not divide the tower's width {width:,} into heads of a multiple of 4",
        )
        require(self.depth <= 1 << 10, f"a tower of {self.depth:,} layers")
        require(max(self.intermediate_size, self.out_hidden_size) <= 1 << 20, "the tower's layers are too wide")
        require(max(self.patch_size, self.spatial_merge_size) <= 256, f"patch_size is {self.patch_size:,}")
        require(
            self.in_channels == 3 and self.temporal_patch_size <= 16, "pictures have 3 channels, patches few frames"
        )
        side = self.image_size[0]
        require(self.image_size[1] == side >= self.patch_size, f"image_size is {self.image_size}, expected a square")

    @property
    def learned(self) -> int:
        """The rows, and columns, of learned positions; 0: there are none."""
        return self.image_size[0] // self.patch_size

    @property
    def inner(self) -> int:
        """The width of the layers' feed-forward parts."""
        return self.out_hidden_size

    @property
    def merged(self) -> int:
        """The width of the feed-forward part after the layers."""
        return self.intermediate_size


@dataclass(frozen=True, kw_only=True)
class OcrTowerConfig(TowerConfig):
    """The fields of GLM-OCR's vision_config."""

    model_type = "glm_ocr_vision"

    hidden_size: int = 1024
    attention_bias: bool = True
    num_heads: int = 16
    out_hidden_size: int = 1536
    intermediate_size: int = 4096

    @property
    def learned(self) -> int:
        return 0

    @property
    def inner(self) -> int:
        return self.intermediate_size

    @property
    def merged(self) -> int:
        return self.out_hidden_size * self.in_channels


@dataclass(frozen=True)
class Config(GridConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "glm4v"
    tower = "glm4v_vision"
    towers = {
        **dict.fromkeys(("glm4v", "glm4v_vision", "glm4v_moe", "glm4v_moe_vision"), TowerConfig),
        **dict.fromkeys(("glm_ocr", "glm_ocr_vision"), OcrTowerConfig),
    }
    token = ("image_token_id", TOKENS["glm4v"])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        kind, text = values.get("model_type", cls.model_type), values.get("text_config")
        require(kind in MODEL_TYPES, f"model_type is {kind!r:.60}, expected {' or '.join(MODEL_TYPES)}")
        if kind == "glm46v":  # of GLM-4.5V's form, its Flash of GLM-4.1V's
            of_experts = isinstance(text, dict) and text.get("model_type") in TEXTS["glm4v_moe"][1]
            kind = "glm4v_moe" if of_experts else "glm4v"
            values = {"image_token_id": TOKENS["glm4v"], **values}
        own, names, defaults = TEXTS[kind]
        if isinstance(text, dict):
            given = text.get("model_type", own)
            require(given in names, f"the language model {given!r:.50} in text_config is not known")
            text = {**defaults, **picture_text.without_mrope(text), "model_type": own}
        vision = values.get("vision_config")
        if isinstance(vision, dict):
            vision = {"model_type": f"{kind}_vision", **vision}
        return super().from_dict(
            {"image_token_id": TOKENS[kind], **values, "text_config": text, "vision_config": vision}
        )

    def check(self) -> None:
        self.check_token()
        width, made = self.text_config.hidden_size, self.vision_config.out_hidden_size
        require(made == width, f"the tower makes vectors of {made} numbers, the text has {width}")
        self.check_sections()

    @property
    def usual_sections(self) -> tuple[int, ...]:
        return 8, 12, 12


class Merger(Module):
    """A layer, and a gated one after it."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.proj = Linear(width, width, bias=False)
        self.post_projection_norm = LayerNorm(width)
        self.activation = GELU()
        gated = GatedFeedForward(width, inner, activation)
        self.gate_proj, self.up_proj, self.down_proj = gated.gate_proj, gated.up_proj, gated.down_proj
        self.gated = [gated]  # whose layers are this one's

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, width)."""
        found: Tensor = self.gated[0](self.activation(self.post_projection_norm(self.proj(x))))
        return found


class Tower(ImageModel):
    """The Vision Transformer."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        width, made, side, epsilon = config.hidden_size, config.out_hidden_size, config.patch_size, config.rms_norm_eps
        plain = config.learned == 0
        bias = config.attention_bias
        self.patch_embed = FramePatches(config.in_channels, width, side, config.temporal_patch_size, bias=True)
        self.post_conv_layernorm = None if plain else RMSNorm(width, epsilon)
        self.embeddings = Module()
        self.embeddings.position_embedding = None if plain else Embedding(config.learned**2, width)
        self.blocks = ModuleList(
            GridBlock(
                width, config.num_heads, lambda: RMSNorm(width, epsilon),
                GatedFeedForward(width, config.inner, config.hidden_act, plain and bias), bias=bias,
                output_bias=plain and bias, head_norm=(lambda size: RMSNorm(size, epsilon)) if plain else None,
            )
            for _ in range(config.depth)
        )  # fmt: skip
        self.post_layernorm = RMSNorm(width, epsilon)
        self.downsample = Conv2d(width, made, config.spatial_merge_size, stride=config.spatial_merge_size)
        self.merger = Merger(made, config.merged, config.hidden_act)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the vectors (B, T, out_hidden_size) of pictures."""
        x = self.patch_embed(pixel_values)  # (B, rows, columns, width)
        if self.post_conv_layernorm is not None:
            x = self.post_conv_layernorm(x)
            x = x + self._places(x.shape[1], x.shape[2]).to(x.dtype)
        table = grid_angles(x, self.config.num_heads)
        for block in self.blocks:
            x = block(x, table)
        x = self.downsample(self.post_layernorm(x).permute(0, 3, 1, 2))  # (B, made, rows / side, columns / side)
        found: Tensor = self.merger(as_sequence(x))
        return found

    def _places(self, rows: int, columns: int) -> Tensor:
        """The learned positions (1, rows, columns, width), stretched over the picture."""
        table = self.embeddings.position_embedding
        count = table.num_embeddings
        square = first_rows(table, count).reshape(1, isqrt(count), isqrt(count), -1).permute(0, 3, 1, 2)
        found = ops.interpolate(square, size=(rows, columns), mode="bicubic", align_corners=False)
        return found.permute(0, 2, 3, 1)


class Glm4vForConditionalGeneration(GridPictures):
    """Pictures and text to text."""

    placeholder = part = "<|image|>"
    around = ("<|begin_of_image|>", "<|end_of_image|>")
    name = "GLM-V"
    tower_class = Tower


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How published files store the experts: each matrix by itself."""
    text, parts = config.text_config, ("gate_proj", "up_proj", "down_proj")
    if not hasattr(text, "n_routed_experts"):
        return {}
    named, root = {renamed(name): info for name, info in tensors.items()}, "language_model.model.layers"
    return experts_apart(named, "mlp.experts", parts, text.n_routed_experts, text.num_hidden_layers, root=root)


TASKS: Mapping[str, Any] = {picture_text.TASK: Glm4vForConditionalGeneration}
