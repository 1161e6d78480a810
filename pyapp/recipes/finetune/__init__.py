"""Fine-tuning of language models on the user's texts and conversations, with an adapter or as a whole."""

from .training import FinetuneSettings, finetune

__all__ = ["FinetuneSettings", "finetune"]
