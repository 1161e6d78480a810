"""Hostile files through the page's readers, in node: quick answers, and errors in the page's words."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only

HERE = Path(__file__).resolve().parent
MODULES = HERE.parents[1] / "web" / "modules"
SECONDS = 4.0  # of a machine that has other work; what is not linear takes minutes
REFUSED = "UserError: "
ANSWERS = {
    "a history that does not answer": [],
    "stored files that do not answer": None,
    "a download of which nothing comes": "UserError: The connection was lost.",
    "a name that is no address": "UserError: This is not the name of a model.",
    "a name with escapes": "UserError: This is not the name of a model.",
    "a name as other programs have it": ["a/b-GGUF", "b-q4_k_m.gguf"],
    "a Python that ends": "RangeError: out of bounds",
    "a title that ends inside an emoji": "a" * 57 + "…",
    "a title that ends between a letter and its mark": "a" * 59 + "…",
    "a title of marks": 61,
    "a text that is too large": "UserError: This file is too large.",
    "a page in place of a file": "UserError: A part of the program is missing on the server (a web page came instead).",
    "a script of another type": REFUSED,
    "a file that is not there": REFUSED,
    "a file": None,
    "spaces in a page": 600_003,
    "paragraphs of a page": "a \n b\n\nc",
    "a table of marks": 'a: 1\nb "b"\nb: 2, "3"\n45\n6',
    "a long table": 300_000 * 11 - 2,
    "a long table that is stopped": "Cancelled: cancelled",
    "spaces in a script": 1,
    "an error of no text": "Error",
    "conversations of no version": REFUSED,
    "collections of no version": REFUSED,
    "tags that do not end": None,
    "a name that does not end": None,
    "a width of spaces": None,
    "a format that all objects have": None,
    "a model type that all objects have": None,
    "an architecture that all objects have": "chat",
    "types of weights": "float16 float16 float32 - - float32 float16 - - float16 - float16 float32 - float32 -",
    "an Ogg file that is cut off": "the recording ends after 2.0 s the recording ends after 2.0 s - -",
    "a file of Segment Anything": "cut-out",
    "an architecture": "chat",
    "lists in lists": "chat",
    "a type that there is not": "chat",
    **{f"{rate} samples a second": REFUSED for rate in (0.5, 1, 44100.5, 1_000_003, 2**31)},
    **{f"{rate} samples a second": None for rate in (8000, 11_025, 22_255, 44_100, 48_000, 192_000, 384_000)},
}


def test_hostile_files() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing")
    command = [node, "--no-warnings", "--experimental-default-type=module", str(HERE / "page_files.mjs"), str(MODULES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    found = {what: (milliseconds / 1000, answer) for what, milliseconds, answer in json.loads(done.stdout)}
    assert {what: seconds for what, (seconds, _) in found.items() if seconds > SECONDS} == {}
    for what, (_, answer) in found.items():
        expected = ANSWERS.pop(what)
        assert answer == expected or (expected == REFUSED and str(answer).startswith(REFUSED)), (what, answer)
    assert not ANSWERS
