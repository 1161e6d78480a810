"""Functions of sizes: what numbers are that differ between calls with other sizes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

Numbers = tuple[int, ...]  # what a number is in each call


class Formulas:
    """Finds functions of known sizes. `known`: for numbers, one of each call, what they are."""

    def __init__(self, calls: int) -> None:
        self.known: dict[Numbers, Any] = {}
        self.uncertain = False  # whether a formula was found that more calls should confirm
        self._calls = calls

    def add(self, numbers: Numbers, what: Any) -> None:
        if len(set(numbers)) > 1:
            self.known.setdefault(numbers, what)

    def find(self, numbers: Numbers) -> Any:
        """A number, or (operation, …) of known sizes and numbers: ("known", what), ("*", a, b), ("+", a, b), ("//", a,
        b), ("%", a, b), ("min", a, b), ("max", a, b); None where no function is found."""
        if len(set(numbers)) == 1:
            return numbers[0]
        return next(self._found(numbers), None)

    def _found(self, numbers: Numbers) -> Iterator[Any]:
        if numbers in self.known:
            yield self._of(numbers)
        for size in self.known:
            yield from self._scaled(numbers, size, self._of(size))
        for size in self.known:
            yield from self._line(numbers, size)
        pairs = list(combinations_with_replacement(self.known, 2))
        for a, b in pairs:
            product = tuple(x * y for x, y in zip(a, b, strict=True))
            yield from self._scaled(numbers, product, ("*", self._of(a), self._of(b)))
        for a, b in pairs:
            for sign, left, right in ((1, a, b), (-1, a, b), (-1, b, a)):
                rest = {n - x - sign * y for n, x, y in zip(numbers, left, right, strict=True)}
                if len(rest) == 1:
                    other = self._of(right) if sign > 0 else ("*", self._of(right), -1)
                    yield _plus(("+", self._of(left), other), rest.pop())
        for size in self.known:
            yield from self._limited(numbers, size)
        for size in self.known:
            yield from self._rounded(numbers, size)
        for sizes in combinations_with_replacement(self.known, 3):
            product = tuple(x * y * z for x, y, z in zip(*sizes, strict=True))
            a, b, c = map(self._of, sizes)
            yield from self._scaled(numbers, product, ("*", ("*", a, b), c))

    def _of(self, size: Numbers) -> Any:
        return ("known", self.known[size])

    def _scaled(self, numbers: Numbers, size: Numbers, formula: Any) -> Iterator[Any]:
        """A whole multiple or part."""
        if any(n == 0 or s == 0 for n, s in zip(numbers, size, strict=True)):
            return
        if numbers == size:
            yield formula
        factor, part = numbers[0] // size[0], size[0] // numbers[0]
        if all(n == factor * s for n, s in zip(numbers, size, strict=True)):
            yield ("*", formula, factor)
        elif part and all(s == part * n for n, s in zip(numbers, size, strict=True)):
            yield ("//", formula, part)

    def _line(self, numbers: Numbers, size: Numbers) -> Iterator[Any]:
        """factor · size + a number."""
        at = next((k for k in range(1, self._calls) if size[k] != size[0]), 0)
        if not at or (numbers[at] - numbers[0]) % (size[at] - size[0]):
            return
        factor = (numbers[at] - numbers[0]) // (size[at] - size[0])
        rest = numbers[0] - factor * size[0]
        if factor and all(n == factor * s + rest for n, s in zip(numbers, size, strict=True)):
            formula = self._of(size)
            yield _plus(formula if factor == 1 else ("*", formula, factor), rest)

    def _limited(self, numbers: Numbers, size: Numbers) -> Iterator[Any]:
        """size + a number, at most or at least another number, as slices beyond the end take it."""
        for operation, limited, limit in (("min", min, max(numbers)), ("max", max, min(numbers))):
            free = [(n, s) for n, s in zip(numbers, size, strict=True) if n != limit]
            rest = free[0][0] - free[0][1]
            # One size alone does not tell that the number goes up with it.
            if rest and len({s for _, s in free}) < min(2, self._calls // 4):
                continue
            if all(n == limited(s + rest, limit) for n, s in zip(numbers, size, strict=True)):
                self.uncertain = True
                yield (operation, _plus(self._of(size), rest), limit)

    def _rounded(self, numbers: Numbers, size: Numbers) -> Iterator[Any]:
        """(size + a number) // divisor, as strides make it, or % divisor, as the padding of strides."""
        for divisor in range(2, 33):
            rest = (numbers[0] - size[0]) % divisor
            if divisor <= 8 and all(n == (s + rest) % divisor for n, s in zip(numbers, size, strict=True)):
                self.uncertain = True
                yield ("%", _plus(self._of(size), rest), divisor)
            if len(set(numbers)) < 3:  # which many quotients give
                continue
            low = max(n * divisor - s for n, s in zip(numbers, size, strict=True))
            high = min((n + 1) * divisor - 1 - s for n, s in zip(numbers, size, strict=True))
            if low <= high:
                self.uncertain = True
                yield ("//", _plus(self._of(size), min(range(low, high + 1), key=abs)), divisor)


def _plus(formula: Any, number: int) -> Any:
    return ("+", formula, number) if number else formula


def written_out(formula: Any) -> str:
    """A formula of known names as text, as the sizes of outputs are named: "2*batch"."""
    if isinstance(formula, int):
        return str(formula)
    if formula[0] == "known":
        return str(formula[1])
    operation, a, b = formula
    if operation in ("min", "max"):
        return f"{operation}({written_out(a)}, {written_out(b)})"
    left, right = (
        f"({written_out(x)})" if isinstance(x, tuple) and x[0] != "known" and operation != "+" else written_out(x)
        for x in (a, b)
    )
    if operation == "+" and isinstance(b, int) and b < 0:
        return f"{left} - {-b}"
    return f"{left} {operation} {right}" if operation == "+" else f"{left}{operation}{right}"
