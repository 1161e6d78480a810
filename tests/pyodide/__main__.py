"""python -m tests.pyodide [relaxed|simd] [pytest's arguments]: the tests inside Pyodide in headless Chromium."""

import sys

from tests.pyodide.runner import main

sys.exit(main())
