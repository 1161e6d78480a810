"""The tower of Pixtral (Agrawal et al. 2024, arXiv 2410.07073): it sees pictures of any size, whose patches have rotary
positions of rows and columns, and its layers are those of language models.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ...errors import ArgumentError
from ..encoders.rotary_encoder import RotaryAttention
from ..heads import Heads
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.gated import GatedFeedForward
from ..layers.linear import Linear
from ..layers.normalization import RMSNorm
from ..module import Module
from ..positions.rotary import grid_rotations
from ..vision.vision import ImageModel, as_sequence, check_pictures
from .picture_text import ANY, PictureTextModel, Size, TwoLayers

EPSILON = 1e-5


class PixtralLayer(Module):
    """Attention and a gated feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        self.attention_norm, self.ffn_norm = RMSNorm(width, EPSILON), RMSNorm(width, EPSILON)
        self.attention = RotaryAttention(width, Heads(heads, heads, width // heads))
        self.feed_forward = GatedFeedForward(width, config.intermediate_size, config.hidden_act)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D), table (T, head / 2, 2) → (B, T, D)."""
        x = self.attention(self.attention_norm(x), None, table, x)
        found: Tensor = self.feed_forward(self.ffn_norm(x), x)
        return found


class PixtralTower(ImageModel):
    """The Vision Transformer. `merged`: the rows, and columns, of patches that become one vector."""

    def __init__(self, config: Any, merged: int = 1) -> None:
        super().__init__()
        self.config, self.merged = config, merged
        patch = config.patch_size
        self.patch_conv = Conv2d(config.num_channels, config.hidden_size, patch, stride=patch, bias=False)
        self.ln_pre = RMSNorm(config.hidden_size, EPSILON)
        self.transformer = Module()
        self.transformer.layers = ModuleList(PixtralLayer(config) for _ in range(config.num_hidden_layers))

    def grid(self, pixel_values: Tensor) -> tuple[int, int]:
        """The rows and columns of patches of pictures (B, C, H, W)."""
        (high, wide), merged = self.config.patch_size, self.merged
        check_pictures("Pixtral", pixel_values, self.config.num_channels, least=max(high, wide) * merged)
        rows, columns = (int(pixel_values.shape[i + 2]) // side for i, side in enumerate((high, wide)))
        if tuple(pixel_values.shape[2:]) != (rows * high, columns * wide) or rows % merged or columns % merged:
            raise ArgumentError(
                f"Pixtral: pictures have multiples of {high * merged} x {wide * merged} pixels, not "
                f"{pixel_values.shape[2]} x {pixel_values.shape[3]}"
            )
        return rows, columns

    def states(self, pixel_values: Tensor, count: int | None = None) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, rows * columns, D) after `count` layers; None: after all."""
        rows, columns = self.grid(pixel_values)
        quarter = self.config.hidden_size // self.config.num_attention_heads // 4
        by_row, by_column = (
            tuple(self.config.rope_theta ** (-(i + shift) / quarter) for i in range(quarter)) for shift in (0.0, 0.5)
        )
        table = grid_rotations(rows, columns, by_row, by_column).to(pixel_values.device)
        x = self.ln_pre(as_sequence(self.patch_conv(pixel_values)))
        layers = self.transformer.layers
        for layer in layers if count is None else layers[:count]:
            x = layer(x, table)
        return x


class PixtralPictures(PictureTextModel):
    """A language model that sees pictures by Pixtral's tower: a token ends each row of a picture's vectors."""

    placeholder = part = "[IMG]"

    @property
    def picture_tokens(self) -> int:
        return 1

    @property
    def pixels(self) -> Any:
        """Any size that is a multiple of a vector's patches."""
        return None

    def prepared_by(self, processor: Any) -> Any:
        return processor.adapted(patch_size=self.vision_tower.config.patch_size[0], merge_size=self.vision_tower.merged)

    def tokens_in(self, rows: int, columns: int, size: Size = ANY) -> int:
        return rows * columns

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return "[IMG_BREAK]".join([self.part * columns] * rows) + "[IMG_END]"


class PatchMerger(Module):
    """One vector of each square of neighbouring patches."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.merging_layer = Linear(width * side**2, width, bias=False)

    def forward(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """x (B, rows * columns, W) → (B, rows * columns / side², W)."""
        count, side, width = x.shape[0], self.side, x.shape[2]
        x = x.reshape(count, rows // side, side, columns // side, side, width).permute(0, 1, 3, 5, 2, 4)
        return self.merging_layer(x.reshape(count, rows * columns // side**2, width * side**2))


class MergedProjector(TwoLayers):
    """A norm and merged patches before the two layers. `config` is a MergedPixtralConfig of models/loading."""

    def __init__(self, config: Any) -> None:
        width = config.vision_config.hidden_size
        super().__init__(width, config.text_config.hidden_size, config.values, usual=False)
        self.norm = RMSNorm(width, config.text_config.rms_norm_eps)
        self.patch_merger = PatchMerger(width, config.merged)

    def project(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """x (B, rows * columns, W) → (B, rows * columns / side², D)."""
        return self(self.patch_merger(self.norm(x), rows, columns))


class MergedPixtral(PixtralPictures):
    """Pictures and text to text, with such a projector."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = PixtralTower(config.vision_config, config.merged)
        self.multi_modal_projector = MergedProjector(config)

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        rows, columns = self.vision_tower.grid(pixel_values)
        x = self.vision_tower.states(pixel_values, self.config.counts[0])
        return self.multi_modal_projector.project(x, rows, columns)
