"""Training: the story grammar, the tokenizer's training, the training loop.

Names are looked up when they are asked for: the grammar alone needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyapp.train.stories import held_out_stories, story
    from pyapp.train.story_training import StorySettings, train_story

__all__ = ["StorySettings", "held_out_stories", "story", "train_story"]

_MODULES = {
    "StorySettings": "story_training",
    "held_out_stories": "stories",
    "story": "stories",
    "train_story": "story_training",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return getattr(import_module(f"pyapp.train.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'pyapp.train' has no attribute {name!r}")
