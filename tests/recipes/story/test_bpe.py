"""The tokenizer's training, and its two files: both must split text into the same ids."""

from pathlib import Path

import pytest

tokenizers = pytest.importorskip("tokenizers")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from pyapp.formats import read_tokenizer_bin, write_tokenizer_bin  # noqa: E402
from pyapp.recipes.story.bpe import BYTES, CONTROL, Vocabulary, train_vocabulary  # noqa: E402
from pyapp.recipes.story.grammar.stories import story  # noqa: E402
from pyapp.text.tokenization.tokenizer import Tokenizer  # noqa: E402
from tests.together import examples  # noqa: E402

pytestmark = pytest.mark.native_only

TEXTS = [story(5, index) for index in range(150)]
VOCABULARY = train_vocabulary(TEXTS, 700)
NATIVE = tokenizers.Tokenizer.from_str(VOCABULARY.to_json())


@pytest.fixture(scope="module")
def from_file(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """As a user's tokenizer.bin is read."""
    path: Path = tmp_path_factory.mktemp("bpe") / "tokenizer.bin"
    write_tokenizer_bin(path, [piece.encode() for piece in VOCABULARY.pieces_in_file()], VOCABULARY.scores())
    read = read_tokenizer_bin(path)
    return Tokenizer.from_llama2c(read.pieces, read.scores)


# Left out: control tokens in a text, and ▁, which a tokenizer.json takes for what they say and llama2.c for text.
ODD = [
    "", " ", "  ", "\n", "a\n\nb", "Once  upon", " leading", "trailing ", "naïve café", "日本 🐉!", "<s", "s>",
    "<0x41>", "\x00\x7f", "tab\there", "ABC xyz 0123456789", "don't", '"Oh no!" she said.', "e\u0301",
    "\U0001f468\u200d\U0001f469",
]  # fmt: skip


def test_numbers_as_in_llama2c() -> None:
    assert len(VOCABULARY.pieces) == 700
    assert VOCABULARY.pieces[:3] == CONTROL
    assert VOCABULARY.pieces[3:259] == BYTES
    assert VOCABULARY.pieces_in_file()[1] == "\n<s>\n"
    assert len(set(VOCABULARY.pieces)) == 700


def test_scores_fall_with_the_merges() -> None:
    """Every piece that a merge makes has a score of its own, above all that none makes."""
    scores = VOCABULARY.scores()
    made = {left + right for left, right in VOCABULARY.merges}
    of_merges = [score for piece, score in zip(VOCABULARY.pieces, scores, strict=True) if piece in made]
    others = [score for piece, score in zip(VOCABULARY.pieces, scores, strict=True) if piece not in made]
    assert len(set(of_merges)) == len(of_merges) > 300
    assert min(of_merges) > max(others)
    assert of_merges == sorted(of_merges, reverse=True)


def test_pieces_never_run_over_a_word() -> None:
    for piece in VOCABULARY.pieces[259:]:
        assert "▁" not in piece[1:] and "\n" not in piece
        assert not (any(c.isalpha() for c in piece) and any(c in '.,!?"' for c in piece))


@pytest.mark.parametrize("text", [*ODD, *TEXTS[:30]])
def test_both_files_give_the_same_ids(from_file: Tokenizer, text: str) -> None:
    ids = from_file.encode(text, bos=False)
    assert NATIVE.encode(text, add_special_tokens=False).ids == ids
    assert from_file.decode([1, *ids]) == text


@settings(max_examples=examples(300), deadline=None)
@given(st.text(st.sampled_from("abcdeilnorstuvwyOISTH .,!?\"'\né🐉")))
def test_both_files_give_the_same_ids_for_any_text(from_file: Tokenizer, text: str) -> None:
    ids = from_file.encode(text, bos=False)
    assert NATIVE.encode(text, add_special_tokens=False).ids == (ids if text else [])
    assert from_file.decode([1, *ids]) == text


def llama2c_encode(vocabulary: Vocabulary, text: str) -> list[int]:
    """run.c's algorithm, written down plainly: the reference for both."""
    pieces, scores = vocabulary.pieces_in_file(), vocabulary.scores()
    number = {piece: i for i, piece in enumerate(pieces)}
    ids = []
    for character in " " + text:
        ids += [number[character]] if character in number else [byte + 3 for byte in character.encode()]
    while True:
        joins = [
            (-scores[number[pieces[a] + pieces[b]]], at)
            for at, (a, b) in enumerate(zip(ids, ids[1:], strict=False))
            if pieces[a] + pieces[b] in number
        ]
        if not joins:
            return ids
        at = min(joins)[1]
        ids[at : at + 2] = [number[pieces[ids[at]] + pieces[ids[at + 1]]]]


@pytest.mark.parametrize(
    "text", ["Once upon a time, there was a dragon.", '"Oh no!" said Mia.\nThe end.', "Tom's café", *TEXTS[:3]]
)
def test_ids_are_those_of_llama2c(from_file: Tokenizer, text: str) -> None:
    assert from_file.encode(text, bos=False) == llama2c_encode(VOCABULARY, text)


def test_training_is_repeatable() -> None:
    assert train_vocabulary(TEXTS, 700) == VOCABULARY


@pytest.mark.parametrize(("texts", "size"), [(TEXTS, 200), (["a b"], 400), ([], 400)])
def test_impossible_sizes(texts: list[str], size: int) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        train_vocabulary(texts, size)
