"""Thoughts and answers, cut at every place."""

from __future__ import annotations

import json

import pytest

from pyapp.text.chat.thinking import ThinkingSplitter
from pyapp.text.tokenization.tokenizer import Tokenizer

CASES = [
    ("", "<think>\nA b\n c\n</think>\n\nIt is <think> 4.\n", "A b\n c", "It is <think> 4.\n"),
    ("", "  <think></think>Yes", "", "Yes"),
    ("", "\n Plain </think> <think>", "", "\n Plain </think> <think>"),
    ("", "<thin", "", "<thin"),
    ("", "", "", ""),
    ("<|im_start|>assistant\n<think>\n", "Hm <b>\n\n</think>\nNo", "Hm <b>", "No"),
    ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "No", "", "No"),
    ("", "[THINK]so</think>[/THINK] x", "so</think>", "x"),
    ("", "<think>never ends </thi", "never ends </thi", ""),
]


@pytest.mark.parametrize("prompt,text,thoughts,answer", CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_split(prompt: str, text: str, thoughts: str, answer: str, size: int) -> None:
    splitter = ThinkingSplitter(prompt)
    parts = [splitter.push(text[at : at + size]) for at in range(0, len(text), size)] + [splitter.finish()]
    assert "".join(part for part, _ in parts) == thoughts
    assert "".join(part for _, part in parts) == answer


def test_tags_that_are_special_tokens_are_text() -> None:
    """Else thoughts could not be told from the answer."""
    names = ["<think>", "</think>", "<s>", "a"]
    document = {
        "model": {"type": "WordLevel", "vocab": {name: i for i, name in enumerate(names)}, "unk_token": "a"},
        "decoder": {"type": "Fuse"},
        "added_tokens": [{"id": i, "content": name, "special": True} for i, name in enumerate(names[:3])],
    }
    tokenizer = Tokenizer.from_json(json.dumps(document))
    assert tokenizer.decode([2, 0, 3, 1, 3]) == "<think>a</think>a"
