"""Checkpoints of divided states, by torch.distributed.checkpoint's names (docs/distributed.md)."""

from . import state_dict
from .files import load, save

__all__ = ["load", "save", "state_dict"]
