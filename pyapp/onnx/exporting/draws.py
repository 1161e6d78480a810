"""Sizes for the calls of a module whose inputs may have several."""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence

from .formulas import Formulas

CALLS = 4  # with other sizes each, where sizes may differ
MANY_CALLS = 10  # where a number is a rounded quotient or a limit of sizes
_FURTHER = 8  # sizes from which those of the calls are drawn
_DRAWS = 32  # of which the one is taken that tells functions of sizes apart best


class Draws:
    """Draws sizes for calls. Those of earlier calls come last: what a module keeps for them, such as a table, it would
    not compute again.
    """

    def __init__(self, fixed: Container[int]) -> None:
        """`fixed`: the sizes that do not differ."""
        self._fixed = fixed
        self._seen: dict[str, list[int]] = {}

    def calls(self, limits: Mapping[str, tuple[int, int, int | None]], way: str, count: int) -> list[dict[str, int]]:
        """Sizes for each call: at least 2, since a size of 1 is broadcast. Ways: "wide": each size is far below and far
        above the example's in some calls, where a module may compute something else. "factor": multiples of the power
        of two that the example's number has, as networks with strides need them. "near": as many as the example's
        number, or fewer, as far as there are such; networks may have a largest number.
        """
        possible: dict[str, list[int]] = {}
        pinned: dict[str, list[list[int]]] = {}
        factor, near = way == "factor", way == "near"
        for title, (number, least, most) in limits.items():
            step = number & -number if factor else 1
            more, fewer = range(1, 3 * _FURTHER), range(-1, -number, -1)
            sizes = [number + step * k for k in ((*fewer, 0, *more) if near else (*fewer[: _FURTHER // 2], *more, 0))]
            sizes = [n for n in sizes if n >= max(least, 2) and (most is None or n <= most)]
            if len(sizes) < 2:
                raise ValueError(f"export: {title!r} cannot differ: it is at least {least}, at most {most}")
            seen = self._seen.setdefault(title, [number])
            if way == "wide":
                fewest, far = max(3, number // 2), number + 2 * _FURTHER
                pinned[title] = [
                    [n for n in ns if n >= least and (most is None or n <= most)]
                    for ns in (range(fewest, min(fewest + 2, number)), range(far - 4, far + 4))
                ]
            possible[title] = sorted(sizes, key=seen.count)[: count if near else 2 * _FURTHER]
        drawn = (self._drawn(possible, pinned, count, attempt) for attempt in range(_DRAWS))
        found = min((_coincidences(calls), at, calls) for at, calls in enumerate(drawn))[-1]
        for title in possible:
            self._seen[title] += [call[title] for call in found]
        return found

    def _drawn(
        self, possible: Mapping[str, list[int]], pinned: Mapping[str, list[list[int]]], count: int, attempt: int
    ) -> list[dict[str, int]]:
        calls: list[dict[str, int]] = [{} for _ in range(count)]
        for of_title, (title, sizes) in enumerate(possible.items()):
            source, seen = random.Random(f"{title} {attempt}"), list(self._seen[title])
            sizes = source.sample(sizes, len(sizes))
            few = [n for ns in pinned.get(title, ()) for n in source.sample(ns, min(len(ns), count // CALLS))]
            for at in range(count):
                call = calls[(at + of_title) % count]
                # Where two sizes happen to be equal, a module may compute something else.
                call[title] = (
                    few.pop()
                    if few
                    else min(sizes, key=lambda n: (n in call.values() or n in self._fixed) + 2 * seen.count(n))
                )
                seen.append(call[title])
        return calls


def _coincidences(calls: Sequence[Mapping[str, int]]) -> int:
    """In how many ways a function of one size may be taken for another one, which the calls do not tell apart: the
    sizes leave the same rest when divided, or one of them follows from the others.
    """
    found, columns = 0, {title: tuple(call[title] for call in calls) for title in calls[0]}
    for title, numbers in columns.items():
        found += sum(min(divisor, 3) - len({n % divisor for n in numbers[:CALLS]}) > 0 for divisor in (2, 3, 4))
        others = Formulas(len(calls))
        for other, column in columns.items():
            if other != title:
                others.add(column, other)
        found += others.find(numbers) is not None
    return found
