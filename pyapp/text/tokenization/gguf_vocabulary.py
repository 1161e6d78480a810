"""The tokenizer in the metadata of a GGUF file as a tokenizer.json.

Source of the keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and llama.cpp's src/llama-vocab.cpp, whose
defaults for missing keys are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from math import isfinite
from typing import Any

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats.sentencepiece_model import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    SentencePieceModel,
)
from pyapp.text.documents import DECODE_STEPS, SPACE, added_token, bpe_model, document, template
from pyapp.text.gguf_metadata import GGUF_ROLES, PREFIX
from pyapp.text.tokenization.pieces import BYTE_PIECE
from pyapp.text.tokenization.post_processor import LARGEST_ID
from pyapp.text.tokenization.sentencepiece_vocabulary import has_bytes, sentencepiece_document
from pyapp.text.tokenization.vocabulary_files import WORD_LIMIT, usable_merges
from pyapp.text.tokenization.word_patterns import word_pattern

HINT = "The file is damaged, or its tokenizer is of a kind that pyapp does not know"
MODELS = ("llama", "gpt2", "bert", "t5", "gemma4", "rwkv")
# Special tokens that files without their keys have: llama.cpp's defaults.
DEFAULTS: dict[str, dict[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "gpt2": {"bos": 11, "eos": 11},
    "bert": {"bos": 101, "unknown": 100, "seperator": 102, "padding": 0, "mask": 103},
    "t5": {"eos": 1, "unknown": 2, "padding": 0},
    "gemma4": {},
    "rwkv": {"eos": 0},
}


class GgufVocabulary:
    """The tokenizer of a GGUF file: `document` is the tokenizer.json, `settings` what tokenizer_config.json has,
    `end_ids` the ids that end a text or a turn. FileFormatError and ModelError name what is wrong.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where
        kind = values.get(f"{PREFIX}model")
        if kind not in MODELS:
            what = "it has no tokenizer" if kind is None else f"its tokenizer is of the kind {str(kind)!r:.40}"
            raise ModelError(what, where=where, hint=f"Supported: {', '.join(MODELS)}")
        self._kind = str(kind)
        self.tokens: list[str] = self._list("tokens", str) or []
        if not 0 < len(self.tokens) < LARGEST_ID:
            raise FileFormatError(f"its vocabulary has {len(self.tokens):,} tokens", where=where, hint=HINT)
        self._types = self._list("token_type", int) or [NORMAL] * len(self.tokens)
        self._scores = [float(score) for score in self._list("scores", (int, float)) or [0.0] * len(self.tokens)]
        if len(self._types) != len(self.tokens) or len(self._scores) != len(self.tokens):
            raise FileFormatError(
                f"it has {len(self.tokens):,} tokens, {len(self._types):,} types and {len(self._scores):,} scores",
                where=where, hint=HINT,
            )  # fmt: skip
        if not all(map(isfinite, self._scores)):
            raise FileFormatError("a token's score is not a number", where=where, hint=HINT)
        self._leave_out_padding()
        self._ids = {role: self._id(role) for role in GGUF_ROLES}
        makers = self._llama, self._gpt2, self._bert, self._t5, self._gemma4, self._rwkv
        make = dict(zip(MODELS, makers, strict=True))[self._kind]
        self.document: dict[str, Any] = make()
        self.settings = self._settings()
        # The turn ends with eot and, in models that call tools, with eom.
        ends = (self._ids["eos"], self._number("eot_token_id"), self._number("eom_token_id"))
        self.end_ids: tuple[int, ...] = tuple(sorted({number for number in ends if number is not None}))

    def _leave_out_padding(self) -> None:
        """Converters fill the vocabulary up to the model's size with unused tokens ("[PAD9]"), which have no text."""
        named = [value for key, value in self._values.items() if key.endswith("_token_id") and type(value) is int]
        used = [number for number, kind in enumerate(self._types) if kind != UNUSED or number in named]
        count = 1 + max(used, default=len(self.tokens) - 1)
        self.tokens, self._types, self._scores = self.tokens[:count], self._types[:count], self._scores[:count]

    def _list(self, name: str, kinds: Any) -> list[Any] | None:
        value = self._values.get(PREFIX + name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(issubclass(kind, kinds) for kind in {*map(type, value)}):
            raise FileFormatError(f"its {PREFIX}{name} is not a list of the right kind", where=self._where, hint=HINT)
        return value

    def _number(self, name: str) -> int | None:
        value = self._values.get(PREFIX + name)
        return value if type(value) is int and 0 <= value < len(self.tokens) else None

    def _id(self, role: str) -> int | None:
        """The id of a special token: what the file says, else the default of its kind, if that is not an ordinary
        token, at which texts would end.
        """
        number = self._number(f"{role}_token_id")
        if number is not None:
            return number
        number = DEFAULTS[self._kind].get(role)
        if number is None or number >= len(self.tokens):
            return None
        ordinary = f"{PREFIX}token_type" in self._values and self._types[number] == NORMAL
        return None if ordinary else number

    def _flag(self, name: str, default: bool) -> bool:
        value = self._values.get(PREFIX + name)
        return value if isinstance(value, bool) else default

    def _named(self, role: str) -> list[tuple[str, int]]:
        number = self._ids[role]
        return [] if number is None else [(self.tokens[number], number)]

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            name: self.tokens[number] for role, name in GGUF_ROLES.items() if (number := self._ids[role]) is not None
        }
        if isinstance(chat := self._values.get("tokenizer.chat_template"), str):
            settings["chat_template"] = chat
        named = [
            {"name": key.removeprefix("tokenizer.chat_template."), "template": value}
            for key, value in self._values.items()
            if key.startswith("tokenizer.chat_template.") and isinstance(value, str)
        ]
        if named:
            default = settings.get("chat_template")
            settings["chat_template"] = named + ([{"name": "default", "template": default}] if default else [])
        return settings

    def _around(self, bos: bool, eos: bool) -> dict[str, Any] | None:
        front = self._named("bos") if self._flag("add_bos_token", bos) else []
        behind = self._named("eos") if self._flag("add_eos_token", eos) else []
        return template(front, behind)

    def _sentencepiece(self, kind: str, **settings: Any) -> SentencePieceModel:
        types = [kind if NORMAL <= kind <= BYTE else NORMAL for kind in self._types]
        if f"{PREFIX}token_type" not in self._values:
            types = [BYTE if BYTE_PIECE.fullmatch(piece) else NORMAL for piece in self.tokens]
        unknown = self._ids["unknown"]
        if unknown is None:
            raise FileFormatError("it has no unknown token", where=self._where, hint=HINT)
        # Converters fill the vocabulary up with tokens that have no name.
        pieces = [piece or f"[EMPTY_{number}]" for number, piece in enumerate(self.tokens)]
        return SentencePieceModel(pieces, self._scores, types, kind, unk_id=unknown, **settings)

    def _llama(self) -> dict[str, Any]:
        model = self._sentencepiece(
            "bpe",
            add_dummy_prefix=self._flag("add_space_prefix", True),
            remove_extra_whitespaces=self._flag("remove_extra_whitespaces", False),
        )
        return sentencepiece_document(model, self._around(True, False), self._where)

    def _t5(self) -> dict[str, Any]:
        charsmap = self._values.get(f"{PREFIX}precompiled_charsmap")
        data = b""
        if isinstance(charsmap, list) and all(type(byte) is int and -128 <= byte <= 255 for byte in charsmap):
            data = bytes(byte & 0xFF for byte in charsmap)
        model = self._sentencepiece(
            "unigram",
            charsmap=data,
            add_dummy_prefix=self._flag("add_space_prefix", False),
            remove_extra_whitespaces=self._flag("remove_extra_whitespaces", False),
        )
        return sentencepiece_document(model, self._around(False, True), self._where)

    def _pairs(self) -> tuple[dict[str, int], list[tuple[str, str]], list[dict[str, Any]]]:
        """The vocabulary, the merges and the added tokens of byte-pair encoding."""
        lines = self._list("merges", str)
        if lines is None:
            raise FileFormatError("its tokenizer has no merges", where=self._where, hint=HINT)
        used = [number for number, kind in enumerate(self._types) if kind != UNUSED]
        pieces = [self.tokens[number] or f"[EMPTY_{number}]" for number in used]
        vocabulary = dict(zip(pieces, used, strict=True))
        if len(vocabulary) != len(used):
            number, piece = next((n, piece) for n, piece in zip(used, pieces, strict=True) if vocabulary[piece] != n)
            raise FileFormatError(
                f"tokens {number} and {vocabulary[piece]} are both {piece!r:.60}", where=self._where, hint=HINT
            )
        parts = map(str.partition, lines, repeat(" "))
        if any(line.startswith(" ") for line in lines):  # a piece may begin with a space
            parts = map(_parted, lines)
        added = [
            added_token(number, piece, special=self._types[number] != USER_DEFINED)
            for piece, number in vocabulary.items()
            if self._types[number] in (CONTROL, USER_DEFINED, UNKNOWN)
        ]
        return vocabulary, usable_merges(((left, right) for left, _, right in parts), vocabulary), added

    def _rwkv(self) -> dict[str, Any]:
        """The longest piece that fits, with the special tokens that the file names."""
        from pyapp.text.tokenization.longest_match import longest_match_document, unescaped

        known = [number for number, kind in enumerate(self._types) if kind != UNUSED]
        named = {number: self.tokens[number] for number in known if self._types[number] != NORMAL}
        pieces = {number: unescaped(self.tokens[number]) for number in known if number not in named}
        return longest_match_document(pieces, {}, self._where, named)

    def _gemma4(self) -> dict[str, Any]:
        """Byte-pair encoding of whole texts with U+2581 for spaces; characters without a piece become bytes."""
        vocabulary, merges, added = self._pairs()
        unknown = self._named("unknown")
        fallback = has_bytes(self.tokens, self._types)
        return document(
            bpe_model(
                vocabulary, merges, unk_token=unknown[0][0] if unknown else None, fuse_unk=True, byte_fallback=fallback
            ),
            added_tokens=added,
            normalizer={"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
            post_processor=self._around(True, False),
            decoder={
                "type": "Sequence",
                "decoders": [
                    {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"},
                    {"type": "Fuse"},
                ],
            },
        )  # fmt: skip

    def _gpt2(self) -> dict[str, Any]:
        name = self._values.get(f"{PREFIX}pre", "default")
        words = word_pattern(name if isinstance(name, str) else repr(name), self._where)
        vocabulary, merges, added = self._pairs()
        if words.adds_sep or self._flag("add_sep_token", False):
            front, sep = self._named("bos"), self._named("seperator") or self._named("eos")
            post = template(front, sep, between=[*sep, *sep], second_type=0)
        else:
            post = self._around(words.adds_bos, False)
        return document(
            bpe_model(vocabulary, merges, ignore_merges=words.ignore_merges),
            added_tokens=added,
            pre_tokenizer=words.pre_tokenizer(),
            post_processor=post,
            decoder=DECODE_STEPS["byte_level"],
        )

    def _bert(self) -> dict[str, Any]:
        """GGUF marks the pieces that begin words, WordPiece those that do not."""
        unknown = self._named("unknown")
        if not unknown:
            raise FileFormatError("it has no unknown token", where=self._where, hint=HINT)
        special = {number for number in self._ids.values() if number is not None}
        special |= {number for number, kind in enumerate(self._types) if kind in (CONTROL, UNKNOWN)}
        vocabulary: dict[str, int] = {}
        for number, piece in enumerate(self.tokens):
            if number in special or self._types[number] == UNUSED:
                text = piece
            else:
                text = piece[1:] if piece.startswith(SPACE) else f"##{piece}"
            vocabulary.setdefault(text, number)
        lowercase = self._flag("normalizer.lowercase", True)
        return document(
            {
                "type": "WordPiece", "unk_token": unknown[0][0], "continuing_subword_prefix": "##",
                "max_input_chars_per_word": WORD_LIMIT, "vocab": vocabulary,
            },
            added_tokens=[added_token(number, self.tokens[number]) for number in sorted(special)],
            normalizer={
                "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                "strip_accents": self._flag("normalizer.strip_accents", lowercase), "lowercase": lowercase,
            },
            pre_tokenizer={"type": "BertPreTokenizer"},
            post_processor=template(self._named("bos"), sep := self._named("seperator"), between=sep),
            decoder=DECODE_STEPS["wordpiece"],
        )  # fmt: skip


def _parted(line: str) -> tuple[str, str, str]:
    """The pair in a line of merges, whose first piece may begin with a space, and what is between."""
    left, space, right = line[1:].partition(" ")
    return line[:1] + left, space, right
