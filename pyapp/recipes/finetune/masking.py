"""Whether training hides stretches of time and of frequencies (SpecAugment), by config.json and by what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError
from pyapp.nn.audio.spec_augment import LONGEST, MaskedEncoder, SpecAugment
from pyapp.text.generation.options import check_number

from .whole import WholeSettings


@dataclass(frozen=True)
class MaskedSettings(WholeSettings):
    """As WholeSettings. spec_augment: whether stretches are hidden; None: if one of the others is given, or config.json
    has apply_spec_augment true. The others, of which None is what config.json says: the shares of time and of features
    (Whisper: of the bins of the spectrogram) to hide, and the lengths of stretches.
    """

    rows: int = 8
    spec_augment: bool | None = None
    mask_time_prob: float | None = None
    mask_time_length: int | None = None
    mask_feature_prob: float | None = None
    mask_feature_length: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in self._asked().items():
            if name.endswith("prob"):
                check_number(name, value, 0, 1)
            else:
                check_number(name, value, 1, LONGEST, whole=True)

    def _asked(self) -> dict[str, Any]:
        """The settings mask_… that are given."""
        names = [field.name for field in fields(MaskedSettings) if field.name.startswith("mask_")]
        given = asdict(self)
        return {name: given[name] for name in names if given[name] is not None}

    def masking(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], SpecAugment | None]:
        """The object of a config.json with what is asked, and what hides stretches, if anything does. OptionError if
        it is asked for with shares of 0.
        """
        asked = self._asked()
        if self.spec_augment is None and not asked:
            found = SpecAugment.from_settings(config) if config.get("apply_spec_augment") is True else None
            return {**config}, found
        if self.spec_augment is False:
            return {**config, "apply_spec_augment": False}, None
        changed = {**config, **asked, "apply_spec_augment": True}
        found = SpecAugment.from_settings(changed)
        if found is None:
            raise OptionError(
                "mask_time_prob and mask_feature_prob are 0, so nothing would be hidden", where="spec_augment",
                hint="Give a share of the time, such as 0.05",
            )  # fmt: skip
        return changed, found

    def mask(self, model: Any, config: Mapping[str, Any]) -> dict[str, Any]:
        """Lets the encoder of a model hide stretches in training; returns the object of config.json for it. OptionError
        if that is asked of a model that does not know it.
        """
        changed, masking = self.masking(config)
        encoder = getattr(model, "encoder", None)
        if isinstance(encoder, MaskedEncoder):
            encoder.hide_in_training(masking)
        elif self.spec_augment or self._asked():
            raise OptionError(
                f"models of the architecture {config.get('model_type')!r:.40} hide nothing in training",
                where="spec_augment", hint="Leave it out",
            )  # fmt: skip
        else:
            return {**config}
        return changed


__all__ = ["MaskedSettings"]
