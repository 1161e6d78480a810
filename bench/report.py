"""Figures: medians, ratios sample by sample, and the table that is printed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any


@dataclass
class Figure:
    """Samples of one quantity by who was measured ("pyapp" and peers), taken in turn."""

    name: str
    unit: str
    samples: dict[str, list[float]]
    environment: dict[str, Any] = field(default_factory=dict)

    def median(self, who: str = "pyapp") -> float:
        return median(self.samples[who])

    def ratio(self, peer: str) -> float:
        """Median of ours / theirs, pair by pair: how many times faster (or, for seconds, slower) ours is."""
        return median(a / b for a, b in zip(self.samples["pyapp"], self.samples[peer], strict=True))

    def row(self) -> str:
        low, high = min(self.samples["pyapp"]), max(self.samples["pyapp"])
        ours = f"{self.median():10.4g} {self.unit:6} [{low:.4g} .. {high:.4g}]"
        peers = [
            f"{peer} {self.median(peer):.4g} (x{self.ratio(peer):.2f})" for peer in self.samples if peer != "pyapp"
        ]
        return f"{self.name:42} {ours:40} {', '.join(peers)}"


def show(figures: Iterable[Figure], out: Path | None) -> None:
    """Prints each figure as it comes, and appends it to a file of JSON lines."""
    for figure in figures:
        print(figure.row(), flush=True)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("a") as file:
                file.write(json.dumps(asdict(figure)) + "\n")
