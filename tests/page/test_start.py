"""What the page imports before its first answer: the memory snapshot contains it, and the site has byte code for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only  # starts an interpreter of its own

NOT_IN_THE_PAGE = {"pyapp.text.tokenization.tokenizers_library"}  # which has another library
MODELS = Path(__file__).parents[2] / "web" / "models"

# The models as the page gives them: byte sources by role.
SCRIPT = """
import asyncio, json, sys
from pathlib import Path
import pyapp.browser
pyapp.browser.import_tasks()
from pyapp import tasks
from pyapp.formats.source import FileSource
from pyapp.models.loading.precision import quick_dtype

def source(name):
    return FileSource(Path(sys.argv[1]) / name)

async def last(events):
    async for event in events:
        pass
    return event.to_dict()["reason"]

before = set(sys.modules)
weights = source("stories/model.bin")
tokenizer = source("stories/tokenizer.bin")
events = tasks.generate(weights, "Once", {"max_new_tokens": 4}, tokenizer=tokenizer, dtype=quick_dtype(weights))
story = asyncio.run(last(events))
names = {"model": "model.safetensors", "config": "config.json", "tokenizer": "tokenizer.json",
         "generation_config": "generation_config.json", "preprocessor_config": "preprocessor_config.json"}
files = {role: source("speech/" + name) for role, name in names.items()}
sound = str(Path(sys.argv[1]) / "speech/samples/weather.wav")
transcript = asyncio.run(last(tasks.transcribe(sound, {}, model=files)))
late = [name for name in sys.modules if name not in before and name.startswith("pyapp.")]
print(json.dumps([story, transcript, late]))
"""


def test_a_story_and_a_transcript_import_nothing_after_the_start() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(MODELS)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    story, transcript, late = json.loads(done.stdout)
    assert (story, transcript) == ("length", "complete")
    assert set(late) <= NOT_IN_THE_PAGE, "add them to pyapp.browser.import_tasks"
