"""Writes golden_files.zip: models that Keras 3 on its torch backend saved, with inputs and predictions (numbers.npz).

KERAS_BACKEND=torch python -m tests.keras.make_golden_files (needs keras, torch and h5py)
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.keras.file_models import LAMBDA, LORA, MODELS, register

GOLDEN = Path(__file__).with_name("golden_files.zip")


def repacked(path: Path) -> bytes:
    """The same archive, with its members compressed."""
    target = io.BytesIO()
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name in given.namelist():
            made.writestr(zipfile.ZipInfo(name), given.read(name), zipfile.ZIP_DEFLATED, 9)
    return target.getvalue()


def main() -> None:
    import keras

    register(keras)
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(GOLDEN, "w", zipfile.ZIP_DEFLATED) as golden:

        def keep(name: str, data: bytes) -> None:
            golden.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)

        for name, make in {**MODELS, "lambda": LAMBDA, "lora": LORA}.items():
            keras.utils.clear_session()
            keras.utils.set_random_seed(1)
            model, x, y = make(keras)
            settings: Any = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}
            if model.compiled:
                model.fit(x, y, **settings)
            path = Path(folder) / f"{name}.keras"
            model.save(path)
            keep(path.name, repacked(path))
            for number, output in enumerate(keras.tree.flatten(model.predict(x, verbose=0))):
                numbers[f"{name}.{number}"] = output
            if name == "functional":
                model.save_weights(Path(folder) / "functional.weights.h5")
                keep("functional.weights.h5", (Path(folder) / "functional.weights.h5").read_bytes())
            if model.compiled and name != "lora":
                model = keras.models.load_model(path)
                model.fit(x, y, **settings)
                for number, output in enumerate(keras.tree.flatten(model.predict(x, verbose=0))):
                    numbers[f"{name}.after.{number}"] = output
        target = io.BytesIO()
        np.savez(target, **numbers)
        keep("numbers.npz", target.getvalue())


if __name__ == "__main__":
    main()
