"""The speech grammar: the same sentences everywhere, useful words, and a part that no training sees."""

import hashlib
import itertools
import re

import pytest

from pyapp.recipes.chooser import Chooser
from pyapp.recipes.speech.grammar.sentences import (
    expand,
    is_unseen,
    sentence,
    training_sentences,
    unseen_sentences,
    vocabulary,
    words,
)  # fmt: skip
from pyapp.recipes.speech.grammar.words import RULES, TOPICS


def test_sentences_stay_the_same() -> None:
    """A model in somebody's hands was measured on these."""
    text = "\n".join(sentence(1, index) for index in range(200))
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == "012b23ebd52f525980a7aefc8f731ebe"
    assert sentence(1, 5) == sentence(1, 5) != sentence(2, 5)


def test_sentences_are_well_formed() -> None:
    for index in range(2000):
        text = sentence(3, index)
        assert re.fullmatch(r"[A-Z][A-Za-z',]*( [A-Za-z',]+)*[.?]", text), text
        assert not re.search(r",[.?]|,,", text), text
        assert 1 <= len(words(text)) <= 24, text


def test_the_vocabulary() -> None:
    known = vocabulary()
    assert len(known) >= 200
    assert {"seven", "thirtieth", "o'clock", "umbrella", "monday", "berlin", "windy", "please"} <= known
    heard = {word for text in itertools.islice(training_sentences(4), 12_000) for word in words(text)}
    assert heard == known, "a word that is never trained, or one that is not in the rules"


def test_every_rule_is_used() -> None:
    used = {name for templates in RULES.values() for text in templates for name in re.findall(r"\[(\w+)\]", text)}
    assert set(RULES) == used | set(TOPICS)


def test_no_unseen_sentence_is_trained_on() -> None:
    unseen = list(itertools.islice(unseen_sentences(), 300))
    assert len(set(unseen)) > 200
    assert all(is_unseen(text) for text in unseen)
    trained = list(itertools.islice(training_sentences(1), 3000))
    assert not any(is_unseen(text) for text in trained)
    assert not set(trained) & set(unseen)


def test_expanding_follows_the_seed_alone() -> None:
    assert expand("[hour] [hour]", Chooser("a", 1)) == expand("[hour] [hour]", Chooser("a", 1))
    assert len({expand("[city]", Chooser("a", number)) for number in range(200)}) == len(RULES["city"])
    with pytest.raises(KeyError):
        expand("[no_such_rule]", Chooser("a"))
