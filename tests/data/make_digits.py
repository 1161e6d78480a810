"""Writes pyapp/datasets/digits.bin from scikit-learn's copy: python -m tests.data.make_digits (needs scikit-learn)

A zlib stream of 1,797 labels and 1,797 x 64 values, all uint8.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parents[2] / "pyapp" / "datasets" / "digits.bin"


def main() -> None:
    from sklearn.datasets import load_digits

    found = load_digits()
    data = found.target.astype(np.uint8).tobytes() + found.images.astype(np.uint8).tobytes()
    TARGET.write_bytes(zlib.compress(data, 9))
    print(TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
