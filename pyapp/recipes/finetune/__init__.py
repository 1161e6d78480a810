"""Fine-tuning on the user's files: of language models, with an adapter or as a whole, of encoders, of classifiers of
pictures and sounds, and of models that write what is said.
"""

from .characters import CharacterSettings
from .recordings import RecordingSettings
from .sounds import SoundSettings
from .starting import finetune
from .training import FinetuneSettings
from .whole import WholeSettings

__all__ = ["CharacterSettings", "FinetuneSettings", "RecordingSettings", "SoundSettings", "WholeSettings", "finetune"]
