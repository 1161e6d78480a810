"""tokenizer.bin as tokenizer.json: the ids must be those of llama2.c's own algorithm, written here a second time."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyapp.errors import FileFormatError
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.together import examples

pytest.importorskip("tokenizers")

NodeIds = Callable[[Path, list[str]], list[list[int]]]
Vocabulary = tuple[list[bytes], list[float]]
# fmt: off
ODD_TEXTS = [
    "", " ", "  ", "   a   b   ", "\n", "\n\n\t\r\n", "Once upon a time", " Once upon a time, there was",
    "ÆØÅ naïve café", "日本語のテキスト", "😀😀\U0001f469\u200d\U0001f467 flags \U0001f1e9\U0001f1ea",
    "a\u0301 combining", "<s>", "\n<s>\n", "</s><unk><0x41>", "<0x0A>", "\x00", "a\x00b", "\x01\x7f\x80\x9f",
    "\ufeffbom",
    "▁under▁line", "a▁b", "\u2028\u00a0\u3000", "\U0010ffff", "aaaaaaaaaa", "thethethethe", "!!!!!!!!",
    "????..,,''\"\"", "0123456789" * 5, "Lily's mom said, \"No!\"", "\ufb01 ligature", "\u202eright to left",
]
# fmt: on


def reference_encode(text: str, vocabulary: Vocabulary) -> list[int]:
    """llama2.c's `encode` without BOS: dummy space, characters or their bytes, then the best pair by score, leftmost
    first.
    """
    pieces, scores = vocabulary
    number = {piece: index for index, piece in enumerate(pieces)}
    ids = [number[b" "]] if text else []
    for character in text:
        data = character.encode()
        ids.extend([number[data]] if data in number else [byte + 3 for byte in data])
    while True:
        best = (-1e10, -1, -1)
        for index, (left, right) in enumerate(zip(ids, ids[1:], strict=False)):
            joined = number.get(pieces[left] + pieces[right])
            if joined is not None and scores[joined] > best[0]:
                best = (scores[joined], index, joined)
        if best[1] < 0:
            return ids
        ids[best[1] : best[1] + 2] = [best[2]]


@pytest.fixture
def tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    return Tokenizer.from_llama2c(*vocabulary)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_ids_are_those_of_llama2c(text: str, vocabulary: Vocabulary, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(text)
    assert ids == [1, *reference_encode(text, vocabulary)]
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode(text, bos=False, eos=True) == [*ids[1:], 2]


def test_ids_of_random_texts(vocabulary: Vocabulary, tokenizer: Tokenizer) -> None:
    pieces = [piece.decode() for piece in vocabulary[0][259:]]
    parts = st.one_of(st.sampled_from(pieces), st.text(max_size=4), st.sampled_from([" ", "\n", "a", "th"]))

    @settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(parts, max_size=30).map("".join))
    def check(text: str) -> None:
        ids = tokenizer.encode(text, bos=False)
        assert ids == reference_encode(text, vocabulary)
        assert tokenizer.decode(ids) == text

    check()


def test_real_vocabulary_of_32000(vocabulary_of_llama: Vocabulary, data_path: Callable[[str], Path]) -> None:
    """llama.cpp's cases for the tokenizer of Llama 2, whose pieces and scores are what tokenizer.bin holds."""
    texts, expected = llama_cases(data_path)
    tokenizer = Tokenizer.from_llama2c(*vocabulary_of_llama)
    for text, ids in zip(texts, expected, strict=True):
        assert tokenizer.encode(text, bos=False) == ids, text
        assert tokenizer.decode(ids) == text


@pytest.fixture(scope="module")
def vocabulary_of_llama(data_path: Callable[[str], Path]) -> Vocabulary:
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(data_path("ggml-vocab-llama-spm.gguf"))
    tokens, scores = reader.fields["tokenizer.ggml.tokens"], reader.fields["tokenizer.ggml.scores"]
    pieces = [bytes(tokens.parts[part]).replace("▁".encode(), b" ") for part in tokens.data]
    pieces[1:3] = b"\n<s>\n", b"\n</s>\n"
    return pieces, [float(scores.parts[part][0]) for part in scores.data]


def llama_cases(data_path: Callable[[str], Path]) -> tuple[list[str], list[list[int]]]:
    name = "ggml-vocab-llama-spm.gguf"
    raw = data_path(f"{name}.inp").read_bytes().decode()
    lines = data_path(f"{name}.out").read_text().split("\n")
    texts = raw.split("\n__ggml_vocab_test__\n")
    return texts, [[int(number) for number in line.split()] for line in lines[: len(texts)]]


def test_text_of_100_kb(tokenizer: Tokenizer) -> None:
    text = ("Once upon a time, there was a 😀 girl named Lily.\n" * 2100)[:100_000]
    start = time.perf_counter()
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert time.perf_counter() - start < 20  # a method that takes quadratic time would take minutes


def test_lone_surrogates_count_as_replacement_characters(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a\udc80b") == tokenizer.encode("a\ufffdb")
    assert tokenizer.encode("\ud83d\ude00") == tokenizer.encode("😀")


def test_control_tokens_have_no_text(tokenizer: Tokenizer) -> None:
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.stop_ids) == (1, {2}, {1, 2})
    assert tokenizer.token_bytes(1) == tokenizer.token_bytes(2) == b""
    assert tokenizer.token_bytes(3 + 0x41) == b"A"
    assert tokenizer.token_bytes(10_000) == b""
    assert tokenizer.decode([1, *tokenizer.encode("dog", bos=False), 2]) == "dog"
    assert tokenizer.decode([]) == ""
    with pytest.raises(IndexError):
        tokenizer.token_bytes(-1)


def test_only_the_first_space_of_a_text_falls_away(small_vocabulary: Vocabulary) -> None:
    tokenizer = Tokenizer.from_llama2c(*small_vocabulary)
    space = small_vocabulary[0].index(b" ")
    assert tokenizer.decode([1, space, space, space]) == "  "
    assert tokenizer.token_bytes(space) == b" "


def test_json_goes_there_and_back(vocabulary: Vocabulary, tokenizer: Tokenizer) -> None:
    again = Tokenizer.from_json(tokenizer.to_json())
    text = "Once upon a time 😀"
    assert again.encode(text) == tokenizer.encode(text)
    assert (again.bos_id, again.eos_ids, again.vocab_size) == (1, {2}, len(vocabulary[0]))


def test_node_gives_the_same_ids(tokenizer: Tokenizer, tmp_path: Path, node_ids: NodeIds) -> None:
    """The page's library reads the same tokenizer.json."""
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    texts = [*ODD_TEXTS, "Once upon a time 😀 \n" * 5000]
    assert node_ids(tmp_path, texts) == [tokenizer.encode(text, bos=False) for text in texts]


def test_a_piece_that_reads_like_a_control_token(small_vocabulary: Vocabulary) -> None:
    pieces, scores = small_vocabulary
    extended = Tokenizer.from_llama2c([*pieces, b"<s>", b" </s>"], [*scores, -900.0, -901.0])
    again = Tokenizer.from_json(extended.to_json())
    assert (again.bos_id, again.eos_ids) == (1, {2}) == (extended.bos_id, extended.eos_ids)


def broken(pieces: list[bytes], **changes: bytes) -> list[bytes]:
    return [changes.get(f"token{number}", piece) for number, piece in enumerate(pieces)]


def test_vocabularies_that_cannot_work(small_vocabulary: Vocabulary) -> None:
    pieces, scores = small_vocabulary
    cases = {
        "too small": (pieces[:100], scores[:100]),
        "not the byte <0x41>": (broken(pieces, token68=b"A"), scores),
        "token 300 is not valid UTF-8": (broken(pieces, token300=b"\xff\xfe"), scores),
        "tokens 300 and 301 are both": (broken(pieces, token300=b"same", token301=b"same"), scores),
        "scores": (pieces, scores[:-1]),
    }
    for message, (some_pieces, some_scores) in cases.items():
        with pytest.raises(FileFormatError, match=message) as caught:
            Tokenizer.from_llama2c(some_pieces, some_scores, where="my.bin")
        assert caught.value.where == "my.bin"


def test_scores_that_never_win(small_vocabulary: Vocabulary) -> None:
    """llama2.c's search starts at -1e10: NaN and lower scores are never joined."""
    pieces, scores = small_vocabulary
    for value in (float("nan"), -1e11, struct.unpack("<f", b"\xff\xff\x7f\xff")[0]):
        changed = (pieces, [value if len(piece) == 2 else score for piece, score in zip(pieces, scores, strict=True)])
        assert Tokenizer.from_llama2c(*changed).encode("the dog", bos=False) == reference_encode("the dog", changed)
