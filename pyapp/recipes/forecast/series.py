"""Series that are made up, as the past of shops, loads and weather looks: trends, seasons, walks, events and noise.

Each row is made from a seed and its number, so none is used twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERIODS = (4, 5, 7, 12, 24, 30, 48, 52, 60, 96)
SMALLEST = 1e-6  # the deviation of a past that does not change


def made_series(count: int, length: int, *name: int) -> NDArray[np.float64]:
    """(count, length) float64, the same for the same whole numbers `name`."""
    random = np.random.Generator(np.random.PCG64(list(name)))
    return np.stack([_series(random, length) for _ in range(count)])


def batch_of(count: int, past: int, horizon: int, *name: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Series whose past has the mean 0 and the deviation 1: that past (count, past), and what follows it
    (count, horizon).
    """
    rows = made_series(count, past + horizon, *name)
    place, scale = rows[:, :past].mean(1, keepdims=True), rows[:, :past].std(1, keepdims=True)
    rows = (rows - place) / np.where(scale < SMALLEST, 1.0, scale)
    rows = np.clip(rows, -20, 20).astype(np.float32)  # what no past tells does not decide a step
    return rows[:, :past], rows[:, past:]


def _series(random: Any, length: int) -> NDArray[np.float64]:
    time = np.arange(length, dtype=np.float64)
    trend = _trend(random, time) * random.choice([0.0, 0.5, 1.0, 2.0])
    season = np.zeros(length)
    for _ in range(random.choice([0, 1, 1, 1, 2, 2])):
        season += _season(random, time)
    noise = _noise(random, length) * 10 ** random.uniform(-2.0, 0.1)
    kind = random.random()
    if kind < 0.25:  # the swing grows with the level
        return np.exp(0.5 * trend + 0.3 * season + 0.2 * noise)
    found = trend + season + noise
    if kind < 0.33:  # counts, of which many may be none
        rate = np.exp(np.clip(found, -4, 3)) * 10 ** random.uniform(-0.5, 1.5)
        return random.poisson(rate).astype(np.float64)
    if kind < 0.38:  # what cannot fall below a floor
        return np.maximum(found, np.quantile(found, random.uniform(0.1, 0.5)))
    if kind < 0.44:  # events of some days
        found = found + (random.random(length) < 0.03) * random.normal(0, 3)
    if kind < 0.46:
        found = np.full(length, random.normal())
    return found


def _trend(random: Any, time: NDArray[np.float64]) -> NDArray[np.float64]:
    """From a line to a walk, of a height of about 1."""
    length = len(time)
    share = time / length
    kind = random.integers(5)
    if kind == 0:
        return random.normal() * 2 * share
    if kind == 1:  # it comes to rest, or sets out
        speed = random.uniform(1, 6)
        way = 1 - np.exp(-speed * share)
        return random.normal() * 1.5 * (way if random.random() < 0.7 else way[::-1])
    if kind == 2:  # lines with bends
        bends = random.integers(1, 4)
        slopes = random.normal(0, 3, bends + 1)
        places = np.sort(random.integers(0, length, bends))
        return np.cumsum(slopes[np.searchsorted(places, time, "right")]) / length
    if kind == 3:
        return np.cumsum(random.normal(0, 1, length)) * 2 / np.sqrt(length)
    level = np.zeros(length)  # steps
    for place in random.integers(0, int(0.8 * length), random.integers(1, 4)):  # no past tells of one that comes
        level[place:] += random.normal()
    return level


def _season(random: Any, time: NDArray[np.float64]) -> NDArray[np.float64]:
    """What comes back: waves, or any pattern of a period."""
    usual = random.random() < 0.7
    period = float(random.choice(PERIODS)) if usual else float(np.exp(random.uniform(np.log(3), np.log(120))))
    strength = 10 ** random.uniform(-0.7, 0.3)
    phase = (time + random.uniform(0, period)) / period
    if random.random() < 0.4 and usual:  # each place of the period has a height of its own
        heights = random.normal(0, 1, int(period))
        if period > 12:
            heights = np.convolve(np.concatenate([heights, heights[:4]]), np.full(5, 0.4), "valid")
        pattern = heights[(np.floor(phase * period) % period).astype(np.int64)]
    else:
        pattern = np.zeros(len(time))
        for wave in range(1, random.integers(1, 5) + 1):
            pattern += random.normal() / wave * np.sin(2 * np.pi * (wave * phase + random.random()))
    if random.random() < 0.15:  # it fades, or grows
        pattern = pattern * np.linspace(random.uniform(0.2, 1.5), 1.0, len(time))
    return strength * pattern


def _noise(random: Any, length: int) -> NDArray[np.float64]:
    """White, with far outliers, or each value near the one before it."""
    kind = random.random()
    if kind < 0.5:
        return random.normal(0, 1, length)
    if kind < 0.65:
        return random.standard_t(3, length) * 0.7
    share, found = random.uniform(0.3, 0.98), random.normal(0, 1, length)
    for at in range(1, length):
        found[at] = share * found[at - 1] + found[at] * np.sqrt(1 - share * share)
    return found
