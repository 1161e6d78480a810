"""`pyapp train speech`: trains a small Whisper model on sentences of a grammar, spoken by a speech synthesiser."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.device import Device, cpu
from pyapp.engine.lazy import np
from pyapp.engine.ops.random import Generator
from pyapp.events import Cancel, Event
from pyapp.models.whisper import Config, Whisper
from pyapp.nn.init import normal_
from pyapp.optim import AdamW
from pyapp.optim.lr_scheduler import LambdaLR, Shape, warmup_cosine
from pyapp.recipes.from_scratch import check_counts_and_rate, train_in
from pyapp.recipes.prepared_batches import Stage
from pyapp.recipes.speech.export import export
from pyapp.recipes.speech.grammar.sentences import TEST_SEED, training_sentences, unseen_sentences
from pyapp.recipes.speech.letters import Speller
from pyapp.recipes.speech.loader import SpeechLoader
from pyapp.recipes.speech.tokens import SpeechTokens, train_tokens
from pyapp.recipes.speech.voices import check_program
from pyapp.recipes.speech.windows import Example, Lesson, WindowMaker
from pyapp.recipes.spelling import spelling_loss
from pyapp.text.generation.options import check_number
from pyapp.train.resumable import ResumableTraining
from pyapp.train.token_rows import IGNORED, padded, token_loss, total_loss
from pyapp.train.trainer import Trainer, decay_groups

MELS = 80
TEXT_CONTEXT = 256  # tokens: half for a window's text, half for the text before it
# The fraction of all steps at which a lesson begins, and the lesson. rows * seconds are about equal.
LESSONS = (
    (0.0, Lesson(4.0, 6, clear=True)),
    (1 / 16, Lesson(4.0, 6)),
    (1 / 4, Lesson(8.0, 3, live=0.1)),
    (13 / 32, Lesson(15.0, 2, live=0.15)),
    (5 / 8, Lesson(15.0, 2, before=12, prompted=0.6, live=0.25)),
)
RESTART = 0.4
"""The learning rate at the beginning of the last lesson, as a share of the first one; it falls again from there."""

VOCABULARY_SENTENCES = 8000
BATCH = 8  # held-out windows at a time


@dataclass(frozen=True)
class SpeechSettings:
    """The settings that determine the result. The defaults made the embedded model.

    `pieces` is the size of the vocabulary of text, `seconds` the length of the model's window, `held_out` the number of
    windows that judge the model.
    """

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
        check_counts_and_rate(self, "steps", "held_out", "audio_layers", "text_layers")
        check_number("pieces", self.pieces, 300, 65536, whole=True)
        check_number("seconds", self.seconds, 2.5, 30)

    def config(self, vocabulary: int) -> Config:
        """The model's configuration. One position of the encoder is 20 ms."""
        audio = (MELS, round(self.seconds * 50), self.state, self.heads, self.audio_layers)
        return Config(*audio, vocabulary, TEXT_CONTEXT, self.state, self.heads, self.text_layers)

    def stages(self) -> list[Stage[Lesson]]:
        return [
            Stage(round(share * self.steps), replace(lesson, seconds=min(lesson.seconds, self.seconds)))
            for share, lesson in LESSONS
        ]


class SpeechTraining(ResumableTraining):
    """Trains a Whisper in a folder, which gets the checkpoint, and at the end the model in Hugging Face's layout."""

    title = "Loss of the speech model"
    smoothing = 25

    def __init__(self, folder: Path, settings: SpeechSettings, device: Device = cpu) -> None:
        super().__init__(folder, settings)
        check_program()
        self.tokens = self._tokens()
        self.whisper = Whisper(settings.config(self.tokens.size), initialize=False)
        generator = Generator(settings.seed)
        initialize(self.whisper, generator)
        maker = WindowMaker(settings.seed, self.tokens, TEXT_CONTEXT, training_sentences)
        self.loader = SpeechLoader(maker, settings.stages())
        speller = Speller(self.whisper, generator).to(device)
        self.trainer = speech_trainer(speller, self.loader, settings.steps, settings.rate)
        judge = WindowMaker(TEST_SEED, self.tokens, TEXT_CONTEXT, unseen_sentences)
        lesson = Lesson(settings.seconds, 1, takes=1)
        self.examples = [judge.examples(number, lesson)[0] for number in range(settings.held_out)]

    def _tokens(self) -> SpeechTokens:
        """Trained on the first sentences of the seed; the same each time."""
        texts = itertools.islice(training_sentences(self.settings.seed), VOCABULARY_SENTENCES)
        return train_tokens(texts, self.settings.pieces, round(self.settings.seconds * 50))

    def held_out_loss(self) -> float:
        """Nats per token over whole windows of sentences that are reserved for tests."""

        def losses() -> Iterator[tuple[Tensor, int]]:
            for first in range(0, len(self.examples), BATCH):
                group = self.examples[first : first + BATCH]
                mel, inputs, targets = arrays(group, self.whisper.device)
                predicted = sum(target != IGNORED for example in group for target in example.targets)
                yield token_loss(self.whisper(mel, inputs), targets), predicted

        total, count = total_loss(losses())
        return total / count

    def export(self) -> None:
        """The model in Hugging Face's layout: matrices in q8_0, the rest in float16."""
        export(self.folder, self.whisper, self.tokens)

    def results(self) -> dict[str, Any]:
        stages = self.settings.stages()
        ends = [*(stage.begin for stage in stages[1:]), self.settings.steps]
        batches = [(end - stage.begin, stage.lesson) for stage, end in zip(stages, ends, strict=True)]
        return {
            "held_out_loss": self.trainer.held_out[-1][1],
            "parameters": sum(parameter.numel() for parameter in self.whisper.parameters()),
            "windows": sum(count * lesson.rows for count, lesson in batches),
            "hours": sum(count * lesson.rows * lesson.seconds for count, lesson in batches) / 3600,
            "size": (self.folder / "model.safetensors").stat().st_size,
        }

    def close(self) -> None:
        """Ends the processes that make windows."""
        self.loader.close()


def speech_trainer(speller: Speller, loader: SpeechLoader, steps: int, rate: float, warmup: int = 100) -> Trainer:
    """Trains a Speller for `steps` steps, of which at most a tenth, or `warmup`, are warm-up.

    Once attention is sharp, half of the time would go into numbers below float32's normal range.
    """
    optimizer = AdamW(decay_groups(speller, 0.05), lr=rate, betas=(0.9, 0.98))
    schedule = LambdaLR(optimizer, rates(steps, max(1, min(warmup, steps // 10))))
    return Trainer(speller, loader, batch_loss, optimizer, schedule, subnormals_are_zero=True)


def rates(steps: int, warmup: int, floor: float = 0.05) -> Shape:
    """The learning rate by step, as a share of the first: half a cosine down, and from the last lesson on another one.
    (Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983, with one restart)
    """
    last = round(LESSONS[-1][0] * steps)
    first = warmup_cosine(warmup, max(1, last), floor)
    second = warmup_cosine(0, max(1, steps - last), floor)
    return lambda step: first(step) if step < last else RESTART * second(step - last)


def batch_loss(speller: Speller, examples: Sequence[Example]) -> tuple[Tensor, float]:
    """The decoder's loss plus the speller's, which training minimises; the decoder's loss in nats per token alone."""
    mel, inputs, targets = arrays(examples, speller.whisper.device)
    logits, scores = speller(mel, inputs)
    loss = token_loss(logits, targets)
    spelling = spelling_loss(scores, [one.letters for one in examples], [one.heard for one in examples])
    return loss + spelling, float(loss.item())


def arrays(examples: Sequence[Example], device: Device = cpu) -> tuple[Tensor, Tensor, Tensor]:
    """mel (B, 80, F), inputs and targets int32 (B, T) on `device`: IGNORED targets follow short rows."""
    mel = ops.from_numpy(np.stack([example.mel for example in examples]))
    inputs = padded([example.inputs for example in examples], 0)
    targets = padded([example.targets for example in examples], IGNORED)
    return mel.to(device), inputs.to(device), targets.to(device)


def initialize(model: Whisper, generator: Generator) -> None:
    """Initialises as the model itself does, but scales GPT-2's deviation of 0.02 from its width of 768 to this one, and
    makes the output of convolutions about as large as the positions that are added to it.
    """
    model.initialize(generator)
    config = model.config
    layers = {"encoder": config.n_audio_layer, "decoder": config.n_text_layer}
    for name, parameter in model.named_parameters():
        if parameter.ndim == 3:
            normal_(parameter, 0.0, 3 / sqrt(parameter.shape[1] * parameter.shape[2]), generator)
        if parameter.ndim != 2:
            continue
        deviation = 0.02 * sqrt(768 / parameter.shape[1])
        if name.endswith("token_embedding.weight"):
            deviation = 0.01 * 768 / config.n_text_state
        elif name.endswith("positional_embedding"):
            deviation *= 0.3
        elif name.endswith(("out.weight", "down.weight")):  # they add to the residual stream
            deviation /= sqrt(2 * layers[name.split(".")[0]])
        normal_(parameter, 0.0, deviation, generator)


def train_speech(
    out: str | os.PathLike[str],
    *,
    evaluate_every: int = 500,
    save_every: int = 100,
    device: Device | str = cpu,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains on `device` in the folder `out`, or continues an interrupted run there; yields Progress, Metric and
    finally Done.

    `settings` are those of SpeechSettings. Leaves the files of export.export, loss.png (with Pillow) and a checkpoint.
    The same settings give the same weights, however often it was interrupted. Cancelling saves a checkpoint first.
    Raises OptionError, PyappError without espeak-ng or for other settings than those begun with, FileFormatError for a
    damaged checkpoint, OSError or StorageFullError for a folder that cannot be written.
    """
    preparing = "preparing the sentences"
    yield from train_in(
        out, SpeechTraining, SpeechSettings, preparing, settings, evaluate_every, save_every, device, cancel
    )
