"""Summarise a model file as plain data, from its header: for `pyapp inspect` and the page."""

from __future__ import annotations

from typing import Any

from pyapp.errors import FileFormatError

from .checkpoint import Checkpoint
from .opening import open_checkpoint, sniff
from .source import AnySource, ByteSource, opened_source
from .tokenizer_bin import read_tokenizer_bin


def inspect(source: AnySource) -> dict[str, Any]:
    """Name, format, size in bytes (of all its parts), config, metadata, tensors, totals and classes of a model's file
    (open_checkpoint) or of a tokenizer.bin.

    `tensors` is a list of {"name", "dtype", "shape", "bytes"} in file order; `totals` has "tensors", "parameters" and
    "bytes"; `classes` are the classes and functions, beside those of tensors, that a pickle of PyTorch's would use:
    none of them is imported or run, and their objects are left out. Every value can be written as JSON. Raises
    FileFormatError for other and for broken files, OSError as open() does.
    """
    with opened_source(source) as opened:
        kind = sniff(opened)
        if kind == "tokenizer.bin":
            return _inspect_tokenizer(opened)
        checkpoint, classes = _read_pickle(opened) if kind == "pytorch" else (open_checkpoint(opened), [])
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
            "classes": classes,
        }


def _read_pickle(opened: ByteSource) -> tuple[Checkpoint, list[str]]:
    """A file of PyTorch's, and the names in its pickle that are not those of tensors and plain data."""
    try:
        return open_checkpoint(opened), []
    except FileFormatError as error:
        from .pytorch_objects import InspectedFile  # late: few files have more than tensors

        try:
            found = InspectedFile(opened)
        except FileFormatError:
            raise error from None
        return found, found.asked


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
        "classes": [],
    }
