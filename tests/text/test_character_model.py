"""The model of characters: probabilities by hand and by counting, its files, and damaged ones."""

from __future__ import annotations

from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.errors import FileFormatError
from pyapp.formats import BytesSource, write_safetensors
from pyapp.recipes.reader.language import count_ngrams
from pyapp.text.generation.character_model import (
    BORDER,
    KIND,
    STEP,
    CharacterModel,
    NGrams,
    letter,
    read_character_model,
    shape,
)

TEXTS = ["abba", "ab", "Abra 12", "ÄB", "ba…"]
ROUNDED = STEP * 3  # each probability and each weight is rounded to STEP


def ngrams(texts: list[str], symbol: Any = letter, least: tuple[int, ...] = (1, 1, 1)) -> NGrams:
    symbols, tree = count_ngrams(texts, symbol, least)
    return NGrams(symbols, [{field: values.tobytes() for field, values in level.items()} for level in tree])


def witten_bell(texts: list[str], symbols: str, before: str, symbol: str) -> float:
    """By the definition: (count + k p) / (n + k), p after one symbol less."""
    rows = [BORDER + "".join(map(letter, text)) + BORDER for text in texts]
    if not before:
        every = "".join(rows)
        return (every.count(symbol) + 0.5) / (len(every) + 0.5 * len(symbols))
    behind = [row[i + len(before)] for row in rows for i in range(len(row) - len(before)) if row.startswith(before, i)]
    shorter = witten_bell(texts, symbols, before[1:], symbol)
    kinds = len(set(behind))
    return (behind.count(symbol) + kinds * shorter) / (len(behind) + kinds) if behind else shorter


@pytest.mark.parametrize("before", ["", "a", "ab", "bb", BORDER, BORDER + "a", "r", "zz", "1"])
def test_probabilities_are_those_of_witten_and_bell(before: str) -> None:
    model = ngrams(TEXTS)
    for symbol in model.symbols:
        wanted = log(witten_bell(TEXTS, model.symbols, before, symbol))
        assert model.log_probability(before, symbol) == pytest.approx(wanted, abs=ROUNDED), symbol
    assert model.log_probability(before, "z") == -255 * STEP


@pytest.mark.parametrize("least", [(1, 1, 1, 1), (1, 1, 2, 3), (1, 2, 9, 9)], ids=str)
def test_probabilities_are_one_together(least: tuple[int, ...]) -> None:
    """Also where rare n-grams were left out."""
    texts = ["".join(np.random.default_rng(i).choice(list("aab bcd"), 12)) for i in range(60)]
    model = ngrams(texts, letter, least)
    for before in ("", "a", "ab", "bcd", BORDER, "dd"):
        chances = [exp(model.log_probability(before, symbol)) for symbol in model.symbols]
        assert sum(chances) == pytest.approx(1.0, abs=0.04), before


def test_more_symbols_than_a_byte_tells_are_refused() -> None:
    with pytest.raises(ValueError, match="300 different symbols"):
        count_ngrams(["".join(map(chr, range(0x4E00, 0x4E00 + 300)))], letter, (1, 1))


def test_capitals_and_digits_have_their_own_model() -> None:
    model = CharacterModel(ngrams(["abc 12 de"] * 9), ngrams(["Abc 12 de", "ABC", "abc"] * 9, shape))
    assert model.log_probability("ABC"[:2], "C") > model.log_probability("ABC"[:2], "c") + 0.5
    assert model.log_probability("ab", "c") > model.log_probability("ab", "C") + 0.5
    assert model.log_probability("1", "2") == model.log_probability("1", "7")
    one = model.letters.log_probability("0", "0")
    assert model.log_probability("1", "2") == pytest.approx(one - log(10))


def stored(**changes: Any) -> bytes:
    tensors: dict[str, Any] = {}
    metadata = {"kind": KIND}
    for part, symbol in (("letters", letter), ("shapes", shape)):
        symbols, tree = count_ngrams(TEXTS, symbol, (1, 1))
        metadata[part] = symbols[1:]
        for level, fields in enumerate(tree, 1):
            tensors |= {f"{part}.{level}.{field}": values for field, values in fields.items()}
    for name, value in changes.items():
        target = metadata if name in metadata else tensors
        target.pop(name, None)
        if value is not None:
            target[name] = value
    path = Path("language.safetensors").resolve()
    write_safetensors(path, tensors, metadata)
    data = path.read_bytes()
    path.unlink()
    return data


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_file_is_what_was_written() -> None:
    model = read_character_model(BytesSource(stored(), "language.safetensors"))
    assert model.log_probability(BORDER + "a", "b") > model.log_probability(BORDER + "a", "1")
    assert model.context == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kind": "other"}, "not a model of characters"), ({"letters": None}, "1 to 255"),
        ({"letters": "aa"}, "1 to 255"),
        ({"letters.1.costs": np.zeros(3, np.uint8)}, "are not"), ({"letters.2.costs": None}, "row of bytes"),
        ({"letters.1.children": np.full(8, 255, np.uint8)}, "are not"), ({"shapes.1.costs": None}, "row of bytes"),
        ({"letters.1.costs": np.zeros(8, np.float32)}, "row of bytes"),
    ],
    ids=str,
)  # fmt: skip
def test_damaged_files_are_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(FileFormatError, match=what):
        read_character_model(BytesSource(stored(**changes), "language.safetensors"))


def test_symbols_that_are_not_there_are_refused() -> None:
    symbols, tree = count_ngrams(TEXTS, letter, (1, 1))
    wrong = tree[1]["symbols"].copy()
    wrong[0] = len(symbols)
    with pytest.raises(FileFormatError, match="a symbol that is not there"):
        read_character_model(BytesSource(stored(**{"letters.2.symbols": wrong}), "language.safetensors"))
    first = tree[0]["symbols"][::-1].copy()
    with pytest.raises(FileFormatError, match="are not its symbols"):
        read_character_model(BytesSource(stored(**{"letters.1.symbols": first}), "language.safetensors"))
