"""Architectures, and loading models by name or from files."""

from .load import LoadedModel, LoadedSpeechModel, load_model, load_speech_model, load_tokenizer

__all__ = ["LoadedModel", "LoadedSpeechModel", "load_model", "load_speech_model", "load_tokenizer"]
