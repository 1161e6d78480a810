"""Training: the grammars of stories and of speech, the tokenizers' training, the training loop.

Names are looked up when they are asked for: the grammar alone needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyapp.train.speech_training import SpeechSettings, train_speech
    from pyapp.train.stories import held_out_stories, story
    from pyapp.train.story_training import StorySettings, train_story

__all__ = ["SpeechSettings", "StorySettings", "held_out_stories", "story", "train_speech", "train_story"]

_MODULES = {
    "SpeechSettings": "speech_training",
    "StorySettings": "story_training",
    "held_out_stories": "stories",
    "story": "stories",
    "train_speech": "speech_training",
    "train_story": "story_training",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return getattr(import_module(f"pyapp.train.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'pyapp.train' has no attribute {name!r}")
