"""Writes golden_applications.zip: what Keras 3 makes of keras.applications, and files in the form of Keras 1 and 2.

KERAS_BACKEND=torch python -m tests.keras.make_golden_applications (needs keras, torch and h5py)
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.keras.application_cases import CASES, NUMBERS, PREDICTED, described, filled, nested, picture

GOLDEN = Path(__file__).with_name("golden_applications.zip")


def _nasnet(**settings: Any) -> Any:
    """NASNetMobile, which Keras 3.15 refuses on torch although its layers run there."""
    from keras.src.applications.nasnet import NASNet

    return NASNet(
        penultimate_filters=1056, num_blocks=4, stem_block_filters=32, skip_reduction=False, filter_multiplier=2,
        default_size=224, name="nasnet_mobile", **settings,
    )  # fmt: skip


def main() -> None:
    import h5py
    import keras
    from keras.src.legacy.saving.legacy_h5_format import save_weights_to_hdf5_group

    found = {}
    for name, (kind, settings) in CASES.items():
        keras.utils.clear_session()
        model = (_nasnet if kind == "NASNetMobile" else getattr(keras.applications, kind))(weights=None, **settings)
        found[name] = described(model)
        if name in PREDICTED:
            filled(model)
            found[name]["outputs"] = model.predict(picture(), verbose=0).ravel().tolist()
    keras.utils.clear_session()
    model = nested(keras)
    filled(model)
    found["nested"] = {"outputs": model.predict(NUMBERS, verbose=0).ravel().tolist()}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(GOLDEN, "w", zipfile.ZIP_DEFLATED) as golden:
        weights, whole = Path(folder) / "weights.h5", Path(folder) / "whole.h5"
        with h5py.File(weights, "w") as file:
            save_weights_to_hdf5_group(file, model)
        model.save(whole)
        for path in (weights, whole):
            golden.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
        text = json.dumps(found, indent=1).encode()
        golden.writestr(zipfile.ZipInfo("golden.json"), text, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
