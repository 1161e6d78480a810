"""The common parts of language models that hear: Whisper's encoder (Radford et al. 2022, arXiv 2212.04356) reads
log-mel spectrograms, a projector makes vectors of the size of embeddings of what it heard, and these stand in the text
in place of tokens, as those of pictures do.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.user_errors import describe
from ..errors import ArgumentError
from .layers.containers import ModuleList
from .layers.convolution import Conv1d
from .layers.embedding import Embedding
from .layers.normalization import LayerNorm
from .module import Module
from .picture_text import PictureTextModel
from .sequence_to_sequence import EncoderLayer

WARM_UP = 64  # moments


class SpectrogramEncoder(Module):
    """Whisper's encoder: two convolutions, of which the second halves the frames, positions, and layers. `config` has
    d_model, num_mel_bins, max_source_positions, encoder_layers, encoder_attention_heads, encoder_ffn_dim and
    activation_function.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.d_model
        self.size = (config.num_mel_bins, 2 * config.max_source_positions)
        self.conv1 = Conv1d(config.num_mel_bins, width, 3, padding=1)
        self.conv2 = Conv1d(width, width, 3, 2, padding=1)
        self.embed_positions = Embedding(config.max_source_positions, width)
        self.layers = ModuleList(
            EncoderLayer(
                width, config.encoder_attention_heads, config.encoder_ffn_dim, config.activation_function,
                norm_first=True, key_bias=False,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip
        self.layer_norm = LayerNorm(width)

    def states(self, mel: Tensor) -> Tensor:
        """mel (B, bins, frames) float32 → the states (B, frames / 2, D) before the last norm. ArgumentError for
        another size.
        """
        if mel.ndim != 3 or tuple(mel.shape[1:]) != self.size:
            raise ArgumentError(f"spectrograms are (B, {self.size[0]}, {self.size[1]}), not {describe(mel)}")
        x = ops.gelu(self.conv2(ops.gelu(self.conv1(mel)))).transpose(1, 2)  # (B, T, D)
        x = x + self.embed_positions(ops.arange(x.shape[1], dtype="int32", device=x.device))
        for layer in self.layers:
            x = layer(x, None)
        return x

    def warm_up(self) -> None:
        """Runs a layer over some moments, so that the first recording starts sooner in a browser."""
        with no_grad():
            self.layers[0](
                ops.zeros(1, WARM_UP, self.embed_positions.embedding_dim, device=self.conv1.weight.device), None
            )

    def forward(self, mel: Tensor) -> Tensor:
        """mel (B, bins, frames) float32 → (B, frames / 2, D)."""
        return self.layer_norm(self.states(mel))


class SoundTextModel(PictureTextModel):
    """A language model that hears, as PictureTextModel: a recording is what a picture is there, and its stretches of
    the encoder's length, the last one filled with silence, are the tiles. `audio_tower` and `multi_modal_projector`
    hear.
    """

    sees = "audio"
    placeholder = part = "[AUDIO]"
    audio_tower: Any

    @property
    def tower(self) -> Module:
        found: Module = self.audio_tower
        return found

    @property
    def encoder(self) -> Module:
        """What hears, as models of speech name it."""
        return self.tower

    @property
    def picture_tokens(self) -> int:
        """How many vectors a stretch of a recording becomes."""
        raise NotImplementedError

    def transcription_prompt(self, sound: str, language: str | None) -> str:
        """The text after which the model writes what is said in a recording, for which `sound` stands in it, with the
        names of special tokens; `language`: the code of the one that is spoken, if it is known.
        """
        raise NotImplementedError
