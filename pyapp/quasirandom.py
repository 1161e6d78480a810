"""torch.quasirandom: points of Sobol sequences, which fill a cube more evenly than random ones."""

from __future__ import annotations

import importlib
import warnings
from math import log2
from typing import Any

from .engine.dtype import Default, as_dtype
from .engine.ops import from_numpy, randint
from .engine.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points of a Sobol sequence in [0, 1)^`dimension` (Joe and Kuo 2008, https://web.maths.unsw.edu.au/~fkuo/sobol),
    at most 2^30 of up to 21,201 dims. SciPy computes them (scipy.stats.qmc), which must be installed.

    With `scramble` the bits are scrambled (Matoušek 1998) by random numbers: of `seed`, or of the default generator;
    they are not torch's. ImportError without SciPy, ValueError for a number of dims that there is not.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"SobolEngine: dimension is between 1 and {self.MAXDIM:,}, not {dimension}")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        drawn = int(randint(0, 1 << 31, (1,)).item()) if seed is None and scramble else seed
        try:
            kind = importlib.import_module("scipy.stats.qmc").Sobol
        except ImportError as error:
            raise ImportError("SobolEngine: needs SciPy, which computes the points: pip install scipy") from error
        self._points = kind(dimension, scramble=scramble, bits=self.MAXBIT, rng=drawn)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points (n, dimension), in `dtype` or the default dtype; also written into `out`."""
        kind = Default.dtype if dtype is None else as_dtype(dtype)
        if n < 0 or self.num_generated + n > 1 << self.MAXBIT:
            raise ValueError(
                f"draw: a sequence has 2^{self.MAXBIT} points: {self.num_generated:,} are drawn, not {n:,}"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that n is no power of two, which torch does not say either
            points = from_numpy(self._points.random(n)).to(kind)
        self.num_generated += n
        if out is None:
            return points
        out.resize_(points.shape).copy_(points)
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2^m points (2^m, dimension). ValueError if the number of all drawn points were no power of two, for
        which they are balanced."""
        total = self.num_generated + (1 << m)
        if log2(total) % 1:
            raise ValueError(
                f"draw_base2: {self.num_generated:,} points are drawn, and 2^{m} more are no power of two: use draw()"
            )
        return self.draw(1 << m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begins anew."""
        self._points.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out the next n points."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        notes = [f"dimension={self.dimension}"]
        notes += ["scramble=True"] if self.scramble else []
        notes += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(notes)})"
