"""Vocabularies for the tests in this folder."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

TEXT = """Once upon a time there was a little girl named Lily. She loved to play outside in the park with her dog.
One day, she saw a big, red ball. "Can I play with it?" she said. The dog said, "Woof!" They were happy all day long.
"""


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


def learn_pieces(text: str, merges: int) -> list[str]:
    """Byte-pair encoding in its plainest form: joins the commonest neighbours, again and again."""
    words = Counter(f" {word}" for word in text.split())
    split = {word: list(word) for word in words}
    pieces: list[str] = []
    while len(pieces) < merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in zip(split[word], split[word][1:], strict=False):
                pairs[pair] += count
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if left + right not in pieces:
            pieces.append(left + right)
        for parts in split.values():
            place = 0
            while place < len(parts) - 1:
                if parts[place] == left and parts[place + 1] == right:
                    parts[place : place + 2] = [left + right]
                place += 1
    return pieces


@pytest.fixture(scope="session")
def small_vocabulary() -> tuple[list[bytes], list[float]]:
    """Pieces and scores of a tokenizer.bin learnt from TEXT: about 400 tokens."""
    learnt = [*learn_pieces(TEXT, 90), *sorted(set(TEXT.replace("\n", " ")) | {"é", "😀"})]
    control = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256))]
    return [piece.encode() for piece in control + learnt], [0.0] * 259 + [-float(n) for n in range(len(learnt))]


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
    """The ids that the page's library gives for texts, with FOLDER/tokenizer.json."""
    here = Path(__file__).resolve()
    modules = [root / "node_modules/@huggingface/tokenizers/dist/tokenizers.mjs" for root in here.parents]
    library = next((path for path in modules if path.exists()), None)
    node = shutil.which("node")
    if library is None or node is None:
        pytest.skip("node or node_modules/@huggingface/tokenizers is missing")
    (folder / "texts.json").write_text(json.dumps(texts))
    command = [node, str(here.with_name("token_ids.mjs")), str(library), str(folder)]
    result = subprocess.run(command, capture_output=True, check=True, timeout=60)
    ids: list[list[int]] = json.loads(result.stdout)
    return ids


@pytest.fixture(scope="session")
def node_ids() -> Callable[[Path, list[str]], list[list[int]]]:
    return run_node
