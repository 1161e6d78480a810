"""Characters and phonemes of models that speak, from the files of transformers' VitsTokenizer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError, OptionError

LARGEST = 1 << 20  # number of a character
HINT = "Give the files that belong to the weights"
UROMAN = "Write the text in Latin letters first, by the program uroman"
PHONEMES = "Give phonemes, as `espeak-ng -q --ipa=1 TEXT` prints them, and say so: --phonemes (in Python phonemes=True)"
# What training texts of a language have, and texts on keyboards have not.
REPLACED = {"ron": {"ț": "ţ"}}


@dataclass(frozen=True)
class ReadText:
    """The numbers of a text's characters, and the letters and digits that the model does not know, once each."""

    ids: tuple[int, ...]
    unknown: tuple[str, ...]


class VoiceTokenizer:
    """The numbers of characters. `blank`: the number 0 stands around each. `normalize`: capitals become small letters,
    and what the model does not know is left out. `roman`: it reads Latin letters only, whatever the language.
    `phonemes`: it reads phonemes. `special`: characters that stand in a text by themselves, without blanks.
    """

    def __init__(
        self, numbers: Mapping[str, int], *, blank: bool = True, normalize: bool = True, roman: bool = False,
        phonemes: bool = False, language: str | None = None, special: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.numbers, self.blank, self.normalize = dict(numbers), blank, normalize
        self.roman, self.phonemes, self.language = roman, phonemes, language
        known = [token for token in special if len(token) == 1 and token in self.numbers]
        self._special = re.compile(f"[{re.escape(''.join(known))}]") if known else None
        self._long = [token for token in self.numbers if len(token) != 1]

    @classmethod
    def from_files(
        cls, vocabulary: Mapping[str, Any], settings: Mapping[str, Any] | None = None, where: str = "vocab.json"
    ) -> VoiceTokenizer:
        """From the objects of vocab.json and tokenizer_config.json. ModelError for a vocabulary of other values."""
        for piece, number in vocabulary.items():
            if type(number) is not int or not 0 <= number < LARGEST:
                raise ModelError(f"the number of {piece!r:.40} is {number!r:.40}", where=where, hint=HINT)
        if not vocabulary:
            raise ModelError("it has no characters", where=where, hint=HINT)
        settings = settings or {}
        language = settings.get("language")
        special = [
            _content(settings.get(name, usual)) for name, usual in (("pad_token", "<pad>"), ("unk_token", "<unk>"))
        ]
        listed = settings.get("added_tokens_decoder")
        special += [_content(entry) for entry in (listed.values() if isinstance(listed, Mapping) else ())]
        return cls(
            vocabulary, blank=settings.get("add_blank") is not False, normalize=settings.get("normalize") is not False,
            roman=settings.get("is_uroman") is True, phonemes=settings.get("phonemize") is not False,
            language=language if isinstance(language, str) else None, special=tuple(filter(None, special)),
        )  # fmt: skip

    @property
    def vocab_size(self) -> int:
        """One more than the largest number of a character: files may number other tokens, which no text has."""
        return max((number for token, number in self.numbers.items() if len(token) == 1), default=0) + 1

    def read(self, text: str, phonemes: bool = False) -> ReadText:
        """The numbers of a text. phonemes: it has phonemes, which are read as they are. OptionError for a text that a
        model of phonemes or of Latin letters cannot read.
        """
        if phonemes and not self.phonemes:
            raise OptionError("the model reads letters", where="phonemes", hint="Give the text as it is written")
        if self.phonemes and not phonemes:
            raise OptionError("the model reads phonemes, not letters", where="text", hint=PHONEMES)
        if not phonemes:
            text = self._small(text) if self.normalize else text
            for old, new in REPLACED.get(self.language or "", {}).items():
                text = text.replace(old, new)
            if self.roman and not text.isascii():
                other = next(character for character in text if not character.isascii())
                raise OptionError(f"the model reads Latin letters, not {other!r}", where="text", hint=UROMAN)
        kept = "".join(filter(self.numbers.__contains__, text))
        unknown = dict.fromkeys(c for c in text if c not in self.numbers and c.isalnum())
        return ReadText(tuple(self._numbers(kept.strip())), tuple(unknown))

    def _small(self, text: str) -> str:
        """The text in small letters, but for tokens of the vocabulary."""
        found, at = [], 0
        while at < len(text):
            token = next((token for token in self._long if token and text.startswith(token, at)), text[at])
            found.append(token if token in self.numbers else token.lower())
            at += len(token)
        return "".join(found)

    def _numbers(self, text: str) -> list[int]:
        found: list[int] = []
        at = 0
        for match in self._special.finditer(text) if self._special is not None else ():
            found += [*self._between(text[at : match.start()]), self.numbers[match.group()]]
            at = match.end()
        return found + self._between(text[at:])

    def _between(self, text: str) -> list[int]:
        """The numbers of characters, with blanks around them."""
        numbers = [self.numbers[character] for character in text]
        if not self.blank or not numbers:
            return numbers
        return [0, *(number for own in numbers for number in (own, 0))]


def _content(token: Any) -> str:
    """A token of tokenizer_config.json, which is a text or an object."""
    found = token.get("content") if isinstance(token, Mapping) else token
    return found if isinstance(found, str) else ""
