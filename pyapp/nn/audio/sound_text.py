"""The common parts of language models that hear: Whisper's encoder (Radford et al. 2022, arXiv 2212.04356) reads
log-mel spectrograms, a projector makes vectors of the size of embeddings of what it heard, and these stand in the text
in place of tokens, as those of pictures do.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..encoders.encoders import until, visible_keys
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..sequence_to_sequence.sequence_to_sequence import EncoderLayer
from ..vision_language.picture_text import ANY, PictureTextModel, Size

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

    def states(self, mel: Tensor, heard: Tensor | None = None) -> Tensor:
        """mel (B, bins, frames) float32 → the states (B, frames / 2, D) before the last norm. heard (B, frames / 2): 0
        for moments of padding, which the others do not attend to. ArgumentError for another size.
        """
        if mel.ndim != 3 or tuple(mel.shape[1:]) != self.size:
            raise ArgumentError(f"spectrograms are (B, {self.size[0]}, {self.size[1]}), not {describe(mel)}")
        x = ops.gelu(self.conv2(ops.gelu(self.conv1(mel)))).transpose(1, 2)  # (B, T, D)
        x = x + self.embed_positions(ops.arange(x.shape[1], dtype="int32", device=x.device))
        mask = visible_keys(heard)
        for layer in self.layers:
            x = layer(x, mask)
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


class MeanEncoder(SpectrogramEncoder):
    """Whisper's encoder, and the mean of each two of its states before the last norm."""

    def forward(self, mel: Tensor, heard: Tensor | None = None) -> Tensor:
        """mel (B, bins, frames) float32, heard (B, frames / 2) → (B, frames // 4, D)."""
        x = self.states(mel, heard)
        pairs = x.shape[1] // 2
        return self.layer_norm(x.narrow(1, 0, 2 * pairs).reshape(x.shape[0], pairs, 2, -1).mean(2))

    def heard(self, mel: Tensor, frames: Sequence[int] | None) -> Tensor | None:
        """Which moments (B, frames / 2) of stretches `forward` hears, of whose frames so many are sound."""
        return None if frames is None else until([*map(moments_in, frames)], mel.shape[2] // 2, mel.device)


def moments_in(frames: int) -> int:
    """The moments of `frames` frames: at least two, of which MeanEncoder makes one vector."""
    return max(2, (frames - 1) // 2 + 1)


class TwoLayerProjector(Module):
    """Two layers, linear_1 (inputs → inner) and linear_2 (inner → outputs), with an activation between them."""

    def __init__(self, inputs: int, inner: int, outputs: int, activation: str, bias: bool = True) -> None:
        super().__init__()
        self.linear_1 = Linear(inputs, inner, bias)
        self.linear_2 = Linear(inner, outputs, bias)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, inputs) → (B, T, outputs)."""
        return self.linear_2(self.activation(self.linear_1(x)))


class SoundTextModel(PictureTextModel):
    """A language model that hears, as PictureTextModel: a recording is what a picture is there, and its stretches of
    the encoder's length, the last one filled with silence, are the tiles. Its size is that of its spectrogram: (bins,
    frames) before it was filled. `audio_tower` and `multi_modal_projector` hear.
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
        """The fewest vectors that a recording becomes."""
        return self.tokens_in_stretch(1)

    def tokens_in_stretch(self, frames: int) -> int:
        """How many vectors a stretch becomes, of whose frames so many are sound."""
        raise NotImplementedError

    def stretches(self, frames: int) -> list[int]:
        """The frames of each stretch of a recording."""
        most = 2 * self.config.audio_config.max_source_positions
        return [min(most, frames - first) for first in range(0, max(1, frames), most)]

    def tokens_in(self, rows: int, columns: int, size: Size = ANY) -> int:
        return sum(map(self.tokens_in_stretch, self.stretches(size[1])))

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return self.part * self.tokens_in(rows, columns, size)

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        """pixel_values: spectrograms (B, bins, frames) of stretches, `frames`: how many of each one's are sound (None:
        all) → their vectors (B, T, D), of which arranged() takes those of sound.
        """
        raise NotImplementedError

    def arranged(self, x: Tensor, rows: int, columns: int, size: Size) -> Tensor:
        return x.flatten(0, 1).narrow(0, 0, self.tokens_in(rows, columns, size))  # only the last stretch has padding

    def vectors_of(self, pixel_values: Tensor, sizes: Sequence[Size] | None) -> Tensor:
        """The vectors (N, D) of recordings of the `sizes`, one after another; None: without padding."""
        if sizes is None:
            return self.picture_features(pixel_values).flatten(0, 1)
        frames = [self.stretches(size[1]) for size in sizes]
        x = self.picture_features(pixel_values, sum(frames, []))  # (B, T, D)
        parts = x.split([*map(len, frames)])
        return ops.cat([self.arranged(part, 0, 0, size) for part, size in zip(parts, sizes, strict=True)])

    @property
    def ears(self) -> SoundTextModel:
        """What of the model hears: all of it."""
        return self

    def said(self, text: str) -> str:
        """What is said, of the text that the model wrote behind such a prompt."""
        return text

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None],
        conversation: Callable[[str], str | None] = lambda _: None,
    ) -> str:  # fmt: skip
        """The text after which the model writes what is said in a recording, for which `sound` stands in it, with the
        names of special tokens; `language`: the code of the one that is spoken, if it is known; `ends`: the tokens that
        end what it writes; `conversation`: makes the text of one in which a user says something, by the chat template,
        or None, if the files have none.
        """
        raise NotImplementedError
