"""A tokenizer.json as the metadata of a GGUF file, with llama.cpp's keys.

Source of the keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and llama.cpp's src/llama-vocab.cpp.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats.sentencepiece_model import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from pyapp.text.documents import SPACE
from pyapp.text.tokenization.pieces import BYTE_PIECE, byte_of_character
from pyapp.text.tokenization.post_processor import PostProcessor
from pyapp.text.tokenization.word_patterns import name_of_pattern

PREFIX = "tokenizer.ggml."
# The names of roles in GGUF's keys (one is misspelt there) and in tokenizer_config.json.
GGUF_ROLES = {
    "bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "seperator": "sep_token", "padding": "pad_token",
    "mask": "mask_token",
}  # fmt: skip


def gguf_metadata(
    whole: Mapping[str, Any],
    post_processor: PostProcessor,
    ids: Mapping[str, int | None],
    settings: Mapping[str, Any] | None = None,
    vocab_size: int | None = None,
    where: str = "tokenizer.json",
) -> dict[str, Any]:
    """llama.cpp's keys for a tokenizer.json: `Tokenizer.gguf_metadata` gives the arguments. `gguf_types` gives
    the types of the values.

    `ids` has the special tokens by role (bos, eos, unknown, seperator, padding, mask); `vocab_size` is the number of
    rows of the model's embedding, to which unused tokens are added. ModelError for a tokenizer that llama.cpp does not
    have.
    """
    return _Writer(whole, post_processor, ids, settings or {}, vocab_size, where).metadata()


# Types other than those that `write_gguf` gives by default, as llama.cpp reads them.
_TYPES = {
    "token_type": "array of int32", "scores": "array of float32", "tokens": "array of string",
    "merges": "array of string", "precompiled_charsmap": "array of uint8",
}  # fmt: skip


def gguf_types(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The `types` for `write_gguf` of the metadata that gguf_metadata made."""
    return {PREFIX + name: kind for name, kind in _TYPES.items() if PREFIX + name in metadata}


class _Writer:
    """The metadata of one tokenizer."""

    def __init__(
        self,
        whole: Mapping[str, Any],
        post_processor: PostProcessor,
        ids: Mapping[str, int | None],
        settings: Mapping[str, Any],
        vocab_size: int | None,
        where: str,
    ) -> None:
        self._whole, self._model, self._where = whole, whole["model"], where
        self._post, self._ids, self._settings = post_processor, dict(ids), settings
        self._added = {entry["id"]: entry for entry in whole.get("added_tokens") or []}
        vocabulary = self._model["vocab"]
        pairs = (
            [(piece, number) for piece, number in vocabulary.items()] if isinstance(vocabulary, Mapping)
            else [(entry[0], number) for number, entry in enumerate(vocabulary)]
        )  # fmt: skip
        known = {number: piece for piece, number in pairs}
        known |= {number: entry["content"] for number, entry in self._added.items()}
        count = 1 + max(known, default=-1)
        if vocab_size is not None and vocab_size < count:
            raise ModelError(f"it has {count:,} tokens, the model {vocab_size:,}", where=where)
        self._holes = [number for number in range(vocab_size or count) if number not in known]
        self._pieces = [known.get(number, f"[PAD{number}]") for number in range(vocab_size or count)]

    def metadata(self) -> dict[str, Any]:
        kind = self._model.get("type", "BPE")
        normalizers = _steps(self._whole.get("normalizer"), "normalizers")
        spaces = any(
            step["type"] == "Replace" and step.get("content") == SPACE
            or step["type"] == "Prepend" and step.get("prepend") in (SPACE, " ")
            for step in normalizers
        )  # fmt: skip
        metaspace = any(
            step["type"] == "Metaspace" for step in _steps(self._whole.get("pre_tokenizer"), "pretokenizers")
        )
        if kind == "WordPiece":
            found = self._bert(normalizers)
        elif kind == "Unigram":
            found = self._sentencepiece("t5", normalizers)
        elif kind == "BPE" and (spaces or metaspace):
            found = self._sentencepiece("llama", normalizers)
        elif kind == "BPE":
            found = self._gpt2()
        elif kind == "LongestMatch":
            found = self._rwkv()
        else:
            raise ModelError(f"GGUF has no tokenizer of the kind {kind!r:.40}", where=self._where)
        for role, number in self._ids.items():
            if number is not None:
                found[f"{PREFIX}{role}_token_id"] = number
        chat = self._settings.get("chat_template")
        if isinstance(chat, str):
            found["tokenizer.chat_template"] = chat
        elif isinstance(chat, list):
            for entry in chat:
                name = "" if entry["name"] == "default" else f".{entry['name']}"
                found[f"tokenizer.chat_template{name}"] = entry["template"]
        return found

    def _types(self) -> list[int]:
        types = [NORMAL] * len(self._pieces)
        for number in self._holes:
            types[number] = UNUSED
        for number, entry in self._added.items():
            types[number] = CONTROL if entry.get("special") else USER_DEFINED
        for number, piece in enumerate(self._pieces):
            if self._model.get("byte_fallback") and BYTE_PIECE.fullmatch(piece):
                types[number] = BYTE
        if (unknown := self._ids.get("unknown")) is not None and self._model.get("type") != "WordPiece":
            types[unknown] = UNKNOWN
        return types

    def _flags(self) -> dict[str, Any]:
        """Whether texts get tokens before and after them; ModelError for tokens that GGUF cannot express."""
        front, behind = self._post.front, self._post.behind
        bos, eos = self._ids.get("bos"), self._ids.get("eos")
        if front not in ([], [bos]) or behind not in ([], [eos]):
            raise ModelError(
                f"it puts the tokens {front} before texts and {behind} after them, which GGUF cannot say",
                where=self._where,
            )
        return {f"{PREFIX}add_bos_token": bool(front), f"{PREFIX}add_eos_token": bool(behind)}

    def _gpt2(self) -> dict[str, Any]:
        front, behind = self._post.front, self._post.behind
        between = [number for part in self._post.pair[2:-2] for number in part.ids]
        sep = len(front) == len(behind) == 1 and between == behind * 2
        if sep:
            self._ids["bos"], self._ids["seperator"] = front[0], behind[0]
        name = name_of_pattern(self._whole.get("pre_tokenizer"), bool(self._model.get("ignore_merges")), sep)
        if name is None or self._whole.get("normalizer"):
            raise ModelError("llama.cpp has no name for the way it divides text into words", where=self._where)
        merges = self._model["merges"]
        lines = [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
        flags = {f"{PREFIX}add_bos_token": True, f"{PREFIX}add_sep_token": True} if sep else self._flags()
        return {
            f"{PREFIX}model": "gpt2", f"{PREFIX}pre": name, f"{PREFIX}tokens": self._pieces,
            f"{PREFIX}token_type": self._types(), f"{PREFIX}merges": lines, **flags,
        }  # fmt: skip

    def _rwkv(self) -> dict[str, Any]:
        from pyapp.text.tokenization.longest_match import escaped

        types, letters = self._types(), byte_of_character()
        pieces = [
            escaped(bytes(letters[letter] for letter in piece)) if kind == NORMAL else piece
            for piece, kind in zip(self._pieces, types, strict=True)
        ]
        return {
            f"{PREFIX}model": "rwkv", f"{PREFIX}tokens": pieces, f"{PREFIX}token_type": types, **self._flags(),
        }  # fmt: skip

    def _bert(self, normalizers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        prefix = self._model.get("continuing_subword_prefix", "##")
        plain = {*self._added, *self._holes}
        pieces = [
            piece if number in plain else piece[len(prefix) :] if piece.startswith(prefix) else SPACE + piece
            for number, piece in enumerate(self._pieces)
        ]
        bert = next((step for step in normalizers if step["type"] == "BertNormalizer"), {})
        lowercase = bert.get("lowercase", True) is True
        strip = bert.get("strip_accents")
        found = {
            f"{PREFIX}model": "bert", f"{PREFIX}pre": "default", f"{PREFIX}tokens": pieces,
            f"{PREFIX}token_type": self._types(), f"{PREFIX}token_type_count": 2,
            f"{PREFIX}normalizer.lowercase": lowercase,
            f"{PREFIX}normalizer.strip_accents": lowercase if strip is None else bool(strip),
        }  # fmt: skip
        # llama.cpp's names of BERT's [CLS] and [SEP].
        if len(self._post.front) == 1:
            self._ids["bos"] = self._post.front[0]
        if len(self._post.behind) == 1:
            self._ids["seperator"] = self._post.behind[0]
        return found

    def _sentencepiece(self, name: str, normalizers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        types = self._types()
        vocabulary = self._model["vocab"]
        if isinstance(vocabulary, Mapping):
            scores = self._scores_of_merges()
        else:
            scores = [float(entry[1]) for entry in vocabulary] + [0.0] * (len(self._pieces) - len(vocabulary))
        kinds = {step["type"] for step in normalizers}
        schemes = [
            step.get("prepend_scheme", "always")
            for step in _steps(self._whole.get("pre_tokenizer"), "pretokenizers") if step["type"] == "Metaspace"
        ]  # fmt: skip
        found: dict[str, Any] = {
            f"{PREFIX}model": name, f"{PREFIX}pre": "default",
            f"{PREFIX}tokens": [piece.replace(" ", SPACE) if types[i] != CONTROL else piece
                                for i, piece in enumerate(self._pieces)],
            f"{PREFIX}scores": scores, f"{PREFIX}token_type": types,
            f"{PREFIX}add_space_prefix": "Prepend" in kinds or any(scheme != "never" for scheme in schemes),
            f"{PREFIX}remove_extra_whitespaces": "Strip" in kinds,
            **self._flags(),
        }  # fmt: skip
        for step in normalizers:
            if step["type"] == "Precompiled" and step.get("precompiled_charsmap"):
                try:
                    data = base64.b64decode(step["precompiled_charsmap"], validate=True)
                except (binascii.Error, ValueError, TypeError) as error:
                    raise FileFormatError("its precompiled_charsmap is not base64", where=self._where) from error
                found[f"{PREFIX}precompiled_charsmap"] = list(data)
        return found

    def _scores_of_merges(self) -> list[float]:
        """Scores in the order of the merges: a piece has the negative rank of the first merge that makes it."""
        rank: dict[str, int] = {}
        for merge in self._model["merges"]:
            union = "".join(merge.split(" ", 1) if isinstance(merge, str) else merge)
            rank.setdefault(union, len(rank))
        # Single characters are never the union of others: their scores do not matter.
        return [-float(rank.get(piece, len(rank))) for piece in self._pieces]


def _steps(part: Any, name: str) -> list[Mapping[str, Any]]:
    """The steps of a part of a tokenizer.json, those of nested sequences in order."""
    if not isinstance(part, Mapping):
        return []
    if part.get("type") == "Sequence":
        return [step for entry in part.get(name) or [] for step in _steps(entry, name)]
    return [part]
