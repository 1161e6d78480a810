"""A network that lets a picture, such as edges or a pose, say where things are (ControlNet, Zhang et al. 2023, arXiv
2302.05543): a copy of the U-Net's way down, whose maps are added to those of the U-Net.

Parameters and fields have the names of diffusers' ControlNetModel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Module, ModuleList
from pyapp.nn.layers.convolution import BlockConv2d

from ..loading.config import require
from .unet import WIDEST, UNetConfig, WayDown

SCALE = 8  # the pixels of a side for each latent


@dataclass(frozen=True)
class ControlNetConfig:
    """The hyper-parameters: those of the U-Net, and the channels of the filters over the picture."""

    unet: UNetConfig
    widths: tuple[int, ...] = (16, 32, 96, 256)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ControlNetConfig:
        """From the object of a config.json. ModelError for a network of another kind."""
        for name, known in (
            ("conditioning_channels", 3), ("controlnet_conditioning_channel_order", "rgb"),
            ("global_pool_conditions", False),
        ):  # fmt: skip
            given = values.get(name, known)
            require(given == known, f"{name} {given!r:.60} is not supported")
        kinds = values.get("down_block_types")
        require(isinstance(kinds, list | tuple), f"down_block_types is {kinds!r:.60}")
        levels: Any = kinds
        up = [str(kind).replace("Down", "Up") for kind in reversed(levels)]  # a ControlNet has no way up
        widths = values.get("conditioning_embedding_out_channels", cls.widths)
        plausible = isinstance(widths, list | tuple) and len(widths) == 4
        plausible = plausible and all(type(width) is int and 1 <= width <= WIDEST for width in widths)
        require(plausible, f"conditioning_embedding_out_channels is {widths!r:.60}, expected four numbers")
        return cls(UNetConfig.from_dict({**values, "up_block_types": up}), tuple(widths))


class PictureFilters(Module):
    """Filters that make a map of the latents' size of a picture."""

    def __init__(self, widths: tuple[int, ...], out: int) -> None:
        super().__init__()
        self.conv_in = BlockConv2d(3, widths[0], 3, padding=1)
        self.blocks = ModuleList()
        for before, width in zip(widths, widths[1:], strict=False):
            self.blocks.append(BlockConv2d(before, before, 3, padding=1))
            self.blocks.append(BlockConv2d(before, width, 3, 2, 1))
        self.conv_out = BlockConv2d(widths[-1], out, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 3, 8 * H, 8 * W) → (B, out, H, W)."""
        x = ops.silu(self.conv_in(x))
        for layer in self.blocks:
            x = ops.silu(layer(x))
        return self.conv_out(x)


class ControlNet(WayDown):
    """What to add to the maps of a U-Net."""

    def __init__(self, config: ControlNetConfig) -> None:
        super().__init__(config.unet)
        self.controlnet_cond_embedding = PictureFilters(config.widths, config.unet.block_out_channels[0])
        self.controlnet_down_blocks = ModuleList(BlockConv2d(width, width, 1) for width in self.widths)
        self.controlnet_mid_block = BlockConv2d(self.widths[-1], self.widths[-1], 1)

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, picture: Tensor, scale: float = 1.0,
        pooled: Tensor | None = None, sizes: Tensor | None = None,
    ) -> list[Tensor]:  # fmt: skip
        """latents, time, text, pooled and sizes as the U-Net reads them, picture (B, 3, 8 * H, 8 * W) from 0 to 1 → for
        each map of the way down, and for the coarsest one, what to add, `scale` times.
        """
        self.check(latents, text)
        wanted = (latents.shape[0], 3, *(SCALE * side for side in latents.shape[2:]))
        if tuple(picture.shape) != wanted:
            raise ArgumentError(f"ControlNet: the picture is {list(wanted)}, not {describe(picture)}")
        embedded = self.embedded(latents.shape[0], time, pooled, sizes)
        x = self.conv_in(latents) + self.controlnet_cond_embedding(picture)
        coarsest, kept = self.coarser(x, embedded, text)
        found = [layer(y) for layer, y in zip(self.controlnet_down_blocks, kept, strict=True)]
        return [y * scale for y in (*found, self.controlnet_mid_block(coarsest))]
