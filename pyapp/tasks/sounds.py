"""Tasks over recordings that are not about their words: labels of each and of its moments, and vectors.

A recording is a file (a path, bytes, a ByteSource) or float samples (N,) at 16 kHz.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyapp.engine import no_grad
from pyapp.engine.lazy import np
from pyapp.errors import ArgumentError, OptionError
from pyapp.events import Done, Item, Notice, Progress

from .given_files import check_files, listed
from .label_vectors import embedding_items, vectors_of_labels, vectors_of_texts
from .text_batches import Work, checked_texts
from .texts import check_top, ranked, ranked_labels, stream_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST = 300.0  # seconds that are heard together


def name_of(sound: Any) -> str | None:
    """What errors call a recording."""
    return os.fspath(sound) if isinstance(sound, str | os.PathLike) else getattr(sound, "name", None)


def samples_of(sound: Any, most: float, whole: bool, rate: int = 16000) -> tuple[NDArray[np.float32], bool]:
    """float32 (N,) at `rate` of the first `most` seconds of a recording, and whether there are more. OptionError for
    more, if the `whole` is needed.
    """
    from pyapp.audio.reader import read_beginning

    samples, more = read_beginning(sound, most, rate)
    if more and whole:
        raise OptionError(
            f"it has more than {most:.0f} seconds, which the model would hear together", where=name_of(sound),
            hint="Give a part of it",
        )  # fmt: skip
    return samples, more


@contextmanager
def long_enough(sound: Any) -> Iterator[None]:
    """Around the work of a model with a recording: OptionError for one that is too short."""
    try:
        yield
    except ArgumentError as error:
        raise OptionError(f"it is too short: {error.what}", where=name_of(sound)) from error


def heard_of(loaded: Any, sound: Any) -> tuple[Any, Any, Notice | None]:
    """The values and the mask of a recording as the model's processor makes them, and a Notice where it is longer than
    what the model hears. OptionError for one that is too short, or too long to be heard together.
    """
    heard = getattr(loaded.processor, "seconds", None)
    rate = getattr(loaded.processor, "rate", 16000)
    samples, more = samples_of(sound, heard or LONGEST, heard is None, rate)
    notice = Notice(f"only the first {heard:.1f} seconds are heard", where=name_of(sound)) if more else None
    with long_enough(sound):
        values, mask = loaded.processor([samples])
    device = loaded.model.device
    return values.to(device), None if mask is None else mask.to(device), notice


def label_sounds(loaded: Any, sounds: Sequence[Any], *, top: int | None = 5) -> Work:
    """Items with `labels`: the names and probabilities of a recording's labels, the most probable first, at most `top`
    of them (None: all). Models that read spectrograms hear the beginning of a longer recording, which a Notice reports.
    """
    check_top(top)
    sounds = listed(sounds)
    for index, sound in enumerate(sounds):
        values, mask, notice = heard_of(loaded, sound)
        yield notice
        with long_enough(sound), no_grad():
            scores = loaded.model(values, mask)
        [row] = scores.to("float32").tolist()
        yield Item(index, {"labels": ranked_labels(loaded, row, top)})
        yield Progress("recordings", index + 1, len(sounds), "recordings")
    yield Done("complete", {"count": len(sounds)})


def labels_of_moments(loaded: Any, sounds: Sequence[Any], *, threshold: float = 0.5) -> Work:
    """Items with `labels`: where each label of a recording's moments holds, such as who speaks, in the order of time:
    {"label", "start", "end", "score"}, in seconds, with the mean probability of its moments. Each moment has the labels
    whose probability is at least `threshold`; there may be several, or none.
    """
    if not isinstance(threshold, int | float) or not 0 < threshold < 1:
        raise OptionError(f"{threshold!r} is not between 0 and 1", where="threshold")
    sounds = listed(sounds)
    for index, sound in enumerate(sounds):
        values, mask, notice = heard_of(loaded, sound)
        yield notice
        with long_enough(sound), no_grad():
            chances = loaded.model(values, mask).to("float32").sigmoid().cpu().numpy()[0]  # (T, labels)
        step = loaded.model.config.samples_per_moment / getattr(loaded.processor, "rate", 16000)
        found = [
            {
                "label": name, "start": first * step, "end": end * step,
                "score": float(chances[first:end, column].mean()),
            }
            for column, name in enumerate(loaded.model.config.labels)
            for first, end in _runs(chances[:, column] >= threshold)
        ]  # fmt: skip
        yield Item(index, {"labels": sorted(found, key=lambda part: (part["start"], part["end"]))})
        yield Progress("recordings", index + 1, len(sounds), "recordings")
    yield Done("complete", {"count": len(sounds)})


def _runs(holds: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The first and one past the last moment of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def match_labels(
    loaded: Any, sounds: Sequence[Any], labels: Sequence[str], *, template: str | None = None, top: int | None = 5
) -> Work:
    """Items with `labels`: how probably each of the given labels says what is heard in a recording, the most probable
    first, at most `top` of them (None: all). The probabilities of all add up to 1.

    `template` makes a text of a label, which takes the place of {}; by default that of the model.
    """
    check_top(top)
    sounds = listed(sounds)
    texts = yield from vectors_of_labels(loaded, labels, template)
    for index, sound in enumerate(sounds):
        values, _, notice = heard_of(loaded, sound)
        yield notice
        with no_grad():
            [row] = loaded.model.scores(loaded.model.sound_features(values), texts).to("float32").tolist()
        yield Item(index, {"labels": ranked(list(labels), row, loaded.model.independent, top)})
        yield Progress("recordings", index + 1, len(sounds), "recordings")
    yield Done("complete", {"count": len(sounds)})


def vectors_of_sounds(loaded: Any, sounds: Sequence[Any], texts: Sequence[str] = ()) -> Work:
    """Items with `embedding`, a list of floats of length 1: those of the recordings, then those of the texts, which are
    near one another where a text says what is heard. Those of a model of voices are near one another where the speaker
    is the same; it reads no texts. Done with `dimensions`.
    """
    sounds, texts, width = listed(sounds), checked_texts(texts), 0
    if texts and loaded.tokenizer is None:
        raise OptionError("this model reads none", where="texts", hint="Leave them out, or take a model such as CLAP")
    for index, sound in enumerate(sounds):
        values, _, notice = heard_of(loaded, sound)
        yield notice
        with long_enough(sound), no_grad():
            found = loaded.model.sound_features(values)
        width = found.shape[1]
        yield from embedding_items(index, found)
        yield Progress("recordings", index + 1, len(sounds), "recordings")
    if texts:
        found = yield from vectors_of_texts(loaded, texts)
        width = found.shape[1]
        yield from embedding_items(len(sounds), found)
    yield Done("complete", {"count": len(sounds) + len(texts), "dimensions": width})


classify_sounds = stream_of("classify-sound", label_sounds, remote=False, check=check_files)
label_moments = stream_of("label-sound", labels_of_moments, remote=False, check=check_files)
match_sounds = stream_of("match-sound", match_labels, remote=False, check=check_files)
embed_sounds = stream_of("embed-sound", vectors_of_sounds, remote=False, check=check_files)
