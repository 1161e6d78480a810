"""docs/porting.md: its program runs, and its table fits pyapp."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only

PAGE = Path(__file__).resolve().parents[2] / "docs" / "porting.md"


def test_the_table_of_names_is_up_to_date() -> None:
    from scripts.porting_table import replaced

    text = PAGE.read_text()
    assert text == replaced(text), "run `python -m scripts.porting_table`"


def test_the_program_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, PAGE.name, "exec"), {})
    assert float(capsys.readouterr().out) < 0.005  # the targets' variance is 0.05
    assert (tmp_path / "checkpoint.pt").exists()
