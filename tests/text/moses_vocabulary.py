"""A small vocabulary in the form of XLM's and FlauBERT's files, and texts."""

from __future__ import annotations

from typing import Any

SPECIAL = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{number}>" for number in range(10))]
PAIRS = [("t", "h"), ("th", "e</w>"), ("f", "o"), ("fo", "x</w>"), ("e", "s</w>"), ("l", "es</w>")]
MERGES = "".join(f"{left} {right} 100\n" for left, right in PAIRS)  # with counts, as their authors wrote them
VOCABULARY = {
    token: number
    for number, token in enumerate(
        [
            *SPECIAL,
            *(letter + end for letter in "abcdefghijklmnopqrstuvwxyzé'.,?()0123456789" for end in ("", "</w>")),
            *(left + right for left, right in PAIRS),
        ]
    )
}
TEXTS = ["The fox. L'ÉTÉ, les « chats »…", "Mr. O'Neil  (2.5)?\n日本。", "the <special1> fox"]
CASES: list[dict[str, Any]] = [
    {"tokenizer_class": "XLMTokenizer"},
    {"tokenizer_class": "XLMTokenizer", "do_lowercase_and_remove_accent": False},
    {"tokenizer_class": "FlaubertTokenizer", "do_lowercase": True},
]
# Of fairseq's translators: the numbers of the other language, a sentence in it, and the settings.
TARGET = {token: number for number, token in enumerate([*SPECIAL, *reversed([*VOCABULARY][len(SPECIAL) :])])}
SENTENCE = [
    "t",
    "h",
    "e</w>",
    "fox</w>",
    "<pad>",
    ",</w>",
    "i",
    "t</w>",
    "'</w>",
    "s</w>",
    "(</w>",
    "2</w>",
    ")</w>",
    "</s>",
]
PAIR: dict[str, Any] = {"tokenizer_class": "FSMTTokenizer", "langs": ["en", "de"]}
DASHED = 'the fox-like (2.5) "fox" & co.'
