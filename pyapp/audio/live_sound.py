"""The sound of live speech that is not written for good yet: what live transcribers of all kinds share."""

from __future__ import annotations

from collections.abc import Iterator

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event

MARGIN = 0.5  # seconds of silence that are kept before speech


@dataclass(frozen=True)
class LiveOptions:
    """When to decode, in seconds. `interval`: new sound between two decodings, more if the model is slower. `pause`:
    silence that ends an utterance. `trim`: length of sound above which the sound of final words is dropped. `longest`:
    length of sound above which words become final without agreement. OptionError unless 0 < interval <= trim < longest
    <= 28.
    """

    interval: float = 0.5
    pause: float = 0.8
    trim: float = 10.0
    longest: float = 20.0

    def __post_init__(self) -> None:
        if not (0 < self.interval <= self.trim < self.longest <= 28 and self.pause > 0):
            raise OptionError("needs 0 < interval <= trim < longest <= 28, and a pause", where="LiveOptions")

    @classmethod
    def for_window(cls, seconds: float) -> LiveOptions:
        """The options for a model with windows of this length: the sound that is kept fits one window."""
        return cls(trim=min(cls.trim, 0.6 * seconds), longest=min(cls.longest, 0.9 * seconds))


class LiveSound:
    """A stream of samples at 16 kHz. A class of transcribers defines `_look(finished)`, which hears what is new and
    gives the events; all words are final where `finished`.
    """

    def __init__(self, live: LiveOptions, cancel: Cancel | None) -> None:
        self._live, self._cancel = live, cancel or Cancel()
        self._sound = np.zeros(0, np.float32)  # (samples,)
        self._offset = 0  # samples that were dropped
        self._heard_to = 0  # samples of the stream that were heard
        self._cost = 0.0  # seconds that hearing took the last time

    @property
    def seconds(self) -> float:
        """Seconds received so far."""
        return (self._offset + len(self._sound)) / SAMPLE_RATE

    @property
    def cost(self) -> float:
        """Seconds that hearing took the last time, of at most one window."""
        return self._cost

    @property
    def _waiting(self) -> float:
        """Seconds of sound that were not heard yet."""
        return self.seconds - self._heard_to / SAMPLE_RATE

    def finish(self) -> list[Event]:
        """Makes all words final; the transcriber can continue with another utterance."""
        return list(self._look(True))

    def _look(self, finished: bool) -> Iterator[Event]:
        raise NotImplementedError

    def _let_go(self, count: int) -> int:
        """Drops the first samples, and returns how many these are."""
        count = min(max(0, count), len(self._sound))
        self._sound = self._sound[count:].copy()
        self._offset += count
        return count
