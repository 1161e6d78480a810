"""Loss curves as PNG files, drawn with Pillow (extra `train`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from math import ceil, floor
from pathlib import Path
from typing import Any

from pyapp.errors import PyappError
from pyapp.formats.sink import open_sink

Points = Sequence[tuple[float, float]]

SIZE = (960, 540)
MARGIN = (70, 30, 30, 55)  # left, top, right, bottom
SCALE = 2  # drawn larger and scaled down, for smooth lines
INK, GRID, PAPER = "#333333", "#dddddd", "#ffffff"
COLORS = ("#9db8d9", "#d1495b", "#2e7d32", "#7b5ea7", "#e08e0b")


def can_draw() -> bool:
    """Whether Pillow is installed."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        return False
    return True


def running_means(values: Sequence[float], width: int) -> list[float]:
    """The mean of the last `width` values at each position, of fewer at the beginning."""
    return [sum(values[max(0, i + 1 - width) : i + 1]) / min(width, i + 1) for i in range(len(values))]


def loss_curve(path: Path, curves: Mapping[str, Points], levels: Mapping[str, float], title: str) -> None:
    """Draws a PNG with `curves` (name -> (step, loss) pairs) and horizontal lines at `levels` (name -> loss).

    Raises PyappError without Pillow and ValueError without points.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise PyappError("the loss curve needs the Python package Pillow", hint="pip install 'pyapp[train]'") from error
    every = [point for points in curves.values() for point in points]
    if not every:
        raise ValueError("loss_curve: there are no points to draw")
    right = max(step for step, _ in every) or 1
    top = max(loss for _, loss in every) * 1.02 or 1.0  # all may be 0
    image = Image.new("RGB", (SIZE[0] * SCALE, SIZE[1] * SCALE), PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(13 * SCALE)

    def place(step: float, loss: float) -> tuple[float, float]:
        width, height = SIZE[0] - MARGIN[0] - MARGIN[2], SIZE[1] - MARGIN[1] - MARGIN[3]
        return (MARGIN[0] + width * step / right) * SCALE, (SIZE[1] - MARGIN[3] - height * loss / top) * SCALE

    _axes(draw, font, place, right, top)
    draw.text((SIZE[0] * SCALE / 2, 8 * SCALE), title, INK, font, anchor="ma")
    names = [*curves, *levels]
    for name, color in zip(names, COLORS, strict=False):
        if name in curves:
            line = [place(*point) for point in curves[name]]
            draw.line(line if len(line) > 1 else line * 2, color, 2 * SCALE, joint="curve")
        else:
            draw.line([place(0, levels[name]), place(right, levels[name])], color, SCALE)
        x, y = place(right * 0.62, top * 0.95)
        y += names.index(name) * 20 * SCALE
        draw.line([(x, y), (x + 24 * SCALE, y)], color, 3 * SCALE)
        label = name if name in curves else f"{name}: {levels[name]:.3f}"
        draw.text((x + 32 * SCALE, y), label, INK, font, anchor="lm")
    data = BytesIO()
    image.resize(SIZE, Image.Resampling.LANCZOS).save(data, "PNG", optimize=True)
    with open_sink(path) as file:
        file.write(data.getvalue())


def _axes(draw: Any, font: Any, place: Any, right: float, top: float) -> None:
    for value in _ticks(top):
        draw.line([place(0, value), place(right, value)], GRID, SCALE)
        x, y = place(0, value)
        draw.text((x - 8 * SCALE, y), f"{value:g}", INK, font, anchor="rm")
    for value in _ticks(right):
        x, y = place(value, 0)
        draw.line([(x, y), (x, y + 5 * SCALE)], INK, SCALE)
        draw.text((x, y + 8 * SCALE), f"{value:g}", INK, font, anchor="ma")
    draw.line([place(0, top), place(0, 0), place(right, 0)], INK, SCALE)
    draw.text((place(right / 2, 0)[0], (SIZE[1] - 8) * SCALE), "step", INK, font, anchor="mb")
    draw.text((8 * SCALE, 8 * SCALE), "nats per token", INK, font, anchor="la")


def _ticks(end: float) -> list[float]:
    """Five to ten round numbers from 0 to `end`."""
    power = 10.0 ** floor(len(str(ceil(end))) - 1) if end >= 1 else 0.1
    step = next(s for s in (power / 10, power / 5, power / 2, power, power * 2) if end / s <= 10)
    return [round(i * step, 10) for i in range(int(end / step) + 1)]
