"""Linear biases of attention instead of positions (ALiBi, Press et al. 2021, arXiv 2108.12409)."""

from __future__ import annotations

from math import log2


def slopes(heads: int, most: float = 8.0) -> list[float]:
    """The slope of each head's biases: 2 ** -(most / heads), and its powers; where the number of heads is not a power
    of two, those of the next smaller one, and then every other one of the next larger one.
    """
    power = 1 << int(log2(heads))
    found = [2.0 ** (-most * i / power) for i in range(1, power + 1)]
    return found + [2.0 ** (-most * i / (2 * power)) for i in range(1, 2 * (heads - power) + 1, 2)]
