"""Fine-tuning on the user's files: of language models, with an adapter or as a whole, of encoders, of classifiers of
pictures, and of Whisper.
"""

from .encoders import finetune_encoder
from .pictures import finetune_pictures
from .recordings import RecordingSettings, finetune_whisper
from .starting import finetune
from .training import FinetuneSettings, finetune_language_model
from .whole import WholeSettings

__all__ = [
    "FinetuneSettings", "RecordingSettings", "WholeSettings", "finetune", "finetune_encoder",
    "finetune_language_model", "finetune_pictures", "finetune_whisper",
]  # fmt: skip
