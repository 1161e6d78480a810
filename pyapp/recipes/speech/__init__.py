"""The embedded speech model: a grammar of sentences, voices that speak them, and the training of a small Whisper.

Names are imported on first use: the grammar needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import late_names

if TYPE_CHECKING:
    from .training import SpeechSettings, train_speech

__all__ = ["SpeechSettings", "train_speech"]

__getattr__ = late_names(
    __name__,
    {
        "training": "SpeechSettings train_speech",
    },
)
