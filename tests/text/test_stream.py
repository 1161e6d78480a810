"""Streamed text: no partial characters, no text after a stop string, no unnecessary delay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyapp.text.generation.stream import StopMatcher, StreamDecoder
from pyapp.text.tokenization.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(small_vocabulary: tuple[list[bytes], list[float]]) -> Tokenizer:
    return Tokenizer.from_llama2c(*small_vocabulary)


def byte_ids(data: bytes) -> list[int]:
    return [byte + 3 for byte in data]


def test_characters_wait_until_they_are_whole(tokenizer: Tokenizer) -> None:
    stream = StreamDecoder(tokenizer)
    assert [stream.push(token) for token in byte_ids("aé🙂".encode())] == ["a", "", "é", "", "", "", "🙂"]
    assert stream.finish() == ""


def test_broken_characters_become_replacement_characters(tokenizer: Tokenizer) -> None:
    stream = StreamDecoder(tokenizer)
    assert [stream.push(token) for token in byte_ids(b"\xf0\x9fa\xff")] == ["", "", "\ufffda", "\ufffd"]
    stream.push(3 + 0xE2)
    assert stream.finish() == "\ufffd"


def test_leading_space(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the dog", bos=False)
    for continuing, expected in ((False, "the dog"), (True, " the dog")):
        stream = StreamDecoder(tokenizer, continuing)
        assert "".join(map(stream.push, ids)) == expected


def test_holds_back_only_what_may_become_a_stop_string() -> None:
    matcher = StopMatcher(["END", "\n\n"])
    assert [matcher.push(text) for text in ("a", "bE", "N", "Ec", "\n", "x\n")] == ["a", "b", "", "ENEc", "", "\nx"]
    assert matcher.matched is None
    assert matcher.finish() == "\n"


def test_stops_at_the_first_stop_string() -> None:
    matcher = StopMatcher(["END", "N", "unused"])
    assert matcher.push("xE") == "x"
    assert matcher.push("NDy") == ""
    assert matcher.matched == "END"
    assert matcher.push("more") == "" == matcher.finish()


def test_overlapping_beginnings() -> None:
    matcher = StopMatcher(["aab"])
    assert matcher.push("aaa") == "a"
    assert matcher.push("a") == "a"
    assert matcher.push("b") == ""
    assert matcher.matched == "aab"


PARTS = st.lists(st.text(alphabet="abc", max_size=4), max_size=12)


@given(PARTS, st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3))
def test_any_split_gives_the_text_before_the_first_stop_string(parts: list[str], stops: list[str]) -> None:
    text, matcher = "".join(parts), StopMatcher(stops)
    got = ""
    for part in parts:
        got += matcher.push(part)
        if matcher.matched is not None:
            break
    else:
        got += matcher.finish()
    # The text ends before the stop string that is complete first when reading part by part.
    read = ""
    for part in parts:
        read += part
        places = [read.find(stop) for stop in stops if stop in read]
        if places:
            assert got == read[: min(places)] and matcher.matched is not None
            return
    assert got == text and matcher.matched is None
