"""Initial values of weights, by Keras' names and with its defaults."""

from __future__ import annotations

from copy import copy
from math import pi, prod, sqrt
from typing import Any

from ..engine import Tensor, ops
from ..engine.dtype import as_dtype
from ..engine.ops import fourier
from ..engine.ops.random import Generator
from ..nn import init
from ..train.floats import floatx
from .lookup import Configured, Lookup
from .lookup import serialize as serialize
from .random import generator_of

WINDOWS: dict[str, Any] = {
    "hann": fourier.hann_window, "hamming": fourier.hamming_window, "blackman": fourier.blackman_window,
    "bartlett": fourier.bartlett_window, "boxcar": lambda length, periodic, dtype: ops.ones(length, dtype=dtype),
}  # fmt: skip


def fans(shape: tuple[int, ...], input_axes: Any = None, output_axes: Any = None) -> tuple[float, float]:
    """(inputs, outputs) of one unit, as Keras counts them: the last two dims are the channels, those before the
    window; or the products of the dims that are given as axes."""
    if input_axes is not None or output_axes is not None:
        if input_axes is None or output_axes is None:
            raise ValueError("input_axes and output_axes are given together")
        several = ((axes,) if isinstance(axes, int) else axes for axes in (input_axes, output_axes))
        inputs, outputs = (float(prod(shape[axis] for axis in axes)) for axes in several)
        return inputs, outputs
    if not shape:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    window = prod(shape[:-2])
    return float(window * shape[-2]), float(window * shape[-1])


class Initializer(Configured):
    """Base: `initializer(shape, dtype)` gives a tensor. One of your own writes `__call__`."""

    keras_module = "keras.initializers"

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        return self.fill(ops.empty(tuple(shape), dtype="float32")).to(as_dtype(dtype or floatx()))

    def clone(self) -> Any:
        """Another one, made with the same arguments."""
        return type(self).from_config(self.get_config())

    def fill(self, x: Tensor) -> Tensor:
        """Writes the values, in place."""
        raise NotImplementedError


class Zeros(Initializer):
    """0 everywhere."""

    def fill(self, x: Tensor) -> Tensor:
        return x.fill_(0.0)


class Ones(Initializer):
    """1 everywhere."""

    def fill(self, x: Tensor) -> Tensor:
        return x.fill_(1.0)


class Constant(Initializer):
    """`value`, a number or an array that broadcasts to the shape."""

    def __init__(self, value: Any = 0.0) -> None:
        self.value = value

    def fill(self, x: Tensor) -> Tensor:
        return x.copy_(ops.as_tensor(self.value).to(x.dtype).expand(x.shape))


class Identity(Initializer):
    """`gain` on the diagonal of a matrix, else 0."""

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def fill(self, x: Tensor) -> Tensor:
        if x.ndim != 2:
            raise ValueError(f"Identity: takes a matrix, not {x.ndim} dims")
        return x.copy_(ops.eye(x.shape[0], x.shape[1]) * self.gain)


class _Random(Initializer):
    """Base of random values. With a seed each call gives the same values, as in Keras; a SeedGenerator goes on."""

    def __init__(self, seed: Any) -> None:
        self.seed = seed

    @property
    def _generator(self) -> Generator | None:
        return generator_of(self.seed)


class RandomNormal(_Random):
    """Normal, with a mean and a standard deviation."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def fill(self, x: Tensor) -> Tensor:
        return init.normal_(x, self.mean, self.stddev, self._generator)


class RandomUniform(_Random):
    """Uniform between minval and maxval."""

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.minval, self.maxval = minval, maxval

    def fill(self, x: Tensor) -> Tensor:
        return init.uniform_(x, self.minval, self.maxval, self._generator)


class TruncatedNormal(_Random):
    """Normal within two standard deviations."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def fill(self, x: Tensor) -> Tensor:
        m, s = self.mean, self.stddev
        return init.trunc_normal_(x, m, s, m - 2 * s, m + 2 * s, self._generator)


class VarianceScaling(_Random):
    """Values whose variance is `scale` / fan (Glorot and Bengio 2010, He et al. 2015)."""

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
        seed: int | None = None, input_axes: Any = None, output_axes: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(seed)
        self.axes = (input_axes, output_axes)
        if scale <= 0 or mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError("VarianceScaling: scale must be > 0, mode one of fan_in, fan_out, fan_avg")
        if distribution not in ("truncated_normal", "untruncated_normal", "uniform"):
            raise ValueError("VarianceScaling: distribution is truncated_normal, untruncated_normal or uniform")
        self.scale, self.mode, self.distribution = scale, mode, distribution

    def with_axes(self, input_axes: Any, output_axes: Any) -> VarianceScaling:
        """The same, for a weight whose axes are the inputs and the outputs of a unit."""
        found = copy(self)
        found.axes = (input_axes, output_axes)
        return found

    def fill(self, x: Tensor) -> Tensor:
        inputs, outputs = fans(x.shape, *self.axes)
        fan = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[self.mode]
        variance = self.scale / max(1.0, fan)
        if self.distribution == "uniform":
            limit = sqrt(3 * variance)
            return init.uniform_(x, -limit, limit, self._generator)
        if self.distribution == "untruncated_normal":
            return init.normal_(x, 0.0, sqrt(variance), self._generator)
        deviation = sqrt(variance) / 0.87962566103423978  # of a normal distribution cut at two deviations
        return init.trunc_normal_(x, 0.0, deviation, -2 * deviation, 2 * deviation, self._generator)


class GlorotUniform(VarianceScaling):
    """Uniform within ±sqrt(6 / (fan_in + fan_out))."""

    def __init__(self, seed: int | None = None, input_axes: Any = None, output_axes: Any = None) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, input_axes, output_axes)


class GlorotNormal(VarianceScaling):
    """Truncated normal of variance 2 / (fan_in + fan_out)."""

    def __init__(self, seed: int | None = None, input_axes: Any = None, output_axes: Any = None) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, input_axes, output_axes)


class HeUniform(VarianceScaling):
    """Uniform within ±sqrt(6 / fan_in)."""

    def __init__(self, seed: int | None = None, input_axes: Any = None, output_axes: Any = None) -> None:
        super().__init__(2.0, "fan_in", "uniform", seed, input_axes, output_axes)


class HeNormal(VarianceScaling):
    """Truncated normal of variance 2 / fan_in."""

    def __init__(self, seed: int | None = None, input_axes: Any = None, output_axes: Any = None) -> None:
        super().__init__(2.0, "fan_in", "truncated_normal", seed, input_axes, output_axes)


class LecunUniform(VarianceScaling):
    """Uniform within ±sqrt(3 / fan_in)."""

    def __init__(self, seed: int | None = None, input_axes: Any = None, output_axes: Any = None) -> None:
        super().__init__(1.0, "fan_in", "uniform", seed, input_axes, output_axes)


class LecunNormal(VarianceScaling):
    """Truncated normal of variance 1 / fan_in."""

    def __init__(self, seed: int | None = None, input_axes: Any = None, output_axes: Any = None) -> None:
        super().__init__(1.0, "fan_in", "truncated_normal", seed, input_axes, output_axes)


class Orthogonal(_Random):
    """Orthogonal rows or columns (Saxe et al. 2013, arXiv 1312.6120)."""

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        super().__init__(seed)
        self.gain = gain

    def fill(self, x: Tensor) -> Tensor:
        if x.ndim < 2:
            raise ValueError(f"Orthogonal: takes at least two dims, not {x.ndim}")
        flat = ops.empty((prod(x.shape[:-1]), x.shape[-1]))
        return x.copy_(init.orthogonal_(flat, self.gain, self._generator).reshape(x.shape))


class STFT(Initializer):
    """The kernels (frame_length, 1, frequencies) whose convolution is a Fourier transform of windows: the part `side`
    (real or imag) of exp(-2 pi i t f), times the window. scaling "density" divides by the root of the sum of the
    window's squares, "spectrum" by its sum."""

    def __init__(
        self, side: str = "real", window: Any = "hann", scaling: str | None = "density", periodic: bool = False
    ) -> None:
        if side not in ("real", "imag"):
            raise ValueError(f"STFT: side is real or imag, not {side!r}")
        if scaling not in ("density", "spectrum", None):
            raise ValueError(f"STFT: scaling is density, spectrum or None, not {scaling!r}")
        if isinstance(window, str) and window not in WINDOWS:
            raise ValueError(f"STFT: window is one of {', '.join(WINDOWS)}, or an array, not {window!r}")
        self.side, self.window, self.scaling, self.periodic = side, window, scaling, periodic

    def fill(self, x: Tensor) -> Tensor:
        length, _, count = x.shape
        turns = ops.arange(length, dtype="float64").unsqueeze(1) * ops.arange(count, dtype="float64") / (2 * count - 2)
        values = (-2 * pi * turns).cos() if self.side == "real" else (-2 * pi * turns).sin()
        if self.window is not None:
            if isinstance(self.window, str):
                weights = WINDOWS[self.window](length, self.periodic, dtype="float64")
            else:
                weights = ops.as_tensor(self.window).to("float64")
            if tuple(weights.shape) != (length,):
                raise ValueError(f"STFT: the window has the shape {tuple(weights.shape)}, not ({length},)")
            scale = 1.0
            if self.scaling is not None:
                scale = weights.square().sum().sqrt() if self.scaling == "density" else weights.abs().sum()
            values = values * weights.unsqueeze(1) / scale
        return x.copy_(values.to(x.dtype).unsqueeze(1))


STFTInitializer, IdentityInitializer, OrthogonalInitializer = STFT, Identity, Orthogonal
zeros, ones, constant, identity, orthogonal, stft = Zeros, Ones, Constant, Identity, Orthogonal, STFT
random_normal, random_uniform, truncated_normal = RandomNormal, RandomUniform, TruncatedNormal
variance_scaling = VarianceScaling
glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal = (
    GlorotUniform, GlorotNormal, HeUniform, HeNormal, LecunUniform, LecunNormal
)  # fmt: skip

_ALIASES = {"uniform": "RandomUniform", "normal": "RandomNormal", "zero": "Zeros", "one": "Ones"}
_lookup = Lookup("initializer", globals(), Initializer, _ALIASES)
get, deserialize = _lookup.get, _lookup.deserialize
