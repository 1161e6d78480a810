"""Trains a model of sound (wav2vec 2.0, HuBERT, WavLM, Audio Spectrogram Transformer …) further as a classifier of
recordings, on a folder of folders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyapp.audio.reader import read_beginning
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.errors import ArgumentError, FileFormatError
from pyapp.events import Event, Notice, Progress
from pyapp.models.loading.sound_labels import TASK, load_sound_classifier

from .class_folders import Classified, FolderTraining
from .masking import MaskedSettings
from .steps import Request

SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".webm", ".mp4")
RATE = 16000  # samples a second
LONGEST = 30.0  # seconds that are heard of a recording, unless the model hears fewer


@dataclass(frozen=True)
class SoundSettings(MaskedSettings):
    """As MaskedSettings."""


class SoundTraining(FolderTraining):
    """Recordings, of each the first 30 s or what the model hears, and their labels."""

    task = TASK
    unit = "nats/recording"
    kind, suffixes = "recording", SUFFIXES
    judged_at_once = 4  # a recording's numbers in the first layers take hundreds of megabytes

    @classmethod
    def load(cls, request: Request, labels: Sequence[str]) -> Any:
        loaded = load_sound_classifier(
            request.model, dtype="float32", device=request.device, cancel=request.cancel, labels=labels
        )
        return replace(loaded, settings=request.settings_as(SoundSettings).mask(loaded.model, loaded.settings))

    @classmethod
    def check(cls, loaded: Any, rows: Sequence[Classified], request: Request) -> Iterator[Event]:
        """Reads each recording once. FileFormatError for one that is damaged or too short."""
        longer, seconds = 0, heard_by(loaded)
        for done, row in enumerate(rows):
            request.cancel.check()
            samples, more = read_beginning(row.path, seconds, RATE)
            longer += more
            try:
                if len(samples) < RATE:  # maybe too short for the first layers, which say so
                    with no_grad():
                        logits_of(loaded, loaded.model, [samples])
            except ArgumentError as error:
                raise FileFormatError(f"it is too short: {error.what}", where=str(row.path)) from error
            yield Progress("reading the recordings", done + 1, len(rows), "recordings")
        if longer:
            yield Notice(f"of {longer:,} of {len(rows):,} recordings only the first {seconds:.3g} s are heard")

    def outputs(self, model: Any, rows: Sequence[Classified]) -> tuple[Tensor, ...]:
        """Logits (B, labels)."""
        samples = [read_beginning(row.path, heard_by(self.loaded), RATE)[0] for row in rows]
        with self.region():
            found = logits_of(self.loaded, model, samples)
        return (found.float(),)

    def class_name(self, settings: Mapping[str, Any]) -> str:
        """That of the model, which has transformers' name."""
        return type(self.model).__name__


def heard_by(loaded: Any) -> float:
    """The seconds of a recording that a model hears in training."""
    return float(getattr(loaded.processor, "seconds", LONGEST))


def logits_of(loaded: Any, model: Any, recordings: Sequence[Any]) -> Tensor:
    """Recordings, each float32 (N,), → logits (B, labels). ArgumentError for one that is too short."""
    device = loaded.model.device
    values, mask = loaded.processor(recordings)  # (B, N) or (B, frames, bins); (B, N)
    found: Tensor = model(values.to(device), None if mask is None else mask.to(device))
    return found


def finetune_sounds(request: Request) -> Iterator[Event]:
    """FolderTraining.finetune of recordings, with the settings of SoundSettings."""
    return SoundTraining.finetune(request, SoundSettings)


__all__ = ["finetune_sounds"]
