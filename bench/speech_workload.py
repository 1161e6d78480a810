"""Whisper on our side: the same natively and inside Pyodide (pages/pyapp.worker.mjs imports this file)."""

from __future__ import annotations

import time
from typing import Any

import pyapp
from pyapp import Generator, no_grad, ops
from pyapp.audio import log_mel_spectrogram
from pyapp.audio.decoding import WindowDecoder
from pyapp.audio.options import TranscribeOptions
from pyapp.engine import quant
from pyapp.events import Cancel
from pyapp.models.whisper import Config, Whisper
from pyapp.models.whisper.weights import slots
from pyapp.nn import Parameter
from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer

TINY = Config(80, 1500, 384, 6, 4, 51865, 448, 384, 6, 4)  # openai/whisper-tiny
WINDOW = 30  # seconds
TOKENS = 64  # of a decoding sample
WINDOW_TOKENS = 128


def build(kind: str) -> Whisper:
    """A random model of whisper-tiny's shape, in f32 or with every matrix in q8_0."""
    model = Whisper.empty(TINY)
    for name, owner, attribute, shape in slots(model):
        generator = Generator(len(name))
        value = pyapp.randn(*shape, generator=generator) * (0.02 if len(shape) == 1 else shape[-1] ** -0.5)
        packed = kind == "q8_0" and len(shape) == 2 and attribute == "weight"
        setattr(owner, attribute, Parameter(quant.quantize(value) if packed else value, requires_grad=False))
    return model


class SpeechWorkload:
    """One model, and its figures: seconds for a window of 30 s (mel, encoder; window: all of it with 128 tokens, each
    chosen by Whisper's rules), tokens per second (decoder).
    """

    def __init__(self, kind: str, device: str = "cpu") -> None:
        self.model = build(kind).to(device)
        self.sound = pyapp.randn(16_000 * WINDOW, generator=Generator(1)).numpy() * 0.1
        pieces = [*map(bytes, zip(range(256))), *(b"%d" % number for number in range(50257 - 256))]
        self.tokenizer = WhisperTokenizer.from_pieces(pieces, TINY.n_vocab, multilingual=True)
        self.options = TranscribeOptions(sample_len=WINDOW_TOKENS, suppress_tokens="", without_timestamps=False)
        self.mel: Any = None
        self.audio: Any = None
        self.figure("encoder")  # the decoder needs what it gives

    def figure(self, name: str) -> float:
        with no_grad():
            return float(getattr(self, f"_{name}")())

    def _mel(self) -> float:
        start = time.perf_counter()
        self.mel = log_mel_spectrogram(self.sound)
        return time.perf_counter() - start

    def _encoder(self) -> float:
        if self.mel is None:
            self._mel()
        mel = ops.from_numpy(self.mel[None, :, : 2 * TINY.n_audio_ctx].copy()).to(self.model.device)
        start = time.perf_counter()
        self.audio = self.model.encode(mel)
        return time.perf_counter() - start

    def _decoder(self) -> float:
        """Greedy tokens per second after a prompt of 4."""
        with self.model.new_session(self.audio) as session:
            logits = session.feed([50258, 50259, 50359, 50363])[-1:]
            logits = session.step([int(logits.argmax())])  # makes the graph
            start = time.perf_counter()
            for _ in range(TOKENS):
                logits = session.step([int(logits.argmax())])
            return TOKENS / (time.perf_counter() - start)

    def _window(self) -> float:
        """From samples to 128 tokens. A random model hardly ever ends by itself."""
        decoder = WindowDecoder(self.model, self.tokenizer, self.options, "en", lambda: 0.0)
        start = time.perf_counter()
        self._mel()
        self._encoder()
        for tokens in decoder.decode(self.audio, [], 0.0, Cancel()):  # noqa: B007
            pass
        assert len(tokens) == WINDOW_TOKENS, tokens
        return time.perf_counter() - start
