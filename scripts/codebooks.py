"""Writes pyapp/engine/blocks/codebooks.bin, the codebooks of ggml's types of one to three bits, as the `gguf` package
has them: python -m scripts.codebooks (needs the extra `oracle`).

Each entry is a number of 16 bits with the places of its values in a short list of magnitudes: 8 places of 2 bits, or 4
of 4 bits. The entries of a codebook grow, so the file holds their differences: of all codebooks first the low bytes,
then the high ones, compressed by zlib, in base 85.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from pyapp.engine.blocks.codebooks import CODEBOOKS

PATH = Path(__file__).parents[1] / "pyapp/engine/blocks/codebooks.bin"


def differences(name: str) -> np.ndarray:
    """The differences (entries,) of a codebook's entries, uint16."""
    from gguf import quants

    book = CODEBOOKS[name]
    kind = getattr(quants, name.upper())
    kind.init_grid()
    places = np.searchsorted(kind.grid_map, kind.grid.reshape(book.entries, book.values))  # (entries, values)
    entries = (places << np.arange(0, 16, 16 // book.values)).sum(axis=1)
    steps = np.diff(entries, prepend=0)
    assert len(kind.grid_map) == len(book.magnitudes) and (steps >= 0).all()
    return steps.astype("<u2")


def main() -> None:
    steps = np.concatenate([differences(name) for name in CODEBOOKS])
    planes = steps.view(np.uint8).reshape(-1, 2).T.tobytes()
    PATH.write_bytes(zlib.compress(planes, 9))
    print(f"{PATH.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
