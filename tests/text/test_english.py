"""English texts as phonemes: as misaki and num2words have them (make_golden_english.py), and what misaki leaves to
others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pyapp.errors import OptionError
from pyapp.text import phonemes
from pyapp.text.english import numbers
from pyapp.text.english.dictionary import Dictionary
from pyapp.text.english.letters import LetterSounds
from pyapp.text.english.reader import EnglishReader
from tests.text.english_texts import READ_BY_PLACE

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_english.json").read_text("utf-8"))


@pytest.fixture(scope="module", params=["us", "gb"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def reader_of(dialect: str) -> EnglishReader:
    found = GOLDEN[dialect]
    return EnglishReader(Dictionary(found["checked"], found["others"], dialect), LetterSounds.of_dialect(dialect).read)


def test_texts_are_read_as_misaki_reads_them(dialect: str) -> None:
    reader = reader_of(dialect)
    for text, wanted in GOLDEN[dialect]["texts"]:
        assert reader.read(text) == wanted, text


def test_numbers_are_said_as_num2words_says_them() -> None:
    for kind, number, wanted in GOLDEN["numbers"]:
        assert getattr(numbers, kind)(number) == ["oh" if word == "oh" else word for word in wanted], (kind, number)
    assert numbers.spoken("12a") is None and numbers.spoken("-") is None and numbers.spoken("") is None
    assert numbers.cardinal(10**21) == ["one"] + ["zero"] * 21


def test_what_stands_around_a_word_tells_how_it_is_said() -> None:
    reader = reader_of("us")
    assert {text: reader.read(text) for text, _ in READ_BY_PLACE} == dict(READ_BY_PLACE)


def test_unknown_words_are_read_by_their_letters(dialect: str) -> None:
    reader = EnglishReader(Dictionary({}, {}, dialect), LetterSounds.of_dialect(dialect).read)
    found = {word: reader.read(word) for word in ("strish", "blackening", "phonetic")}
    assert all(sounds and sounds.isprintable() for sounds in found.values()) and "f" in found["phonetic"]
    assert "ʃ" in found["strish"] and reader.read("ПРИВЕТ 你好 🎈 ...") == "…"
    assert EnglishReader(Dictionary({}, {}, dialect), lambda word: f"<{word}>").read("Wug") == "<wug>"
    assert reader.read("") == reader.read(" \n") == "" and reader.read("a" * 5000)


def test_models_of_espeak_read_its_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of phonemizer, of which these are the words: long vowels, diphthongs, r."""
    wanted = "ðə kwˈɪk bɹˈaʊn fˈɑːks dʒˈʌmps ˌoʊvɚ ðə lˈeɪzi dˈɔːɡ nˌɪɹ ðɪ ˈoʊld ˈæpəl tɹˈiː."
    monkeypatch.setattr(phonemes, "_reader", lambda language: reader_of("us").read)
    monkeypatch.setitem(sys.modules, "phonemizer", None)
    found = phonemes.ipa_of("the quick brown fox jumps over the lazy dog near the old apple tree.", "en")
    assert found == wanted.replace("ˌoʊvɚ", "ˈoʊvɚ")
    with pytest.raises(OptionError, match="'deu', is not installed"):
        phonemes.ipa_of("Guten Tag", "deu")
    made = ModuleType("phonemizer")
    made.phonemize = lambda text, language, **options: f"{text} {language} {options['backend']}"  # type: ignore[attr-defined]
    wrapper = SimpleNamespace(set_library=lambda path: None, set_data_path=lambda path: None)
    place = SimpleNamespace(get_library_path=lambda: "", get_data_path=lambda: "")
    for name, module in (
        ("phonemizer", made), ("espeakng_loader", place), ("phonemizer.backend", ModuleType("backend")),
        ("phonemizer.backend.espeak", ModuleType("espeak")),
        ("phonemizer.backend.espeak.wrapper", SimpleNamespace(EspeakWrapper=wrapper)),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    phonemes._espeak.cache_clear()
    assert phonemes.ipa_of("Guten Tag", "de") == "Guten Tag de espeak"
    assert phonemes.ipa_of("hello", "en") == "hello en-us espeak"
    phonemes._espeak.cache_clear()


@pytest.mark.skipif(phonemes.importlib.util.find_spec("misaki") is not None, reason="misaki is installed")
def test_without_the_dictionary_the_error_says_what_to_install() -> None:
    phonemes._reader.cache_clear()
    with pytest.raises(OptionError, match=r"reads phonemes, and misaki.*") as caught:
        phonemes.phonemes_of("hello", "en-us")
    assert caught.value.where == "text" and caught.value.hint
