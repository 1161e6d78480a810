"""What loaders of models for a task return."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass


@dataclass(frozen=True)
class Loaded:
    """A model under its name. A loader adds what prepares its inputs, and the settings of its files."""

    name: str
    model: Any

    @property
    def config(self) -> dict[str, Any]:
        """The hyper-parameters as JSON values."""
        found: dict[str, Any] = self.model.config.to_dict()
        return found
