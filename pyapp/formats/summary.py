"""Summarise a model file as plain data, from its header: for `pyapp inspect` and the page."""

from __future__ import annotations

from typing import Any

from .opening import open_checkpoint, sniff
from .source import AnySource, close_source, open_source
from .tokenizer_bin import read_tokenizer_bin


def inspect(source: AnySource) -> dict[str, Any]:
    """Name, format, size in bytes (of all its parts), config, metadata, tensors and totals of a llama2.c, safetensors,
    GGUF or tokenizer.bin file.

    `tensors` is a list of {"name", "dtype", "shape", "bytes"} in file order; `totals` has "tensors", "parameters" and
    "bytes". Every value can be written as JSON. Raises FileFormatError for other and for broken files, OSError as
    open() does.
    """
    opened = open_source(source)
    try:
        if sniff(opened) == "tokenizer.bin":
            return _inspect_tokenizer(opened)
        checkpoint = open_checkpoint(opened)
        infos = checkpoint.tensors.values()
        return {
            "file": opened.name,
            "format": checkpoint.format,
            "size": checkpoint.size,
            "config": dict(checkpoint.config),
            "metadata": dict(checkpoint.metadata),
            "tensors": [
                {"name": info.name, "dtype": info.dtype, "shape": list(info.shape), "bytes": info.nbytes}
                for info in infos
            ],
            "totals": {
                "tensors": len(checkpoint.tensors),
                "parameters": sum(info.numel for info in infos),
                "bytes": sum(info.nbytes for info in infos),
            },
        }
    finally:
        if opened is not source:
            close_source(opened)


def _inspect_tokenizer(opened: Any) -> dict[str, Any]:
    vocabulary = read_tokenizer_bin(opened)
    return {
        "file": opened.name,
        "format": "llama2.c tokenizer.bin",
        "size": opened.size,
        "config": {"vocab_size": len(vocabulary)},
        "metadata": {"max_token_length": str(vocabulary.max_token_length)},
        "tensors": [],
        "totals": {"tensors": 0, "parameters": 0, "bytes": opened.size},
    }
