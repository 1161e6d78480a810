"""The state of the random numbers, by torch.random's names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .engine.dtype import uint8
from .engine.ops.random import default_generator, initial_seed, manual_seed, seed
from .engine.tensor import Tensor
from .engine.user_errors import describe


def get_rng_state() -> Tensor:
    """The default generator's seed and offset: uint8 (16,)."""
    state = b"".join(part.to_bytes(8, "little") for part in default_generator.get_state())
    return Tensor.from_buffer(state, (len(state),), uint8)


def set_rng_state(new_state: Tensor) -> None:
    """Restores a state of get_rng_state. TypeError for anything else, torch's states included."""
    if not isinstance(new_state, Tensor) or new_state.dtype is not uint8 or new_state.shape != (16,):
        raise TypeError(f"set_rng_state: takes what get_rng_state gave, uint8[16], not {describe(new_state)}")
    data = bytes(new_state.contiguous().data_view())
    default_generator.set_state((int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")))


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **_: Any) -> Iterator[None]:
    """A context after which the default generator has its former state."""
    state = default_generator.get_state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_state(state)


__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]
__top_level__ = ["get_rng_state", "set_rng_state"]
