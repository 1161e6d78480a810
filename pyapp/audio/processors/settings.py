"""What settings of processors have in common: fields of preprocessor_config.json, and those of config.json that must
fit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pyapp.errors import ModelError

from ..constants import SAMPLE_RATE


class RecordingProcessor:
    """Base of what makes a model's input of recordings. heard: the samples a second that models hear; None: any."""

    heard: ClassVar[int | None] = SAMPLE_RATE

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], where: str = "preprocessor_config.json") -> Self:
        """From the object of a preprocessor_config.json or processor_config.json, in which that of a feature extractor
        may be. ModelError for another rate, and for fields that say something else than what this makes.
        """
        own = settings.get("feature_extractor", settings.get("audio_processor"))
        settings = own if isinstance(own, Mapping) else settings
        rate = settings.get("sampling_rate", cls.heard)
        if cls.heard is not None and rate != cls.heard:
            raise ModelError(
                f"the model hears {rate!r:.40} samples a second, expected {cls.heard:,}", where=where,
                hint=f"Choose a model for {cls.heard // 1000} kHz",
            )  # fmt: skip
        return cls.from_fields(settings, where)

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        """From the object of a feature extractor. ModelError as of from_settings."""
        raise NotImplementedError


def expect(settings: Mapping[str, Any], where: str, **usual: Any) -> None:
    """ModelError for a field that has another value than the usual one; it may be left out."""
    for name, wanted in usual.items():
        if (given := settings.get(name, wanted)) != wanted:
            raise ModelError(f"{name} is {given!r:.40}, expected {wanted!r}", where=where)


def whole_number(settings: Mapping[str, Any], where: str, names: str, usual: int, most: int) -> int:
    """The whole number from 1 to `most` in the first of the fields `names`, separated by spaces, that there is; the
    usual one without them. ModelError for anything else.
    """
    name, *_ = own = names.split()
    found = next((settings[key] for key in own if key in settings), usual)
    if type(found) not in (int, float) or not 1 <= found <= most or found != int(found):
        raise ModelError(f"{name} is {found!r:.40}, expected a whole number up to {most:,}", where=where)
    return int(found)


def part_of(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object of a part in a config.json; empty where there is none."""
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def check_same(made: int, read: Any, where: str, what: str = "bins") -> None:
    """ModelError where the model `where` reads another number of bins than a processor makes."""
    if read != made:
        raise unfit(f"it makes {made} {what}, the model reads {read!r:.20}", where)


def unfit(what: str, where: str) -> ModelError:
    """The error for a processor that makes other input than the model `where` reads."""
    return ModelError(
        what, where=f"{where}: preprocessor_config.json", hint="Give the file that belongs to the weights"
    )


def audio_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The audio_config of a config.json, which may be in that of a thinker; empty where there is none."""
    return part_of(part_of(config, "thinker_config") if "thinker_config" in config else config, "audio_config")
