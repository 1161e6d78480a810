"""The Lab's lessons run from the first to the last cell, and learn what their texts say."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp.lab.cells import Session
from pyapp.lab.drawing import field_of
from pyapp.models import load_model
from scripts.site import lessons

pytestmark = pytest.mark.native_only

LESSONS = Path(__file__).resolve().parents[2] / "web" / "lessons"


def run(
    name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, cut: tuple[str, str] = ("", "")
) -> tuple[list[Any], Session]:
    """The outputs of all cells. `cut` is a text of the lesson, and what stands for it in a shorter test."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(LESSONS / name))
    source = (LESSONS / f"{name}.py").read_text()
    assert cut[0] in source
    outputs: list[Any] = []
    session = Session(outputs.append)
    cells = [cell for cell in source.replace(*cut).split("# %%") if not cell.startswith(" [markdown]") and cell.strip()]

    async def work() -> None:
        for number, cell in enumerate(cells, 1):
            assert await session.run(cell, str(number)) == "complete", outputs[-1]["text"]

    before = set(sys.modules)
    asyncio.run(work())
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(LESSONS)):
            del sys.modules[module]
    return outputs, session


def printed(outputs: list[Any]) -> str:
    return "".join(output["text"] for output in outputs if output["kind"] == "text")


def test_tensors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs, _ = run("1_tensors", monkeypatch, tmp_path)
    assert "gradient: [6.0, -2.0, 1.0]" in printed(outputs) and "The ball rests at 2.15" in printed(outputs)


def test_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs, _ = run("2_line", monkeypatch, tmp_path)
    for slope, offset in re.findall(r"y = ([\d.-]+) x \+ ([\d.-]+)", printed(outputs)):
        assert (float(slope), float(offset)) == pytest.approx((2, -1), abs=0.1)
    assert float(printed(outputs).split("distance:")[1]) < 0.2


def test_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs, session = run("3_digits", monkeypatch, tmp_path, ("epochs=12", "epochs=5"))
    assert float(printed(outputs).split("%")[0]) > 94  # all twelve epochs: e2e/test_lab.py
    assert (tmp_path / "digits.keras").is_file()
    field = field_of(outputs[-1]["id"])
    seven = ["########", "########", "......##", ".....##.", "....##..", "....##..", "...##...", "...##..."]
    assert field is not None
    asyncio.run(session.call(field.draw, [float(pixel == "#") for row in seven for pixel in row]))
    assert "This is a 7" in printed(outputs)


def test_own_op(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs, _ = run("5_own_op", monkeypatch, tmp_path)
    assert "the gradient is right: True" in printed(outputs)
    assert float(printed(outputs).rpartition(" of the points")[0].split()[-1].rstrip("%")) > 95


def test_all_lessons_are_listed_and_tested() -> None:
    listed = lessons(LESSONS)
    assert all(lesson["title"] and len(lesson["about"]) > 20 for lesson in listed)
    names = [lesson["file"].removesuffix(".py") for lesson in listed]
    assert [name for name in names if f'run("{name}"' not in Path(__file__).read_text()] == []
    for lesson in listed:
        assert all((LESSONS / file).is_file() for file in lesson["files"])


def test_character_gpt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tales.txt").write_bytes((LESSONS / "4_character_gpt" / "tales.txt").read_bytes())
    outputs, _ = run("4_character_gpt", monkeypatch, tmp_path, ("STEPS, BATCH = 300", "STEPS, BATCH = 40"))
    (losses,) = {output["id"]: output for output in outputs if output["kind"] == "plot"}.values()
    (curve,) = losses["curves"]
    assert curve["y"][0] > 3 and curve["y"][-1] < 2.8  # it guesses blindly at 4
    assert len(printed(outputs).split("Once upon a time")[-1]) > 250


def test_story_lora(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outputs, _ = run("6_story_lora", monkeypatch, tmp_path, ("STEPS, ROWS = 60, 3", "STEPS, ROWS = 30, 3"))
    (losses,) = {output["id"]: output for output in outputs if output["kind"] == "plot"}.values()
    (curve,) = losses["curves"]
    assert curve["y"][0] > 3 and curve["y"][-1] < 1.5
    assert outputs[-1]["kind"] == "open" and outputs[-1]["view"] == "story"
    assert outputs[-1]["files"] == ["my-stories/model.bin", "my-stories/tokenizer.json"]
    taught = load_model(tmp_path / "my-stories" / "model.bin", tmp_path / "my-stories" / "tokenizer.json")
    base = load_model("stories")
    beside = load_model("stories", adapter=tmp_path / "adapter")
    ids = pyapp.tensor([base.tokenizer.encode("Once upon a time, there was a little robot named Zip.")])
    found = [one.model(ids)[0, -1] for one in (taught, beside, base)]  # (V,) each
    assert (found[0] - found[1]).abs().max().item() < 1e-3 < (found[0] - found[2]).abs().max().item()
