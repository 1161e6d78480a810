"""Llama 4 with pictures (Meta AI 2025): a tower with rotary positions of rows and columns sees tiles of a picture and
the whole, squares of neighbouring patches become one vector each, and Llama 4's language model writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops.rotary import rotation_table
from pyapp.nn import GELU, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.rotary_encoder import RotaryAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, check_pictures, squares
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import require, rope_parameters
from .loading.picture_text import PictureTextConfig
from .loading.pictures_config import WIDEST, PatchConfig
from .loading.stored import Stored
from .loading.stored_experts import experts_transposed, with_experts_transposed

MODEL_TYPES = ("llama4",)
IMAGE_PROCESSOR = "Llama4"  # of files that name none
EPSILON = 1e-5  # of the tower's norms
renamed = picture_text.renamed


@dataclass(frozen=True, kw_only=True)
class TowerConfig(PatchConfig):
    """The fields of vision_config."""

    model_type = "llama4_vision_model"
    image, patch = 448, 14

    num_hidden_layers: int = 34
    num_attention_heads: int = 16
    intermediate_size: int = 5632
    pixel_shuffle_ratio: float = 0.5
    projector_input_dim: int = 4096
    projector_output_dim: int = 4096
    vision_output_dim: int = 7680
    rope_theta: float = 10000.0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "rope_theta": rope_parameters(values)["rope_theta"]})

    def __post_init__(self) -> None:
        super().__post_init__()
        ratio, (rows, columns), merged = self.pixel_shuffle_ratio, self.grid, self.merged
        plausible = 0 < ratio <= 1 and abs(merged * ratio - 1) < 1e-6 and rows % merged == 0 and columns % merged == 0
        require(plausible, f"pixel_shuffle_ratio is {ratio!r:.60}, expected 1 / n of {rows} rows of patches")
        inner, wide = self.intermediate_size, self.hidden_size * merged**2
        require(inner == wide, f"intermediate_size is {inner}, but {merged}² patches have {wide} numbers")
        first, last, made = self.projector_input_dim, self.projector_output_dim, self.vision_output_dim
        require(
            first == last == made <= WIDEST,
            f"projector_input_dim {first}, projector_output_dim {last} and "
            f"vision_output_dim {made} are not one number up to {WIDEST:,}",
        )
        size = self.hidden_size // self.num_attention_heads
        require(size % 4 == 0, f"heads of {size} columns, expected a multiple of 4")
        require(self.patch_size[0] == self.patch_size[1] <= 256, f"patch_size is {self.patch_size}, expected a square")

    @property
    def merged(self) -> int:
        """The rows, and columns, of patches that become one vector."""
        ratio = self.pixel_shuffle_ratio
        return max(1, round(1 / ratio)) if 1e-3 < ratio else 1


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "llama4"
    text = "llama4_text"
    tower = "llama4_vision_model"
    towers = {"llama4_vision_model": TowerConfig}
    token = ("image_token_index", 200_092)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        self.self_attn = RotaryAttention(width, Heads(heads, heads, width // heads, interleaved=True), bias=True)
        self.mlp = FeedForward(width, config.intermediate_size, "gelu")
        self.input_layernorm, self.post_attention_layernorm = (LayerNorm(width, EPSILON) for _ in range(2))

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D), table (T, head / 2, 2) → (B, T, D)."""
        x = self.self_attn(self.input_layernorm(x), None, table, x)
        found: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return found


class Adapter(Module):
    """One vector of each square of patches."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.merged, made = config.merged, config.projector_output_dim
        self.mlp = Module()
        self.mlp.fc1 = Linear(config.intermediate_size, config.projector_input_dim, bias=False)
        self.mlp.fc2 = Linear(made, made, bias=False)
        self.activation = GELU()

    def forward(self, x: Tensor) -> Tensor:
        """x (B, rows, columns, D) → (B, rows * columns / merged², projector_output_dim)."""
        inner = self.activation(self.mlp.fc1(squares(x, self.merged)))
        found: Tensor = self.activation(self.mlp.fc2(inner))
        return found


class Tower(ImageModel):
    """The Vision Transformer. Its class token is the last."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        width, (high, wide) = config.hidden_size, config.patch_size
        self.patch_embedding = Module()
        self.patch_embedding.linear = Linear(config.num_channels * high * wide, width, bias=False)
        self.class_embedding = new_parameter(ops.zeros, width)
        self.positional_embedding_vlm = new_parameter(ops.zeros, config.patches + 1, width)
        self.layernorm_pre, self.layernorm_post = LayerNorm(width, EPSILON), LayerNorm(width, EPSILON)
        self.model = Module()
        self.model.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.vision_adapter = Adapter(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the vectors (B, T, projector_output_dim) of pictures."""
        config = self.config
        check_pictures("Llama 4", pixel_values, config.num_channels, config.image_size)
        count, channels = pixel_values.shape[:2]
        (rows, columns), (high, wide) = config.grid, config.patch_size
        x = pixel_values.narrow(2, 0, rows * high).narrow(3, 0, columns * wide)
        x = x.reshape(count, channels, rows, high, columns, wide).permute(0, 2, 4, 1, 3, 5)
        x = self.patch_embedding.linear(x.reshape(count, rows * columns, channels * high * wide))  # (B, T, D)
        token = self.class_embedding.reshape(1, 1, -1).expand(count, 1, x.shape[2])
        x = self.layernorm_pre(ops.cat([x, token], 1) + self.positional_embedding_vlm)
        table = self._table().to(x.device)
        for layer in self.model.layers:
            x = layer(x, table)
        x = self.layernorm_post(x.narrow(1, 0, rows * columns))
        found: Tensor = self.vision_adapter(x.reshape(count, rows, columns, x.shape[2]))
        return found

    def _table(self) -> Tensor:
        """The angles (T + 1, head / 2, 2): half the pairs turn by the column, half by the row, counted from 1; none of
        the class token.
        """
        config, (rows, columns) = self.config, self.config.grid
        quarter = config.hidden_size // config.num_attention_heads // 4
        steps = tuple(config.rope_theta ** (-i / quarter) for i in range(quarter))
        table = rotation_table(max(rows, columns) + 1, steps, 1.0)  # (1 + side, quarter, 2)
        down = table.narrow(0, 1, rows).unsqueeze(1).expand(rows, columns, quarter, 2)
        across = table.narrow(0, 1, columns).unsqueeze(0).expand(rows, columns, quarter, 2)
        patches = ops.cat([across, down], 2).reshape(rows * columns, 2 * quarter, 2)
        still = table.narrow(0, 0, 1)  # (1, quarter, 2)
        return ops.cat([patches, ops.cat([still, still], 1)])


class Projector(Module):
    """One layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.linear_1 = Linear(config.vision_config.vision_output_dim, config.text_config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, T, D)."""
        return self.linear_1(x)


class Llama4ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder, part = "<|image|>", "<|patch|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = Tower(config.vision_config)
        self.multi_modal_projector = Projector(config)

    @property
    def picture_tokens(self) -> int:
        tower = self.config.vision_config
        return int(tower.patches // tower.merged**2)

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        own = self.part * self.picture_tokens
        tiles = ("<|tile_x_separator|>".join([own] * columns) + "<|tile_y_separator|>") * rows
        return f"<|image_start|>{tiles}<|image|>{own}<|image_end|>"

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of the parameters as Hugging Face's files have them, as those of the language model."""
        return with_experts_transposed(tensors)


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the stacks of experts."""
    shapes = {renamed(name): info.shape for name, info in tensors.items()}
    text, place = config.text_config, "language_model.model.layers.{}.feed_forward.experts"
    return experts_transposed(shapes, place, text.moe_layers, text.hidden_size, text.intermediate_size)


TASKS: Mapping[str, Any] = {picture_text.TASK: Llama4ForConditionalGeneration}
