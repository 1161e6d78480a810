"""Texts to token ids by the `tokenizers` library. The page has no such library, and another one in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyapp.errors import ModelError, PyappError
from pyapp.text.tokenization.encoding import Span

# What a document says of its model besides the vocabulary, and of an added token, by the library's own names.
BPE = (
    "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
    "ignore_merges",
)  # fmt: skip
ADDED = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")


class NativeBackend:
    """The library's tokenizer of a tokenizer.json. ModelError where the library refuses it."""

    def __init__(self, json_text: str, where: str = "tokenizer.json", native: Any = None) -> None:
        library = _library()
        try:
            self._native = library.Tokenizer.from_str(json_text) if native is None else native
        except BaseException as error:
            _only_of_the_library(error)
            raise ModelError(f"the tokenizers library refuses it: {error!s:.200}", where=where) from error
        self._where = where
        # Some documents say how the texts of one batch were padded and cut. Only `Tokenizer` does that, when asked to.
        self._native.no_padding()
        self._native.no_truncation()

    @classmethod
    def of_pairs(cls, document: Mapping[str, Any], where: str = "tokenizer.json") -> NativeBackend:
        """The same from the object of a tokenizer.json of byte-pair encoding, in half the time."""
        try:
            native = _assembled(document)
        except BaseException as error:
            _only_of_the_library(error)
            native = None  # of the text, the library says what is wrong
        return cls("" if native is not None else json.dumps(document, ensure_ascii=False), where, native)

    def to_json(self) -> str:
        """The tokenizer.json, as the library writes it."""
        return str(self._native.to_str())

    def encode(self, text: str) -> list[int]:
        return list(self._encode(text).ids)

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Span]]:
        found = self._encode(text)
        return list(found.ids), list(found.offsets)

    def _encode(self, text: str) -> Any:
        try:
            return self._native.encode(text, add_special_tokens=False)
        except BaseException as error:
            _only_of_the_library(error)
            raise ModelError(f"the tokenizers library gives no tokens: {error!s:.200}", where=self._where) from error


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise PyappError("the Python package `tokenizers` is missing", hint="pip install tokenizers") from error
    return tokenizers


def _assembled(document: Mapping[str, Any]) -> Any:
    """The library's tokenizer, its model made of Python's objects."""
    library, model = _library(), document["model"]
    merges = model["merges"]
    kinds = {*map(type, merges)}
    if kinds == {str}:
        merges = [tuple(pair.split(" ")) for pair in merges]
    elif kinds != {tuple}:
        merges = list(map(tuple, merges))
    made = library.models.BPE(model["vocab"], merges, **_given(model, BPE))
    nothing = {"type": "BPE", "vocab": {}, "merges": []}
    rest = library.Tokenizer.from_str(json.dumps({**document, "model": nothing, "added_tokens": []}))
    native = library.Tokenizer(made)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if getattr(rest, part) is not None:
            setattr(native, part, getattr(rest, part))
    native.add_tokens([library.AddedToken(**_given(entry, ADDED)) for entry in document.get("added_tokens") or []])
    return native


def _given(settings: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: settings[name] for name in names if settings.get(name) is not None}


def _only_of_the_library(error: BaseException) -> None:
    """Raises what the library did not cause. Its failures in Rust, such as a search that takes too long, are no
    Exceptions.
    """
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
