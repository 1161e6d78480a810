"""Texts split into passages: sentences, sizes, overlap, what has no sentences, what does not fit."""

from __future__ import annotations

import random

import pytest

from pyapp.errors import OptionError
from pyapp.text.passages import paragraphs, sentences, split


def words(text: str) -> int:
    return len(text.split())


def spans(text: str, size: int = 20, overlap: int = 4) -> list[tuple[int, int]]:
    return [span for span in split(text, words, size, overlap) if span is not None]


def parts(text: str, found: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ('He said "Stop!" Then he ran.', ['He said "Stop!"', "Then he ran."]),
        ("Version 2.5 is here, e.g. now. Next.", ["Version 2.5 is here, e.g. now.", "Next."]),
        ("a list\n- one\n- two", ["a list", "- one", "- two"]),
        ("今日は晴れ。明日は雨。", ["今日は晴れ。", "明日は雨。"]),
        ("  \n\n ", []),
        ("no mark", ["no mark"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert parts(text, sentences(text)) == expected


def test_paragraphs_are_between_blank_lines() -> None:
    text = "\n\none\nstill one\n \t\n\ntwo\n"
    assert parts(text, paragraphs(text)) == ["one\nstill one", "two"]


def test_passages_end_with_paragraphs_if_they_can() -> None:
    text = "A b c d e. F g h i j.\n\nK l m n o p q r s t u v."
    assert parts(text, spans(text, 16, 4)) == ["A b c d e. F g h i j.", "K l m n o p q r s t u v."]
    assert parts(text, spans(text, 30, 4)) == [text]


def test_passages_overlap_inside_paragraphs_only() -> None:
    text = " ".join(f"Word{i} a b c." for i in range(8)) + "\n\n" + "End d e f. " * 3
    found = parts(text, spans(text, 12, 4))
    assert found[0] == "Word0 a b c. Word1 a b c. Word2 a b c." and found[1].startswith("Word2 a b c. Word3")
    assert not any("Word7" in one for one in found if one.startswith("End"))


def test_every_word_is_in_a_passage_and_none_is_too_long() -> None:
    draw = random.Random(4)
    marks = [". ", " ", " ", " ", "\n", "\n\n", "! "]
    for _ in range(30):
        text = "".join(f"w{number}{draw.choice(marks)}" for number in range(draw.randrange(1, 300)))
        size = draw.randrange(8, 40)
        found = spans(text, size, draw.randrange(0, size // 2 + 1))
        assert all(words(part) <= size for part in parts(text, found))
        assert set(text.split()) == {word for part in parts(text, found) for word in part.split()}
        assert found == sorted(found)


def test_passages_go_on_where_one_begins() -> None:
    source = random.Random(5)
    sentences_ = (" ".join(["word"] * source.randint(1, 15)) + "." for _ in range(300))
    text = "".join(sentence + source.choice([" ", "\n", "\n\n"]) for sentence in sentences_).replace("word", "Word")
    found = spans(text)
    for place, (start, _) in enumerate(found):
        assert [span for span in split(text, words, 20, 4, start) if span] == found[place:]
    with pytest.raises(OptionError, match="start"):
        list(split(text, words, 20, 4, len(text) + 1))


def test_a_text_without_words_to_divide() -> None:
    text = "x" * 1000
    found = [span for span in split(text, len, 64, 0) if span is not None]
    assert "".join(parts(text, found)) == text and max(end - start for start, end in found) <= 64


@pytest.mark.parametrize(("size", "overlap"), [(7, 0), (20, 11), (20, -1), ("20", 0), (20, 2.5)])
def test_sizes_that_do_not_fit(size: object, overlap: object) -> None:
    with pytest.raises(OptionError):
        list(split("a text", words, size, overlap))  # type: ignore[arg-type]
