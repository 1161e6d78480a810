"""GGUF files in several parts, as llama.cpp's gguf-split writes them."""

from __future__ import annotations

from pathlib import Path

from pyapp.formats import open_checkpoint, write_gguf


def in_parts(file: Path) -> list[Path]:
    """Writes the tensors of a GGUF file into two."""
    with open_checkpoint(file) as whole:
        tensors, values = {name: whole.read(name) for name in whole.tensors}, whole.values  # type: ignore[attr-defined]
    names, parts = list(tensors), []
    for number, (chosen, own) in enumerate(((names[:5], values), (names[5:], {}))):
        parts.append(file.with_name(f"{file.stem}-0000{number + 1}-of-00002.gguf"))
        split = {"split.no": number, "split.count": 2, "split.tensors.count": len(tensors)}
        write_gguf(parts[-1], {name: tensors[name] for name in chosen}, own | split)
    return parts
