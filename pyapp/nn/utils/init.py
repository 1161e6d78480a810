"""Modules whose parameters are not initialised, by torch.nn.utils.init's names."""

from __future__ import annotations

from typing import Any

from ..module import Module
from ..parameter import skip_initialization

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` with uninitialised memory in its parameters and buffers, on `device` if that is
    among the keywords: for what is filled by other means.
    """
    with skip_initialization():
        made = module_cls(*args, **{name: value for name, value in kwargs.items() if name != "device"})
    return made.to_empty(device=kwargs.get("device") or "cpu")
