"""A small llama2.c model with random weights, as files."""

from __future__ import annotations

from pathlib import Path

from pyapp.engine import Tensor
from pyapp.formats import write_llama2c, write_tokenizer_bin
from pyapp.formats.llama2c import tensor_shapes
from pyapp.text.generation.sampling import Uniform
from tests.text.parrot import make_vocabulary

CONFIG = {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "max_seq_len": 4096}


def write_model(folder: Path, **changes: int) -> Path:
    """A small model with seeded random weights, and its tokenizer beside it."""
    pieces, scores = make_vocabulary()
    config = CONFIG | {"vocab_size": len(pieces)} | changes
    numbers = Uniform(7)
    tensors = {}
    for name, shape in tensor_shapes(config, True):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensor = Tensor.from_buffer(bytes(4 * count), shape, "float32")
        view = tensor.data_view().cast("B").cast("f")
        for index in range(count):
            view[index] = 1.0 if len(shape) == 1 else (numbers.draw() - 0.5) / 2
        tensors[name] = tensor
    write_llama2c(folder / "model.bin", config, tensors, version=1)
    write_tokenizer_bin(folder / "tokenizer.bin", pieces, scores)
    return folder / "model.bin"
