"""Random tensors by the names of keras.random. `seed` is a number, which gives the same values each time, a
SeedGenerator, whose calls go on, or None for the default generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..engine import Tensor, as_dtype, ops
from ..engine.lazy import np
from ..engine.ops.random import Generator, default_generator
from ..nn import init
from ..nn.functional import dropout as _dropout
from ..train.floats import floatx

__all__ = [
    "SeedGenerator", "beta", "binomial", "categorical", "dropout", "gamma", "normal", "randint", "shuffle",
    "truncated_normal", "uniform",
]  # fmt: skip


class SeedGenerator:
    """The seed of functions of this module that goes on from call to call."""

    def __init__(self, seed: int | None = None, name: str | None = None, **_: Any) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ValueError(f"SeedGenerator: the seed is a whole number, not {seed!r:.60}")
        self.seed, self.name = seed, name or "seed_generator"
        self.generator = None if seed is None else Generator(seed)

    @property
    def state(self) -> Tensor:
        """(2,) int64: the seed, and how much has been drawn since (in blocks of four numbers)."""
        return ops.tensor(list((self.generator or default_generator).get_state()), dtype="int64")

    def next(self, ordered: bool = True) -> Tensor:
        """The state, (2,) int64, which functions of this module take as their seed; then it goes on by one."""
        found = self.state
        generator = self.generator or default_generator
        generator.set_state((generator.initial_seed(), generator.offset + 1))
        return found

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "name": self.name}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SeedGenerator:
        return cls(**config)


def generator_of(seed: Any) -> Generator | None:
    """The generator of a seed, of a SeedGenerator or of its state, or itself; None for the default one."""
    if isinstance(seed, Generator):
        return seed
    if isinstance(seed, Tensor) and seed.shape == (2,):
        made = Generator()
        made.set_state((int(seed[0].item()), int(seed[1].item())))
        return made
    return seed.generator if isinstance(seed, SeedGenerator) else None if seed is None else Generator(int(seed))


def normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    """Normally distributed numbers."""
    found = ops.randn(tuple(shape), generator=generator_of(seed)) * stddev + mean
    return found.to(as_dtype(dtype or floatx()))


def truncated_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    """Normally distributed numbers within two standard deviations."""
    low, high = mean - 2 * stddev, mean + 2 * stddev
    found = init.trunc_normal_(ops.empty(tuple(shape), dtype="float32"), mean, stddev, low, high, generator_of(seed))
    return found.to(as_dtype(dtype or floatx()))


def uniform(shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None) -> Tensor:
    """Numbers from minval up to maxval; whole ones for integer dtypes."""
    kind = as_dtype(dtype or floatx())
    if not kind.is_floating_point:
        return randint(shape, int(minval), int(maxval), dtype, seed)
    return (ops.rand(tuple(shape), generator=generator_of(seed)) * (maxval - minval) + minval).to(kind)


def randint(shape: Any, minval: int, maxval: int, dtype: Any = "int32", seed: Any = None) -> Tensor:
    """Whole numbers minval .. maxval - 1."""
    return ops.randint(minval, maxval, tuple(shape), generator=generator_of(seed)).to(as_dtype(dtype))


def categorical(logits: Any, num_samples: int, dtype: Any = "int32", seed: Any = None) -> Tensor:
    """Class numbers (B, num_samples) drawn by logits (B, classes)."""
    chances = ops.as_tensor(logits).softmax(-1)
    found = ops.multinomial(chances, num_samples, replacement=True, generator=generator_of(seed))
    return found.to(as_dtype(dtype))


def _drawn(seed: Any, shape: Any, dtype: Any, draw: Callable[[Any, tuple[int, ...]], Any]) -> Tensor:
    """Numbers that NumPy draws, from a seed that the generator gives."""
    first = int(ops.randint(0, 1 << 30, (1,), generator=generator_of(seed)).item())
    found = np.asarray(draw(np.random.default_rng(first), tuple(shape)), "float32")
    return ops.as_tensor(found).to(as_dtype(dtype or floatx()))


def _numbers(x: Any) -> Any:
    return np.asarray(x.numpy() if isinstance(x, Tensor) else x, "float64")


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """Numbers of the gamma distribution with the shape parameter alpha and the scale 1."""
    return _drawn(seed, shape, dtype, lambda random, size: random.standard_gamma(_numbers(alpha), size))


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """Numbers of the beta distribution, in [0, 1]."""
    return _drawn(seed, shape, dtype, lambda random, size: random.beta(_numbers(alpha), _numbers(beta), size))


def binomial(shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> Tensor:
    """How many of `counts` trials succeed, each with its probability."""
    return _drawn(
        seed, shape, dtype,
        lambda random, size: random.binomial(_numbers(counts).astype("int64"), _numbers(probabilities), size),
    )  # fmt: skip


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Tensor:
    """The slices along an axis in a random order."""
    x = ops.as_tensor(x)
    return x.index_select(axis, ops.randperm(x.shape[axis], generator=generator_of(seed)))


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Tensor:
    """Zeroes a share of the elements and divides the rest by 1 - rate. `noise_shape` has 1 for dims along which all
    elements share one fate, and the size or None for the others."""
    x = ops.as_tensor(inputs)
    if noise_shape is None:
        return _dropout(x, rate, generator=generator_of(seed))
    shape = [size if given is None else given for given, size in zip(noise_shape, x.shape, strict=True)]
    return x * _dropout(ops.ones(shape, dtype=x.dtype, device=x.device), rate, generator=generator_of(seed))
