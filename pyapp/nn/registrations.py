"""Hooks of all modules that see what becomes a member of a module: torch.nn.modules.module registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Hook = Callable[..., Any]


class RegistrationHooks:
    """By the kind of member."""

    def __init__(self) -> None:
        self.parameter: list[Hook] = []
        self.buffer: list[Hook] = []
        self.module: list[Hook] = []

    def run(self, kind: str, module: Any, name: str, value: Any) -> Any:
        """The member, or what a hook gave for it."""
        for hook in getattr(self, kind):
            changed = hook(module, name, value)
            value = value if changed is None else changed
        return value


REGISTRATIONS = RegistrationHooks()
