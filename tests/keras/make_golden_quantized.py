"""Writes golden_quantized.zip: models that Keras 3 on its torch backend quantised, with their weights, predictions and
trainings (numbers.npz), and files of some of them.

KERAS_BACKEND=torch python -m tests.keras.make_golden_quantized (needs keras, torch and h5py)
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

from tests.keras.make_golden_files import repacked, write_archive
from tests.keras.quantized_models import MODELS, cases, is_trained, quantize, train

GOLDEN = Path(__file__).with_name("golden_quantized.zip")
FILES = ("int8", "int4", "int4 blocks", "float8")


def main() -> None:
    import keras

    numbers: dict[str, Any] = {}
    warnings.simplefilter("ignore")
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, way in cases():
            keras.utils.clear_session()
            model, x, y = MODELS[name](keras)
            quantize(keras, model, way)
            key = f"{name}.{way}"
            for number, weight in enumerate(model.get_weights()):
                numbers[f"{key}.weight.{number}"] = weight
            numbers[f"{key}.predictions"] = model.predict(x, verbose=0)
            if way in FILES:
                path = Path(folder) / f"{key.replace(' ', '_')}.keras"
                model.save(path)
                files[path.name] = repacked(path)
            if not is_trained(name, way):
                continue
            losses, after = train(keras, model, x, y, None if way == "float8" else 2)
            numbers[f"{key}.losses"], numbers[f"{key}.after"] = losses, after
    write_archive(GOLDEN, files, numbers)
    print(GOLDEN.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
