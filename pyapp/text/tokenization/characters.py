"""The tokenizer of CANINE (Clark et al. 2021, arXiv 2103.06874): a character's number in Unicode is its token. It has
no vocabulary; some characters for private use are the special tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.text.documents import added_token, document
from pyapp.text.tokenization.encoding import Span
from pyapp.text.tokenization.tokenizer import Tokenizer

KIND = "Characters"
COUNT = 0x110000
SURROGATES = range(0xD800, 0xE000)
SPECIAL = {"pad_token": 0, "cls_token": 0xE000, "sep_token": 0xE001, "mask_token": 0xE003}
SAME = {"bos_token": "cls_token", "eos_token": "sep_token"}


class Characters:
    """Splits texts into the numbers of their characters."""

    def __init__(self, json_text: str) -> None:
        pass

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return list(map(ord, text))

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a text and the places of their characters."""
        return self.encode(text), [(at, at + 1) for at in range(len(text))]


class CharacterTokenizer(Tokenizer):
    """A tokenizer whose ids are the numbers of characters; `settings` is tokenizer_config.json."""

    def __init__(self, settings: Mapping[str, Any], end_ids: Sequence[int], where: str) -> None:
        cls, sep = ([chr(SPECIAL[name]), SPECIAL[name]] for name in ("cls_token", "sep_token"))
        whole = document(
            {"type": KIND, "vocab": {}},
            added_tokens=[added_token(number, chr(number)) for number in SPECIAL.values()],
            post_processor={"type": "BertProcessing", "cls": cls, "sep": sep},
            decoder={"type": "Fuse"},
        )
        named = {role: chr(number) for role, number in SPECIAL.items()}
        named |= {role: named[other] for role, other in SAME.items()}
        usual = {"model_max_length": 2048}
        super().__init__(whole, usual | dict(settings) | named, end_ids=end_ids, where=where)
        self._factory = Characters

    @property
    def vocab_size(self) -> int:
        """The numbers of Unicode."""
        return COUNT

    def id_of(self, piece: str) -> int | None:
        """The number of a character; None for other texts."""
        return ord(piece) if len(piece) == 1 and ord(piece) not in SURROGATES else None

    def piece(self, token: int) -> str | None:
        """The character; None for numbers that are none."""
        if token < 0:
            raise IndexError(f"token id {token} is negative")
        return chr(token) if token < COUNT and token not in SURROGATES else None
