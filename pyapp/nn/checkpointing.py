"""Recomputing the blocks of a model to save memory: the switch of gradient checkpointing for whole models."""

from __future__ import annotations

from typing import Any

from ..engine.recompute import checkpoint
from ..errors import ArgumentError
from .layers.containers import ModuleList
from .module import Module


class Recomputed:
    """The forward of a block, as an attribute of the block: a checkpoint. What processes divide is gathered inside it,
    for each of its two runs (fully_sharded.py).
    """

    def __init__(self, block: Module) -> None:
        self.block = block

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return checkpoint(self._run, *args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        block, unit = self.block, vars(self.block).get("_sharded_unit")
        if unit is None:
            return type(block).forward(block, *args, **kwargs)
        return unit.call(block, type(block).forward, (block, *args), kwargs)


def blocks_of(model: Module) -> list[Module]:
    """The blocks of a model, one after another: the elements of its outermost lists of modules that have parts."""
    found: list[Module] = []
    lists: list[str] = []
    for path, module in model.named_modules():
        if type(module) is not ModuleList:
            continue
        if any(path.startswith(f"{outer}.") for outer in lists) or not all(child._modules for child in module):
            continue
        lists.append(path)
        found += module
    return found


def checkpoint_blocks(model: Module, enabled: bool = True) -> int:
    """Makes every block of a model (the layers of a transformer) a checkpoint, or none with `enabled` False: backward
    computes a block's intermediate values again, with the same random numbers, instead of keeping them. A training
    needs the memory of one block and of the blocks' inputs, and about a third more time. Returns the number of blocks;
    ArgumentError for a model without a list of blocks. Without gradients nothing changes.
    """
    blocks = blocks_of(model)
    if not blocks:
        raise ArgumentError(f"checkpoint_blocks: {type(model).__name__} has no ModuleList of blocks")
    for block in blocks:
        if enabled:
            object.__setattr__(block, "forward", Recomputed(block))
        else:
            block.__dict__.pop("forward", None)
    return len(blocks)


__all__ = ["checkpoint_blocks"]
