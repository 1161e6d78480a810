"""The Python of docs/training.md runs with the described results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "training.md"


@pytest.mark.native_only
def test_the_guide_to_training(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    shown = []
    for number, code in enumerate(blocks):
        exec(compile(code, f"{GUIDE.name}, block {number}", "exec"), {})
        shown.append(capsys.readouterr().out)
    assert float(shown[2]) > 0.85 and shown[3] == "['head.weight', 'head.bias'] []\n"
    accuracies = [float(value) for value in shown[4].strip("[]\n").split(", ")]
    assert len(accuracies) == 3 and accuracies[-1] > 0.8
