"""Gemma 4 with pictures (Gemma Team 2026, https://ai.google.dev/gemma/docs): a tower for pictures of any shape, whose
patches have learned and rotary positions of rows and columns; the means of squares of its patches, normalised and
projected, stand before Gemma 4's language model. Gemma 4 Unified has no tower: the squares themselves are projected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList, Parameter, RMSNorm
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.positions.rotary import grid_rotations
from pyapp.nn.vision.vision import ImageModel, as_map, as_sequence
from pyapp.nn.vision_language.picture_text import ANY, GridPictures, Seen, Size

from .loading import picture_text
from .loading.config import FileConfig, require
from .loading.picture_text import PictureTextConfig

MODEL_TYPES = ("gemma4", "gemma4_unified")
IMAGE_PROCESSOR = "Gemma4"  # of files that name none
# What hears, and the keys and values that layers with those of others do not need.
IGNORED = (
    r"(model\.)?((audio_tower|embed_audio)\..*"
    r"|(language_model\.)?layers\.\d+\.self_attn\.(k_proj|v_proj|k_norm|v_norm)\..*)"
)
WIDEST = 1 << 17  # numbers of a vector
LIMITS = "input_min", "input_max", "output_min", "output_max"


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    name = re.sub(r"^(model\.)?embed_vision\.", "multi_modal_projector.", name)
    return picture_text.renamed(re.sub(r"^(model\.)?vision_embedder\.", "vision_tower.", name))


@dataclass(frozen=True, kw_only=True)
class PatchesConfig(FileConfig):
    """The fields of vision_config that both forms have."""

    patch_size: int = 16
    pooling_kernel_size: int = 3
    rms_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        side = self.patch_size * self.pooling_kernel_size
        require(side <= 1 << 10, f"patch_size and pooling_kernel_size make squares of {side:,} pixels a side")
        require(
            max(self.width, self.positions) <= WIDEST, f"vectors of {self.width:,} numbers, {self.positions:,} rows"
        )

    @property
    def spatial_merge_size(self) -> int:
        """The rows, and columns, of patches that become one vector."""
        return self.pooling_kernel_size

    @property
    def width(self) -> int:
        """The columns of what the tower makes."""
        raise NotImplementedError

    @property
    def positions(self) -> int:
        """The most rows, or columns, that have positions."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class TowerConfig(PatchesConfig):
    """The fields of vision_config of Gemma 4."""

    model_type = "gemma4_vision"

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 16
    num_attention_heads: int = 12
    num_key_value_heads: int = 12
    head_dim: int = 64
    hidden_activation: str = "gelu_pytorch_tanh"
    attention_bias: bool | None = False
    position_embedding_size: int = 10240
    use_clipped_linears: bool = False
    standardize: bool = False
    rope_parameters: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, shared, size = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        require(heads % shared == 0 and size % 4 == 0, f"{heads} heads of {size} features, {shared} of keys")
        require(heads * size <= WIDEST and self.intermediate_size <= WIDEST << 3, "the tower's layers are too wide")
        require(self.num_hidden_layers <= 1 << 10, f"a tower of {self.num_hidden_layers:,} layers")
        theta = self.theta
        require(type(theta) in (int, float) and theta > 0, f"rope_theta is {theta!r:.60}, expected a number above 0")

    @property
    def width(self) -> int:
        return self.hidden_size

    @property
    def positions(self) -> int:
        return self.position_embedding_size

    @property
    def theta(self) -> Any:
        """The base of the rotary positions."""
        return (self.rope_parameters or {}).get("rope_theta", 100.0)


@dataclass(frozen=True, kw_only=True)
class SquaresConfig(PatchesConfig):
    """The fields of vision_config of Gemma 4 Unified."""

    model_type = "gemma4_unified_vision"

    mm_embed_dim: int = 3840
    mm_posemb_size: int = 1120

    @property
    def width(self) -> int:
        return self.mm_embed_dim

    @property
    def positions(self) -> int:
        return self.mm_posemb_size


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "gemma4"
    text = "gemma4_text"
    tower = "gemma4_vision"
    token = ("image_token_id", 258880)
    towers = {"gemma4_vision": TowerConfig, "gemma4_unified_vision": SquaresConfig}
    sections = ()  # a token has one position

    def check(self) -> None:
        self.check_token()
        seen = self.both_ways
        require(
            seen in (None, False, "vision"), f"use_bidirectional_attention is {seen!r:.60}, expected 'vision' or null"
        )

    @property
    def both_ways(self) -> Any:
        """What attends both ways: "vision", the vectors of a picture, or nothing."""
        return self.values["text_config"].get("use_bidirectional_attention")

    @property
    def padding(self) -> int:
        """The token whose inputs of layers the vectors of pictures have."""
        return self.values["text_config"].get("pad_token_id") or 0


class ClippedLinear(Module):
    """A projection whose inputs and outputs may be held between limits."""

    def __init__(self, config: TowerConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = Linear(inputs, outputs, bias=False)
        self.clipped = config.use_clipped_linears
        if self.clipped:
            for name, limit in zip(LIMITS, (float("-inf"), float("inf")) * 2, strict=True):
                self.register_parameter(name, Parameter(ops.tensor(limit), requires_grad=False))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., inputs) → (..., outputs)."""
        if not self.clipped:
            return self.linear(x)
        low, high, least, most = (getattr(self, name).detach() for name in LIMITS)  # which are not trained
        return ops.minimum(ops.maximum(self.linear(ops.minimum(ops.maximum(x, low), high)), least), most)


class Attention(Module):
    """Attention of all patches to each other: half of a head's columns turn by the column, half by the row."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width, self.head = config.hidden_size, config.head_dim
        inner, shared = config.num_attention_heads * self.head, config.num_key_value_heads * self.head
        self.q_proj, self.k_proj, self.v_proj = (ClippedLinear(config, width, n) for n in (inner, shared, shared))
        self.o_proj = ClippedLinear(config, inner, width)
        self.q_norm, self.k_norm = (RMSNorm(self.head, config.rms_norm_eps) for _ in range(2))
        self.v_norm = RMSNorm(self.head, config.rms_norm_eps, elementwise_affine=False)

    def forward(self, x: Tensor, across: Tensor, down: Tensor) -> Tensor:
        """x (B, T, D), across and down (T, head / 4, 2) → (B, T, D)."""
        q, k, v = (
            norm(projection(x).reshape(*x.shape[:2], -1, self.head))  # (B, T, H, head)
            for norm, projection in ((self.q_norm, self.q_proj), (self.k_norm, self.k_proj), (self.v_norm, self.v_proj))
        )
        q, k = (
            ops.cat(
                [
                    ops.rope(half, table, interleaved=False)
                    for half, table in zip(part.chunk(2, -1), (across, down), strict=True)
                ],
                -1,
            )
            for part in (q, k)
        )
        return self.o_proj(ops.attention(q, k, v, causal=False, scale=1.0).flatten(2))


class FeedForward(Module):
    """A gated feed-forward part."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj = (ClippedLinear(config, width, inner) for _ in range(2))
        self.down_proj = ClippedLinear(config, inner, width)
        self.activation = activation_named(config.hidden_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))


class Layer(Module):
    """Attention and feed-forward, each between two norms, with a residual around it."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(config), FeedForward(config)
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.input_layernorm, self.post_attention_layernorm = (RMSNorm(width, epsilon) for _ in range(2))
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = (RMSNorm(width, epsilon) for _ in range(2))

    def forward(self, x: Tensor, across: Tensor, down: Tensor) -> Tensor:
        """As Attention.forward."""
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), across, down))
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Embedder(Module):
    """The vectors of patches, with learned positions of their columns and of their rows."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.input_proj = Linear(3 * config.patch_size**2, config.hidden_size, bias=False)
        self.position_embedding_table = new_parameter(ops.zeros, 2, config.positions, config.hidden_size)

    def forward(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """x (B, rows * columns, 3 side²), from 0 to 1 → (B, rows * columns, D)."""
        across, down = self.position_embedding_table.unbind(0)
        return self.input_proj(2 * (x - 0.5)) + positions(across, down, rows, columns)


def positions(across: Tensor, down: Tensor, rows: int, columns: int) -> Tensor:
    """The positions (rows * columns, D) of patches, of the tables (P, D) of those of columns and of rows."""
    require(max(rows, columns) <= across.shape[0], f"the model has positions for {across.shape[0]:,} patches a side")
    return (down.narrow(0, 0, rows).unsqueeze(1) + across.narrow(0, 0, columns)).flatten(0, 1)


def patches(x: Tensor, side: int) -> Tensor:
    """Pictures (B, C, H, W) → their patches, row by row, the colours of each pixel together: (B, T, side² C)."""
    count, channels, high, wide = x.shape
    x = x.reshape(count, channels, high // side, side, wide // side, side).permute(0, 2, 4, 3, 5, 1)
    return x.reshape(count, (high // side) * (wide // side), side * side * channels)


class Tower(ImageModel):
    """The Vision Transformer."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embedder = Embedder(config)
        self.encoder = Module()
        self.encoder.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        if config.standardize:
            self.std_bias = Parameter(ops.zeros(config.hidden_size), requires_grad=False)
            self.std_scale = Parameter(ops.ones(config.hidden_size), requires_grad=False)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) from 0 to 1 → the vectors (B, T, D) of squares of patches."""
        config, quarter = self.config, self.config.head_dim // 4
        rows, columns = (int(n) // config.patch_size for n in pixel_values.shape[2:])
        x = self.patch_embedder(patches(pixel_values, config.patch_size), rows, columns)
        steps = tuple(config.theta ** (-i / quarter) for i in range(quarter))
        down, across = grid_rotations(rows, columns, steps, steps).to(x.device).chunk(2, 1)
        for layer in self.encoder.layers:
            x = layer(x, across, down)
        x = as_sequence(ops.avg_pool2d(as_map(x, rows, columns), config.pooling_kernel_size)) * x.shape[2] ** 0.5
        return (x - self.std_bias.detach()) * self.std_scale.detach() if config.standardize else x


class Squares(ImageModel):
    """What Gemma 4 Unified has in place of a tower: a projection of squares between norms."""

    def __init__(self, config: SquaresConfig) -> None:
        super().__init__()
        self.config, self.side = config, config.patch_size * config.pooling_kernel_size
        width, numbers = config.mm_embed_dim, 3 * self.side**2
        self.patch_ln1, self.patch_dense, self.patch_ln2 = LayerNorm(numbers), Linear(numbers, width), LayerNorm(width)
        self.pos_embedding = new_parameter(ops.zeros, config.positions, 2, width)
        self.pos_norm = LayerNorm(width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """As Tower.forward."""
        rows, columns = (int(n) // self.side for n in pixel_values.shape[2:])
        x = self.patch_ln2(self.patch_dense(self.patch_ln1(patches(pixel_values, self.side))))
        across, down = self.pos_embedding.unbind(1)
        return self.pos_norm(x + positions(across, down, rows, columns))


class Projector(Module):
    """A projection after a norm without factors."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, epsilon = config.vision_config.width, config.vision_config.rms_norm_eps
        self.norm = RMSNorm(width, epsilon, elementwise_affine=False)
        self.embedding_projection = Linear(width, config.text_config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, D)."""
        return self.embedding_projection(self.norm(x))


def tower(config: PatchesConfig) -> Module:
    """What sees, with empty weights."""
    return Tower(config) if isinstance(config, TowerConfig) else Squares(config)  # type: ignore[arg-type]


class Gemma4ForConditionalGeneration(GridPictures):
    """Pictures and text to text."""

    placeholder = part = "<|image|>"
    around = ("<|image>", "<image|>")
    name = "Gemma 4"
    tower_class = staticmethod(tower)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.multi_modal_projector = Projector(config)
        self.whole_pictures = config.both_ways == "vision"
        self.whole_in_windows = isinstance(config.vision_config, TowerConfig)
        self.whole_beyond_windows = not self.whole_in_windows

    def prepared_by(self, processor: Any) -> Any:
        seen = self.config.vision_config
        return processor.adapted(patch_size=seen.patch_size, merge_size=seen.pooling_kernel_size)

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return (self.part * (rows * columns)).join(self.around)

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        found: Tensor = self.multi_modal_projector(super().picture_features(pixel_values))
        return found

    def _read(self, tokens: Tensor, text: Any, seen: Seen) -> Tensor:
        none = ops.full_like(tokens, self.config.padding)
        return super()._read(ops.where(tokens == self.config.image_token_id, none, tokens), text, seen)


TASKS: Mapping[str, Any] = {picture_text.TASK: Gemma4ForConditionalGeneration}
