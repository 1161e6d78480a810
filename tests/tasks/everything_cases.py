"""Pictures of which all objects are cut out, and how."""

from __future__ import annotations

from typing import Any

import numpy as np

CASES: list[dict[str, Any]] = [
    {"points_per_side": 5, "score": 0.0, "stability": 0.0, "overlap": 0.98},
    {"points_per_side": 3, "score": 0.35, "stability": 0.0, "overlap": 0.98},
    {"points_per_side": 6, "score": 0.0, "stability": 0.2, "overlap": 0.98},
]
# What is scaled of the model's seeded weights, so that masks have sure pixels.
SCALED, FACTOR = r"mask_decoder\.output_hypernetworks_mlps\.\d\.proj_out\..*", 40


def photos() -> list[np.ndarray]:
    """(height, width, 3) uint8."""
    random = np.random.Generator(np.random.Philox(key=5))
    return [random.integers(0, 256, (*size, 3), np.uint8) for size in ((30, 44), (26, 17))]
