"""Phonemes of texts, and their numbers for models that read them (pyapp.models.kokoro). English is read here, with the
dictionary of the package misaki (pyapp.text.english); other languages by that package.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError

from .english.reader import EnglishReader
from .voice_tokenizer import ReadText, VoiceTokenizer

# By the first letter of a voice's name, as Kokoro's voices are named: its language, as espeak-ng calls it.
LANGUAGES = {
    "a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "j": "ja", "p": "pt-br", "z": "zh",
}  # fmt: skip
HINT = (
    "Install misaki: pip install 'pyapp[phonemes]', for Japanese and Chinese 'misaki[ja,zh]'; or give phonemes and say "
    "so: --phonemes (in Python phonemes=True)"
)
if sys.platform == "emscripten":
    HINT = "Choose an English voice: af_heart, bm_george …"
Reader = Callable[[str], str]


def phonemes_of(text: str, language: str) -> str:
    """The phonemes (IPA, in misaki's form) of a text in a language of LANGUAGES. OptionError without the library."""
    try:
        return _reader(language)(text).strip()
    except ImportError as error:
        name = (error.name or "misaki").partition(".")[0]
        raise OptionError(
            f"the model reads phonemes, and {name}, which makes them of a text in {language!r}, is not installed",
            where="text", hint=HINT,
        ) from error  # fmt: skip


@cache
def _reader(language: str) -> Reader:
    """The function from a text to its phonemes. misaki reads English where spaCy is installed with its model
    en_core_web_sm. Where espeak-ng is installed, it reads the English words that the dictionary lacks, and other
    languages.
    """
    if language == "ja":
        return _first(importlib.import_module("misaki.ja").JAG2P())
    if language == "zh":
        return _first(importlib.import_module("misaki.zh").ZHG2P())
    if not language.startswith("en"):
        return _first(importlib.import_module("misaki.espeak").EspeakG2P(language=language))
    british = language == "en-gb"
    try:
        espeak = importlib.import_module("misaki.espeak").EspeakFallback(british=british)
    except ImportError:
        espeak = None
    if espeak is None or importlib.util.find_spec("en_core_web_sm") is None:  # misaki would download it
        unknown = None if espeak is None else lambda word: str(espeak(_Word(word))[0] or "")
        return EnglishReader.of_dialect("gb" if british else "us", unknown).read
    return _first(importlib.import_module("misaki.en").G2P(trf=False, british=british, fallback=espeak, unk=""))


def _first(reader: Callable[[str], Any]) -> Reader:
    """misaki's readers return (phonemes, more)."""
    return lambda text: str(reader(text)[0])


@dataclass(frozen=True)
class _Word:
    """What EspeakFallback reads."""

    text: str


@dataclass(frozen=True)
class SpokenPhonemes:
    """Reads texts in a language for a model of phonemes, whose numbers `numbers` has."""

    numbers: VoiceTokenizer
    language: str

    @property
    def vocab_size(self) -> int:
        """The phonemes."""
        return self.numbers.vocab_size

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The numbers of a text's phonemes, or of phonemes. OptionError for a text where nothing makes them."""
        return self.numbers.read(text if phonemes else phonemes_of(text, self.language), True)
