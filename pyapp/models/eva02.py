"""EVA-02 (Fang et al. 2023, arXiv 2303.11331): a Vision Transformer with gated feed-forward parts, whose queries and
keys are turned by the row and the column of their patch (Su et al. 2021, arXiv 2104.09864).

Parameters have the names of timm's files, but for queries, keys and values (loading/timm.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, as_sequence, check_pictures, mean_of_patches, token, with_tokens

from .loading.config import require
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("eva02",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
SLOWEST = 10_000.0  # of the speeds at which queries and keys turn


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters. packed: the two layers of a gate are one, as in the small models, whose feed-forward parts
    have no norm; reference: rows, and columns, of patches in pretraining, by which places are counted.
    """

    model_type = MODEL_TYPES[0]
    patch = 14

    layer_norm_eps: float = 1e-6
    packed: bool = False
    reference: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        width = self.hidden_size // self.num_attention_heads
        require(width % 4 == 0, f"a head of attention has {width} channels, expected a multiple of 4")
        require(self.reference <= 1 << 10, f"reference is {self.reference:,}, expected at most 1,024")


def turns(config: Config, device: Device) -> tuple[Tensor, Tensor]:
    """The cosines and sines (T, d / 2) of the angles by which pairs of channels turn at each patch: for its row, then
    for its column.
    """
    bands = config.hidden_size // config.num_attention_heads // 4
    speeds = SLOWEST ** -(np.arange(bands) / bands)
    rows, columns = config.grid
    row, column = np.divmod(np.arange(rows * columns), columns)
    down, along = (place * config.reference / side for place, side in ((row, rows), (column, columns)))
    angles = np.concatenate([down[:, None] * speeds, along[:, None] * speeds], 1)
    found = (ops.tensor(part.astype("float32"), device=device) for part in (np.cos(angles), np.sin(angles)))
    return next(found), next(found)


def turned(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Neighbouring channels of the patches, turned; the class token, which comes first, stays: x (B, heads, 1 + T, d) →
    the same shape.
    """
    count = x.shape[2] - 1
    pairs = x.narrow(2, 1, count).reshape(*x.shape[:2], count, -1, 2)  # (B, heads, T, d / 2, 2)
    even, odd = pairs.select(4, 0), pairs.select(4, 1)
    new = ops.stack([even * cosines - odd * sines, odd * cosines + even * sines], 4)
    return ops.cat([x.narrow(2, 0, 1), new.reshape(*x.shape[:2], count, -1)], 2)


class Attention(Module):
    """Attention of patches whose queries and keys are turned."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        self.query = Linear(width, width)
        self.key = Linear(width, width, bias=False)
        self.value = Linear(width, width)
        self.proj = Linear(width, width)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """x (B, 1 + T, D) → (B, 1 + T, D)."""
        query, key, value = (
            part(x).reshape(*x.shape[:2], self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )  # (B, heads, 1 + T, d) each
        query, key = (turned(part, cosines, sines) for part in (query, key))
        y = ops.scaled_dot_product_attention(query, key, value)
        return self.proj(y.transpose(1, 2).reshape(*x.shape))


class FeedForward(Module):
    """A gated layer (Shazeer 2020, arXiv 2002.05202), its norm where the model has one, and another layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.packed = config.packed
        self.activation = activation_named("silu")
        if self.packed:
            self.fc1 = Linear(width, 2 * inner)
        else:
            self.fc1_g = Linear(width, inner)
            self.fc1_x = Linear(width, inner)
        self.norm = None if self.packed else LayerNorm(inner, config.layer_norm_eps)
        self.fc2 = Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        gate, x = ops.chunk(self.fc1(x), 2, 2) if self.packed else (self.fc1_g(x), self.fc1_x(x))
        x = self.activation(gate) * x
        return self.fc2(x if self.norm is None else self.norm(x))


class Block(Module):
    """Attention and a feed-forward part, each after a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attn = Attention(config)
        self.norm2 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """x (B, 1 + T, D) → (B, 1 + T, D)."""
        x = x + self.attn(self.norm1(x), cosines, sines)
        return x + self.mlp(self.norm2(x))


class Eva02(ImageModel):
    """The network, for pictures of one size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.cls_token = token(width)
        self.pos_embed = new_parameter(ops.zeros, 1, 1 + config.patches, width)
        self.patch_embed = Module()
        self.patch_embed.proj = Conv2d(config.num_channels, width, config.patch_size, config.patch_size)
        self.blocks = ModuleList(Block(config) for _ in range(config.num_hidden_layers))

    @property
    def pixels(self) -> tuple[int, int] | None:
        return self.config.image_size

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → hidden states (B, 1 + patches, D)."""
        check_pictures("EVA-02", pixel_values, self.config.num_channels, self.config.image_size)
        x = with_tokens(as_sequence(self.patch_embed.proj(pixel_values)), self.cls_token) + self.pos_embed
        cosines, sines = turns(self.config, x.device)
        for block in self.blocks:
            x = block(x, cosines, sines)
        return x


class Eva02Classifier(Eva02):
    """Scores of the labels of a picture, read at the mean of its patches."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.fc_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.head = Linear(config.hidden_size, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        x = super().forward(pixel_values)
        return self.head(self.fc_norm(mean_of_patches(x.narrow(1, 1, x.shape[1] - 1))))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Eva02,
    "image-classification": Eva02Classifier,
}
