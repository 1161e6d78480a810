"""Mimi (Défossez et al. 2024, arXiv 2410.00037): sound as codes, 12.5 times a second, and back.

SEANet's convolutions make vectors of sound, to which a transformer adds what was heard before; every second moment is
kept. The first codebook stands for what is said, the others, beside it, for how it sounds.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Conv1d, Module
from pyapp.nn.audio.moment_transformer import MomentTransformer
from pyapp.nn.audio.seanet import PaddedConv, ResidualQuantizer, TrimmedConvTranspose, decoder, encoder
from pyapp.nn.audio.sound_codes import Codes, check_codes, check_samples, count_of_codebooks

from .loading.codec_config import MOST_CODEBOOKS, SeanetConfig, check_sizes
from .loading.config import check_divides, check_heads, read_config, require, rope_parameters
from .loading.stored import Stored

MODEL_TYPES = ("mimi",)
BASE = "mimi"
IGNORED = r"quantizer\..*\.codebook\.initialized"  # of training
RARE = 1e-5  # the least use of an entry by which its sum is divided


@dataclass(frozen=True, kw_only=True)
class Config(SeanetConfig):
    """The fields of config.json. frame_rate: codes a second."""

    model_type = "mimi"

    hidden_size: int = 512
    num_filters: int = 64
    upsampling_ratios: list[int] = (8, 6, 5, 4)  # type: ignore[assignment]
    last_kernel_size: int = 3
    pad_mode: str = "constant"
    codebook_size: int = 2048
    use_conv_shortcut: bool = False
    codebook_dim: int = 256
    vector_quantization_hidden_dimension: int = 256
    num_quantizers: int = 32
    num_semantic_quantizers: int = 1
    upsample_groups: int = 512
    num_hidden_layers: int = 8
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int | None = None
    hidden_act: str = "gelu"
    max_position_embeddings: int = 8000
    norm_eps: float = 1e-5
    rope_parameters: dict[str, Any] | None = None
    sliding_window: int = 250
    attention_bias: bool = False
    frame_rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, kv_heads, width = self.num_attention_heads, self.num_key_value_heads, self.hidden_size
        require(kv_heads == heads, f"num_key_value_heads is {kv_heads}, expected the {heads} of num_attention_heads")
        check_heads(width, heads, kv_heads, self.head_dim, self.max_position_embeddings)
        books, semantic = self.num_quantizers, self.num_semantic_quantizers
        require(semantic < books <= MOST_CODEBOOKS, f"{semantic} of {books} codebooks stand for what is said")
        inner = self.vector_quantization_hidden_dimension
        require(self.codebook_dim == inner, f"codebook_dim is {self.codebook_dim}, expected {inner}")
        check_sizes(self, "codebook_dim", "sliding_window")
        check_divides(self, "upsample_groups", "hidden_size")
        rate = self.frame_rate
        require(rate is None or rate > 0, f"frame_rate is {rate}, expected a number > 0")
        require(1 < self.stride <= 1 << 10, f"frame_rate is {rate}: codes stand for {self.stride} vectors")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        rate = values.get("frame_rate", values.get("_frame_rate"))
        return read_config(cls, {**values, "frame_rate": rate, "rope_parameters": rope_parameters(values)})

    norm_type = "none"  # of the convolutions

    @property
    def stride(self) -> int:
        """Vectors of the convolutions for which a code stands."""
        return 2 if self.frame_rate is None else int(-(-self.sampling_rate // self.step) / self.frame_rate)

    @property
    def head_size(self) -> int:
        """The features of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads


class Quantizer(ResidualQuantizer):
    """Codebooks one after the other, of vectors of another width."""

    def __init__(self, config: Config, codebooks: int) -> None:
        inner, width = config.vector_quantization_hidden_dimension, config.hidden_size
        super().__init__(codebooks, config.codebook_size, inner)
        self.input_proj = self.output_proj = None
        if inner != width:
            self.input_proj = Conv1d(width, inner, 1, bias=False)
            self.output_proj = Conv1d(inner, width, 1, bias=False)

    def encode(self, x: Tensor, count: int) -> Tensor:
        return super().encode(x if self.input_proj is None else self.input_proj(x), count)

    def decode(self, codes: Tensor) -> Tensor:
        x = super().decode(codes)
        return x if self.output_proj is None else self.output_proj(x)


class SplitQuantizer(Module):
    """The codebooks of what is said, and beside them those of how it sounds: both see the same vectors."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.said = config.num_semantic_quantizers
        self.semantic_residual_vector_quantizer = Quantizer(config, self.said)
        self.acoustic_residual_vector_quantizer = Quantizer(config, config.num_quantizers - self.said)

    def encode(self, x: Tensor, count: int) -> Tensor:
        """x (B, D, T) → codes (B, count, T) int64."""
        found = self.semantic_residual_vector_quantizer.encode(x, min(count, self.said))
        if count <= self.said:
            return found
        return ops.cat([found, self.acoustic_residual_vector_quantizer.encode(x, count - self.said)], 1)

    def decode(self, codes: Tensor) -> Tensor:
        """codes (B, count, T) → (B, D, T)."""
        count, said = codes.shape[1], self.said
        found = self.semantic_residual_vector_quantizer.decode(codes.narrow(1, 0, min(count, said)))
        if count <= said:
            return found
        return found + self.acoustic_residual_vector_quantizer.decode(codes.narrow(1, said, count - said))


class Mimi(Module):
    """Sound to codes, and codes to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, stride = config.hidden_size, config.stride
        self.encoder, self.decoder = encoder(config), decoder(config)
        self.encoder_transformer, self.decoder_transformer = MomentTransformer(config), MomentTransformer(config)
        self.downsample = PaddedConv(config, width, width, 2 * stride, stride, bias=False, mode="replicate")
        self.upsample = TrimmedConvTranspose(
            config, width, width, 2 * stride, stride, config.upsample_groups, bias=False
        )  # fmt: skip
        self.quantizer = SplitQuantizer(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.downsample.conv.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def vectors(self, samples: Tensor) -> Tensor:
        """samples (B, channels, N) → the vectors of codes (B, D, T)."""
        return self.downsample(self.encoder_transformer(self.encoder(samples)))

    def encode(self, samples: Tensor, codebooks: int | None = None) -> Codes:
        """samples (B, channels, N) at the model's rate → their codes by the first so many codebooks (None: all)."""
        kind = type(self).__name__
        check_samples(kind, samples, self.config.audio_channels)
        count = count_of_codebooks(kind, codebooks, self.config.num_quantizers)
        with no_grad():
            return Codes((self.quantizer.encode(self.vectors(samples), count),), (None,))

    def decode(self, codes: Codes, length: int | None = None) -> Tensor:
        """The samples (B, channels, N) of codes, at most `length`: there may be a few more than were encoded."""
        kind = type(self).__name__
        check_codes(kind, codes, self.config.num_quantizers, self.config.codebook_size)
        if len(codes.chunks) != 1:
            raise ArgumentError(f"{kind}: there are {len(codes.chunks)} chunks, expected 1")
        x = self.upsample(self.quantizer.decode(codes.chunks[0]))
        found: Tensor = self.decoder(self.decoder_transformer(x))
        return found if length is None else found.narrow(2, 0, min(length, found.shape[2]))

    def forward(self, samples: Tensor, codebooks: int | None = None) -> tuple[Codes, Tensor]:
        """samples (B, channels, N) → their codes, and the samples of these (B, channels, N)."""
        codes = self.encode(samples, codebooks)
        return codes, self.decode(codes, samples.shape[2])


def _entries(parts: Sequence[Tensor]) -> Tensor:
    """The entries (E, d) of a codebook, of the sums (E, d) of what they stood for and how often they did (E,)."""
    sums, counts = (part.to("float32") for part in parts)
    return sums / counts.clamp(min=RARE).unsqueeze(1)


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store codebooks."""
    ends = (".embed_sum", ".cluster_usage")
    owners = [name.removesuffix(ends[0]) for name in tensors if name.endswith(ends[0])]
    return {f"{owner}.embed": Stored(tuple(owner + end for end in ends), join=_entries) for owner in owners}


TASKS = {"audio-codec": Mimi}
