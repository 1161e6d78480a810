"""The script for the minutes with a card: its order, its limits, and what is left of an interrupted run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from scripts import cuda_minutes
from scripts.cuda_minutes import FEWEST, Step, go, steps_of

pytestmark = pytest.mark.native_only


def test_a_run_that_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_minutes, "FEWEST", 0.2)
    ran = tmp_path / "ran"
    steps = [
        Step("good", "what passes", f"echo good >> {ran}", 1),
        Step("bad", "what fails", f"echo bad >> {ran}; echo 'FAILED tests/a.py::test_b - why'; exit 3", 1),
        Step("slow", "what takes too long", "echo begun; sleep 60", 0.4 / 60),
        Step("card", "what needs a card", "exit 1", 1, emulated=""),
    ]
    assert not go(tmp_path, steps[:3], 1, False, False)
    told = (tmp_path / "report.md").read_text()
    assert "| good | passed |" in told and "| bad | failed (3) |" in told and "| slow | out of time |" in told
    assert "FAILED tests/a.py::test_b - why" in told and "begun" in told
    kept = json.loads((tmp_path / "done.json").read_text())
    kept["bad"]["ended"] = "interrupted"
    (tmp_path / "done.json").write_text(json.dumps(kept))
    go(tmp_path, steps[:3], 1, False, False)
    assert ran.read_text().split() == ["good", "bad", "bad"]
    go(tmp_path, steps[:1], 0, False, True)
    assert "| good | no time left |" in (tmp_path / "report.md").read_text()
    go(tmp_path, steps[3:], 1, True, True)
    assert "not on the emulated card" in (tmp_path / "report.md").read_text()


def test_its_steps_name_what_there_is(tmp_path: Path) -> None:
    steps = steps_of(tmp_path)
    assert len({step.name for step in steps}) == len(steps) and all(60 * step.minutes > FEWEST for step in steps)
    for step in steps:
        for word in shlex.split(f"{step.command} {step.emulated}"):
            if word.startswith("tests/"):
                assert Path(__file__).parents[2].joinpath(word).exists(), word
