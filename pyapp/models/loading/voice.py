"""Load models that speak (VITS and the voices of MMS), with their characters, and language models that write the codes
of a codec (Orpheus), or have one (CSM).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyapp.audio.frame_voice import FrameVoice, SpokenTokens
from pyapp.audio.token_voice import VOICES, TextTokens, TokenVoice
from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource, open_checkpoint
from pyapp.models.load import load_model, read_settings
from pyapp.text.voice_tokenizer import VoiceTokenizer

from .by_task import build, check_tokenizer, task_files
from .codec import load_codec
from .pictures import MORE_FILES, tokenizer_of

if TYPE_CHECKING:
    from pyapp.engine.device import Device

TASK = "text-to-speech"
VOCABULARY = "vocab.json"
FILES = re.compile(f"{re.escape(VOCABULARY)}|{MORE_FILES.pattern}")
FRAMES = ("csm",)  # model types that write the codes of moments


@dataclass(frozen=True)
class LoadedVoice:
    """A model that speaks, what reads texts for it, and the object of its config.json."""

    name: str
    model: Any
    tokenizer: VoiceTokenizer | TextTokens | SpokenTokens
    settings: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The hyper-parameters as JSON values."""
        found: dict[str, Any] = self.model.config.to_dict()
        return found

    @property
    def speakers(self) -> int:
        """How many voices the model has."""
        found: int = len(VOICES) if isinstance(self.model, TokenVoice) else self.model.config.num_speakers
        return found


def load_voice(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    codec: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedVoice:
    """Loads a folder of Hugging Face's, its files by their names, or a name on the hub such as facebook/mms-tts-eng:
    config.json, vocab.json, tokenizer_config.json and the weights, whose norms (weight_g and weight_v, or
    parametrizations) are applied once while they are read.

    `codec`: the model is a language model that writes the codes of this codec (a folder or a name, such as
    hubertsiuzdak/snac_24khz), such as canopylabs/orpheus-3b-0.1-ft: what load_model takes.

    A folder of CSM, such as sesame/csm-1b, has its codec and a tokenizer.json.

    dtype, the errors and events are those of `load_task_model`; ModelError too for characters that do not fit.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    if codec is not None:
        if isinstance(source, Mapping):
            raise ModelError("a language model that speaks is loaded from a folder, a file or the hub", where="codec")
        sound = load_codec(codec, device=device, report=report, cancel=cancel)
        loaded = load_model(source, dtype=dtype, device=device, report=report, cancel=cancel)
        speaks = TokenVoice(loaded.model, loaded.tokenizer, sound.model)
        return LoadedVoice(loaded.name, speaks, TextTokens(loaded.tokenizer), loaded.config)
    name, files, settings = task_files(source, TASK, report, cancel, FILES)
    if settings["model_type"] in FRAMES:
        words = tokenizer_of(source, name, files)
        with open_checkpoint(files["model"]) as checkpoint:
            speaker: Any = build(checkpoint, settings, TASK, dtype, device, report, cancel)
        check_tokenizer(words, speaker, name)
        return LoadedVoice(name, FrameVoice(speaker.eval(), words), SpokenTokens(words), settings)
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
