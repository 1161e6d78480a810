"""The embedded speech model: a grammar of sentences, voices that speak them, and the training of a small Whisper.

Names are imported on first use: the grammar needs no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .training import SpeechSettings, train_speech

__all__ = ["SpeechSettings", "train_speech"]

_MODULES = {"SpeechSettings": "training", "train_speech": "training"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
