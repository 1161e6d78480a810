"""Parts of a module that can be imported as `os.path` can, though they are not files beside it:
`from pyapp.keras.optimizers.schedules import CosineDecay`.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["importable"]


def importable(module: str, **parts: Any) -> None:
    """Makes attributes of a module importable under its name and theirs."""
    for name, part in parts.items():
        sys.modules[f"{module}.{name}"] = part
