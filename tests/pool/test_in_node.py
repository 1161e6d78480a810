"""The page's pool on node's worker threads: real helpers, one that dies, and errors of WebAssembly."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pyapp.engine.launch import KERNELS

pytestmark = pytest.mark.native_only

HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parents[1] / "dist" / "pool_simd.wasm"  # node 20 does not compile the relaxed build


def test_helpers_work_die_and_fail() -> None:
    if not PROGRAM.is_file():
        pytest.skip("there is no site: run `make site`")
    command = ["node", "--no-warnings", str(HERE / "in_node.mjs"), str(PROGRAM), str(KERNELS["fill_f32"].index)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("right"), "values are wrong or missing"
    assert "out of bounds" in found.pop("why")
    assert found.pop("wrongRecord") == [13, 13]
    assert found == {"trapHere": 255, "after": 255, "helpers": 0, "trapShared": 255, "afterwards": 255}
