"""python -m tests.pyodide [--yielding] [relaxed|simd] [pytest's arguments]: the tests inside Pyodide in headless
Chromium. --yielding: other programs go before it.
"""

import sys

from tests.pyodide.runner import main

sys.exit(main())
