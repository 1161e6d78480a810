"""The Whisper model: encoder, decoder, and decoding sessions over a window of audio."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

from pyapp.engine import Device, Tensor, no_grad
from pyapp.nn import Module
from pyapp.nn.init import normal_
from pyapp.nn.parameter import skip_initialization

from .session import DecoderSession, SessionPool
from .transformer import KERNEL, Config, Decoder, Encoder


class Whisper(Module):
    """The model. `alignment_heads` are the (layer, head) whose attention follows the audio in time, for word times;
    None: all heads of the upper half of the decoder. `guess_limits` is what generation_config.json says under that
    name, for pyapp.audio.confidence.
    """

    def __init__(self, config: Config, initialize: bool = True, generator: Any = None) -> None:
        super().__init__()
        self.config = config
        self.alignment_heads: list[tuple[int, int]] | None = None
        self.guess_limits: Any = None
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self._pool = SessionPool()
        if initialize:
            self.initialize(generator)

    @classmethod
    def empty(cls, config: Config) -> Whisper:
        """A model with empty parameters, to be replaced by the caller."""
        with skip_initialization():
            return cls(config, initialize=False)

    def initialize(self, generator: Any = None) -> None:
        """Normal with deviation 0.02, less for projections that add to the residual stream; convolutions by their
        fan-in.
        """
        layers = {"encoder": self.config.n_audio_layer, "decoder": self.config.n_text_layer}
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                normal_(parameter, 0.0, 0.02 / sqrt(2 * layers[name.split(".")[0]]), generator)
            elif parameter.ndim == 3:
                normal_(parameter, 0.0, 1 / sqrt(parameter.shape[1] * KERNEL), generator)
            elif parameter.ndim == 2:
                normal_(parameter, 0.0, 0.02, generator)
            elif name.endswith("bias"):
                with no_grad():
                    parameter.zero_()

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.decoder.device

    def encode(self, mel: Tensor) -> Tensor:
        """mel (B, n_mels, 2 t) float32 → audio (B, t, state), t at most n_audio_ctx."""
        return self.encoder(mel)

    def decode(self, tokens: Tensor, audio: Tensor) -> Tensor:
        """tokens (B, T) integers, audio (B, S, state) → logits (B, T, V)."""
        return self.decoder(tokens, audio)

    def forward(self, mel: Tensor, tokens: Tensor) -> Tensor:
        """mel (B, n_mels, 2 t), tokens (B, T) integers → logits (B, T, V)."""
        return self.decode(tokens, self.encode(mel))

    # -- with caches

    def new_session(self, audio: Tensor, rows: int = 1, eager: bool = False) -> DecoderSession:
        """A new session of `rows` hypotheses over one window `audio` (S, state) or (1, S, state)."""
        return self._pool.session(self.decoder, audio, rows, eager)

    def cross_attention(self, tokens: Sequence[int], audio: Tensor) -> tuple[Any, Any]:
        """The attention of the heads to the audio while `tokens` (T) are read: float32 logits (T, V) and scores
        (layers, heads, T, S) before the softmax, as NumPy arrays.
        """
        layers, heads = self.config.n_text_layer, self.config.n_text_head
        with self.new_session(audio) as session:
            every = [(layer, head) for layer in range(layers) for head in range(heads)]
            logits, scores = session.watch(tokens, every)
        return logits, scores.reshape(layers, heads, *scores.shape[1:])
