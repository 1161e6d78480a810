"""Text to token ids and back.

A tokenizer.json (Hugging Face tokenizers) describes the tokenizer. A library splits text into ids: natively
`tokenizers`, in the page `@huggingface/tokenizers`, which pyapp/browser.py passes to `set_backend_factory`. This module
puts special tokens around texts, truncates, pads, and converts ids to text, so that all this is the same in both places
and text can stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, overload

from pyapp.errors import FileFormatError, OptionError, PyappError, shown
from pyapp.formats.safe_json import malformed, parse_json
from pyapp.formats.sink import AnySink, open_sink
from pyapp.text.chat.thinking import THINKING_TAGS
from pyapp.text.tokenization import encoding as encodings
from pyapp.text.tokenization.charsmap import check_charsmaps
from pyapp.text.tokenization.encoding import BatchEncoding, Encoding, Tokens
from pyapp.text.tokenization.llama2c_vocabulary import BOS, EOS, tokenizer_document
from pyapp.text.tokenization.normalizer_limits import check_growth
from pyapp.text.tokenization.pieces import PieceDecoder, PieceJoiner, PieceTable
from pyapp.text.tokenization.post_processor import LARGEST_ID, PostProcessor, read_post_processor
from pyapp.text.tokenization.special_names import OPEN, guard, has_name, plain_document, plain_text, split_guarded

LARGE = 1 << 14  # tokens of a large vocabulary
BOS_NAMES = ("<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "[CLS]", "<|endoftext|>")
_THOUGHTS = frozenset((*THINKING_TAGS, *THINKING_TAGS.values()))
PAD_NAMES = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")
EOS_NAMES = ("</s>", "<|end_of_text|>", "<|eot_id|>", "<eos>", "<|im_end|>", "<|endoftext|>", "[SEP]")


class Backend(Protocol):
    """Splits text into ids, without control tokens before or after. One that also has
    `encode_with_offsets(text) -> (ids, offsets)` gives the characters [start, end) of each token; without it, offsets
    are those of whole words.
    """

    def encode(self, text: str) -> Sequence[int]: ...


_backend_factory: Callable[[str], Backend] | None = None  # None: tokenizers_library


def set_backend_factory(factory: Callable[[str], Backend] | None) -> None:
    """Sets the library of all tokenizers constructed later: `factory(json_text)` returns an object with
    `encode(text)`. None: the `tokenizers` library.
    """
    global _backend_factory
    _backend_factory = factory


def _of_library(json_text: str, where: str) -> Backend:
    """The `tokenizers` library's."""
    from .tokenizers_library import NativeBackend  # late: the page does not have it

    return NativeBackend(json_text, where)


def without_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD, as in browsers."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Tokenizer:
    """The vocabulary of a tokenizer.json: text to token ids and back, and the bytes of single tokens.

    `tokenizer(texts)` gives ids, types, masks and offsets, with truncation and padding; `encode` the ids of one text or
    pair. `bos_id`, `eos_ids` and `pad_id` come from tokenizer_config.json (`settings`), if given, else from the
    tokenizer.json's template or from usual names; `max_length`, `padding_side` and `truncation_side` from
    `model_max_length`, `padding_side` and `truncation_side` of the settings. `end_ids` are more ids that end a
    text or a turn. `settings["chat_template"]` is the model's chat template. Raises FileFormatError for a malformed
    document, ModelError for an unsupported one.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        *,
        bos_id: int | None = None,
        eos_ids: Sequence[int] | None = None,
        end_ids: Sequence[int] = (),
        json_text: str | None = None,
        where: str = "tokenizer.json",
    ) -> None:
        if not isinstance(document.get("model"), Mapping):
            raise FileFormatError(
                "this JSON is not a tokenizer.json: it has no `model`",
                where=where,
                hint="vocab.json and config.json are other files: give the tokenizer.json beside them",
            )
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
            if not isinstance(document.get(part), Mapping | None):
                raise FileFormatError(
                    f"not a usable tokenizer.json: its `{part}` is {shown(document[part], 40)}, expected an object",
                    where=where, hint="Take the file of the model's own repository again",
                )  # fmt: skip
        settings = settings or {}
        try:
            pieces, special = read_vocabulary(document, where)
            known = document.get("known_tokens")  # pieces from this id on are parts of tokens alone
            if known is not None:
                if type(known) is not int or not max(special, default=0) < known <= len(pieces):
                    raise FileFormatError(f"known_tokens is {shown(known, 40)}, and does not fit", where=where)
                pieces = pieces[:known]
            self._pieces: Sequence[str | None] = pieces if len(pieces) < LARGE else PieceTable(pieces)
            self._decoder = PieceDecoder(document.get("decoder"), where)
            _check_patterns(document, where)
            check_growth(document.get("normalizer"), where)
            check_charsmaps(document.get("normalizer"), where)
            control = ControlTokens(document, settings, pieces, where)
        except PyappError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise malformed("tokenizer.json", error, where) from error
        self.bos_id: int | None = control.bos_id if bos_id is None else bos_id
        self.eos_ids: frozenset[int] = control.eos_ids if eos_ids is None else frozenset(eos_ids)
        self.end_ids: frozenset[int] = frozenset(end_ids)
        self.pad_id: int | None = control.pad_id
        self.adds_bos = control.adds_bos
        self.post_processor: PostProcessor = control.post_processor
        if bos_id is not None and control.adds_bos:
            self.post_processor = self.post_processor.with_front([bos_id])
        limit = settings.get("model_max_length")
        self.max_length: int | None = limit if type(limit) is int and 0 < limit <= encodings.LENGTH_LIMIT else None
        self.padding_side: encodings.Side = _side(settings, "padding_side")
        self.truncation_side: encodings.Side = _side(settings, "truncation_side")
        kind = settings.get("pad_token_type_id")
        self._pad_type_id = kind if type(kind) is int else 0
        # Names that are special inside a text; a control token that is not an added token is only found by its id.
        added = {entry["id"] for entry in document.get("added_tokens") or []}
        ids = special | (added & (self.eos_ids | ({self.bos_id} if self.bos_id is not None else set())))
        self.special_names: frozenset[str] = frozenset(name for i in ids if (name := self._pieces[i]))
        # The tags of thoughts are shown, so that thoughts can be told from the answer.
        special = frozenset(i for i in special if self._pieces[i] not in _THOUGHTS)
        self._special = special | self.eos_ids | ({self.bos_id} if self.bos_id is not None else set())
        # The document of a large vocabulary is kept as JSON or in the library: as objects it takes several times the
        # memory.
        self._json = None if json_text is None else _to_bytes(json_text)
        self._parsed = document if len(self._pieces) < LARGE else None
        prefix = document["model"].get("continuing_subword_prefix")
        self._continuing = prefix if isinstance(prefix, str) and prefix else None
        self.settings: dict[str, Any] = dict(settings)
        self._where = where
        self._backend: Any = None
        self._plain_backend: Backend | None = None
        self._factory: Callable[[str], Backend] = _backend_factory or partial(_of_library, where=where)
        own = False  # whether the package itself has what splits texts
        if document["model"].get("type") == "LongestMatch":  # of RWKV, which no library has
            from pyapp.text.tokenization.longest_match import LongestMatch

            self._factory = partial(LongestMatch, where=where)
            own = True
        words = document.get("pre_tokenizer")
        if isinstance(words, Mapping) and words.get("type") == "Moses":  # of XLM, which no library has either
            from pyapp.text.tokenization.moses import MosesBackend

            self._factory = partial(MosesBackend, library=self._factory, where=where)
            own = True
        if known is not None:  # of CTRL and the small Blenderbot
            from pyapp.text.tokenization.joined_pieces import KnownPieces

            self._factory = partial(KnownPieces, library=self._factory, where=where)
            own = True
        if self._parsed is None and _backend_factory is None and not own and document["model"].get("type") == "BPE":
            from .tokenizers_library import NativeBackend

            self._backend = NativeBackend.of_pairs(document, where)
        elif self._parsed is None and self._json is None:
            self._json = _to_bytes(json.dumps(document, ensure_ascii=False))
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
        """The ids that end a text or a turn: end-of-text, and the beginning of the next one."""
        return self.eos_ids | self.end_ids | ({self.bos_id} if self.bos_id is not None else frozenset())

    def to_json(self) -> str:
        """The tokenizer.json."""
        if self._json is None and self._parsed is None:
            return str(self._backend.to_json())
        if self._json is None:
            self._json = _to_bytes(json.dumps(self._parsed, ensure_ascii=False))
        return self._json.decode("utf-8", "surrogatepass")

    @property
    def _document(self) -> Mapping[str, Any]:
        """The object of the tokenizer.json."""
        if self._parsed is not None:
            return self._parsed
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def save(self, target: AnySink) -> None:
        """Writes the tokenizer.json to a path or a binary file."""
        with open_sink(target) as file:
            file.write(self.to_json().encode("utf-8", "replace"))

    def gguf_metadata(self, vocab_size: int | None = None) -> dict[str, Any]:
        """llama.cpp's metadata of a GGUF file: `tokenizer.ggml.model`, `.tokens`, `.merges` … by key.
        `gguf_types(metadata)` of pyapp.text.gguf_metadata gives their types for `write_gguf`.

        `vocab_size` is the number of rows of the model's embedding; unused tokens fill the vocabulary up to it.
        ModelError for a tokenizer that llama.cpp does not have.
        """
        from pyapp.text.gguf_metadata import GGUF_ROLES, gguf_metadata

        ids = {"bos": self.bos_id, "eos": min(self.eos_ids, default=None), "padding": self.pad_id}
        ids |= {role: self.special_id(name) for role, name in GGUF_ROLES.items() if role not in ids}
        document = self._document
        model = document["model"]
        if ids.get("unknown") is None:
            unknown = model.get("unk_id")
            ids["unknown"] = unknown if type(unknown) is int else self.special_id("unk_token", model.get("unk_token"))
        return gguf_metadata(document, self.post_processor, ids, self.settings, vocab_size, self._where)

    def special_id(self, role: str, usual: Any = None) -> int | None:
        """The id of the special token that the settings name ("mask_token", "unk_token" …), else of the piece `usual`;
        None if there is none.
        """
        value = self.settings.get(role)
        name = value.get("content") if isinstance(value, Mapping) else value
        name = name or usual
        return self.id_of(name) if isinstance(name, str) else None

    def id_of(self, piece: str) -> int | None:
        """The id of a token as it is spelled in the vocabulary; None if it has none."""
        return self._pieces.index(piece) if piece in self._pieces else None

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        bos: bool = True,
        eos: bool | None = None,
        parse_special: bool = True,
    ) -> list[int]:
        """Token ids of `text`, or of a pair of texts, with the special tokens of the tokenizer's template before
        (`<s>`, `[CLS]`), after (`</s>`, `[SEP]`) and between them, as in the tokenizers libraries.

        `bos=False` leaves out those before, `eos=False` those after (for a text that continues); `eos=True` appends the
        end-of-text token even if the template has none; a pair always has all. With `parse_special=False`, names of
        special tokens inside the texts are ordinary text. Lone surrogates count as U+FFFD.
        """
        if pair is not None:
            texts = [Tokens(self._split(part, parse_special)) for part in (text, pair)]
            return encodings.join(texts, self.post_processor).ids
        ids = self.post_processor.front if bos else []
        ids.extend(self._split(text, parse_special))
        if eos is False:
            return ids
        behind = self.post_processor.behind
        if eos and not behind and self.eos_ids:
            return [*ids, min(self.eos_ids)]
        return [*ids, *behind]

    def guard(self, text: str) -> str:
        """Text from outside, such as a user's message, with a mark in each name of a special token.

        `encode_guarded` takes these names as ordinary text, also after a template has put other text around them.
        """
        return guard(without_surrogates(text), self.special_names)

    def encode_guarded(self, text: str) -> list[int]:
        """Token ids of a text whose outside parts went through `guard`; no special tokens are added around it."""
        text = without_surrogates(text)
        if OPEN not in text:
            return list(self._split(text, True))
        return list(self._plain().encode(split_guarded(text, self.special_names)))

    def first_special(self, text: str) -> int | None:
        """The id of the first special token whose name occurs in a text."""
        found = [(place, -len(name), name) for name in self.special_names if (place := text.find(name)) >= 0]
        return self._pieces.index(min(found)[2]) if found else None

    @overload
    def __call__(self, texts: str, pairs: str | None = None, **options: Any) -> Encoding: ...
    @overload
    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None, **options: Any) -> BatchEncoding: ...

    def __call__(
        self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None, **options: Any
    ) -> Encoding | BatchEncoding:
        """The encoding of one text, or of several, or of pairs; the options are those of `encode_batch`."""
        if isinstance(texts, str):
            if pairs is not None and not isinstance(pairs, str):
                raise TypeError("one text needs one text as its pair")
            return self.encode_batch([texts], None if pairs is None else [pairs], **options)[0]
        if isinstance(pairs, str):
            raise TypeError("several texts need a sequence of texts as their pairs")
        return BatchEncoding.of(self.encode_batch(texts, pairs, **options))

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        padding: bool | encodings.Padding = False,
        truncation: bool | encodings.Truncation = False,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: encodings.Side | None = None,
        truncation_side: encodings.Side | None = None,
        add_special_tokens: bool = True,
        parse_special: bool = True,
        offsets: bool = False,
    ) -> list[Encoding]:
        """The encodings of texts, or of pairs (texts[i], pairs[i]).

        `padding`: True or "longest" pads to the longest, "max_length" to `max_length`, both up to a multiple of
        `pad_to_multiple_of`. `truncation` shortens to `max_length` tokens, special tokens included: True or
        "longest_first" the longer text of a pair first, "only_first", "only_second" that text only. `max_length` is
        by default the tokenizer's. `padding_side` and `truncation_side` are "left" or "right". `offsets`: where
        the tokens stand; in the page, those of whole words. Raises OptionError for options that do not fit.
        """
        rule = encodings.checked_choice("truncation", truncation, encodings.TRUNCATIONS, "longest_first")
        fill = encodings.checked_choice("padding", padding, encodings.PADDINGS, "longest")
        pad_side = encodings.checked_choice("padding_side", padding_side, encodings.SIDES, "right")
        cut_side = encodings.checked_choice("truncation_side", truncation_side, encodings.SIDES, "right")
        multiple = encodings.checked_length("pad_to_multiple_of", pad_to_multiple_of)
        limit = encodings.checked_length("max_length", max_length) or self.max_length
        if limit is None and (rule or fill == "max_length"):
            raise OptionError("the tokenizer has no largest length", where="max_length", hint="Give max_length")
        if fill and self.pad_id is None:
            raise OptionError("the tokenizer has no padding token", where="padding", hint="Set tokenizer.pad_id")
        if pairs is not None and len(pairs) != len(texts):
            raise OptionError(f"there are {len(texts):,} texts and {len(pairs):,} pairs", where="pairs")
        template = self.post_processor
        added = template.added(pairs is not None) if add_special_tokens else 0
        if rule and limit is not None and limit < added:
            raise OptionError(f"{limit} tokens do not hold the {added} special tokens", where="max_length")
        found: list[Encoding] = []
        for index, text in enumerate(texts):
            group = [text] if pairs is None else [text, pairs[index]]
            parts = [self._tokens(one, parse_special, offsets) for one in group]
            whole = sum(len(part.ids) for part in parts)
            if rule and limit is not None:
                parts = encodings.truncate(parts, limit - added, rule, cut_side or self.truncation_side)
            found.append(encodings.join(parts, template, add_special_tokens))
            found[-1].cut = whole - sum(len(part.ids) for part in parts)
        if fill and self.pad_id is not None:
            length = limit if fill == "max_length" and limit else max(map(len, found), default=0)
            length = -(-length // multiple) * multiple if multiple else length
            side = pad_side or self.padding_side
            found = [encodings.pad(one, length, self.pad_id, self._pad_type_id, side) for one in found]
        return found

    def windows(
        self,
        text: str | Sequence[str],
        max_length: int,
        overlap: int,
        before: str | None = None,
        parse_special: bool = True,
    ) -> list[Encoding]:
        """A text of any length as encodings of at most `max_length` tokens with offsets, special tokens included:
        neighbours have `overlap` tokens in common. Each part of a text of several begins anew; offsets count a
        character between them. `before` is a text that stands before each as the first of a pair, such as a question.
        OptionError where `before` leaves too little room.
        """
        ids: list[int] = []
        offsets: list[encodings.Span] = []
        passed = 0
        for one in [text] if isinstance(text, str) else text:
            tokens = self._tokens(one, parse_special, True)
            ids += tokens.ids
            offsets += [(first + passed, last + passed) for first, last in tokens.offsets or ()]
            passed += len(one) + 1
        heads = [] if before is None else [self._tokens(before, parse_special, True)]
        room = max_length - self.post_processor.added(before is not None) - sum(len(part.ids) for part in heads)
        if room < 1 or (room <= overlap and len(ids) > room):
            raise OptionError(
                f"{len(heads[0].ids) if heads else 0:,} tokens before the text leave room for {max(room, 0)} of it in "
                f"{max_length:,}",
                where="max_length", hint="Shorten what stands before the text, or the overlap",
            )  # fmt: skip
        found = []
        for start in range(0, max(len(ids) - overlap, 1), max(room - overlap, 1)):
            part = Tokens(ids[start : start + room], offsets[start : start + room])
            found.append(encodings.join([*heads, part], self.post_processor))
        return found

    def continues_word(self, token: int) -> bool | None:
        """Whether a token is a later part of a word ("##ing"); None where the vocabulary does not mark them."""
        return (self._pieces[token] or "").startswith(self._continuing) if self._continuing else None

    def _tokens(self, text: str, parse_special: bool, offsets: bool) -> Tokens:
        if not offsets:
            return Tokens(self._split(text, parse_special))
        if not text:
            return Tokens([], [])
        backend = self._backend_for(text, parse_special)
        marked = without_surrogates(text if parse_special else plain_text(text))
        if split := getattr(backend, "encode_with_offsets", None):
            return Tokens(*split(marked))
        from .word_offsets import by_words  # late: stories and transcripts have no offsets

        return Tokens(*by_words(backend.encode, marked))

    def _split(self, text: str, parse_special: bool) -> Sequence[int]:
        """The ids of a text without special tokens around it."""
        if not text:
            return []
        text = without_surrogates(text)
        return self._backend_for(text, parse_special).encode(text if parse_special else plain_text(text))

    def _backend_for(self, text: str, parse_special: bool) -> Backend:
        if not parse_special and has_name(text, self.special_names):
            return self._plain()
        if self._backend is None:
            self._backend = self._factory(self.to_json())
        return self._backend

    def _plain(self) -> Backend:
        """The library with other names for the special tokens, so that no text has them."""
        if self._plain_backend is None:
            document = plain_document(self._document, self.special_names)
            self._plain_backend = self._factory(json.dumps(document, ensure_ascii=False))
        return self._plain_backend

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens are left out (but not the tags around thoughts), bytes that are not UTF-8
        become U+FFFD.
        """
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


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read_utf8(data: bytes, where: str) -> str:
    try:
        return bytes(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text: {error.reason} at byte {error.start}", where=where) from None


def read_json(text: str | bytes, where: str) -> dict[str, Any]:
    """A JSON object; FileFormatError for anything else."""
    text = text if isinstance(text, str) else read_utf8(text, where)
    if not text.strip():
        raise FileFormatError("the file is empty", where=where, hint="Download or copy it again")
    try:
        parsed = parse_json(text)
    except ValueError as error:
        raise FileFormatError(f"not valid JSON: {error}", where=where) from None
    if not isinstance(parsed, dict):
        raise FileFormatError("not a JSON object", where=where)
    return parsed


def _check_patterns(document: Mapping[str, Any], where: str) -> None:
    """ModelError for a regular expression of the normalizer or pretokenizer that could take forever."""
    patterns = [*_expressions(document.get("normalizer")), *_expressions(document.get("pre_tokenizer"))]
    if patterns:
        from pyapp.text.tokenization.pattern_limits import check_patterns  # late: the embedded models have none

        check_patterns(patterns, where)


def _expressions(value: Any) -> Iterator[str]:
    """The values of all keys "Regex"."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "Regex" and isinstance(item, str):
                yield item
            else:
                yield from _expressions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _expressions(item)


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
    if not kinds or not 0 <= min(numbers, default=0) <= max(numbers, default=0) < LARGEST_ID:
        raise FileFormatError("the vocabulary has a token without a valid number", where=where)
    pieces: list[str | None] = [None] * (1 + max(numbers, default=-1))
    for number, piece in zip(numbers, texts, strict=True):
        pieces[number] = piece
    return pieces, frozenset(entry["id"] for entry in added if entry.get("special"))


class ControlTokens:
    """The ids that begin and end a text (`bos_id`, `eos_ids`) and that fill a batch (`pad_id`), and the special tokens
    that `encode` puts around texts (`post_processor`).
    """

    def __init__(
        self, document: Mapping[str, Any], settings: Mapping[str, Any], pieces: Sequence[str | None], where: str
    ) -> None:
        self._pieces = pieces
        number_of = {piece: number for number, piece in enumerate(pieces) if piece is not None}
        template = read_post_processor(document.get("post_processor"), number_of, where)
        before, after = ([pieces[i] for i in ids if i < len(pieces)] for ids in (template.front, template.behind))
        self.bos_id = self._find(settings.get("bos_token"), before, BOS_NAMES)
        eos_id = self._find(settings.get("eos_token"), after, EOS_NAMES)
        self.eos_ids = frozenset(() if eos_id is None else (eos_id,))
        self.pad_id = self._pad(document.get("padding"), settings)
        front, behind = template.front, template.behind
        self.adds_bos = bool(settings.get("add_bos_token", bool(front))) and self.bos_id is not None
        if not self.adds_bos:
            template = template.with_front(()) if front else template
        elif not front and self.bos_id is not None:
            template = template.with_front([self.bos_id])
        if not settings.get("add_eos_token", bool(behind)):
            template = template.with_behind(()) if behind else template
        elif not behind:
            template = template.with_behind([*self.eos_ids])
        self.post_processor = template

    def _pad(self, padding: Any, settings: Mapping[str, Any]) -> int | None:
        """The padding token that the settings name, else that of the tokenizer.json, else one of a usual name."""
        if settings.get("pad_token"):
            return self._find(settings["pad_token"], (), ())
        number = padding.get("pad_id") if isinstance(padding, Mapping) else None
        if type(number) is int and 0 <= number < LARGEST_ID:
            return number
        return self._find(None, (), PAD_NAMES)

    def _find(self, named: Any, template: Sequence[str | None], usual: Sequence[str]) -> int | None:
        """The first candidate in the vocabulary: a name or `{"content": name}`, the template's tokens, usual names."""
        name = named.get("content") if isinstance(named, Mapping) else named
        candidates = [name] if name else [*template, *usual]
        # llama2.c spells its control tokens with line breaks around them.
        forms = [form for text in candidates for form in (text, f"\n{text}\n")]
        known = set(forms).intersection(self._pieces)
        return next((self._pieces.index(form) for form in forms if form in known), None)  # the first of equal ones


def _side(settings: Mapping[str, Any], name: str) -> encodings.Side:
    return "left" if settings.get(name) == "left" else "right"
