"""The recipe of the reader: texts, fonts, drawn lines, batches, and a training that can be interrupted."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("rapidfuzz")

from PIL import ImageFont

from pyapp.errors import OptionError, PyappError
from pyapp.events import Cancel, Done, Metric
from pyapp.formats import open_checkpoint
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.error_rates import error_rate
from pyapp.recipes.prepared_batches import Stage
from pyapp.recipes.reader import drawing, fonts, loader, texts, train_reader
from pyapp.recipes.reader.drawing import Print, draw_lines
from pyapp.recipes.reader.fonts import SEEN, UNSEEN, Font
from pyapp.recipes.reader.loader import GROUP, LineLoader, batched
from pyapp.recipes.reader.texts import ALPHABET, line_text, trimmed

pytestmark = pytest.mark.native_only

HOW = Print(("One", "Two"), longest=8)
SMALL = {"steps": 6, "rows": 2, "width": 16, "layers": 1, "held_out": 3, "language_lines": 500}


@pytest.fixture(autouse=True)
def own_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's own font instead of the installed ones, and a few words instead of lists."""
    known = frozenset(range(0x20, 0x180))
    families = (*HOW.families, SEEN[0], UNSEEN[0])
    faces = {name: [Font(f"{name}.ttf", 0, name, "Regular", known)] for name in families}
    for module in (fonts, drawing, loader):
        monkeypatch.setattr(module, "installed", lambda: faces)
    monkeypatch.setattr(drawing, "opened", lambda file, index, size, ligatures: ImageFont.load_default(size))
    monkeypatch.setattr(texts, "word_list", lambda language: ["stone", "Élan", "naïve", "straße", "øre"])


@pytest.fixture
def no_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are drawn in this process, which has the replaced fonts."""
    made = loader.LineLoader.__init__
    monkeypatch.setattr(
        loader.LineLoader, "__init__", lambda self, *arguments, **options: made(self, *arguments, helpers=0)
    )


def test_texts_have_characters_of_the_alphabet() -> None:
    assert ALPHABET[0] == " " and len(set(ALPHABET)) == len(ALPHABET)
    found = [line_text(Chooser("text", number), 30) for number in range(2000)]
    assert set().union(*found) <= set(ALPHABET)
    assert all(0 < len(text) <= 30 and text == " ".join(text.split()) for text in found)
    assert len(set(found)) > 1500 and found[:50] == [line_text(Chooser("text", number), 30) for number in range(50)]
    assert all("" != line_text(Chooser("readable", number), 30, readable=True) for number in range(200))


@pytest.mark.parametrize(
    ("text", "longest", "wanted"),
    [("ab  cd", 9, "ab cd"), ("abc def", 5, "abc"), ("abcdef", 4, "abcd"), ("abc def", 3, "abc"), (" a b ", 2, "a")],
)
def test_texts_end_at_a_space(text: str, longest: int, wanted: str) -> None:
    assert trimmed(text, longest) == wanted


def test_fonts_are_those_that_fc_list_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ascii_letters = "20-7e a0-ff"
    names = [*SEEN[:60], *UNSEEN[:2]]
    rows = [f"/f/{name}.ttf\t0\t{name}\tBold\t{ascii_letters}" for name in names]
    rows += [
        f"/f/caps.ttf\t0\t{SEEN[0]}\tSmall Caps\t{ascii_letters}", f"/f/i.ttf\t65536\t{SEEN[0]}\tBold\t20-7e",
        f"/f/few.ttf\t0\t{SEEN[1]}\tThin\t20-40", "/f/other.ttf\t0\tNobody's\tBold\t20-7e", "a broken\tline", "",
    ]  # fmt: skip
    answer = subprocess.CompletedProcess([], 0, "\n".join(rows))
    monkeypatch.setattr(fonts.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(fonts.subprocess, "run", lambda *args, **options: answer)
    fonts.installed.cache_clear()
    found = fonts.installed()
    assert sorted(found) == sorted(names) and all(len(faces) == 1 for faces in found.values())
    assert found[SEEN[0]][0].has("a é") and not found[SEEN[0]][0].has("aŁ")
    fonts.installed.cache_clear()
    answer.stdout = rows[0]
    with pytest.raises(PyappError, match=r"only 1 of \d+ families"):
        fonts.installed()
    monkeypatch.setattr(fonts.shutil, "which", lambda name: None)
    with pytest.raises(PyappError, match="fc-list is missing"):
        fonts.installed()
    assert not set(SEEN) & set(UNSEEN) and len(SEEN) >= 40


def test_lines_are_the_same_each_time_and_differ_in_each_take() -> None:
    for number in range(60):
        one, other = (draw_lines(Chooser("line", number), HOW, takes=2) for _ in range(2))
        assert len(one) == 2 and one[0].text == one[1].text
        for line, again in zip(one, other, strict=True):
            assert line.pixels.dtype == np.uint8 and np.array_equal(line.pixels, again.pixels)
            assert min(line.pixels.shape) >= 4 and set(line.text) <= set(ALPHABET)
    clean = [draw_lines(Chooser("clean", number), Print(HOW.families, 6, 0.0, empty=0.0))[0] for number in range(20)]
    assert all(line.text and line.pixels.min() < 100 < line.pixels.max() for line in clean)
    empty = draw_lines(Chooser("empty"), Print(HOW.families, empty=1.0))
    assert [line.text for line in empty] == [""]


def test_batches_have_lines_of_one_width() -> None:
    def all_of(position: int) -> list[Any]:
        source = LineLoader(3, 2, 32, [Stage(0, HOW), Stage(GROUP, Print(HOW.families, 20))], helpers=0)
        source.position = position
        return [source.batch() for _ in range(position, 2 * GROUP)]

    batches = all_of(0)
    for batch in batches:
        assert batch.pixels.shape[:3] == (2, 1, 32) and batch.pixels.shape[3] % 32 == 0
        assert batch.pixels.dtype == np.float32 and -0.25 <= batch.pixels.min() and batch.pixels.max() <= 1.25
    assert max(len(row) for batch in batches[:GROUP] for row in batch.labels) <= 8
    for one, other in zip(batches[5:], all_of(5), strict=True):
        assert np.array_equal(one.pixels, other.pixels) and one.labels == other.labels
    padded = batched(draw_lines(Chooser("pad"), HOW), 32).pixels
    assert not padded[0, 0, :, -1].any() or padded.shape[3] % 32 == 0


def run(folder: Path, cancel: Cancel | None = None, **settings: Any) -> list[Any]:
    return list(train_reader(folder, save_every=2, evaluate_every=3, cancel=cancel, **{**SMALL, **settings}))


def test_a_training_that_was_interrupted_gives_the_same_weights(tmp_path: Path, no_helpers: None) -> None:
    events = run(tmp_path / "whole")
    assert isinstance(events[-1], Done) and events[-1].reason == "complete"
    assert {event.name for event in events if isinstance(event, Metric)} >= {
        "loss", "held_out_loss", "character_error_clean", "character_error_distorted",
    }  # fmt: skip
    assert set(events[-1].results["character_errors"]) == {"clean", "distorted"}
    cancel = Cancel()
    for event in train_reader(tmp_path / "parts", save_every=100, evaluate_every=3, cancel=cancel, **SMALL):
        if isinstance(event, Metric) and event.name == "loss" and event.step == 3:
            cancel.set()
    run(tmp_path / "parts")
    one, other = (
        {name: checkpoint.read(name).numpy() for name in checkpoint.tensors}
        for checkpoint in map(open_checkpoint, (tmp_path / part / "model.safetensors" for part in ("whole", "parts")))
    )
    assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    with pytest.raises(PyappError):
        run(tmp_path / "parts", seed=2)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"rate": 0.0}, {"width": 1}, {"layers": 0}, {"unknown": 1}], ids=str)
def test_wrong_settings_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        run(tmp_path, **wrong)


def test_character_errors() -> None:
    assert error_rate(["abcd", "ab"], ["abd", "abc"]) == pytest.approx(2 / 6)
    assert error_rate([""], ["x"]) == 1.0
