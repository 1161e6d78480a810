"""Compare: measurements as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .measurement import WARN_OF_SPREAD, Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

_BEST, _GOOD, _WORST, _BAD, _END = "\033[92m\033[1m", "\033[34m", "\033[91m\033[1m", "\033[2m\033[91m", "\033[0m"


class Compare:
    """Measurements beside each other: a table for each label, a row for each sub-label and number of threads, a column
    for each description. Measurements of one place are joined.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._warn = False
        self._colors: str | None = None
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Compare: takes Measurements, not {type(result).__name__}")
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Shows the figures that mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours for terminals: each time against the fastest of its column, or of its row."""
        self._colors = "row" if rowwise else "column"

    def highlight_warnings(self) -> None:
        """Marks times that spread over more than a tenth of their median, with the share."""
        self._warn = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        tables: dict[Any, list[Measurement]] = {}
        for one in Measurement.merge(self._results):
            tables.setdefault(one.task_spec.label, []).append(one)
        return "\n".join(self._table(label, group) for label, group in tables.items())

    def _table(self, label: str | None, group: list[Measurement]) -> str:
        unit, size = select_unit(min(one.median for one in group))
        envs = len({one.env for one in group}) > 1
        rows = ordered_unique((one.task_spec.num_threads, one.env, one.as_row_name) for one in group)
        rows.sort(key=lambda row: row[0])
        columns = ordered_unique(one.task_spec.description or "" for one in group)
        places = {
            ((one.task_spec.num_threads, one.env, one.as_row_name), one.task_spec.description or ""): one
            for one in group
        }
        figures = min(one.significant_figures for one in group)
        names = [f"      {f'({env}) ' * envs}{name}" for _, env, name in rows]
        texts = [[self._text(places.get((row, column)), size, figures) for column in columns] for row in rows]
        first = max(len(name) for name in names)
        widths = [max(len(column), *(len(line[k]) for line in texts)) for k, column in enumerate(columns)]
        best_of_row = [self._best([places.get((row, column)) for column in columns]) for row in rows]
        best_of_column = [self._best([places.get((row, column)) for row in rows]) for column in columns]
        width = first + sum(w + 5 for w in widths)
        title = f" {label} " if label else " "
        lines = [f"[{title.center(width - 2, '-')}]"]
        lines.append(
            " " * first + "".join(f"  |  {column.center(w)}" for column, w in zip(columns, widths, strict=True))
        )
        threads = None
        for at, row in enumerate(rows):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(width, "-"))
            line = names[at].ljust(first)
            for k, column in enumerate(columns):
                text, one = texts[at][k].rjust(widths[k]), places.get((row, column))
                best = best_of_row[at] if self._colors == "row" else best_of_column[k]
                line += "  |  " + (text if one is None or self._colors is None else _colored(text, one.median / best))
            lines.append(line)
        return "\n".join([*lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])

    def _text(self, one: Measurement | None, size: float, figures: int) -> str:
        if one is None:
            return ""
        value = one.median / size
        if self._trim:
            value = trim_sigfig(value, figures)
            whole = len(str(int(value)))
            text = f"{value:.{max(0, figures - whole)}f}"
        else:
            text = f"{value:.1f}"
        if self._warn and one.iqr / one.median > WARN_OF_SPREAD:
            text = f"(! {one.iqr / one.median:.0%}) {text}"
        return text

    @staticmethod
    def _best(group: list[Measurement | None]) -> float:
        return min(one.median for one in group if one is not None)


def _colored(text: str, relative: float) -> str:
    """The text in the colour of how many times the fastest it takes: up to a hundredth more, a tenth more, twice, or
    above.
    """
    if relative <= 1.01:
        return f"{_BEST}{text}{_END}"
    if relative <= 1.1:
        return f"{_GOOD}{text}{_END}"
    if relative <= 2:
        return text
    return f"{_BAD if relative <= 5 else _WORST}{text}{_END}"
