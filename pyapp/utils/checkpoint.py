"""Recomputing to save memory, by torch.utils.checkpoint's names."""

from ..engine.recompute import checkpoint, checkpoint_sequential

__all__ = ["checkpoint", "checkpoint_sequential"]
