"""Text to token ids and back.

A tokenizer.json (Hugging Face tokenizers) describes the tokenizer. A library splits text into ids: natively
`tokenizers`, in the page `@huggingface/tokenizers`, which pyapp/browser.py passes to `set_backend_factory`. This module
converts ids to text, so that the text is the same in both places and can stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from pyapp.errors import FileFormatError, ModelError, PyappError
from pyapp.formats.safe_json import parse_json
from pyapp.text.llama2c_vocabulary import BOS, EOS, tokenizer_document
from pyapp.text.pieces import PieceDecoder, PieceJoiner

BOS_NAMES = ("<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "[CLS]", "<|endoftext|>")
# Larger ids are not plausible, and a list of them would waste memory.
LARGEST = 1 << 22
EOS_NAMES = ("</s>", "<|end_of_text|>", "<|eot_id|>", "<eos>", "<|im_end|>", "<|endoftext|>", "[SEP]")


class Backend(Protocol):
    """Splits text into ids, without control tokens before or after."""

    def encode(self, text: str) -> Sequence[int]: ...


class NativeBackend:
    """The `tokenizers` library."""

    def __init__(self, json_text: str) -> None:
        try:
            from tokenizers import Tokenizer as Native
        except ImportError as error:
            raise PyappError("the Python package `tokenizers` is missing", hint="pip install tokenizers") from error
        try:
            self._native = Native.from_str(json_text)
        except Exception as error:  # the library raises plain Exception
            raise ModelError(f"the tokenizers library refuses it: {error!s:.200}", where="tokenizer.json") from error

    def encode(self, text: str) -> list[int]:
        try:
            return list(self._native.encode(text, add_special_tokens=False).ids)
        except Exception as error:
            raise ModelError(
                f"the tokenizers library gives no tokens: {error!s:.200}", where="tokenizer.json"
            ) from error


_backend_factory: Callable[[str], Backend] = NativeBackend


def set_backend_factory(factory: Callable[[str], Backend]) -> None:
    """Sets the library of all tokenizers constructed later: `factory(json_text)` returns an object with
    `encode(text)`.
    """
    global _backend_factory
    _backend_factory = factory


def without_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD, as in browsers."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Tokenizer:
    """The vocabulary of a tokenizer.json: `encode` and `decode`, and the bytes of single tokens.

    `bos_id` and `eos_ids` come from tokenizer_config.json (`settings`), if given, else from the tokenizer.json's
    template or from usual names. Raises FileFormatError for a malformed document, ModelError for an unsupported one.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        *,
        bos_id: int | None = None,
        eos_ids: Sequence[int] | None = None,
        json_text: str | None = None,
        where: str = "tokenizer.json",
    ) -> None:
        if not isinstance(document.get("model"), Mapping):
            raise FileFormatError(
                "this JSON is not a tokenizer.json: it has no `model`",
                where=where,
                hint="vocab.json and config.json are other files: give the tokenizer.json beside them",
            )
        try:
            self._pieces, special = read_vocabulary(document, where)
            self._decoder = PieceDecoder(document.get("decoder"), where)
            control = ControlTokens(document, settings or {}, self._pieces)
        except PyappError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise FileFormatError(f"not a usable tokenizer.json: {error!r:.100}", where=where) from error
        self.bos_id: int | None = control.bos_id if bos_id is None else bos_id
        self.eos_ids: frozenset[int] = control.eos_ids if eos_ids is None else frozenset(eos_ids)
        self.adds_bos = control.adds_bos
        # The template's tokens before and after a text; settings may change the beginning-of-text token.
        self._front = control.front if bos_id is None else [bos_id] if control.adds_bos else []
        self._behind = control.behind
        self._special = special | self.eos_ids | ({self.bos_id} if self.bos_id is not None else set())
        self._json_text = json_text
        self._document = document
        self._backend: Backend | None = None
        self._factory = _backend_factory
        self._cache: dict[int, bytes | None] = {}

    @classmethod
    def from_json(
        cls, text: str | bytes, settings: str | bytes | None = None, where: str = "tokenizer.json"
    ) -> Tokenizer:
        """From the text of a tokenizer.json and, optionally, of a tokenizer_config.json; `where` names it in errors."""
        text = text if isinstance(text, str) else read_utf8(text, where)
        more = read_json(settings, "tokenizer_config.json") if settings else None
        return cls(read_json(text, where), more, json_text=text, where=where)

    @classmethod
    def from_llama2c(
        cls, pieces: Sequence[bytes | str], scores: Sequence[float], where: str = "tokenizer.bin"
    ) -> Tokenizer:
        """From the pieces and scores of a llama2.c tokenizer.bin. The ids equal those of llama2.c's encoder."""
        return cls(tokenizer_document(pieces, scores, where), bos_id=BOS, eos_ids=(EOS,))

    @property
    def vocab_size(self) -> int:
        """One more than the highest token id."""
        return len(self._pieces)

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end a text: end-of-text, and the beginning of the next one."""
        return self.eos_ids | ({self.bos_id} if self.bos_id is not None else frozenset())

    def to_json(self) -> str:
        """The tokenizer.json."""
        if self._json_text is None:
            self._json_text = json.dumps(self._document, ensure_ascii=False)
        return self._json_text

    def encode(self, text: str, bos: bool = True, eos: bool | None = None) -> list[int]:
        """Token ids of `text`, with the control tokens of the tokenizer's template before (`<s>`, `[CLS]`) and after it
        (`</s>`, `[SEP]`), as in the tokenizers libraries.

        `bos=False` leaves out those before, `eos=False` those after (for a text that continues); `eos=True` appends the
        end-of-text token even if the template has none. Lone surrogates count as U+FFFD.
        """
        ids = list(self._front) if bos else []
        if text:
            if self._backend is None:
                self._backend = self._factory(self.to_json())
            ids.extend(self._backend.encode(without_surrogates(text)))
        if eos is False:
            return ids
        if eos and not self._behind and self.eos_ids:
            return [*ids, min(self.eos_ids)]
        return [*ids, *self._behind]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens are left out, bytes that are not UTF-8 become U+FFFD."""
        joiner = self.joiner()
        return b"".join(joiner.push(number) for number in ids).decode("utf-8", "replace")

    def joiner(self, continuing: bool = False) -> PieceJoiner:
        """An object that gives the bytes of one token after another; `continuing`: text precedes, so no space is
        dropped.
        """
        return PieceJoiner(self._lookup, self._decoder.strip_left, continuing)

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token adds in the middle of a text; empty for control tokens and padding of the
        vocabulary.
        """
        return self._lookup(token, False) or b""

    def piece(self, token: int) -> str | None:
        """The token as spelled in the vocabulary; None for an id without a token."""
        if token < 0:
            raise IndexError(f"token id {token} is negative")
        return self._pieces[token] if token < len(self._pieces) else None

    def _lookup(self, token: int, first: bool) -> bytes | None:
        if not first and token in self._cache:
            return self._cache[token]
        piece = None if token in self._special else self.piece(token)
        data = None if piece is None else self._decoder.bytes_of(piece, first)
        if not first:
            self._cache[token] = data
        return data

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size}, bos_id={self.bos_id}, eos_ids={sorted(self.eos_ids)})"


def read_utf8(data: bytes, where: str) -> str:
    try:
        return bytes(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text: {error.reason} at byte {error.start}", where=where) from None


def read_json(text: str | bytes, where: str) -> dict[str, Any]:
    """A JSON object; FileFormatError for anything else."""
    text = text if isinstance(text, str) else read_utf8(text, where)
    try:
        parsed = parse_json(text)
    except ValueError as error:
        raise FileFormatError(f"not valid JSON: {error}", where=where) from None
    if not isinstance(parsed, dict):
        raise FileFormatError("not a JSON object", where=where)
    return parsed


def read_vocabulary(document: Mapping[str, Any], where: str) -> tuple[list[str | None], frozenset[int]]:
    """The pieces by id (None: no such id), and the ids of control tokens."""
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, Mapping):
        texts, numbers = list(vocabulary), list(vocabulary.values())
    else:
        texts, numbers = [piece for piece, _ in vocabulary], list(range(len(vocabulary)))
    added = document.get("added_tokens") or []
    texts.extend(entry["content"] for entry in added)
    numbers.extend(entry["id"] for entry in added)
    kinds = {*map(type, numbers)} <= {int} and {*map(type, texts)} <= {str}
    if not kinds or not 0 <= min(numbers, default=0) <= max(numbers, default=0) < LARGEST:
        raise FileFormatError("the vocabulary has a token without a valid number", where=where)
    pieces: list[str | None] = [None] * (1 + max(numbers, default=-1))
    for number, piece in zip(numbers, texts, strict=True):
        pieces[number] = piece
    return pieces, frozenset(entry["id"] for entry in added if entry.get("special"))


class ControlTokens:
    """The ids that begin and end a text (`bos_id`, `eos_ids`), and those that `encode` puts before it (`front`) and
    after it (`behind`).
    """

    def __init__(self, document: Mapping[str, Any], settings: Mapping[str, Any], pieces: Sequence[str | None]) -> None:
        self._pieces = pieces
        template = document.get("post_processor")
        before, after = template_tokens(template)
        self.bos_id = self._find(settings.get("bos_token"), before, BOS_NAMES)
        eos_id = self._find(settings.get("eos_token"), after, EOS_NAMES)
        self.eos_ids = frozenset(() if eos_id is None else (eos_id,))
        self.adds_bos = bool(settings.get("add_bos_token", bool(before))) and self.bos_id is not None
        adds_eos = bool(settings.get("add_eos_token", bool(after)))
        self.front = self._ids(template, before) or [self.bos_id] if self.adds_bos else []
        self.behind = (self._ids(template, after) or [*self.eos_ids]) if adds_eos else []

    def _ids(self, template: Any, names: Sequence[str]) -> list[Any]:
        """The ids of a template's tokens: those in the template, else those of the vocabulary."""
        given = dict(template_ids(template))
        known = {piece: number for number, piece in enumerate(self._pieces)} if names else {}
        return [number for name in names for number in given.get(name, [known[name]] if name in known else [])]

    def _find(self, named: Any, template: Sequence[str], usual: Sequence[str]) -> int | None:
        """The first candidate in the vocabulary: a name or `{"content": name}`, the template's tokens, usual names."""
        name = named.get("content") if isinstance(named, Mapping) else named
        candidates = [name] if name else [*template, *usual]
        # llama2.c spells its control tokens with line breaks around them.
        forms = [form for text in candidates for form in (text, f"\n{text}\n")]
        known = set(forms).intersection(self._pieces)
        return next((self._pieces.index(form) for form in forms if form in known), None)  # the first of equal ones


def template_ids(settings: Mapping[str, Any] | None) -> Iterator[tuple[str, list[int]]]:
    """The ids of the control tokens of a post-processor, by name."""
    kind = settings.get("type") if settings else None
    if settings is None:
        return
    if kind == "Sequence":
        for entry in settings["processors"]:
            yield from template_ids(entry)
    elif kind in ("BertProcessing", "RobertaProcessing"):
        for role in ("cls", "sep"):
            name, number = settings[role]
            yield name, [_id(number)]
    else:
        for name, entry in (settings.get("special_tokens") or {}).items():
            yield name, [_id(number) for number in entry["ids"]]


def _id(value: Any) -> int:
    if type(value) is not int or not 0 <= value < LARGEST:
        raise TypeError(f"{value!r:.60} is not a token's number")
    return value


def template_tokens(settings: Mapping[str, Any] | None) -> tuple[list[str], list[str]]:
    """The control tokens that a post-processor puts before and after a single text."""
    kind = settings.get("type") if settings else None
    if settings is None or kind == "ByteLevel":
        return [], []
    if kind == "Sequence":
        found = [template_tokens(entry) for entry in settings["processors"]]
        return [name for before, _ in found for name in before], [name for _, after in found for name in after]
    if kind in ("BertProcessing", "RobertaProcessing"):
        return [settings["cls"][0]], [settings["sep"][0]]
    before: list[str] = []
    after: list[str] = []
    target = before
    for entry in settings.get("single", []):
        if "Sequence" in entry:
            target = after
        else:
            target.append(entry["SpecialToken"]["id"])
    return before, after
