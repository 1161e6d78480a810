"""The ops of cases_image.py, cases_signal.py, cases_list.py, cases_ported.py and cases_linalg.py against the values and
gradients of torch, in the layouts of test_ops.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import cases_image, cases_linalg, cases_list, cases_ported, cases_signal
from .cases import LAYOUTS
from .test_ops import check

FILES = ("image", "signal", "list", "ported", "linalg")
GOLDEN = {name: np.load(Path(__file__).with_name(f"golden_{name}.npz")) for name in FILES}
CASES = [
    *(("image", *case) for case in cases_image.CASES),
    *(("signal", *case) for case in cases_signal.CASES),
    *(("list", *case) for case in cases_list.CASES),
    *(("ported", *case) for case in cases_ported.CASES),
    *(("linalg", *case) for case in cases_linalg.CASES),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("file", "name", "function", "specs"), CASES, ids=[case[1] for case in CASES])
def test_op(file: str, name: str, function: Any, specs: list[Any], layout: str) -> None:
    check(GOLDEN[file], name, function, specs, layout)
