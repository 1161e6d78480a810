"""Signals, by torch.signal's names: their windows."""

from . import windows as windows

__all__ = ["windows"]
