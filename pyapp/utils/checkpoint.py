"""Recomputing to save memory, by torch.utils.checkpoint's names."""

from ..engine.recompute import CheckpointError, checkpoint, checkpoint_sequential, noop_context_fn

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn"]
