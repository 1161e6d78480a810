"""What torch.utils has that makes sense here: `benchmark`, `data`, `checkpoint`, `dlpack`, `flop_counter`,
`tensorboard` and `_pytree`."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = ("_pytree", "benchmark", "checkpoint", "data", "dlpack", "flop_counter", "tensorboard")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
