"""Fine-tuning on a device whose memory the host cannot see gives the losses that it gives on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyapp.events import Metric
from pyapp.recipes.finetune import finetune
from tests.recipes.finetune.interrupted import write_lines
from tests.recipes.finetune.preference_case import LABELLED
from tests.tasks.test_texts import folder
from tests.text.chat_model import write_chat_model

from . import device as _device  # noqa: F401 (registers the mirror)

pytestmark = pytest.mark.native_only
pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


def losses(model: Path, data: Path, device: str, **settings: Any) -> list[float]:
    """Of two steps, and of the data before and after."""
    out = data.with_name(f"{model.name} {device}")
    events = finetune(model, data, out, held_out_data=data, device=device, rows=3, steps=2, rate=1e-3, **settings)
    return [event.value for event in events if isinstance(event, Metric) and event.name in ("loss", "held_out_loss")]


def test_a_new_head(tmp_path: Path) -> None:
    model = folder(tmp_path / "bert", "bert", "features", "BertModel", id2label=None)
    rows = [{"text": text, "label": label} for text, label in (("the cat", "a"), ("a dog ran", "a"), ("blue mat", "b"))]
    data = write_lines(tmp_path / "data.jsonl", rows)
    found = losses(model, data, "mirror")
    assert found == losses(model, data, "cpu") and found[0] != found[-1]
    config = json.loads((tmp_path / "bert mirror" / "config.json").read_text())
    assert config["id2label"] == {"0": "a", "1": "b"}


def test_answers_with_labels(tmp_path: Path) -> None:
    write_chat_model(tmp_path / "chat", layers=1)
    data = write_lines(tmp_path / "data.jsonl", LABELLED)
    found = losses(tmp_path / "chat", data, "mirror", preference="kto", length=64)
    assert found == losses(tmp_path / "chat", data, "cpu", preference="kto", length=64) and found[0] != found[-1]
