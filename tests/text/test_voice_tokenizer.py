"""Characters of models that speak, against transformers (make_golden_voice_tokenizer.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyapp.errors import ModelError, OptionError
from pyapp.text.tokenization.voice_tokenizer import VoiceTokenizer
from tests.text.voice_vocabularies import CASES, ENGLISH

GOLDEN = json.loads(Path(__file__).with_name("golden_voice_tokenizer.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_texts(name: str) -> None:
    vocabulary, settings, texts = CASES[name]
    tokenizer = VoiceTokenizer.from_files(vocabulary, settings)
    found = [list(tokenizer.read(text, tokenizer.phonemes).ids) for text in texts]
    assert found == GOLDEN[name]
    assert tokenizer.vocab_size == 1 + max(number for token, number in vocabulary.items() if len(token) == 1)


def test_unknown_letters_and_digits_are_told() -> None:
    tokenizer = VoiceTokenizer.from_files(ENGLISH, {"phonemize": False})
    assert tokenizer.read("At 15:15 – naïve!").unknown == ("1", "5", "ï")
    assert tokenizer.read("…").ids == ()


def test_what_a_model_cannot_read_is_refused() -> None:
    roman = VoiceTokenizer.from_files(ENGLISH, {"phonemize": False, "is_uroman": True})
    assert roman.read("annyeong").ids
    with pytest.raises(OptionError, match="Latin letters, not '안'") as caught:
        roman.read("안녕")
    assert "uroman" in (caught.value.hint or "")
    spoken = VoiceTokenizer.from_files(ENGLISH, {})
    with pytest.raises(OptionError, match="reads phonemes") as caught:
        spoken.read("hello")
    assert "espeak-ng" in (caught.value.hint or "")
    with pytest.raises(OptionError, match="reads letters"):
        roman.read("hello", phonemes=True)


def test_wrong_vocabularies() -> None:
    for vocabulary in ({"a": "x"}, {"a": -1}, {"a": 1 << 40}, {"a": True}, {}):
        with pytest.raises(ModelError):
            VoiceTokenizer.from_files(vocabulary)
