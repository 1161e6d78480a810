"""A field below a cell in which the reader draws with the mouse, a pen or a finger."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pyapp.engine.lazy import np

from .output import new_id, show

LARGEST = 64  # pixels of a side

_fields: weakref.WeakValueDictionary[str, Drawing] = weakref.WeakValueDictionary()
_newest: dict[str, Drawing] = {}  # keeps the fields alive that the page may show


class Drawing:
    """A field of size × size pixels. `pixels` is what was drawn, (size, size) float32 from 0 (paper) to 1 (ink).

    `then(pixels)` runs after each stroke; what it prints or returns is shown below the field.
    """

    def __init__(self, size: int = 28, then: Callable[[Any], Any] | None = None, label: str = "Draw here") -> None:
        if not 4 <= size <= LARGEST:
            raise ValueError(f"drawing: the size is 4 to {LARGEST} pixels, not {size}")
        self.size, self.then, self.label = size, then, label
        self._pixels: Any = None
        self.id = new_id()

    @property
    def pixels(self) -> Any:
        if self._pixels is None:
            self._pixels = np.zeros((self.size, self.size), np.float32)
        return self._pixels

    def show(self) -> None:
        """Shows the field below the cell that runs."""
        _fields[self.id] = _newest[self.id] = self
        while len(_newest) > 50:
            del _newest[next(iter(_newest))]
        text = f"[a field to draw in, {self.size} × {self.size} pixels]"
        show({"kind": "drawing", "id": self.id, "size": self.size, "label": self.label}, text)

    def draw(self, pixels: Sequence[float]) -> Any:
        """Puts size * size numbers from 0 to 1 in place of the drawing, and returns what `then` returns for it."""
        values = np.asarray(pixels, np.float32).reshape(-1)  # (size * size,)
        if values.size != self.size * self.size:
            raise ValueError(f"drawing: {self.size * self.size} pixels are expected, not {values.size}")
        self._pixels = np.clip(np.nan_to_num(values), 0, 1).reshape(self.size, self.size)
        return self.then(self._pixels) if self.then else None


def drawing(size: int = 28, then: Callable[[Any], Any] | None = None, label: str = "Draw here") -> Drawing:
    """Shows a field to draw in, of size × size pixels, and returns it; see Drawing."""
    field = Drawing(size, then, label)
    field.show()
    return field


def field_of(identity: str) -> Drawing | None:
    """The field of an output; None if Python was started anew since."""
    return _fields.get(identity)
