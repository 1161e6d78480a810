"""Audio Flamingo 3 (Goel et al. 2025, arXiv 2507.08128): Whisper's encoder hears stretches of 30 seconds of speech,
sounds or music, each two of its vectors become their mean, and these stand, projected, before a Qwen2. In Music
Flamingo (Ghosh et al. 2025, arXiv 2511.10289) the vectors are rotated by their moments of the recording before.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import pi
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn.audio.sound_text import MeanEncoder, SoundTextModel, TwoLayerProjector, moments_in
from pyapp.nn.vision_language.picture_text import ANY, Size

from .loading import sound_text
from .loading.config import optional_object, require
from .loading.sound_text import SoundTextConfig

MODEL_TYPES = ("audioflamingo3", "musicflamingo")
BASE = ""
TASK = "Transcribe the input speech."  # as in training
TURNS = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
    "<|im_start|>assistant\n"
)  # where the files have no chat template
# What the model says before a transcript, which it puts into quotes.
BEFORE = (
    "The spoken content of the audio is", "The transcription of the audio is", "The content of the input audio is",
)  # fmt: skip
QUOTES = ("'", '"')
# Of Music Flamingo: the base of the angles and as many positions, the part of a vector that each of both angles turns,
# and seconds of a frame, where the file does not say them.
THETA, ROTATED, FRAME = 1200.0, 0.2, 0.01
MARKS = ("<|sound_bos|>", "<|sound_eos|>")  # around a recording
JOINED = 4  # frames of a vector
MOST_POSITIONS = 1 << 16


@dataclass(frozen=True)
class Config(SoundTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text = "qwen2"
    token = ("audio_token_id", 151669)

    def check(self) -> None:
        super().check()
        if not self.rotated:
            return
        theta, share, seconds = self.rotation
        for name, value, most in (
            ("rope_theta", theta, MOST_POSITIONS), ("partial_rotary_factor", share, 0.5),
            ("audio_frame_step", seconds, 1),
        ):  # fmt: skip
            plausible = type(value) in (int, float) and 0 < value <= most
            require(plausible, f"{name} is {value!r:.60}, expected a number above 0, at most {most:,}")
        moments, width = self.audio_config.max_source_positions // 2, self.audio_config.d_model
        require(moments <= int(theta), f"rope_theta is {theta:,}, a stretch has {moments:,} vectors")
        require(int(width * share) % 2 == 0, f"partial_rotary_factor {share} turns an odd part of {width} numbers")

    @property
    def rotated(self) -> bool:
        """Whether vectors are rotated by their moments."""
        return self.values.get("model_type") == MODEL_TYPES[1]

    @property
    def rotation(self) -> tuple[Any, Any, Any]:
        """Of what turns vectors: the base, the part of a vector for each of both angles, and seconds of a frame."""
        own, values = optional_object(self.values, "rope_parameters"), self.values
        share = own.get("partial_rotary_factor", values.get("partial_rotary_factor", ROTATED))
        return own.get("rope_theta", THETA), share, values.get("audio_frame_step", FRAME)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "model_type": MODEL_TYPES[1] if self.rotated else self.model_type}


class AudioFlamingo3ForConditionalGeneration(SoundTextModel):
    """Recordings and text to text."""

    placeholder = part = "<sound>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        width, values = config.text_config.hidden_size, config.values
        self.audio_tower = MeanEncoder(config.audio_config)
        self.multi_modal_projector = TwoLayerProjector(
            config.audio_config.d_model, width, width, values.get("projector_hidden_act", "gelu"),
            values.get("projector_bias") is not False,
        )  # fmt: skip

        self.marks = MARKS if config.rotated else ("", "")

    def tokens_in_stretch(self, frames: int) -> int:
        return moments_in(frames) // 2

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return super().picture_text(rows, columns, size).join(self.marks)

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        x = self.audio_tower(pixel_values, self.audio_tower.heard(pixel_values, frames))
        return x if self.config.rotated else self.multi_modal_projector(x)  # else `arranged` projects

    def vectors_of(self, pixel_values: Tensor, sizes: Sequence[Size] | None) -> Tensor:
        if sizes is None:  # the stretches of one recording
            sizes = [(pixel_values.shape[1], pixel_values.shape[0] * pixel_values.shape[2])]
        return super().vectors_of(pixel_values, sizes)

    def arranged(self, x: Tensor, rows: int, columns: int, size: Size) -> Tensor:
        """As SoundTextModel's, of all stretches (S, T, W) of a recording, by whose numbers vectors are rotated."""
        if self.config.rotated:
            places = ops.arange(x.shape[0] * x.shape[1], dtype="int32", device=x.device).reshape(*x.shape[:2])
            x = self.multi_modal_projector(ops.rope(x.unsqueeze(2), self._turns(x), places).squeeze(2))
        return super().arranged(x, rows, columns, size)

    def _turns(self, x: Tensor) -> Tensor:
        """The cosines and sines (S * T, pairs, 2) of the stretches x (S, T, W) of a recording."""
        theta, share, seconds = self.config.rotation
        stretches, moments, width = x.shape
        part, step, most = int(width * share), np.float32(seconds * JOINED), np.float32(theta)
        slowness = (1 / theta ** (np.arange(0, part, 2, dtype=np.float32) / np.float32(part))).astype(np.float32)
        numbers, places = (np.arange(count, dtype=np.float32) for count in (stretches, moments))
        angles = np.empty((stretches, moments, part), np.float32)
        angles[..., : part // 2] = (numbers / most)[:, None, None] * slowness
        angles[..., part // 2 :] = (places / most * np.float32(2 * pi))[:, None] * slowness
        told = numbers[:, None] * np.float32(moments) * step + places * step  # seconds
        angles *= (-told * np.float32(2 * pi))[..., None]
        table = np.stack([np.cos(angles), np.sin(angles)], -1).reshape(-1, part, 2)
        return ops.from_numpy(table).to(x.device)

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None],
        conversation: Callable[[str], str | None] = lambda _: None,
    ) -> str:  # fmt: skip
        asked = sound.join(self.marks) + TASK
        return conversation(asked) or TURNS.format(asked)

    def said(self, text: str) -> str:
        text = text.strip()
        for before in BEFORE:
            if text.startswith(before):
                text = text.removeprefix(before).strip().removesuffix(".").strip()
                break
        quoted = len(text) > 1 and text[0] in QUOTES and text[-1] == text[0]
        return text[1:-1].strip() if quoted else text


renamed = sound_text.renamed
TASKS: Mapping[str, Any] = {
    "speech-recognition": AudioFlamingo3ForConditionalGeneration,
    sound_text.TASK: AudioFlamingo3ForConditionalGeneration,
}  # fmt: skip
