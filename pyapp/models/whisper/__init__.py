"""Whisper: speech to text."""

from .model import Config, Whisper

__all__ = ["Config", "Whisper"]
