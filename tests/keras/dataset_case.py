"""Datasets of keras.datasets in small files of the real formats, and what Keras gives for them.

KERAS_BACKEND=torch python -m tests.keras.dataset_case (needs keras and torch) writes golden_datasets.json.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

GOLDEN = Path(__file__).with_name("golden_datasets.json")
WORDS = {"the": 1, "and": 2, "a": 3, "film": 17}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("imdb", {}), ("imdb", {"num_words": 12, "skip_top": 3, "seed": 5}), ("imdb", {"maxlen": 7, "oov_char": None}),
    ("imdb", {"start_char": None, "index_from": 0, "num_words": 9}), ("reuters", {}),
    ("reuters", {"num_words": 10, "test_split": 0.5, "maxlen": 8}), ("california_housing", {}),
    ("california_housing", {"version": "small", "test_split": 0.4, "seed": 2}), ("boston_housing", {}),
]  # fmt: skip


def write(folder: Path) -> None:
    """The files of the datasets, as NumPy and JSON write them."""
    random = np.random.RandomState(0)

    def rows(count: int) -> Any:
        found = np.empty(count, dtype=object)
        found[:] = [random.randint(1, 20, random.randint(2, 9)).tolist() for _ in range(count)]
        return found

    np.savez(folder / "imdb.npz", x_train=rows(9), y_train=random.randint(0, 2, 9), x_test=rows(7),
             y_test=random.randint(0, 2, 7))  # fmt: skip
    np.savez(folder / "reuters.npz", x=rows(12), y=random.randint(0, 46, 12))
    for name, count, columns in (("california_housing", 620, 8), ("boston_housing", 15, 13)):
        x, y = random.rand(count, columns).astype("float32"), random.rand(count).astype("float32")
        np.savez(folder / f"{name}.npz", x=x, y=y)
    for name in ("imdb", "reuters"):
        (folder / f"{name}_word_index.json").write_text(json.dumps(WORDS))


def described(found: Any) -> Any:
    """Rows and labels of both parts; of arrays of numbers the shape and some."""
    (x, y), (x_test, y_test) = found
    return [_one(part) for part in (x, y, x_test, y_test)]


def _one(part: Any) -> Any:
    if part.dtype == object:
        return [[int(number) for number in row] for row in part]
    return [list(part.shape), [round(float(number), 6) for number in part.reshape(-1)[:30]]]


def main() -> None:
    import keras

    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        found = []
        for dataset, settings in CALLS:
            module = f"keras.src.datasets.{dataset}.get_file"
            with mock.patch(module, lambda *names, fname=None, **_: str(Path(name) / (fname or names[0]))):
                found.append(described(getattr(keras.datasets, dataset).load_data(**settings)))
    GOLDEN.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(GOLDEN.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
