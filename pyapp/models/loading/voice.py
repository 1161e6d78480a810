"""Load models that speak (VITS and the voices of MMS), with their characters."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource, open_checkpoint
from pyapp.models.load import read_settings
from pyapp.text.voice_tokenizer import VoiceTokenizer

from .by_task import build, task_files

if TYPE_CHECKING:
    from pyapp.engine.device import Device

TASK = "text-to-speech"
VOCABULARY = "vocab.json"
FILES = re.compile(re.escape(VOCABULARY))


@dataclass(frozen=True)
class LoadedVoice:
    """A model that speaks, its characters, and the object of its config.json."""

    name: str
    model: Any
    tokenizer: VoiceTokenizer
    settings: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The hyper-parameters as JSON values."""
        found: dict[str, Any] = self.model.config.to_dict()
        return found

    @property
    def speakers(self) -> int:
        """How many voices the model has."""
        found: int = self.model.config.num_speakers
        return found


def load_voice(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedVoice:
    """Loads a folder of Hugging Face's, its files by their names, or a name on the hub such as facebook/mms-tts-eng:
    config.json, vocab.json, tokenizer_config.json and the weights, whose norms (weight_g and weight_v, or
    parametrizations) are applied once while they are read.

    dtype, the errors and events are those of `load_task_model`; ModelError too for characters that do not fit.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    name, files, settings = task_files(source, TASK, report, cancel, FILES)
    if VOCABULARY not in files:
        raise ModelError("its characters are missing", where=name, hint=f"Put the model's {VOCABULARY} beside it")
    own = read_settings(files["tokenizer_config"]) if "tokenizer_config" in files else {}
    tokenizer = VoiceTokenizer.from_files(read_settings(files[VOCABULARY]), own, f"{name}: {VOCABULARY}")
    with open_checkpoint(files["model"]) as checkpoint:
        model: Any = build(checkpoint, settings, TASK, dtype, device, report, cancel)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ModelError(
            f"there are {tokenizer.vocab_size:,} characters, the model has {model.config.vocab_size:,}", where=name,
            hint=f"Give the {VOCABULARY} that belongs to the model",
        )  # fmt: skip
    return LoadedVoice(name, model.eval(), tokenizer, settings)
