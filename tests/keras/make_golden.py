"""Writes golden.json: what Keras 3 on its torch backend gives for the scripts, golden_ops.json: what its functions give
for the calls of ops_cases.py, and golden_layers.json: what its layers give for those of layer_cases.py.

KERAS_BACKEND=torch python -m tests.keras.make_golden [script ...] (needs keras and torch; all scripts by default)
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.goldens import write_json

GOLDEN = Path(__file__).with_name("golden.json")
GOLDEN_OPS = Path(__file__).with_name("golden_ops.json")
GOLDEN_LAYERS = Path(__file__).with_name("golden_layers.json")


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


def some(array: Any) -> Any:
    flat = array.reshape(-1)
    return plain(flat[:: flat.size // 40 + 1])


def described(value: Any) -> Any:
    """A tensor as [dtype, shape, elements], several as a list of them, anything else without a dtype. Of many elements
    about 40 are kept."""
    if isinstance(value, (list, tuple)):
        return [described(one) for one in value]
    if not hasattr(value, "detach"):
        return ["", list(np.shape(value)), some(np.asarray(value, "float64"))]
    array = np.asarray((value.float() if "bfloat16" in str(value.dtype) else value).detach().numpy(), "float64")
    return [str(value.dtype).split(".")[-1], list(array.shape), some(array)]


def main() -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    from tests.keras.layer_cases import CASES as LAYERS
    from tests.keras.ops_cases import CASES, run
    from tests.keras.scripts import SCRIPTS

    golden = json.loads(GOLDEN.read_text())
    for name in sys.argv[1:] or SCRIPTS:
        keras.utils.clear_session()
        golden[name] = plain(SCRIPTS[name](keras))
    write_json(GOLDEN, golden, separators=(",", ":"))
    calls = {case: described(run(case, keras.ops)) for case in CASES}
    write_json(GOLDEN_OPS, calls, separators=(",", ":"))
    print(len(calls), "calls,", GOLDEN_OPS.stat().st_size, "bytes")
    found = {case: described(give(keras)) for case, give in LAYERS.items()}
    write_json(GOLDEN_LAYERS, found, separators=(",", ":"))
    print(len(found), "cases of layers,", GOLDEN_LAYERS.stat().st_size, "bytes")
    print(len(golden), "scripts,", GOLDEN.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
