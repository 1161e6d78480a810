"""Vocabularies for the tests in this folder."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.text.parrot import make_vocabulary

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def data_file(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    return path


def read_tokenizer_bin(data: bytes) -> tuple[list[bytes], list[float]]:
    """tokenizer.bin, read apart from pyapp: int32 longest, then float32 score, int32 length and bytes each."""
    pieces, scores, offset = [], [], 4
    while offset < len(data):
        score, length = struct.unpack_from("<fi", data, offset)
        pieces.append(data[offset + 8 : offset + 8 + length])
        scores.append(score)
        offset += 8 + length
    return pieces, scores


@pytest.fixture(scope="session")
def small_vocabulary() -> tuple[list[bytes], list[float]]:
    return make_vocabulary()


@pytest.fixture(scope="session")
def tok512() -> tuple[list[bytes], list[float]]:
    """The real tokenizer of karpathy's stories260K."""
    return read_tokenizer_bin(data_file("tok512.bin").read_bytes())


@pytest.fixture(params=["small", "tok512"])
def vocabulary(request: pytest.FixtureRequest) -> tuple[list[bytes], list[float]]:
    return request.getfixturevalue("small_vocabulary" if request.param == "small" else "tok512")


@pytest.fixture(scope="session")
def data_path() -> Callable[[str], Path]:
    """Finds a public file by name, or skips the test."""
    return data_file


def run_node(folder: Path, texts: list[str]) -> list[list[int]]:
    """The ids that the page gives for texts, with FOLDER/tokenizer.json."""
    here = Path(__file__).resolve()
    encoder = here.parents[2] / "web/modules/worker/token-encoder.js"
    modules = [root / "node_modules/@huggingface/tokenizers/dist/tokenizers.mjs" for root in here.parents]
    library = next((path for path in modules if path.exists()), None)
    node = shutil.which("node")
    if library is None or node is None:
        pytest.skip("node or node_modules/@huggingface/tokenizers is missing")
    (folder / "texts.json").write_text(json.dumps(texts))
    command = [node, str(here.with_name("token_ids.mjs")), str(library), str(encoder), str(folder)]
    result = subprocess.run(command, capture_output=True, check=True, timeout=60)
    ids: list[list[int]] = json.loads(result.stdout)
    return ids


@pytest.fixture(scope="session")
def node_ids() -> Callable[[Path, list[str]], list[list[int]]]:
    return run_node
