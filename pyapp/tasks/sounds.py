"""Tasks over recordings that are not about their words: labels of each.

A recording is a file (a path, bytes, a ByteSource) or float samples (N,) at 16 kHz.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.errors import ArgumentError, OptionError
from pyapp.events import Done, Item, Notice, Progress

from .text_batches import Work
from .texts import check_top, ranked_labels, stream_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST = 300.0  # seconds that are heard together


def listed(sounds: Any) -> list[Any]:
    """One recording, or several, as a list."""
    return list(sounds) if isinstance(sounds, list | tuple) else [sounds]


def name_of(sound: Any) -> str | None:
    """What errors call a recording."""
    return os.fspath(sound) if isinstance(sound, str | os.PathLike) else getattr(sound, "name", None)


def check_files(sounds: Any, *_: Any, **more: Any) -> None:
    """OSError for a recording whose file is not there."""
    for sound in listed(sounds):
        if isinstance(sound, str | os.PathLike):
            os.stat(sound)


def samples_of(sound: Any, most: float, whole: bool) -> tuple[NDArray[np.float32], bool]:
    """float32 (N,) at 16 kHz of the first `most` seconds of a recording, and whether there are more. OptionError for
    more, if the `whole` is needed.
    """
    from pyapp.audio import SAMPLE_RATE, open_audio

    limit, parts, count = round(most * SAMPLE_RATE), [np.zeros(0, np.float32)], 0
    with open_audio(sound) as reader:
        for block in reader:
            parts.append(np.asarray(block, np.float32))
            count += len(block)
            if count > limit:
                break
    if count > limit and whole:
        raise OptionError(
            f"it has more than {most:.0f} seconds, which the model would hear together", where=name_of(sound),
            hint="Give a part of it",
        )  # fmt: skip
    return np.concatenate(parts)[:limit], count > limit


def label_sounds(loaded: Any, sounds: Sequence[Any], *, top: int | None = 5) -> Work:
    """Items with `labels`: the names and probabilities of a recording's labels, the most probable first, at most `top`
    of them (None: all). Models that read spectrograms hear the beginning of a longer recording, which a Notice tells.
    """
    check_top(top)
    sounds = listed(sounds)
    heard = getattr(loaded.processor, "seconds", None)
    for index, sound in enumerate(sounds):
        samples, more = samples_of(sound, heard or LONGEST, heard is None)
        device = loaded.model.device
        yield None
        if more:
            yield Notice(f"only the first {heard:.1f} seconds are heard", where=name_of(sound))
        try:
            values, mask = loaded.processor([samples])
            with no_grad():
                scores = loaded.model(values.to(device), None if mask is None else mask.to(device))
        except ArgumentError as error:
            raise OptionError(f"it is too short: {error.what}", where=name_of(sound)) from error
        [row] = scores.to("float32").tolist()
        yield Item(index, {"labels": ranked_labels(loaded, row, top)})
        yield Progress("recordings", index + 1, len(sounds), "recordings")
    yield Done("complete", {"count": len(sounds)})


classify_sounds = stream_of("classify-sound", label_sounds, remote=False, check=check_files)
