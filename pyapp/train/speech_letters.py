"""What teaches the encoder to hear: it spells, with connectionist temporal classification (Graves et al. 2006).

A decoder that reads along must find out by itself where to listen, which takes it very long. Spelling needs nothing but
order, is learned soon, and what the decoder then listens to is speech already. (Watanabe et al. 2017, "Hybrid
CTC/attention architecture for end-to-end speech recognition".) The head that spells is not part of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops.random import Generator
from pyapp.models.whisper import Whisper
from pyapp.nn import Linear, Module
from pyapp.nn.ctc import ctc_loss
from pyapp.nn.layers import initialize_normal

ALPHABET = " abcdefghijklmnopqrstuvwxyz'"
BLANK = 0  # letters count from 1


def spell(text: str) -> list[int]:
    """The letters of a text, without marks."""
    return [ALPHABET.index(letter) + 1 for letter in text.lower() if letter in ALPHABET]


class Speller(Module):
    """A Whisper model and a head on its encoder."""

    def __init__(self, whisper: Whisper, generator: Generator) -> None:
        super().__init__()
        self.whisper = whisper
        self.head = Linear(whisper.config.n_audio_state, len(ALPHABET) + 1, bias=False)
        initialize_normal(self.head.weight, 1 / sqrt(whisper.config.n_audio_state), generator)

    def forward(self, mel: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(logits of the decoder (B, T, vocabulary), log-probabilities of letters (B, positions, letters))."""
        audio = self.whisper.encode(mel)  # (B, positions, state)
        return self.whisper.decode(inputs, audio), ops.log_softmax(self.head(audio), -1)


def spelling_loss(scores: Tensor, letters: Sequence[Sequence[int]], heard: Sequence[int]) -> Tensor:
    """Nats per letter: scores (B, positions, letters), what each row spells, in how many of its positions."""
    lengths = np.array([len(row) for row in letters])
    flat = ops.from_numpy(np.array([letter for row in letters for letter in row], np.int32))
    total = ctc_loss(scores.transpose(0, 1), flat, np.array(heard), lengths, BLANK, reduction="sum", zero_infinity=True)
    return total / max(1, int(lengths.sum()))
