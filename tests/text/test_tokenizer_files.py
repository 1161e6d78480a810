"""Tokenizers from every kind of file, compared with sentencepiece, tiktoken, transformers and llama.cpp."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyapp.errors import FileFormatError, ModelError, OptionError, PyappError
from pyapp.formats import BytesSource, GgufFile, write_gguf
from pyapp.formats.sentencepiece_model import read_sentencepiece_model
from pyapp.tasks.texts import from_language
from pyapp.text.gguf_metadata import gguf_types
from pyapp.text.tokenization.charsmap import CharsMap, take_charsmap
from pyapp.text.tokenization.gguf_vocabulary import GgufVocabulary
from pyapp.text.tokenization.normalizer_limits import growth
from pyapp.text.tokenization.pattern_limits import danger
from pyapp.text.tokenization.pieces import byte_of_character
from pyapp.text.tokenization.sentencepiece_classes import document_of_class
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import gguf_tokenizer, load_tokenizer
from pyapp.text.tokenization.tokenizers_library import NativeBackend
from pyapp.text.tokenization.word_patterns import WORD_PATTERNS, name_of_pattern, word_pattern
from tests.hostile import damaged_texts, peak_memory, survives
from tests.text.tokenizer_documents import document
from tests.together import check_each, fewer_in_browser

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_tokenizers.json").read_text("utf-8"))
TEXTS: list[str] = GOLDEN["texts"]
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
SENTENCEPIECE = ["spm_bpe", "spm_bpe_plain", "spm_unigram"]
CLASSES: dict[str, Any] = json.loads(Path(__file__).with_name("golden_sentencepiece_classes.json").read_text("utf-8"))


def model_file(name: str) -> bytes:
    return base64.b64decode(GOLDEN[name]["model"])


def plain(tokenizer: Tokenizer, texts: list[str] = TEXTS) -> list[list[int]]:
    return [tokenizer.encode(text, bos=False, eos=False, parse_special=False) for text in texts]


def through_gguf(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer written into a GGUF file and read from it."""
    sink = io.BytesIO()
    metadata = tokenizer.gguf_metadata()
    write_gguf(sink, {}, {"general.architecture": "none", **metadata}, gguf_types(metadata))
    return load_tokenizer(sink.getvalue(), "small.gguf")


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_sentencepiece(name: str) -> None:
    tokenizer = load_tokenizer(model_file(name), "tokenizer.model")
    assert plain(tokenizer) == GOLDEN[name]["ids"]
    again = through_gguf(tokenizer)
    assert plain(again) == GOLDEN[name]["ids"]
    assert [again.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    assert (again.bos_id, again.eos_ids, again.vocab_size) == (
        tokenizer.bos_id,
        tokenizer.eos_ids,
        tokenizer.vocab_size,
    )
    for text, ids in zip(TEXTS, GOLDEN[name]["ids"], strict=True):
        if name != "spm_unigram":
            assert tokenizer.decode(ids) == again.decode(ids)
            if name == "spm_bpe":
                assert tokenizer.decode(ids) == text


def of_class(case: dict[str, Any], **files: bytes) -> Tokenizer:
    """The tokenizer of a folder with a sentencepiece model; `files`: other settings than the case's."""
    name = case["model"]
    config = {"tokenizer_class": case["class"], **case["settings"]}
    beside = files or {"tokenizer_config.json": json.dumps(config).encode()}
    if name in CLASSES["numbers"]:
        beside["vocab.json"] = json.dumps(CLASSES["numbers"][name]).encode()
    return load_tokenizer({CLASSES["files"][name]: base64.b64decode(CLASSES["models"][name]), **beside})


def test_ids_of_transformers_classes_with_a_sentencepiece_model_alone() -> None:
    def check(case: dict[str, Any]) -> None:
        tokenizer = of_class(case)
        assert tokenizer.vocab_size == case["size"]
        for text, wanted in zip(CLASSES["texts"], case["ids"], strict=True):
            assert wanted is None or list(tokenizer.encode_batch([text])[0].ids) == wanted, text
        assert list(tokenizer.encode_batch(["hello"], ["the world"])[0].ids) == case["pair"]

    check_each(check, [(case,) for case in fewer_in_browser(CLASSES["cases"])])


def test_the_language_of_texts() -> None:
    english, german = CLASSES["cases"][2], CLASSES["cases"][3]
    tokenizer = of_class(english)
    encodings = tokenizer.encode_batch(CLASSES["texts"])
    from_language(tokenizer, encodings, "de_DE")
    assert [encoding.ids for encoding in encodings] == german["ids"]
    from_language(tokenizer, encodings, "en")
    assert [encoding.ids for encoding in encodings] == english["ids"]
    with pytest.raises(OptionError, match="source: the tokenizer has no token 'xx_XX'.*Choose ar_AR"):
        from_language(tokenizer, encodings, "xx_XX")
    french = CLASSES["cases"][-1]
    many = of_class({**french, "settings": {"src_lang": "de"}})
    encodings = many.encode_batch(CLASSES["texts"])
    programs = of_class(CLASSES["cases"][-2])
    of_programs = programs.encode_batch(["hello"])
    from_language(programs, of_programs, "en_XX")
    assert of_programs[0].ids[-2:] == [2, programs.encode("__en_XX__", bos=False, eos=False)[0]]
    for name in ("fr", "__fr__"):
        from_language(many, encodings, name)
        assert [encoding.ids for encoding in encodings] == french["ids"]
    for case in (french, CLASSES["cases"][-2]):
        with pytest.raises(ModelError, match="src_lang 'q' is not a language"):
            of_class({**case, "settings": {"src_lang": "q"}})
    with pytest.raises(FileFormatError, match="without gaps"):
        numbers = {"<s>": 0, "<pad>": 2}
        document_of_class(read_sentencepiece_model(BytesSource(base64.b64decode(CLASSES["models"]["m2m"]))),
                          {"tokenizer_class": "M2M100Tokenizer"}, "model", numbers)  # fmt: skip
    roberta = of_class(CLASSES["cases"][0])
    with pytest.raises(OptionError, match="source: "):
        from_language(roberta, roberta.encode_batch(["a"]), "<s>")


def test_languages_of_speech_are_not_said() -> None:
    [case] = [case for case in CLASSES["cases"] if case["settings"].get("tgt_lang") == "fr"]
    tokenizer = of_class(case)
    assert "<lang:de>" in tokenizer.special_names and tokenizer.decode(case["ids"][0]) == CLASSES["texts"][0]


def test_the_class_that_config_json_says() -> None:
    kinds = {"xlm-roberta": 0, "camembert": 1, "mbart": 2, "t5": 5, "llama": 7, "gemma": 10, "deberta-v2": 13}
    kinds["bert-generation"] = 21

    def check(kind: str, number: int) -> None:
        case = CLASSES["cases"][number]
        tokenizer = of_class(case, **{"config.json": json.dumps({"model_type": kind}).encode()})
        assert list(tokenizer.encode_batch(["Hello world"])[0].ids) == case["ids"][0]

    check_each(check, list(kinds.items()))
    whole = json.dumps({"model_type": "encoder-decoder", "encoder": {"model_type": "bert-generation"}}).encode()
    assert of_class(CLASSES["cases"][21], **{"config.json": whole}).encode("hello")
    both = json.dumps({"model_type": "mbart", "tokenizer_class": "MBart50Tokenizer"}).encode()
    mbart = of_class(CLASSES["cases"][2], **{"config.json": both})
    assert mbart.encode("hello")[0] == mbart.encode("en_XX", bos=False, eos=False)[0]
    with pytest.raises(ModelError, match="src_lang 'xx_XX' is not a language"):
        of_class({**CLASSES["cases"][2], "settings": {"src_lang": "xx_XX"}})


def test_classes_of_sentencepiece() -> None:
    data = model_file("spm_bpe")
    llama = load_tokenizer({"tokenizer.model": data})
    assert llama.encode("hello")[0] == 1 and llama.encode("hello", eos=False) == llama.encode("hello")
    both = json.dumps({"tokenizer_class": "LlamaTokenizer", "add_eos_token": True}).encode()
    assert load_tokenizer({"tokenizer.model": data, "tokenizer_config.json": both}).encode("hello")[-1] == 2
    t5 = load_tokenizer({"spiece.model": model_file("spm_unigram"), "tokenizer_config.json": b'{"extra_ids": 3}'})
    assert t5.encode("hello")[-1] == 1 and t5.vocab_size == 80
    config = b'{"extra_ids": 3, "tokenizer_class": "T5Tokenizer"}'
    t5 = load_tokenizer({"spiece.model": model_file("spm_unigram"), "tokenizer_config.json": config})
    assert t5.vocab_size == 83 and t5.encode("<extra_id_0>", eos=False) == [82]
    config = b'{"tokenizer_class": "XLMRobertaTokenizer"}'
    xlm = load_tokenizer({"sentencepiece.bpe.model": model_file("spm_bpe"), "tokenizer_config.json": config})
    assert xlm.encode("hello", "world")[0] == 0 and xlm.encode("hello").count(2) == 1
    assert xlm.encode("hello", "world").count(2) == 3 and xlm.piece(401) == "<mask>"
    assert xlm.encode("hello", bos=False, eos=False) == [number + 1 for number in llama.encode("hello", bos=False)]
    with pytest.raises(ModelError, match="'Odd' is not known"):
        load_tokenizer({"tokenizer.model": data, "tokenizer_config.json": b'{"tokenizer_class": "OddTokenizer"}'})


def test_tiktoken_and_merges() -> None:
    data = base64.b64decode(GOLDEN["tiktoken"]["file"])
    listed = {"added_tokens_decoder": {"360": {"content": "<|end|>", "special": True}}}
    config = json.dumps(listed).encode()
    tokenizer = load_tokenizer({"tokenizer.tiktoken": data, "tokenizer_config.json": config})
    assert plain(tokenizer) == GOLDEN["tiktoken"]["ids"]
    assert tokenizer.encode("a<|end|>b") == GOLDEN["tiktoken"]["special"]
    assert tokenizer.decode(tokenizer.encode("naïve 😀")) == "naïve 😀"
    # The same vocabulary as vocab.json and merges.txt divides text as GPT-2 does.
    vocabulary = {piece: number for number, piece in enumerate(tokenizer._pieces[:360])}
    files = {"vocab.json": json.dumps(vocabulary).encode(), "merges.txt": GOLDEN["tiktoken"]["merges"].encode()}
    gpt2 = load_tokenizer(files)
    assert gpt2.encode("Hello world") == tokenizer.encode("Hello world")
    again = through_gguf(gpt2)
    assert plain(again) == plain(gpt2) and again.to_json() != gpt2.to_json()
    with pytest.raises(ModelError, match="needs the merges.txt"):
        load_tokenizer({"vocab.json": files["vocab.json"]})
    with pytest.raises(FileFormatError, match="line 2 is 'abc', expected two pieces"):
        load_tokenizer({**files, "merges.txt": b"#version: 0.2\nabc\n"})
    with pytest.raises(FileFormatError, match="no distinct numbers"):
        load_tokenizer({**files, "vocab.json": b'{"a": 1, "b": 1}'})
    roberta = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}
    vocabulary = {**roberta, **{piece: number + 5 for piece, number in vocabulary.items()}}
    files["vocab.json"] = json.dumps(vocabulary).encode()
    files["tokenizer_config.json"] = b'{"tokenizer_class": "RobertaTokenizer"}'
    tokenizer = load_tokenizer(files)
    hello = [number + 5 for number in gpt2.encode("Hello")]
    assert tokenizer.encode("Hello") == [0, *hello, 2]
    assert tokenizer.encode("Hello", "Hello") == [0, *hello, 2, 2, *hello, 2]
    assert tokenizer.encode("Hello <mask>", bos=False, eos=False) == [*hello, 4]
    again = through_gguf(tokenizer)
    assert again.encode("Hello") == [0, *hello, 2] and again.encode("Hello", "Hello") == tokenizer.encode(
        "Hello", "Hello"
    )


def test_wordpiece() -> None:
    for case in GOLDEN["wordpiece"]["cases"]:
        files = {
            "vocab.txt": GOLDEN["wordpiece"]["vocab"].encode(),
            "tokenizer_config.json": json.dumps(case["settings"]).encode(),
        }
        tokenizer = load_tokenizer(files)
        assert [tokenizer.encode(text) for text in TEXTS] == case["ids"], case["settings"]
        assert tokenizer.encode("hello", "the world") == case["pair"]
        if "tokenize_chinese_chars" not in case["settings"]:
            again = through_gguf(tokenizer)
            assert [again.encode(text) for text in TEXTS] == case["ids"]
            assert again("hello", "the world").type_ids == tokenizer("hello", "the world").type_ids
    with pytest.raises(FileFormatError, match=r"no token '\[UNK\]'"):
        load_tokenizer({"vocab.txt": b"a\nb\n"})
    with pytest.raises(FileFormatError, match="lines 1 and 3 are both 'a'"):
        load_tokenizer({"vocab.txt": b"a\nb\na\n"})


def test_classes_of_vocabularies() -> None:
    """MPNet's special tokens, ESM's amino acids, and the normal form of Qwen2's and GPT-NeoX's texts: transformers'."""
    vocabulary = "<s> <pad> </s> <unk> [UNK] the ca ##t dog <mask>".replace(" ", "\n").encode()
    mpnet = {"vocab.txt": vocabulary, "tokenizer_config.json": b'{"tokenizer_class": "MPNetTokenizer"}'}
    encoded = load_tokenizer(mpnet)("the cat", "Dog x")
    assert encoded.ids == [0, 5, 6, 7, 2, 2, 8, 4, 2] and encoded.type_ids == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    proteins = " ".join(["<cls> <pad> <eos> <unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1> <mask>"])
    esm = {
        "vocab.txt": proteins.replace(" ", "\n").encode(),
        "tokenizer_config.json": b'{"tokenizer_class": "EsmTokenizer"}',
    }
    amino_acids = load_tokenizer(esm)
    for text, ids in (("MK<mask>J AY x", [20, 15, 32, 3, 5, 19, 3]), ("mkJJT.-", [3, 11, 29, 30])):
        assert amino_acids.encode(text) == [0, *ids, 2]
    assert amino_acids.encode("MK", "TA") == [0, 20, 15, 2, 11, 5, 2]
    endless = {"tokenizer_config.json": b'{"tokenizer_class": "EsmTokenizer", "eos_token": null}'}
    assert load_tokenizer(esm | endless).encode("MK") == [0, 20, 15]
    with pytest.raises(FileFormatError, match="no token '<eos>'"):
        load_tokenizer(esm | {"vocab.txt": b"<cls>\n<unk>\n<pad>\n<mask>"})
    files = {"vocab.json": json.dumps(byte_of_character()).encode()}  # each byte is a token, its number the id
    for kind, ids in (("Qwen2", "\u00e9"), ("GPTNeoX", "\u00e9"), ("GPT2", "e\u0301")):
        settings = json.dumps({"tokenizer_class": f"{kind}Tokenizer"}).encode()
        tokenizer = load_tokenizer(files | {"merges.txt": b"", "tokenizer_config.json": settings})
        assert tokenizer.encode("e\u0301") == list(ids.encode()), kind


@pytest.mark.native_only
@pytest.mark.parametrize("name", ["llama-spm", "gpt-2", "bert-bge"])
def test_llama_cpps_cases(name: str, data_path: Callable[[str], Path]) -> None:
    """All of llama.cpp's vocabulary tests, also after the tokenizer was written into another GGUF file."""
    path = data_path(f"ggml-vocab-{name}.gguf")
    texts = data_path(f"{path.name}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = data_path(f"{path.name}.out").read_text("utf-8").split("\n")
    expected = [[int(number) for number in line.split()] for line in lines]
    tokenizer = load_tokenizer(path)
    assert len(texts) > 40 and plain(tokenizer, texts) == expected[: len(texts)]
    assert plain(through_gguf(tokenizer), texts) == expected[: len(texts)]


@pytest.mark.parametrize("name", sorted(set(WORD_PATTERNS) - {"whitespace"}))
def test_word_patterns(name: str) -> None:
    """A vocabulary of bytes: every division is one of the text, and GGUF's name is found again."""
    words = word_pattern(name, "x")
    found = WORD_PATTERNS[name_of_pattern(words.pre_tokenizer(), words.ignore_merges, words.adds_sep) or ""]
    assert replace(found, adds_bos=words.adds_bos) == words  # files say themselves what is put before texts


DIVISIONS = {
    # Words by hand: the same text in the division of each family.
    "gpt-2": ["I", "'ll", " pay", " 12345", "$", " DON", "'", "T", "\n\n ", " x"],
    "llama-bpe": ["I", "'ll", " pay", " ", "123", "45", "$", " DON", "'T", "\n\n", " ", " x"],
    "qwen2": ["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", "$", " DON", "'T", "\n\n", " ", " x"],
    "smollm": ["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", "$", " DON", "'", "T", "\n\n ", " x"],
    "gpt-4o": ["I'll", " pay", " ", "123", "45", "$", " DON'T", "\n\n", " ", " x"],
    "tekken": ["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", "$", " DON", "'T", "\n\n", " ", " x"],
    "deepseek-v3": ["I", "'ll", " pay", " ", "123", "45", "$", " DON", "'T", "\n\n", " ", " x"],
}


def words_tokenizer(name: str) -> dict[str, Any]:
    """A tokenizer.json that gives each word of a division a number of its own."""
    from pyapp.text.documents import DECODE_STEPS, bpe_model, document
    from pyapp.text.tokenization.pieces import byte_of_character

    signs = {byte: sign for sign, byte in byte_of_character().items()}
    found = {sign: number for number, sign in enumerate(byte_of_character())}
    for division in DIVISIONS.values():
        for word in division:
            found.setdefault("".join(signs[byte] for byte in word.encode()), len(found))
    return document(
        bpe_model(found, [], ignore_merges=True),
        pre_tokenizer=WORD_PATTERNS[name].pre_tokenizer(),
        decoder=DECODE_STEPS["byte_level"],
    )


@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions(name: str) -> None:
    tokenizer = Tokenizer(words_tokenizer(name))
    ids = tokenizer.encode("".join(DIVISIONS[name]))
    assert [tokenizer.decode([number]) for number in ids] == DIVISIONS[name]


@pytest.mark.parametrize("names", [list(WORD_PATTERNS)[::3], list(WORD_PATTERNS)[1::3], list(WORD_PATTERNS)[2::3]])
def test_node_divides_the_same(names: list[str], tmp_path: Path, node_ids: Callable[..., Any]) -> None:
    text = (
        "".join(DIVISIONS["gpt-2"]) + "  Ünï ёлка 你好，世界。１２ ½ it's  e\u0301\u200d ？!\r\n\t\u3000 fooBar2000 \n"
    )
    seen: set[Any] = set()
    for name in names:
        if (patterns := WORD_PATTERNS[name].patterns) in seen:
            continue
        seen.add(patterns)
        (tmp_path / "tokenizer.json").write_text(json.dumps(words_tokenizer(name)), encoding="utf-8")
        assert node_ids(tmp_path, [text]) == [Tokenizer(words_tokenizer(name)).encode(text)], name


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_node_gives_sentencepieces_ids(name: str, tmp_path: Path, node_ids: Callable[..., Any]) -> None:
    text, normalize = take_charsmap(load_tokenizer(model_file(name), "tokenizer.model").to_json())
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    assert (normalize is not None) == (name == "spm_unigram")
    assert node_ids(tmp_path, [normalize(text) for text in TEXTS] if normalize else TEXTS) == GOLDEN[name]["ids"]


def test_node_gives_unknown_words_their_id(tmp_path: Path, node_ids: Callable[..., Any]) -> None:
    """Or none, as the Rust library does for pieces without a token for what is unknown."""
    words = {"the": 0, "[UNK]": 1, "c": 2, "a": 3, "t": 4, "##at": 5}
    models: list[dict[str, Any]] = [
        {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
        {"type": "WordPiece", "vocab": words, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
         "max_input_chars_per_word": 100},
        *({"type": "BPE", "vocab": words, "merges": [], "unk_token": token, "fuse_unk": False, "byte_fallback": False}
          for token in ("[UNK]", None)),
    ]  # fmt: skip
    for model in models:
        found = document(model, {}, pre_tokenizer={"type": "Whitespace"})
        (tmp_path / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")
        texts = ["the cat", "The cat, dog the!", "zz"]
        assert node_ids(tmp_path, texts) == [Tokenizer(found).encode(text) for text in texts], model["type"]


def test_charsmap() -> None:
    whole = json.loads(load_tokenizer(model_file("spm_unigram"), "tokenizer.model").to_json())
    _, normalize = take_charsmap(json.dumps(whole))
    assert normalize is not None
    assert normalize("ﬁne ＡＢ cafe\u0301 É\t日</s>ﬁ\r") == "fine AB café e 日</s>fi"
    table = base64.b64decode(whole["normalizer"]["normalizers"][0]["precompiled_charsmap"])
    for data in damaged_texts(table, 10):
        survives(lambda data: CharsMap(data).normalize("ﬁ é \x00 ＡＢ" * 3), data)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|aa)*b",
        "(?:a*b?)*",
        "((a+b)c)+",
        "a*a*a*b",
        "(?:(?:a{2,}))+",
        "a" * 20_000,
        "(a*)(a*)(a*)x",
        "(?:a*|b)(?:a*a*|b)x",
        r"(.*)\1x",
        r"(?<n>a|\g<n>b)",
        r"(?<n>a+)\k<n>b",
        "(a?){30}a{30}",
        "a?" * 30 + "a" * 30,
        "(a{0,30}){0,30}b",
        "(a|aa){30}b",
        "(?:a|){40}b",
        "a{1,50}a{1,50}a{1,50}b",
        "((a{1000}){1000}){1000}",
        "a{0,4294967295}",
        "(" * 200 + "a" + ")" * 200,
        "a(?R)?b",
        "(?(1)a|b)",
        "(a+",
    ],
)
def test_patterns_that_could_take_forever(pattern: str) -> None:
    whole = words_tokenizer("llama-bpe")
    whole["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern
    with pytest.raises(ModelError, match="could take forever"):
        Tokenizer(whole)


def test_harmless_patterns() -> None:
    plain = [
        "(?:ab)+",
        r"\s+(?!\S)|\s*[\r\n]+|a*b*",
        r"\\1+",
        "[(a+)]+",
        r"(?i:'s|'t)?\p{L}+",
        r"\(a+\)+",
        r"((?=[\p{L}])([^a-z]))*((?=a)b)+",
        r"(?#why)(?i)a+|(?:\r\n)?\p{N}{1,3}(?=(?:\d{3})*\b)",
        "|".join(f"(?:w{number})" for number in range(1000)),
    ]
    for pattern in [*plain, r"[^(\s|.,!?)]+"]:
        assert danger(pattern) is None, pattern


def replacing(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.parametrize(
    "steps",
    [
        [replacing({"String": "a"}, "aa")] * 30,
        [replacing({"Regex": "."}, "a" * 1000)],
        [replacing({"Regex": "b*"}, "a")] * 30,
        [replacing({"String": ""}, "a")] * 30,
        [{"type": "Sequence", "normalizers": [replacing({"String": "abc"}, "abcabc")] * 10}] * 3,
        [{"type": "Prepend", "prepend": "a" * 1000}] * 100,
        [{"type": "Prepend", "prepend": "a" * 100}, *[replacing({"String": "a"}, "aa")] * 6],
    ],
)
def test_normalizers_that_could_fill_the_memory(steps: list[Any]) -> None:
    whole = words_tokenizer("llama-bpe") | {"normalizer": {"type": "Sequence", "normalizers": steps}}
    with pytest.raises(ModelError, match="could fill the memory"):
        Tokenizer(whole)


def test_normalizers_of_models_are_no_danger() -> None:
    for steps in (
        [{"type": "Prepend", "prepend": "▁"}, replacing({"String": " "}, "▁")],
        [{"type": "NFKC"}, *[replacing({"Regex": " {2,}"}, " ")] * 3, replacing({"String": "``"}, '"')],
        [replacing({"Regex": r"\s+"}, " "), {"type": "Lowercase"}, replacing({"String": "…"}, "...")],
    ):
        assert growth({"type": "Sequence", "normalizers": steps}) is None


@pytest.mark.native_only
def test_failures_of_the_library_are_errors() -> None:
    """A search that the library gives up ends in Rust, with an error that is not an Exception."""
    whole = words_tokenizer("llama-bpe")
    whole["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a?" * 30 + "a" * 30  # which Tokenizer refuses
    with pytest.raises(ModelError, match="gives no tokens"):
        NativeBackend(json.dumps(whole)).encode("a" * 29)


def test_special_names_and_settings() -> None:
    chat = b"{{ messages }}"
    files = {
        "tokenizer.model": model_file("spm_bpe"), "chat_template.jinja": chat,
        "generation_config.json": b'{"eos_token_id": [2, 7]}', "special_tokens_map.json": b'{"pad_token": "</s>"}',
    }  # fmt: skip
    tokenizer = load_tokenizer(files)
    assert tokenizer.settings["chat_template"] == "{{ messages }}" and tokenizer.stop_ids == {1, 2, 7}
    assert tokenizer.pad_id == 2
    found = GgufVocabulary(tokenizer.gguf_metadata(), "x")
    assert found.settings["chat_template"] == "{{ messages }}"
    # A name in a user's text does not become a special token, though the vocabulary has it as a piece.
    unigram = load_tokenizer(model_file("spm_unigram"), "spiece.model")
    assert 1 in unigram.encode("a</s>b", eos=False)
    assert 1 not in unigram.encode("a</s>b", eos=False, parse_special=False)
    assert 1 not in unigram.encode("a＜/s＞b", eos=False, parse_special=False)
    ids = tokenizer.encode_guarded("<s>" + tokenizer.guard("a </s> b") + "</s>")
    assert ids[0] == 1 and ids[-1] == 2 and ids.count(1) == ids.count(2) == 1


def test_foreign_and_missing_files(tmp_path: Path) -> None:
    weights = struct.pack("<Q", 2) + b"{}"
    cases: list[tuple[Any, type[Exception], str]] = [
        ({}, ModelError, "there is no tokenizer"),
        ({"merges.txt": b"a b"}, ModelError, "no vocabulary beside merges.txt"),
        ({"tokenizer_config.json": b"{}"}, ModelError, "no vocabulary beside tokenizer_config.json"),
        ({"tokenizer.json": weights}, FileFormatError, "file of weights \\(safetensors\\), not a tokenizer"),
        ({"tokenizer.model": b"PK\3\4"}, FileFormatError, "truncated|damaged|zip"),
        ({"tokenizer.model": b"\x1f\x8b" + bytes(30)}, FileFormatError, "a gzip archive, not a tokenizer"),
        ({"tokenizer.json": b"<!doctype html>"}, FileFormatError, "a web page or XML, not a tokenizer"),
        ({"tokenizer.json": b"version https://git-lfs.github.com"}, FileFormatError, "Git LFS pointer"),
        ({"tokenizer.json": b'{"model_type": "llama"}'}, FileFormatError, "not a tokenizer.json"),
        ({"tokenizer.json": b""}, FileFormatError, "the file is empty"),
    ]
    for files, error, message in cases:
        with pytest.raises(error, match=message):
            load_tokenizer(files)
    with pytest.raises(ModelError, match="there is no tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(model_file("spm_bpe"))
    (tmp_path / "tokenizer_config.json").write_text('{"add_bos_token": false}')
    for path in (tmp_path, tmp_path / "tokenizer.model"):
        assert plain(load_tokenizer(path), TEXTS[:1]) == GOLDEN["spm_bpe"]["ids"][:1]
        assert load_tokenizer(path).encode("Hello world") == GOLDEN["spm_bpe"]["ids"][0]


def test_bytes_without_a_vocabulary() -> None:
    """Expected: ByT5Tokenizer of transformers 5.24."""
    tokenizer = load_tokenizer({"tokenizer_config.json": b'{"tokenizer_class": "ByT5Tokenizer"}'}, "folder")
    assert tokenizer.encode("H\u00e9<extra_id_0> a</s>b") == [75, 198, 172, 259, 35, 100, 1, 101, 1]
    assert tokenizer.decode([107, 198, 172]) == "h\u00e9" and tokenizer.vocab_size == 384
    assert tokenizer.encode("</s>", eos=False, parse_special=False) == [63, 50, 118, 65]
    with pytest.raises(ModelError, match="extra_ids"):
        load_tokenizer({"tokenizer_config.json": b'{"tokenizer_class": "ByT5Tokenizer", "extra_ids": -1}'})


def test_characters_without_a_vocabulary() -> None:
    """Expected: CanineTokenizer of transformers 5.24; types of pairs are those of version 4."""
    tokenizer = load_tokenizer({"tokenizer_config.json": b'{"tokenizer_class": "CanineTokenizer"}'}, "folder")
    assert tokenizer.encode("a \ue003b\0\U0001f600") == [57344, 97, 32, 57347, 98, 0, 0x1F600, 57345]
    found = tokenizer("ab", "c", offsets=True)
    assert found.ids == [57344, 97, 98, 57345, 99, 57345] and found.type_ids == [0, 0, 0, 0, 1, 1]
    assert found.offsets == [(0, 0), (0, 1), (1, 2), (0, 0), (0, 1), (0, 0)]
    assert tokenizer.decode(found.ids) == "abc" and tokenizer.vocab_size == 0x110000
    assert (tokenizer.pad_id, tokenizer.max_length, tokenizer.special_id("mask_token")) == (0, 2048, 0xE003)
    assert (tokenizer.piece(0xD800), tokenizer.id_of("é"), tokenizer.id_of("ab")) == (None, 0xE9, None)


def test_merges_of_whole_texts_in_a_gguf_file() -> None:
    """Gemma 4's files have the pieces of sentencepiece with merges instead of scores."""
    tokenizer = load_tokenizer(model_file("spm_bpe"), "tokenizer.model")
    metadata = tokenizer.gguf_metadata()
    merges = GgufVocabulary(metadata, "x").document["model"]["merges"]
    metadata["tokenizer.ggml.merges"] = [" ".join(pair) for pair in merges]
    del metadata["tokenizer.ggml.scores"]
    again = Tokenizer(GgufVocabulary(metadata | {"tokenizer.ggml.model": "gemma4"}, "x").document)
    assert plain(again, [f" {text}" for text in TEXTS if text]) == [
        ids for text, ids in zip(TEXTS, GOLDEN["spm_bpe"]["ids"], strict=True) if text
    ]
    assert all(again.decode(again.encode(text)) == text for text in TEXTS)


def test_a_gguf_file_without_a_usable_tokenizer() -> None:
    whole = load_tokenizer(model_file("spm_bpe"), "tokenizer.model").gguf_metadata()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"tokenizer.ggml.model": "plamo2"}, "of the kind 'plamo2'"),
        ({"tokenizer.ggml.scores": whole["tokenizer.ggml.scores"][:-1]}, "400 tokens, 400 types and 399 scores"),
        ({"tokenizer.ggml.tokens": ["a", 3]}, "tokens is not a list"),
        ({"tokenizer.ggml.tokens": []}, "vocabulary has 0 tokens"),
        ({"tokenizer.ggml.tokens": ["a"] * 400}, "pieces 0 and 1 are both 'a'"),
        ({"tokenizer.ggml.scores": [float("nan")] * 400}, "score is not a number"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": []}, ""),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "unheard-of"}, "the way 'unheard-of'"),
        ({"tokenizer.ggml.model": "gpt2"}, "no merges"),
    ]
    for changed, message in cases:
        if message:
            with pytest.raises(PyappError, match=message):
                GgufVocabulary({**whole, **changed}, "x.gguf")
    with pytest.raises(ModelError, match="it has no tokenizer"):
        GgufVocabulary({}, "x.gguf")
    with pytest.raises(ModelError, match="400 tokens, the model 300"):
        load_tokenizer(model_file("spm_bpe"), "tokenizer.model").gguf_metadata(300)
    filled = load_tokenizer(model_file("spm_bpe"), "tokenizer.model").gguf_metadata(410)
    assert len(filled["tokenizer.ggml.tokens"]) == 410 and filled["tokenizer.ggml.token_type"][409] == 5


def test_padding_of_a_vocabulary_has_no_text() -> None:
    """Converters add "[PAD9]" and the like for rows of the model without a token: llama.cpp writes nothing."""
    vocabulary = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 6}
    hole = json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", "ab c"]},
                       "added_tokens": [], "normalizer": None, "post_processor": None, "pre_tokenizer": BYTES,
                       "decoder": BYTES}).encode()  # fmt: skip
    for data, name, text in ((model_file("spm_bpe"), "tokenizer.model", "the dog"), (hole, "tokenizer.json", "abcab")):
        tokenizer = load_tokenizer({name: data})
        size = tokenizer.vocab_size
        metadata = tokenizer.gguf_metadata(size + 10)
        again = gguf_tokenizer(metadata, "x.gguf")
        ids = tokenizer.encode(text, bos=False, eos=False)
        assert again.encode(text, bos=False, eos=False) == ids and again.vocab_size == size
        unused = [number for number, kind in enumerate(metadata["tokenizer.ggml.token_type"]) if kind == 5]
        assert len(unused) >= 10
        assert again.decode([*ids[:1], *unused, *ids[1:]]) == again.decode(ids) == text


def test_a_text_does_not_end_at_an_ordinary_token_of_a_gguf_file() -> None:
    """Files that do not say the beginning of texts get a default, unless it is an ordinary token."""

    def stops(values: dict[str, Any]) -> frozenset[int]:
        sink = io.BytesIO()
        write_gguf(sink, {}, {"general.architecture": "none", **values}, gguf_types(values))
        return load_tokenizer(sink.getvalue(), "x.gguf").stop_ids

    tokens = [chr(33 + number) for number in range(94)] + ["<|end|>"]
    values: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.eos_token_id": 94,
        "tokenizer.ggml.token_type": [1] * 94 + [3],
    }  # fmt: skip
    assert stops(values) == {94}
    falcon = values | {"tokenizer.ggml.token_type": [1] * 11 + [3] + [1] * 82 + [3]}
    assert stops(falcon) == {11, 94}


@pytest.mark.parametrize("name", ["spm_bpe_plain", "spm_unigram"])
def test_damaged_sentencepiece_models(name: str) -> None:
    def read(data: bytes) -> None:
        tokenizer = load_tokenizer(data, "tokenizer.model")
        tokenizer.decode(range(min(tokenizer.vocab_size, 50)))

    with peak_memory(64 << 20):
        for data in fewer_in_browser(damaged_texts(model_file(name), 25)):
            survives(read, data)


def test_hostile_protobuf() -> None:
    piece = b"\x0a\x05\x0a\x03abc"
    cases = {
        "does not fit": b"\x0a\xff\xff\xff\xff\x0f",
        "too long": piece + b"\xff" * 20,
        "truncated": piece + b"\x12",
        "unknown kind": piece + b"\x0b",
        "a score is nan": b"\x0a\x08\x0a\x01a\x15\x00\x00\xc0\x7f",
        "no pieces": b"\x12\x00",
        "is not UTF-8": b"\x0a\x03\x0a\x01\xff",
        "bytes": b"\x0a\x80\x80\x01" + b"\x0a\xfd\xff\x00" + b"a" * 16381,
    }
    for message, data in cases.items():
        with pytest.raises(FileFormatError, match=message):
            read_sentencepiece_model(BytesSource(data, "tokenizer.model"))
    long = b"".join(b"\x0a" + varint(len(text) + 3) + b"\x0a" + varint(len(text)) + text
                    for text in (b"%04d" % number + b"a" * 4000 for number in range(60)))  # fmt: skip
    with pytest.raises(FileFormatError, match="too long"):
        load_tokenizer(long + b"\x12\x02\x18\x02", "tokenizer.model")


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def test_gguf_files_are_read_whole() -> None:
    """The header of a file with the tokenizer that GgufFile reads is what GgufVocabulary takes."""
    sink = io.BytesIO()
    metadata = load_tokenizer(model_file("spm_unigram"), "spiece.model").gguf_metadata()
    write_gguf(sink, {}, metadata, gguf_types(metadata))
    file = GgufFile(BytesSource(sink.getvalue()))
    assert file.values["tokenizer.ggml.model"] == "t5" and file.types["tokenizer.ggml.token_type"] == "array of int32"
    assert file.types["tokenizer.ggml.precompiled_charsmap"] == "array of uint8"
