"""What the training of whole models has in common: classifiers, taggers and embedders of texts, pictures and sounds."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, autocast, no_grad, ops
from pyapp.engine.dtype import bfloat16
from pyapp.errors import FileFormatError
from pyapp.events import Cancel, Event, Metric, Notice
from pyapp.models.loading.heads import own_task
from pyapp.models.loading.labels import labels_of
from pyapp.nn import BatchNorm1d, BatchNorm2d, Module
from pyapp.nn import functional as F
from pyapp.train.resumable import ResumableTraining

from .steps import TOO_FEW, Request, StepSettings, Trained, divided, make_trainable, trainer_of

RATE = 2e-5
BATCH = 32  # held-out examples at a time
MOST_HELD_OUT = 512
# Keys of config.json that the training makes untrue.
CHANGED = ("torch_dtype", "num_labels", "problem_type", "quantization_config", "sentence_transformers")
# The ends of transformers' classes, by task.
CLASSES = {
    "features": "Model", "sequence-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification", "image-classification": "ForImageClassification",
}  # fmt: skip


@dataclass(frozen=True)
class WholeSettings(StepSettings):
    """As StepSettings. rate 0: 2e-5. length, of texts: 0 for as many tokens as the model reads, at most 512."""

    rows: int = 16
    length: int = 0


class WholeTraining(ResumableTraining):
    """Base: trains all weights of a model, or of its part `trained`, over rows in a folder, which gets the checkpoint
    and the model.
    """

    title = "Loss of the fine-tuning"
    unit = "nats/text"
    quality = "accuracy"
    judged_at_once = BATCH
    usual_rate = RATE
    task: str
    """That loads the model."""

    def __init__(
        self, folder: Path, settings: WholeSettings, loaded: Any, files: Mapping[str, Path], rows: Sequence[Any],
        held_out: Sequence[Any], trained: Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__(folder, settings)
        self.loaded, self.files, self.rows, self.held_out_rows = loaded, files, rows, held_out
        self.model: Any = loaded.model
        make_trainable(self.model if trained is None else trained)
        for part in self.frozen():
            part.requires_grad_(False)
        module = Trained(self.model)
        self.parameters = sum(parameter.numel() for parameter in module.parameters())
        self.trainer = trainer_of(module, rows, self._loss, settings, settings.rate or self.usual_rate, len)
        self.to_training()
        self.held_out_quality = nan  # not known yet

    @classmethod
    def started(
        cls, request: Request, settings: WholeSettings, loaded: Any, rows: Sequence[Any],
        held_out: Sequence[Any] | None,
    ) -> Iterator[Event]:  # fmt: skip
        """The events of a training on rows, of which a share is held out unless there are held-out ones."""
        if held_out is None:
            rows, held_out = divided(rows, settings.held_out, settings.seed, MOST_HELD_OUT, cls.source)
        if not held_out and settings.held_out:
            yield Notice(TOO_FEW, hint="Give more, or others with --eval")
        # An example twice in a batch would be its own wrong answer.
        settings = replace(settings, rows=min(settings.rows, len(rows))).for_examples(len(rows))
        yield from request.run(cls(request.out, settings, loaded, request.files, rows, held_out))

    # -- what a kind of training says

    @staticmethod
    def source(row: Any) -> Hashable:
        """What a row is a part of, as other rows may be; None: it is by itself."""
        return None

    def outputs(self, model: Any, rows: Sequence[Any]) -> tuple[Tensor, ...]:
        """What the model computes of rows, float32."""
        raise NotImplementedError

    def frozen(self) -> Iterable[Module]:
        """The parts that are not trained."""
        return ()

    def to_training(self) -> None:
        """Sets the model to training. The statistics of batch norms stay as they are: batches are small."""
        self.model.train()
        for module in self.model.modules():
            if isinstance(module, BatchNorm1d | BatchNorm2d):
                module.eval()

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Any]) -> Tensor:
        """The mean loss of rows, a scalar."""
        raise NotImplementedError

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Any]) -> list[tuple[float, float]]:
        """(what was found, what it should be) of each row, or of each of its words."""
        raise NotImplementedError

    def quality_of(self, pairs: Sequence[tuple[float, float]]) -> float:
        """The quality of all held-out rows, by `judged`: the share that is right."""
        return sum(found == wanted for found, wanted in pairs) / len(pairs)

    # -- what all have

    def config(self) -> dict[str, Any]:
        """The object of config.json: that of the model that was trained further, for this task."""
        found = {key: value for key, value in self.loaded.settings.items() if value is not None and key not in CHANGED}
        found |= {"dtype": "float32", "architectures": [self.class_name(found)]}
        if not self.task.endswith("features"):
            labels = self.model.config.labels
            found["id2label"] = {str(number): label for number, label in enumerate(labels)}
            found["label2id"] = {label: number for number, label in enumerate(labels)}
        return found

    def class_name(self, settings: Mapping[str, Any]) -> str:
        """transformers' class of the model, from the object of its config.json."""
        return class_for(settings, self.task)

    def region(self) -> Any:
        """The context in which products run in bfloat16, if the settings ask for it."""
        return autocast.region(bfloat16, self.model.device) if self.settings.bfloat16 else nullcontext()

    def _loss(self, model: Any, rows: Sequence[Any]) -> tuple[Tensor, float]:
        loss = self.loss(self.outputs(model, rows), rows)
        return loss, float(loss.item())

    def _train(self, steps: int, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        """The remaining steps; before the first one, the held-out loss of the model as it was."""
        if not self.trainer.step_count:
            yield from self._evaluate(cancel)
        yield from super()._train(steps, evaluate_every, save_every, cancel)

    def judges(self) -> bool:
        return bool(self.held_out_rows)

    def held_out_loss(self) -> float:
        """The mean loss of the held-out rows; keeps their quality."""
        total, pairs = 0.0, []
        self.model.eval()
        try:
            with no_grad():
                for first in range(0, len(self.held_out_rows), self.judged_at_once):
                    batch = self.held_out_rows[first : first + self.judged_at_once]
                    found = self.outputs(self.model, batch)
                    total += float(self.loss(found, batch).item()) * len(batch)
                    pairs += self.judged(found, batch)
        finally:
            self.to_training()
        self.held_out_quality = self.quality_of(pairs)
        return total / len(self.held_out_rows)

    def qualities(self) -> dict[str, float]:
        """The qualities of the held-out rows at the last evaluation, by name."""
        return {self.quality: self.held_out_quality}

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        """The qualities of the held-out rows."""
        if self.judges():
            for name, value in self.qualities().items():
                yield Metric(f"held_out_{name}", value, "", self.trainer.step_count)

    def results(self) -> dict[str, Any]:
        """What was trained, for which task, and the held-out loss before and after."""
        found: dict[str, Any] = {
            "parameters": self.parameters, "examples": len(self.rows), "adapter": False, "task": self.task,
            "loss": self.trainer.losses[-1], "unit": self.unit,
        }  # fmt: skip
        if self.judges():
            if isnan(self.held_out_quality):  # a run that continues after its last step
                self.held_out_loss()
            found |= {"held_out_rows": len(self.held_out_rows), "held_out_loss": self.kept_loss()}
            found |= {"held_out_loss_before": self.trainer.held_out[0][1]}
            found |= {f"held_out_{name}": value for name, value in self.qualities().items()}
        return found

    def speed(self, steps_per_second: float) -> tuple[float, str]:
        return steps_per_second * self.settings.rows * self.settings.accumulate, "examples/s"


class LabelTraining(WholeTraining):
    """Base: one label for each row, whose number is its `target`: cross-entropy."""

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Any]) -> Tensor:
        logits = outputs[0]  # (B, labels)
        return F.cross_entropy(logits, ops.tensor([row.target for row in rows], device=logits.device))

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Any]) -> list[tuple[float, float]]:
        return list(zip(outputs[0].argmax(1).tolist(), (row.target for row in rows), strict=True))


def class_for(settings: Mapping[str, Any], task: str) -> str:
    """The class of transformers for a task: the one that config.json names, or its sister by name or model_type."""
    named = settings.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    if isinstance(first, str) and own_task(settings) == task:
        return first
    family = re.sub(r"(For\w+|Model)$", "", first) if isinstance(first, str) else ""
    family = family or "".join(part.capitalize() for part in re.split(r"\W|_", str(settings.get("model_type"))))
    return family + CLASSES[task]


def labels_for(found: tuple[str, ...], settings: Mapping[str, Any], task: str) -> tuple[str, ...]:
    """The labels to train: the model's own, if it is a classifier that has all that were found, else these."""
    own = labels_of(settings) if own_task(settings) == task else ()
    return own if set(found) <= set(own) else found


def check_choice(labels: Sequence[str], data: Path) -> None:
    """FileFormatError unless there are labels to choose from: a classifier of one label would learn nothing."""
    if len(labels) == 1:
        raise FileFormatError(
            f"all examples have the label {labels[0]!r:.60}", where=str(data),
            hint="Give examples of two labels or more",
        )  # fmt: skip
