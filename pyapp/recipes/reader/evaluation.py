"""The character error rate of a reader on drawn lines in fonts that training has not seen."""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.dataclass import dataclass
from pyapp.engine import no_grad, ops
from pyapp.models.ctc_reader import CtcReader
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.reader.drawing import Line, Print, draw_lines
from pyapp.recipes.reader.fonts import UNSEEN
from pyapp.recipes.reader.loader import batched
from pyapp.text.generation.ctc import TextSearch, best_path

TEST_SEED = 2_000_000_023
BATCH = 8


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of the paper: without defects, or with them."""

    name: str
    how: Print


CONDITIONS = (
    Condition("clean", Print(UNSEEN, defects=0.0, empty=0.0, readable=True)),
    Condition("distorted", Print(UNSEEN, defects=1.0, defective=1.0, empty=0.0, readable=True)),
)


def test_lines(condition: Condition, count: int) -> list[Line]:
    """`count` lines in fonts of the test, sorted by width; always the same ones."""
    lines = [
        draw_lines(Chooser("test", TEST_SEED, condition.name, number), condition.how)[0] for number in range(count)
    ]
    return sorted(lines, key=lambda line: line.pixels.shape[1] / line.pixels.shape[0])


def read_lines(model: CtcReader, lines: Sequence[Line], search: TextSearch | None = None) -> list[str]:
    """What a model reads in lines; with a search, what a language makes likely."""
    marks_of = best_path if search is None else search.best
    found = []
    alphabet = model.config.alphabet
    for first in range(0, len(lines), BATCH):
        batch = batched(lines[first : first + BATCH], model.config.height)
        with no_grad():
            scores = model(ops.from_numpy(batch.pixels).to(model.device)).cpu().numpy()
        found += ["".join(alphabet[mark.number - 1] for mark in marks_of(row)).strip() for row in scores]
    return found
