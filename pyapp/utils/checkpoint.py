"""Recomputing to save memory, by torch.utils.checkpoint's names."""

from ..engine.recompute import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    get_device_states,
    noop_context_fn,
    set_device_states,
)

__all__ = [
    "CheckpointError", "checkpoint", "checkpoint_sequential", "get_device_states", "noop_context_fn",
    "set_device_states",
]  # fmt: skip
