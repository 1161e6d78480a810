"""The Python of the guides to training runs, with the described results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = pytest.mark.native_only


def shown(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What each block of Python of a page prints."""
    found = []
    for number, code in enumerate(re.findall(r"```(?:python|py)\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)):
        exec(compile(code, f"{name}, block {number}", "exec"), {})
        found.append(capsys.readouterr().out)
    return found


def test_the_guide_to_training(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    *_, accuracy, shape, loss, profile, weights, nodes, ratings = shown("training.md", capsys)
    assert float(nodes) > 0.85 and ratings.startswith("400 50000 ") and float(ratings.split()[2]) < 0.1
    assert float(accuracy) > 0.85 and weights == "['head.weight', 'head.bias'] []\n"
    assert "512, 64" in shape and float(loss) < 1 and (tmp_path / "trained/model.bin").is_file()
    assert (tmp_path / "trace.json").is_file() and list((tmp_path / "log").iterdir())
    assert "Self CPU time total" in profile and "<Measurement of model(x)" in profile


def test_the_page_from_lightning(capsys: pytest.CaptureFixture[str]) -> None:
    accuracies, losses = (
        [float(value) for value in text.strip("[]\n").split(", ")] for text in shown("lightning.md", capsys)
    )
    assert len(accuracies) == 3 and accuracies[-1] > 0.8
    assert len(losses) == 3 and losses[-1] < losses[0] / 1.5


def test_the_page_from_keras(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    _, text, _, shape = shown("keras.md", capsys)
    assert shape == "(None, 5) 2\n"
    assert "Epoch 10/10" in text and "'accuracy'" in text.splitlines()[-1]
    assert (tmp_path / "model.keras").is_file() and (tmp_path / "again.weights.h5").is_file()
