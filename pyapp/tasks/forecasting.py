"""The task of forecasting: the next values of series of numbers, and the quantiles between which they will lie."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.engine.lazy import np
from pyapp.errors import ModelError, OptionError
from pyapp.events import Done, Item, Notice, Progress
from pyapp.nn.forecasting import Wanted
from pyapp.text.generation.options import check_number

from .text_batches import Work
from .texts import stream_of

QUANTILES = (0.1, 0.5, 0.9)
MOST_SERIES = 1 << 16
LONGEST = 1 << 14  # values of a forecast
MOST_SAMPLES = 1 << 14
LARGEST = 3.4e38  # a value that float32 holds


def named_series(series: Any) -> dict[str, Any]:
    """The series by name: of a mapping, its own; of several without names, "0", "1" …; of one, "0"."""
    if isinstance(series, Mapping):
        return {str(name): values for name, values in series.items()}
    if isinstance(series, str | bytes | os.PathLike):
        raise OptionError(f"it is {series!r:.60}: expected numbers", where="series")
    values = list(series) if not isinstance(series, Tensor) or series.ndim else []
    several = any(isinstance(part, list | tuple | np.ndarray) or getattr(part, "ndim", 0) for part in values)
    return {str(number): part for number, part in enumerate(values)} if several else {"0": series}


def values_of(name: str, values: Any) -> Any:
    """float64 (T,) of a series. OptionError for what is not a number, for a gap (NaN, None), and for infinity."""
    where = f"series: {name}"
    if isinstance(values, Tensor):
        values = values.to("float64").cpu().numpy()
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise OptionError(f"{values!r:.60} is not a list of numbers", where=where)
    numeric = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fiu"
    for place, value in enumerate([] if numeric else values):
        if value is None:
            raise OptionError(f"value {place + 1} is missing", where=where, hint="Fill the gaps, or take what follows")
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise OptionError(f"value {place + 1} is {value!r:.40}, not a number", where=where)
    try:
        found = np.asarray(values if numeric else list(values), np.float64)
    except OverflowError:  # a whole number without end
        raise OptionError("a value is too large", where=where, hint="Scale the series down") from None
    bad = np.flatnonzero(~(np.abs(found) <= LARGEST))
    if len(bad):
        missing = math.isnan(found[bad[0]])
        raise OptionError(
            f"value {bad[0] + 1} is {'missing' if missing else f'{found[bad[0]]}, beyond what float32 holds'}",
            where=where, hint="Fill the gaps, or take what follows" if missing else "Scale the series down",
        )  # fmt: skip
    return found


def checked_quantiles(quantiles: Any) -> tuple[float, ...]:
    """The levels, ascending. OptionError for anything but numbers above 0 and below 1."""
    given = [quantiles] if isinstance(quantiles, int | float) else list(quantiles)
    for level in given:
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise OptionError(f"{level!r:.40} is not a number above 0 and below 1", where="quantiles")
    if len(given) > 99:
        raise OptionError(f"{len(given)} are too many: at most 99", where="quantiles")
    return tuple(sorted({float(level) for level in given}))


def _wanted(
    model: Any, horizon: int | None, quantiles: Any, samples: int | None, seed: int, frequency: int
) -> Wanted:  # fmt: skip
    """What a forecast is to have. OptionError for what the model cannot do."""
    horizon = model.horizon if horizon is None else horizon
    check_number("horizon", horizon, 1, LONGEST, whole=True)
    if model.longest is not None and horizon > model.longest:
        raise OptionError(
            f"the model forecasts {model.longest:,} values at most, not {horizon:,}", where="horizon",
            hint="Ask for fewer, or take a model such as TimesFM or Chronos",
        )  # fmt: skip
    check_number("frequency", frequency, 0, 1 << 10, whole=True)
    if frequency and frequency >= model.frequencies:
        what = f"this model has {model.frequencies} kinds" if model.frequencies > 1 else "this model takes none"
        raise OptionError(f"{what}, and {frequency} is given", where="frequency", hint="Leave it out")
    if samples is not None:
        check_number("samples", samples, 1, MOST_SAMPLES, whole=True)
        if not model.draws:
            raise OptionError("this model draws no paths", where="samples", hint="Leave it out")
    check_number("seed", seed, 0, (1 << 63) - 1, whole=True)
    usual: tuple[float, ...] = QUANTILES
    if model.levels is not None:
        usual = tuple(q for q in QUANTILES if model.levels and model.levels[0] <= q <= model.levels[-1])
    levels = checked_quantiles(usual if quantiles is None else quantiles)
    if levels and model.levels is not None:
        if not model.levels:
            raise OptionError("this model forecasts no quantiles", where="quantiles", hint="Leave them out")
        low, high = model.levels[0], model.levels[-1]
        if levels[0] < low or levels[-1] > high:
            raise OptionError(f"the model knows those from {low} to {high}", where="quantiles")
    return Wanted(horizon, levels, samples, seed, frequency)


def forecast_series(
    loaded: Any, series: Any, *, horizon: int | None = None, quantiles: Sequence[float] | None = None,
    samples: int | None = None, seed: int = 0, frequency: int = 0,
) -> Work:  # fmt: skip
    """Items with `name`, `forecast`, the next `horizon` values of a series, and `quantiles`: by each level ("0.1") the
    values below which that share of the future lies. `series`: numbers, several lists of them, or lists by name; the
    values are at equal distances in time, the last one is the newest.

    horizon: None, what the model was trained for. quantiles: the levels; None: those of 0.1, 0.5 and 0.9 that the
    model knows. samples: the paths that Chronos and distributions draw (None: the model's number), from `seed`.
    frequency: the kind of TimesFM: 0 up to daily values, 1 weekly and monthly ones, 2 quarterly and yearly ones. The
    forecast is the mean; of Chronos-Bolt and TimesFM 2.5 the median. A Notice says that only the end of a
    series is read. Done with `horizon`.
    """
    model = loaded.model
    wanted = _wanted(model, horizon, quantiles, samples, seed, frequency)
    known = {name: values_of(name, values) for name, values in named_series(series).items()}
    if not known:
        raise OptionError("at least one is needed", where="series")
    if len(known) > MOST_SERIES:
        raise OptionError(f"{len(known):,} are more than {MOST_SERIES:,}", where="series")
    if model.together > 1 and len(known) != model.together:
        raise OptionError(f"the model reads {model.together} together, and {len(known)} are given", where="series")
    for name, values in known.items():
        if len(values) < model.needs:
            need = f"{model.needs:,} value{'s' if model.needs > 1 else ''}"
            what = f"it has {len(values):,} values, the model needs {need}"
            raise OptionError(what, where=f"series: {name}", hint="Give more of the past, or take another model")
        if model.together > 1 and len(values) != len(next(iter(known.values()))):
            what = f"it has {len(values):,} values, {next(iter(known))} has {len(next(iter(known.values()))):,}"
            raise OptionError(what, where=f"series: {name}", hint="The model reads them together")
    longer = [name for name, values in known.items() if len(values) > model.reads]
    if longer:
        yield Notice(f"only the last {model.reads:,} values of {longer[0]} are read", where=loaded.name)
    names, total, written = list(known), len(known) * wanted.horizon, 0
    for first in range(0, len(names), model.together):
        chosen = names[first : first + model.together]
        past = np.stack([known[name][-model.reads :] for name in chosen]).astype(np.float32)  # (C, T)
        with no_grad():
            steps = model.forecasts(past, wanted)
            while True:
                try:
                    done = next(steps)
                except StopIteration as end:
                    found, levels = end.value
                    break
                yield Progress("forecast", first * wanted.horizon + done * len(chosen), total, "values")
        if not np.isfinite(found).all():
            raise ModelError("the model computes NaN", where=loaded.name, hint="Its weights may be damaged")
        for row, place in enumerate(model.chosen):
            by_level = {f"{level:g}": levels[row, :, i].tolist() for i, level in enumerate(wanted.quantiles)}
            yield Item(written, {"name": chosen[place], "forecast": found[row].tolist(), "quantiles": by_level})
            written += 1
    yield Done("complete", {"count": written, "horizon": wanted.horizon})


forecast = stream_of("forecast", forecast_series, remote=False)
