"""Kinds of image processors for models that find and match key points, whose pictures may be grey."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops

from .processor import ImageProcessor, kind

USUAL: dict[str, Any] = {"size": {"height": 480, "width": 640}, "resample": 2, "do_normalize": False}


@kind("SuperPoint", **USUAL)
@kind("SuperGlue", "LightGlue", **USUAL, do_grayscale=True)
@dataclass(frozen=True)
class SuperPoint(ImageProcessor):
    """All channels may have the grey of a picture."""

    do_grayscale: bool = False

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return super()._normalized(_grey(x) if self.do_grayscale else x, mean, std)


def _grey(x: Tensor) -> Tensor:
    """Red, green and blue (3, H, W) → their grey in all three."""
    weights = ops.tensor([0.2989, 0.587, 0.114], device=x.device).reshape(3, 1, 1)
    return (x * weights).sum(0, keepdim=True).expand(*x.shape)
