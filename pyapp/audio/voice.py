"""What voices of several networks have in common."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Device, Tensor, ops
from pyapp.errors import OptionError

from .windows import checked


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

    def recorded(self, samples: Any) -> Tensor:
        """Samples (N,) of a recording at the model's rate → float32 (1, 1, N). OptionError for other shapes, for none,
        and for NaN and infinity.
        """
        found = checked(samples)
        if not len(found):
            raise OptionError("the recording has no samples", where="samples")
        return ops.from_numpy(found).reshape(1, 1, -1).to(self.device)
