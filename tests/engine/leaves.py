"""Leaves that require gradients, for tests of autograd."""

from __future__ import annotations

from pyapp import Tensor, tensor


def leaf64(*values: float) -> Tensor:
    """A float64 vector that requires a gradient."""
    return tensor([float(v) for v in values], dtype="float64", requires_grad=True)
