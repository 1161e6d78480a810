"""DLPack by torch.utils.dlpack's names."""

from __future__ import annotations

from typing import Any

from ..engine.declare import publish
from ..engine.ops.dlpack import from_dlpack
from ..engine.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule over the tensor's memory."""
    return tensor.__dlpack__()  # type: ignore[attr-defined]


publish(globals(), ["from_dlpack"])
