"""Recordings as blocks of raw samples: pyapp.audio.wav reads WAVE files, from a file or a pipe; libsndfile reads MP3,
FLAC, Ogg Vorbis and Opus, AIFF, CAF ..., if the package soundfile is installed; pyapp.audio.containers the others.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Protocol

from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError
from pyapp.formats.source import AnySource, ByteSource, close_source, open_source

from .unreadable import conversion, unreadable
from .wav import CHANNEL_LIMIT, RATES, WavFile, decode_samples, find_samples, open_wav

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEAD = 64  # bytes needed to detect the format of a file
WAV_HEAD_LIMIT = 1 << 24  # bytes before the samples of a WAVE file in a pipe
PIECE = 1 << 13  # frames that libsndfile reads together: a damaged recording loses no more of what is before the damage
FRAMES_LIMIT = 1 << 48  # libsndfile reports 2^63 - 1 if the length is unknown
# The signature of a kind of file and its place, the kind, and FFmpeg's name of it.
CONTAINERS = (
    (4, b"ftyp", "an MP4 or M4A file", "mp4"),
    (0, b"\x1aE\xdf\xa3", "a WebM or Matroska file", "matroska"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a Windows Media file", "asf"),
    (0, b"#!AMR", "an AMR file", "amr"),
    (0, b"\xff\xf1", "an AAC file", "aac"),
    (0, b"\xff\xf9", "an AAC file", "aac"),
    (0, b"FLV\1", "a Flash video", "flv"),
)
OGG = "an Ogg file"
OGG_PAGE = 65_307  # bytes of the largest page
KNOWN = (
    (b"ID3", "an MP3 file"),
    *((bytes((0xFF, second)), "an MP3 file") for second in (0xFB, 0xFA, 0xF3, 0xF2)),
    (b"OggS", OGG),
    (b"fLaC", "a FLAC file"),
    (b"FORM", "an AIFF file"),
)


class Decoder(Protocol):
    """An open recording: `rate` in Hz, `channels`, `frames` (samples of each channel; None while unknown).

    `read(count)` returns the next frames, float32 (frames, channels), at most `count`, none at the end. `ended_early`
    is the reason why the recording ended before its announced end, if it did.
    """

    name: str
    rate: int
    channels: int
    frames: int | None
    ended_early: str | None

    def read(self, count: int) -> NDArray[np.float32]: ...

    def close(self) -> None: ...


class ArrayDecoder:
    """Samples in memory: (samples,) or (frames, channels)."""

    def __init__(self, samples: Any, rate: int, name: str = "samples") -> None:
        array = np.asarray(samples)
        if array.ndim not in (1, 2) or not np.issubdtype(array.dtype, np.floating):
            raise FileFormatError(
                f"takes floats (samples,) or (frames, channels), not {array.dtype} {array.shape}", where=name,
                hint="Divide integers by their full scale first: 32768 for 16 bits",
            )  # fmt: skip
        self._array = array.reshape(len(array), -1) if array.size else array.reshape(0, 1)
        self.name, self.rate, self.channels = name, rate, self._array.shape[1]
        self.frames: int | None = len(array)
        self.ended_early: str | None = None
        self._at = 0

    def read(self, count: int) -> NDArray[np.float32]:
        block = self._array[self._at : self._at + count]
        self._at += len(block)
        return np.asarray(block, np.float32)

    def close(self) -> None:
        """Does nothing: the samples belong to the caller."""


class WavDecoder:
    """A WAVE file with random access."""

    def __init__(self, wav: WavFile, owned: ByteSource | None) -> None:
        self._wav, self._owned = wav, owned
        self.name, self.rate, self.channels = wav.name, wav.rate, wav.channels
        self.frames: int | None = wav.frames
        announced = (wav.frames + wav.missing) / wav.rate
        self.ended_early = f"its header announces {announced:.1f} s" if wav.missing else None
        self._at = 0

    def read(self, count: int) -> NDArray[np.float32]:
        block = self._wav.read(self._at, count)
        self._at += len(block)
        return block

    def close(self) -> None:
        if self._owned is not None:
            close_source(self._owned)


class PipeSource:
    """The beginning of a stream of unknown length as a ByteSource; the bytes that were read are kept until `rest()`."""

    size = 1 << 62

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.name = name
        self._stream = stream
        self._head = bytearray()

    def read(self, offset: int, length: int) -> bytes:
        """Reads a range. FileFormatError if the stream ends before, and for a header that does not end."""
        end = offset + length
        if end > WAV_HEAD_LIMIT:
            raise FileFormatError("there are no samples at its beginning", where=self.name)
        self._head += self._stream.read(max(0, end - len(self._head)))
        if len(self._head) < end:
            raise FileFormatError(f"the stream ended after {len(self._head):,} bytes", where=self.name)
        return bytes(self._head[offset:end])

    def peek(self, length: int) -> bytes:
        """The first bytes, fewer if the stream is shorter."""
        self._head += self._stream.read(max(0, length - len(self._head)))
        return bytes(self._head[:length])

    def rest(self, start: int) -> bytes:
        """The bytes from `start` on that were read already; drops all of them."""
        rest, self._head = bytes(self._head[start:]), bytearray()
        return rest


class PipeWavDecoder:
    """A WAVE file in a pipe, decoded as it arrives."""

    def __init__(self, source: PipeSource, stream: IO[bytes]) -> None:
        self._form, start, length = find_samples(source)
        self._waiting = source.rest(start)
        # read1 returns the available bytes at once: live speech does not wait for a whole block
        self._receive: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self.name, self.rate, self.channels = source.name, self._form.rate, self._form.channels
        known = length + start < source.size
        self.frames = length // self._form.frame_bytes if known else None
        self._left = length
        self.ended_early: str | None = None

    def read(self, count: int) -> NDArray[np.float32]:
        size = self._form.frame_bytes
        wanted = min(count * size, self._left)
        while len(self._waiting) < min(size, wanted):
            more = self._receive(wanted - len(self._waiting))
            if not more:
                self._left = 0
                if self.frames is not None:
                    self.ended_early = f"its header announces {self.frames / self.rate:.1f} s"
                return np.empty((0, self.channels), np.float32)
            self._waiting += more
        whole = min(wanted, len(self._waiting)) // size * size
        data, self._waiting = self._waiting[:whole], self._waiting[whole:]
        self._left -= whole
        return decode_samples(data, self._form).reshape(-1, self.channels)

    def close(self) -> None:
        """Does nothing: the stream belongs to the caller."""


class SourceFile(io.RawIOBase):
    """A ByteSource as a file object for libsndfile."""

    def __init__(self, source: ByteSource) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._source.size - self._at))
        if count:  # none is left after the end, where damaged files point
            view[:count] = self._source.read(self._at, count)
        self._at += count
        return count


class SoundFileDecoder:
    """A file that libsndfile reads. A damaged file ends at the damage."""

    def __init__(self, file: IO[bytes] | SourceFile, name: str, kind: str, owned: ByteSource | None = None) -> None:
        soundfile = import_soundfile(name, kind)
        tail = end_of(file) if kind == OGG else b""
        self._owned = owned
        self._error = soundfile.SoundFileError
        try:
            self._file = sequential(soundfile)(file)
        except self._error as error:
            raise unreadable(name, kind, reason(error)) from error
        self.name, self.rate, self.channels = name, int(self._file.samplerate), int(self._file.channels)
        if self.rate not in RATES or not 1 <= self.channels <= CHANNEL_LIMIT:
            raise unreadable(name, kind, f"{self.channels} channels at {self.rate:,} Hz")
        self.frames = self._file.frames if 0 < self._file.frames < FRAMES_LIMIT else None
        self.ended_early: str | None = None
        self._seen = 0
        self._unended = kind == OGG and not ends_ogg(tail)

    def read(self, count: int) -> NDArray[np.float32]:
        blocks: list[NDArray[np.float32]] = []
        left = 0 if self.ended_early else count
        while left:
            wanted = min(left, PIECE)
            try:
                block = self._file.read(wanted, dtype="float32", always_2d=True)
            except self._error as error:
                if not self._seen:
                    raise unreadable(self.name, "", reason(error)) from error
                self.ended_early = reason(error)
                break
            blocks.append(block)
            self._seen += len(block)
            left = left - wanted if len(block) == wanted else 0
        # libsndfile's own guess of an MP3's length may be a few frames off
        if not any(map(len, blocks)) and self.frames and self._seen < 0.99 * self.frames - self.rate / 10:
            self.ended_early = self.ended_early or f"its header announces {self.frames / self.rate:.1f} s"
        elif not any(map(len, blocks)) and self._unended:
            self.ended_early = self.ended_early or "the mark of its end is missing"
        return np.concatenate(blocks or [np.empty((0, self.channels), np.float32)])

    def close(self) -> None:
        self._file.close()
        if self._owned is not None:
            close_source(self._owned)


def end_of(file: IO[bytes] | SourceFile) -> bytes:
    """The last bytes of a file, in which a whole page of Ogg has room; the file's position stays."""
    at, size = file.tell(), file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 2 * OGG_PAGE))
    tail = bytearray(min(size, 2 * OGG_PAGE))
    file.readinto(tail)  # type: ignore[union-attr]
    file.seek(at)
    return bytes(tail)


def ends_ogg(tail: bytes) -> bool:
    """Whether the last page in these bytes is marked as the last one of its stream (RFC 3533, section 6)."""
    page = tail.rfind(b"OggS")
    return page >= 0 and len(tail) > page + 5 and bool(tail[page + 5] & 4)


def sequential(soundfile: Any) -> Any:
    """A SoundFile that reads sequentially. The original class seeks after each read. An MP3 decoder then loses the bits
    that the next frame takes from earlier frames, and a tenth of a second is wrong.
    """

    class Sequential(soundfile.SoundFile):
        def seekable(self) -> bool:
            return False

    return Sequential


def import_soundfile(name: str, kind: str) -> Any:
    """The package soundfile; FileFormatError with a hint if it is missing."""
    try:
        import soundfile  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except (ImportError, OSError) as error:  # OSError: the package without its library
        in_page = sys.platform == "emscripten"
        install = "" if in_page else "Install it with pip install 'pyapp[audio]', or convert the recording: "
        raise FileFormatError(
            f"{kind or 'a file of this kind'} needs the package soundfile, which is not installed",
            where=name,
            hint=install + conversion(name),
        ) from error
    return soundfile


def reason(error: Exception) -> str:
    """libsndfile's message without the file's name."""
    text = str(getattr(error, "error_string", error)).removeprefix("Error : ").strip().rstrip(".")
    if text.startswith("File does not exist"):  # so it says where nothing in the file is MP3; we have the file
        return "format not recognised"
    return text[:1].lower() + text[1:]


def kind_of(head: bytes, name: str) -> str:
    """The format of a file that begins with `head`; "" if only libsndfile can detect it. FileFormatError for an empty
    file.
    """
    if not head:
        raise FileFormatError("the file is empty", where=name, hint="Record or copy it again")
    return next((kind for start, kind in KNOWN if head.startswith(start)), "")


def container_of(head: bytes) -> tuple[str, str] | None:
    """The kind of a file that begins with `head`, and FFmpeg's name of it; None for other files."""
    for place, signature, kind, form in CONTAINERS:
        if head[place : place + len(signature)] == signature:
            return kind, form
    return None


def is_wav(head: bytes) -> bool:
    return head[:4] in (b"RIFF", b"RF64") and head[8:12] in (b"WAVE", b"")


def open_decoder(source: AnySource) -> Decoder:
    """Opens a recording in a file, in bytes or in a ByteSource. FileFormatError if it cannot be read; OSError as
    open().
    """
    opened = open_source(source)
    owned = opened if opened is not source else None
    try:
        head = bytes(opened.read(0, min(HEAD, opened.size)))
        if (container := container_of(head)) is not None:
            from .containers import ContainerDecoder  # not on the page's way: the browser decodes these files

            return ContainerDecoder(SourceFile(opened), opened.name, *container, owned)
        if not is_wav(head):
            return SoundFileDecoder(SourceFile(opened), opened.name, kind_of(head, opened.name), owned)
        try:
            return WavDecoder(open_wav(opened), owned)
        except FileFormatError as error:  # a rare encoding (A-law, ADPCM): libsndfile may support it
            if not is_unknown(error):
                raise
            with suppress(FileFormatError):
                return SoundFileDecoder(SourceFile(opened), opened.name, "", owned)
            raise
    except BaseException:
        if owned is not None:
            close_source(owned)
        raise


def open_stream(stream: IO[bytes], name: str = "stdin") -> Decoder:
    """Opens a recording in a pipe: a WAVE file is decoded as it arrives, other formats are first collected in a
    temporary file. FileFormatError if it cannot be read.
    """
    source = PipeSource(stream, name)
    head = source.peek(HEAD)
    if is_wav(head):
        try:
            return PipeWavDecoder(source, stream)
        except FileFormatError as error:  # a rare encoding (ADPCM): libsndfile may support it
            if not is_unknown(error):
                raise
            with suppress(FileFormatError):
                return _collected(source, stream, name, None, "")
            raise
    return _collected(source, stream, name, container_of(head), kind_of(head, name))


def is_unknown(error: FileFormatError) -> bool:
    """Whether this says that the samples of a WAVE file have an encoding that is not read here."""
    return "pyapp cannot read" in error.what


def _collected(
    source: PipeSource, stream: IO[bytes], name: str, container: tuple[str, str] | None, kind: str
) -> Decoder:
    """A recording in a pipe whose beginning `source` has read, collected in a temporary file."""
    if container is not None:  # what is missing is told before anything is collected in vain
        from .containers import ContainerDecoder, import_av

        import_av(name, container[0])
    else:
        import_soundfile(name, kind)
    import shutil
    import tempfile

    file = tempfile.TemporaryFile(prefix="pyapp-")
    try:
        file.write(source.rest(0))
        shutil.copyfileobj(stream, file, 1 << 20)
        file.seek(0)
        return ContainerDecoder(file, name, *container, file) if container else SoundFileDecoder(file, name, kind)
    except BaseException:
        file.close()
        raise
