"""Writes golden_user_errors.json: torch's class of error for each case of cases_user_errors.py; needs torch.

python -m tests.engine.make_golden_user_errors
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cases_user_errors import CASES

GOLDEN = Path(__file__).with_name("golden_user_errors.json")


def error_of(package: Any, call: Callable[[Any], object]) -> Exception | None:
    """The class of the error that the call raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(package)
        except Exception as error:
            return error
    return None


def main() -> None:
    import torch

    found = {name: type(error_of(torch, call)).__name__ for name, call in CASES}
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
