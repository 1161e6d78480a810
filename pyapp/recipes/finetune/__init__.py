"""Fine-tuning on the user's files: of language models, with an adapter or as a whole, of encoders, of classifiers of
pictures and sounds, and of Whisper.
"""

from .recordings import RecordingSettings
from .sounds import SoundSettings
from .starting import finetune
from .training import FinetuneSettings
from .whole import WholeSettings

__all__ = ["FinetuneSettings", "RecordingSettings", "SoundSettings", "WholeSettings", "finetune"]
