"""Scripts that were written for torch train to the same losses when only their imports are changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.porting import running
from tests.together import fewer_in_browser

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


def test_only_imports_are_changed() -> None:
    text = (running.SCRIPTS / "nano_gpt.py").read_text()
    changed = [(a, b) for a, b in zip(text.splitlines(), running.ported(text).splitlines(), strict=True) if a != b]
    assert changed == [
        ("import torch", "import pyapp as torch"),
        ("import torch.nn as nn", "import pyapp.nn as nn"),
        ("from torch.nn import functional as F", "from pyapp.nn import functional as F"),
    ]


@pytest.mark.parametrize("name", fewer_in_browser(running.NAMES))
def test_script(name: str) -> None:
    found = running.load(name, "pyapp").main(running.fill)
    assert len(found) == len(GOLDEN[name])
    assert found == pytest.approx(GOLDEN[name], rel=2e-4, abs=1e-5)  # steps enlarge roundings
