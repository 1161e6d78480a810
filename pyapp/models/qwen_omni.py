"""Qwen2.5-Omni (Xu et al. 2025, arXiv 2503.20215) and Qwen3-Omni (Xu et al. 2025, arXiv 2509.17765): language models
that see, hear and speak. Pictures are seen as by Qwen2.5-VL and Qwen3-VL; an encoder hears two seconds of sound at
once, or is that of Qwen3-ASR. This is the "thinker", which writes. The "talker" (nn/audio/talkers.py) reads that, and
writes the codes of speech, of which further networks make sound (nn/audio/code_flow.py and big_vgan.py in Qwen2.5-Omni,
code_wave.py in Qwen3-Omni).

The parts are other architectures. Parameters have the names of Hugging Face's files, but for those of `NAMES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyapp.audio.processors.spectrograms import LongSpectrogramProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Conv1d, Embedding, LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.audio.big_vgan import BigVgan
from pyapp.nn.audio.code_flow import CodeFlow
from pyapp.nn.audio.code_wave import CodeWave
from pyapp.nn.audio.sound_text import SoundTextModel, TwoLayerProjector, moments_in
from pyapp.nn.audio.talkers import Heard, ManyCodeTalker, OneCodeTalker, Spoken, Talker
from pyapp.nn.decoders.decoder import WholeText
from pyapp.nn.decoders.decoder_blocks import RotaryLanguageModel
from pyapp.nn.decoders.expert_blocks import HeadNormBlock
from pyapp.nn.encoders.encoders import until
from pyapp.nn.positions.sinusoids import sines_and_cosines
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import EncoderLayer, FixedPositions
from pyapp.nn.vision_language.picture_text import GridPictures
from pyapp.nn.vision_language.videos import Watching

from .loading import picture_text, sound_text
from .loading.architectures import architecture, seeing_architecture
from .loading.config import as_object, object_of, require
from .loading.omni_speech_config import NEWER_CODES, NEWER_TOKENS, TOKENS, OmniSpeechConfig
from .loading.sound_text import EncoderConfig, SoundTextConfig
from .loading.stored import Stored
from .loading.stored_experts import gated_experts_apart

MODEL_TYPES = ("qwen2_5_omni", "qwen2_5_omni_thinker", "qwen3_omni_moe", "qwen3_omni_moe_thinker")
SPEAKS = "replies"  # in pyapp.models.loading.voice
BASE = ""
SAMPLE_RATE = 24000
IGNORED = r"(talker|token2wav|code2wav)\..*|(thinker\.|model\.)*audio_tower\.audio_bos_eos_token\.weight"
IMAGE_PROCESSOR = "Qwen2VL"  # of files that name none
PROCESSOR = LongSpectrogramProcessor
THINKER = "thinker_config"  # in the config.json of files that have a talker too
NEWER = "qwen3_omni_moe"
SEES = {False: "qwen2_5_vl", True: "qwen3_vl_moe"}  # the architecture of what sees and of the text; True: of Qwen3
HEARS = "qwen3_asr"  # of what hears in Qwen3-Omni
# The tokens of sound and of pictures.
SOUND, PICTURE = (("audio_token_index", "audio_token_id"), 151646), (("image_token_index", "image_token_id"), 151655)
# What text_config and audio_config leave out.
TEXTS: Mapping[bool, Mapping[str, Any]] = {
    False: {
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
    },
    True: {
        "vocab_size": 3584, "hidden_size": 2048, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
        "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_experts": 128, "rope_theta": 1e6,
    },
}  # fmt: skip
NEWER_SOUND = {"d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120}
NAMES = (
    (r"^talker\.model\.(codec_embedding|embed_tokens)\.", "talker.language.model.embed_tokens."),
    (r"^talker\.model\.", "talker.language.model."), (r"^talker\.codec_head\.", "talker.language.lm_head."),
    (r"^talker\.code_predictor\.model\.codec_embedding\.", "talker.tables."),
    (r"^talker\.code_predictor\.lm_head\.", "talker.heads."),
    (r"^talker\.code_predictor\.", "talker.predictor."),
    # A gamma and a beta, which are taken for those of a norm.
    (r"^(code2wav\.upsample\.\d+\.1)\.weight$", r"\1.gamma"),
    (r"^(token2wav\..*\.act|code2wav\.decoder\.\d+(\.block\.\d+(\.act\d)?)?)\.bias$", r"\1.beta"),
    (r"^(thinker\.)?(model\.)?audio_tower\.proj([12])\.", r"multi_modal_projector.linear_\3."),
    (r"^(thinker\.)?(model\.)?audio_tower\.proj\.", "multi_modal_projector.linear."),
    (r"^(thinker\.)?(model\.)?audio_tower\.", "audio_tower."), (r"^thinker\.", ""),
    (r"^(model\.)?visual\.merger_list\.", "vision_tower.deepstack_merger_list."),
)  # fmt: skip
LANGUAGE, TALKS = "language_model.", "talker.language."
LANGUAGE_TASK = "causal-lm"
MARKS = 1024  # codes of Qwen3-Omni, the last ones, that are no sound
MERGERS = ("vision_tower.merger.", "vision_tower.deepstack_merger_list.")
MERGER_NAMES = (("ln_q", "norm"), ("mlp.0", "linear_fc1"), ("mlp.2", "linear_fc2"))  # of Qwen3's vision tower
TASK = "Transcribe the audio into text."
TURNS = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"  # where the files have no chat template
LARGEST = 1 << 13


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        name = re.sub(old, new, name)
    return sound_text.renamed(name)


@dataclass(frozen=True, kw_only=True)
class AudioConfig(EncoderConfig):
    """The fields of audio_config of Qwen2.5-Omni. n_window: half of the frames that are heard at once."""

    n_window: int = 100
    output_dim: int = 3584

    def __post_init__(self) -> None:
        super().__post_init__()
        window, width = self.n_window, self.d_model
        require(
            window <= LARGEST and window % 2 == 0, f"n_window is {window:,}, expected an even number up to {LARGEST:,}"
        )
        require(window <= self.max_source_positions, f"n_window is {window:,}, above max_source_positions")
        require(width % 2 == 0 and width > 2, f"d_model is {width}, expected an even number from 4")


@dataclass(frozen=True)
class HearingConfig(SoundTextConfig):
    """The configuration of what hears and writes."""

    model_type = MODEL_TYPES[0]
    token = (SOUND[0][0], SOUND[1])

    def check(self) -> None:
        super().check()
        made, read = self.audio_config.output_dim, self.text_config.hidden_size  # type: ignore[attr-defined]
        require(made == read, f"output_dim is {made}, the language model's hidden_size {read}")


@dataclass(frozen=True)
class Config:
    """The configurations of what sees and writes, and of what hears and writes, and `values`, the whole object of the
    config.json. Its other attributes are those of what sees.
    """

    seeing: Any
    hearing: HearingConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json, with a talker or without. ModelError for parts that are not known."""
        own = as_object(values.get(THINKER, dict(values)), THINKER)
        newer = str(values.get("model_type", MODEL_TYPES[0])).startswith(NEWER)
        kind = SEES[newer]
        parts = {name: object_of(own, name) for name in ("text_config", "vision_config", "audio_config")}
        tied = own.get("tie_word_embeddings") is True
        text = {**TEXTS[newer], **parts["text_config"], "model_type": f"{kind}_text", "tie_word_embeddings": tied}
        vision = {**parts["vision_config"], "model_type": f"{kind}_vision"}
        seen, heard = (next((own[name] for name in names if name in own), usual) for names, usual in (PICTURE, SOUND))
        told = {"model_type": kind, "image_token_id": seen, "text_config": text, "vision_config": vision}
        seeing = _module(kind).Config.from_dict(told)
        own_audio: Any = parts["audio_config"]
        audio: Any = (
            _module(HEARS).AudioConfig.from_dict(NEWER_SOUND | own_audio) if newer else AudioConfig.from_dict(own_audio)
        )
        found = cls(seeing, HearingConfig(seeing.text_config, {SOUND[0][0]: heard}, audio), dict(values))
        found.hearing.check()
        assert found.rate  # which is checked
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "seeing":
            raise AttributeError(name)
        return getattr(self.seeing, name)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": MODEL_TYPES[0], **self.values}

    @property
    def speech(self) -> OmniSpeechConfig:
        """The configuration of what speaks. ModelError where there is none."""
        return OmniSpeechConfig.from_dict(self.values, self.text_config, self.newer)

    @property
    def rate(self) -> float:
        """The rotary positions of a second of a video."""
        own = self.values.get(THINKER, self.values)
        found = own.get("position_id_per_seconds", 25)
        require(type(found) in (int, float) and 0 < found <= 1 << 10, f"position_id_per_seconds is {found!r:.60}")
        return float(found)

    @property
    def newer(self) -> bool:
        """Whether this is Qwen3-Omni."""
        return not isinstance(self.hearing.audio_config, AudioConfig)


def _module(kind: str) -> Any:
    """The module of an architecture."""
    return architecture(kind) or seeing_architecture(kind)


class Encoder(Module):
    """Two convolutions, of which the second halves the frames, and layers, within parts of twice n_window frames; and
    the mean of each two of their vectors.
    """

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.conv1 = Conv1d(config.num_mel_bins, width, 3, padding=1)
        self.conv2 = Conv1d(width, width, 3, 2, padding=1)
        self.positions = FixedPositions(partial(sines_and_cosines, config.n_window, width))
        self.layers = ModuleList(
            EncoderLayer(
                width, config.encoder_attention_heads, config.encoder_ffn_dim, config.activation_function,
                norm_first=True, key_bias=False,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip
        self.ln_post = LayerNorm(width)

    def warm_up(self) -> None:
        """Hears some silence, so that the first recording starts sooner in a browser."""
        with no_grad():
            self(
                ops.zeros(1, self.config.num_mel_bins, 2 * self.config.n_window, device=self.conv1.weight.device), None
            )

    def forward(self, mel: Tensor, frames: Sequence[int] | None) -> Tensor:
        """mel (B, bins, T), `frames`: how many of each recording's are sound (None: all) → (B, M, D), of which the
        first of each recording count.
        """
        bins, window = self.config.num_mel_bins, self.config.n_window
        if mel.ndim != 3 or mel.shape[1] != bins or not mel.shape[2]:
            raise InputError(f"Qwen2.5-Omni: spectrograms are (B, {bins}, T), not {describe(mel)}")
        batch, _, length = mel.shape
        counts = [length] * batch if frames is None else list(frames)
        whole = -(-length // (2 * window)) * 2 * window
        x = ops.pad(mel, (0, whole - length)).reshape(batch, bins, -1, 2 * window).transpose(1, 2)
        x = x.reshape(-1, bins, 2 * window)  # (B * parts, bins, 2 * window)
        sound = until(counts, whole, x.device).reshape(-1, 1, 2 * window).to(x.dtype)
        x = ops.gelu(self.conv1(x * sound)) * sound
        x = ops.gelu(self.conv2(x)).transpose(1, 2)  # (B * parts, window, D)
        x = x + self.positions(ops.arange(window, dtype="int32", device=x.device))
        heard = until([*map(moments_in, counts)], whole // 2, x.device).reshape(-1, window)
        heard = heard.logical_or(heard.any(1, keepdim=True).logical_not())  # one of silence alone sees itself
        mask = heard.reshape(-1, 1, 1, window)
        for layer in self.layers:
            x = layer(x, mask)
        return self.ln_post(x.reshape(batch, whole // 4, 2, -1).mean(2))


class Projector(Module):
    """A linear layer."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.linear = Linear(config.d_model, config.output_dim)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, T, D)."""
        return self.linear(x)


def _hearing_parts(config: Config) -> tuple[Module, Module]:
    """What hears, and what projects that."""
    audio: Any = config.hearing.audio_config
    if not config.newer:
        return Encoder(audio), Projector(audio)
    width = audio.d_model
    return _module(HEARS).Encoder(audio), TwoLayerProjector(width, width, audio.output_dim, audio.activation_function)


class Hearing(SoundTextModel):
    """Recordings and text to text. A recording is heard in one piece; its size is (bins, frames). `model`: the one of
    which this is a part; None: this is by itself.
    """

    def __init__(self, config: Config, model: Any = None) -> None:
        super().__init__(config.hearing, config.language_model() if model is None else model.language_model)
        self.newer = config.newer
        self.audio_tower, self.multi_modal_projector = (
            _hearing_parts(config) if model is None else (model.audio_tower, model.multi_modal_projector)
        )
        self.placeholder = self.part = "<|audio_pad|>" if self.newer else "<|AUDIO|>"
        self.around = ("<|audio_start|>", "<|audio_end|>") if self.newer else ("<|audio_bos|>", "<|audio_eos|>")

    def stretches(self, frames: int) -> list[int]:
        return [frames]

    def tokens_in_stretch(self, frames: int) -> int:
        found: int = self.audio_tower.moments(frames) if self.newer else moments_in(frames) // 2
        return found

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        length = pixel_values.shape[2]
        counts = [length] * pixel_values.shape[0] if frames is None else frames
        if self.newer:
            pixel_values = ops.pad(pixel_values, (0, -length % self.config.audio_config.chunk))
        return self.multi_modal_projector(self.audio_tower(pixel_values, counts))

    def arranged(self, x: Tensor, rows: int, columns: int, size: Any) -> Tensor:
        return x.flatten(0, 1).narrow(0, 0, self.tokens_in(rows, columns, size))

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None],
        conversation: Callable[[str], str | None] = lambda _: None,
    ) -> str:  # fmt: skip
        asked = sound.join(self.around) + TASK
        return conversation(asked) or TURNS.format(asked)


class Thinker(GridPictures):
    """Pictures, recordings and text to text. `ears` hears: what stands for a recording in a text is as there."""

    name = "Qwen-Omni"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.audio_tower, self.multi_modal_projector = _hearing_parts(config)
        self.placeholder = self.part = "<|image_pad|>" if config.newer else "<|IMAGE|>"
        self.around = ("<|vision_start|>", "<|vision_end|>") if config.newer else ("<|vision_bos|>", "<|vision_eos|>")

    @property
    def watcher(self) -> Watching:
        """What of the model sees videos. Fractions of positions are left out."""
        one = "<|video_pad|>" if self.config.newer else "<|VIDEO|>"
        return Watching(one, one, self.around, self.config.vision_config.temporal_patch_size, self.config.rate)

    @staticmethod
    def tower_class(config: Any) -> Module:
        found: Module = _module(SEES[False]).Tower(config)
        return found

    @property
    def ears(self) -> Hearing:
        """What of the model hears."""
        return Hearing(self.config, self)


def speaker_of(config: OmniSpeechConfig) -> Talker:
    """What writes the codes of speech."""
    if not config.newer:
        codes = (config.codes["tts_codec_pad_token_id"], config.codes["tts_codec_start_token_id"])
        return OneCodeTalker(_module("qwen2").TASKS[LANGUAGE_TASK](config.talker), config.width, codes)
    own = config.talker
    language = RotaryLanguageModel(own, HeadNormBlock, RMSNorm(own.hidden_size, own.rms_norm_eps))
    predictor = _module("qwen3").TASKS[LANGUAGE_TASK](config.predictor)
    return ManyCodeTalker(language, predictor, config.width, config.sound[0].num_quantizers)


class CodeSound(Module):
    """What makes sound of the codes of Qwen2.5-Omni."""

    def __init__(self, flow: Any, vocoder: Any) -> None:
        super().__init__()
        self.code2wav_dit_model, self.code2wav_bigvgan_model = CodeFlow(flow), BigVgan(vocoder)


class Speaking(Module):
    """Replies to speech: the text that was read and written, the talker, and what makes sound of its codes. Of
    Qwen3-Omni only the table of tokens knows the text.
    """

    sample_rate = SAMPLE_RATE
    unread = r"thinker\..*"  # what sees, hears and writes

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.speech = config, config.speech
        if config.newer:
            self.language_model: Any = Module()
            self.language_model.model = Module()
            table = Embedding(config.text_config.vocab_size, config.text_config.hidden_size)
            self.language_model.model.embed_tokens = table
            self.code2wav = CodeWave(*self.speech.sound)
        else:
            self.language_model = config.language_model()
            self.language_model.lm_head = None
            self.token2wav = CodeSound(*self.speech.sound)
        self.talker: Any = speaker_of(self.speech)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.language_model.model.embed_tokens.weight.device
        return found

    def _vectors(self, ids: Sequence[int]) -> Tensor:
        """The vectors (T, D) of tokens."""
        found: Tensor = self.language_model.model.embed_tokens(int32_tensor([*ids], self.device))
        return found.to("float32")

    def is_of(self, writer: Any) -> bool:
        """Whether a model is the one that writes the replies."""
        return isinstance(writer, Thinker) and bool(writer.config.values == self.config.values)

    def states_of(self, writer: Any, ids: Sequence[int], heard: Heard) -> Tensor:
        """What the talker reads in the places of recordings (N, D): in Qwen2.5-Omni their vectors, in Qwen3-Omni what
        the first layers of `writer` make of these behind the tokens `ids` of a conversation.
        """
        if not self.config.newer:
            return heard.vectors.to(self.device)
        language = writer.language_model
        stack, text = language.stack, language.whole_text(len(ids), None)
        x = stack.embedded(int32_tensor([*ids], language.device).unsqueeze(0), text)  # (1, T, D)
        x = heard.within(x[0], heard.vectors).unsqueeze(0)
        layers = [*getattr(stack, type(stack).blocks)]
        for layer in layers[: self.speech.heard_after]:
            x = layer(x, text)
        x = stack.normalized(x) if self.speech.heard_after == len(layers) else x
        places = ops.tensor([*heard.places], dtype="int64", device=x.device)
        return x[0].index_select(0, places).to("float32").to(self.device)

    def read(
        self, asked: Sequence[int], role: Sequence[int], reply: Sequence[int], voice: int, heard: Heard | None = None
    ) -> Spoken:
        """What the talker reads of a reply. `asked`: the tokens of a conversation, in Qwen3-Omni those of what the
        user said alone; `role`: those that say who replies, three in Qwen3-Omni; reply: those of what is to be said, at
        least one; voice: a token of the text in Qwen2.5-Omni, a code in Qwen3-Omni. heard: the recordings in what was
        asked, by `states_of`.
        """
        tokens, codes = self.speech.tokens, self.speech.codes
        if self.config.newer:
            project = self.talker.text_projection
            marks = [tokens[name] for name in NEWER_TOKENS]
            known = [codes[name] for name in NEWER_CODES][:-1]
            begins = [*known[:3], voice, *known[3:]]
            said, *parts = (project(self._vectors(ids)) for ids in (asked, [*role, *reply], marks))
            if heard is not None:
                said = heard.within(said, self.talker.hidden_projection(heard.vectors))
            found: Spoken = self.talker.spoken(said, *parts, begins)
            return found
        marks = [voice, *(tokens[name] for name in [*TOKENS][1:3])]
        x = self._vectors([*asked, *role, *reply])  # (T, D)
        stack, before = self.language_model.model, len(asked) + len(role)
        first = (x if heard is None else heard.within(x, heard.vectors)).unsqueeze(0)
        states = stack.normalized(stack(first.select(2, 0), WholeText(len(x)), first))[0]
        both = states + (x if heard is None else heard.within(x, ops.zeros_like(heard.vectors)))
        found = self.talker.spoken(both.narrow(0, 0, before), both.narrow(0, before, len(reply)), self._vectors(marks))
        return found

    def codes(self, spoken: Spoken, most: int, choose: Any, choose_more: Any) -> Iterator[list[int]]:
        """The codes of one moment of speech after another, up to `most`. choose: as of Talker.written."""
        codes = self.speech.codes
        names = ("codec_eos_token_id",) if self.config.newer else ("tts_codec_end_token_id", "tts_codec_pad_token_id")
        ends = [codes[name] for name in names]
        found: Iterator[list[int]] = self.talker.written(spoken, most, ends, choose, choose_more)
        return found

    @property
    def never(self) -> list[int]:
        """The codes that are not written: those that mark something else than sound."""
        if not self.config.newer:
            return [self.speech.codes["tts_codec_start_token_id"]]
        count, end = self.speech.talker.vocab_size, self.speech.codes["codec_eos_token_id"]
        return [code for code in range(max(0, count - MARKS), count) if code != end]

    @property
    def first_codes(self) -> list[int]:
        """The codes that count as written before the first one."""
        names = ("mask", "pad", "start") if not self.config.newer else ()
        return [self.speech.codes[f"tts_codec_{name}_token_id"] for name in names]

    def sound(
        self, codes: Sequence[Sequence[int]], voice: Any, noise: Callable[..., Tensor]
    ) -> Iterator[Tensor | None]:
        """The samples (N,) of the codes of moments in parts; None between steps. `voice`: the vector (1, K) and the
        spectrogram (1, T, bins) of a speaker in Qwen2.5-Omni; `noise` gives normal numbers of a shape.
        """
        if self.config.newer:
            rows = ops.tensor([*codes], dtype="int64", device=self.device).T.contiguous().unsqueeze(0)
            for part in self.code2wav.in_chunks(rows):
                yield part[0]
            return
        flow, entries = self.token2wav.code2wav_dit_model, self.speech.sound[0].num_embeds
        row = ops.tensor([[code for code, *_ in codes if code <= entries]], dtype="int64", device=self.device)
        if row.shape[1]:
            vector, recording = voice
            frames = row.shape[1] * self.speech.sound[0].repeats
            for mel in flow.drawn(row, vector, recording, noise(1, frames, self.speech.sound[0].mel_dim)):
                yield None if mel is None else self.token2wav.code2wav_bigvgan_model(mel)[0]


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store weights: in Qwen2.5-Omni's tower queries, keys and values apart; in Qwen3-Omni each expert by
    itself, and parts of the tower under other names than Qwen3-VL's.
    """
    found: dict[str, Stored] = {}
    text = {renamed(name).removeprefix(LANGUAGE): info for name, info in tensors.items()}
    if config.newer:
        apart = gated_experts_apart(config.text_config, text)
        found = {
            LANGUAGE + key: replace(plan, names=tuple(LANGUAGE + name for name in plan.names))
            for key, plan in apart.items()
        }
        talks = {key.removeprefix(TALKS): info for key, info in map(_named, tensors.items()) if key.startswith(TALKS)}
        for key, plan in (gated_experts_apart(config.speech.talker, talks) if talks else {}).items():
            found[TALKS + key] = replace(plan, names=tuple(TALKS + name for name in plan.names))
    for name in map(renamed, tensors):
        if not config.newer and name.startswith("vision_tower.") and ".attn.q." in name:
            parts = tuple(name.replace(".attn.q.", f".attn.{part}.") for part in "qkv")
            found[name.replace(".attn.q.", ".attn.qkv.")] = Stored(parts)
        elif config.newer and name.startswith(MERGERS):
            own = name
            for old, new in MERGER_NAMES:
                own = own.replace(f".{old}.", f".{new}.")
            found |= {own: Stored((name,))} if own != name else {}
    return found


def _named(entry: tuple[str, Any]) -> tuple[str, Any]:
    """A file's tensor by the model's name."""
    return renamed(entry[0]), entry[1]


TASKS: Mapping[str, Any] = {
    "speech-recognition": Hearing, sound_text.TASK: Thinker, picture_text.TASK: Thinker, "text-to-speech": Speaking,
}  # fmt: skip
