"""Maps of several sizes, fused from the coarsest to the finest (DPT, Ranftl et al. 2021, arXiv 2103.13413).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..layers.channel_normalization import BatchNorm2d
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d, ConvTranspose2d
from ..layers.gated import activation_named
from ..layers.linear import Identity, Linear
from ..module import Module
from .vision import as_map


class Reassembled(Module):
    """States of patches as a map of another size."""

    def __init__(self, before: int, width: int, factor: float) -> None:
        super().__init__()
        self.projection = Conv2d(before, width, 1)
        self.resize: Module = Identity()
        if factor > 1:
            self.resize = ConvTranspose2d(width, width, int(factor), stride=int(factor))
        elif factor < 1:
            self.resize = Conv2d(width, width, 3, stride=int(1 / factor), padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, width, factor * H, factor * W), rounded up."""
        return self.resize(self.projection(x))


class ResidualFilters(Module):
    """Two filters, each after an activation, and a residual around them; normed: after each is a norm of batches."""

    def __init__(self, width: int, normed: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.convolution1, self.convolution2 = (Conv2d(width, width, 3, padding=1, bias=bias) for _ in range(2))
        self.batch_norm1, self.batch_norm2 = (BatchNorm2d(width) if normed else None for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y: Tensor = self.convolution1(ops.relu(x))
        y = self.convolution2(ops.relu(y if self.batch_norm1 is None else self.batch_norm1(y)))
        return x + (y if self.batch_norm2 is None else self.batch_norm2(y))


class Fusion(Module):
    """A finer map joins the result of the coarser ones, which then grows."""

    def __init__(self, width: int, normed: bool, bias: bool) -> None:
        super().__init__()
        self.projection = Conv2d(width, width, 1)
        self.residual_layer1, self.residual_layer2 = (ResidualFilters(width, normed, bias) for _ in range(2))
        self.prompt_depth_layer: Module | None = None  # reads depths that were measured

    def forward(self, x: Tensor, finer: Tensor | None, size: tuple[int, int], depths: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), finer (B, C, H', W'), depths (B, 1, H'', W'') → (B, C, *size)."""
        if finer is not None:
            if finer.shape != x.shape:
                finer = ops.interpolate(finer, size=tuple(x.shape[2:]), mode="bilinear", align_corners=False)
            x = x + self.residual_layer1(finer)
        x = self.residual_layer2(x)
        if depths is not None and self.prompt_depth_layer is not None:
            own = ops.interpolate(depths, size=tuple(x.shape[2:]), mode="bilinear", align_corners=False)
            x = x + self.prompt_depth_layer(own)
        x = ops.interpolate(x, size=size, mode="bilinear", align_corners=True)
        return self.projection(x)


class PromptFilters(Module):
    """Measured depths as features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution1 = Conv2d(1, width, 3, padding=1)
        self.convolution2, self.convolution3 = (Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 1, H, W) → (B, C, H, W)."""
        return self.convolution3(ops.relu(self.convolution2(ops.relu(self.convolution1(x)))))


class Neck(Module):
    """The states of a backbone become maps, and are fused. config has neck_hidden_sizes, reassemble_factors and
    fusion_hidden_size. doubles: each map of the fusion has twice the sides of the one before, not those of the next map
    of the backbone. prompted: the fusion reads measured depths.
    """

    def __init__(
        self, config: Any, before: int, doubles: bool = False, normed: bool = False, bias: bool = True,
        prompted: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        widths, width, self.doubles = config.neck_hidden_sizes, config.fusion_hidden_size, doubles
        self.reassemble_stage = Module()
        self.reassemble_stage.layers = ModuleList(
            Reassembled(before, own, factor) for own, factor in zip(widths, config.reassemble_factors, strict=True)
        )
        self.convs = ModuleList(Conv2d(own, width, 3, padding=1, bias=False) for own in widths)
        self.fusion_stage = Module()
        self.fusion_stage.layers = ModuleList(Fusion(width, normed, bias) for _ in widths)
        for layer in self.fusion_stage.layers if prompted else ():
            layer.prompt_depth_layer = PromptFilters(width)

    def forward(self, states: list[Tensor], depths: Tensor | None = None) -> list[Tensor]:
        """Maps (B, D, rows, columns) of the patches, measured depths (B, 1, H', W') → those of the fusion (B, C, H, W),
        from the coarsest on.
        """
        return self.fused(self.filtered(states), depths)

    def filtered(self, states: list[Tensor]) -> list[Tensor]:
        """Maps (B, D, rows, columns) of the patches → those that are fused (B, C, H, W), from the coarsest on."""
        parts = zip(self.reassemble_stage.layers, self.convs, states, strict=True)
        return [filters(layer(x)) for layer, filters, x in parts][::-1]

    def fused(self, maps: list[Tensor], depths: Tensor | None = None) -> list[Tensor]:
        """Maps (B, C, H, W), from the coarsest on → those of the fusion, in this order. depths: as of forward."""
        found: list[Tensor] = []
        for i, layer in enumerate(self.fusion_stage.layers):
            before, finer = (found[-1], maps[i]) if found else (maps[0], None)
            twice = self.doubles or i == len(maps) - 1
            size = tuple(2 * side for side in before.shape[2:]) if twice else tuple(maps[i + 1].shape[2:])
            found.append(layer(before, finer, size, depths))
        return found


class ReadoutNeck(Neck):
    """The states of patches, with what the class token says of them, as maps that are fused. config also has
    readout_type, hidden_act, and what the fusion's filters have; width: the numbers of a state.
    """

    def __init__(self, config: Any, width: int) -> None:
        normed, bias = config.use_batch_norm_in_fusion_residual, config.use_bias_in_fusion_residual
        super().__init__(config, width, True, normed, not normed if bias is None else bias)
        self.readout = config.readout_type
        self.activation = activation_named(config.hidden_act)
        if self.readout == "project":
            self.reassemble_stage.readout_projects = ModuleList(
                ModuleList([Linear(2 * width, width)]) for _ in config.neck_hidden_sizes
            )

    def read(self, states: list[Tensor], grid: tuple[int, int]) -> list[Tensor]:
        """states (B, 1 + patches, D) of a grid of patches → maps (B, C, H, W), from the coarsest on."""
        found = []
        for i, state in enumerate(states):
            x, first = state[:, 1:], state[:, :1]  # (B, patches, D), (B, 1, D)
            if self.readout == "add":
                x = x + first
            elif self.readout == "project":
                layer = self.reassemble_stage.readout_projects[i][0]
                x = self.activation(layer(ops.cat([x, first.expand(*x.shape)], 2)))
            found.append(as_map(x, *grid))
        return self.filtered(found)

    def maps(self, states: list[Tensor], grid: tuple[int, int]) -> list[Tensor]:
        """states (B, 1 + patches, D) of a grid of patches → maps (B, C, H, W) of the fusion, from the coarsest on."""
        return self.fused(self.read(states, grid))
