"""VibeVoice-ASR (Microsoft 2026, arXiv 2601.18184): two encoders of filters over the samples so far, one of how it
sounds and one of what is said, whose vectors stand, projected and added, in the text of a Qwen2, which writes who says
what, from when to when, as JSON.

The encoder of the sound gives the middle of what it could be; transformers adds noise to it unless told otherwise.
Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pyapp.audio.processors.samples import LevelledSampleProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.formats.safe_json import check_nesting
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.audio.causal_convolutions import Encoder
from pyapp.nn.audio.sound_text import SECONDS, SoundTextModel

from .loading import sound_text
from .loading.audio_tokenizer_config import LONGEST, AudioTokenizerConfig
from .loading.config import read_config, require, stated
from .loading.picture_text import MixedTextConfig

MODEL_TYPES = ("vibevoice_asr",)
BASE = ""
IGNORED = r"(model\.)?(acoustic|semantic)_tokenizer_decoder\..*"
PROCESSOR = LevelledSampleProcessor
EPSILON = 1e-6  # of the projector's norms
PROMPT = (
    "<|im_start|>system\nYou are a helpful assistant that transcribes audio input into text output in JSON format."
    "<|im_end|>\n<|im_start|>user\n<|object_ref_start|>{}<|object_ref_end|>\nThis is a " + SECONDS + " seconds audio, "
    "please transcribe it with these keys: Start time, End time, Speaker ID, Content<|im_end|>\n"
)  # as in training; the model writes the role of who answers, too


@dataclass(frozen=True)
class Config(MixedTextConfig):
    """The configurations of all parts."""

    model_type = MODEL_TYPES[0]
    text = "qwen2"
    token = ("audio_token_id", 151648)

    acoustic: AudioTokenizerConfig
    semantic: AudioTokenizerConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        text, acoustic = cls.parts(values, "acoustic_tokenizer_encoder_config")
        _, semantic = cls.parts(values, "semantic_tokenizer_encoder_config")
        found = (read_config(AudioTokenizerConfig, part) for part in (acoustic, {"hidden_size": 128, **semantic}))
        made = cls(text, dict(values), *found)
        made.check()
        return made

    def check(self) -> None:
        """ModelError for values that cannot be."""
        super().check()
        steps, piece = [self.acoustic.step, self.semantic.step], self.piece
        require(steps[0] == steps[1], f"the encoders have moments of {steps[0]:,} and {steps[1]:,} samples")
        plausible = type(piece) is int and 0 < piece <= LONGEST and piece % steps[0] == 0
        require(plausible, f"acoustic_tokenizer_chunk_size is {piece!r:.60}, expected a multiple of {steps[0]:,}")

    piece = stated("acoustic_tokenizer_chunk_size", 1440000)  # the samples that are heard at once

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"model_type": self.model_type, "text_config": self.text_config.to_dict()}
        parts = {"acoustic": self.acoustic, "semantic": self.semantic}
        return {**self.values, **own, **{f"{key}_tokenizer_encoder_config": asdict(one) for key, one in parts.items()}}


class Projector(Module):
    """Makes vectors of the text of those of both encoders: two linear layers each, with a norm between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.text_config.hidden_size
        self.acoustic_linear_1 = Linear(config.acoustic.hidden_size, width)
        self.semantic_linear_1 = Linear(config.semantic.hidden_size, width)
        self.acoustic_norm, self.semantic_norm = (RMSNorm(width, EPSILON) for _ in range(2))
        self.acoustic_linear_2, self.semantic_linear_2 = (Linear(width, width) for _ in range(2))

    def forward(self, acoustic: Tensor, semantic: Tensor) -> Tensor:
        """acoustic and semantic (B, T, …) → (B, T, D)."""
        heard = self.acoustic_linear_2(self.acoustic_norm(self.acoustic_linear_1(acoustic)))
        return heard + self.semantic_linear_2(self.semantic_norm(self.semantic_linear_1(semantic)))


class VibeVoiceAsrForConditionalGeneration(SoundTextModel):
    """Recordings and text to text. A recording's size is (1, samples); it is heard whole."""

    placeholder = part = "<|box_start|>"
    told_besides = 200  # the tokens of JSON around what is said

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.acoustic_tokenizer_encoder = Encoder(config.acoustic)
        self.semantic_tokenizer_encoder = Encoder(config.semantic)
        self.multi_modal_projector = Projector(config)

    @property
    def tower(self) -> Module:
        return self.acoustic_tokenizer_encoder

    def stretches(self, frames: int) -> list[int]:
        return [frames]

    def tokens_in_stretch(self, frames: int) -> int:
        return -(-frames // self.config.acoustic.step)

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        """pixel_values: samples (B, 1, N) with silence behind them → (B, N / step, D). The encoders are not trained."""
        with no_grad():
            heard = [
                encoder(pixel_values, self.config.piece)
                for encoder in (self.acoustic_tokenizer_encoder, self.semantic_tokenizer_encoder)
            ]
        return self.multi_modal_projector(*heard)

    def said(self, text: str) -> str:
        """The contents of the JSON; the text itself where it is none."""
        text = text.strip().removeprefix("assistant").strip()
        parts = _objects(text)
        contents = [str(part["Content"]).strip() for part in parts if "Content" in part]
        return " ".join(contents) if contents or parts else text

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None],
        conversation: Callable[[str], str | None] = lambda _: None,
    ) -> str:  # fmt: skip
        return PROMPT.format(sound)


def _objects(text: str) -> list[dict[str, Any]]:
    """The whole objects at the beginning of an array of JSON, which may lack its end; none in one nested too deeply."""
    decoder, found, at = json.JSONDecoder(), list[dict[str, Any]](), 1
    try:
        check_nesting(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return found
    while text.startswith("[") and at < len(text):
        at += len(text) - at - len(text[at:].lstrip(" \t\n,"))
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            break
        if not isinstance(value, dict):
            break
        found.append(value)
    return found


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return sound_text.renamed(re.sub(r"^model\.((acoustic|semantic)_tokenizer_encoder\.)", r"\1", name))


TASKS: Mapping[str, Any] = {
    "speech-recognition": VibeVoiceAsrForConditionalGeneration, sound_text.TASK: VibeVoiceAsrForConditionalGeneration,
}  # fmt: skip
