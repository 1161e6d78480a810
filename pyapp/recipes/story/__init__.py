"""The embedded story model: a grammar that writes its texts, its tokenizer, and its training.

Names are imported on first use: the grammar needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import late_names

if TYPE_CHECKING:
    from .grammar.stories import held_out_stories, story
    from .training import StorySettings, train_story

__all__ = ["StorySettings", "held_out_stories", "story", "train_story"]

__getattr__ = late_names(
    __name__,
    {
        "grammar.stories": "held_out_stories story",
        "training": "StorySettings train_story",
    },
)
