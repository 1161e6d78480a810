"""Checkpoints of divided states, by torch.distributed.checkpoint's names (docs/distributed.md)."""

from . import state_dict
from .files import async_save, load, save

__all__ = ["async_save", "load", "save", "state_dict"]
