"""Writes golden.json: what Keras 3 on its torch backend gives for the scripts.

KERAS_BACKEND=torch python -m tests.keras.make_golden (needs keras and torch)
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).with_name("golden.json")


def plain(value: Any) -> Any:
    """Arrays and numbers as JSON, rounded to seven digits."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return float(f"{float(value):.7g}")


def main() -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    from tests.keras.scripts import SCRIPTS

    golden = {}
    for name, script in SCRIPTS.items():
        keras.utils.clear_session()
        golden[name] = plain(script(keras))
    GOLDEN.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(len(golden), "scripts,", GOLDEN.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
