"""Damaged and hostile tokenizers: nothing but clear errors, quickly and in little memory, also when they are used."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from pyapp.errors import FileFormatError, ModelError, PyappError
from pyapp.formats import BytesSource
from pyapp.models import load_tokenizer
from pyapp.text.tokenization.llama2c_vocabulary import tokenizer_document
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer
from tests.hostile import damaged_texts, hostile_documents, peak_memory, survives, written
from tests.text.parrot import make_vocabulary
from tests.text.test_whisper_tokenizer import small_json
from tests.together import fewer_in_browser

WORDS = ["<unk>", "<s>", "</s>", "▁a", "b", "##c", "<0x41>", "é", "\n", "ab"]
ADDED = [{"id": 1, "content": "<s>", "special": True}, {"id": 2, "content": "</s>", "special": True}]
MEMORY = 64 << 20  # a list of numbers up to the largest that is sensible takes half of that


def document(decoder: Any, listed: bool = False, post: Any = None) -> dict[str, Any]:
    vocabulary = [[word, -1.0] for word in WORDS] if listed else {word: i for i, word in enumerate(WORDS)}
    kind = {"type": "Unigram", "unk_id": 0} if listed else {"type": "BPE", "merges": [["a", "b"]]}
    model = {**kind, "vocab": vocabulary}
    return {"added_tokens": ADDED, "post_processor": post, "decoder": decoder, "model": model}


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
}
STEPS = [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": r"[xy\]]+z"}, "content": "ab"},
    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]  # fmt: skip
KINDS = {
    "byte_level": document({"type": "ByteLevel", "add_prefix_space": True}, post={"type": "ByteLevel"}),
    "byte_fallback": document({"type": "Sequence", "decoders": STEPS}, post=TEMPLATE),
    "wordpiece": document({"type": "WordPiece", "prefix": "##", "cleanup": True},
                          post={"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}),
    "unigram": document({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}, listed=True,
                        post={"type": "Sequence", "processors": [TEMPLATE]}),
    "strip": document({"type": "Strip", "content": "b", "start": 1, "stop": 1}),
    "words": document(None),
}  # fmt: skip
SETTINGS = {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "</s>", "add_bos_token": True}


def use(tokenizer: Tokenizer) -> None:
    ids = range(min(tokenizer.vocab_size, 300))
    tokenizer.decode(ids)
    for number in ids:
        tokenizer.token_bytes(number)
    assert tokenizer.stop_ids is not None and json.loads(tokenizer.to_json())


def use_json(text: str | bytes, settings: bytes | None = None) -> None:
    use(Tokenizer.from_json(text, settings))


def use_bin(data: bytes) -> None:
    use(load_tokenizer(data))


def encode(tokenizer: Tokenizer) -> None:
    tokenizer.encode("Once upon a time \U0001f600, didn't it?", eos=True)


@pytest.mark.parametrize("kind", fewer_in_browser(KINDS))
def test_damaged_tokenizer_json(kind: str) -> None:
    data = json.dumps(KINDS[kind], ensure_ascii=False).encode()
    with peak_memory(MEMORY):
        for text in damaged_texts(data, 20):
            survives(use_json, text)


@pytest.mark.parametrize("kind", fewer_in_browser(KINDS))
def test_hostile_tokenizer_json(kind: str) -> None:
    with peak_memory(MEMORY):
        accepted = [survives(use_json, written(changed)) for changed in hostile_documents(KINDS[kind], 150)]
    assert 0.13 < sum(accepted) / len(accepted) < 0.93


@pytest.mark.native_only  # the page splits text with another library
def test_hostile_tokenizer_json_that_encodes() -> None:
    pytest.importorskip("tokenizers")
    refused = 0
    for kind, whole in KINDS.items():
        for changed in hostile_documents(whole, 40, seed=len(kind)):
            try:
                tokenizer = Tokenizer.from_json(written(changed))
            except PyappError:
                continue
            refused += not survives(encode, tokenizer)
    assert refused


def test_parts_that_are_no_objects_are_named() -> None:
    whole = KINDS["byte_fallback"]
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        with pytest.raises(FileFormatError, match=f"`{part}` is 7, expected an object"):
            Tokenizer.from_json(written(whole | {part: 7}))
    with pytest.raises(FileFormatError, match="a decoder is None, expected an object"):
        Tokenizer.from_json(written(whole | {"decoder": {"type": "Sequence", "decoders": [None]}}))


def test_hostile_settings() -> None:
    for changed in hostile_documents(SETTINGS, 200):
        survives(use_json, json.dumps(KINDS["byte_fallback"]), written(changed))


def test_hostile_whisper_vocabulary() -> None:
    whole = json.loads(small_json())
    whole["added_tokens"] = whole["added_tokens"][:40]  # so that other parts have their turn too
    data = json.dumps(whole).encode()

    def read(text: bytes) -> None:
        tokenizer = WhisperTokenizer.from_json(text)
        tokenizer.decode_with_timestamps(range(300))
        tokenizer.split_to_words(range(40, 100))

    read(data)
    with peak_memory(MEMORY):
        for text in damaged_texts(data, 15):
            survives(read, text)
        for changed in hostile_documents(whole, 120):
            survives(read, written(changed))


def test_replacements_do_not_multiply() -> None:
    """Thirty steps that double a token would make a gigabyte of it."""
    steps = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 30
    tokenizer = Tokenizer.from_json(json.dumps(document({"type": "Sequence", "decoders": steps})))
    with peak_memory(MEMORY), pytest.raises(FileFormatError, match="grows to 4,097"):
        tokenizer.decode([3])


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)*b", "a?a?a?a?aaaa", "a*a*a*b", "(?:aa)+", "(", "[", "*"])
def test_patterns_that_could_take_for_ever_are_refused(pattern: str) -> None:
    step = {"type": "Replace", "pattern": {"Regex": pattern}, "content": ""}
    with pytest.raises(ModelError, match="pattern"):
        Tokenizer.from_json(json.dumps(document(step)))


def test_damaged_tokenizer_bin() -> None:
    pieces, scores = make_vocabulary()
    whole = struct.pack("<I", max(map(len, pieces))) + b"".join(
        struct.pack("<fi", score, len(piece)) + piece for piece, score in zip(pieces, scores, strict=True)
    )
    use(load_tokenizer(whole))
    with peak_memory(MEMORY):
        for text in damaged_texts(whole, 25):
            survives(use_bin, text)


def test_long_pieces_take_no_time() -> None:
    """The merges of a piece are sought at each of its places."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256))]
    pieces += [b"a" * length for length in range(1, 400)]
    assert survives(tokenizer_document, pieces, [1.0] * len(pieces), "tokenizer.bin")


def test_a_huge_file_is_not_read() -> None:
    class Huge(BytesSource):
        size = 1 << 40

        def __init__(self) -> None:
            self.name = "tokenizer.json"

        def read(self, offset: int, length: int) -> memoryview:
            assert length < 100
            return memoryview(b"{" * length)

    with pytest.raises(FileFormatError, match="expected at most 67,108,864"):
        load_tokenizer(Huge())
