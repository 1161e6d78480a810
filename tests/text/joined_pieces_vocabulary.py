"""A small vocabulary in the form of the small Blenderbot's files, and texts."""

from __future__ import annotations

PAIRS = [
    ("t", "h"), ("th", "e</w>"), ("f", "o"), ("fo", "x</w>"), ("e", "s</w>"), ("q", "u"), ("qu", "ick</w>"),
    ("i", "c"), ("ic", "k</w>"), ("_", "_"), ("__", "n"), (".", "a</w>"),
]  # fmt: skip
MERGES = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in PAIRS)
_PIECES = (left + right for left, right in PAIRS)
VOCABULARY = {
    token: number
    for number, token in enumerate(
        [
            "__null__", "__start__", "__end__", "__unk__",
            *(letter + end for letter in "abcdefghijklmnopqrstuvwxyz_'.,?()0123456789é" for end in ("", "@@")),
            # "qu@@" and "ick" are pieces on the way to "quick", and no tokens.
            *(piece.removesuffix("</w>") if piece.endswith("</w>") else f"{piece}@@"
              for piece in _PIECES if piece not in ("qu", "ick</w>")),
        ]
    )
}  # fmt: skip
CTRL_VOCABULARY = {
    token: number
    for number, token in enumerate(
        ["<unk>", "\n", *(letter + end for letter in "abcdefghijklmnopqrstuvwxyzTI_'.,?()" for end in ("", "@@")),
         "Links", "th@@", "the", "fox", "qu@@", "quick", "es"]
    )
}  # fmt: skip
TEXTS = [
    "The quick fox. Les (foxes)!", "I don't  know.a\nor do\n\nI?", " it's'\nquest qu ick", "É ü 日 a",
    "__end__ the __start__fox", "a", "", "fox...the,quick",
]  # fmt: skip
