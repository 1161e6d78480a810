"""Small model files for tests: random weights, made by our own writers; and the ways in which files are broken."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from pyapp.formats import write_llama2c, write_tokenizer_bin
from pyapp.formats.llama2c import tensor_shapes
from tests.text.chat_model import write_chat_model

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


def write_large(folder: Path, dim: int = 2048, layers: int = 64) -> list[Path]:
    """A Llama whose weights are zeros in float16, which take no room on the disk: with 64 layers they are 4.83 GB."""
    files = write_chat_model(folder, dim=64, layers=1)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_size": dim, "intermediate_size": 2 * dim, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps(config))
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, end = {}, 0
    for name, info in json.loads(data[8 : 8 + length]).items():
        for number in range(layers if ".0." in name else 1):
            shape = [size // 32 * (dim // 2) if size in (32, 64, 128) else size for size in info["shape"]]
            begin, end = end, end + 2 * int(np.prod(shape))
            entry = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
            header[name.replace(".0.", f".{number}.")] = entry
    text = json.dumps(header).encode()
    with weights.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return files
