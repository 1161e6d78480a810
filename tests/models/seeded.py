"""Weights that two libraries can make alike: drawn from a generator that the parameter's name seeds."""

from __future__ import annotations

from zlib import crc32

import numpy as np


def draw(name: str, shape: tuple[int, ...], salt: int = 0) -> np.ndarray:
    """float32 values of a parameter: norms near 1, biases small, matrices with the deviation 1 / sqrt(columns), so that
    activations keep their size."""
    generator = np.random.Generator(np.random.Philox(key=crc32(name.encode()) + (salt << 32)))
    values = generator.standard_normal(shape, dtype=np.float64)
    if len(shape) < 2:
        centre = 1.0 if "norm" in name.lower() or "ln_" in name or "layernorm" in name.lower() else 0.0
        if name.endswith("bias"):
            centre = 0.0
        return (centre + 0.1 * values).astype(np.float32)
    embedding = any(part in name for part in ("embed", "wte", "wpe"))
    return (values * (0.3 if embedding else shape[-1] ** -0.5)).astype(np.float32)


def direction(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A fixed vector to compare gradients with."""
    generator = np.random.Generator(np.random.Philox(key=crc32(b"direction " + name.encode())))
    return generator.standard_normal(shape, dtype=np.float64)
