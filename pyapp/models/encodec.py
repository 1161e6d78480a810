"""EnCodec (Défossez et al. 2022, arXiv 2210.13438): sound as codes, a few numbers for each moment, and back.

Convolutions and an LSTM make vectors of sound (SEANet), each of which is a sum of vectors from codebooks: every
codebook has the entry that is nearest to what those before it leave over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import floor, log2

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import LSTM, Module
from pyapp.nn.audio.seanet import ResidualQuantizer, decoder, encoder
from pyapp.nn.audio.sound_codes import Codes, check_codes, check_samples

from .loading.codec_config import MOST_CODEBOOKS, MOST_LAYERS, SeanetConfig
from .loading.config import require
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("encodec",)
BASE = "encodec"
IGNORED = r"quantizer\.layers\.\d+\.codebook\.(inited|cluster_size|embed_avg)"  # of training
NORMS = ("weight_norm", "time_group_norm")
SMALLEST = 1e-8  # added to the loudness of a chunk


@dataclass(frozen=True, kw_only=True)
class Config(SeanetConfig):
    """The fields of config.json."""

    model_type = "encodec"

    target_bandwidths: list[float] = (1.5, 3.0, 6.0, 12.0, 24.0)  # type: ignore[assignment]
    normalize: bool = False
    chunk_length_s: float | None = None
    overlap: float | None = None
    norm_type: str = "weight_norm"
    num_lstm_layers: int = 2
    codebook_dim: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        widths = self.target_bandwidths
        plausible = widths and all(type(width) in (int, float) and 0 < width <= 1e4 for width in widths)
        require(bool(plausible), f"target_bandwidths is {widths!r:.60}, expected numbers of kilobits a second")
        require(self.num_lstm_layers <= MOST_LAYERS, f"num_lstm_layers is {self.num_lstm_layers}")
        require(self.norm_type in NORMS, f"norm_type is {self.norm_type!r:.40}, expected {' or '.join(NORMS)}")
        require(
            self.codebook_dim in (None, self.hidden_size),
            f"codebook_dim is {self.codebook_dim}, expected hidden_size {self.hidden_size}",
        )
        require(
            1 <= self.codebooks <= MOST_CODEBOOKS,
            f"there are {self.codebooks} codebooks, expected 1 to {MOST_CODEBOOKS}",
        )
        length, overlap = self.chunk_length_s, self.overlap
        require(length is None or 0 < length <= 3600, f"chunk_length_s is {length}")
        require(overlap is None or 0 <= overlap < 1, f"overlap is {overlap}, expected a number from 0 to 1")
        require((length is None) == (overlap is None), "chunk_length_s and overlap belong together")

    @property
    def moments(self) -> int:
        """Moments of a second, rounded up."""
        return -(-self.sampling_rate // self.step)

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return int(log2(self.codebook_size))

    @property
    def codebooks(self) -> int:
        """Codebooks for the largest bandwidth."""
        return int(1000 * self.target_bandwidths[-1] // (self.moments * self.bits))

    @property
    def chunk(self) -> tuple[int, int] | None:
        """The samples of a chunk, and from the start of one to that of the next; None: sound is one chunk."""
        if self.chunk_length_s is None or self.overlap is None:
            return None
        length = int(self.chunk_length_s * self.sampling_rate)
        return max(1, length), max(1, int((1.0 - self.overlap) * length))


class Recurrence(Module):
    """LSTM layers with a residual."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.lstm = LSTM(width, width, config.num_lstm_layers)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        steps = x.permute(2, 0, 1)  # (T, B, C)
        return (self.lstm(steps)[0] + steps).permute(1, 2, 0)


class Encodec(Module):
    """Sound to codes, and codes to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        recurrence = partial(Recurrence, config)
        self.encoder, self.decoder = encoder(config, recurrence), decoder(config, recurrence)
        self.quantizer = ResidualQuantizer(config.codebooks, config.codebook_size, config.hidden_size)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.quantizer.layers[0].codebook.embed.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def codebooks_for(self, bandwidth: float | None) -> int:
        """How many codebooks a bandwidth in kilobits a second has; None: the smallest. ArgumentError for another."""
        known = self.config.target_bandwidths
        bandwidth = known[0] if bandwidth is None else bandwidth
        if bandwidth not in known:
            raise ArgumentError(
                f"{type(self).__name__}: bandwidth is one of {', '.join(map(str, known))}, not {bandwidth}"
            )
        fit = floor(bandwidth * 1000 / (log2(self.config.codebook_size) * self.config.moments))
        return min(max(1, int(fit)), self.config.codebooks)

    def encode(self, samples: Tensor, bandwidth: float | None = None, mask: Tensor | None = None) -> Codes:
        """samples (B, channels, N) at the model's rate → their codes. mask: of the same shape, 0 for padding."""
        kind, channels = type(self).__name__, self.config.audio_channels
        check_samples(kind, samples, channels)
        if mask is not None and mask.shape != samples.shape:
            raise ArgumentError(f"{kind}: mask is {describe(mask)}, the samples {describe(samples)}")
        count, total = self.codebooks_for(bandwidth), samples.shape[2]
        samples = samples if mask is None else samples * (mask != 0).to(samples.dtype)
        length, stride = self.config.chunk or (total, total)
        chunks, scales = [], []
        with no_grad():
            for start in range(0, total, stride):
                chunk = samples.narrow(2, start, min(length, total - start))
                scale = None
                if self.config.normalize:
                    mono = chunk.mean(1, True)
                    scale = (mono * mono).mean(2, True).sqrt() + SMALLEST  # (B, 1, 1)
                    chunk = chunk / scale
                chunks.append(self.quantizer.encode(self.encoder(chunk), count))
                scales.append(scale)
        return Codes(tuple(chunks), tuple(scales))

    def decode(self, codes: Codes, length: int | None = None) -> Tensor:
        """The samples (B, channels, N) of codes, at most `length`: there may be a few more than were encoded."""
        check_codes(type(self).__name__, codes, self.config.codebooks, self.config.codebook_size)
        parts = []
        for chunk, scale in zip(codes.chunks, codes.scales, strict=True):
            sound = self.decoder(self.quantizer.decode(chunk))
            parts.append(sound if scale is None else sound * scale)
        if len(parts) > 1 and self.config.chunk is None:
            raise ArgumentError(f"{type(self).__name__}: there are {len(parts)} chunks, expected 1")
        whole = parts[0] if self.config.chunk is None else faded(parts, self.config.chunk[1])
        return whole if length is None else whole.narrow(2, 0, min(length, whole.shape[2]))

    def forward(
        self, samples: Tensor, bandwidth: float | None = None, mask: Tensor | None = None
    ) -> tuple[Codes, Tensor]:
        """samples (B, channels, N) → their codes, and the samples of these (B, channels, N)."""
        codes = self.encode(samples, bandwidth, mask)
        return codes, self.decode(codes, samples.shape[2])


def faded(parts: Sequence[Tensor], stride: int) -> Tensor:
    """The sum of parts (B, C, N) that begin `stride` samples after one another, each louder to its middle, divided by
    the sum of how loud they are.
    """
    longest, total = parts[0].shape[2], stride * (len(parts) - 1) + parts[-1].shape[2]
    places = ops.linspace(0, 1, longest + 2, device=parts[0].device).narrow(0, 1, longest)
    ramp = 0.5 - (places - 0.5).abs()
    sums: list[Tensor] = []
    for i, part in enumerate(parts):
        own, at = ramp.narrow(0, 0, part.shape[2]), stride * i
        sides = (at, total - at - part.shape[2])
        found = [ops.pad(part * own, sides), ops.pad(own, sides)]
        sums = found if not sums else [before + more for before, more in zip(sums, found, strict=True)]
    return sums[0] / sums[1]


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)


TASKS = {"audio-codec": Encodec}
