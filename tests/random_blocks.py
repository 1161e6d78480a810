"""Random blocks of the types that only files have, whose values have a chosen size."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyapp.engine.blocks.layout import FILE_TYPES
from pyapp.engine.blocks.reading import dequantize_blocks


def random_blocks(kind: str, count: int, size: float = 1.0, seed: int = 6) -> Any:
    """uint8 (count, bytes of a block): blocks whose values have about the mean square root `size`."""
    block = FILE_TYPES[kind]
    raw = np.random.default_rng(seed).integers(0, 256, (count, block.nbytes), dtype=np.uint8)
    _set_scale(kind, raw, 1.0)
    largest = np.sqrt(np.square(dequantize_blocks(raw, kind)).mean())
    _set_scale(kind, raw, size / float(largest))
    return raw


def _set_scale(kind: str, raw: Any, scale: float) -> None:
    blocks = raw.view(np.dtype(list(FILE_TYPES[kind].fields)))[:, 0]
    if kind == "nvfp4":  # E4M3: an exponent and three bits, which stay
        blocks["scales"] = blocks["scales"] & 7 | max(round(np.log2(scale) + 7), 1) << 3
    elif kind == "iq1_m":
        bits = int(np.float16(scale).view(np.uint16))
        for i in range(4):
            blocks["words"][:, i] = blocks["words"][:, i] & 0x0FFF | (bits >> 4 * i & 15) << 12
    else:
        blocks["d"] = scale
