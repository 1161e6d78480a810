"""Whisper's vocabulary: text in byte-level BPE, control tokens for language and task, and one token each 0.02 s.

Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision (2022), section 2.3, and the
behaviour of https://github.com/openai/whisper (MIT). The ids are, in this order: text, <|endoftext|>,
<|startoftranscript|>, the languages, the tasks, other control tokens, <|0.00|> and the other times.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from pyapp.errors import ModelError, PyappError
from pyapp.formats.safe_json import malformed
from pyapp.text.languages import LANGUAGES, UNSPACED, language_code
from pyapp.text.tokenization.rank_bpe import RankVocabulary
from pyapp.text.tokenization.symbol_bpe import encode_signs
from pyapp.text.tokenization.tokenizer import Tokenizer, read_json, read_utf8

TIMES = 1501  # 0.00 to 30.00 s
SECONDS_PER_TIME = 0.02
OTHER_CONTROL = 8  # end, start, two tasks, startoflm, startofprev, nospeech, notimestamps
# Symbols that annotate sound instead of speech: brackets, music, speakers' names. Words may contain - and '.
SYMBOLS = [
    *'"#()*+/:;<=>@[\\]^_`{|}~「」『』',
    *"<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪".split(),
]
# The first token is enough for these: U+2640 to U+267F share their first two bytes.
MUSIC = "♩♪♫♬♭♮♯"
INSIDE_WORDS = (" -", " '")


class TextVocabulary(Protocol):
    """The part of the vocabulary that is text."""

    def encode(self, text: str) -> list[int]: ...
    def encode_signs(self, texts: Sequence[str]) -> list[list[int]]: ...
    def token_bytes(self, token: int) -> bytes: ...


class JsonVocabulary:
    """The text part of a tokenizer.json, without its added tokens: their names in a text are ordinary text."""

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self._document = {**document, "added_tokens": [], "post_processor": None}
        self._tokenizer = Tokenizer(self._document, where=where)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, bos=False)

    def encode_signs(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts of symbols; see symbol_bpe.encode_signs."""
        found = encode_signs(self._document, texts)
        return [self.encode(text) for text in texts] if found is None else found

    def token_bytes(self, token: int) -> bytes:
        return self._tokenizer.token_bytes(token)


class WhisperTokenizer:
    """Text to ids and back, and the ids of control tokens by name.

    `specials` maps names (`<|startoftranscript|>`, `<|en|>`, `<|0.00|>` …) to ids. `multilingual` models need tokens
    for the language and the task; the others (.en) know only English. ModelError for a vocabulary that is not
    Whisper's.
    """

    def __init__(
        self, backend: TextVocabulary, specials: Mapping[str, int], *, multilingual: bool, languages: int | None = None,
        where: str = "tokenizer.json",
    ) -> None:  # fmt: skip
        self._backend = backend
        self.specials = dict(specials)
        self._names = {number: name for name, number in specials.items()}
        self.multilingual = multilingual
        self._where = where
        self.eot = self._find("<|endoftext|>")
        self.sot = self._find("<|startoftranscript|>")
        self.transcribe = self._find("<|transcribe|>")
        self.translate = self._find("<|translate|>")
        self.sot_lm = self._find("<|startoflm|>")
        self.sot_prev = self._find("<|startofprev|>")
        self.no_speech = self._find("<|nospeech|>", "<|nocaptions|>")
        self.no_timestamps = self._find("<|notimestamps|>")
        # Older tokenizer.json files end before the times.
        self.timestamp_begin = specials.get("<|0.00|>", self.no_timestamps + 1)
        known = [code for code in LANGUAGES if f"<|{code}|>" in specials]
        self.all_language_codes: tuple[str, ...] = tuple(known[:languages])
        self.all_language_tokens = tuple(specials[f"<|{code}|>"] for code in self.all_language_codes)
        others = [number for number in self._names if number < self.timestamp_begin]
        if not self.eot == min(others) < max(others) == self.timestamp_begin - 1:
            raise ModelError("its control tokens are not in Whisper's order", where=where)
        last = max(self._names) if "<|0.00|>" in specials else self.no_timestamps + TIMES
        self.vocab_size = last + 1
        self._words: dict[int, bytes] = {}

    @classmethod
    def from_json(
        cls, text: str | bytes, *, multilingual: bool | None = None, where: str = "tokenizer.json"
    ) -> WhisperTokenizer:
        """From the text of a Hugging Face tokenizer.json. A model with more than one language is multilingual, except
        for the vocabulary of the .en models, which lists all languages too.
        """
        document = read_json(text if isinstance(text, str) else read_utf8(text, where), where)
        try:
            vocabulary = document["model"]["vocab"]
            added = [(entry["content"], entry["id"]) for entry in document.get("added_tokens") or []]
            first = vocabulary.get("<|endoftext|>", dict(added).get("<|endoftext|>"))
            if first is None:
                raise ModelError("it has no token <|endoftext|>, so it is not Whisper's", where=where)
            inside = vocabulary.items() if max(vocabulary.values(), default=0) >= first else ()
            specials = {name: int(number) for name, number in (*inside, *added) if number >= first}
            backend = JsonVocabulary(document, where)
        except PyappError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise malformed("tokenizer.json", error, where) from error
        if multilingual is None:
            english = first == 50256  # GPT-2's vocabulary, one shorter than the multilingual one
            multilingual = not english and sum(f"<|{code}|>" in specials for code in LANGUAGES) > 1
        return cls(backend, specials, multilingual=multilingual, where=where)

    @classmethod
    def from_pieces(
        cls, pieces: Sequence[bytes], vocab_size: int, *, multilingual: bool | None = None, where: str = "vocabulary"
    ) -> WhisperTokenizer:
        """From the bytes of the text tokens by id (openai's .tiktoken, whisper.cpp's ggml). `vocab_size` is that of the
        model and determines its number of languages. Entries of `pieces` from <|endoftext|> on are ignored.
        """
        count = next((i for i, piece in enumerate(pieces) if piece == b"<|endoftext|>"), len(pieces))
        languages = vocab_size - count - OTHER_CONTROL - TIMES
        if not 1 <= languages <= len(LANGUAGES):
            raise ModelError(f"{count} text tokens do not go with a model of {vocab_size} tokens", where=where)
        if multilingual is None:
            multilingual = count != 50256 and languages > 1
        vocabulary = RankVocabulary([bytes(piece) for piece in pieces[:count]], where)
        return cls(vocabulary, special_tokens(count, languages), multilingual=multilingual, where=where)

    def _find(self, *names: str) -> int:
        for name in names:
            if name in self.specials:
                return self.specials[name]
        raise ModelError(f"it has no token {names[0]}, so it is not Whisper's", where=self._where)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`. The name of a control token is ordinary text."""
        return list(self._backend.encode(text)) if text else []

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids` without control tokens and times; bytes that are not UTF-8 become U+FFFD."""
        return self._join(number for number in ids if number < self.eot)

    def decode_with_timestamps(self, ids: Iterable[int]) -> str:
        """The text of `ids` with control tokens and times spelt out."""
        return self._join(ids)

    def decode_with_controls(self, ids: Iterable[int]) -> str:
        """The text of `ids` with control tokens spelt out, without times."""
        return self._join(number for number in ids if number < self.timestamp_begin)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token; for a control token those of its name."""
        found = self._words.get(token)
        if found is None:
            if token < self.eot:
                found = self._backend.token_bytes(token)
            else:
                found = self._names.get(token, f"<|{(token - self.timestamp_begin) * SECONDS_PER_TIME:.2f}|>").encode()
            self._words[token] = found
        return found

    def _join(self, ids: Iterable[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def language_token(self, language: str) -> int:
        """The token of a language, by code or name; OptionError unless the model has it."""
        return self.specials[f"<|{language_code(language, self.all_language_codes)}|>"]

    def sot_sequence(self, language: str | None = None, task: str = "transcribe") -> tuple[int, ...]:
        """The first tokens of a transcript: start, and in multilingual models language (default English) and task."""
        if not self.multilingual:
            return (self.sot,)
        return (self.sot, self.language_token(language or "en"), self.task_token(task))

    def task_token(self, task: str) -> int:
        return self.transcribe if task == "transcribe" else self.translate

    @cached_property
    def non_speech_tokens(self) -> tuple[int, ...]:
        """The tokens that begin annotations of sound rather than speech: brackets, music, names of speakers."""
        texts = [*INSIDE_WORDS, *SYMBOLS, *MUSIC, *(f" {symbol}" for symbol in (*SYMBOLS, *MUSIC))]
        found = set()
        for text, tokens in zip(texts, self._backend.encode_signs(texts), strict=True):
            if tokens and (len(tokens) == 1 or text in INSIDE_WORDS or text.strip() in MUSIC):
                found.add(tokens[0])
        return tuple(sorted(found))

    @cached_property
    def blank(self) -> tuple[int, ...]:
        """The tokens of a single space."""
        return tuple(self._backend.encode_signs([" "])[0])

    def split_to_words(self, tokens: Sequence[int], language: str | None = None) -> tuple[list[str], list[list[int]]]:
        """The words of `tokens` with the space before them, and the tokens of each. In languages without spaces a word
        is the shortest sequence of whole characters. A control token is one word.
        """
        words, parts = self._split_characters(tokens)
        if self.multilingual and language in UNSPACED:
            return words, parts
        joined: list[str] = []
        joined_parts: list[list[int]] = []
        for word, part in zip(words, parts, strict=True):
            own = part[0] >= self.eot or word.startswith(" ") or word.strip() in string.punctuation
            if own or not joined:
                joined.append(word)
                joined_parts.append(part)
            else:
                joined[-1] += word
                joined_parts[-1] = joined_parts[-1] + part
        return joined, joined_parts

    def _split_characters(self, tokens: Sequence[int]) -> tuple[list[str], list[list[int]]]:
        """The shortest sequences of tokens that end at the end of a character."""
        whole = self.decode_with_timestamps(tokens)
        words: list[str] = []
        parts: list[list[int]] = []
        current: list[int] = []
        offset = 0
        for token in tokens:
            current.append(token)
            text = self.decode_with_timestamps(current)
            broken = text.find("\ufffd")
            # A replacement character that is also in the whole text does not become a character with the next token.
            if broken < 0 or whole[offset + broken : offset + broken + 1] == "\ufffd":
                words.append(text)
                parts.append(current)
                offset += len(text)
                current = []
        return words, parts

    def __repr__(self) -> str:
        return f"WhisperTokenizer(vocab_size={self.vocab_size}, multilingual={self.multilingual})"


def special_tokens(first: int, languages: int = 99, times: int = TIMES) -> dict[str, int]:
    """The ids of the control tokens after `first` text tokens, in openai's numbering."""
    names = [
        "<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in list(LANGUAGES)[:languages]),
        "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
        *(f"<|{count * SECONDS_PER_TIME:.2f}|>" for count in range(times)),
    ]  # fmt: skip
    return {name: first + count for count, name in enumerate(names)}
