"""SpeechT5 (Ao et al. 2021, arXiv 2110.07205) that speaks: a transformer reads characters, another writes a log-mel
spectrogram in the voice that a vector describes, and convolutions refine it. A vocoder (models/speecht5_hifigan.py)
makes sound of it.

Parameters have the names of Hugging Face's files, but for the feed-forward parts of the decoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.postnet import Postnet
from pyapp.nn.audio.sound import SoundAttention, SoundLayer
from pyapp.nn.encoders.encoders import as_bias, attend, visible_keys
from pyapp.nn.parameter import new_parameter
from pyapp.nn.positions.relative_positions import by_distance
from pyapp.nn.positions.sinusoids import interleaved_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import (
    CachedMemory,
    DecoderLayer,
    FixedPositions,
    Memory,
    WholeMemory,
)

from .loading.config import FileConfig, check_padding, require
from .loading.hifi_gan_config import LARGEST

MODEL_TYPES = ("speecht5",)
SPEAKS = "spectrograms"  # in pyapp.models.loading.voice
BASE = ""
IGNORED = r".*\.encode_positions\.pe"  # tables, which are computed
MOST_POSITIONS = 1 << 16
Keep = Callable[[tuple[int, ...]], Tensor]  # which numbers of a shape are kept: 1, or 0


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    layer = r"(wrapped_decoder\.layers\.\d+)\.feed_forward\."
    return re.sub(f"{layer}output_dense", r"\1.fc2", re.sub(f"{layer}intermediate_dense", r"\1.fc1", name))


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json."""

    model_type = "speecht5"

    vocab_size: int = 81
    hidden_size: int = 768
    encoder_layers: int = 12
    encoder_attention_heads: int = 12
    encoder_ffn_dim: int = 3072
    decoder_layers: int = 6
    decoder_ffn_dim: int = 3072
    decoder_attention_heads: int = 12
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 1
    eos_token_id: int = 2
    num_mel_bins: int = 80
    speech_decoder_prenet_layers: int = 2
    speech_decoder_prenet_units: int = 256
    speech_decoder_prenet_dropout: float = 0.5
    speaker_embedding_dim: int = 512
    speech_decoder_postnet_layers: int = 5
    speech_decoder_postnet_units: int = 256
    speech_decoder_postnet_kernel: int = 5
    reduction_factor: int = 2
    max_speech_positions: int = 4000
    max_text_positions: int = 450
    encoder_max_relative_position: int = 160

    do_stable_layer_norm, adapter_size = False, None  # of nn.audio.sound's layers

    def __post_init__(self) -> None:
        super().__post_init__()
        width = self.hidden_size
        check_padding(self.pad_token_id, self.vocab_size)
        for heads in (self.encoder_attention_heads, self.decoder_attention_heads):
            require(0 < heads and width % heads == 0, f"{heads} heads do not divide hidden_size {width}")
        require(width % 2 == 0, f"hidden_size is {width}, expected an even number")
        for name in ("encoder_layers", "decoder_layers", "speech_decoder_prenet_layers",
                     "speech_decoder_postnet_layers"):  # fmt: skip
            require(getattr(self, name) <= 256, f"{name} is {getattr(self, name)}, expected at most 256")
        for name in ("num_mel_bins", "speech_decoder_prenet_units", "speaker_embedding_dim", "reduction_factor",
                     "speech_decoder_postnet_units", "encoder_ffn_dim", "decoder_ffn_dim"):  # fmt: skip
            require(getattr(self, name) <= 8 * LARGEST, f"{name} is {getattr(self, name):,}")
        for name in ("max_speech_positions", "max_text_positions", "encoder_max_relative_position"):
            require(getattr(self, name) <= MOST_POSITIONS, f"{name} is {getattr(self, name):,}")
        kernel, dropout = self.speech_decoder_postnet_kernel, self.speech_decoder_prenet_dropout
        require(kernel % 2 == 1 and kernel <= LARGEST, f"speech_decoder_postnet_kernel is {kernel}, expected odd")
        require(0 <= dropout < 1, f"speech_decoder_prenet_dropout is {dropout}, expected 0 to 1")
        require(self.layer_norm_eps == 1e-5, f"layer_norm_eps is {self.layer_norm_eps}, expected 1e-05")

    @property
    def intermediate_size(self) -> int:
        """The numbers between the matrices of the encoder's feed-forward parts."""
        return self.encoder_ffn_dim


class ScaledPositions(Module):
    """Sines of positions, times a number that was learned (Li et al. 2018, arXiv 1809.08895)."""

    def __init__(self, width: int, most: int) -> None:
        super().__init__()
        self.alpha = new_parameter(ops.ones)
        self.table = FixedPositions(lambda: interleaved_sinusoids(np.arange(most), width))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (B, T, D), positions (T,) → (B, T, D)."""
        return x + self.alpha * self.table(positions)


# -- what reads


class TextPrenet(Module):
    """Characters at their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.encode_positions = ScaledPositions(config.hidden_size, config.max_text_positions)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, S) → (B, S, D)."""
        return self.encode_positions(self.embed_tokens(ids), ops.arange(ids.shape[1], dtype="int32", device=ids.device))


class DistanceAttention(SoundAttention):
    """Attention with scores of queries and distances (Shaw et al. 2018, arXiv 1803.02155)."""

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """x and residual (B, T, D), mask (B, 1, 1, T), bias: the vectors (2 T - 1, D / H) of distances → (B, T, D)."""
        assert bias is not None
        batch, tokens, width = x.shape
        qkv = self.qkv(self, x).reshape(batch, tokens, 3 * self.heads, -1)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))  # (B, T, H, D / H)
        far = (q.transpose(1, 2) @ bias.transpose(0, 1)) * (width // self.heads) ** -0.5  # (B, H, T, 2 T - 1)
        return self.out_proj(attend(q, k, v, as_bias(mask, by_distance(far))), residual)


class Distances(Module):
    """The vectors of distances; those above the largest have its vector."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.most = config.encoder_max_relative_position
        self.pe_k = Embedding(2 * self.most, config.hidden_size // config.encoder_attention_heads)

    def forward(self, tokens: int) -> Tensor:
        """(2 T - 1, D / H), of the distances from T - 1 down to 1 - T."""
        far = np.arange(tokens - 1, -tokens, -1).clip(-self.most, self.most - 1) + self.most
        return self.pe_k(ops.from_numpy(far.astype(np.int32)).to(self.pe_k.weight.device))


class TextLayers(Module):
    """A norm and the layers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.layers = ModuleList(
            SoundLayer(config, DistanceAttention(width, config.encoder_attention_heads))
            for _ in range(config.encoder_layers)
        )
        self.embed_positions = Distances(config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, S, D), mask (B, S) → (B, S, D)."""
        x, far, keys = self.layer_norm(x), self.embed_positions(x.shape[1]), visible_keys(mask)
        for layer in self.layers:
            x = layer(x, keys, far)
        return x


# -- what writes


class SpeechPrenet(Module):
    """Frames and the vector of a voice, at their positions. Some numbers between the layers are always left out, which
    varies what is spoken (Shen et al. 2017, arXiv 1712.05884).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        units, width = config.speech_decoder_prenet_units, config.hidden_size
        self.kept = 1 / (1 - config.speech_decoder_prenet_dropout)
        self.layers = ModuleList(
            Linear(units if i else config.num_mel_bins, units) for i in range(config.speech_decoder_prenet_layers)
        )
        self.final_layer = Linear(units, width)
        self.encode_positions = ScaledPositions(width, config.max_speech_positions)
        self.speaker_embeds_layer = Linear(config.speaker_embedding_dim + width, width)

    def forward(self, frames: Tensor, voice: Tensor, positions: Tensor, keep: Keep) -> Tensor:
        """frames (B, T, bins), voice (B, S), positions (T,) → (B, T, D)."""
        x = frames
        for layer in self.layers:
            x = ops.relu(layer(x))
            x = x * keep(tuple(x.shape[1:])).to(x.device) * self.kept
        x = self.encode_positions(self.final_layer(x), positions)
        length = (voice * voice).sum(1, True).sqrt().clamp(min=1e-12)
        voice = (voice / length).unsqueeze(1).expand(x.shape[0], x.shape[1], voice.shape[1])
        return ops.relu(self.speaker_embeds_layer(ops.cat([x, voice], -1)))


class EndingPostnet(Postnet):
    """Frames, whether the speech ends, and what refines frames."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.prob_out = Linear(config.hidden_size, config.reduction_factor)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, D) → frames (B, T * r, bins), the logits (B, T * r) of the end."""
        return self.plain(x), self.prob_out(x).reshape(x.shape[0], -1)


class SpeechT5(Module):
    """A text to a spectrogram. A step of the decoder writes `reduction_factor` frames and reads the last of them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.speecht5 = Module()
        self.speecht5.encoder = Module()
        self.speecht5.encoder.prenet = TextPrenet(config)
        self.speecht5.encoder.wrapped_encoder = TextLayers(config)
        self.speecht5.decoder = Module()
        self.speecht5.decoder.prenet = SpeechPrenet(config)
        self.speecht5.decoder.wrapped_decoder = Module()
        self.speecht5.decoder.wrapped_decoder.layers = ModuleList(
            DecoderLayer(config.hidden_size, config.decoder_attention_heads, config.decoder_ffn_dim, config.hidden_act)
            for _ in range(config.decoder_layers)
        )
        self.speech_decoder_postnet = EndingPostnet(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.speecht5.encoder.prenet.embed_tokens.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """ids (B, S), attention_mask (B, S) → (B, S, D). ArgumentError for more than the model reads."""
        most = self.config.max_text_positions
        if ids.ndim != 2 or not 1 <= ids.shape[1] <= most:
            raise InputError(f"SpeechT5: ids are (B, S) with S from 1 to {most}, not {describe(ids)}")
        encoder = self.speecht5.encoder
        found: Tensor = encoder.wrapped_encoder(encoder.prenet(ids), attention_mask)
        return found

    def decode(self, frames: Tensor, voice: Tensor, memory: Memory, keep: Keep) -> tuple[Tensor, Tensor]:
        """The last frames (B, T, bins) of steps, at the positions that the memory says, voice (B, S) → the frames of
        the next steps (B, T * r, bins), not refined, and the logits (B, T * r) of the end.
        """
        decoder = self.speecht5.decoder
        positions = memory.positions(frames.narrow(2, 0, 1).squeeze(2))
        x = decoder.prenet(frames, voice, positions, keep)
        for i, layer in enumerate(decoder.wrapped_decoder.layers):
            x = layer(x, memory, i)
        found: tuple[Tensor, Tensor] = self.speech_decoder_postnet(x)
        return found

    def forward(
        self, ids: Tensor, frames: Tensor, voice: Tensor, keep: Keep, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """ids (B, S), frames (B, T, bins), voice (B, speaker_embedding_dim) → the frames (B, T * r, bins) as they are
        written, refined, and the logits (B, T * r) of the end. `keep`: which numbers the prenet keeps.
        """
        memory = WholeMemory(self.encode(ids, attention_mask), attention_mask, frames.shape[1])
        plain, ends = self.decode(frames, voice, memory, keep)
        return plain, self.speech_decoder_postnet.refined(plain), ends

    def memory(self, ids: Tensor, most: int) -> CachedMemory:
        """What a decoder of one text (1, S) remembers, for at most so many steps."""
        return CachedMemory(self.encode(ids), None, 1, min(most, self.config.max_speech_positions))


TASKS = {"text-to-speech": SpeechT5}
