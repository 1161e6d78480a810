"""The ops of cases_image.py, cases_signal.py and cases_list.py against torch's values and gradients, in test_ops.py's
layouts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import cases_image, cases_list, cases_signal
from .cases import LAYOUTS
from .test_ops import check

GOLDEN = {name: np.load(Path(__file__).with_name(f"golden_{name}.npz")) for name in ("image", "signal", "list")}
CASES = [
    *(("image", *case) for case in cases_image.CASES),
    *(("signal", *case) for case in cases_signal.CASES),
    *(("list", *case) for case in cases_list.CASES),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("file", "name", "function", "specs"), CASES, ids=[case[1] for case in CASES])
def test_op(file: str, name: str, function: Any, specs: list[Any], layout: str) -> None:
    check(GOLDEN[file], name, function, specs, layout)
