"""The embedded story model: a grammar that writes its texts, its tokenizer, and its training.

Names are imported on first use: the grammar needs no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .grammar.stories import held_out_stories, story
    from .training import StorySettings, train_story

__all__ = ["StorySettings", "held_out_stories", "story", "train_story"]

_MODULES = {
    "StorySettings": "training",
    "held_out_stories": "grammar.stories",
    "story": "grammar.stories",
    "train_story": "training",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
