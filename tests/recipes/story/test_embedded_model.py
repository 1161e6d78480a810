"""The model that comes with pyapp: it is what its card says."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyapp.formats import open_checkpoint, read_tokenizer_bin
from pyapp.models import LoadedModel, load_model
from pyapp.recipes.story.grammar.stories import held_out_stories
from pyapp.recipes.story.loader import story_rows
from pyapp.recipes.story.training import nats
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "web" / "models" / "stories"
CARD = FOLDER / "README.md"
STORY = Path(__file__).with_name("embedded_story.txt")


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model((FOLDER / "model.bin").read_bytes(), (FOLDER / "tokenizer.bin").read_bytes())


def tell(loaded: LoadedModel, prompt: str, **options: object) -> str:
    settings = SamplingOptions.from_dict({"max_new_tokens": None, **options})
    events = [event.to_dict() for event in generate(Session(loaded.model), loaded.tokenizer, prompt, settings)]
    assert events[-1]["type"] == "done"
    return prompt + "".join(event["text"] for event in events if event["type"] == "token")


def test_files() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 2_000_000
    with open_checkpoint(FOLDER / "model.bin") as checkpoint:
        assert checkpoint.format == "llama2.c v2"
        assert checkpoint.config["vocab_size"] == len(read_tokenizer_bin(FOLDER / "tokenizer.bin").pieces)


@pytest.mark.native_only
def test_the_registry_knows_its_files() -> None:
    entry = json.loads((ROOT / "pyapp" / "registry.json").read_text(encoding="utf-8"))["models"][0]
    assert entry["id"] == "stories"
    for file in entry["files"]:
        data = (ROOT / "web" / file["path"]).read_bytes()
        assert (file["size"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())


def test_the_greedy_story(loaded: LoadedModel) -> None:
    """The page's greedy story must be the same."""
    assert tell(loaded, "Once upon a time", temperature=0) == STORY.read_text(encoding="utf-8").rstrip("\n")


@pytest.mark.native_only
@pytest.mark.parametrize("instruction_set", ["baseline", "avx2", "avx512", "neon", "dotprod"])
def test_every_processor_tells_it_alike(instruction_set: str) -> None:
    """A set that this machine lacks falls back to one that it has."""
    command = [sys.executable, "-m", "pyapp", "generate", str(FOLDER / "model.bin"), "--temperature", "0", "-p"]
    told = subprocess.run(
        [*command, "Once upon a time"],
        env=os.environ | {"PYAPP_INSTRUCTION_SET": instruction_set},
        capture_output=True,
        cwd=ROOT,
        check=True,
    )
    assert told.stdout.decode().strip() == STORY.read_text(encoding="utf-8").strip()


def test_it_keeps_to_the_name_that_it_was_given(loaded: LoadedModel) -> None:
    for name, he, kind in (
        ("Lily", "She", "girl"),
        ("Tom", "He", "boy"),
        ("Sam", "He", "boy"),
        ("Kate", "She", "girl"),
    ):
        text = tell(loaded, f"Once upon a time, there was a little {kind} named {name}.", temperature=0)
        assert text.count(name) >= 5
        assert re.search(rf"\b{he}\b", text, re.IGNORECASE)


def test_held_out_loss(loaded: LoadedModel) -> None:
    """As on the card, within what a part of the held-out stories differs."""
    told = re.search(r"\| int8, as shipped \| ([\d.]+) \|", CARD.read_text(encoding="utf-8"))
    assert told is not None
    rows = list(story_rows(loaded.tokenizer, held_out_stories(40), loaded.config["max_seq_len"]))
    total, count = nats(loaded.model, rows)  # type: ignore[arg-type]
    assert total / count == pytest.approx(float(told[1]), rel=0.06)


def test_sampled_stories_are_whole(loaded: LoadedModel) -> None:
    for seed in range(3):
        text = tell(loaded, "", temperature=0.7, seed=seed)
        assert 80 <= len(text.split()) <= 220
        assert text.count('"') % 2 == 0
        assert re.search(r'[.!?]"?$', text)
