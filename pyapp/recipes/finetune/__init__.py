"""Fine-tuning on the user's files: of language models, with an adapter or as a whole, of encoders, and of classifiers
of pictures.
"""

from .encoders import finetune_encoder
from .pictures import finetune_pictures
from .starting import finetune
from .training import FinetuneSettings, finetune_language_model
from .whole import WholeSettings

__all__ = [
    "FinetuneSettings", "WholeSettings", "finetune", "finetune_encoder", "finetune_language_model",
    "finetune_pictures",
]  # fmt: skip
