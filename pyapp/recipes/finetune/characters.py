"""Trains a model that names a character (wav2vec 2.0, HuBERT, WavLM, SEW, wav2vec 2.0 BERT …) or a piece of a word
(Parakeet) for each moment further on recordings and what is said in them, with connectionist temporal classification:
a model that has characters, or one that gets those of the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops.random import default_generator
from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.events import Event, Notice, Progress
from pyapp.formats import open_checkpoint
from pyapp.models.load import read_settings, settings_beside
from pyapp.models.loading.building import DEVIATION, build
from pyapp.models.loading.heads import known_tasks
from pyapp.models.loading.sound import TASK, files_of, module_of, processor_of
from pyapp.models.loading.speech import load_speech_model
from pyapp.models.loading.writing_folder import SETTINGS, write_folder, write_json
from pyapp.nn import Module, Parameter
from pyapp.nn import functional as F
from pyapp.recipes.error_rates import error_rate
from pyapp.text.tokenization.ctc_tokenizer import CTCTokenizer
from pyapp.text.tokenization.spoken_pieces import SpokenPieces

from .class_folders import PROCESSOR
from .masking import MaskedSettings
from .spoken import EMPTY, Spoken, lines_in, started
from .steps import Request
from .stretches import Stretch, recording_of, samples_of
from .whole import CHANGED, WholeTraining

LONGEST = 30.0  # seconds of a recording, or of a window of one
UNKNOWN, BLANK, DELIMITER = "[UNK]", "[PAD]", "|"  # of new characters, as in transformers' recipe
MOST = 1 << 16  # new characters
REDUCTIONS = ("mean", "sum")
UNWRITABLE = "said with characters that the vocabulary lacks"
# The files of characters or pieces, by role; those that say how sound is prepared.
FILES = ("vocab.json", "tokenizer", "tokenizer_config", "special_tokens_map.json", "added_tokens.json")
PREPARE = ("preprocessor_config", "processor_config")


@dataclass(frozen=True)
class CharacterSettings(MaskedSettings):
    """As MaskedSettings. rate 0: 1e-4. ctc_loss_reduction: "mean" over the recordings, each divided by its characters,
    or "sum"; ctc_zero_infinity: a loss that is infinite counts as 0. freeze_feature_encoder: the convolutions over
    samples stay as they are. new_vocabulary: the texts' characters take the place of the model's. ignored_characters
    are left out of texts.
    """

    ctc_loss_reduction: str = "mean"
    ctc_zero_infinity: bool = False
    freeze_feature_encoder: bool = True
    new_vocabulary: bool = False
    ignored_characters: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ctc_loss_reduction not in REDUCTIONS:
            raise OptionError(
                f"is {self.ctc_loss_reduction!r:.40}, expected {' or '.join(REDUCTIONS)}", where="ctc_loss_reduction"
            )

    def read(self, text: str) -> str:
        """A text without what is ignored, with single spaces."""
        return " ".join("".join(character for character in text if character not in self.ignored_characters).split())


@dataclass(frozen=True, eq=False)
class Heard:
    """A file or a stretch of one, the text that is said, and the numbers of its characters."""

    path: Path | Stretch
    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class LoadedCharacters:
    """A model, its characters or pieces, what prepares its sound, the object of its config.json, and by their names the
    files that belong to it: those to copy, and the objects of others.
    """

    model: Any
    tokenizer: CTCTokenizer | SpokenPieces
    processor: Any
    settings: dict[str, Any]
    copied: Mapping[str, Path]
    written: Mapping[str, Any]


class CharacterTraining(WholeTraining):
    """Recordings of up to 30 s and the characters of their texts."""

    task = TASK
    quality = "character_error_rate"
    judged_at_once = 4  # a recording's numbers in the first layers take hundreds of megabytes
    usual_rate = 1e-4
    settings: CharacterSettings
    word_error_rate: float
    """At the last evaluation."""

    @property
    def unit(self) -> str:  # type: ignore[override]
        """The unit of the losses."""
        mean, token = self.settings.ctc_loss_reduction == "mean", isinstance(self.loaded.tokenizer, SpokenPieces)
        return f"nats/{'batch' if not mean else 'token' if token else 'character'}"

    @staticmethod
    def source(row: Heard) -> Path:
        """The recording."""
        return recording_of(row.path)

    def frozen(self) -> Iterable[Module]:
        part = getattr(self.model.encoder, "feature_extractor", None)
        return [part] if self.settings.freeze_feature_encoder and part is not None else []

    def outputs(self, model: Any, rows: Sequence[Heard]) -> tuple[Tensor, ...]:
        """Logits (B, T, V), and how many moments of each recording the loss reads (B,)."""
        device, sounds = self.model.device, [samples_of(row.path) for row in rows]
        values, mask = self.loaded.processor(sounds)  # (B, N) or (B, F, C); (B, N) or (B, F)
        with self.region():
            logits: Tensor = model(values.to(device), None if mask is None else mask.to(device))
        if mask is None:  # padding is silence, which the loss reads
            lengths = [logits.shape[1]] * len(rows)
        else:
            lengths = [self.model.encoder.moments(len(sound)) for sound in sounds]
        return logits.float(), ops.tensor(lengths)

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Heard]) -> Tensor:
        """That of transformers."""
        logits, lengths = outputs
        return F.ctc_loss(
            logits.log_softmax(-1).transpose(0, 1), ops.tensor([number for row in rows for number in row.ids]), lengths,
            [len(row.ids) for row in rows], self.loaded.tokenizer.blank_number, self.settings.ctc_loss_reduction,
            self.settings.ctc_zero_infinity,
        )  # fmt: skip

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Heard]) -> list[tuple[Any, Any]]:
        """(the most probable text, what is said) of each recording."""
        found = []
        for best, length, row in zip(outputs[0].argmax(2).tolist(), outputs[1].tolist(), rows, strict=True):
            words = self.loaded.tokenizer.words(best[:length])
            found.append((" ".join(word.text for word in words), row.text))
        return found

    def quality_of(self, pairs: Sequence[tuple[Any, Any]]) -> float:
        """The character error rate; keeps the word error rate."""
        found, said = zip(*pairs, strict=True)
        self.word_error_rate = error_rate([text.split() for text in said], [text.split() for text in found])
        return error_rate(said, found)

    def qualities(self) -> dict[str, float]:
        return super().qualities() | {"word_error_rate": self.word_error_rate}

    def config(self) -> dict[str, Any]:
        found = {key: value for key, value in self.loaded.settings.items() if key not in CHANGED}
        return found | {
            "dtype": "float32", "architectures": [type(self.model).__name__],
            "ctc_loss_reduction": self.settings.ctc_loss_reduction,
            "ctc_zero_infinity": self.settings.ctc_zero_infinity,
        }  # fmt: skip

    def export(self) -> None:
        """Writes the model's folder, as transformers has it."""
        write_folder(self.model, self.config(), self.loaded.copied, self.folder)
        for name, value in self.loaded.written.items():
            write_json(self.folder / name, value)


def names_characters(settings: Mapping[str, Any]) -> bool:
    """Whether a configuration is of a model that names a character or a piece for each moment, and is trained here."""
    if TASK not in known_tasks(settings):
        return False
    if _names_pieces(settings):
        return str(settings["model_type"]).endswith("_ctc")  # the others are transducers
    return str(getattr(module_of(settings).TASKS[TASK], "__name__", "")).endswith("ForCTC")


def _names_pieces(settings: Mapping[str, Any]) -> bool:
    """Whether it names pieces of words."""
    return bool(getattr(module_of(settings), "PIECES", False))


def new_characters(texts: Iterable[str], where: str) -> dict[str, int]:
    """The vocabulary of texts, as transformers' recipe makes it (examples/pytorch/speech-recognition,
    run_speech_recognition_ctc.py): the characters in order, `|` in place of the space, then [UNK] and [PAD].
    FileFormatError for too many.
    """
    known = {" "}.union(*texts) - {DELIMITER}
    if len(known) > MOST:
        raise FileFormatError(f"its texts have {len(known):,} characters, expected at most {MOST:,}", where=where)
    found = [DELIMITER if character == " " else character for character in sorted(known)]
    return {character: number for number, character in enumerate([*found, UNKNOWN, BLANK])}


def _loaded(request: Request, chosen: CharacterSettings, lines: Mapping[Path, Sequence[Spoken]]) -> LoadedCharacters:
    """The model of a request, with its own characters or those of the lines."""
    files = files_of(request.model, lambda event: None, request.cancel)
    settings = read_settings(files["config"])
    classes, pieces = settings.get("architectures"), _names_pieces(settings)
    named = str(classes[0]) if isinstance(classes, list) and classes else "ForCTC" if "vocab.json" in files else ""
    trained = pieces or named.endswith("ForCTC")
    if pieces and chosen.new_vocabulary:
        raise OptionError("a model of pieces of words keeps its own", where="new_vocabulary", hint="Leave it out")
    if trained and not chosen.new_vocabulary:
        return _with_own_characters(request, files, settings)
    texts = [chosen.read(line.text).lower() for own in lines.values() for line in own]
    vocabulary = new_characters(texts, str(request.data))
    settings |= {"vocab_size": len(vocabulary), "pad_token_id": vocabulary[BLANK]}
    prepares = _prepares(files)
    if not prepares and hasattr(module_of(settings), "PROCESSOR"):
        raise ModelError("its preprocessor_config.json is missing", where=request.model, hint="Put it beside it")
    if not prepares:
        masks = settings.get("feat_extract_norm") == "layer"
        prepares = {
            "feature_extractor_type": "Wav2Vec2FeatureExtractor",
            "sampling_rate": SAMPLE_RATE,
            "feature_size": 1,
            "padding_value": 0.0,
            "do_normalize": True,
            "return_attention_mask": masks,
        }
    processor = processor_of(request.model, settings, prepares)
    default_generator.manual_seed(chosen.seed)  # of the new layer
    with open_checkpoint(files["model"]) as checkpoint:
        model: Any = build(checkpoint, settings, TASK, "float32", request.device, cancel=request.cancel, new_head=True)
    if trained:  # the head of other characters, which may be as many
        for name, value in model.lm_head.named_parameters():
            made = ops.randn(value.shape) * (DEVIATION if name == "weight" else 0)
            setattr(model.lm_head, name, Parameter(made.to(value.device), requires_grad=False))
    tokens = {"unk_token": UNKNOWN, "pad_token": BLANK, "word_delimiter_token": DELIMITER}
    # Without tokens for the start and the end of a text, which no such model writes.
    words = {"tokenizer_class": "Wav2Vec2CTCTokenizer", "bos_token": None, "eos_token": None, "do_lower_case": False}
    written = {"vocab.json": vocabulary, SETTINGS: words | tokens, PROCESSOR: prepares}
    return LoadedCharacters(model.eval(), CTCTokenizer.from_files(vocabulary, tokens), processor, settings, {}, written)


def _with_own_characters(request: Request, files: Mapping[str, Path], settings: dict[str, Any]) -> LoadedCharacters:
    loaded = load_speech_model(request.model, dtype="float32", device=request.device, cancel=request.cancel)
    words = settings_beside(files, "tokenizer_config")
    config = loaded.model.config
    phonemes = "Phoneme" in str(words.get("tokenizer_class"))
    if phonemes or loaded.tokenizer.blank_number != getattr(config, "blank", config.pad_token_id):
        problem = "writes phonemes, not texts" if phonemes else "has another blank than config.json (pad_token_id)"
        raise ModelError(
            f"its vocabulary {problem}", where=loaded.name, hint="Train it on the texts' characters: --new-vocabulary"
        )
    beside = {files[role].name: files[role] for role in FILES if role in files}
    prepares = _prepares(files) or {"do_normalize": True, "sampling_rate": SAMPLE_RATE}
    return LoadedCharacters(loaded.model, loaded.tokenizer, loaded.processor, settings, beside, {PROCESSOR: prepares})


def _prepares(files: Mapping[str, Path]) -> dict[str, Any]:
    """The object that says how sound is prepared, of a file for it or one for words and sound; empty without one."""
    found = next((read_settings(files[role]) for role in PREPARE if role in files), {})
    own = found.get("feature_extractor")
    return own if isinstance(own, dict) else found


def row_of(loaded: LoadedCharacters, chosen: CharacterSettings, line: Spoken, samples: int) -> Heard | str:
    """What is learnt of a line, whose recording has so many samples; or why it is left out."""
    text = loaded.tokenizer.fitted(chosen.read(line.text))
    ids = loaded.tokenizer.encode(text)
    if not ids and not loaded.tokenizer.missing(text):
        return EMPTY
    if loaded.tokenizer.missing(text):
        return UNWRITABLE
    blanks = sum(one == other for one, other in zip(ids, ids[1:], strict=False))  # stand between equal characters
    if loaded.model.encoder.moments(samples) < len(ids) + blanks:
        return "too short for the text"
    return Heard(line.path, text.lower() if loaded.tokenizer.lower else text, tuple(ids))


def finetune_characters(request: Request) -> Iterator[Event]:
    """Trains a model that names characters further on the recordings that a .jsonl, .csv or .tsv file names, with what
    is said in them, with the settings of CharacterSettings: Progress, Metric and finally Done.
    """
    chosen = request.settings_as(CharacterSettings)
    if chosen.held_out or request.held_out_data is not None:
        error_rate([""], [""])  # without its library, this is the moment to say so
    lines = lines_in(request)
    yield Progress("loading the model", 0, 1)
    loaded = _loaded(request, chosen, lines)
    loaded = replace(loaded, settings=chosen.mask(loaded.model, loaded.settings))
    lacking = sorted(set[str]().union(*(_lacking(loaded, chosen, own) for own in lines.values())))
    if lacking:
        shown = " ".join(lacking[:20]) + " …" * (len(lacking) > 20)
        yield Notice(
            f"the vocabulary lacks these characters of the texts: {shown}",
            hint="Write them in its characters, leave them out (--ignored-characters), or train with --new-vocabulary",
        )
    make = partial(row_of, loaded, chosen)
    yield from started(CharacterTraining, request, CharacterSettings, loaded, LONGEST, make, lines)


def _lacking(loaded: LoadedCharacters, chosen: CharacterSettings, lines: Sequence[Spoken]) -> set[str]:
    """The characters of lines that the vocabulary lacks."""
    tokenizer = loaded.tokenizer
    return set[str]().union(*(tokenizer.missing(tokenizer.fitted(chosen.read(line.text))) for line in lines))


__all__ = ["CharacterSettings", "finetune_characters"]
