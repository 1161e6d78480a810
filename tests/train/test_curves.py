"""The loss curve."""

from pathlib import Path

import pytest

pytest.importorskip("PIL")
from PIL import Image

from pyapp.train.curves import COLORS, SIZE, _ticks, loss_curve


def test_a_curve(tmp_path: Path) -> None:
    path = tmp_path / "loss.png"
    curve = [(float(i), 6 / (1 + i / 50)) for i in range(1, 300)]
    loss_curve(path, {"training": curve, "held out": curve[::50]}, {"trigram": 1.5}, "A title")
    with Image.open(path) as image:
        assert (image.format, image.size) == ("PNG", SIZE)
        seen = {color for _, color in image.convert("RGB").getcolors(1 << 24) or ()}
    for color in COLORS[:3]:  # two curves and a level; their edges are smoothed
        wanted = bytes.fromhex(color[1:])
        assert min(max(abs(a - b) for a, b in zip(wanted, found, strict=True)) for found in seen) < 12


def test_one_point(tmp_path: Path) -> None:
    loss_curve(tmp_path / "loss.png", {"training": [(1.0, 5.0)]}, {}, "short")
    assert (tmp_path / "loss.png").stat().st_size > 1000


def test_no_points(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="points"):
        loss_curve(tmp_path / "loss.png", {}, {}, "nothing")


@pytest.mark.parametrize("end", [0.03, 0.4, 1, 7.7, 10, 300, 2400, 99999])
def test_ticks_are_few_and_round(end: float) -> None:
    ticks = _ticks(end)
    assert 1 <= len(ticks) <= 11
    assert ticks[0] == 0 and ticks[-1] <= end
