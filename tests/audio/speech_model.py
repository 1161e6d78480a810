"""Small Whisper models that behave like speech models on noise: for the comparisons with openai-whisper.

Random weights alone repeat themselves. Here the output embedding is shaped: times that come soon are likelier than late
ones, the end and silence have odds of their own, words are likelier than single bytes. Everything is drawn from NumPy's
frozen RandomState and from the word list below, so that nothing but results needs to be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pyapp.models.whisper import Config
from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer
from tests.models.whisper_model import shapes

WORDS = """the of and to in is you that it he was for on are as with his they I at be this have from or one had by word
but not what all were we when your can said there use an each which she do how their if will up other about out many
then them these so some her would make like him into time has look two more write go see number no way could people my
than first water been call who oil its now find long down day did get come made may part über café naïve 音 日本 ♪ (
-- . , ? ! 's " ' : ; - ) and, the. so? yes! """.split()
# Bytes that are not ASCII letters only appear inside words.
CONTROL = 8
BIAS = 4.0


@lru_cache(maxsize=1)
def pieces() -> list[bytes]:
    """A vocabulary for byte-pair encoding by rank: all bytes, and every beginning of every word."""
    found = {bytes([value]): None for value in range(256)}
    for word in WORDS:
        for text in (word, " " + word):
            data = text.encode()
            found.update(dict.fromkeys(data[:length] for length in range(2, len(data) + 1)))
    return list(found)


@dataclass(frozen=True)
class Shape:
    """A model's size and how it speaks. `languages` is 99 or 100 for multilingual models."""

    name: str
    multilingual: bool = True
    languages: int = 99
    n_mels: int = 80
    state: int = 32
    heads: int = 2
    encoder_layers: int = 1
    decoder_layers: int = 2
    n_text_ctx: int = 40
    seed: int = 0
    spread: float = 3.0  # deviation of the logits
    slope: float = 0.003  # what a time loses for each 0.02 s
    time: float = 0.0
    end: float = 0.0
    silence: float = 0.0
    byte: float = -6.0
    vocabulary: tuple[bytes, ...] = ()  # in place of the small one
    language: float = -4.0
    gain: float = 2.0  # of the layers; more of it makes the text depend more on what was heard and said

    @property
    def n_vocab(self) -> int:
        return len(self.pieces()) + CONTROL + 1501 + self.languages

    def pieces(self) -> Sequence[bytes]:
        return self.vocabulary or pieces()

    def config(self) -> dict[str, int]:
        """The sizes by openai's names (ModelDimensions)."""
        return {
            "n_mels": self.n_mels, "n_audio_ctx": 1500, "n_audio_state": self.state, "n_audio_head": self.heads,
            "n_audio_layer": self.encoder_layers, "n_vocab": self.n_vocab, "n_text_ctx": self.n_text_ctx,
            "n_text_state": self.state, "n_text_head": self.heads, "n_text_layer": self.decoder_layers,
        }  # fmt: skip

    def tokenizer(self) -> WhisperTokenizer:
        return WhisperTokenizer.from_pieces(self.pieces(), self.n_vocab, multilingual=self.multilingual)

    def weights(self) -> dict[str, np.ndarray]:
        """float32 values by openai's names."""
        config = Config(**self.config())
        random = np.random.RandomState(self.seed)
        result: dict[str, np.ndarray] = {}
        for name, shape in shapes(config).items():
            value = random.standard_normal(shape)
            if len(shape) == 1:
                value = 0.2 * value + (1.0 if name.endswith("weight") else 0.0)
            elif "embedding" not in name:
                value *= self.gain / np.prod(shape[1:]) ** 0.5
            result[name] = value.astype(np.float32)
        embedding = result["decoder.token_embedding.weight"] * (self.spread / self.state**0.5)
        embedding[:, 0] = self.odds() / BIAS
        result["decoder.token_embedding.weight"] = embedding.astype(np.float32)
        bias = result["decoder.ln.bias"]
        bias[0] = BIAS  # the first channel of the state carries the odds
        return result

    def odds(self) -> np.ndarray:
        """What is added to the logit of each token, for any sound."""
        tokenizer = self.tokenizer()
        odds = np.zeros(self.n_vocab)
        odds[:256] = self.byte
        odds[tokenizer.eot] = self.end
        odds[tokenizer.sot : tokenizer.timestamp_begin] = self.byte
        odds[list(tokenizer.all_language_tokens)] = self.language
        odds[tokenizer.no_speech] = self.silence
        odds[tokenizer.timestamp_begin :] = self.time - self.slope * np.arange(1501)
        return odds


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """float32 (samples,) at 16 kHz: bursts of filtered noise and tones, with pauses of up to four seconds."""
    random = np.random.RandomState(seed)
    total = int(seconds * 16_000)
    result = np.zeros(total, np.float32)
    position = 0
    while position < total:
        length = random.randint(2_000, 40_000)
        time = np.arange(length) / 16_000
        tone = np.sin(2 * np.pi * random.uniform(100, 3000) * time) * random.uniform(0, 1)
        burst = (tone + random.standard_normal(length) * random.uniform(0, 0.5)) * np.hanning(length) * 0.3
        end = min(total, position + length)
        result[position:end] = burst[: end - position]
        position += length + random.choice([0, 1_600, 8_000, 64_000])
    return result
