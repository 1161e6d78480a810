"""Numbers around the edges of the 8-bit floats: ties, subnormals, overflow."""

from __future__ import annotations

FLOAT8 = [
    0.0, -0.0, 1.0, 1.0625, 1.1875, -1.25, 0.3, 447.0, 448.0, 463.9, 464.0, 464.1, 479.0, 480.0, -500.0, 1e9, 2.0**-9,
    2.0**-10, 2.0**-10 * 1.01, 3 * 2.0**-10, 2.0**-16, 2.0**-17, 2.0**-17 * 1.01, 57344.0, 61439.0, 61440.0, 61441.0,
    65535.0, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
