"""Seeded random numbers: Philox4x32-10 (Salmon et al. 2011), a counter-based generator; the same bits on every
platform.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import cache
from itertools import accumulate
from math import inf, log1p
from operator import index
from typing import Any

from .. import dtype as _dtype
from ..declare import function, method
from ..device import Device, cpu, get_default_device
from ..in_place import tracked
from ..launch import KERNELS, Recorder, recorder, stop_capture
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..operands import common_dtype
from ..shape import as_shape, broadcast_shapes, dense_layout
from ..storage import CAPTURES, Storage
from ..tensor import C_TYPES, Tensor, check_device, empty_contiguous, make
from ..user_errors import describe
from .dtype_limits import finfo, iinfo
from .sorting import argsort

_UNIFORM = KERNELS["random_uniform"]
_NORMAL = KERNELS["random_normal"]


@function()
class Generator:
    """A seed, and the number of blocks of four words drawn from it. A device may come first, as in torch."""

    def __init__(self, seed: Any = None, device: Any = None) -> None:
        if isinstance(seed, (str, Device)):
            seed, device = None, seed
        check_device(device)
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1 if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Restarts the sequence with `seed` (64 bits)."""
        stop_capture("a generator is seeded")
        self._seed = int(seed) & 0xFFFFFFFFFFFFFFFF
        self.offset = 0
        return self

    @property
    def device(self) -> Any:
        """The device on which numbers are drawn: the CPU."""
        return cpu

    def initial_seed(self) -> int:
        """The seed that was set last."""
        return self._seed

    def seed(self) -> int:
        """Restarts the sequence with a seed of the system's randomness, and returns the seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1).initial_seed()

    def clone_state(self) -> Generator:
        """A copy of the generator with the same state."""
        made = Generator(self._seed)
        made.offset = self.offset
        return made

    def get_state(self) -> tuple[int, int]:
        """The complete state: (seed, offset)."""
        return self._seed, self.offset

    def set_state(self, state: tuple[int, int]) -> None:
        """Restores (seed, offset) of `get_state`. TypeError for anything else, ValueError for other numbers."""
        if not isinstance(state, (tuple, list)) or len(state) != 2 or not all(isinstance(n, int) for n in state):
            raise TypeError(f"set_state: takes (seed, offset) of get_state(), not {state!r:.60}")
        if not (0 <= state[0] < 1 << 64 and 0 <= state[1] < 1 << 63):
            raise ValueError(f"set_state: the seed has 64 bits, the offset 63; got {state!r:.60}")
        self._seed, self.offset = int(state[0]), int(state[1])

    def fill(self, kernel: Any, target: Tensor) -> None:
        """Fills a dense float32 tensor and advances the state. A Graph draws other numbers at each replay, those that
        the generator then gives."""
        count, state, offset = target.numel(), None, self.offset
        recording = recorder()
        if recording is not None:
            state = self._replayed(recording).on(target.device, self)
            if state is not None:
                offset -= recording.shared["random", id(self)].offset
        kernel.launch(count >> 8, target, state, count, _signed(self._seed), offset)
        self.offset += (count + 3) // 4

    def _replayed(self, recording: Recorder) -> _Replayed:
        made = recording.shared.get(("random", id(self)))
        if made is None:
            made = recording.shared["random", id(self)] = _Replayed(self)
            recording.actions.append(made.advance)
            recording.at_end.append(made.complete)
        return made


def _signed(seed: int) -> int:
    return seed - (1 << 64) if seed >> 63 else seed


class _Replayed:
    """A generator's state in a Graph: before a replay it is written for the kernels, and the generator moves on by as
    much as the function has drawn."""

    def __init__(self, generator: Generator) -> None:
        self.generator, self.seed, self.offset = generator, generator.initial_seed(), generator.offset
        self.total = 0  # blocks that the function draws; known when it has ended
        self.tensors: dict[Any, Tensor] = {}

    def on(self, device: Any, generator: Generator) -> Tensor | None:
        """The state (2,) int64 in a device's memory; None where the recording ends, since another seed was set."""
        if generator.initial_seed() != self.seed or generator.offset < self.offset:
            stop_capture("random numbers are drawn after a new seed was set")
            return None
        found = self.tensors.get(device)
        if found is None:
            found = self.tensors[device] = make(Storage.outside_graphs(16, device), (2,), (1,), _dtype.int64)
            found.assign_constants((_signed(self.seed), self.offset))
        return found

    def complete(self) -> None:
        self.total = self.generator.offset - self.offset

    def advance(self) -> None:
        generator = self.generator
        for tensor in self.tensors.values():
            tensor.assign_constants((_signed(generator.initial_seed()), generator.offset))
        generator.offset += self.total


default_generator = function("default_generator")(Generator(0))


@function()
def manual_seed(seed: int) -> Generator:
    """Seeds the default generator."""
    return default_generator.manual_seed(seed)


def _finish(x: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if dtype is not None or device is not None:
        x = x.to(dtype=dtype, device=device)
    return x.requires_grad_() if requires_grad else x


def _float(dtype: Any) -> Any:
    """The dtype to which float32 numbers are converted; None: no conversion."""
    return _dtype.Default.dtype if dtype is None and _dtype.Default.dtype is not _dtype.float32 else dtype


def _check_float(name: str, dtype: Any) -> None:
    """TypeError for a dtype that random fractions would be cut to."""
    kind = _dtype.Default.dtype if dtype is None else _dtype.as_dtype(dtype)
    if not kind.has_gradient:
        hint = "convert them with .to(dtype)" if kind.is_quantized else "use randint()"
        raise TypeError(f"{name}: draws floating-point numbers, not {kind}; {hint}")


def _drawn(kernel: Any, size: Any, generator: Generator | None, dtype: Any, device: Any) -> Tensor:
    """Numbers of a dtype. The parts of complex ones are drawn one after the other; of normal ones each has the
    variance 1/2, so that the numbers have 1."""
    kind = _float(dtype)
    if kind is None or not _dtype.as_dtype(kind).is_complex:
        return _finish(_draw(kernel, size, generator, device), kind, None, False)
    parts = _draw(kernel, (*as_shape(size), 2), generator, device).to(_dtype.as_dtype(kind).part)
    return (parts * 0.5**0.5 if kernel is _NORMAL else parts).view(_dtype.as_dtype(kind)).squeeze(-1)


def _draw(kernel: Any, size: Any, generator: Generator | None, device: Any = None) -> Tensor:
    source = generator or default_generator
    target = empty_contiguous(as_shape(size), _dtype.float32, check_device(device))
    source.fill(kernel, target)
    return target


@function(factory=True)
def rand(
    *sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform in [0, 1), as both parts of complex numbers are. TypeError for a dtype of integers."""
    _check_float("rand", dtype)
    made = _drawn(_UNIFORM, sizes if size is None else size, generator, dtype, device)
    return made.requires_grad_() if requires_grad else made


@function(factory=True)
def randn(
    *sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Standard normal; the parts of complex numbers have the variance 1/2. TypeError for a dtype of integers."""
    _check_float("randn", dtype)
    made = _drawn(_NORMAL, sizes if size is None else size, generator, dtype, device)
    return made.requires_grad_() if requires_grad else made


def _like(draw: Any, what: str) -> Any:
    def like(
        input: Tensor, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        kind = dtype or input.dtype
        _check_float(f"{draw.__name__}_like", kind)
        made = draw(
            input._shape, generator=generator, dtype=kind, device=device or input.device, requires_grad=requires_grad
        )
        return input._beside(made, random=True)

    like.__name__ = like.__qualname__ = f"{draw.__name__}_like"
    like.__doc__ = f"{what}, in the shape and dtype of the input."
    return like


rand_like = function("rand_like", factory=True)(_like(rand, "Uniform in [0, 1)"))
randn_like = function("randn_like", factory=True)(_like(randn, "Standard normal"))


def _words(count: int, generator: Generator | None) -> Any:
    """48 random bits for each of `count` integers, as float64 in [0, 1)."""
    pairs = array_of(rand((count, 2), generator=generator, device=cpu))
    words = pairs[:, 1].astype("float64")
    words *= 2.0**-24
    words += pairs[:, 0]
    return words


@function(factory=True)
def randint(
    low: int = 0, high: Any = None, size: Any = (), generator: Generator | None = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers low .. high - 1 (int64); randint(high, size) begins at 0. ValueError where the dtype does not hold
    these.
    """
    if isinstance(high, (tuple, list)):
        high, size = None, high
    if high is None:
        low, high = 0, low
    if high <= low:
        raise ValueError(f"randint: there is no integer from {low} up to and excluding {high}")
    low, high, kind = index(low), index(high), _dtype.as_dtype(dtype or "int64")
    if kind.is_quantized:
        raise TypeError(f"randint: draws integers, not {kind}; convert them with .to(dtype)")
    smallest, largest = limits_of(kind)
    for number in (low, high - 1):
        if not max(smallest, -(1 << 63)) <= number <= min(largest, (1 << 63) - 1):
            raise ValueError(f"randint: {number} is beyond the limits of {kind}")
    shape = as_shape((size,))
    if kind is _dtype.int64 and device is None and high - low <= 1 << 48 and not CAPTURES.count:
        count = dense_layout(shape)[0]
        if count <= _FEW_DRAWN and get_default_device() is cpu:
            return _finish(_few_integers(shape, count, low, high - low, generator), None, None, requires_grad)
    values = _integers(dense_layout(shape)[0], high - low, generator)
    if low:
        values += np.int64(low)
    return _finish(tensor_of(values.reshape(shape), kind), None, check_device(device), requires_grad)


_FEW_SAMPLES = 8
_FEW_DRAWN = 32  # integers that Python finds before NumPy has begun


def _few_integers(shape: Any, count: int, low: int, choices: int, generator: Generator | None) -> Tensor:
    """The integers of `_integers`, from `low` on, of the CPU."""
    return _few_numbers(shape, [int(word * choices) + low for word in _few_words(count, generator)])


def _few_words(count: int, generator: Generator | None) -> list[float]:
    """`_words`, for numbers that Python computes with."""
    drawn = empty_contiguous((2 * count,))
    (generator or default_generator).fill(_UNIFORM, drawn)
    words = iter((C_TYPES[_dtype.float32] * (2 * count)).from_address(drawn.address)[:])
    return [next(words) * 2.0**-24 + first for first in words]


def _few_numbers(shape: Any, numbers: list[int]) -> Tensor:
    """These integers as an int64 tensor of the CPU."""
    found = empty_contiguous(shape, _dtype.int64)
    (C_TYPES[_dtype.int64] * len(numbers)).from_address(found.address)[:] = numbers
    return found


_AT_ONCE = 1 << 16  # integers, whose intermediate numbers stay in cache; whole blocks of the generator


def _integers(count: int, choices: int, generator: Generator | None) -> Any:
    """`count` integers 0 .. choices - 1 (int64, which may wrap above 2^63)."""
    if choices <= 1 << 48:
        found = np.empty(count, "int64")
        for at in range(0, count, _AT_ONCE):
            part = found[at : at + _AT_ONCE]
            words = _words(len(part), generator)
            words *= choices
            part[:] = words
        return found
    bits = np.floor(_words(2 * count, generator).reshape(2, count) * 2.0**32).astype("uint64")
    return (((bits[0] << np.uint64(32)) | bits[1]) % np.uint64(choices)).astype("int64")


@cache
def limits_of(kind: _dtype.DType) -> tuple[float, float]:
    """The smallest and the largest number of a dtype."""
    if kind is _dtype.bool_:
        return 0, 1
    limits = finfo(kind) if kind.is_floating_point else iinfo(kind)
    return limits.min, limits.max


@function(factory=True)
def randperm(n: int, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """0 .. n - 1 in random order (int64). ValueError where a dtype does not hold these."""
    if dtype is not None:
        kind = _dtype.as_dtype(dtype)
        most = limits_of(kind)[1] if kind.category < 2 else 2 / finfo(kind).eps
        if n - 1 > most:
            raise ValueError(f"randperm: {n - 1} is beyond the whole numbers that {kind} holds")
    keys = (_words(n, generator) * 2.0**48).astype("int64")  # whose order is found faster than that of floats
    return _finish(argsort(tensor_of(keys)), dtype, check_device(device), False)


_SHORTEST = 1e-290  # a time to wait, which is not 0: divided by a weight of 0, that is not a number
_FEW_COMPARED = 1 << 16  # weights and draws of which all are compared: a call of searchsorted costs more


@function(method=True)
def multinomial(
    weights: Tensor, num_samples: int, replacement: bool = False, generator: Generator | None = None
) -> Tensor:
    """Indices (int64) drawn by weight: (C,) → (num_samples,), (R, C) → (R, num_samples)."""
    if weights.ndim not in (1, 2) or not weights.dtype.is_floating_point:
        raise TypeError(f"multinomial: takes floating-point weights (C,) or (R, C), not {describe(weights)}")
    if weights.numel() <= _FEW_DRAWN and (replacement or num_samples == 1) and 0 < num_samples <= _FEW_SAMPLES:
        if (
            weights.device is cpu
            and not CAPTURES.count
            and (found := _few_places(weights, num_samples, replacement, generator))
        ):
            return _few_numbers((*weights._shape[:-1], num_samples), found)
    rows = array_of(weights).astype("float64").reshape(-1, weights._shape[-1])
    totals = rows.sum(-1)
    if len(rows) and not (rows.size and rows.min() >= 0 and totals.min() > 0 and totals.max() < inf):
        raise ValueError(
            "multinomial: probability tensor contains either `inf`, `nan` or element < 0: weights must be finite, not "
            "negative, and not all zero in a row"
        )
    if not replacement and num_samples > 1 and ((rows > 0).sum(-1) < num_samples).any():
        raise ValueError(
            "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: cannot draw "
            f"{num_samples} different indices where fewer weights are above zero"
        )
    if replacement:
        mass = np.cumsum(rows / totals[:, None], -1)
        draws = _words(len(rows) * num_samples, generator).reshape(len(rows), num_samples)
        if rows.size * num_samples <= _FEW_COMPARED:
            picked = (mass[:, None] <= draws[..., None]).sum(-1)
        else:
            picked = np.stack([np.searchsorted(m, d, side="right") for m, d in zip(mass, draws, strict=True)])
        picked = np.minimum(picked, rows.shape[-1] - 1)
    else:  # exponential races: the first num_samples arrivals (Efraimidis & Spirakis 2006)
        draws = _words(rows.size, generator).reshape(rows.shape)
        waiting = np.maximum(-np.log1p(-draws), _SHORTEST)
        with np.errstate(divide="ignore", over="ignore"):
            arrival = waiting / rows  # infinite for a weight of 0
        picked = _first_places(arrival, num_samples)
    return tensor_of(picked.reshape(*weights._shape[:-1], num_samples), _dtype.int64).to(weights.device)


def _few_places(weights: Tensor, count: int, replacement: bool, generator: Generator | None) -> list[int]:
    """What multinomial draws of a few weights, found by Python before NumPy has begun; nothing where they are not
    weights."""
    values = weights.detach().tolist()
    rows = [values] if weights.ndim == 1 else values
    totals = [sum(row) for row in rows]
    for row, total in zip(rows, totals, strict=True):
        if not 0 < total < inf or min(row) < 0:
            return []
    picked = []
    if not replacement:  # the first arrival of exponential races
        words = iter(_few_words(weights.numel(), generator))
        for row in rows:
            arrivals = [max(-log1p(-next(words)), _SHORTEST) / weight if weight else inf for weight in row]
            picked.append(arrivals.index(min(arrivals)))
        return picked
    words = iter(_few_words(len(rows) * count, generator))
    for row, total in zip(rows, totals, strict=True):
        mass = list(accumulate([weight / total for weight in row]))
        picked += [min(bisect_right(mass, next(words)), len(row) - 1) for _ in range(count)]
    return picked


def _first_places(rows: Any, count: int) -> Any:
    """The places of the `count` smallest numbers of each row, in their order; of equal numbers the first ones."""
    if count == 1:
        return rows.argmin(-1)
    if rows.shape[1] > 4 * count:
        least = np.partition(rows, count, -1)[:, : count + 1]
        if (least[:, :count].max(-1) < least[:, count]).all():  # no number beyond them is as small
            places = np.sort(np.argpartition(rows, count, -1)[:, :count], -1)
            order = np.argsort(np.take_along_axis(rows, places, -1), -1, kind="stable")
            return np.take_along_axis(places, order, -1)
    return np.argsort(rows, -1, kind="stable")[:, :count]


def _draw_into(x: Tensor, kernel: Any, generator: Generator | None, factor: Any, shift: Any) -> Tensor:
    """Writes factor * number + shift into x. Float32 tensors are drawn where they lie: weights are large."""
    if x.dtype is not _dtype.float32 or not x.is_contiguous() or tracked(x, factor, shift):
        return x.copy_(_draw(kernel, x._shape, generator, x.device) * factor + shift)
    (generator or default_generator).fill(kernel, x)
    x._storage.version += 1
    if isinstance(factor, Tensor) or factor != 1:
        x.mul_(factor)
    return x.add_(shift) if isinstance(shift, Tensor) or shift != 0 else x


def _uniform_in_place(x: Tensor, low: float = 0.0, high: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Writes numbers from [low, high), into both parts of complex ones."""
    _check_float("uniform_", x.dtype)
    if not low <= high:
        raise ValueError(f"uniform_: {low} is above {high}")
    if x.dtype.is_complex:
        drawn = _drawn(_UNIFORM, x._shape, generator, x.dtype, x.device)
        return x.copy_(drawn * (high - low) + complex(low, low))
    return _draw_into(x, _UNIFORM, generator, high - low, low)


@method("normal_")
def _normal_in_place(x: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Writes numbers of the normal distribution."""
    _check_float("normal_", x.dtype)
    if not std >= 0:
        raise ValueError(f"normal_: the standard deviation is not negative, got {std}")
    if x.dtype.is_complex:
        return x.copy_(_drawn(_NORMAL, x._shape, generator, x.dtype, x.device) * std + mean)
    return _draw_into(x, _NORMAL, generator, std, mean)


@method("uniform_")
def _uniform_by_name(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """torch calls the limits `from`, which is a keyword of Python, and `to`."""
    names = {"from": "low", "to": "high"}
    return _uniform_in_place(x, *args, **{names.get(name, name): value for name, value in kwargs.items()})


def _are_probabilities(x: Tensor) -> bool:
    """Whether all elements lie between 0 and 1."""
    count = x.numel()
    if count <= _FEW_DRAWN and x.ndim == 1:
        for value in x.tolist():
            if not 0 <= value <= 1:
                return False
        return True
    return not count or (0 <= float(x.amin()) and float(x.amax()) <= 1)


@function(method=True)
def bernoulli(x: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element of x is, or `p`, else 0, in x's dtype. ValueError outside 0 .. 1."""
    if p is not None:
        if not 0 <= p <= 1:
            raise ValueError(f"bernoulli: the probability {p} must lie between 0 and 1")
        return (rand(x._shape, generator=generator, device=x.device) < p).to(x.dtype)
    if not _are_probabilities(x.detach()):
        raise ValueError(f"bernoulli: the probabilities in {describe(x)} must lie between 0 and 1")
    return (rand(x._shape, generator=generator, device=x.device) < x.detach()).to(x.dtype)


def _drawn_by_the_host(draw: Any, like: Tensor, generator: Generator | None) -> Tensor:
    """What NumPy draws from a seed of the generator, in the dtype and on the device of a tensor."""
    seed = int(randint(0, 2**31 - 1, (1,), generator).item())
    found = np.asarray(draw(np.random.default_rng(seed)), np.float64)
    return tensor_of(found.reshape(like._shape), like.dtype).to(like.device)


@function()
def poisson(x: Tensor, generator: Generator | None = None) -> Tensor:
    """A count for each element, of the mean that it is, in its dtype. ValueError for a negative mean."""
    rates = x.detach().to("cpu", dtype="float64").numpy()
    if not (rates >= 0).all():
        raise ValueError(f"poisson: the means in {describe(x)} must be at least 0")
    return _drawn_by_the_host(lambda draws: draws.poisson(rates), x, generator)


@function()
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with the probability `prob`; both of one floating-point dtype,
    broadcast. ValueError for a negative count and for probabilities outside 0 .. 1.
    """
    if not count.dtype.is_floating_point or count.dtype is not prob.dtype:
        raise TypeError(
            f"binomial: counts and probabilities are of one floating-point dtype, got {describe(count)} and "
            f"{describe(prob)}"
        )
    shape = broadcast_shapes(count._shape, prob._shape, op="binomial")
    most, chance = (v.detach().to("cpu", dtype="float64").expand(shape) for v in (count, prob))
    n, p = most.numpy(), chance.numpy()
    if not ((n >= 0) & (p >= 0) & (p <= 1)).all():
        raise ValueError(
            f"binomial: counts are at least 0 and probabilities from 0 to 1, not {describe(count)}, {describe(prob)}"
        )
    like = count.detach().expand(shape)
    return _drawn_by_the_host(lambda draws: draws.binomial(n.astype(np.int64), p), like, generator)


@function(factory=True)
def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None
) -> Tensor:
    """Normal numbers of mean and standard deviation: numbers with a size, and a dtype; or tensors, broadcast."""
    if not (isinstance(std, Tensor) and not std.numel()) and not (std.min() if isinstance(std, Tensor) else std) >= 0:
        raise ValueError(f"normal: the standard deviation is not negative, got {describe(std)}")
    shapes = [v._shape for v in (mean, std) if isinstance(v, Tensor)]
    if size is None and not shapes:
        raise ValueError("normal: two numbers need a size")
    shape = broadcast_shapes(*shapes, op="normal") if size is None else tuple(size)
    device = next((v.device for v in (mean, std) if isinstance(v, Tensor)), None)
    kind = dtype if dtype is not None or not shapes else common_dtype(mean, std)
    return randn(shape, generator=generator, device=device, dtype=kind) * std + mean


@function(factory=True)
def randint_like(
    x: Tensor, low: int, high: int | None = None, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Integers low .. high - 1 in the shape and dtype of x."""
    return randint(low, high, x._shape, generator, dtype or x.dtype, device=x.device)


@method("bernoulli_")
def _bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Writes 1 with probability p, else 0. ValueError outside 0 .. 1."""
    if not isinstance(p, Tensor):
        return x.copy_(bernoulli(x, p, generator=generator))
    if p.numel() and not (0 <= float(p.detach().amin()) and float(p.detach().amax()) <= 1):
        raise ValueError(f"bernoulli_: the probabilities in {describe(p)} must lie between 0 and 1")
    return x.copy_((rand(x._shape, generator=generator) < p).to(x.dtype))


@function()
def seed() -> int:
    """Seeds the default generator with the system's randomness, and returns the seed."""
    return default_generator.seed()


@function()
def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


@method("geometric_")
def _geometric(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Writes the number of trials of probability p up to the first success."""
    if not 0 < p < 1:
        raise ValueError(f"geometric_: the probability lies between 0 and 1, not {p}")
    u = rand(x._shape, generator=generator).clamp(2.0**-25)
    return x.copy_((u.log() / float(np.log1p(-p))).ceil().clamp(1))


@method("log_normal_")
def _log_normal(x: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Writes exp of normal numbers."""
    _check_float("log_normal_", x.dtype)
    if not std > 0:
        raise ValueError(f"log_normal_: the standard deviation must be above 0, not {std}")
    return x.copy_((randn(x._shape, generator=generator) * std + mean).exp())


@method("cauchy_")
def _cauchy(x: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Writes numbers of the Cauchy distribution."""
    _check_float("cauchy_", x.dtype)
    if not sigma > 0:
        raise ValueError(f"cauchy_: sigma must be above 0, not {sigma}")
    u = rand(x._shape, generator=generator)
    return x.copy_((u - 0.5).mul(np.pi).tan() * sigma + median)


@method("exponential_")
def _exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Writes numbers of the exponential distribution with rate `lambd`."""
    _check_float("exponential_", x.dtype)
    if not lambd > 0:
        raise ValueError(f"exponential_: the rate must be above 0, not {lambd}")
    return x.copy_((-rand(x._shape, generator=generator)).log1p() * (-1 / lambd))
