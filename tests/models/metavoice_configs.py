"""A small MetaVoice: its sizes, its tokenizer and the text that it speaks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import draw

ENTRIES = 16  # of a codebook
PIECES = ["th", "the", " a"]
FIRST = 2 * ENTRIES + 1  # the number of the first piece of a text
WORDS = FIRST + 256 + len(PIECES) + 1
TEXT = "the oat"
CONFIGS: dict[str, dict[str, Any]] = {
    "metavoice": {
        "model_type": "metavoice", "vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2,
        "intermediate_size": 24, "max_position_embeddings": 48, "speaker_size": 10,
        "finer_vocab_sizes": [WORDS - ENTRIES, ENTRIES + 1], "finer_targets": [ENTRIES + 1] * 2, "finer_size": 24,
        "finer_layers": 2, "finer_positions": 40, "finer_speaker": True,
    },
}  # fmt: skip
TOKENIZER = {
    "mergeable_ranks": {**{chr(value): value for value in range(128)}, **{p: 256 + i for i, p in enumerate(PIECES)}},
    "pat_str": r" ?\w+|\s+|[^\s\w]+", "offset": FIRST,
}  # fmt: skip


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `draw`, with larger tables, so that tokens differ, and small scores of pieces of texts, so that codes are
    written.
    """
    values = draw(name, shape) * np.float32(3 if "embed" in name or "wte" in name else 1)
    if name == "output.weight":
        values[FIRST - 1 :] *= np.float32(0.2)
    return values


def vector() -> np.ndarray:
    """That of the voice: (1, 10) float32."""
    return draw("speaker", (1, 10))
