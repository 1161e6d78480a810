"""Writes golden_printed.json: the texts of printed.py, by Keras 3 on its torch backend.

COLUMNS=80 KERAS_BACKEND=torch python -m tests.keras.make_golden_printed (needs keras and torch)
"""

from __future__ import annotations

import json
import os
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden_printed.json")


def main() -> None:
    os.environ |= {"KERAS_BACKEND": "torch", "COLUMNS": "80"}
    import keras

    from tests.keras.printed import PRINTED

    golden = {}
    for name, function in PRINTED.items():
        keras.utils.clear_session()
        golden[name] = function(keras)
    GOLDEN.write_text(json.dumps(golden, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
