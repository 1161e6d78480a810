"""What voices of several networks have in common."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Device


class Voice:
    """Base of a voice: `model` is the network that reads texts."""

    model: Any

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.model.device
        return found

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        found: int = self.model.sample_rate
        return found
