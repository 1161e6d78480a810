"""Trains an encoder (BERT, RoBERTa, ModernBERT …) further: as a classifier of texts or words, as one that scores pairs,
or as an embedder.

All weights are trained, without dropout. The result is a folder as transformers and sentence-transformers write it.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from pyapp import hub
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, autocast, no_grad, ops
from pyapp.engine.dtype import bfloat16
from pyapp.engine.ops.random import default_generator
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Event, Metric, Notice, Progress
from pyapp.models.load import read_settings
from pyapp.models.loading.by_task import MORE_FILES, TOKENIZER_FILES, LoadedTaskModel, load_task_model, own_task
from pyapp.models.loading.labels import labels_of
from pyapp.models.loading.sentence_folders import parts_in, read_json
from pyapp.models.loading.writing_folder import write_encoder, write_json
from pyapp.models.sentences.embedding import MODULES, POOLING_FIELDS, Pooling, SentenceEmbedder
from pyapp.nn import functional as F
from pyapp.text.encoding import Encoding
from pyapp.train.embedding_losses import cosent_loss, multiple_negatives_ranking_loss
from pyapp.train.resumable import ResumableTraining, settings_of
from pyapp.train.token_rows import IGNORED, padded

from .examples import digest_of
from .labelled import LabelledFile, read_labelled
from .steps import TOO_FEW, StepSettings, Trained, divided, make_trainable, trainer_of

RATE = 2e-5
LENGTH = 512  # tokens, where the model reads more
BATCH = 32  # held-out examples at a time
MOST_HELD_OUT = 512
POOLING_FOLDER = "1_Pooling"
# Keys of config.json that the training makes untrue.
CHANGED = ("torch_dtype", "num_labels", "problem_type", "quantization_config", "sentence_transformers")
# The ends of transformers' classes, by task.
CLASSES = {
    "features": "Model", "sequence-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
}  # fmt: skip


@dataclass(frozen=True)
class EncoderSettings(StepSettings):
    """As StepSettings. rate 0: 2e-5. length 0: as many tokens as the model reads, at most 512."""

    rows: int = 16
    length: int = 0


@dataclass(frozen=True, eq=False)
class Row:
    """An example as tokens: its texts, or a pair as one; what is to be learnt of it: the number of a label, a score, or
    a label for each token.
    """

    encodings: tuple[Encoding, ...]
    target: Any


class EncoderTraining(ResumableTraining):
    """Base: trains all weights of a model over rows in a folder, which gets the checkpoint and the model."""

    title = "Loss of the fine-tuning"
    unit = "nats/text"
    quality = "accuracy"
    task: str
    """That loads the model."""

    def __init__(
        self, folder: Path, settings: EncoderSettings, loaded: LoadedTaskModel, files: Mapping[str, Path],
        rows: Sequence[Row], held_out: Sequence[Row],
    ) -> None:  # fmt: skip
        super().__init__(folder, settings)
        self.loaded, self.files, self.rows, self.held_out_rows = loaded, files, rows, held_out
        self.model: Any = loaded.model
        make_trainable(self.model.encoder if self.task == "features" else self.model)  # parts behind it stay
        trained = Trained(self.model)
        self.parameters = sum(parameter.numel() for parameter in trained.parameters())
        self.trainer = trainer_of(trained, rows, self._loss, settings, settings.rate or RATE, len)
        self.model.train()
        self.held_out_quality = 0.0

    # -- what a kind of training says

    def outputs(self, model: Any, rows: Sequence[Row]) -> tuple[Tensor, ...]:
        """What the model computes of rows, float32."""
        return (self._run(model, [row.encodings[0] for row in rows]),)

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> Tensor:
        """The mean loss of rows, a scalar."""
        raise NotImplementedError

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> list[tuple[float, float]]:
        """(what was found, what it should be) of each row, or of each of its words."""
        raise NotImplementedError

    def quality_of(self, pairs: Sequence[tuple[float, float]]) -> float:
        """The quality of all held-out rows, by `judged`: the share that is right."""
        return sum(found == wanted for found, wanted in pairs) / len(pairs)

    def export(self) -> None:
        """Writes the model's folder."""
        words = {name: path for name, path in self.files.items() if name in TOKENIZER_FILES}
        write_encoder(self.model, self._config(), words, self.folder)

    # -- what all have

    def _config(self) -> dict[str, Any]:
        """The object of config.json: that of the model that was trained further, for this task."""
        found = {key: value for key, value in self.loaded.settings.items() if value is not None and key not in CHANGED}
        found |= {"dtype": "float32", "architectures": [class_for(found, self.task)]}
        if self.task != "features":
            labels = self.model.config.labels
            found["id2label"] = {str(number): label for number, label in enumerate(labels)}
            found["label2id"] = {label: number for number, label in enumerate(labels)}
        return found

    def _run(self, model: Any, encodings: Sequence[Encoding], *more: Any) -> Tensor:
        """Encodings → the model's output as float32."""
        config, device = self.model.config, self.model.device
        fill = getattr(config, "pad_token_id", None)
        fill = (self.loaded.tokenizer.pad_id or 0) if fill is None else fill
        ids = padded([one.ids for one in encodings], fill).to(device)  # (B, T)
        mask = padded([one.attention_mask for one in encodings], 0).to(device)  # (B, T)
        types = padded([one.type_ids for one in encodings], 0).to(device)  # (B, T)
        with autocast.region(bfloat16, device) if self.settings.bfloat16 else nullcontext():
            found: Tensor = model(ids, mask, types, *more)
        return found.float()

    def _loss(self, model: Any, rows: Sequence[Row]) -> tuple[Tensor, float]:
        loss = self.loss(self.outputs(model, rows), rows)
        return loss, float(loss.item())

    def _train(self, steps: int, evaluate_every: int, save_every: int, cancel: Cancel) -> Iterator[Event]:
        """The remaining steps; before the first one, the held-out loss of the model as it was."""
        if self.judges() and not self.trainer.step_count:
            self.trainer.held_out.append((0, self.held_out_loss()))
            yield Metric("held_out_loss", self.trainer.held_out[0][1], self.unit, 0)
            yield Metric(f"held_out_{self.quality}", self.held_out_quality, "", 0)
        yield from super()._train(steps, evaluate_every, save_every, cancel)

    def judges(self) -> bool:
        return bool(self.held_out_rows)

    def held_out_loss(self) -> float:
        """The mean loss of the held-out rows; keeps their quality."""
        total, pairs = 0.0, []
        self.model.eval()
        try:
            with no_grad():
                for first in range(0, len(self.held_out_rows), BATCH):
                    batch = self.held_out_rows[first : first + BATCH]
                    found = self.outputs(self.model, batch)
                    total += float(self.loss(found, batch).item()) * len(batch)
                    pairs += self.judged(found, batch)
        finally:
            self.model.train()
        self.held_out_quality = self.quality_of(pairs)
        return total / len(self.held_out_rows)

    def evaluated(self, cancel: Cancel) -> Iterator[Event]:
        """The quality of the held-out rows."""
        if self.judges():
            yield Metric(f"held_out_{self.quality}", self.held_out_quality, "", self.trainer.step_count)

    def results(self) -> dict[str, Any]:
        """What was trained, for which task, and the held-out loss before and after."""
        found: dict[str, Any] = {
            "parameters": self.parameters, "examples": len(self.rows), "adapter": False, "task": self.task,
            "loss": self.trainer.losses[-1], "unit": self.unit,
        }  # fmt: skip
        if self.judges():
            found |= {"held_out_rows": len(self.held_out_rows), "held_out_loss": self.held_out_loss()}
            found |= {"held_out_loss_before": self.trainer.held_out[0][1]}
            found[f"held_out_{self.quality}"] = self.held_out_quality
        return found

    def speed(self, steps_per_second: float) -> tuple[float, str]:
        return steps_per_second * self.settings.rows * self.settings.accumulate, "examples/s"


class ClassifierTraining(EncoderTraining):
    """Texts, or pairs of texts, and their labels: cross-entropy."""

    task = "sequence-classification"

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> Tensor:
        logits = outputs[0]  # (B, labels)
        return F.cross_entropy(logits, ops.tensor([row.target for row in rows], device=logits.device))

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> list[tuple[float, float]]:
        return list(zip(outputs[0].argmax(1).tolist(), (row.target for row in rows), strict=True))


class ScorerTraining(EncoderTraining):
    """Pairs of texts and scores from 0 to 1: binary cross-entropy of one output. A cross-encoder, as rerankers are."""

    task = "sequence-classification"

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> Tensor:
        logits = outputs[0][:, 0]  # (B,)
        return F.binary_cross_entropy_with_logits(
            logits, ops.tensor([row.target for row in rows], device=logits.device)
        )

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> list[tuple[float, float]]:
        found = (outputs[0][:, 0] > 0).tolist()
        return [(float(above), float(row.target > 0.5)) for above, row in zip(found, rows, strict=True)]


class TaggerTraining(EncoderTraining):
    """Words and their tags: cross-entropy of each word's first token."""

    task = "token-classification"
    unit = "nats/word"

    def _targets(self, rows: Sequence[Row], like: Tensor) -> Tensor:
        """(B, T): the tags, IGNORED where there is none."""
        return padded([row.target for row in rows], IGNORED).to(like.device)

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> Tensor:
        logits = outputs[0]  # (B, T, labels)
        targets = self._targets(rows, logits)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), ignore_index=IGNORED)

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> list[tuple[float, float]]:
        found = outputs[0].argmax(2).tolist()
        return [
            (one, wanted)
            for line, row in zip(found, rows, strict=True)
            for one, wanted in zip(line, row.target, strict=False)
            if wanted != IGNORED
        ]


class EmbedderTraining(EncoderTraining):
    """Base: each text of a row becomes a vector."""

    task = "features"

    def outputs(self, model: Any, rows: Sequence[Row]) -> tuple[Tensor, ...]:
        """(B, D) of the first texts, of the second ones …"""
        count = len(rows[0].encodings)
        vectors = self._run(model, [row.encodings[place] for place in range(count) for row in rows])
        return tuple(vectors.split(len(rows)))

    def export(self) -> None:
        """Writes the folder with the parts behind the encoder as they were, or with the pooling that it was trained
        with.
        """
        inner = f"{parts_in(self.files)[0].folder}/" if MODULES in self.files else ""
        kept = {name.removeprefix(inner): path for name, path in self.files.items() if MORE_FILES.fullmatch(name)}
        write_encoder(self.loaded.model.encoder, self._config(), kept, self.folder)
        if MODULES in self.files:
            modules = read_json(self.files[MODULES], list)
            modules[0]["path"] = ""  # the encoder is beside it now
            write_json(self.folder / MODULES, modules)
        else:
            write_pooling(self.loaded.model.pooling, self.loaded.model.config.hidden_size, self.folder)


class ContrastTraining(EmbedderTraining):
    """Texts that belong together: each has to find its own among those of the batch, and the wrong answers."""

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> Tensor:
        return multiple_negatives_ranking_loss(*outputs)

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> list[tuple[float, float]]:
        anchors, others = F.normalize(outputs[0]), F.normalize(ops.cat(tuple(outputs[1:])))  # (B, D), (n B, D)
        return list(zip((anchors @ others.T).argmax(1).tolist(), range(len(rows)), strict=True))


class SimilarityTraining(EmbedderTraining):
    """Pairs of texts, of which the ones with the higher score are to be more similar (CoSENT)."""

    quality = "correlation"

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> Tensor:
        first, second = outputs
        return cosent_loss(first, second, ops.tensor([row.target for row in rows], device=first.device))

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[Row]) -> list[tuple[float, float]]:
        return list(zip(F.cosine_similarity(*outputs).tolist(), (row.target for row in rows), strict=True))

    def quality_of(self, pairs: Sequence[tuple[float, float]]) -> float:
        """Spearman's correlation of ranks."""
        found, wanted = (_ranks([pair[side] for pair in pairs]) for side in (0, 1))
        return _correlation(found, wanted)


def _ranks(values: Sequence[float]) -> list[float]:
    """The ranks from 0; equal values have the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            found[place] = (first + last) / 2
        first = last + 1
    return found


def _correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation; 0 where one of them is constant."""
    means = [sum(values) / len(values) for values in (first, second)]
    pairs = [(a - means[0], b - means[1]) for a, b in zip(first, second, strict=True)]
    scale = (sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs)) ** 0.5
    return sum(a * b for a, b in pairs) / scale if scale else 0.0


# By the form of the examples (labelled.READERS).
TRAININGS: dict[str, type[EncoderTraining]] = {
    "texts with labels": ClassifierTraining,
    "pairs with labels": ClassifierTraining,
    "pairs with scores": ScorerTraining,
    "tagged words": TaggerTraining,
    "similar sentences": SimilarityTraining,
    "triplets": ContrastTraining,
    "texts that belong together": ContrastTraining,
}


def class_for(settings: Mapping[str, Any], task: str) -> str:
    """The class of transformers for a task, by the one that config.json names or by its model_type."""
    named = settings.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    family = re.sub(r"(For\w+|Model)$", "", first) if isinstance(first, str) else ""
    family = family or "".join(part.capitalize() for part in re.split(r"\W|_", str(settings.get("model_type"))))
    return family + CLASSES[task]


def write_pooling(pooling: Pooling, width: int, folder: Path) -> None:
    """The files of sentence-transformers for an encoder that had none: modules.json, and the pooling's settings."""
    path = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{path}Transformer"},
        {"idx": 1, "name": "1", "path": POOLING_FOLDER, "type": f"{path}Pooling"},
    ]
    modes = {field: mode in pooling.modes for field, mode in POOLING_FIELDS.items()}
    write_json(folder / MODULES, modules)
    (folder / POOLING_FOLDER).mkdir(exist_ok=True)
    write_json(folder / POOLING_FOLDER / "config.json", {"word_embedding_dimension": width} | modes)


def labels_for(found: LabelledFile, settings: Mapping[str, Any], task: str) -> tuple[str, ...]:
    """The labels to train: the model's own, if it is a classifier that has all of the file's, else the file's."""
    if not found.labels:
        return ("score",)
    own = labels_of(settings) if own_task(settings) == task else ()
    return own if set(found.labels) <= set(own) else found.labels


def rows_of(found: LabelledFile, loaded: LoadedTaskModel, length: int) -> tuple[list[Row], int]:
    """(the examples as tokens, how many were cut). ModelError for labels that the model does not have."""
    rows, cut = [], 0
    numbers = {label: number for number, label in enumerate(getattr(loaded.model.config, "labels", ()))}
    unknown = next((label for label in found.labels if label not in numbers), None)
    if unknown is not None and TRAININGS[found.form].task != "features":
        raise OptionError(f"the label {unknown!r:.60} is not among those to train on", where="held_out_data")
    encode = _Encoder(loaded, length)
    for example in found.rows:
        target = example.target
        if found.form == "tagged words":
            encodings: tuple[Encoding, ...] = (encode(" ".join(example.texts), offsets=True),)
            target = _token_labels(encodings[0], example.texts, [numbers[tag] for tag in target])
        elif TRAININGS[found.form].task == "features":
            encodings = tuple(map(encode, example.texts))
        else:
            encodings = (encode(example.texts[0], *example.texts[1:]),)
            target = numbers[target] if isinstance(target, str) else target
        cut += encode.cut
        rows.append(Row(encodings, target))
    return rows, cut


class _Encoder:
    """Splits a text, or a pair, into at most `length` tokens; `cut`: whether the last one had more."""

    def __init__(self, loaded: LoadedTaskModel, length: int) -> None:
        self._tokenizer, self._length = loaded.tokenizer, length
        self._special = getattr(loaded.model.encoder, "adds_special_tokens", True)
        self._lower = getattr(getattr(loaded.model, "settings", None), "lower", False)
        self.cut = False

    def __call__(self, text: str, pair: str | None = None, *, offsets: bool = False) -> Encoding:
        texts = [part.lower() if self._lower else part for part in (text, pair) if part is not None]
        encode = partial(
            self._tokenizer.encode_batch, texts[:1], texts[1:] or None, add_special_tokens=self._special,
            parse_special=False, offsets=offsets,
        )  # fmt: skip
        found = encode()[0]
        self.cut = len(found) > self._length
        return encode(truncation=True, max_length=self._length)[0] if self.cut else found


def _token_labels(encoding: Encoding, words: Sequence[str], labels: Sequence[int]) -> list[int]:
    """The label of each token: that of a word at its first token, else IGNORED."""
    ends = list(accumulate(len(word) + 1 for word in words))  # the characters behind each word and its space
    found, last = [], -1
    for (start, end), text in zip(encoding.offsets or (), encoding.texts, strict=True):
        word = bisect_right(ends, max(start, end - 1)) if text is not None and end > start else last
        found.append(labels[word] if word != last else IGNORED)
        last = word
    return found


def finetune_encoder(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    held_out_data: str | os.PathLike[str] | None = None,
    evaluate_every: int | None = None,
    save_every: int = 100,
    device: str | None = None,
    cancel: Cancel | None = None,
    **settings: Any,
) -> Iterator[Event]:
    """Trains an encoder further on a file of labelled examples in the folder `out`, or continues an interrupted run
    there: Progress, Metric and finally Done.

    `settings` are those of EncoderSettings. What is trained follows from the form of the examples (labelled.FORMS).
    Leaves the model's folder, a checkpoint and, with Pillow, loss.png. Errors as those of finetune.
    """
    cancel = cancel or Cancel()
    given = {"model": os.fspath(model), "data": "", **settings}
    chosen = settings_of(EncoderSettings, given)
    yield Progress("reading the examples", 0, 1)
    examples = read_labelled(Path(data))
    kind = TRAININGS[examples.form]
    given["data"] = digest_of(Path(data))
    judged = None
    if held_out_data is not None:
        judged = read_labelled(Path(held_out_data))
        if judged.form != examples.form:
            raise OptionError(f"has {judged.form}, the data {examples.form}", where="held_out_data")
        given["held_out_data"] = digest_of(Path(held_out_data))
    yield Progress("loading the model", 0, 1)
    files = hub.resolve(model, cancel=cancel, also=MORE_FILES).files
    own = read_settings(files["config"])
    default_generator.manual_seed(chosen.seed)  # of the new layers
    loaded = load_task_model(
        model, kind.task, dtype="float32", device=device, cancel=cancel,
        labels=None if kind.task == "features" else labels_for(examples, own, kind.task),
    )  # fmt: skip
    encoder = loaded.model.encoder
    if kind.task == "features" and not isinstance(loaded.model, SentenceEmbedder):
        raise ModelError("the model gives a vector for each token, which is not trained here", where=loaded.name)
    if not encoder.hides_padding:
        raise ModelError(
            "the model reads the padding of shorter texts, so its batches cannot be trained", where=loaded.name,
            hint="Choose an encoder with attention, such as BERT or ModernBERT",
        )  # fmt: skip
    most = min(getattr(loaded.model, "most", encoder.most), loaded.tokenizer.max_length or encoder.most)
    if chosen.length > most:
        raise OptionError(f"the model reads up to {most} tokens, not {chosen.length}", where="length")
    given["length"] = chosen.length or min(most, LENGTH)
    rows, cut = rows_of(examples, loaded, given["length"])
    if judged is None:
        rows, held_out = divided(rows, chosen.held_out, chosen.seed, MOST_HELD_OUT)
    else:
        held_out, _ = rows_of(judged, loaded, given["length"])
    given["rows"] = min(chosen.rows, len(rows))  # an example twice in a batch would be its own wrong answer
    if not chosen.steps:
        given["steps"] = max(1, round(len(rows) / (given["rows"] * chosen.accumulate) * chosen.epochs))
    if cut:
        yield Notice(f"{cut} examples were longer than {given['length']} tokens and were cut", hint="Raise --length")
    if not held_out:
        yield Notice(TOO_FEW, hint="Give more, or a file of its own: --eval")
    training = kind(Path(out), settings_of(EncoderSettings, given), loaded, files, rows, held_out)
    yield from training.run(evaluate_every or max(1, training.settings.steps // 10), save_every, cancel)


__all__ = ["EncoderSettings", "finetune_encoder"]
