"""The README's Python runs with the described results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.native_only
def test_the_ten_lines_of_python_train_a_net(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    import pyapp

    pyapp.manual_seed(0)
    exec(compile(code, "README.md", "exec"), {})
    assert float(capsys.readouterr().out) < 1.0  # the target's variance is 8
