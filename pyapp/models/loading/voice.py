"""Load models that speak (VITS and the voices of MMS; SpeechT5, with its vocoder and the vectors of voices), with their
characters, and language models that write the codes of a codec (Orpheus), or have one (CSM); Kokoro, with the vectors
of its voices; Parler-TTS, with the tokenizers of texts and of descriptions; Bark, with what its voices said before;
MetaVoice, with the vector of a voice; Dia, with its codec; Pocket TTS, with its codec and a recording of a voice;
Qwen2.5-Omni, with what it knows of its voices, and Qwen3-Omni; FastSpeech 2, with its vocoder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyapp import hub
from pyapp.audio.code_voice import CodeVoice
from pyapp.audio.described_voice import DescribedVoice, PromptTokens
from pyapp.audio.dialogue_voice import USUAL_CODEC as CODEC_OF_DIALOGUES
from pyapp.audio.dialogue_voice import DialogueTokens, DialogueVoice
from pyapp.audio.frame_voice import FrameVoice, SpokenTokens
from pyapp.audio.latent_voice import USUAL_CODEC as CODEC_OF_LATENTS
from pyapp.audio.latent_voice import CapitalTokens, LatentVoice
from pyapp.audio.parallel_voice import USUAL_VOCODER as VOCODER_OF_DURATIONS
from pyapp.audio.parallel_voice import ParallelVoice
from pyapp.audio.reply_voice import ReplyVoice
from pyapp.audio.resampling import mix_channels, resample
from pyapp.audio.script_voice import SCHEDULE, ScriptTokens, ScriptVoice
from pyapp.audio.spectrogram_voice import SpectrogramVoice, SpokenLetters
from pyapp.audio.staged_voice import PROMPTS, StagedTokens, StagedVoice
from pyapp.audio.styled_voice import StyledVoice
from pyapp.audio.token_voice import VOICES, TextTokens, TokenVoice
from pyapp.audio.two_stage_voice import USUAL_CODEC, OffsetTokens, TwoStageVoice
from pyapp.audio.wav import read_wav
from pyapp.dataclass import dataclass
from pyapp.engine.ops import cat
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, reading_of
from pyapp.formats import ByteSource, open_checkpoint
from pyapp.formats.source import BytesSource
from pyapp.formats.torch_files import load as load_objects
from pyapp.hub.resolver import HUB_NAME
from pyapp.models.load import load_model, read_settings, settings_beside
from pyapp.nn import Module
from pyapp.nn.parameter import skip_initialization
from pyapp.text.arpabet import SpokenSounds
from pyapp.text.phonemes import LANGUAGES, SpokenPhonemes
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from pyapp.text.tokenization.vocabulary_files import tiktoken_document
from pyapp.text.tokenization.voice_tokenizer import VoiceTokenizer
from pyapp.text.tokenization.word_patterns import WordPattern

from ..diffusion.read_schedule import read_schedule
from .architectures import architecture
from .building import build
from .by_task import check_tokenizer
from .codec import VOCODER, load_codec
from .loaded import Loaded
from .pictures import MORE_FILES, tokenizer_of
from .task_files import task_files
from .weights import load_weights

if TYPE_CHECKING:
    from pyapp.engine import Tensor
    from pyapp.engine.device import Device

TASK = "text-to-speech"
VOCABULARY, TOKENIZER_JSON, PREPARES = "vocab.json", "tokenizer.json", "preprocessor_config"
LARGEST_STYLE = 1 << 24  # bytes of a file of one voice; the published ones have half a million
LETTERS, VECTORS = "spm_char.model", "speaker_embeddings.npy"  # of SpeechT5: its letters, and those of voices
HISTORIES = "speaker_embeddings_path.json"  # of Bark: the files of its voices
SPEAKERS = "spk_dict.pt"  # of Qwen2.5-Omni: its voices
HISTORY = re.compile(r"[\w./-]+\.npy")
STYLES = re.compile(r"voices/(?P<name>[\w.-]+)\.(pt|safetensors|npy)")  # of Kokoro's voices
DESCRIBER = "description_tokenizer"  # the folder of the tokenizer of descriptions, where it is another one
OWN = "|".join(map(re.escape, (VOCABULARY, LETTERS, VECTORS, HISTORIES, SPEAKERS)))
FILES = re.compile(f"{OWN}|({DESCRIBER}/)?({MORE_FILES.pattern})|{STYLES.pattern}")
OF_LATENTS = "audio-latents"  # the task of codecs whose vectors a model writes
ONE_CODE = "xcodec2"  # the codec of Llasa
USUAL_VOCODER = "microsoft/speecht5_hifigan"
# Of MetaVoice: the pieces of texts, both networks, and the vector of a voice.
STAGES = ("first_stage.meta.json", "first_stage.safetensors", "second_stage.safetensors")
VOICE_VECTOR = "spk_emb.safetensors"
META = ("mergeable_ranks", "pat_str", "offset")  # what describes its tokenizer


@dataclass(frozen=True)
class LoadedVoice(Loaded):
    """A model that speaks, what reads texts for it, and the object of its config.json."""

    tokenizer: (
        VoiceTokenizer | TextTokens | SpokenTokens | SpokenLetters | SpokenPhonemes | SpokenSounds | PromptTokens
        | StagedTokens | OffsetTokens | DialogueTokens | CapitalTokens | ScriptTokens
    )  # fmt: skip
    settings: dict[str, Any]

    @property
    def modules(self) -> tuple[Module, ...]:
        """The networks: the model, or those that speak together."""
        parts = [self.model] if isinstance(self.model, Module) else vars(self.model).values()
        return tuple(part for part in parts if isinstance(part, Module))

    @property
    def speakers(self) -> int:
        """How many voices the model has."""
        if isinstance(self.model, SpectrogramVoice):
            return int(self.model.voices.shape[0])
        if isinstance(self.model, TwoStageVoice):
            return int(self.model.vectors.shape[0])
        if isinstance(self.model, CodeVoice):
            return 1
        if isinstance(self.model, LatentVoice | ScriptVoice):
            return max(1, len(self.model.voices))
        found: int = len(self.voices) or self.model.config.num_speakers or 1
        return found

    @property
    def voices(self) -> tuple[str, ...]:
        """The names of the voices, by their numbers; none of a model whose voices have no names."""
        if isinstance(self.model, StyledVoice | StagedVoice | ReplyVoice):
            return self.model.names
        return VOICES if isinstance(self.model, TokenVoice) else ()

    @property
    def described(self) -> bool:
        """Whether a text describes the voice."""
        return isinstance(self.model, DescribedVoice)

    @property
    def mixes(self) -> bool:
        """Whether the model speaks in the mean of several voices."""
        return isinstance(self.model, StyledVoice)

    def reader(self, speaker: int) -> Any:
        """What reads texts for a voice: in its language, where the model has several."""
        if not isinstance(self.tokenizer, SpokenPhonemes):
            return self.tokenizer
        first = self.voices[speaker][:1] if speaker < len(self.voices) else ""
        return replace(self.tokenizer, language=LANGUAGES.get(first, self.tokenizer.language))


def load_voice(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    codec: str | os.PathLike[str] | None = None,
    voices: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedVoice:
    """Loads a folder of Hugging Face's, its files by their names, or a name on the hub such as facebook/mms-tts-eng:
    config.json, vocab.json, tokenizer_config.json and the weights, whose norms (weight_g and weight_v, or
    parametrizations) are applied once while they are read.

    `codec`: the model is a language model that writes the codes of this codec (a folder or a name, such as
    hubertsiuzdak/snac_24khz), such as canopylabs/orpheus-3b-0.1-ft: what load_model takes. HKUSTAudio/Llasa-1B has
    HKUSTAudio/xcodec2-hf.

    A folder of CSM, such as sesame/csm-1b, has its codec and a tokenizer.json, and so has one of Parler-TTS, such as
    parler-tts/parler-tts-mini-v1. Where descriptions have another tokenizer than texts, as in parler-tts-mini-v1.1, it
    is that of the text encoder's origin on the hub, which config.json names, or is in the folder description_tokenizer.

    SpeechT5, such as microsoft/speecht5_tts, has `codec` as its vocoder, by default microsoft/speecht5_hifigan, and
    speaks in the voices whose vectors a file has: `voices`, or speaker_embeddings.npy in its folder; NumPy's or
    safetensors, (512,) or (voices, 512).

    Dia, such as nari-labs/Dia-1.6B-0626, reads [S1] and [S2] where its two speakers begin; `codec` is by default
    descript/dac_44khz.

    Bark, such as suno/bark-small, has files of what its voices said before, which speaker_embeddings_path.json names;
    those of a voice are read, or downloaded, when it speaks.

    Pocket TTS, such as eustlb/pocket-tts, speaks in the voice of a recording: `voices` is a WAVE file of one, or a file
    with vectors of its codec, (T, 32) each; `codec` is by default eustlb/pocket-tts-audio-tokenizer.

    VibeVoice, such as vibevoice/VibeVoice-1.5B-hf, speaks scripts, whose lines may begin with "Speaker 1:", in the
    voices of recordings, or in ones that it makes up: `voices` as of Pocket TTS, (T, 64) each.

    Qwen2.5-Omni, such as Qwen/Qwen2.5-Omni-3B, has its voices in spk_dict.pt; Qwen3-Omni, such as
    Qwen/Qwen3-Omni-30B-A3B-Instruct, is read without what sees, hears and writes.

    FastSpeech 2, such as espnet/fastspeech2_conformer_with_hifigan, reads the sounds of English; without a vocoder in
    its file, as espnet/fastspeech2_conformer, `codec` is by default espnet/fastspeech2_conformer_hifigan.

    Kokoro, such as hexgrad/Kokoro-82M, has the vectors of its voices in a folder `voices`, one file for each.

    MetaVoice, in candle's form (lmz/candle-metavoice): first_stage.meta.json with the pieces of texts,
    first_stage.safetensors, second_stage.safetensors, and spk_emb.safetensors, or `voices`, with the vectors of voices;
    `codec` is by default facebook/encodec_24khz. A name on the hub has "metavoice" in it.

    dtype, the errors and events are those of `load_task_model`; ModelError too for characters that do not fit.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    if (stages := _stages_in(source, report, cancel)) is not None:
        return _of_stages(os.fspath(source), stages, codec, voices, dtype, device, report, cancel)  # type: ignore[arg-type]
    if codec is not None and not _has_other_sound(source, report, cancel):
        if isinstance(source, Mapping):
            raise ModelError("a language model that speaks is loaded from a folder, a file or the hub", where="codec")
        sound = load_codec(codec, device=device, report=report, cancel=cancel)
        loaded = load_model(source, dtype=dtype, device=device, report=report, cancel=cancel)
        if sound.model.config.model_type == ONE_CODE:
            of_codes = CodeVoice(loaded.model, loaded.tokenizer, sound.model)
            return LoadedVoice(loaded.name, of_codes, SpokenTokens(loaded.tokenizer), loaded.config)
        speaks = TokenVoice(loaded.model, loaded.tokenizer, sound.model)
        return LoadedVoice(loaded.name, speaks, TextTokens(loaded.tokenizer), loaded.config)
    found = task_files(source, TASK, report, cancel, FILES)
    asked = _Asked(source, *found, codec, voices, dtype, device, report, cancel)
    form = _form_of(asked.settings)
    if voices is not None and not form.takes_voices:
        raise ModelError("this model has its own voices", where="voices", hint="Leave the file out")
    return form.load(asked)


@dataclass(frozen=True)
class _Asked:
    """What `load_voice` was asked for: the files of a model, the object of its config.json, and the arguments."""

    source: Any
    name: str
    files: Mapping[str, Any]
    settings: dict[str, Any]
    codec: str | os.PathLike[str] | None
    voices: str | os.PathLike[str] | None
    dtype: str | None
    device: Device | str | None
    report: Callable[[Event], None]
    cancel: Cancel

    @property
    def generation(self) -> dict[str, Any]:
        """The object of generation_config.json; empty without the file."""
        return settings_beside(self.files, "generation_config")

    def model(self) -> Any:
        """The model with its weights, for inference."""
        with open_checkpoint(self.files["model"]) as checkpoint:
            found = build(checkpoint, self.settings, TASK, self.dtype, self.device, self.report, self.cancel)
        return found.eval()

    def sound(self, usual: str, task: str | None = None) -> Any:
        """The codec or the vocoder that was given, or the usual one. `task`: None for a codec of codes."""
        tasks = {} if task is None else {"task": task}
        return load_codec(
            self.codec or usual, device=self.device, report=self.report, cancel=self.cancel, **tasks
        ).model  # fmt: skip

    def vectors(self, file: Any) -> list[Tensor]:
        """The tensors of a file of voices, as float32."""
        with open_checkpoint(file) as checkpoint:
            found = [checkpoint.read(entry, finite=True, device=self.device) for entry in checkpoint.tensors]
        return [one.to("float32") for one in found]

    @property
    def _recording(self) -> Any:
        """The WAVE file that was given as voices; None: vectors or nothing was given."""
        return self.voices if self.voices is not None and os.fspath(self.voices).lower().endswith(".wav") else None

    def heard_before(self) -> list[Tensor]:
        """The vectors of voices in the file that was given; none of a recording."""
        return [] if self.voices is None or self._recording is not None else self.vectors(self.voices)

    def hear(self, voice: LatentVoice | ScriptVoice) -> None:
        """Lets a voice hear the recording that was given, if one was."""
        if self._recording is not None:
            samples, rate = read_wav(self._recording)
            voice.hear(resample(mix_channels(samples), rate, voice.sample_rate))


@dataclass(frozen=True)
class _Form:
    """How models of a form are loaded. has_sound: they speak with a codec or a vocoder of other files; takes_voices:
    in voices of a file that users give.
    """

    load: Callable[[_Asked], LoadedVoice]
    has_sound: bool = False
    takes_voices: bool = False


def _form_of(settings: Mapping[str, Any]) -> _Form:
    """The form that a model's module says in SPEAKS; of one that says none, letters to sound."""
    return FORMS[getattr(architecture(settings.get("model_type")), "SPEAKS", LETTERS_TO_SOUND)]


def _of_letters(asked: _Asked) -> LoadedVoice:
    """VITS, with its characters."""
    name, files = asked.name, asked.files
    if VOCABULARY not in files:
        raise ModelError("its characters are missing", where=name, hint=f"Put the model's {VOCABULARY} beside it")
    own = settings_beside(files, "tokenizer_config")
    letters = VoiceTokenizer.from_files(read_settings(files[VOCABULARY]), own, f"{name}: {VOCABULARY}")
    tokenizer = SpokenPhonemes(letters, letters.language or "en-us", ipa=True) if letters.phonemes else letters
    model = asked.model()
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ModelError(
            f"there are {tokenizer.vocab_size:,} characters, the model has {model.config.vocab_size:,}", where=name,
            hint=f"Give the {VOCABULARY} that belongs to the model",
        )  # fmt: skip
    return LoadedVoice(name, model, tokenizer, asked.settings)


def _of_frames(asked: _Asked) -> LoadedVoice:
    """CSM."""
    words, model = tokenizer_of(asked.source, asked.name, asked.files), asked.model()
    check_tokenizer(words, model, asked.name)
    return LoadedVoice(asked.name, FrameVoice(model, words), SpokenTokens(words), asked.settings)


def _stages_in(source: Any, report: Callable[[Event], None], cancel: Cancel) -> Mapping[str, Any] | None:
    """The files of MetaVoice's two networks; None for a source of another model."""
    if isinstance(source, Mapping):
        return None
    if not os.path.isfile(os.path.join(source, STAGES[0])) and not (
        HUB_NAME.fullmatch(os.fspath(source)) and "metavoice" in os.fspath(source).lower()
    ):
        return None
    wanted = {*STAGES, VOICE_VECTOR}
    found = hub.resolve_files(source, lambda names: [n for n in names if n in wanted], report=report, cancel=cancel)
    missing = [name for name in STAGES if name not in found]
    if missing:
        raise ModelError(
            f"the files {', '.join(missing)} are missing", where=os.fspath(source), hint="Take lmz/candle-metavoice"
        )
    return found


def _of_stages(
    name: str, files: Mapping[str, Any], codec: Any, voices: Any, dtype: str | None, device: Device | str | None,
    report: Callable[[Event], None], cancel: Cancel,
) -> LoadedVoice:  # fmt: skip
    """MetaVoice, with the vectors of voices."""
    metavoice: Any = architecture("metavoice")
    meta = read_settings(files[STAGES[0]]).get("tokenizer")
    words, first = tokenizer_of_meta(meta, f"{name}: {STAGES[0]}")
    vectors = files.get(VOICE_VECTOR) if voices is None else voices
    if vectors is None:
        raise ModelError(
            "it speaks in the voice of a vector, and has none", where=name,
            hint=f"Give a file of it as --voices (in Python voices=), or put {VOICE_VECTOR} beside the model",
        )  # fmt: skip
    with open_checkpoint(vectors) as checkpoint:
        found = [checkpoint.read(entry, finite=True, device=device).to("float32") for entry in checkpoint.tensors]
    with open_checkpoint(files[STAGES[1]]) as one, open_checkpoint(files[STAGES[2]]) as two:
        settings = {"model_type": "metavoice", **metavoice.described(one.tensors, two.tensors, name)}
        with skip_initialization():
            model = metavoice.MetaVoice(metavoice.Config.from_dict(settings))
        sizes = {part.shape[-1] for part in found}
        if sizes != {model.config.speaker_size}:
            raise ModelError(
                f"its vectors have {', '.join(map(str, sorted(sizes)))} numbers, the model takes "
                f"{model.config.speaker_size}", where=name, hint="Give the vectors of MetaVoice's speakers",
            )  # fmt: skip
        end = first + words.vocab_size
        if end >= model.config.vocab_size:
            raise ModelError(f"there are {end + 1:,} tokens, the model has {model.config.vocab_size:,}", where=name)
        for part, checkpoint in ((model.first, one), (model.second, two)):
            load_weights(
                part, checkpoint, base="model" if part is model.first else "", dtype=dtype, device=device,
                progress=reading_of(report, cancel), config=model.config.to_dict(),
            )  # fmt: skip
    sound = load_codec(codec or USUAL_CODEC, device=device, report=report, cancel=cancel)
    rows = cat([part.reshape(-1, part.shape[-1]) for part in found])
    speaks = TwoStageVoice(model.eval(), sound.model, rows)
    return LoadedVoice(name, speaks, OffsetTokens(words, first, words.vocab_size), settings)


def tokenizer_of_meta(meta: Any, where: str) -> tuple[Tokenizer, int]:
    """The tokenizer of pieces that MetaVoice's file describes, and the number of its first token. ModelError for an
    object that does not describe one.
    """
    ranks, pattern, first = (meta.get(key) if isinstance(meta, dict) else None for key in META)
    plausible = isinstance(ranks, dict) and isinstance(pattern, str) and type(first) is int and 0 <= first <= 1 << 20
    if not plausible or not all(type(rank) is int for rank in ranks.values()):  # type: ignore[union-attr]
        raise ModelError("its tokenizer lacks pieces, a pattern or an offset", where=where)
    pieces = {value: bytes([value]) for value in range(256)}
    pieces |= {rank: key.encode() for key, rank in ranks.items() if rank >= 256}  # type: ignore[union-attr]
    if sorted(pieces) != list(range(len(pieces))):
        raise ModelError("the ranks of its pieces have gaps", where=where)
    listed = [pieces[rank] for rank in range(len(pieces))]
    document = tiktoken_document(listed, words=WordPattern((str(pattern),)), where=where)
    return Tokenizer(document, {}, where=where), int(first or 0)


def _has_other_sound(source: Any, report: Callable[[Event], None], cancel: Cancel) -> bool:
    """Whether this is a model that speaks with a vocoder or a codec of other files, and no language model."""
    files = source if isinstance(source, Mapping) else hub.resolve(source, report=report, cancel=cancel).files
    config = files.get("config.json", files.get("config"))
    return config is not None and _form_of(read_settings(config)).has_sound


def _of_latents(asked: _Asked) -> LoadedVoice:
    """Pocket TTS, with its codec, and the vectors of voices or a recording of one."""
    words, model = tokenizer_of(asked.source, asked.name, asked.files), asked.model()
    check_tokenizer(words, model, asked.name)
    voice = LatentVoice(model, asked.sound(CODEC_OF_LATENTS, OF_LATENTS), words, asked.generation, asked.heard_before())
    asked.hear(voice)
    return LoadedVoice(asked.name, voice, CapitalTokens(words), asked.settings)


def _of_scripts(asked: _Asked) -> LoadedVoice:
    """VibeVoice, and the vectors of voices or a recording of one."""
    words, model, generation = _words_of_scripts(asked), asked.model(), asked.generation
    check_tokenizer(words, model, asked.name)
    own = generation.get("noise_scheduler_config")
    schedule = {**SCHEDULE, **own} if isinstance(own, dict) else SCHEDULE
    kind, config = read_schedule(
        {**schedule, "_class_name": generation.get("noise_scheduler_class", schedule["_class_name"])}
    )
    tokens = ScriptTokens(words)
    voice = ScriptVoice(model, tokens, generation, lambda steps: kind(config, steps), asked.heard_before())
    asked.hear(voice)
    return LoadedVoice(asked.name, voice, tokens, asked.settings)


def _words_of_scripts(asked: _Asked) -> Any:
    """The tokenizer of VibeVoice; that of the language model on the hub from which it was made, where its files have
    none, as the authors'.
    """
    if any(name in asked.files for name in (TOKENIZER_JSON, "tokenizer", VOCABULARY)):
        return tokenizer_of(asked.source, asked.name, asked.files)
    settings = read_settings(asked.files[PREPARES]) if PREPARES in asked.files else {}
    origin = settings.get("language_model_pretrained_name")
    if not isinstance(origin, str) or not HUB_NAME.fullmatch(origin) or isinstance(asked.source, Mapping):
        raise ModelError(
            "its tokenizer is missing", where=asked.name,
            hint=f"Put the {TOKENIZER_JSON} of its language model, such as Qwen/Qwen2.5-1.5B, beside it",
        )  # fmt: skip
    chosen = hub.resolve_files(origin, _of_tokenizer, report=asked.report, cancel=asked.cancel)
    return tokenizer_of(chosen, origin, chosen)


def _of_dialogues(asked: _Asked) -> LoadedVoice:
    """Dia, with its codec."""
    voice = DialogueVoice(asked.model(), asked.sound(CODEC_OF_DIALOGUES), asked.generation)
    return LoadedVoice(asked.name, voice, DialogueTokens(), asked.settings)


def _of_descriptions(asked: _Asked) -> LoadedVoice:
    """Parler-TTS, with what reads texts and descriptions: one tokenizer, or two."""
    words = tokenizer_of(asked.source, asked.name, asked.files)
    describer, model = _describer(asked) or words, asked.model()
    check_tokenizer(words, model, asked.name)
    check_tokenizer(describer, model.text_encoder, asked.name)
    voice = DescribedVoice(model, describer, asked.generation)
    return LoadedVoice(asked.name, voice, PromptTokens(words), asked.settings)


def _in_stages(asked: _Asked) -> LoadedVoice:
    """Bark, with the names of its voices, whose files are read when they are used."""
    source, name, files = asked.source, asked.name, asked.files
    words = tokenizer_of(source, name, files)
    listed = settings_beside(files, HISTORIES)
    paths: dict[str, list[str]] = {}
    for voice, own in listed.items():
        if isinstance(own, dict):
            paths[voice] = [str(own.get(part)) for part in PROMPTS]
            wrong = [path for path in paths[voice] if not HISTORY.fullmatch(path) or ".." in path or path[0] == "/"]
            if wrong:
                raise ModelError(f"the voice {voice!r:.40} has the file {wrong[0]!r:.80}", where=f"{name}: {HISTORIES}")

    def fetch(voice: str) -> list[Any]:
        wanted = paths[voice]
        found: Mapping[str, Any] = (
            source
            if isinstance(source, Mapping)
            else hub.resolve_files(
                source, lambda names: [path for path in names if path in wanted], report=asked.report
            )
        )
        missing = [path for path in wanted if path not in found]
        if missing:
            raise ModelError(f"the file {missing[0]} of the voice {voice} is missing", where=name)
        return [found[path] for path in wanted]

    model = asked.model()
    check_tokenizer(words, model, name)
    speaks = StagedVoice(model, asked.generation, [*paths], fetch)
    return LoadedVoice(name, speaks, StagedTokens(words), asked.settings)


def _describer(asked: _Asked) -> Any:
    """The tokenizer of descriptions beside that of texts; None: there is one for both. It is in the model's folder
    description_tokenizer, or is that of the model on the hub that config.json names as the text encoder's origin.
    """
    source, name, files, settings = asked.source, asked.name, asked.files, asked.settings
    if any(path.startswith(f"{DESCRIBER}/") for path in files):
        return tokenizer_of(source, name, files, DESCRIBER)
    reads = settings.get("text_encoder")
    if not isinstance(reads, dict) or reads.get("vocab_size") == settings.get("vocab_size"):
        return None
    origin = reads.get("_name_or_path")
    if not isinstance(origin, str) or not HUB_NAME.fullmatch(origin) or isinstance(source, Mapping):
        raise ModelError(
            "the tokenizer of descriptions is missing", where=name,
            hint=f"Put the tokenizer of its text encoder, google/flan-t5-large of the published models, into the "
            f"folder {DESCRIBER} beside the model",
        )  # fmt: skip
    chosen = hub.resolve_files(origin, _of_tokenizer, report=asked.report, cancel=asked.cancel)
    return tokenizer_of(chosen, origin, chosen)


def _of_tokenizer(names: Sequence[str]) -> list[str]:
    """The files of a tokenizer among those of a repository."""
    return [name for name in names if MORE_FILES.fullmatch(name) and "/" not in name]


def _of_styles(asked: _Asked) -> LoadedVoice:
    """Kokoro, with the files of its voices."""
    name, files = asked.name, asked.files
    matches = {path: STYLES.fullmatch(path) for path in files}
    found = {match["name"]: _lasting(files[path]) for path, match in matches.items() if match is not None}
    if not found:
        raise ModelError(
            "it speaks in the style of vectors, and has none", where=name,
            hint="Put the model's folder `voices` beside its weights, with a file for each voice",
        )  # fmt: skip
    model = asked.model()
    letters = {"add_blank": False, "normalize": False}
    numbers = VoiceTokenizer.from_files(model.config.vocab, letters, f"{name}: vocab of config.json")
    speaks = StyledVoice(model, found, numbers.numbers.get(" "))
    return LoadedVoice(name, speaks, SpokenPhonemes(numbers, LANGUAGES["a"]), asked.settings)


def _lasting(source: Any) -> Any:
    """A path, or the bytes of a source: a voice is read when it is used, and the source may be closed by then."""
    if isinstance(source, (str, os.PathLike)):
        return source
    if source.size > LARGEST_STYLE:
        raise ModelError(f"this is not a file of a voice: it has {source.size:,} bytes", where=source.name)
    return BytesSource(bytes(source.read(0, source.size)), source.name)


def _of_spectrograms(asked: _Asked) -> LoadedVoice:
    """SpeechT5, with its vocoder and the vectors of voices."""
    name, files = asked.name, asked.files
    if LETTERS not in files and "tokenizer" not in files:
        raise ModelError("its letters are missing", where=name, hint=f"Put the model's {LETTERS} beside it")
    vectors = files.get(VECTORS) if asked.voices is None else asked.voices
    if vectors is None:
        raise ModelError(
            "it speaks in the voice of a vector, and has none", where=name,
            hint=f"Give a file of it as --voices (in Python voices=), or put {VECTORS} beside the model",
        )  # fmt: skip
    own = {"spm.model": files[LETTERS]} if LETTERS in files else {"tokenizer.json": files["tokenizer"]}
    words = load_tokenizer(own)
    rows = cat([part.reshape(-1, part.shape[-1] if part.ndim else 1) for part in asked.vectors(vectors)])
    model = asked.model()
    check_tokenizer(words, model, name)
    voice = SpectrogramVoice(model, asked.sound(USUAL_VOCODER, VOCODER), rows)
    letters = SpokenLetters(words, words.special_id("unk_token", "<unk>"), model.config.eos_token_id)
    return LoadedVoice(name, voice, letters, asked.settings)


def _of_replies(asked: _Asked) -> LoadedVoice:
    """Qwen2.5-Omni and Qwen3-Omni, with their voices."""
    words, model = tokenizer_of(asked.source, asked.name, asked.files), asked.model()
    check_tokenizer(words, model, asked.name)
    voices = model.speech.speakers
    if not voices and SPEAKERS not in asked.files:
        raise ModelError("its voices are missing", where=asked.name, hint=f"Put the model's {SPEAKERS} beside it")
    known = voices or load_objects(asked.files[SPEAKERS])
    voice = ReplyVoice(model, words, known, asked.name)
    return LoadedVoice(asked.name, voice, SpokenTokens(words), asked.settings)


def _of_durations(asked: _Asked) -> LoadedVoice:
    """FastSpeech 2, with its sounds and its vocoder."""
    name, files = asked.name, asked.files
    if VOCABULARY not in files:
        raise ModelError("its sounds are missing", where=name, hint=f"Put the model's {VOCABULARY} beside it")
    letters = VoiceTokenizer.from_files(read_settings(files[VOCABULARY]), where=f"{name}: {VOCABULARY}").numbers
    own = settings_beside(files, "tokenizer_config")
    end = own.get("eos_token", "<sos/eos>")
    words, model = SpokenSounds(letters, letters.get(end) if isinstance(end, str) else None), asked.model()
    check_tokenizer(words, model, name)  # type: ignore[arg-type]
    sound = asked.sound(VOCODER_OF_DURATIONS, VOCODER) if model.vocoder is None or asked.codec else model.vocoder
    return LoadedVoice(name, ParallelVoice(model, sound), words, asked.settings)


LETTERS_TO_SOUND = "letters"
FORMS: Mapping[str, _Form] = {  # by what a model's module says in SPEAKS
    LETTERS_TO_SOUND: _Form(_of_letters),
    "frames": _Form(_of_frames),
    "styles": _Form(_of_styles),
    "stages": _Form(_in_stages),
    "descriptions": _Form(_of_descriptions),
    "dialogues": _Form(_of_dialogues, has_sound=True),
    "durations": _Form(_of_durations, has_sound=True),
    "replies": _Form(_of_replies),
    "latents": _Form(_of_latents, has_sound=True, takes_voices=True),
    "scripts": _Form(_of_scripts, takes_voices=True),
    "spectrograms": _Form(_of_spectrograms, has_sound=True, takes_voices=True),
}
