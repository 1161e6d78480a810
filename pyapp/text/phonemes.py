"""Phonemes of texts, and their numbers for models that read them, in misaki's form (pyapp.models.kokoro) or in that of
espeak-ng (pyapp.models.vits). English is read here, with the dictionary of the package misaki (pyapp.text.english);
other languages by that package and by phonemizer.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError

from .english.reader import EnglishReader
from .english.stress import VOWELS
from .tokenization.voice_tokenizer import PHONEMES, ReadText, VoiceTokenizer

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
        raise _missing(name, language, HINT) from error


def _missing(name: str, language: str, hint: str) -> OptionError:
    what = f"the model reads phonemes, and {name}, which makes them of a text in {language!r}, is not installed"
    return OptionError(what, where="text", hint=hint)


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


# Signs of misaki for two sounds, and for those of American English that espeak-ng writes in other ways.
_SIGNS = {
    "A": "eɪ", "I": "aɪ", "O": "oʊ", "Q": "əʊ", "W": "aʊ", "Y": "ɔɪ", "ʤ": "dʒ", "ʧ": "tʃ", "ᵊ": "ə", "T": "ɾ",
}  # fmt: skip
_LONG = re.compile("(?<=[ˈˌ])[iuɑɔ](?!ː)")
_ALONE = re.compile("[iuɑɔ](?!ː)")


def ipa_of(text: str, language: str) -> str:
    """The phonemes of a text as espeak-ng writes them: by the library phonemizer, and English without it as phonemes_of
    reads it. OptionError where neither can.
    """
    try:
        return _espeak()(text, language)
    except ImportError:
        if not language.startswith("en"):
            raise _missing("phonemizer", language, PHONEMES) from None
    return " ".join(map(_as_espeak, phonemes_of(text, "en-gb" if "gb" in language else "en-us").split()))


@cache
def _espeak() -> Callable[[str, str], str]:
    """The function from a text and a language to phonemes, as transformers' VitsTokenizer calls phonemizer."""
    phonemizer = importlib.import_module("phonemizer")
    place = importlib.import_module("espeakng_loader")
    wrapper = importlib.import_module("phonemizer.backend.espeak.wrapper").EspeakWrapper
    wrapper.set_library(place.get_library_path())
    wrapper.set_data_path(place.get_data_path())
    options = {"backend": "espeak", "strip": True, "preserve_punctuation": True, "with_stress": True}

    def read(text: str, language: str) -> str:
        named = "en-us" if language == "en" else language
        return str(phonemizer.phonemize(text, language=named, **options))

    return read


def _as_espeak(word: str) -> str:
    """A word of misaki's signs in espeak-ng's: diphthongs in two signs, long vowels where there is stress."""
    if word == "ði":  # before a vowel
        return "ðɪ"
    one = sum(sign in VOWELS for sign in word) == 1
    found = (_ALONE if one else _LONG).sub(r"\g<0>ː", word).replace("ɜɹ", "ɜː").replace("əɹ", "ɚ")
    return "".join(_SIGNS.get(sign, sign) for sign in found)


@dataclass(frozen=True)
class SpokenPhonemes:
    """Reads texts in a language for a model of phonemes, whose numbers `numbers` has. `ipa`: in espeak-ng's form."""

    numbers: VoiceTokenizer
    language: str
    ipa: bool = False

    @property
    def vocab_size(self) -> int:
        """The phonemes."""
        return self.numbers.vocab_size

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The numbers of a text's phonemes, or of phonemes. OptionError for a text where nothing makes them."""
        made = text if phonemes else (ipa_of if self.ipa else phonemes_of)(text, self.language)
        return self.numbers.read(made, True)
