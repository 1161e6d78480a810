"""The embedded reader: texts, the fonts that print them, paper and its defects, and the training of a CTC recogniser.

Names are imported on first use: the texts need no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import late_names

if TYPE_CHECKING:
    from .training import ReaderSettings, train_reader

__all__ = ["ReaderSettings", "train_reader"]

__getattr__ = late_names(
    __name__,
    {
        "training": "ReaderSettings train_reader",
    },
)
