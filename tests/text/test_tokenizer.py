"""tokenizer.json of the usual kinds: the text of ids must equal that of the Rust library."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyapp.errors import FileFormatError, ModelError
from pyapp.text.generation.stream import StreamDecoder
from pyapp.text.tokenization import tokenizer as tokenizer_module
from pyapp.text.tokenization.pieces import PieceTable
from pyapp.text.tokenization.tokenizer import Tokenizer, set_backend_factory, without_surrogates
from tests.together import examples

tokenizers = pytest.importorskip("tokenizers")
decoders, models, normalizers = tokenizers.decoders, tokenizers.models, tokenizers.normalizers
pre_tokenizers, processors, trainers = tokenizers.pre_tokenizers, tokenizers.processors, tokenizers.trainers

CORPUS = [
    "Once upon a time there was a little girl named Lily. She loved to play outside in the park, didn't she?",
    "The naïve café owner said: I've 3 dogs! Don't you? «日本語» 😀 ▁ end .",
    "Hello world , it 's a test ' quoted ' and they 're here",
] * 5


def byte_level() -> Any:
    native = tokenizers.Tokenizer(models.BPE())
    native.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    native.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    native.train_from_iterator(CORPUS, trainer)
    native.add_tokens(["<tool name>"])
    return native


def byte_fallback() -> Any:
    native = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    native.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    native.decoder = decoders.Sequence(steps)
    control = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=[*control, *(f"<0x{n:02X}>" for n in range(256))])
    native.train_from_iterator([text[:60].replace("é", "e") for text in CORPUS], trainer)
    document = json.loads(native.to_str())
    document["added_tokens"] = [entry for entry in document["added_tokens"] if entry["content"] in control]
    native = tokenizers.Tokenizer.from_str(json.dumps(document))
    native.post_processor = processors.TemplateProcessing(single="<s> $A", pair=None, special_tokens=[("<s>", 1)])
    return native


def wordpiece() -> Any:
    native = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    native.normalizer = normalizers.BertNormalizer()
    native.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    native.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    native.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    native.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return native


def unigram() -> Any:
    native = tokenizers.Tokenizer(models.Unigram())
    native.pre_tokenizer = pre_tokenizers.Metaspace()
    native.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>")
    native.train_from_iterator(CORPUS, trainer)
    template = {"single": "$A </s>", "pair": None, "special_tokens": [("</s>", 1)]}
    native.post_processor = processors.TemplateProcessing(**template)
    return native


def unigram_bytes() -> Any:
    """A Unigram vocabulary with tokens for the bytes of unknown characters."""
    document = json.loads(unigram().to_str())
    document["model"]["byte_fallback"] = True
    document["model"]["vocab"] += [[f"<0x{byte:02X}>", 0.0] for byte in range(256)]
    return tokenizers.Tokenizer.from_str(json.dumps(document))


def word_level() -> Any:
    native = tokenizers.Tokenizer(models.WordLevel(unk_token="?"))
    native.pre_tokenizer = pre_tokenizers.Whitespace()
    native.train_from_iterator(CORPUS, trainers.WordLevelTrainer(special_tokens=["?"]))
    return native


KINDS = [byte_level, byte_fallback, wordpiece, unigram, word_level]
CONTROL = {
    "byte_level": (0, {0}, False),
    "byte_fallback": (1, {2}, True),
    "wordpiece": (2, {3}, True),
    "unigram": (None, {1}, False),
    "word_level": (None, set(), False),
}


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> tuple[str, Any, Tokenizer]:
    native = request.param()
    return request.param.__name__, native, Tokenizer.from_json(native.to_str())


def test_ids_and_control_tokens(kind: tuple[str, Any, Tokenizer]) -> None:
    name, native, ours = kind
    bos_id, eos_ids, adds_bos = CONTROL[name]
    assert (ours.bos_id, ours.eos_ids, ours.adds_bos) == (bos_id, eos_ids, adds_bos)
    assert ours.vocab_size == 1 + max(native.get_vocab().values())
    for text in CORPUS[:3]:
        ids = native.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, bos=False, eos=False) == ids
        assert ours.encode(text) == native.encode(text).ids
        assert ours.encode(text, eos=False) == ([bos_id] if adds_bos else []) + ids
        assert ours.encode(text, bos=False, eos=True) == ids + sorted(eos_ids)
    assert ours.encode("") == native.encode("").ids
    assert ours.encode("", eos=False) == ([bos_id] if adds_bos else [])


TEMPLATES = {
    "bert": lambda p: p.BertProcessing(("[SEP]", 2), ("[CLS]", 1)),
    "roberta": lambda p: p.RobertaProcessing(("</s>", 6), ("<s>", 5)),
    "behind alone": lambda p: p.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 6)]),
    "several": lambda p: p.TemplateProcessing(
        single="[CLS] <s> $A </s> [SEP]", special_tokens=[("</s>", 6), ("<s>", 5), ("[CLS]", 1), ("[SEP]", 2)]
    ),
    "in front alone": lambda p: p.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 5)]),
    "in a sequence": lambda p: p.Sequence(
        [p.ByteLevel(), p.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 5), ("</s>", 6)])]
    ),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_special_tokens_in_front_and_behind(name: str) -> None:
    library = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "hello": 3, "world": 4, "<s>": 5, "</s>": 6}
    native = library.Tokenizer(library.models.WordLevel(vocabulary, unk_token="[UNK]"))
    native.pre_tokenizer = library.pre_tokenizers.Whitespace()
    native.add_special_tokens([library.AddedToken(text, special=True) for text in ("[CLS]", "[SEP]", "<s>", "</s>")])
    native.post_processor = TEMPLATES[name](library.processors)
    ours = Tokenizer.from_json(native.to_str())
    for text in ("hello world", "", "world"):
        assert ours.encode(text) == native.encode(text).ids
        plain = native.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, bos=False, eos=False) == plain
        assert native.encode(text).ids == [*ours.encode("", eos=False), *plain, *ours.encode("", bos=False)]
    without = Tokenizer.from_json(native.to_str(), json.dumps({"add_bos_token": False, "add_eos_token": False}))
    assert without.encode("hello") == [3]
    both = Tokenizer.from_json(native.to_str(), json.dumps({"add_bos_token": True, "add_eos_token": True}))
    assert both.encode("hello")[0] == both.encode("")[0] and both.encode("hello")[-1] in (2, 6)


def test_a_template_with_numbers_that_are_none() -> None:
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a"}}, {"Sequence": {"id": "A"}}]}
    for ids in (["x"], [-1], [1 << 40], 7, None):
        template["special_tokens"] = {"a": {"id": "a", "ids": ids, "tokens": ["a"]}}
        document = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "post_processor": template}
        with pytest.raises(FileFormatError, match="not a usable tokenizer.json"):
            Tokenizer.from_json(json.dumps(document))


def test_text_is_that_of_the_library(kind: tuple[str, Any, Tokenizer]) -> None:
    name, native, ours = kind

    @settings(max_examples=examples(150), deadline=None)
    @given(st.lists(st.integers(0, ours.vocab_size - 1), max_size=12))
    def check(ids: list[int]) -> None:
        expected = native.decode(ids, skip_special_tokens=True)
        got = ours.decode(ids)
        # The library writes one U+FFFD for each stray byte token, UTF-8 decoders one for each broken character.
        if "\ufffd" not in got or name == "byte_level":
            assert got == expected
        stream = StreamDecoder(ours)
        assert "".join(map(stream.push, ids)) + stream.finish() == got

    check()
    for text in CORPUS[:3]:
        ids = native.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids) == native.decode(ids)


def test_settings_name_the_control_tokens() -> None:
    text = byte_level().to_str()
    plain = Tokenizer.from_json(text, json.dumps({"eos_token": {"content": "<tool name>"}, "bos_token": None}))
    assert plain.eos_ids == {plain.vocab_size - 1}
    eager = Tokenizer.from_json(text, b'{"bos_token": "<|endoftext|>", "add_bos_token": true}')
    assert eager.encode("a")[0] == 0


def test_malformed_documents() -> None:
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    cases: list[tuple[str | bytes, type[Exception], str]] = [
        ("", FileFormatError, "the file is empty"),
        ("{,}", FileFormatError, "not valid JSON"),
        ("[" * 100_000, FileFormatError, "not valid JSON"),
        (b"\xff\xfe", FileFormatError, "not UTF-8"),
        ("[]", FileFormatError, "not a JSON object"),
        ("{}", FileFormatError, "this JSON is not a tokenizer.json: it has no `model`"),
        ('{"hello": 1}', FileFormatError, "vocab.json and config.json are other files"),
        (json.dumps({"model": {"vocab": {"a": 1 << 60}}}), FileFormatError, "valid number"),
        (json.dumps({"model": {"vocab": {"a": -1}}}), FileFormatError, "valid number"),
        (json.dumps({"model": {"vocab": {"a": "b"}}}), FileFormatError, "valid number"),
        (json.dumps({"model": {"vocab": 7}}), FileFormatError, "not a usable tokenizer.json: a part has another form"),
        (json.dumps({"model": {"type": "BPE"}}), FileFormatError, "not a usable tokenizer.json: it has no 'vocab'"),
        (json.dumps({"model": model, "decoder": {"type": "CTC"}}), ModelError, "'CTC'"),
        (json.dumps({"model": model, "decoder": {"type": "Replace"}}), FileFormatError, "pattern"),
        (json.dumps({"model": model, "post_processor": {"single": [{}]}}), FileFormatError, "SpecialToken"),
        (
            json.dumps({"model": model, "post_processor": {"single": [{"Sequence": {}}] * 65}}),
            FileFormatError,
            "65 parts and tokens",
        ),
    ]
    for text, error, message in cases:
        with pytest.raises(error, match=message):
            Tokenizer.from_json(text)
    with pytest.raises(ModelError, match="refuses"):
        Tokenizer.from_json(json.dumps({"model": {"type": "New", "vocab": {"a": 0}}})).encode("a")


def test_surrogates() -> None:
    assert without_surrogates("plain") == "plain"
    assert without_surrogates("a\udc80\ud83d\ude00\ud800") == "a\ufffd😀\ufffd"


@pytest.fixture
def restore_backend() -> Iterator[None]:
    before = tokenizer_module._backend_factory
    yield
    set_backend_factory(before)


def test_another_backend(restore_backend: None) -> None:
    """The page passes its own library, which gets the JSON once, at the first text to encode."""
    seen: list[str] = []

    class Backend:
        def encode(self, text: str) -> list[int]:
            seen.append(text)
            return [7, 8]

    def factory(text: str) -> Backend:
        seen.append(text)
        return Backend()

    set_backend_factory(factory)
    tokenizer = Tokenizer.from_json(byte_fallback().to_str())
    assert seen == [] and tokenizer.encode("") == [1] and seen == []
    assert tokenizer.encode("a\udc00") == [1, 7, 8] == tokenizer.encode("b")
    assert seen == [tokenizer.to_json(), "a\ufffd", "b"]


@pytest.mark.parametrize(
    "make", [byte_level, byte_fallback, wordpiece, unigram, unigram_bytes], ids=lambda make: make.__name__
)
def test_node_gives_the_same_ids(make: Callable[[], Any], tmp_path: Path, node_ids: Callable[..., Any]) -> None:
    native = make()
    (tmp_path / "tokenizer.json").write_text(native.to_str(), encoding="utf-8")
    ours = Tokenizer.from_json(native.to_str())
    texts = [*CORPUS[:3], "a ☃ and 漢字 b", "<unk>☃"]
    assert node_ids(tmp_path, texts) == [ours.encode(text, bos=False, eos=False) for text in texts]


def test_a_document_that_pads_and_cuts(tmp_path: Path, node_ids: Callable[..., Any]) -> None:
    """Folders of sentence-transformers say how a batch was padded and cut; a text is, if the call asks for it."""
    native = wordpiece()
    plain = Tokenizer.from_json(native.to_str())
    native.enable_padding(length=64, pad_id=0, pad_token="[PAD]")
    native.enable_truncation(8)
    tokenizer = Tokenizer.from_json(native.to_str())
    assert tokenizer.pad_id == 0
    for text in CORPUS[:3]:
        assert 8 < len(plain(text).ids) < 64
        assert tokenizer(text) == plain(text)
        assert tokenizer.encode(text) == plain.encode(text)
    (tmp_path / "tokenizer.json").write_text(native.to_str(), encoding="utf-8")
    assert node_ids(tmp_path, CORPUS[:3]) == [plain.encode(text, bos=False, eos=False) for text in CORPUS[:3]]


def test_needs_no_numpy() -> None:
    code = "import sys, pyapp.text.generation.stream; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_a_large_vocabulary_is_kept_as_json_only() -> None:
    """As objects it would take several times the memory; everything works as with a small one."""
    pieces = {f"word{i}": i for i in range(20000)}
    model = {"type": "WordLevel", "vocab": {"[UNK]": 20000, "<|end|>": 20001} | pieces, "unk_token": "[UNK]"}
    names = [{"id": 20001, "content": "<|end|>", "special": True, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False}]  # fmt: skip
    document = {"version": "1.0", "added_tokens": names, "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
    for tokenizer in (Tokenizer(document), Tokenizer.from_json(json.dumps(document))):
        assert tokenizer._parsed is None and json.loads(tokenizer.to_json()) == document
        assert list(tokenizer.encode("word7 word19999 <|end|>", eos=False)) == [7, 19999, 20001]
        guarded = tokenizer.encode_guarded(tokenizer.guard("word7 <|end|>"))
        assert 20001 not in guarded and guarded[0] == 7


@settings(deadline=None)
@given(
    st.lists(st.none() | st.sampled_from(["", "a", "ab", "b", "é", "\ud800", "▁ab", "🙂"]) | st.text(max_size=3)),
    st.none() | st.text(max_size=3),
)
def test_a_table_of_pieces_is_like_a_list(pieces: list[str | None], another: str | None) -> None:
    table = PieceTable(pieces)
    assert list(table) == pieces
    assert table[1:-1] == pieces[1:-1]
    for piece in {*pieces, another}:
        assert (piece in table) == (piece in pieces)
        for start in range(len(pieces) + 1):
            expected = pieces.index(piece, start) if piece in pieces[start:] else None
            if expected is None:
                with pytest.raises(ValueError, match="is not in the vocabulary"):
                    table.index(piece, start)
            else:
                assert table.index(piece, start) == expected
    with pytest.raises(IndexError):
        table[len(pieces)]
