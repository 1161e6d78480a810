"""torch.types: names for annotations, and for isinstance() where they are of numbers."""

from __future__ import annotations

import os
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from .engine.device import Device as _device
from .engine.dtype import DType as _dtype  # noqa: F401 (a name of torch's)
from .engine.memory_format import layout as _layout  # noqa: F401
from .engine.ops.random import Generator
from .engine.shape import Size
from .engine.storage import Storage
from .engine.tensor import Tensor

Number: TypeAlias = _int | _float | _bool
Device: TypeAlias = _device | str | _int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
_complex = complex
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Tensor | Sequence[Tensor] | Any

__all__ = ["Device", "FileLike", "Generator", "Number", "Size", "Storage", "Tensor"]
