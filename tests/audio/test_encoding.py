"""Windows of several recordings encoded together give what each gives alone."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyapp.audio.encoding import TOGETHER, WindowEncoder
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.transcribe import encoder_of, transcribe_events
from pyapp.engine.ops import from_numpy
from pyapp.errors import Cancelled
from pyapp.events import Cancel, Event, Metric, Progress
from pyapp.models.whisper import Config, Whisper
from pyapp.models.whisper.weights import fill

from .speech_model import Shape, sound

OPTIONS = TranscribeOptions(temperature=0.0)
SECONDS = (4.0, 35.0, 9.0)


@cache
def loaded() -> Any:
    shape = Shape("together")
    values = shape.weights()
    model = Whisper.empty(Config(**shape.config()))
    fill(model, values, lambda name: from_numpy(values[name]))
    return SimpleNamespace(model=model, tokenizer=shape.tokenizer())


def kept(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Progress | Metric)]


def test_recordings_share_the_encoder() -> None:
    recordings = [sound(seconds, seed) for seed, seconds in enumerate(SECONDS)]
    alone = [kept(list(transcribe_events(loaded(), recording, OPTIONS))) for recording in recordings]
    encoder, leaving = encoder_of(loaded()), Cancel()
    running = {
        place: transcribe_events(loaded(), recording, OPTIONS, encoder=encoder)
        for place, recording in enumerate(recordings)
    }
    running[len(recordings)] = transcribe_events(loaded(), recordings[0], OPTIONS, leaving, encoder=encoder)
    found: dict[int, list[Event]] = {place: [] for place in running}
    ended = []
    while running:  # one event of each in turn, as on the thread of a server
        for place, events in list(running.items()):
            try:
                event = next(events, None)
            except Cancelled:
                event = None
            if event is None:
                del running[place]
                ended.append(place)
            else:
                found[place].append(event)
        leaving.set()  # after its first window was put beside the others
    assert [kept(found[place]) for place in range(len(recordings))] == alone  # to the last bit of each probability
    assert ended.index(0) < ended.index(1)  # the short one did not wait for the long one
    assert encoder.passes < encoder.windows and encoder.windows <= 2 * len(recordings) + 4


def test_windows_that_wait_are_limited_and_left_out() -> None:
    seen: list[int] = []

    def encode(mel: Any) -> Any:
        seen.append(mel.shape[0])
        if mel.shape[0] == 2:
            raise MemoryError
        return mel.narrow(1, 0, 1)  # (B, 1, F)

    encoder = WindowEncoder(SimpleNamespace(encode=encode), 6)
    windows = [encoder.put(np.full((2, 4), number, np.float32)) for number in range(TOGETHER + 3)]
    encoder.drop(windows[1])
    last = windows[-1].take()
    assert last.shape == (1, 1, 6) and last.tolist() == [[[TOGETHER + 2.0] * 4 + [0.0] * 2]]  # padded with zeros
    assert [window.audio is not None for window in windows] == [True, False] + [True] * (TOGETHER - 2) + [
        False, False, True
    ]  # fmt: skip
    with pytest.raises(MemoryError):
        windows[-2].take()
    assert windows[-3].take().tolist()[0][0][0] == TOGETHER  # one that failed is not tried again with others
    assert seen == [TOGETHER, 2, 1]
