"""Small model files for tests: random weights, made by our own writers; and the ways in which files are broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pyapp.formats import write_llama2c, write_tokenizer_bin
from pyapp.formats.llama2c import tensor_shapes

WORDS = "the a fox boat river and went to found small blue one day it was happy said little tree home".split()


def write_tokenizer(path: Path, vocabulary: int = 320) -> Path:
    """A tokenizer.bin of llama2.c: control tokens, bytes, letters, words."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    pieces += [b" ", *(bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz.,")]
    pieces += [f" {word}".encode() for word in WORDS]
    pieces += [f"~{number}".encode() for number in range(vocabulary - len(pieces))]
    scores = [0.0] * 259 + [-float(number) for number in range(vocabulary - 259)]
    write_tokenizer_bin(path, pieces[:vocabulary], scores)
    return path


def write_model(
    path: Path, *, dim: int = 64, layers: int = 2, vocabulary: int = 320, context: int = 256, nan: bool = False
) -> Path:
    """A checkpoint (version 1) with seeded random weights that never ends a text by itself when it is greedy."""
    config = {
        "dim": dim, "hidden_dim": dim * 2, "n_layers": layers, "n_heads": 4, "n_kv_heads": 2, "vocab_size": vocabulary,
        "max_seq_len": context,
    }  # fmt: skip
    random = np.random.default_rng(7)
    tensors = {}
    for name, shape in tensor_shapes(config, tied=False):
        norm = "norm" in name
        tensors[name] = np.ones(shape, "f4") if norm else random.standard_normal(shape, "f4") * 0.2
    # Control tokens and raw bytes get logit 0, and the best of the others is above it.
    tensors["output.weight"][:259] = 0
    if nan:
        tensors["layers.0.attention.wq.weight"][0, 0] = np.nan
    write_llama2c(path, config, tensors, version=1)
    return path


def write_pair(folder: Path, **model: int | bool) -> list[Path]:
    """A checkpoint and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_model(folder / "model.bin", **model), write_tokenizer(folder / "tokenizer.bin")]
