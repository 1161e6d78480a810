"""Writes golden_files.zip: models that Keras 3 on its torch backend saved, with inputs and predictions (numbers.npz).

KERAS_BACKEND=torch python -m tests.keras.make_golden_files (needs keras, torch and h5py)
"""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.goldens import kept_arrays, write_bytes
from tests.keras.file_models import LAMBDA, LORA, MODELS, register

GOLDEN = Path(__file__).with_name("golden_files.zip")


def repacked(path: Path) -> bytes:
    """The same archive, with its members compressed."""
    target = io.BytesIO()
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name in given.namelist():
            made.writestr(zipfile.ZipInfo(name), given.read(name), zipfile.ZIP_DEFLATED, 9)
    return target.getvalue()


def contents(file: bytes) -> Any:
    """What a file says, as nested dicts: the members of archives, arrays, JSON without the date and the addresses of
    objects that Keras writes into it.
    """
    if file[:4] == b"PK\3\4":
        with zipfile.ZipFile(io.BytesIO(file)) as archive:
            return {name: contents(archive.read(name)) for name in archive.namelist()}
    if file[:8] == b"\x89HDF\r\n\x1a\n":
        found: dict[str, Any] = {}
        with h5py.File(io.BytesIO(file)) as tree:
            tree.visititems(lambda name, item: found.update({name: item[()] if isinstance(item, h5py.Dataset) else 0}))
        return found
    if file[:6] == b"\x93NUMPY":
        return np.load(io.BytesIO(file))
    return re.sub(r'"(date_saved|shared_object_id)": ("[^"]*"|\d+)', "", file.decode())


def agree(old: Any, new: Any) -> bool:
    """Whether two contents are the same but for rounding."""
    if isinstance(old, dict) and isinstance(new, dict):
        return list(old) == list(new) and all(agree(old[name], new[name]) for name in old)
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        # The biases of an attention's keys have no gradient but rounding, of which Adam makes steps.
        return kept_arrays({"": new}, {"": old}, absolute=1e-4)[""] is old
    return bool(old == new)


def write_archive(path: Path, files: dict[str, bytes], numbers: dict[str, Any]) -> None:
    """Files, and arrays as numbers.npz, in one archive, which stays where it says the same."""
    target, packed = io.BytesIO(), io.BytesIO()
    np.savez(packed, **numbers)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as golden:
        for name, data in {**files, "numbers.npz": packed.getvalue()}.items():
            golden.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
    write_bytes(path, target.getvalue(), lambda old, new: agree(contents(old), contents(new)))


def main() -> None:
    import keras

    register(keras)
    numbers: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in {**MODELS, "lambda": LAMBDA, "lora": LORA}.items():
            keras.utils.clear_session()
            keras.utils.set_random_seed(1)
            model, x, y = make(keras)
            settings: Any = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}
            if model.compiled:
                model.fit(x, y, **settings)
            path = Path(folder) / f"{name}.keras"
            model.save(path)
            files[path.name] = repacked(path)
            for number, output in enumerate(keras.tree.flatten(model.predict(x, verbose=0))):
                numbers[f"{name}.{number}"] = output
            if name == "functional":
                model.save_weights(Path(folder) / "functional.weights.h5")
                files["functional.weights.h5"] = (Path(folder) / "functional.weights.h5").read_bytes()
            if model.compiled and name != "lora":
                model = keras.models.load_model(path)
                model.fit(x, y, **settings)
                for number, output in enumerate(keras.tree.flatten(model.predict(x, verbose=0))):
                    numbers[f"{name}.after.{number}"] = output
    write_archive(GOLDEN, files, numbers)


if __name__ == "__main__":
    main()
