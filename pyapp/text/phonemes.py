"""Phonemes of texts, by the library misaki, and their numbers for models that read them (pyapp.models.kokoro)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError

from .voice_tokenizer import ReadText, VoiceTokenizer

# By the first letter of a voice's name, as Kokoro's voices are named: its language, as espeak-ng calls it.
LANGUAGES = {
    "a": "en-us", "b": "en-gb", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "j": "ja", "p": "pt-br", "z": "zh",
}  # fmt: skip
HINT = (
    "Install misaki: pip install 'pyapp[phonemes]', for Japanese and Chinese 'misaki[ja,zh]'; or give phonemes and say "
    "so: --phonemes (in Python phonemes=True)"
)
Reader = Callable[[str], Any]


def phonemes_of(text: str, language: str) -> str:
    """The phonemes (IPA, in misaki's form) of a text in a language of LANGUAGES. OptionError without the library."""
    try:
        found = _reader(language)(text)
    except ImportError as error:
        name = getattr(error, "name", None) or "misaki"
        raise OptionError(
            f"the model reads phonemes, and {name}, which makes them of a text in {language!r}, is not installed",
            where="text", hint=HINT,
        ) from error  # fmt: skip
    return str(found[0]).strip()


@cache
def _reader(language: str) -> Reader:
    """misaki's function from a text to (phonemes, more). English has a dictionary where spaCy is installed with its
    model en_core_web_sm; espeak-ng reads what that lacks, and other languages.
    """
    if language == "ja":
        found: Reader = importlib.import_module("misaki.ja").JAG2P()
        return found
    if language == "zh":
        found = importlib.import_module("misaki.zh").ZHG2P()
        return found
    espeak = importlib.import_module("misaki.espeak")
    if not language.startswith("en"):
        found = espeak.EspeakG2P(language=language)
        return found
    british = language == "en-gb"
    fallback = espeak.EspeakFallback(british=british)
    if importlib.util.find_spec("en_core_web_sm") is None:  # misaki would download it
        return lambda text: fallback(_Word(text))
    found = importlib.import_module("misaki.en").G2P(trf=False, british=british, fallback=fallback, unk="")
    return found


@dataclass(frozen=True)
class _Word:
    """What EspeakFallback reads: here a whole sentence."""

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
