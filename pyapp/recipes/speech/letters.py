"""A second loss trains the encoder: a head spells the text, with connectionist temporal classification (CTC, Graves et
al. 2006, https://doi.org/10.1145/1143844.1143891).

A decoder alone takes very long to learn where to attend. CTC needs only the order of the letters and is learned soon;
then the decoder attends to an encoder that already represents speech (Watanabe et al. 2017, "Hybrid CTC/attention
architecture for end-to-end speech recognition"). The head is not part of the exported model.
"""

from __future__ import annotations

from math import sqrt

from pyapp.engine import Tensor, ops
from pyapp.engine.ops.random import Generator
from pyapp.models.whisper import Whisper
from pyapp.nn import Linear, Module
from pyapp.nn.init import normal_

ALPHABET = " abcdefghijklmnopqrstuvwxyz'"


def spell(text: str) -> list[int]:
    """The letters of a text as numbers from 1 (0 is the blank), without punctuation."""
    return [ALPHABET.index(letter) + 1 for letter in text.lower() if letter in ALPHABET]


class Speller(Module):
    """A Whisper model and a head on its encoder."""

    def __init__(self, whisper: Whisper, generator: Generator) -> None:
        super().__init__()
        self.whisper = whisper
        self.head = Linear(whisper.config.n_audio_state, len(ALPHABET) + 1, bias=False)
        normal_(self.head.weight, 0.0, 1 / sqrt(whisper.config.n_audio_state), generator)

    def forward(self, mel: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(logits of the decoder (B, T, vocabulary), log-probabilities of letters (B, positions, letters))."""
        audio = self.whisper.encode(mel)  # (B, positions, state)
        return self.whisper.decode(inputs, audio), ops.log_softmax(self.head(audio), -1)
