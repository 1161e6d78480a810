"""Writes the tables with which a visitor may try the page's forecasts.

    python -m scripts.made_tables

They are made up here: no place has these visitors.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "web" / "samples"


def visitors() -> Iterator[str]:
    """Of a museum, each day for two years: weekends, summers, a slow growth."""
    random = np.random.Generator(np.random.PCG64(1))
    week = [0.55, 0.0, 0.8, 0.9, 1.05, 1.75, 1.95]  # from Monday; closed on Tuesdays
    yield "date,visitors"
    for day in range(730):
        date = datetime(2024, 9, 2) + timedelta(day)
        summer = 1 + 0.35 * np.sin(2 * np.pi * (date.timetuple().tm_yday - 105) / 365)
        mean = 210 * week[date.weekday()] * summer * (1 + 0.25 * day / 730)
        yield f"{date:%Y-%m-%d},{random.poisson(mean * random.gamma(60, 1 / 60))}"


def ice_cream() -> Iterator[str]:
    """Sold in each month of twelve years, in tonnes, with the mean temperature."""
    random = np.random.Generator(np.random.PCG64(2))
    yield "month,tonnes,temperature"
    for number in range(144):
        month = number % 12
        warm = 10 - 9.5 * np.cos(2 * np.pi * (month - 0.4) / 12) + random.normal(0, 1.1)
        sold = 40 * np.exp(0.06 * warm + 0.03 * number / 12) * random.gamma(300, 1 / 300)
        yield f"{2014 + number // 12}-{month + 1:02},{sold:.1f},{warm:.1f}"


def load() -> Iterator[str]:
    """Of a small town, each hour for four weeks, in megawatts: mornings and evenings, quiet weekends."""
    random = np.random.Generator(np.random.PCG64(3))
    yield "time,megawatts"
    drift = 0.0
    for hour in range(24 * 28):
        time = datetime(2026, 2, 2) + timedelta(hours=hour)
        at = time.hour
        day = (
            1.6 * np.exp(-((at - 8) ** 2) / 9)
            + 2.4 * np.exp(-((at - 19) ** 2) / 12)
            - 1.2 * np.exp(-((at - 3) ** 2) / 12)
        )
        drift = 0.95 * drift + random.normal(0, 0.07)
        used = 6 + day * (0.7 if time.weekday() > 4 else 1.0) + drift + random.normal(0, 0.08)
        yield f"{time:%Y-%m-%d %H:%M},{used:.2f}"


TABLES = {"visitors.csv": visitors, "ice-cream.csv": ice_cream, "load.csv": load}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, lines in TABLES.items():
        (FOLDER / name).write_text("".join(f"{line}\n" for line in lines()))


if __name__ == "__main__":
    main()
