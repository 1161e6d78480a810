"""One module on many devices, of which there is one here."""

from __future__ import annotations

from typing import Any

from .module import Module


class DataParallel(Module):
    """Calls a module; its state has the names that it has in torch, "module.…"."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[int] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


__all__ = ["DataParallel"]
