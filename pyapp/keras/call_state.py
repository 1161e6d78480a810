"""What the calls of layers that are under way in a thread know of one another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..engine.thread_local import ThreadLocal


class State(ThreadLocal):
    """The calls that are under way in this thread."""

    training: bool | None = None  # what calls without an argument `training` inherit
    inside: bool = False  # whether a layer is being called
    losses: bool = False  # whether a call has added a loss
    symbolic: tuple[Any, Any] = (None, None)  # the layer that is called with symbolic tensors, and its arguments
    scope: tuple[Any, ...] = ()  # the layers that are being built or called, the outermost first
    remat: Any = None  # the RematScope in which layers are made
    room: tuple[int, str] | None = None  # how many bytes of weights a file may still ask for, and the file


STATE = State()


@contextmanager
def training_mode(training: bool | None) -> Iterator[None]:
    """Calls inside that are given no `training` inherit this one."""
    before, STATE.training = STATE.training, training
    try:
        yield
    finally:
        STATE.training = before


@contextmanager
def memory_limit(nbytes: int, where: str) -> Iterator[None]:
    """FileFormatError, inside, for weights that are larger than this in all: a file asks for them."""
    before, STATE.room = STATE.room, (nbytes, where)
    try:
        yield
    finally:
        STATE.room = before


def inherited_training() -> bool | None:
    """The `training` of the calls that are under way; None outside of them."""
    return STATE.training


@contextmanager
def weights_of(layer: Any) -> Iterator[None]:
    """Weights that are made inside have the name of this layer in their paths, before those of the layers inside."""
    before = STATE.scope
    if not (before and before[-1] is layer):
        STATE.scope = (*before, layer)
    try:
        yield
    finally:
        STATE.scope = before
