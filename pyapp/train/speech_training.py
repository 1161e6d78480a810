"""`pyapp train speech`: from a grammar and a speech synthesiser to a small Whisper model that hears it."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor, flush_denormals, get_num_threads, instruction_set, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.engine.ops.random import Generator
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Event, Metric, Progress
from pyapp.models.whisper import Config, Whisper
from pyapp.nn.layers import initialize_normal
from pyapp.nn.lr_scheduler import Shape, warmup_cosine
from pyapp.train.loop import CHECKPOINT, IGNORED, Recipe, Trainer, same_settings
from pyapp.train.plot import loss_curve
from pyapp.train.speech_export import export
from pyapp.train.speech_grammar import TEST_SEED, training_sentences, unseen_sentences
from pyapp.train.speech_letters import Speller, spelling_loss
from pyapp.train.speech_loader import SpeechLoader, Stage
from pyapp.train.speech_tokens import SpeechTokens, train_tokens
from pyapp.train.speech_voices import check_program
from pyapp.train.speech_windows import Example, Lesson, WindowMaker
from pyapp.train.story_training import make_folder

MELS = 80
TEXT_CONTEXT = 256  # tokens: half for a window's text, half for the text before it
# Shares of all steps at which lessons begin. rows * seconds are about alike.
LESSONS = (
    (0.0, Lesson(4.0, 6, clear=True)),
    (1 / 16, Lesson(4.0, 6)),
    (1 / 4, Lesson(8.0, 3, live=0.1)),
    (13 / 32, Lesson(15.0, 2, live=0.15)),
    (5 / 8, Lesson(15.0, 2, before=12, prompted=0.6, live=0.25)),
)
RESTART = 0.4
"""Of the first rate: with the last lesson it begins to fall anew."""

VOCABULARY_SENTENCES = 8000


@dataclass(frozen=True)
class SpeechSettings:
    """What decides the result, apart from the seed. The embedded model has the defaults."""

    steps: int = 32000
    seed: int = 1
    rate: float = 1.5e-3
    state: int = 128
    heads: int = 4
    audio_layers: int = 4
    text_layers: int = 2
    pieces: int = 512
    seconds: float = 15.0
    held_out: int = 48

    def __post_init__(self) -> None:
        for name in ("steps", "held_out", "audio_layers", "text_layers"):
            if not 1 <= getattr(self, name) <= 10_000_000:
                raise OptionError(f"{name} must be from 1 to 10,000,000, not {getattr(self, name)}")
        if not 0 < self.rate <= 1:
            raise OptionError(f"rate must be above 0 and at most 1, not {self.rate}")
        if not 300 <= self.pieces <= 65536 or not 2.5 <= self.seconds <= 30:
            raise OptionError("pieces must be from 300 to 65,536 and seconds from 2.5 to 30")

    def config(self, vocabulary: int) -> Config:
        """Of the model. One position of the encoder is 20 ms."""
        audio = (MELS, round(self.seconds * 50), self.state, self.heads, self.audio_layers)
        return Config(*audio, vocabulary, TEXT_CONTEXT, self.state, self.heads, self.text_layers)

    def recipe(self) -> Recipe:
        warmup = max(1, min(100, self.steps // 10))
        return Recipe(self.steps, 0, self.rate, warmup, decay=0.05, betas=(0.9, 0.98))

    def stages(self) -> list[Stage]:
        return [
            Stage(round(share * self.steps), replace(lesson, seconds=min(lesson.seconds, self.seconds)))
            for share, lesson in LESSONS
        ]


class SpeechTrainer(Trainer):
    """Trains a Speller: its batches are Examples."""

    def shape(self) -> Shape:
        """Half a cosine down, and from the last lesson on another (Loshchilov and Hutter 2017, with one restart)."""
        recipe = self.recipe
        last = round(LESSONS[-1][0] * recipe.steps)
        first = warmup_cosine(recipe.warmup, max(1, last), recipe.floor)
        second = warmup_cosine(0, max(1, recipe.steps - last), recipe.floor)
        return lambda step: first(step) if step < last else RESTART * second(step - last)

    def step(self) -> float:
        with flush_denormals():  # half of the time else, once attention is sharp
            return super().step()

    def batch_loss(self) -> tuple[Tensor, float]:
        examples = self.loader.batch(self.recipe.rows)
        mel, inputs, targets = arrays(examples)
        logits, scores = self.model(mel, inputs)
        loss = ops.cross_entropy(logits, targets, IGNORED)
        spelling = spelling_loss(scores, [one.letters for one in examples], [one.heard for one in examples])
        return loss + spelling, float(loss.item())


def arrays(examples: list[Example]) -> tuple[Tensor, Tensor, Tensor]:
    """mel (B, 80, F), inputs and targets int32 (B, T): short rows are filled up with ignored targets."""
    longest = max(len(example.inputs) for example in examples)
    inputs = np.zeros((len(examples), longest), np.int32)
    targets = np.full((len(examples), longest), IGNORED, np.int32)
    for row, example in enumerate(examples):
        inputs[row, : len(example.inputs)] = example.inputs
        targets[row, : len(example.targets)] = example.targets
    mel = np.stack([example.mel for example in examples])
    return ops.from_numpy(mel), ops.from_numpy(inputs), ops.from_numpy(targets)


class SpeechTraining:
    """A folder in which a speech model is trained: the checkpoint, and at last the model in Hugging Face's layout."""

    def __init__(self, folder: Path, settings: SpeechSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.checkpoint = folder / CHECKPOINT
        make_folder(folder)
        check_program()
        if self.checkpoint.exists():
            same_settings(self.checkpoint, "settings", asdict(settings))
        self.tokens = self._tokens()
        self.config = settings.config(self.tokens.size)
        maker = WindowMaker(settings.seed, self.tokens, TEXT_CONTEXT, training_sentences)
        loader = SpeechLoader(maker, settings.stages())
        model = Whisper(self.config, initialize=False)
        generator = Generator(settings.seed)
        initialize(model, generator)
        self.whisper = model
        self.trainer = SpeechTrainer(Speller(model, generator), loader, settings.recipe())
        if self.checkpoint.exists():
            self.trainer.restore(self.checkpoint)
        judge = WindowMaker(TEST_SEED, self.tokens, TEXT_CONTEXT, unseen_sentences)
        lesson = Lesson(settings.seconds, 1, takes=1)
        self.examples = [judge.examples(number, lesson)[0] for number in range(settings.held_out)]

    def _tokens(self) -> SpeechTokens:
        """Trained on the first sentences of the seed; the same each time."""
        texts = itertools.islice(training_sentences(self.settings.seed), VOCABULARY_SENTENCES)
        return train_tokens(texts, self.settings.pieces, round(self.settings.seconds * 50))

    def save(self) -> None:
        self.trainer.save(self.checkpoint, {"settings": json.dumps(asdict(self.settings))})

    def held_out_loss(self) -> float:
        """Nats per token over whole windows of sentences that are reserved for tests."""
        total, count = 0.0, 0
        with no_grad():
            for first in range(0, len(self.examples), 8):
                group = self.examples[first : first + 8]
                predicted = sum(target != IGNORED for example in group for target in example.targets)
                mel, inputs, targets = arrays(group)
                loss = ops.cross_entropy(self.whisper(mel, inputs), targets, IGNORED)
                total += float(loss.item()) * predicted
                count += predicted
        return total / count

    def export(self) -> None:
        """The model in Hugging Face's layout, with float16 weights."""
        export(self.folder, self.whisper, self.tokens)

    def curve(self) -> None:
        """loss.png: the training loss (running mean of 25 steps) and the held-out loss."""
        losses = self.trainer.losses
        means = [sum(losses[max(0, i - 24) : i + 1]) / min(25, i + 1) for i in range(len(losses))]
        curves = {"training": [(i + 1.0, mean) for i, mean in enumerate(means)]}
        if self.trainer.held_out:
            curves["held out"] = [(float(step), loss) for step, loss in self.trainer.held_out]
        loss_curve(self.folder / "loss.png", curves, {}, "Loss of the speech model")

    def results(self) -> dict[str, Any]:
        trainer = self.trainer
        stages = self.settings.stages()
        ends = [*(stage.begin for stage in stages[1:]), self.settings.steps]
        batches = [(end - stage.begin, stage.lesson) for stage, end in zip(stages, ends, strict=True)]
        return {
            "held_out_loss": trainer.held_out[-1][1],
            "parameters": sum(parameter.numel() for parameter in self.whisper.parameters()),
            "steps": trainer.step_count,
            "windows": sum(count * lesson.rows for count, lesson in batches),
            "hours": sum(count * lesson.rows * lesson.seconds for count, lesson in batches) / 3600,
            "size": (self.folder / "model.safetensors").stat().st_size,
            "folder": str(self.folder),
        }

    def close(self) -> None:
        """Ends the helpers that make windows."""
        loader = self.trainer.loader
        assert isinstance(loader, SpeechLoader)
        loader.close()


def initialize(model: Whisper, generator: Generator) -> None:
    """As the model itself does, but with the deviations that GPT-2's 0.02 comes to at this width (it is 768 wide), and
    with convolutions whose output is about as large as the positions that are added to it.
    """
    model.initialize(generator)
    config = model.config
    layers = {"encoder": config.n_audio_layer, "decoder": config.n_text_layer}
    for name, parameter in model.named_parameters():
        if parameter.ndim == 3:
            initialize_normal(parameter, 3 / sqrt(parameter.shape[1] * parameter.shape[2]), generator)
        if parameter.ndim != 2:
            continue
        deviation = 0.02 * sqrt(768 / parameter.shape[1])
        if name.endswith("token_embedding.weight"):
            deviation = 0.01 * 768 / config.n_text_state
        elif name.endswith("positional_embedding"):
            deviation *= 0.3
        elif name.endswith(("out.weight", "down.weight")):  # they add to the residual stream
            deviation /= sqrt(2 * layers[name.split(".")[0]])
        initialize_normal(parameter, deviation, generator)


def train_speech(
    out: str | os.PathLike[str],
    *,
    evaluate_every: int = 500,
    save_every: int = 100,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains in the folder `out`, or continues what was interrupted there; yields Progress, Metric and a last Done.

    `settings` are those of SpeechSettings. Leaves the files of speech_export.export, loss.png and the checkpoint. The
    same settings give the same weights, however often it was interrupted. Cancelling writes a checkpoint first. Raises
    OptionError, PyappError without espeak-ng or for other settings than those begun with, OSError or StorageFullError
    for a folder that cannot be written.
    """
    try:
        chosen = SpeechSettings(**settings)
    except TypeError as error:
        raise OptionError(f"unknown setting: {error}") from error
    cancel = cancel or Cancel()
    yield Progress("preparing the sentences", 0, 1)
    training = SpeechTraining(Path(out), chosen)
    try:
        yield from _train(training, evaluate_every, save_every, cancel)
    finally:
        training.close()
    steps = training.trainer.step_count
    if steps < chosen.steps:
        yield Done("cancelled", {"step": steps, "folder": str(out), "resume": "run the same command again"})
        return
    training.export()
    training.curve()
    yield Done("complete", training.results())


def _train(training: SpeechTraining, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
    """Steps until all are made or somebody cancels."""
    trainer, settings = training.trainer, training.settings
    start, first = time.perf_counter(), trainer.step_count
    yield Metric("threads", get_num_threads(), instruction_set())
    while trainer.step_count < settings.steps and not cancel.is_set():
        loss = trainer.step()
        step = trainer.step_count
        yield Progress("training", step, settings.steps, "steps")
        yield Metric("loss", loss, "nats/token", step)
        if step % evaluate_every == 0 or step == settings.steps:
            trainer.held_out.append((step, training.held_out_loss()))
            yield Metric("held_out_loss", trainer.held_out[-1][1], "nats/token", step)
        if step % 10 == 0:
            seconds = (time.perf_counter() - start) / (step - first)
            yield Metric("speed", 1 / seconds, "steps/s", step)
            yield Metric("time_left", seconds * (settings.steps - step), "s", step)
        if step % save_every == 0 or step == settings.steps:
            training.save()
    if trainer.step_count < settings.steps:
        training.save()
