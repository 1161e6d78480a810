"""Architectures, and loading models by name or from files."""

from .load import LoadedModel, load_model, load_tokenizer
from .loading.speech import LoadedSpeechModel, load_speech_model

__all__ = ["LoadedModel", "LoadedSpeechModel", "load_model", "load_speech_model", "load_tokenizer"]
