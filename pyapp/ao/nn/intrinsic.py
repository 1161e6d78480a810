"""Layers that follow each other, as one module, so that only what the last one gives is rounded."""

from __future__ import annotations

from typing import Any

from ... import nn

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearReLU",
]  # fmt: skip


class _FusedModule(nn.Sequential):
    """Base of them. `kinds` are the classes of the layers. AssertionError for others."""

    kinds: tuple[type, ...] = ()

    def __init__(self, *layers: Any) -> None:
        if len(layers) != len(self.kinds) or any(type(a) is not b for a, b in zip(layers, self.kinds, strict=True)):
            names = [[kind.__name__ for kind in kinds] for kinds in (self.kinds, map(type, layers))]
            raise AssertionError(f"Incorrect types for input modules: {type(self).__name__} takes {names[0]}, "
                                 f"not {names[1]}")  # fmt: skip
        super().__init__(*layers)


class ConvReLU1d(_FusedModule):
    """Conv1d, ReLU."""

    kinds = (nn.Conv1d, nn.ReLU)


class ConvReLU2d(_FusedModule):
    """Conv2d, ReLU."""

    kinds = (nn.Conv2d, nn.ReLU)


class ConvReLU3d(_FusedModule):
    """Conv3d, ReLU."""

    kinds = (nn.Conv3d, nn.ReLU)


class LinearReLU(_FusedModule):
    """Linear, ReLU."""

    kinds = (nn.Linear, nn.ReLU)


class LinearBn1d(_FusedModule):
    """Linear, BatchNorm1d."""

    kinds = (nn.Linear, nn.BatchNorm1d)


class ConvBn1d(_FusedModule):
    """Conv1d, BatchNorm1d."""

    kinds = (nn.Conv1d, nn.BatchNorm1d)


class ConvBn2d(_FusedModule):
    """Conv2d, BatchNorm2d."""

    kinds = (nn.Conv2d, nn.BatchNorm2d)


class ConvBn3d(_FusedModule):
    """Conv3d, BatchNorm3d."""

    kinds = (nn.Conv3d, nn.BatchNorm3d)


class ConvBnReLU1d(_FusedModule):
    """Conv1d, BatchNorm1d, ReLU."""

    kinds = (nn.Conv1d, nn.BatchNorm1d, nn.ReLU)


class ConvBnReLU2d(_FusedModule):
    """Conv2d, BatchNorm2d, ReLU."""

    kinds = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)


class ConvBnReLU3d(_FusedModule):
    """Conv3d, BatchNorm3d, ReLU."""

    kinds = (nn.Conv3d, nn.BatchNorm3d, nn.ReLU)


class BNReLU2d(_FusedModule):
    """BatchNorm2d, ReLU."""

    kinds = (nn.BatchNorm2d, nn.ReLU)


class BNReLU3d(_FusedModule):
    """BatchNorm3d, ReLU."""

    kinds = (nn.BatchNorm3d, nn.ReLU)
