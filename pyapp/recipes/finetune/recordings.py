"""Trains a Whisper further on recordings and what is said in them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyapp.audio.constants import SAMPLE_RATE
from pyapp.audio.decoding import WindowDecoder
from pyapp.audio.mel import HOP, log_mel_spectrogram, pad_or_trim
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.transcribe import encoder_of, frames_of
from pyapp.audio.windows import MelWindows
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Metric, Notice, Progress
from pyapp.models.load import read_settings
from pyapp.models.loading.speech import LoadedSpeechModel, load_speech_model
from pyapp.models.loading.writing_folder import write_tensors
from pyapp.models.whisper.weights import hugging_face_name, unfused
from pyapp.recipes.chooser import Chooser
from pyapp.recipes.error_rates import INSTALL, MISSING, can_compare, compared, error_rate
from pyapp.text.generation.options import check_number
from pyapp.text.tokenization.whisper_tokenizer import SECONDS_PER_TIME, WhisperTokenizer
from pyapp.train.token_rows import IGNORED, padded, predicted_loss, predicted_tokens

from .masking import MaskedSettings
from .spoken import EMPTY, Segment, Spoken, started
from .steps import Request
from .stretches import Stretch, recording_of, samples_of
from .whole import WholeTraining


@dataclass(frozen=True)
class RecordingSettings(MaskedSettings):
    """As MaskedSettings. language: of recordings whose line names none, by code or name. timestamp_probability: how
    often a recording whose line has segments is learnt with their times. condition_on_prev_probability: how often a
    window of a long recording is learnt after what was said before it, as its prompt. error_rate_recordings: how many
    held-out recordings are transcribed at each evaluation, at most, to tell how many words are wrong.
    """

    language: str = "en"
    timestamp_probability: float = 1.0
    condition_on_prev_probability: float = 0.5
    error_rate_recordings: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("timestamp_probability", "condition_on_prev_probability"):
            check_number(name, getattr(self, name), 0, 1)
        check_number("error_rate_recordings", self.error_rate_recordings, 0, 1_000_000, whole=True)


@dataclass(frozen=True, eq=False)
class Recording:
    """A file or a stretch of one; what is said there, in which language; the tokens of it, and from which of them on
    they are to be learnt. `prompt`: what was said before, after the token that begins a prompt. `timed`: the same with
    times, if some of the visits are to learn these.
    """

    path: Path | Stretch
    text: str
    language: str
    ids: array[int]
    first: int
    prompt: Sequence[int] = ()
    timed: Recording | None = None

    def prompted(self) -> Recording:
        """The recording with its tokens after its prompt."""
        return replace(self, ids=array("i", [*self.prompt, *self.ids]), first=len(self.prompt) + self.first, prompt=())


class WhisperTraining(WholeTraining):
    """Recordings of up to the model's window (30 s) and their texts, with or without times: cross-entropy of the
    tokens.
    """

    task = "speech-recognition"
    unit = "nats/token"

    def __init__(self, folder: Path, settings: RecordingSettings, *args: Any) -> None:
        super().__init__(folder, settings, *args)
        chooser, share = Chooser("times of held-out recordings", settings.seed), settings.timestamp_probability
        rows: list[Recording] = [row.timed or row if chooser.chance(share) else row for row in self.held_out_rows]
        chooser, share = Chooser("prompts of held-out windows", settings.seed), settings.condition_on_prev_probability
        rows = [row.prompted() if row.prompt and chooser.chance(share) else row for row in rows]
        self.held_out_rows = rows
        count = min(len(rows), settings.error_rate_recordings) if can_compare() else 0
        self.transcribed_rows = [rows[number * len(rows) // count] for number in range(count)]
        self.error_rates: dict[str, float] = {}
        self.saved, self.masking = settings.masking(read_settings(self.files["config"]))

    def _loss(self, model: Any, rows: Sequence[Recording]) -> tuple[Tensor, float]:
        """The recording with times or without, and after a prompt or not: by chance, where it has both."""
        if any(row.timed for row in rows):
            chances = ops.rand(len(rows)).tolist()
            share = self.settings.timestamp_probability
            rows = [row.timed or row if chance < share else row for chance, row in zip(chances, rows, strict=True)]
        if any(row.prompt for row in rows):
            chances = ops.rand(len(rows)).tolist()
            share = self.settings.condition_on_prev_probability
            rows = [row.prompted() if chance < share else row for chance, row in zip(chances, rows, strict=True)]
        return super()._loss(model, rows)

    @staticmethod
    def source(row: Recording) -> Path:
        """The recording."""
        return recording_of(row.path)

    def outputs(self, model: Any, rows: Sequence[Recording]) -> tuple[Tensor, ...]:
        """What the decoder's head reads (B, T, state)."""
        tokens = padded([row.ids[:-1] for row in rows], 0).to(self.model.device)
        with self.region():
            return (self.model.decoder.hidden(tokens, self.model.encode(self._heard(rows))),)

    def _heard(self, rows: Sequence[Recording]) -> Tensor:
        """The spectrograms of recordings (B, n_mels, F); in training, if it is wanted, with hidden stretches."""
        config, sounds = self.model.config, [samples_of(row.path) for row in rows]
        samples = 2 * config.n_audio_ctx * HOP
        spectra = [log_mel_spectrogram(pad_or_trim(sound, samples), config.n_mels) for sound in sounds]
        mel = ops.from_numpy(np.stack(spectra)).to(self.model.device)
        if self.masking is None or not self.model.training:
            return mel
        counts = [-(-len(sound) // HOP) for sound in sounds]  # the silence after a recording is not hidden
        hidden = self.masking(mel.transpose(1, 2), counts, mel.new_zeros((config.n_mels,)))
        return hidden.transpose(1, 2).contiguous()

    def _targets(self, rows: Sequence[Recording]) -> Tensor:
        """(B, T), on the CPU: the next tokens, IGNORED where they are given."""
        given = [[IGNORED] * (row.first - 1) + list(row.ids[row.first :]) for row in rows]
        return padded(given, IGNORED)

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Recording]) -> Tensor:
        with self.region():
            return predicted_loss(self.model.decoder, outputs[0], self._targets(rows))

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Recording]) -> list[tuple[float, float]]:
        targets = self._targets(rows)  # (B, T)
        with self.region():
            found: list[float] = predicted_tokens(self.model.decoder, outputs[0], targets).tolist()
        wanted = [target for target in targets.flatten().tolist() if target != IGNORED]
        return list(zip(found, wanted, strict=True))

    def written(self, row: Recording) -> str:
        """What the model writes of a recording, with the most probable token at each place, as `pyapp transcribe` at
        temperature 0: in the form, and after the prompt, in which it is learnt.
        """
        tokenizer: WhisperTokenizer = self.loaded.tokenizer
        options = TranscribeOptions(without_timestamps=row.ids[row.first - 1] == tokenizer.no_timestamps)
        decoder = WindowDecoder(self.model, tokenizer, options, row.language, lambda: 0.0)
        mel = MelWindows(samples_of(row.path), self.model.config.n_mels)
        audio = encoder_of(self.loaded).put(mel.read(0, mel.holds(frames_of(self.model)))).take()  # (1, n_ctx, state)
        prompt = row.ids[1 : row.ids.index(tokenizer.sot)]  # after the token that begins it
        decoding = decoder.decode(audio, prompt, 0.0, Cancel())
        while True:
            try:
                next(decoding)
            except StopIteration as end:
                return tokenizer.decode(end.value.tokens)

    def find_error_rates(self, cancel: Cancel) -> dict[str, float]:
        """The error rates of characters and words of the recordings that are transcribed, by name; none if that is
        cancelled.
        """
        found = []
        self.model.eval()
        try:
            with no_grad():
                for row in self.transcribed_rows:
                    if cancel.is_set():
                        return {}
                    found.append(compared(self.written(row)))
        finally:
            self.to_training()
        if not found:
            return {}
        said = [compared(row.text) for row in self.transcribed_rows]
        words = error_rate([text.split() for text in said], [text.split() for text in found])
        return {"character_error_rate": error_rate(said, found), "word_error_rate": words}

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        """The qualities of the held-out rows, and the error rates."""
        yield from super().evaluated(cancel)
        self.error_rates = self.find_error_rates(cancel)
        for name, value in self.error_rates.items():
            yield Metric(f"held_out_{name}", value, "", self.trainer.step_count)

    def results(self) -> dict[str, Any]:
        found = super().results()
        if self.patience or not self.error_rates:  # those of other weights, or of a run that continues
            self.error_rates = self.find_error_rates(Cancel())
        more = {f"held_out_{name}": value for name, value in self.error_rates.items()}
        return found | more | ({"transcribed_recordings": len(self.transcribed_rows)} if more else {})

    def export(self) -> None:
        """Writes the model's folder, as transformers has it."""
        settings = self.saved | {"dtype": "float32"}
        settings.pop("torch_dtype", None)
        beside = {path.name: path for role, path in self.files.items() if role not in ("model", "config")}
        tensors = {hugging_face_name(name): value for name, value in unfused(self.model)}
        write_tensors(tensors, settings, beside, self.folder)


def row_of(loaded: LoadedSpeechModel, chosen: RecordingSettings, line: Spoken, samples: int) -> Recording | str:
    """What is learnt of a line, whose recording has so many samples; or why it is left out."""
    config, tokenizer, window = loaded.model.config, loaded.tokenizer, seconds_of(loaded)
    if not line.text:
        return EMPTY
    line.check_times(samples / SAMPLE_RATE)
    language = str(line.fields.get("language") or chosen.language)
    start = tokenizer.sot_sequence(language)
    given = [*start, tokenizer.no_timestamps]
    ids = array("i", [*given, *_tokens(tokenizer, line), tokenizer.eot])
    row = Recording(line.path, line.text, language, ids, len(given))
    if line.segments and chosen.timestamp_probability:
        said = _tokens(tokenizer, line, window)
        timed = replace(row, ids=array("i", [*start, *said, tokenizer.eot]), first=len(start))
        row = timed if chosen.timestamp_probability == 1 else replace(row, timed=timed)
    if max(len(row.ids), 0 if row.timed is None else len(row.timed.ids)) > config.n_text_ctx:
        return f"said in more than the {config.n_text_ctx} tokens that the model writes"
    if line.before is None or not chosen.condition_on_prev_probability:
        return row
    if row.timed is not None:
        row = replace(row, timed=replace(row.timed, prompt=_prompt(loaded, line.before, len(row.timed.ids), window)))
    only_times = None if row.ids[row.first - 1] == tokenizer.no_timestamps else window
    return replace(row, prompt=_prompt(loaded, line.before, len(row.ids), only_times))


def seconds_of(loaded: LoadedSpeechModel) -> float:
    """The seconds that a Whisper hears at once: 30, of most."""
    return 2 * int(loaded.model.config.n_audio_ctx) * HOP / SAMPLE_RATE


def _tokens(tokenizer: WhisperTokenizer, line: Spoken, window: float | None = None) -> list[int]:
    """What is said; if the seconds of a window are given, with times."""
    return tokenizer.encode(f" {line.text}") if window is None else timed_tokens(tokenizer, line.segments, window)


def _prompt(loaded: LoadedSpeechModel, before: Spoken | None, length: int, window: float | None) -> array[int]:
    """The prompt of a window of `length` tokens: the end of what the windows before it say, as far as the model reads
    it, in the form that transcribing gives it (with `window`, the times of each).
    """
    context, tokenizer = loaded.model.config.n_text_ctx, loaded.tokenizer
    room = min(context // 2 - 1, context - length)
    said: list[int] = []
    while before is not None and len(said) < room:
        said = _tokens(tokenizer, before, window) + said
        before = before.before
    return array("i", [tokenizer.sot_prev, *said[-room:]] if room > 0 else [])


def timed_tokens(tokenizer: WhisperTokenizer, segments: Sequence[Segment], window: float) -> list[int]:
    """The tokens of segments, each between its times (Radford et al. 2022, section 2.3), which are rounded to 0.02 s
    and end with the window, in seconds.
    """
    found = []
    for segment in segments:
        begin, end = (
            tokenizer.timestamp_begin + int(min(time, window) / SECONDS_PER_TIME + 0.5)
            for time in (segment.start, segment.end)
        )
        found += [begin, *tokenizer.encode(f" {segment.text}"), end]
    return found


def finetune_whisper(request: Request) -> Iterator[Event]:
    """Trains a Whisper further on the recordings that a .jsonl, .csv or .tsv file names, with what is said in them,
    with the settings of RecordingSettings: Progress, Metric and finally Done.
    """
    chosen = request.settings_as(RecordingSettings)
    yield Progress("loading the model", 0, 1)
    loaded = load_speech_model(request.model, dtype="float32", device=request.device, cancel=request.cancel)
    if not isinstance(loaded.tokenizer, WhisperTokenizer):
        raise ModelError("the model is not a Whisper", where=loaded.name)
    if chosen.error_rate_recordings and not can_compare():
        yield Notice(f"words that are wrong will not be counted: {MISSING}", hint=INSTALL)
    make, seconds = partial(row_of, loaded, chosen), seconds_of(loaded)
    yield from started(WhisperTraining, request, RecordingSettings, loaded, seconds, make)


__all__ = ["RecordingSettings", "finetune_whisper"]
