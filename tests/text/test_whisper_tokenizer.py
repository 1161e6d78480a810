"""Whisper's vocabulary on a small one of the same build, and on the real ones where openai-whisper is installed."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.text.languages import LANGUAGES, language_code
from pyapp.text.tokenization.pieces import byte_of_character
from pyapp.text.tokenization.rank_bpe import RankVocabulary, split_words
from pyapp.text.tokenization.symbol_bpe import encode_signs
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.whisper_tokenizer import MUSIC, SYMBOLS, WhisperTokenizer, special_tokens
from tests.text.tokenizer_documents import BYTES, byte_pairs, document, numbered, template

CHARACTERS = [
    chr(code) for code in (*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x370, 0x450), *range(0x4E00, 0x4E80))
]
ODD = "\u2028\u0085\t\n\r\x1c\u200b\u0661½\u2167\u0301\U0001f600\u3000"


def small_pieces() -> list[bytes]:
    """All bytes, and some pieces that are merged from two others."""
    merged = [
        b"th",
        b"the",
        b" the",
        b" a",
        b"in",
        b"ing",
        b"--",
        b"((",
        b" (",
        b" -",
        b"\xe2\x99",
        b" \xe2\x99",
        b"\xc3\xa9",
    ]
    return [bytes([value]) for value in range(256)] + merged


def small(languages: int = 3, **settings: bool) -> WhisperTokenizer:
    pieces = small_pieces()
    return WhisperTokenizer.from_pieces(pieces, len(pieces) + 8 + 1501 + languages, **settings)


def small_json(times: bool = True) -> str:
    """The same vocabulary in Hugging Face's form."""
    pieces = small_pieces()
    letters = {byte: character for character, byte in byte_of_character().items()}
    spelt = ["".join(letters[byte] for byte in piece) for piece in pieces]
    merges = []
    for number, piece in enumerate(pieces[256:], 256):  # each is two that came before it
        cuts = range(len(piece) - 1, 0, -1)
        cut = next(at for at in cuts if {piece[:at], piece[at:]} <= {*pieces[:number]})
        merges.append([spelt[pieces.index(piece[:cut])], spelt[pieces.index(piece[cut:])]])
    every = special_tokens(len(pieces), 3).items()
    special = {name: number for name, number in every if times or not name[2].isdigit()}
    begin = "<|startoftranscript|>"
    around = template({begin: len(pieces) + 1}, f"{begin} $A")
    parts = {"pre_tokenizer": BYTES, "post_processor": around, "decoder": BYTES | {"add_prefix_space": True}}
    return json.dumps(document(byte_pairs(numbered(spelt), merges), special, **parts))


def test_control_tokens_have_openais_order() -> None:
    tokenizer = small()
    eot = len(small_pieces())
    found = [
        tokenizer.eot, tokenizer.sot, *tokenizer.all_language_tokens, tokenizer.translate, tokenizer.transcribe,
        tokenizer.sot_lm, tokenizer.sot_prev, tokenizer.no_speech, tokenizer.no_timestamps, tokenizer.timestamp_begin,
    ]  # fmt: skip
    assert found == [*range(eot, eot + 12)]
    assert tokenizer.all_language_codes == ("en", "zh", "de") and tokenizer.multilingual
    assert tokenizer.vocab_size == tokenizer.timestamp_begin + 1501
    assert tokenizer.sot_sequence("de", "translate") == (
        tokenizer.sot,
        tokenizer.language_token("German"),
        tokenizer.translate,
    )
    assert small(multilingual=False).sot_sequence("en") == (tokenizer.sot,)


def test_decoding_leaves_out_what_is_not_text() -> None:
    tokenizer = small()
    ids = [
        tokenizer.timestamp_begin,
        *tokenizer.encode(" the café"),
        tokenizer.language_token("de"),
        tokenizer.timestamp_begin + 74,
    ]
    assert tokenizer.decode(ids) == " the café"
    assert tokenizer.decode_with_controls(ids) == " the café<|de|>"
    assert tokenizer.decode_with_timestamps(ids) == "<|0.00|> the café<|de|><|1.48|>"
    assert tokenizer.decode([]) == "" and tokenizer.encode("") == []
    assert tokenizer.decode([0xC3]) == "\ufffd"


@pytest.mark.native_only  # inside Pyodide no library stands behind a tokenizer.json of byte-level BPE
def test_names_of_control_tokens_in_a_text_are_text() -> None:
    for tokenizer in (small(), WhisperTokenizer.from_json(small_json())):
        assert max(tokenizer.encode("<|endoftext|> the<|0.00|>")) < tokenizer.eot


def random_texts(count: int) -> list[str]:
    draw = random.Random(0)
    return ["".join(draw.choices([*CHARACTERS, " ", " the", "thing", "é", *ODD], k=20)) for _ in range(count)]


@pytest.mark.native_only
def test_the_pages_library_gives_the_same_ids(
    tmp_path: Path, node_ids: Callable[[Path, list[str]], list[list[int]]]
) -> None:
    document = json.loads(small_json()) | {
        "added_tokens": [],
        "post_processor": None,
    }  # as WhisperTokenizer hands it over
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    texts = [*random_texts(60), "<|endoftext|> the", "I'd say  it's\n\n ok"]
    assert node_ids(tmp_path, texts) == [small().encode(text) for text in texts]


@pytest.mark.native_only
def test_the_two_ways_to_a_tokenizer_agree() -> None:
    ranks, library = small(), WhisperTokenizer.from_json(small_json())
    assert (library.specials, library.vocab_size, library.multilingual) == (ranks.specials, ranks.vocab_size, True)
    assert library.non_speech_tokens == ranks.non_speech_tokens
    for text in random_texts(100):
        ids = ranks.encode(text)
        assert library.encode(text) == ids
        assert library.decode(ids) == text == ranks.decode(ids)


SIGNS = [*SYMBOLS, *MUSIC, *(f" {symbol}" for symbol in (*SYMBOLS, *MUSIC)), " ", " -", "–—", "…"]


@pytest.mark.native_only
@pytest.mark.parametrize("written", [str, list], ids=["text", "pairs"])
def test_signs_are_encoded_by_merges_as_by_the_library(written: type) -> None:
    draw = random.Random(2)
    for _ in range(20):
        document = json.loads(small_json()) | {"added_tokens": [], "post_processor": None}
        model = document["model"]
        parts = [text for text in model["vocab"] if len(text) == 1]
        model["vocab"] = {text: number for number, text in enumerate(draw.sample(parts, len(parts)))}
        model["merges"] = []
        signs = "".join(SIGNS).encode()
        letters = [text for text in parts if byte_of_character()[text] in signs]
        for _ in range(300):  # in no order: what is merged first is decided by the list alone
            pair = draw.choice(letters), draw.choice(letters)
            if "".join(pair) not in model["vocab"]:
                model["vocab"]["".join(pair)] = len(model["vocab"])
                model["merges"].append(" ".join(pair) if written is str else list(pair))
                letters += ["".join(pair)]
        tokenizer = Tokenizer(document)
        assert encode_signs(document, SIGNS) == [tokenizer.encode(text, bos=False) for text in SIGNS]


def test_signs_of_other_tokenizers_are_left_to_the_library() -> None:
    document = json.loads(small_json())
    assert encode_signs(document, ["("]) is not None
    document["pre_tokenizer"]["add_prefix_space"] = True
    assert encode_signs(document, ["("]) is None
    document = json.loads(small_json())
    for change in ({"type": "Unigram"}, {"ignore_merges": True}, {"end_of_word_suffix": "</w>"}, {"merges": [7]},
                   {"merges": None}, {"vocab": {}}, {"vocab": None}, {"dropout": 0.1}):  # fmt: skip
        assert encode_signs(document | {"model": document["model"] | change}, ["("]) is None, change


def test_a_tokenizer_json_without_times_has_them() -> None:
    tokenizer = WhisperTokenizer.from_json(small_json(times=False))
    assert (tokenizer.timestamp_begin, tokenizer.vocab_size) == (small().timestamp_begin, small().vocab_size)
    assert tokenizer.decode_with_timestamps([tokenizer.timestamp_begin + 1500]) == "<|30.00|>"


def test_non_speech_tokens_are_brackets_and_music() -> None:
    tokenizer = small()
    found = {tokenizer.token_bytes(token) for token in tokenizer.non_speech_tokens}
    assert {b"((", b"--", b" (", b" -", b"(", b"\xe2\x99", b" \xe2\x99"} <= found
    assert not {b"the", b"in", b"-", b"'"} & found


def test_words_with_and_without_spaces() -> None:
    tokenizer = small()
    words, parts = tokenizer.split_to_words([*tokenizer.encode(" the thing, é"), tokenizer.eot], "de")
    assert words == [" the", " thing", ",", " é", "<|endoftext|>"]
    assert [token for part in parts for token in part] == [*tokenizer.encode(" the thing, é"), tokenizer.eot]
    words, _ = tokenizer.split_to_words(tokenizer.encode("音é"), "zh")
    assert words == ["音", "é"]
    words, _ = tokenizer.split_to_words([0xE2, 0x61, 0xE9], "de")
    assert "".join(words) == "\ufffda\ufffd"


def test_words_are_divided_as_gpt2_does() -> None:
    assert list(split_words("I'd say  2½ Ünïts—it's\n\n ok_")) == [
        "I",
        "'d",
        " say",
        " ",
        " 2½",
        " Ünïts",
        "—",
        "it",
        "'s",
        "\n\n",
        " ok",
        "_",
    ]


def test_languages_by_code_and_name() -> None:
    assert len(LANGUAGES) == 100 and list(LANGUAGES)[-1] == "yue"
    assert [language_code(name) for name in ("de", "German", " HAITIAN Creole", "mandarin")] == ["de", "de", "ht", "zh"]
    with pytest.raises(OptionError, match="not a language of Whisper"):
        language_code("klingon")
    with pytest.raises(OptionError, match="not a language of this model.*Choose en, zh, de"):
        small().language_token("fr")


def test_what_is_not_whispers_is_refused() -> None:
    with pytest.raises(ModelError, match="do not go with"):
        WhisperTokenizer.from_pieces(small_pieces(), 1000)
    with pytest.raises(FileFormatError, match="lacks 1 of the 256 bytes"):
        RankVocabulary(small_pieces()[1:])
    with pytest.raises(ModelError, match="no token <|endoftext|>"):
        WhisperTokenizer.from_json(json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}))
    document = json.loads(small_json())
    for broken in ({**document, "model": {"vocab": [1]}}, {**document, "added_tokens": [1]}):
        with pytest.raises(FileFormatError):
            WhisperTokenizer.from_json(json.dumps(broken))
    names = [entry["content"] for entry in document["added_tokens"]]
    document["added_tokens"][names.index("<|notimestamps|>")]["id"] += 5000
    with pytest.raises(ModelError, match="order"):
        WhisperTokenizer.from_json(json.dumps(document))
    document["added_tokens"][1]["id"] = 3
    with pytest.raises(ModelError, match="no token <.startoftranscript.>"):
        WhisperTokenizer.from_json(json.dumps(document))


@pytest.mark.native_only
@pytest.mark.parametrize(
    "name, size, languages", [("multilingual", 51865, 99), ("multilingual", 51866, 100), ("gpt2", 51864, 99)]
)
def test_the_real_vocabularies_give_openais_ids(name: str, size: int, languages: int) -> None:
    reference = pytest.importorskip("whisper.tokenizer")
    lines = (Path(reference.__file__).parent / f"assets/{name}.tiktoken").read_text().split("\n")
    tokenizer = WhisperTokenizer.from_pieces([base64.b64decode(line.split()[0]) for line in lines if line], size)
    theirs = reference.get_tokenizer(name == "multilingual", num_languages=languages, language="de", task="translate")
    assert tokenizer.vocab_size == size == theirs.encoding.n_vocab
    for entry in (
        "sot eot transcribe translate sot_lm sot_prev no_speech no_timestamps timestamp_begin non_speech_tokens".split()
    ):
        assert getattr(tokenizer, entry) == getattr(theirs, entry), entry
    assert tokenizer.sot_sequence("de", "translate") == theirs.sot_sequence
    assert {*tokenizer.all_language_tokens} == {*theirs.all_language_tokens}
    draw = random.Random(1)
    for _ in range(300):
        text = "".join(draw.choices([*CHARACTERS, *ODD, *[" "] * 50, *"'strevmld" * 10], k=draw.randint(0, 40)))
        assert tokenizer.encode(text) == theirs.encode(text, disallowed_special=())
        ids = [draw.randrange(size if draw.random() < 0.1 else tokenizer.eot) for _ in range(draw.randint(0, 20))]
        assert tokenizer.decode_with_timestamps(ids) == theirs.decode_with_timestamps(ids)
        assert tokenizer.decode_with_controls(ids) == theirs.decode(ids)
        assert tokenizer.split_to_words([*ids, tokenizer.eot], "de") == theirs.split_to_word_tokens([*ids, theirs.eot])
