"""Schedules over deviations of the noise: x is a picture with noise of the deviation `sigmas[i]` at step i.

The numbers are those of diffusers: Euler, Euler ancestral and Heun (Karras et al. 2022, arXiv 2206.00364), LMS
(Crowson's k-diffusion, after Adams and Bashforth), DPM-Solver++ (Lu et al. 2022, arXiv 2211.01095) and UniPC (Zhao et
al. 2023, arXiv 2302.04867); with others that their classes name.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import exp, expm1, inf, log
from typing import Any

from pyapp.engine import Tensor
from pyapp.engine.lazy import np
from pyapp.errors import OptionError

from ..loading.config import require
from .schedules import FLOW, Noise, Schedule, ScheduleConfig

NOTHING = 2.0**-24  # what the last time keeps of a picture where nothing is meant
NEAR = 1e-3  # of a time, below which rounding alone parts it from the next one
RHO = 7.0  # of Karras' deviations
FEW = 15  # steps, whose last ones are of a lower order


def spread(most: float, least: float, steps: int, karras: bool) -> Any:
    """Deviations (steps,) from the largest to the smallest: Karras', or even ones of the logarithm."""
    if not karras:
        return np.exp(np.linspace(log(most), log(least), steps))
    return (most ** (1 / RHO) + np.linspace(0, 1, steps) * (least ** (1 / RHO) - most ** (1 / RHO))) ** RHO


class Sigmas(Schedule):
    """A schedule over deviations; those of k-diffusion's kind read x as it is."""

    spacing = "linspace"
    by_ends = False  # whether Karras' deviations go from the largest to the smallest of all, not of the steps

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        if config.rescale_betas_zero_snr:
            self.kept[-1] = NOTHING
        table = ((1 - self.kept) / self.kept).astype("float32") ** 0.5
        found: Any = np.interp(self.times, np.arange(len(table)), table)
        ends = (table[-1], table[0]) if self.by_ends else (found[0], found[-1])
        if config.interpolation_type == "log_linear":
            found = np.exp(np.linspace(np.log(table[-1]), np.log(table[0]), steps + 1))
        if config.use_karras_sigmas or config.use_exponential_sigmas:
            most, least = (float(end) for end in ends)
            found = spread(most, least, steps, config.use_karras_sigmas)
            times = np.interp(np.log(found), np.log(table), np.arange(len(table)))
            if self.by_ends:
                times = times.round() if config.use_karras_sigmas else np.floor(times + NEAR)
            self.times = times.tolist()
        last = float(table[0]) if config.final_sigmas_type == "sigma_min" else 0.0
        self.sigmas: list[float] = [*map(float, found.astype("float32")), last][: steps + 1]

    def angle(self, i: int) -> tuple[float, float]:
        """What x / sqrt(sigma² + 1) has at step i of the picture, and of the noise."""
        sigma = self.sigmas[i]
        return 1 / (sigma**2 + 1) ** 0.5, sigma / (sigma**2 + 1) ** 0.5


class Euler(Sigmas):
    """Steps along the direction that the network finds."""

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        largest = max(self.sigmas)
        spread = (config.timestep_spacing or self.spacing) in ("linspace", "trailing")
        self.first = largest if spread else (largest**2 + 1) ** 0.5

    def _times(self) -> Any:
        if (self.config.timestep_spacing or self.spacing) == "linspace":
            return np.linspace(0, self.config.num_train_timesteps - 1, self.steps, dtype="float32")[::-1]
        return super()._times()

    def scaled(self, x: Tensor, i: int) -> Tensor:
        return x / (self.sigmas[i] ** 2 + 1) ** 0.5

    def noised(self, x: Tensor, noise: Tensor, i: int) -> Tensor:
        return x + noise * self.sigmas[i]

    def direction(self, x: Tensor, found: Tensor, i: int) -> Tensor:
        """The change of x with the deviation of its noise."""
        sigma = self.sigmas[i]
        return (x - self.picture(x / (sigma**2 + 1) ** 0.5, found, 1 / (sigma**2 + 1))) / sigma

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        return x + self.direction(x, found, i) * (self.sigmas[i + 1] - self.sigmas[i])


class EulerAncestral(Euler):
    """Euler's steps, each a bit too far, and new noise."""

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        now, then = self.sigmas[i], self.sigmas[i + 1]
        up = (then**2 * (now**2 - then**2) / now**2) ** 0.5
        down = (then**2 - up**2) ** 0.5
        x = x + self.direction(x, found, i) * (down - now)
        return x + noise(x) * up if up else x


class Heun(Euler):
    """Euler's steps, each taken again along the mean of the directions at its two ends."""

    order = 2

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        first, *middle, last = self.sigmas
        self.sigmas = [first, *(sigma for sigma in middle for _ in range(2)), last]
        self.times = [self.times[0], *(time for time in self.times[1:] for _ in range(2))]
        self._before: tuple[Tensor, Tensor] | None = None  # x and the direction at the first end

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        direction = self.direction(x, found, i)
        if self._before is None:
            self._before = x, direction
            return x + direction * (self.sigmas[i + 1] - self.sigmas[i])
        (x, first), self._before = self._before, None
        return x + (first + direction) / 2 * (self.sigmas[i] - self.sigmas[i - 1])


class KDPM2(Euler):
    """Steps along the direction in the middle of each, by the logarithm of the deviation (DPM-Solver-2, Lu et al. 2022,
    arXiv 2206.00927, as in Crowson's k-diffusion).
    """

    order = 2

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        require(config.prediction_type != "sample", f"a {type(self).__name__} schedule of pictures is not supported")
        table = (((1 - self.kept) / self.kept).astype("float32") ** 0.5).astype("float64")
        if config.use_karras_sigmas:
            self.times = np.round(self.times).tolist()
        ends, times = self.sigmas, self.times
        self.stops = [self.stop(now, then) for now, then in pairwise(ends)]  # (where a step's first half ends, noise)
        self.sigmas, self.times = ends[:1], times[:1]
        for i in range(1, steps):
            between = float(np.interp(np.log(self.stops[i - 1][1]), np.log(table), np.arange(len(table))))
            self.sigmas += [self.stops[i - 1][1], ends[i]]
            self.times += [between, times[i]]
        self.sigmas.append(ends[-1])
        self._before: Tensor | None = None

    @staticmethod
    def stop(now: float, then: float) -> tuple[float, float, float]:
        """Of a step from one deviation to another: where it ends before new noise, its middle, and the new noise."""
        return then, (now * then) ** 0.5, 0.0

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        direction, number = self.direction(x, found, i), i // 2
        end, middle, up = self.stops[number]
        now = self.sigmas[2 * number]
        if self._before is None:
            if i + 1 == len(self.times):  # the last step is Euler's
                return x + direction * (end - now)
            self._before = x
            return x + direction * (middle - now)
        x, self._before = self._before + direction * (end - now), None
        return x + noise(x) * up if up else x


class KDPM2Ancestral(KDPM2):
    """As KDPM2, each step a bit too far, and new noise."""

    @staticmethod
    def stop(now: float, then: float) -> tuple[float, float, float]:
        up = (then**2 * (now**2 - then**2) / now**2) ** 0.5
        down = (then**2 - up**2) ** 0.5
        return down, (now * down) ** 0.5, up


class LMS(Euler):
    """Steps along the polynomial through the last four directions."""

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        self._past: list[Tensor] = []  # directions, the newest first

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        self._past = [self.direction(x, found, i), *self._past[:3]]
        places = self.sigmas[i::-1][: len(self._past)]
        for k, direction in enumerate(self._past):
            others = [place for j, place in enumerate(places) if j != k]
            line = np.poly1d(np.poly(others) / np.prod([places[k] - other for other in others])).integ()
            x = x + direction * float(line(self.sigmas[i + 1]) - line(self.sigmas[i]))
        return x


class Multistep(Sigmas):
    """What solvers share that read x as the training had it, and remember pictures of past steps."""

    by_ends = True

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        if any(now <= then for now, then in pairwise(self.sigmas[:-1])):
            raise OptionError(f"{steps:,} steps are too many for this schedule", where="steps")
        self._past: list[Tensor] = []  # pictures without noise, as the network found them, the newest first

    def _times(self) -> Any:
        config, steps = self.config, self.steps
        most, spacing = config.num_train_timesteps, config.timestep_spacing or self.spacing
        if spacing == "linspace":
            return np.linspace(0, most - 1, steps + 1).round()[:0:-1].astype("int64")
        if spacing == "leading":
            return (np.arange(steps + 1) * (most // (steps + 1)))[:0:-1] + config.steps_offset
        return super()._times()

    def noised(self, x: Tensor, noise: Tensor, i: int) -> Tensor:
        kept, deviation = self.angle(i)
        return x * kept + noise * deviation

    def place(self, i: int) -> float:
        """Half the logarithm of the ratio of picture and noise at step i."""
        return -log(self.sigmas[i]) if self.sigmas[i] else inf

    def remember(self, x: Tensor, found: Tensor, i: int) -> list[Tensor]:
        """The pictures of this step and of those before it, the newest first."""
        kept, _ = self.angle(i)
        self._past = [self.picture(x, found, kept**2), *self._past[: self.config.solver_order - 1]]
        return self._past


class DPM(Multistep):
    """DPM-Solver++ of the first, second (2M) or third order; "sde-dpmsolver++" adds new noise."""

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        kinds = ("dpmsolver++", "sde-dpmsolver++")
        require(
            config.algorithm_type in kinds, f"algorithm_type {config.algorithm_type!r:.60} is not supported",
            f"Known: {', '.join(kinds)}",
        )  # fmt: skip
        self.noisy = config.algorithm_type == kinds[1]
        require(config.solver_order < 3 or not self.noisy, "sde-dpmsolver++ of the third order is not supported")

    def order_of(self, i: int) -> int:
        """The order of step i."""
        config, left = self.config, self.steps - i
        if self.sigmas[i + 1] == self.sigmas[i]:
            return 1
        few = config.lower_order_final and self.steps < FEW
        if left == 1 and (config.euler_at_final or few or config.final_sigmas_type == "zero"):
            return 1
        return min(config.solver_order, len(self._past), 2 if left == 2 and few else 3)

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        past = self.remember(x, found, i)
        order = self.order_of(i)
        (_, deviation), (kept, then) = self.angle(i), self.angle(i + 1)
        step = self.place(i + 1) - self.place(i)
        change = kept * -expm1(-2 * step if self.noisy else -step)
        y = x * (then / deviation * (exp(-step) if self.noisy else 1)) + past[0] * change
        if order > 1:
            slope, curve = self._slopes(past, i, step, order)
            if order == 2 and self.config.solver_type != "heun":
                y = y + slope * (change / 2)
            elif self.noisy:
                y = y + slope * (kept * (-expm1(-2 * step) / (-2 * step) + 1))
            else:
                y = y + slope * (kept * (expm1(-step) / step + 1))
            if curve is not None:
                y = y - curve * (kept * ((expm1(-step) + step) / step**2 - 0.5))
        return y + noise(x) * (then * (-expm1(-2 * step)) ** 0.5) if self.noisy else y

    def _slopes(self, past: list[Tensor], i: int, step: float, order: int) -> tuple[Tensor, Tensor | None]:
        """The first and second difference of the pictures."""
        first = (self.place(i) - self.place(i - 1)) / step
        slope = (past[0] - past[1]) / first
        if order == 2:
            return slope, None
        second = (self.place(i - 1) - self.place(i - 2)) / step
        curve = (slope - (past[1] - past[2]) / second) / (first + second)
        return slope + curve * first, curve


class FlowDPM(DPM):
    """DPM-Solver++ for flow matching (as in flow.py): x is (1 - sigma) * picture + sigma * noise."""

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        require(config.prediction_type == FLOW, f"a flow schedule of {config.prediction_type!r:.60} is not supported")
        most, shift = config.num_train_timesteps, config.flow_shift
        found: Any = 1 - np.linspace(1, 1 / most, steps + 1)
        found = (shift * found / (1 + (shift - 1) * found))[:0:-1]
        self.times = [float(int(time)) for time in found * most]
        self.sigmas = [*map(float, found.astype("float32")), self.sigmas[-1]]

    def angle(self, i: int) -> tuple[float, float]:
        return 1 - self.sigmas[i], self.sigmas[i]

    def place(self, i: int) -> float:
        kept, sigma = self.angle(i)
        return log(kept / sigma) if sigma else inf

    def picture(self, x: Tensor, found: Tensor, kept: float) -> Tensor:
        return x - found * (1 - kept**0.5)


class SingleStep(DPM):
    """DPM-Solver++ whose steps go in groups of as many as the order, each from the first of its group."""

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        order, rest = config.solver_order, steps % config.solver_order
        lower = config.lower_order_final or config.final_sigmas_type == "zero" or rest > 0
        whole, groups = [*range(1, order + 1)], steps // order
        if not lower or order == 1:
            self.orders = whole * groups
        elif rest == 0:
            self.orders = whole * (groups - 1) + ([1, 2, 1] if order == 3 else [1, 1])
        else:
            self.orders = whole * groups + ([1, 2] if rest == 2 else [1])
        if config.final_sigmas_type == "zero":
            self.orders[-1] = 1
        self._start: Tensor | None = None  # x at the first step of a group

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        past, order = self.remember(x, found, i), self.orders[i]
        order = min(order, len(past))  # fewer, where a start picture leaves out the first ones
        if order == 1 or self._start is None:
            self._start, order = x, 1
        first = i + 1 - order  # the step at which the group began
        (_, deviation), (kept, then) = self.angle(first), self.angle(i + 1)
        step = self.place(i + 1) - self.place(first)
        y = self._start * (then / deviation * (exp(-step) if self.noisy else 1))
        y = y + past[order - 1] * (kept * -expm1(-2 * step if self.noisy else -step))
        part = kept * (-expm1(-2 * step) / (-2 * step) + 1 if self.noisy else expm1(-step) / step + 1)
        if order > 1:
            parts = [(self.place(i - k) - self.place(first)) / step for k in range(order - 1)]
            slopes = [(past[k] - past[order - 1]) / share for k, share in enumerate(parts)]
            if order == 2 and self.config.solver_type != "heun":
                y = y + slopes[0] * (kept * -expm1(-2 * step if self.noisy else -step) / 2)
            elif order == 2 or self.config.solver_type != "heun":
                y = y + slopes[0] * part
            else:
                apart = parts[0] - parts[1]
                y = y + (slopes[1] * parts[0] - slopes[0] * parts[1]) * (part / apart)
                y = y - (slopes[0] - slopes[1]) * (2 * kept * ((expm1(-step) + step) / step**2 - 0.5) / apart)
        return y + noise(x) * (then * (-expm1(-2 * step)) ** 0.5) if self.noisy else y


class DEIS(Multistep):
    """Steps along the polynomial, of the logarithm of the deviation, through what the network found (Zhang and Chen
    2022, arXiv 2204.13902).
    """

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(replace(config, final_sigmas_type="sigma_min"), steps)
        kind, form = config.algorithm_type, config.solver_type
        require(kind in ("deis", "dpmsolver++"), f"algorithm_type {kind!r:.60} is not supported", "Known: deis")
        require(form in (None, "logrho", "midpoint"), f"solver_type {form!r:.60} is not supported", "Known: logrho")
        if config.use_karras_sigmas or config.use_exponential_sigmas:
            self.sigmas[-1] = self.sigmas[-2]

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        (kept, deviation), (then, _) = self.angle(i), self.angle(i + 1)
        wrong = (x - self.picture(x, found, kept**2) * kept) / deviation
        self._past = [wrong, *self._past[: self.config.solver_order - 1]]
        left = self.steps - i
        most = left if self.config.lower_order_final and self.steps < FEW and left <= 2 else self.config.solver_order
        places = [log(self.sigmas[i - k]) for k in range(min(most, len(self._past)))]
        y = x / kept
        for k, past in enumerate(self._past[: len(places)]):
            others = [place for j, place in enumerate(places) if j != k]
            line = np.poly1d(np.poly(others) / np.prod([places[k] - other for other in others]))
            # The integral of the polynomial of log(s) over s: s * (p - p' + p'' - …) of log(s).
            whole, change = line, line
            for _ in others:
                change = -change.deriv()
                whole = whole + change
            now, end = self.sigmas[i], self.sigmas[i + 1]
            y = y + past * float(end * whole(log(end)) - now * whole(log(now)))
        return y * then


class UniPC(Multistep):
    """Each step is predicted from pictures of past steps, and corrected when the network has seen where it led."""

    def __init__(self, config: ScheduleConfig, steps: int) -> None:
        super().__init__(config, steps)
        require(config.predict_x0, "a UniPC schedule that predicts noise is not supported")
        self._last: Tensor | None = None  # x at the last step, corrected
        self._order = 0  # of the last step

    def after(self, x: Tensor, found: Tensor, i: int, noise: Noise) -> Tensor:
        if self._last is not None and i - 1 not in self.config.disable_corrector:
            kept, _ = self.angle(i)
            picture = self.picture(x, found, kept**2)
            x = self._moved(self._last, self._past, i - 1, self._order, picture)
            past = self._past = [picture, *self._past[: self.config.solver_order - 1]]
        else:
            past = self.remember(x, found, i)
        most = (
            self.steps - i if self.config.lower_order_final or self.sigmas[i + 1] in (0, self.sigmas[i]) else self.steps
        )
        self._order = min(self.config.solver_order, most, len(past))
        self._last = x
        return self._moved(x, past, i, self._order, None)

    def _moved(self, x: Tensor, past: list[Tensor], i: int, order: int, new: Tensor | None) -> Tensor:
        """x of step i, moved to step i + 1 by the pictures of step i and those before it; with `new`, the picture at
        step i + 1, corrected.
        """
        (_, deviation), (kept, then) = self.angle(i), self.angle(i + 1)
        step = self.place(i + 1) - self.place(i)
        whole = expm1(-step)
        scale = -step if self.config.solver_type == "bh1" else whole
        y = x * (then / deviation) - past[0] * (kept * whole)
        places = [(self.place(i - k) - self.place(i)) / step for k in range(1, order)]
        changes = [(past[k + 1] - past[0]) / place for k, place in enumerate(places)]
        if new is not None:
            places.append(1.0)
            changes.append(new - past[0])
        for change, part in zip(changes, self._parts(places, -step, scale), strict=True):
            y = y - change * (kept * scale * part)
        return y

    @staticmethod
    def _parts(places: list[float], step: float, scale: float) -> list[float]:
        """How much each change counts, so that polynomials are integrated exactly. One change counts half."""
        order = len(places)
        if order < 2:
            return [0.5] * order
        sides, part, factorial = [], expm1(step) / step - 1, 1
        for k in range(order):
            sides.append(part * factorial / scale)
            factorial *= k + 2
            part = part / step - 1 / factorial
        matrix = np.vander(places, order, increasing=True).T
        found: list[float] = np.linalg.solve(matrix, np.array(sides)).tolist()
        return found
