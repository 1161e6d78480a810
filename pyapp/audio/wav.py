"""Read RIFF/WAVE files by blocks as float32, and write them as 16-bit PCM.

Source of the format: Microsoft and IBM, Multimedia Programming Interface and Data Specifications 1.0 (1991), and
Microsoft's WAVEFORMATEXTENSIBLE; RF64 (EBU Tech 3306) for files of 4 GiB and more. Little-endian chunks of a
four-letter name, a uint32 length and that many bytes, padded to an even address. Supported are PCM of 8 (unsigned),
16, 24 and 32 bits, floats of 32 and 64 bits, and A-law and mu-law of telephones (ITU-T G.711), with any number of
channels and any rate.
"""

from __future__ import annotations

import struct
from types import TracebackType
from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError
from pyapp.formats.sink import AnySink, open_sink
from pyapp.formats.source import AnySource, ByteSource, close_source, open_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
FORMAT_NAMES = {2: "Microsoft ADPCM", 0x11: "IMA ADPCM", 0x50: "MPEG", 0x55: "MP3"}
EXTENSIBLE_TAIL = bytes.fromhex("000000001000800000aa00389b71")  # of the GUIDs of the format numbers
BITS = {PCM: (8, 16, 24, 32), FLOAT: (32, 64), A_LAW: (8,), MU_LAW: (8,)}
CHANNEL_LIMIT = 1024
RATES = range(100, 1_536_001)  # Hz
CHUNK_LIMIT = 10_000  # limit of the chunks before the samples
SAMPLE_LIMIT = 1 << 31  # samples of all channels that read() returns at once
MOST_BYTES = 0xFFFFFFFF - 36  # of samples
TOO_LONG = "write_wav: a WAVE file holds at most 4 GiB"
UNKNOWN_LENGTHS = (0, 0xFFFFFFFF, 0x7FFFF000, 0x7FFFFFFF)  # written by programs that do not know the length (pipes)
SIGNATURES = {b"ID3": "an MP3 file", b"OggS": "an Ogg file", b"fLaC": "a FLAC file", b"\x1aE\xdf\xa3": "a WebM file"}
HINT = "Convert it to a 16-bit WAVE file, or record it again"


@dataclass(frozen=True, slots=True)
class SampleFormat:
    """The format of the samples in the file."""

    encoding: int  # a key of BITS
    channels: int
    rate: int
    bits: int

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.bits // 8


class WavFile:
    """An open WAVE file; a context manager. `rate` in Hz, `channels`, `bits`, `frames` (samples of each channel), and
    `missing`, the number of frames that the header announces but the file lacks.
    """

    def __init__(
        self, source: ByteSource, form: SampleFormat, start: int, frames: int, owned: bool, missing: int = 0
    ) -> None:
        self.name = source.name
        self.rate, self.channels, self.bits, self.frames = form.rate, form.channels, form.bits, frames
        self.missing = missing
        self._source, self._form, self._start, self._owned = source, form, start, owned

    @property
    def duration(self) -> float:
        """The length in seconds."""
        return self.frames / self.rate

    def read(self, start: int = 0, count: int | None = None) -> NDArray[np.float32]:
        """Frames start .. start + count (by default all remaining ones) as float32 (frames, channels), full scale 1.

        Fewer at the end of the file. FileFormatError for more than 2^31 samples at once, and for NaN or infinite ones.
        """
        start = min(max(start, 0), self.frames)
        count = self.frames - start if count is None else max(0, min(count, self.frames - start))
        if count * self.channels > SAMPLE_LIMIT:
            raise FileFormatError(
                f"{count:,} frames of {self.channels} channels are too many to read at once",
                where=self.name,
                hint="Read the recording in parts",
            )
        size = self._form.frame_bytes
        data = self._source.read(self._start + start * size, count * size)
        samples = decode_samples(data, self._form).reshape(count, self.channels)
        if self._form.encoding == FLOAT and not np.isfinite(samples).all():
            raise FileFormatError(
                f"there are NaN or infinite samples between {start / self.rate:.2f} s and "
                f"{(start + count) / self.rate:.2f} s",
                where=self.name,
                hint=HINT,
            )
        return samples

    def close(self) -> None:
        """Closes the file, if open_wav() opened it."""
        if self._owned:
            close_source(self._source)

    def __enter__(self) -> WavFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_wav(source: AnySource) -> WavFile:
    """Opens a WAVE file: a path, bytes or a ByteSource. Only its header is read.

    A truncated file (an interrupted recording) has the whole frames that are left. Raises FileFormatError for a file
    that is not a WAVE file, has no samples or an unsupported format; OSError as open() does.
    """
    opened = open_source(source)
    try:
        form, start, length = find_samples(opened)
        announced = length // form.frame_bytes
        frames = min(length, opened.size - start) // form.frame_bytes
        if not frames:
            raise FileFormatError("the recording is empty: it has no samples", where=opened.name, hint=HINT)
        return WavFile(opened, form, start, frames, opened is not source, announced - frames)
    except BaseException:
        if opened is not source:
            close_source(opened)
        raise


def read_wav(source: AnySource) -> tuple[NDArray[np.float32], int]:
    """(samples float32 (frames, channels), rate in Hz) of a whole WAVE file; errors as open_wav()."""
    with open_wav(source) as wav:
        return wav.read(), wav.rate


def find_samples(source: ByteSource) -> tuple[SampleFormat, int, int]:
    """(format, offset of the samples, their announced size in bytes, or all remaining bytes if the writer did not know
    the size). Unknown chunks are skipped.
    """
    wide = check_signature(source)
    form: SampleFormat | None = None
    long_length: int | None = None
    at = 12
    for _ in range(CHUNK_LIMIT):
        if at + 8 > source.size:
            break
        name, length = struct.unpack("<4sI", source.read(at, 8))
        at += 8
        left = source.size - at
        if name == b"ds64" and wide and 16 <= length <= left:
            (long_length,) = struct.unpack("<Q", source.read(at + 8, 8))
        elif name == b"fmt ":
            form = read_format(source, at, length)
        elif name == b"data":
            if form is None:
                raise FileFormatError("the samples come before their format", where=source.name, hint=HINT)
            if length == 0xFFFFFFFF and long_length is not None:
                length = long_length
            elif length in UNKNOWN_LENGTHS and (length or left):
                length = left
            return form, at, length
        at += length + (length & 1)
    missing = "samples (no chunk 'data')" if form else "format (no chunk 'fmt ')"
    raise FileFormatError(f"the file is truncated: it has no {missing}", where=source.name, hint=HINT)


def check_signature(source: ByteSource) -> bool:
    """Whether the file is RF64 (64-bit lengths). FileFormatError unless it is RIFF/WAVE or RF64."""
    if source.size == 0:
        raise FileFormatError("the file is empty", where=source.name, hint=HINT)
    head = bytes(source.read(0, min(12, source.size)))
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return head[:4] == b"RF64"
    if head[:4] in (b"RIFF", b"RF64") and b"WAVE".startswith(head[8:12]):
        raise FileFormatError(f"the file is truncated: it has {source.size} bytes", where=source.name, hint=HINT)
    kind = next((f"{kind}, " for start, kind in SIGNATURES.items() if head.startswith(start)), "")
    if head[4:8] == b"ftyp":
        kind = "an MP4 file, "
    raise FileFormatError(f"this is {kind}not a WAVE file", where=source.name, hint=HINT)


def read_format(source: ByteSource, at: int, length: int) -> SampleFormat:
    """The chunk 'fmt ', checked."""

    def broken(what: str) -> FileFormatError:
        return FileFormatError(what, where=source.name, hint=HINT)

    if length < 16 or at + length > source.size:
        raise broken(f"the file is truncated: its format has {min(length, source.size - at)} bytes of 16")
    data = bytes(source.read(at, min(length, 40)))
    encoding, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", data)
    if encoding == EXTENSIBLE:
        if len(data) < 40 or data[26:40] != EXTENSIBLE_TAIL:
            raise broken("the samples have an extended format that pyapp cannot read")
        (encoding,) = struct.unpack_from("<H", data, 24)
    if encoding not in BITS:
        known = FORMAT_NAMES.get(encoding, f"of format {encoding:#x}")
        raise broken(f"the samples are {known}, which pyapp cannot read")
    if bits not in BITS[encoding]:
        allowed = ", ".join(map(str, BITS[encoding]))
        raise broken(f"a sample has {bits} bits, expected one of {allowed}")
    if not 1 <= channels <= CHANNEL_LIMIT:
        raise broken(f"there are {channels} channels, expected 1 to {CHANNEL_LIMIT:,}")
    if rate not in RATES:
        raise broken(f"the sample rate is {rate:,} Hz, expected {RATES[0]} to {RATES[-1]:,} Hz")
    form = SampleFormat(encoding, channels, rate, bits)
    if block != form.frame_bytes:
        raise broken(f"a frame has {block} bytes, but {channels} channels of {bits} bits take {form.frame_bytes}")
    return form


def decode_samples(data: bytes | memoryview, form: SampleFormat) -> NDArray[np.float32]:
    """Raw bytes of whole samples as float32."""
    if form.encoding == FLOAT:
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, which read() reports
            return np.frombuffer(data, f"<f{form.bits // 8}").astype(np.float32)
    if form.encoding in (A_LAW, MU_LAW):
        values = a_law_values() if form.encoding == A_LAW else mu_law_values()
        return values[np.frombuffer(data, np.uint8)]
    if form.bits == 8:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) * np.float32(2**-7)
    if form.bits == 24:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return wide.view("<i4").reshape(-1).astype(np.float32) * np.float32(2**-31)
    scale = np.float32(2.0 ** (1 - form.bits))
    return np.frombuffer(data, f"<i{form.bits // 8}").astype(np.float32) * scale


def a_law_values() -> NDArray[np.float32]:
    """What each byte of A-law stands for, float32 (256,), full scale 1: ITU-T G.711 of 1988, table 1."""
    code = np.arange(256) ^ 0x55  # every other bit is inverted
    segment, step = code >> 4 & 7, (code & 15) * 2 + 1
    size = np.where(segment == 0, step, (step + 32) << np.maximum(segment - 1, 0))  # of 4096
    return (np.where(code & 128, size, -size) / 4096).astype(np.float32)


def mu_law_values() -> NDArray[np.float32]:
    """What each byte of mu-law stands for, float32 (256,), full scale 1: ITU-T G.711 of 1988, table 2."""
    code = np.arange(256) ^ 0xFF  # all bits are inverted
    size = (((code & 15) * 2 + 33) << (code >> 4 & 7)) - 33  # of 8192
    return (np.where(code & 128, -size, size) / 8192).astype(np.float32)


def as_pcm(samples: NDArray[np.floating]) -> bytes:
    """Finite floats, full scale 1, as 16-bit little-endian PCM; values beyond full scale are clipped."""
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()


def wav_head(rate: int, channels: int = 1, size: int | None = None) -> bytes:
    """What stands before `size` bytes of 16-bit PCM in a WAVE file; None: so many that the writer does not know yet."""
    length = UNKNOWN_LENGTHS[1] if size is None else size
    form = struct.pack("<HHIIHH", PCM, channels, rate, rate * channels * 2, channels * 2, 16)
    riff = struct.pack("<I", length if size is None else 36 + length)
    return b"RIFF" + riff + b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", length)


def write_wav(target: AnySink, samples: NDArray[np.floating], rate: int) -> None:
    """Writes 16-bit PCM to a path or a binary file. `samples` float (frames,) or (frames, channels); values beyond full
    scale are clipped. ValueError for another shape, for NaN, and for more than the 4 GiB of the format.
    """
    array = np.asarray(samples)
    if array.ndim not in (1, 2) or not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"write_wav: takes floats (frames,) or (frames, channels), not {array.dtype} {array.shape}")
    channels = 1 if array.ndim == 1 else array.shape[1]
    if not 1 <= channels <= CHANNEL_LIMIT or rate not in RATES:
        raise ValueError(f"write_wav: {channels} channels at {rate} Hz cannot be written")
    if not np.isfinite(array).all():
        raise ValueError("write_wav: samples must be finite numbers")
    if array.size * 2 > MOST_BYTES:
        raise ValueError(TOO_LONG)
    data = as_pcm(array)
    with open_sink(target) as file:
        file.write(wav_head(rate, channels, len(data)))
        file.write(data)
