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
from math import prod
from typing import Any

from pyapp.audio.processors import LevelledSampleProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.formats.safe_json import check_nesting
from pyapp.nn import Conv1d, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.audio.sound_text import SECONDS, SoundTextModel
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from .loading import sound_text
from .loading.config import check_fields, read_config, require
from .loading.picture_text import MixedTextConfig

MODEL_TYPES = ("vibevoice_asr",)
BASE = ""
IGNORED = r"(model\.)?(acoustic|semantic)_tokenizer_decoder\..*"
PROCESSOR = LevelledSampleProcessor
WIDEST, LONGEST = 1 << 16, 1 << 22  # numbers of a vector, samples of a piece
EPSILON = 1e-6  # of the projector's norms
PROMPT = (
    "<|im_start|>system\nYou are a helpful assistant that transcribes audio input into text output in JSON format."
    "<|im_end|>\n<|im_start|>user\n<|object_ref_start|>{}<|object_ref_end|>\nThis is a " + SECONDS + " seconds audio, "
    "please transcribe it with these keys: Start time, End time, Speaker ID, Content<|im_end|>\n"
)  # as in training; the model writes the role of who answers, too


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The fields of an encoder's configuration. depths: the blocks before the first ratio, and behind each one."""

    channels: int = 1
    hidden_size: int = 64
    kernel_size: int = 7
    rms_norm_eps: float = 1e-5
    num_filters: int = 32
    downsampling_ratios: list[int] | tuple[int, ...] = (2, 2, 4, 5, 5, 8)
    depths: list[int] | tuple[int, ...] = (3, 3, 3, 3, 3, 3, 8)
    hidden_act: str = "gelu"
    ffn_expansion: int = 4

    def __post_init__(self) -> None:
        check_fields(self)
        ratios, depths = self.downsampling_ratios, self.depths
        require(self.channels == 1, f"channels is {self.channels}, expected 1")
        for name, given, most in (("downsampling_ratios", ratios, 64), ("depths", depths, 256)):
            plausible = 0 < len(given) <= 16 and all(type(one) is int and 1 <= one <= most for one in given)
            require(plausible, f"{name} is {given!r:.60}, expected up to 16 whole numbers up to {most}")
        require(len(depths) == len(ratios) + 1, f"depths has {len(depths)} numbers, downsampling_ratios {len(ratios)}")
        require(self.kernel_size <= 1 << 10, f"kernel_size is {self.kernel_size:,}")
        widest = max(self.num_filters << len(ratios), self.hidden_size)
        require(widest * self.ffn_expansion <= 4 * WIDEST, f"num_filters {self.num_filters:,} become too many")
        require(self.step <= LONGEST, f"a moment has {self.step:,} samples")

    @property
    def step(self) -> int:
        """The samples of a moment."""
        return prod(self.downsampling_ratios)

    @property
    def reach(self) -> int:
        """How many moments before a sample it can change what the encoder makes of it."""
        filter, step = self.kernel_size - 1, 1
        found = filter * (1 + self.depths[0])
        for ratio, depth in zip(self.downsampling_ratios, self.depths[1:], strict=True):
            found += ratio * step
            step *= ratio
            found += filter * step * depth
        return -(-(found + filter * step) // step)


@dataclass(frozen=True)
class Config(MixedTextConfig):
    """The configurations of all parts."""

    model_type = MODEL_TYPES[0]
    text = "qwen2"
    token = ("audio_token_id", 151648)

    acoustic: EncoderConfig
    semantic: EncoderConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        text, acoustic = cls.parts(values, "acoustic_tokenizer_encoder_config")
        _, semantic = cls.parts(values, "semantic_tokenizer_encoder_config")
        found = (read_config(EncoderConfig, part) for part in (acoustic, {"hidden_size": 128, **semantic}))
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

    @property
    def piece(self) -> int:
        """The samples that are heard at once."""
        found: int = self.values.get("acoustic_tokenizer_chunk_size", 1440000)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"model_type": self.model_type, "text_config": self.text_config.to_dict()}
        parts = {"acoustic": self.acoustic, "semantic": self.semantic}
        return {**self.values, **own, **{f"{key}_tokenizer_encoder_config": asdict(one) for key, one in parts.items()}}


class PastConvolution(Module):
    """A convolution over what came before: silence stands before the first moment."""

    def __init__(self, inputs: int, outputs: int, width: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = Conv1d(inputs, outputs, width, stride, groups=groups)
        self.before = width - stride

    def forward(self, x: Tensor) -> Tensor:
        """x (B, inputs, T) → (B, outputs, T / stride)."""
        return self.conv(ops.pad(x, (self.before, 0)))


class TwoLayers(Module):
    """Two linear layers, of which the first widens, with an activation between them."""

    def __init__(self, config: EncoderConfig, width: int) -> None:
        super().__init__()
        self.linear1 = Linear(width, config.ffn_expansion * width)
        self.linear2 = Linear(config.ffn_expansion * width, width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.linear2(self.activation(self.linear1(x)))


class Block(Module):
    """Filters of each channel, and two layers, each with a norm before it and a scale behind it (ConvNeXt's form)."""

    def __init__(self, config: EncoderConfig, width: int) -> None:
        super().__init__()
        self.norm, self.ffn_norm = (RMSNorm(width, config.rms_norm_eps) for _ in range(2))
        self.gamma, self.ffn_gamma = (new_parameter(ops.ones, width) for _ in range(2))
        self.mixer = PastConvolution(width, width, config.kernel_size, groups=width)
        self.ffn = TwoLayers(config, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.mixer(self.norm(x).transpose(1, 2)).transpose(1, 2) * self.gamma
        return x + self.ffn(self.ffn_norm(x)) * self.ffn_gamma


class Stage(Module):
    """A convolution, and blocks."""

    def __init__(self, config: EncoderConfig, number: int) -> None:
        super().__init__()
        width = config.num_filters << number
        if number:
            ratio = config.downsampling_ratios[number - 1]
            self.conv = PastConvolution(width // 2, width, 2 * ratio, ratio)
        else:
            self.conv = PastConvolution(config.channels, width, config.kernel_size)
        self.stage = ModuleList(Block(config, width) for _ in range(config.depths[number]))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, inputs, T) → (B, D, T / ratio)."""
        x = self.conv(x).transpose(1, 2)
        for block in self.stage:
            x = block(x)
        return x.transpose(1, 2)


class Encoder(Module):
    """Stages of convolutions, each with fewer moments and more channels."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = Stage(config, 0)
        self.conv_layers = ModuleList(Stage(config, number) for number in range(1, len(config.depths)))
        width = config.num_filters << len(config.downsampling_ratios)
        self.head = PastConvolution(width, config.hidden_size, config.kernel_size)

    def warm_up(self) -> None:
        """Hears some silence, so that the first recording starts sooner in a browser."""
        with no_grad():
            self(ops.zeros(1, 1, self.config.step, device=self.head.conv.weight.device), self.config.step)

    def forward(self, x: Tensor, piece: int) -> Tensor:
        """Samples x (B, 1, N) → (B, N / step, hidden_size), in pieces of so many samples, which are heard with what
        came before them.
        """
        step, reach = self.config.step, self.config.reach
        if x.ndim != 3 or x.shape[1] != 1 or not x.shape[2] or x.shape[2] % step:
            raise InputError(f"VibeVoice: samples are (B, 1, a multiple of {step:,}), not {describe(x)}")
        found = []
        for start in range(0, x.shape[2], piece):
            before, end = max(0, start - reach * step), min(start + piece, x.shape[2])
            part = self.stem(x.narrow(2, before, end - before))
            for layer in self.conv_layers:
                part = layer(part)
            part = self.head(part)
            found.append(part.narrow(2, (start - before) // step, (end - start) // step))
        return ops.cat(found, 2).transpose(1, 2)


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
