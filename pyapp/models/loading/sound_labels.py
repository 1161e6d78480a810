"""Load models that name what a recording, or each of its moments, is of: wav2vec 2.0, HuBERT, WavLM and the Audio
Spectrogram Transformer with a head for labels, or CLAP for labels of one's own; models that make a vector of a voice;
and what prepares their sound.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyapp.audio.processors.banks import FilterBankProcessor
from pyapp.audio.processors.decibels import DecibelProcessor
from pyapp.audio.processors.samples import SampleProcessor
from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource
from pyapp.models.load import settings_beside

from .architectures import architecture_for
from .building import ready_model
from .by_task import check_tokenizer
from .heads import own_task, with_labels
from .loaded import Loaded
from .pictures import MORE_FILES, tokenizer_of
from .task_files import task_files

if TYPE_CHECKING:
    from pyapp.engine.device import Device

TASK, MATCHING, VOICES = "audio-classification", "zero-shot-audio-classification", "audio-xvector"
MOMENTS = "audio-frame-classification"
SPECTROGRAMS = "audio-spectrogram-transformer"  # the model_type that reads them


@dataclass(frozen=True)
class LoadedSoundClassifier(Loaded):
    """A model, what prepares its sound, the object of its config.json, and the tokenizer of one with texts."""

    processor: Any
    settings: dict[str, Any]
    tokenizer: Any = None


def load_sound_classifier(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    labels: Sequence[str] | None = None,
    moments: bool = False,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedSoundClassifier:
    """Loads a folder of Hugging Face's, its files by their names, or a name on the hub such as
    MIT/ast-finetuned-audioset-10-10-0.4593 or superb/wav2vec2-base-superb-ks: config.json, preprocessor_config.json and
    the weights. moments: for a model with labels of each moment, such as anton-l/wav2vec2-base-superb-sd.

    dtype, labels, the errors and events are those of `load_task_model`; ModelError too for a preprocessor_config.json
    that belongs to another model.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    task = MOMENTS if moments else TASK
    name, files, settings = task_files(source, task, report, cancel, new_head=labels is not None)
    settings |= {} if labels is None else with_labels(labels)
    prepares = settings_beside(files, "preprocessor_config")
    processor = _processor(settings, prepares)
    model = ready_model(files, settings, task, dtype, device, report, cancel, labels is not None)
    if isinstance(processor, FilterBankProcessor):
        read = model.config.max_length, model.config.num_mel_bins
        if (processor.frames, processor.bins) != read:
            raise _other_models(name, processor, f"{read[0]} of {read[1]}")
    return LoadedSoundClassifier(name, model, processor, settings)


def load_sound_matcher(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedSoundClassifier:
    """As load_sound_classifier, for a model of recordings and texts such as laion/clap-htsat-unfused, with its
    tokenizer.
    """
    return _load(source, MATCHING, dtype, device, report, cancel)


def load_sound_embedder(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedSoundClassifier:
    """A model that makes vectors of recordings: as load_sound_matcher; or of voices, such as
    microsoft/wavlm-base-plus-sv, which has no tokenizer.
    """
    return _load(
        source, lambda settings: VOICES if own_task(settings) == VOICES else MATCHING, dtype, device, report, cancel
    )


def _load(
    source: Any, task: str | Callable[[Mapping[str, Any]], str], dtype: str | None, device: Device | str | None,
    report: Callable[[Event], None] | None, cancel: Cancel | None,
) -> LoadedSoundClassifier:  # fmt: skip
    """The model that makes vectors of recordings."""
    report, cancel = report or (lambda event: None), cancel or Cancel()
    name, files, settings = task_files(source, task, report, cancel, MORE_FILES)
    prepares = settings_beside(files, "preprocessor_config")
    if own_task(settings) == VOICES:
        voices = ready_model(files, settings, VOICES, dtype, device, report, cancel)
        return LoadedSoundClassifier(name, voices, _processor(settings, prepares), settings)
    tokenizer = tokenizer_of(source, name, files)
    model = ready_model(files, settings, MATCHING, dtype, device, report, cancel)
    check_tokenizer(tokenizer, model, name)
    heard = model.config.audio_config
    processor = replace(DecibelProcessor.from_settings(prepares), fused=heard.enable_fusion)
    if processor.bins != heard.num_mel_bins or processor.frames > heard.spec_size * heard.fold:
        raise _other_models(name, processor, f"up to {heard.spec_size * heard.fold} of {heard.num_mel_bins}")
    return LoadedSoundClassifier(name, model, processor, settings, tokenizer)


def _processor(settings: Mapping[str, Any], prepares: Mapping[str, Any]) -> Any:
    """What prepares the sound for an architecture: banks, those of the architecture's own, or samples."""
    if settings["model_type"] == SPECTROGRAMS:
        return FilterBankProcessor.from_settings(prepares)
    module = architecture_for(settings["model_type"], TASK)
    found = getattr(module, "PROCESSOR", SampleProcessor).from_settings(prepares)
    if hasattr(found, "check"):
        found.check(settings, "preprocessor_config.json")
    return found


def _other_models(name: str, processor: FilterBankProcessor | DecibelProcessor, read: str) -> ModelError:
    """The error for a preprocessor_config.json of another model."""
    return ModelError(
        f"it makes {processor.frames} frames of {processor.bins} bins, the model reads {read}",
        where=f"{name}: preprocessor_config.json", hint="Give the file that belongs to the weights",
    )  # fmt: skip
