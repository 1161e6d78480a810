"""Functions of torch._C._nn that packages use."""

from __future__ import annotations

from typing import Any

from ..engine.device import Device
from ..engine.dtype import DType
from ..nn.module import device_and_dtype


def _parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
    memory_format: Any = None,
) -> tuple[Device | None, DType | None, bool, Any]:  # fmt: skip
    """(device, dtype, non_blocking, memory_format) of the arguments of Module.to; None where they do not say."""
    place, kind = device_and_dtype(args, device, dtype)
    flags = [argument for argument in args if isinstance(argument, bool)]
    return place, kind, flags[0] if flags else non_blocking, memory_format
