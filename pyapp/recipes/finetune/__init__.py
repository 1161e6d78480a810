"""Fine-tuning on the user's files: of language models, with an adapter or as a whole, and of encoders."""

from .encoders import EncoderSettings, finetune_encoder
from .starting import finetune
from .training import FinetuneSettings, finetune_language_model

__all__ = ["EncoderSettings", "FinetuneSettings", "finetune", "finetune_encoder", "finetune_language_model"]
