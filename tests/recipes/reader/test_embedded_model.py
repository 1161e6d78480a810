"""The reader that comes with pyapp: its size, its registry entry, and the same text natively and in the page."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import from_numpy, tasks
from pyapp.events import Done, Item
from pyapp.formats import BytesSource
from pyapp.models.loading.text_readers import LoadedReader, load_reading_model

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "web" / "models" / "reader"
PAGE = ROOT / "tests" / "vision" / "golden_page.npz"
TEXT = "Bread and cheese for 12.50 Euro\n\nOrder A17, ready at 9:30\n\nName\tAmount\nApples\t17\nPears\t208"


@pytest.fixture(scope="module")
def loaded() -> Any:
    names = ("model.safetensors", "config.json")
    found = load_reading_model({name: BytesSource((FOLDER / name).read_bytes(), name) for name in names})
    assert isinstance(found, LoadedReader)
    return found


def test_a_page_gives_the_same_text_everywhere(loaded: Any) -> None:
    """With the same words, boxes and cells natively and in Pyodide: this runs in both."""
    page = np.load(PAGE)["page"]

    async def collect() -> list[Any]:
        return [event async for event in tasks.read(from_numpy(page).unsqueeze(2), model=loaded)]

    events = asyncio.run(collect()) if not _running() else _driven(collect())
    assert isinstance(events[-1], Done), events[-1]
    values = next(event.values for event in events if isinstance(event, Item))
    assert values["text"] == TEXT
    table = next(region for region in values["regions"] if region["kind"] == "table")
    assert [(cell["row"], cell["column"]) for cell in table["cells"]] == [(i, j) for i in range(3) for j in range(2)]
    assert values["angle"] == pytest.approx(-1.0, abs=0.25)


def _running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _driven(coroutine: Any) -> Any:
    """The result of a coroutine where a loop runs already, as in a page: tasks only yield to it."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 2_500_000


@pytest.mark.native_only
def test_the_registry_knows_its_files() -> None:
    entries = json.loads((ROOT / "pyapp" / "registry.json").read_text(encoding="utf-8"))["models"]
    entry = next(entry for entry in entries if entry["id"] == "reader")
    assert (entry["kind"], entry["task"]) == ("embedded", "read")
    for file in entry["files"]:
        data = (ROOT / "web" / file["path"]).read_bytes()
        assert (file["size"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert load_reading_model("reader").config["model_type"] == "ctc_reader"


@pytest.mark.native_only
def test_the_card_lists_twenty_failures() -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = card.split("| said | read | font |")[1].split("\n\n")[0].strip().splitlines()[1:]
    assert len(rows) == 20 and all(row.count(" | ") == 2 for row in rows)
