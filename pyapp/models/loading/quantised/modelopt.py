"""NVIDIA's Model Optimizer: FP8 as in float8, and NVFP4.

Of a layer in NVFP4: weight (N, K / 2) uint8 of E2M1, the first of two in the low half, weight_scale (N, K / 16) in
float8_e4m3fn, and weight_scale_2, one number that multiplies these. Source: ModelOptNvfp4Converter of
compressed_tensors/entrypoints/convert/converters/modelopt_nvfp4.py, 0.20.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .checkpoint import Weight, unread_of
from .compressed_tensors import nv_weight
from .float8 import UNREAD, weights_of

if TYPE_CHECKING:
    from pyapp.formats import Checkpoint

KINDS = ("FP8", "NVFP4")


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    kind = given.get("quant_algo")
    return None if kind in KINDS else f"quant_algo is {kind!r:.40}, expected one of {', '.join(KINDS)}"


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    return [str(given.get("quant_algo"))]


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    found = [
        nv_weight(checkpoint, name, name, f"{name}_scale_2", dtype) for name, info in checkpoint.tensors.items()
        if name.endswith(".weight") and info.dtype == "uint8"
    ]  # fmt: skip
    return found + weights_of(checkpoint, None, dtype), unread_of(checkpoint, UNREAD)
