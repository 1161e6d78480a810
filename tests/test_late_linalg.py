"""NumPy's linear algebra is imported on first use; each case runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.native_only

BEGIN = """
import sys
from pyapp.late_linalg import LateLinalg, defer_linalg
defer_linalg()
import numpy as np
late = lambda: "numpy.linalg._umath_linalg" not in sys.modules
assert late(), "numpy was imported with its linear algebra"
"""
USES = [
    "assert np.linalg.inv(2 * np.eye(2))[0, 0] == 0.5",
    "assert np.allclose(np.roots([1, -3, 2]), [2, 1])",
    "assert np.allclose(np.polyfit([0, 1, 2], [1, 3, 5], 1), [2, 1])",
    "assert (np.matrix([[1, 1], [0, 1]]) ** 3)[0, 1] == 3",
    "from numpy.linalg import LinAlgError\nassert issubclass(LinAlgError, ValueError)",
    "import numpy.linalg\nassert numpy.linalg.svd(np.eye(2)).S.sum() == 2",
    "assert np.linalg.inv(np.eye(2)).sum() == 2\nimport numpy.linalg._linalg as real\nassert real.inv is np.linalg.inv",
    "try:\n    np.linalg.inv(np.zeros((2, 2)))\nexcept np.linalg.LinAlgError:\n    pass",
    "import numpy.linalg._linalg as real\nassert real.inv is np.linalg.inv and real.__spec__.has_location",
    "from numpy.linalg._umath_linalg import det\nassert det(np.eye(2)) == 1 and np.linalg._umath_linalg.det is det",
    "from numpy.linalg import _linalg, inv\nassert _linalg.inv is np.linalg.inv and inv(np.eye(2)).sum() == 2",
    "from numpy.testing import assert_array_equal\nassert_array_equal(np.linalg.inv(np.eye(2)), np.eye(2))",
    "import pickle\nassert pickle.loads(pickle.dumps(np.linalg.LinAlgError)) is np.linalg.LinAlgError",
    "import pyapp\nassert pyapp.linalg.inv(pyapp.eye(2) * 2)[0, 0].item() == 0.5",
]


# Each case is a fork of one process that has imported NumPy without its linear algebra.
EACH = """
import os, traceback
failed = []
for use in USES:
    process = os.fork()
    if process == 0:
        try:
            exec(use, {"np": np, "sys": sys})
            assert not late() and not isinstance(sys.modules["numpy.linalg"], LateLinalg)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(process, 0)[1]:
        failed.append(use)
assert not failed, failed
"""


def test_it_is_there_when_it_is_used() -> None:
    code = f"{BEGIN}USES = {USES!r}{EACH}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_is_imported_stays() -> None:
    code = "import sys, numpy\nfrom pyapp.late_linalg import defer_linalg\nold = sys.modules['numpy.linalg']\n"
    code += "defer_linalg()\nassert sys.modules['numpy.linalg'] is old"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
