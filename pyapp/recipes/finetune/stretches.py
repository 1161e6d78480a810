"""Stretches of long recordings: their samples in a file that lasts as long as the training."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Self

from pyapp.audio.reader import open_audio
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import NO_ROOM, StorageFullError
from pyapp.train.folders import prepare_folder


class StretchFile:
    """The samples of stretches, float32, in a file without a name in a folder: long recordings are slow to read from
    their middle, and may not fit into memory. A context manager.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack, self._count = folder, ExitStack(), 0
        self._file: IO[bytes] | None = None

    def add(self, samples: Any, recording: Path) -> Stretch:
        """Keeps float32 samples (N,) of a recording. StorageFullError if there is no room for them."""
        if self._file is None:
            prepare_folder(self._folder)
            self._file = self._stack.enter_context(TemporaryFile(dir=self._folder))
        first, self._count = self._count, self._count + len(samples)
        try:
            self._file.seek(4 * first)
            self._file.write(np.ascontiguousarray(samples, np.float32).data)
            self._file.flush()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise StorageFullError(
                "there is no room for the samples of long recordings, 230 MB for an hour", where=str(self._folder),
                hint="Free some space, or take another folder",
            ) from error  # fmt: skip
        return Stretch(self, first, len(samples), recording)

    def read(self, first: int, count: int) -> Any:
        """float32 (count,)."""
        assert self._file is not None
        self._file.seek(4 * first)
        return np.frombuffer(bytearray(self._file.read(4 * count)), np.float32)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()


@dataclass(frozen=True, eq=False)
class Stretch:
    """`count` samples of a recording, which are those from `first` on in a file of stretches."""

    file: StretchFile
    first: int
    count: int
    recording: Path


def recording_of(sound: Path | Stretch) -> Path:
    """The recording that a sound is or is a stretch of."""
    return sound.recording if isinstance(sound, Stretch) else sound


def samples_of(sound: Path | Stretch) -> Any:
    """A recording or a stretch of one as float32 (samples,) at 16 kHz."""
    if isinstance(sound, Stretch):
        return sound.file.read(sound.first, sound.count)
    with open_audio(sound) as reader:
        return np.concatenate(list(reader))
