"""Windows of signals, by torch.signal.windows' names.

Each is a vector of M numbers, float32 unless a dtype (float32 or float64) is given: symmetric for the design of
filters, or with `sym=False` a period for spectra. ValueError for a negative M.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from operator import index
from typing import Any

from ..engine.declare import publish
from ..engine.dtype import Default, as_dtype, float32, float64
from ..engine.lazy import np
from ..engine.ops.create import tensor
from ..engine.ops.elementwise.bessel import i0
from ..engine.tensor import Tensor
from ..engine.torch_arguments import as_factory

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


def _made(name: str, M: Any, dtype: Any, values: Callable[[int], Any]) -> Tensor:
    """What `values` gives for M, computed in float64; 1 where there is one number alone."""
    size, kind = index(M), as_dtype(dtype or Default.dtype)
    if size < 0:
        raise ValueError(f"{name}: the length {size} of the window is not 0 or more")
    if kind not in (float32, float64):
        raise ValueError(f"{name}: windows are of float32 or float64, not {kind}")
    return tensor(values(size) if size else np.zeros(0), dtype=kind)


def _steps(size: int, sym: bool) -> int:
    """From one end to the other, or to the next period."""
    return size - 1 if sym and size > 1 else size


def _of_cosines(name: str, M: int, a: Iterable[float], sym: bool, dtype: Any) -> Tensor:
    """Σ (-1)^i a_i cos(2π i k / N)."""
    if not isinstance(a, Iterable):
        raise TypeError(f"{name}: a is a list of factors, not {a!r}")
    factors = list(a)
    if not factors:
        raise ValueError(f"{name}: a has no factors")

    def values(size: int) -> Any:
        if size == 1:
            return np.ones(1)
        angle = np.arange(size) * (2 * math.pi / _steps(size, sym))
        return sum((-1) ** i * factor * np.cos(i * angle) for i, factor in enumerate(factors))

    return _made(name, M, dtype, values)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None) -> Tensor:
    """Cosines of 0, 1, 2 … periods, with the factors a and signs that alternate."""
    return _of_cosines("general_cosine", M, a, sym, dtype)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None) -> Tensor:
    """alpha - (1 - alpha) cos(2πk / N)."""
    return _of_cosines("general_hamming", M, [alpha, 1 - alpha], sym, dtype)


def hamming(M: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    """0.54 - 0.46 cos(2πk / N)."""
    return _of_cosines("hamming", M, [0.54, 0.46], sym, dtype)


def hann(M: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    """½ - ½ cos(2πk / N)."""
    return _of_cosines("hann", M, [0.5, 0.5], sym, dtype)


def blackman(M: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    """0.42 - ½ cos(2πk / N) + 0.08 cos(4πk / N)."""
    return _of_cosines("blackman", M, [0.42, 0.5, 0.08], sym, dtype)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    """The window of four terms by Nuttall (1981), with low side lobes."""
    return _of_cosines("nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, dtype)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    """A triangle, 0 at its ends."""

    def values(size: int) -> Any:
        return np.ones(1) if size == 1 else 1 - np.abs(2 * np.arange(size) / _steps(size, sym) - 1)

    return _made("bartlett", M, dtype, values)


def cosine(M: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    """Half a period of a sine."""

    def values(size: int) -> Any:
        return np.sin((np.arange(size) + 0.5) * (math.pi / (size + 1 if not sym and size > 1 else size)))

    return _made("cosine", M, dtype, values)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None
) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau); `center` is the middle, or given where sym is False."""
    if tau <= 0:
        raise ValueError(f"exponential: tau is above 0, got {tau}")
    if sym and center is not None:
        raise ValueError("exponential: a symmetric window has its center in the middle; use sym=False to give one")

    def values(size: int) -> Any:
        middle = (size if not sym and size > 1 else size - 1) / 2 if center is None else center
        return np.exp(-np.abs(np.arange(size) - middle) / tau)

    return _made("exponential", M, dtype, values)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None) -> Tensor:
    """exp(-½ (distance from the middle / std)²)."""
    if std <= 0:
        raise ValueError(f"gaussian: std is above 0, got {std}")

    def values(size: int) -> Any:
        middle = (size if not sym and size > 1 else size - 1) / 2
        return np.exp(-0.5 * ((np.arange(size) - middle) / std) ** 2)

    return _made("gaussian", M, dtype, values)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None) -> Tensor:
    """I₀(β sqrt(1 - x²)) / I₀(β) for x from -1 to 1."""
    if beta < 0:
        raise ValueError(f"kaiser: beta is 0 or more, got {beta}")

    def values(size: int) -> Any:
        if size == 1:
            return np.ones(1)
        x = np.minimum(2 * np.arange(size) / _steps(size, sym) - 1, 1.0)
        arguments = np.append(beta * np.sqrt(1 - x * x), beta)  # the last one for the denominator
        found = i0(tensor(arguments, dtype=float64)).numpy()
        return found[:-1] / found[-1]

    return _made("kaiser", M, dtype, values)


publish(globals(), __all__)
globals().update({name: as_factory(globals()[name]) for name in __all__})
