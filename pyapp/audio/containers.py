"""The sound of MP4, M4A, WebM, Matroska, AAC, AMR, Windows Media and Flash files, by the libraries of FFmpeg, if the
package PyAV is installed (https://pyav.basswood-io.com).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError
from pyapp.formats.source import close_source

from .unreadable import conversion, unreadable
from .wav import CHANNEL_LIMIT, RATES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def import_av(name: str, kind: str) -> Any:
    """The package PyAV; FileFormatError with a hint if it is missing."""
    try:
        import av  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        in_page = sys.platform == "emscripten"
        install = "" if in_page else "Install it with pip install 'pyapp[media]', or convert the recording: "
        raise FileFormatError(
            f"{kind} needs the package av, which is not installed", where=name, hint=install + conversion(name)
        ) from error
    return av


class ContainerDecoder:
    """A Decoder of the first sound in a file. A damaged file ends at the damage.

    FFmpeg gets the kind of the file: it does not guess kinds that would name other files or addresses.
    """

    def __init__(self, file: Any, name: str, kind: str, form: str, owned: Any = None) -> None:
        av = import_av(name, kind)
        self.name, self._kind, self._owned = name, kind, owned
        self._error = (av.error.FFmpegError, ValueError)
        try:
            self._container = av.open(file, format=form, metadata_errors="ignore")
        except self._error as error:
            raise unreadable(name, kind, reason(error)) from error
        streams = self._container.streams.audio
        if not streams:
            self._container.close()
            raise FileFormatError(f"this is {kind} without sound", where=name, hint="Give a recording with sound")
        self._stream = streams[0]
        context = self._stream.codec_context
        if context is None:  # FFmpeg has no decoder for what the file says
            self._container.close()
            raise unreadable(name, kind, "its sound is in an unknown format")
        self.rate, self.channels = int(context.sample_rate or 0), int(context.channels or 0)
        if self.rate not in RATES or not 1 <= self.channels <= CHANNEL_LIMIT:
            self._container.close()
            raise unreadable(name, kind, f"{self.channels} channels at {self.rate:,} Hz")
        known = self._container.duration  # microseconds
        self.frames = int(known * self.rate / 1e6) if known and known > 0 else None
        self.ended_early: str | None = None
        self._resampler = av.AudioResampler(format="flt", layout=context.layout, rate=self.rate)
        self._rest = np.empty((0, self.channels), np.float32)
        self._blocks = self._decoded()

    def _decoded(self) -> Iterator[NDArray[np.float32]]:
        """The samples (frames, channels) as they are decoded."""
        seen = False
        try:
            for frame in self._container.decode(self._stream):
                for part in self._resampler.resample(frame):
                    seen = True
                    yield part.to_ndarray().reshape(-1, self.channels)
        except self._error as error:
            if not seen:
                raise unreadable(self.name, self._kind, reason(error)) from error
            self.ended_early = reason(error)

    def read(self, count: int) -> NDArray[np.float32]:
        found, length = [self._rest], len(self._rest)
        while length < count and (block := next(self._blocks, None)) is not None:
            found.append(block)
            length += len(block)
        whole = np.concatenate(found) if len(found) > 1 else found[0]
        self._rest = whole[count:]
        return whole[:count]

    def close(self) -> None:
        self._container.close()
        if isinstance(self._owned, io.IOBase):
            self._owned.close()
        elif self._owned is not None:
            close_source(self._owned)


def reason(error: Exception) -> str:
    """FFmpeg's message without its number."""
    text = str(getattr(error, "strerror", None) or error).strip().rstrip(".")
    return text[:1].lower() + text[1:]
