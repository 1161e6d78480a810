"""Architectures, and the way from a name or file to a model that is ready to use."""

from .load import LoadedModel, LoadedSpeechModel, load_model, load_speech_model, load_tokenizer

__all__ = ["LoadedModel", "LoadedSpeechModel", "load_model", "load_speech_model", "load_tokenizer"]
