"""Whisper: speech to text."""

from .model import Whisper
from .transformer import Config

__all__ = ["Config", "Whisper"]
