"""L-BFGS (Nocedal and Wright 2006, "Numerical optimization": algorithm 7.4, its line search 3.5 and 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any, NamedTuple

from ..engine import Tensor, enable_grad, no_grad
from ..engine.ops import cat, zeros_like
from ..nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from .optimizer import Optimizer, add_scaled

__all__ = ["LBFGS"]

_DECREASE, _CURVATURE = 1e-4, 0.9  # Wolfe's conditions


class _Point(NamedTuple):
    """A point of a line search: the step, loss and gradient at the point, and the slope along the line."""

    step: float
    loss: float
    gradient: Any
    slope: float


Look = Callable[[float], _Point]


def _cubic_minimum(a: _Point, b: _Point, low: float | None = None, high: float | None = None) -> float:
    """The minimum, within bounds, of the cubic through two points with given slopes (equation 3.59)."""
    low = min(a.step, b.step) if low is None else low
    high = max(a.step, b.step) if high is None else high
    first = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = first * first - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    if a.step > b.step:
        a, b = b, a
    root = sqrt(square)
    at = b.step - (b.step - a.step) * (b.slope + root - first) / (b.slope - a.slope + 2 * root)
    return min(max(at, low), high)


def _bracket(start: _Point, look: Look, step: float, most: int) -> tuple[list[_Point], int]:
    """Algorithm 3.5: one point that fulfils Wolfe's conditions, or two around such points; and the number of
    evaluations.
    """
    before, point = start, look(step)
    for count in range(most):
        rises = point.loss > start.loss + _DECREASE * point.step * start.slope
        if rises or (count > 1 and point.loss >= before.loss):
            return [before, point], count
        if abs(point.slope) <= -_CURVATURE * start.slope:
            return [point], count
        if point.slope >= 0:
            return [before, point], count
        low, high = point.step + 0.01 * (point.step - before.step), point.step * 10
        before, point = point, look(_cubic_minimum(before, point, low, high))
    return [start, point], most


def _trial(ends: list[_Point], hesitant: bool) -> tuple[float, bool]:
    """The next step between two ends; at least a tenth of the interval from them if the previous step was near them
    too.
    """
    step = _cubic_minimum(ends[0], ends[1])
    low, high = sorted(end.step for end in ends)
    margin = 0.1 * (high - low)
    if min(high - step, step - low) >= margin:
        return step, False
    if not hesitant and low < step < high:
        return step, True
    return (high - margin if abs(step - high) < abs(step - low) else low + margin), False


def _search(start: _Point, look: Look, step: float, most: int, extent: float, tolerance: float) -> _Point:
    """A step that fulfils Wolfe's strong conditions, or the lowest found (algorithm 3.6)."""
    ends, seen = _bracket(start, look, step, most)
    if len(ends) == 1:
        return ends[0]
    low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    hesitant = False
    while seen < most and abs(ends[1].step - ends[0].step) * extent >= tolerance:
        step, hesitant = _trial(ends, hesitant)
        point = look(step)
        seen += 1
        if point.loss > start.loss + _DECREASE * step * start.slope or point.loss >= ends[low].loss:
            ends[high] = point
            low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        done = abs(point.slope) <= -_CURVATURE * start.slope
        if not done and point.slope * (ends[high].step - ends[low].step) >= 0:
            ends[high] = ends[low]
        ends[low] = point
        if done:
            break
    return ends[low]


_HISTORY = ("old_dirs", "old_stps", "ro")  # torch's names: changes of the gradient, steps, 1 / their products


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last `history_size` changes of the gradient, as torch.optim.LBFGS. `step(closure)`
    takes up to `max_iter` steps and calls the closure, which computes the loss and its gradient, up to `max_eval` times
    (default 5/4 of max_iter). `line_search_fn` None takes steps of `lr`; "strong_wolfe" does a line search. With
    `maximize` the loss grows. One parameter group.
    """

    takes_complex = False
    needs_whole = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        maximize: bool = False,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        calls = max_iter * 5 // 4 if max_eval is None else max_eval
        limits = {"tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size}
        settings = {"lr": lr, "max_iter": max_iter, "max_eval": calls, "line_search_fn": line_search_fn}
        super().__init__(params, {**settings, **limits, "maximize": maximize})
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS: takes one parameter group, got {len(self.param_groups)}")
        self._params = self.param_groups[0]["params"]

    def _fits(self, name: str, value: Tensor, parameter: Tensor) -> bool:
        return True  # the state belongs to all parameters as one vector; the first step checks its length

    def _gradient(self) -> Tensor:
        """All gradients as one vector (N,), with the other sign to maximize."""
        whole = cat([(zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self._params])
        return -whole if self.param_groups[0]["maximize"] else whole

    def _put(self, values: Tensor) -> None:
        """Copies one vector (N,) into the parameters."""
        with no_grad():
            vector_to_parameters(values, self._params)

    def _direction(self, state: dict[str, Any], gradient: Tensor) -> Tensor:
        """Algorithm 7.4, after the last step has been added to the history: (N,)."""
        if not state["n_iter"]:
            return -gradient
        change, step = gradient - state["prev_flat_grad"], state["d"] * float(state["t"])
        product = _dot(change, step)
        lists = [state[name] for name in _HISTORY]
        if product > 1e-10:
            for kept, new in zip(lists, (change, step, 1 / product), strict=True):
                kept.append(new)
                del kept[: -self.param_groups[0]["history_size"]]
            state["H_diag"] = product / _dot(change, change)
        history = list(zip(*lists, strict=True))
        q, factors = -gradient, []
        if history:  # torch keeps this list between steps, and reads it where a state has it
            state.setdefault("al", [None] * self.param_groups[0]["history_size"])
        for change, step, inverse in reversed(history):
            factors.append(_dot(step, q) * float(inverse))
            add_scaled(q, change, -factors[-1])
        if history:
            state["al"][: len(factors)] = reversed(factors)
        q.mul_(float(state["H_diag"]))
        for (change, step, inverse), factor in zip(history, reversed(factors), strict=True):
            add_scaled(q, step, factor - _dot(change, q) * float(inverse))
        return q

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Several steps; returns the first loss. The closure must zero the gradients, call backward() and return."""
        if closure is None:
            raise TypeError("LBFGS: step() takes a closure that computes the loss and its gradient")
        with no_grad():
            return self._steps(closure)

    def _steps(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        if not state:
            state.update(n_iter=0, func_evals=0, H_diag=1.0, prev_loss=None, **{name: [] for name in _HISTORY})
        calls, sign = 0, -1.0 if group["maximize"] else 1.0

        def evaluate() -> tuple[Any, Tensor]:
            nonlocal calls
            calls += 1
            state["func_evals"] += 1
            with enable_grad():
                loss = closure()
            return loss, self._gradient()

        first, gradient = evaluate()
        loss = sign * float(first)
        count = 0
        while _largest(gradient) > group["tolerance_grad"] and count < group["max_iter"]:
            values = parameters_to_vector(p.detach() for p in self._params)
            direction = self._direction(state, gradient)
            rate = group["lr"] * (min(1.0, 1 / gradient.abs().sum().item()) if not state["n_iter"] else 1.0)
            count += 1
            state["n_iter"] += 1
            before = _Point(0.0, loss, gradient, _dot(gradient, direction))
            state.update(d=direction, t=rate, prev_flat_grad=gradient, prev_loss=loss)
            if before.slope > -group["tolerance_change"]:
                break

            def look(step: float, values: Tensor = values, direction: Tensor = direction) -> _Point:
                self._put(values + direction * step)
                found, there = evaluate()
                return _Point(step, sign * float(found), there, _dot(there, direction))

            if group["line_search_fn"]:
                extent = _largest(direction)
                found = _search(before, look, rate, group["max_eval"] - calls, extent, group["tolerance_change"])
                self._put(values + direction * found.step)
            elif count < group["max_iter"]:
                found = look(rate)
            else:  # the loss is not needed any more
                self._put(values + direction * rate)
                break
            loss, gradient, state["t"] = found.loss, found.gradient, found.step
            moved = _largest(direction) * abs(found.step)
            if calls >= group["max_eval"] or min(moved, abs(loss - before.loss)) <= group["tolerance_change"]:
                break
        return first


def _dot(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum().item())


def _largest(x: Tensor) -> float:
    """The largest absolute value."""
    return float(x.abs().amax().item())
