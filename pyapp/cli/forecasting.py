"""`pyapp forecast`: the next values of the columns of a CSV file. They are CSV on stdout, everything else on stderr."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.grouped import NUMBERS, command
from pyapp.cli.items import model_option
from pyapp.cli.options import WORDS, usual_options
from pyapp.cli.running import forward
from pyapp.cli.texts import file_argument, named, read_text
from pyapp.cli.views import ItemsView, JsonView, View

NAMES_IN_ERROR = 24


def number_in(cell: str) -> float | None:
    """The number of a cell; None: it is none. "1_000" is a number for Python alone."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def read_columns(file: str, delimiter: str, columns: Sequence[str]) -> dict[str, list[float]]:
    """The chosen columns of a CSV file by name. BadParameter for columns that are not there, and for cells that are no
    numbers.
    """

    def wrong(what: str) -> click.BadParameter:
        return click.BadParameter(f"{named(file)}{what}", param_hint="FILE")

    reader = csv.reader(io.StringIO(read_text(file), newline=""), delimiter=delimiter)
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise wrong(f", line {reader.line_num}: {error}.") from None
    if not rows:
        raise wrong(" is empty: write a line with names, then a line for each moment.")
    first = rows[0][1]
    headless = all(number_in(cell) is not None for cell in first)
    names = [str(place + 1) for place in range(len(first))] if headless else [cell.strip() for cell in first]
    rows = rows if headless else rows[1:]
    listed = ", ".join(names[:NAMES_IN_ERROR]) + (" …" if len(names) > NAMES_IN_ERROR else "")
    if not columns and len(names) > 1:
        raise click.UsageError(f"Say which columns are to be forecast: --column NAME. {named(file)} has {listed}.")
    for name in columns:
        if names.count(name) != 1:
            problem = "two columns" if name in names else "no column"
            raise click.BadParameter(f"{named(file)} has {problem} {name!r}. It has {listed}.", param_hint="--column")
    found: dict[str, list[float]] = {name: [] for name in columns or names}
    for line, row in rows:
        if len(row) != len(names):
            raise wrong(f", line {line}: it has {len(row)} cells, the first line {len(names)}. Is --delimiter right?")
        for name, values in found.items():
            cell = row[names.index(name)].strip()
            number = number_in(cell)
            if not cell:
                raise wrong(f", line {line}: column {name!r} has a gap. Fill it, or give the part after it.")
            if number is None:
                raise wrong(f", line {line}: column {name!r} has {cell[:40]!r}, which is not a number.")
            values.append(number)
    return found


def levels_of(context: click.Context, parameter: click.Parameter, text: str | None) -> list[float] | None:
    """Numbers with commas between them; "none": no quantiles."""
    if text is None or text.strip() == "none":
        return None if text is None else []
    found = [number_in(part) for part in text.split(",")]
    if any(level is None or not 0 < level < 1 for level in found):
        raise click.BadParameter("give numbers above 0 and below 1, such as 0.1,0.5,0.9, or none.")
    return [level for level in found if level is not None]


class ForecastView(ItemsView):
    """The forecasts as CSV: a line for each value."""

    def __init__(self) -> None:
        super().__init__(self.rows)
        self._begun = False

    def rows(self, index: int, values: Any) -> list[str]:
        """The lines of a series, the first with the names before them."""
        file, levels = io.StringIO(), values["quantiles"]
        writer = csv.writer(file, lineterminator="\n")
        if not self._begun:
            writer.writerow(["series", "step", "forecast", *levels])
            self._begun = True
        for step, value in enumerate(values["forecast"]):
            numbers = [value, *(row[step] for row in levels.values())]
            writer.writerow([values["name"], step + 1, *(f"{number:.7g}" for number in numbers)])
        return file.getvalue().splitlines()


@command(short_help="Continue series of numbers.")
@file_argument
@model_option("amazon/chronos-bolt-small")
@click.option("-c", "--column", "columns", type=WORDS, multiple=True, metavar="NAME",
              help="A column to forecast; may be given again. [default: the only one]")  # fmt: skip
@click.option("-n", "--horizon", type=click.IntRange(min=1), help="How many values. [default: the model's]")
@click.option("--quantiles", callback=levels_of, metavar="LEVEL,…",
              help="Quantiles of the values to come; none: leave them out. [default: 0.1,0.5,0.9]",
)  # fmt: skip
@click.option(
    "--samples", type=click.IntRange(min=1), help="For Chronos: how many paths to draw. [default: the model's]"
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed draws the same paths."
)
@click.option("--frequency", type=click.IntRange(0, 2), default=0, show_default=True,
              help="For TimesFM: 0 for values up to daily, 1 weekly and monthly, 2 quarterly and yearly.")  # fmt: skip
@click.option("--delimiter", default=",", show_default=True, help='The character between cells, or "tab".')
@usual_options
def forecast(
    file: str, columns: tuple[str, ...], delimiter: str, as_json: bool, **settings: Any
) -> int:  # fmt: skip
    """Forecast columns of FILE, a CSV file ("-": stdin) with a line for each moment, the newest last, with a model such
    as google/timesfm-2.0-500m-pytorch or amazon/chronos-bolt-small. The names are in the first line; where it has only
    numbers, the columns are 1, 2 …
    """
    between = "\t" if delimiter == "tab" else delimiter
    if len(between) != 1 or between in '\r\n"':
        raise click.BadParameter("give one character, or tab.", param_hint="--delimiter")
    series = read_columns(file, between, columns)
    view: View = JsonView() if as_json else ForecastView()
    return forward(partial(tasks.forecast, series, **settings), view)


__commands__ = {NUMBERS: (forecast,)}
