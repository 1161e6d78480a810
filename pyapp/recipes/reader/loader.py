"""Batches of lines, drawn by helper processes during training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.prepared_batches import PreparedLoader, Stage, stage_at
from pyapp.recipes.reader.drawing import Line, Print, draw_lines
from pyapp.recipes.reader.fonts import installed
from pyapp.recipes.reader.texts import ALPHABET
from pyapp.vision.line_pixels import ink, scaled_width

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDTH_STEP = 32  # widths of batches are multiples: their kernels are recorded once for each
WIDEST = 1024
GROUP = 16  # batches that are drawn together and sorted by width
TAKES = 2  # of a printed line
AHEAD = 3  # groups that helpers may draw ahead

_NUMBERS = {character: number for number, character in enumerate(ALPHABET, 1)}


@dataclass(frozen=True, slots=True)
class Lines:
    """A batch: `pixels` float32 (B, 1, height, W), and the characters of each line as numbers from 1."""

    pixels: NDArray[np.float32]
    labels: list[list[int]]


def prepared(pixels: NDArray[np.uint8], height: int) -> NDArray[np.float32]:
    """A grey picture uint8 (H, W) → float32 (height, W')."""
    from PIL import Image

    size = min(WIDEST, scaled_width(pixels.shape[0], pixels.shape[1], height)), height
    return ink(np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR)))


def spelled(text: str) -> list[int]:
    return [_NUMBERS[character] for character in text]


def batched(lines: Sequence[Line], height: int) -> Lines:
    """Lines as one batch, with paper after the shorter ones."""
    rows = [prepared(line.pixels, height) for line in lines]
    width = -(-max(row.shape[1] for row in rows) // WIDTH_STEP) * WIDTH_STEP
    pixels = np.zeros((len(rows), 1, height, width), np.float32)
    for target, row in zip(pixels, rows, strict=True):
        target[0, :, : row.shape[1]] = row
    return Lines(pixels, [spelled(line.text) for line in lines])


def draw_group(seed: object, number: int, rows: int, how: Print, height: int) -> list[Lines]:
    """The batches of a group in any order: lines of about the same width are in one batch."""
    choosers = (Chooser("line", seed, number, row) for row in range(rows * GROUP // TAKES))
    lines = [line for chooser in choosers for line in draw_lines(chooser, how, TAKES)]
    lines.sort(key=lambda line: line.pixels.shape[1] / line.pixels.shape[0])
    batches = [batched(lines[first : first + rows], height) for first in range(0, len(lines), rows)]
    chooser = Chooser("order", seed, number)
    return sorted(batches, key=lambda _: chooser.random())


class LineLoader(PreparedLoader[int, list[Lines]]):
    """The batches of a training, drawn in groups."""

    def __init__(self, seed: int, rows: int, height: int, stages: Sequence[Stage[Print]], helpers: int = 1) -> None:
        super().__init__(helpers, installed)
        self._seed, self._rows, self._height, self._stages = seed, rows, height, stages

    def batch(self) -> Lines:
        """The next batch."""
        number, place = divmod(self._position, GROUP)
        for ahead in range(number, number + (AHEAD if self._pool else 1)):
            self._draw(ahead)
        found = self._ready[number].result()[place]
        if place == GROUP - 1:
            del self._ready[number]
        self._position += 1
        return found

    def _draw(self, number: int) -> None:
        if number not in self._ready:
            how = self._stages[stage_at(self._stages, number * GROUP)].lesson
            self._start(number, draw_group, self._seed, number, self._rows, how, self._height)
