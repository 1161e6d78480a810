"""Recordings of any format and length as blocks for a model: mono, 16 kHz, without DC offset.

A reader holds one block of a few seconds at a time, so two hours take no more memory than a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError
from pyapp.events import Notice
from pyapp.formats.source import AnySource, ByteSource

from .constants import LARGEST_SAMPLE, SAMPLE_RATE
from .decoders import ArrayDecoder, Decoder, PipeWavDecoder, open_decoder, open_stream
from .quality import OffsetFilter, Quality
from .resampling import Resampler, mix_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK_SAMPLES = 1 << 17  # of all channels, read at a time: 3 s of one channel at 44.1 kHz


class AudioReader:
    """Reads a recording once from beginning to end: iterating gives non-empty float32 (samples,) blocks at 16 kHz, or
    at the `rate` given.

    `duration` is its length in seconds, None if unknown in advance. `arrives` is True for a pipe, perhaps with live
    speech. `seconds` counts the seconds read so far. `notices`, complete after the last block, are warnings: clipping,
    silence, a file that ends early. Iterating raises FileFormatError for damaged samples and for a recording without
    samples.

    A context manager.
    """

    def __init__(self, decoder: Decoder, rate: int = SAMPLE_RATE) -> None:
        self._rate = rate
        self.name = decoder.name
        self.duration = None if decoder.frames is None else decoder.frames / decoder.rate
        self.arrives = isinstance(decoder, PipeWavDecoder)
        self.seconds = 0.0
        self.notices: list[Notice] = []
        self._decoder = decoder
        self._blocks = self._read()

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        return self._blocks

    def _read(self) -> Iterator[NDArray[np.float32]]:
        decoder, quality, resampler = self._decoder, Quality(), make_resampler(self._decoder.rate, self._rate)
        offset = OffsetFilter(self._rate)
        count = max(1, BLOCK_SAMPLES // decoder.channels)
        more = True
        while more:
            raw = decoder.read(count)
            more = len(raw) > 0
            self._check(raw)
            quality.add(raw)
            mixed = mix_channels(raw)
            if raw.shape[1] > 1:
                quality.add_mixed(raw, mixed)
            block = resampler.process(mixed) if more else resampler.finish()
            if len(block):
                self.seconds += len(block) / self._rate
                yield offset.process(block)
        if not self.seconds:
            raise FileFormatError(
                "the recording is empty: it has no samples", where=self.name, hint="Record or copy it again"
            )
        self.notices = quality.notices(self.name)
        if decoder.ended_early:
            self.notices.append(
                Notice(
                    f"the recording ends after {self.seconds:.1f} s: {decoder.ended_early}", self.name,
                    "If it was cut off, copy or download it again",
                )
            )  # fmt: skip

    def _check(self, block: NDArray[np.float32]) -> None:
        if block.size and not -LARGEST_SAMPLE < block.min() <= block.max() < LARGEST_SAMPLE:
            wrong = f"larger than {LARGEST_SAMPLE:g}" if np.isfinite(block).all() else "NaN or infinite"
            raise FileFormatError(
                f"there are samples that are {wrong} after {self.seconds:.1f} s", where=self.name,
                hint="Export the recording again, as 16-bit samples",
            )  # fmt: skip

    def close(self) -> None:
        """Closes the file; the reader yields nothing afterwards."""
        self._blocks.close()  # type: ignore[attr-defined]
        self._decoder.close()

    def __enter__(self) -> AudioReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_audio(
    source: AnySource | IO[bytes] | Any, *, rate: int = SAMPLE_RATE, to_rate: int = SAMPLE_RATE
) -> AudioReader:
    """Opens a recording: a path, bytes, a ByteSource, a binary stream (a pipe), or float samples at `rate` Hz,
    (samples,) or (frames, channels). `to_rate`: the rate in Hz of the blocks.

    WAVE files need no other package, and are decoded from a pipe as they arrive; MP3, FLAC, Ogg (Vorbis, Opus), AIFF
    and CAF need the package soundfile (`pip install 'pyapp[audio]'`, which also installs soxr for faster resampling),
    MP4, M4A, WebM, Matroska, AAC, AMR and Windows Media files PyAV (`pip install 'pyapp[media]'`).
    Raises FileFormatError, with a hint, if the recording cannot be read; OSError as open() does.
    """
    if hasattr(source, "__array__"):
        return AudioReader(ArrayDecoder(source, rate), to_rate)
    if hasattr(source, "read") and not isinstance(source, ByteSource):
        return AudioReader(open_stream(cast(IO[bytes], source), stream_name(source)), to_rate)
    return AudioReader(open_decoder(source), to_rate)


def read_beginning(source: Any, seconds: float, rate: int = SAMPLE_RATE) -> tuple[NDArray[np.float32], bool]:
    """float32 (N,) at `rate` of the first seconds of a recording, and whether there are more."""
    limit, parts, count = round(seconds * rate), [np.zeros(0, np.float32)], 0
    with open_audio(source, to_rate=rate) as reader:
        for block in reader:
            parts.append(np.asarray(block, np.float32))
            count += len(block)
            if count > limit:
                break
    return np.concatenate(parts)[:limit], count > limit


def stream_name(stream: Any) -> str:
    """The name of a stream in messages."""
    name = str(getattr(stream, "name", ""))
    return "stdin" if name in ("", "0", "<stdin>") else name


class AnyResampler(Protocol):
    def process(self, block: NDArray[np.float32]) -> NDArray[np.float32]: ...

    def finish(self) -> NDArray[np.float32]: ...


class SoxrResampler:
    """The same interface over soxr, which is several times faster."""

    def __init__(self, rate: int, to_rate: int) -> None:
        import soxr  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self._stream = soxr.ResampleStream(rate, to_rate, 1, dtype="float32", quality="HQ")

    def process(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        made: NDArray[np.float32] = self._stream.resample_chunk(np.ascontiguousarray(block))
        return made

    def finish(self) -> NDArray[np.float32]:
        made: NDArray[np.float32] = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        return made


def make_resampler(rate: int, to_rate: int = SAMPLE_RATE) -> AnyResampler:
    """The resampler from `rate` to another one: soxr's if installed, else pyapp's."""
    if rate != to_rate:
        try:
            return SoxrResampler(rate, to_rate)
        except ImportError:
            pass
    return Resampler(rate, to_rate)
