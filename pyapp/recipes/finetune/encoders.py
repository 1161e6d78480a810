"""Trains an encoder (BERT, RoBERTa, ModernBERT …) further: as a classifier of texts or words, as one that scores pairs,
or as an embedder.

All weights are trained, without dropout. The result is a folder as transformers and sentence-transformers write it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.ops.random import default_generator
from pyapp.errors import ModelError, OptionError
from pyapp.events import Event, Notice, Progress
from pyapp.models.load import read_settings
from pyapp.models.loading.by_task import LoadedTaskModel, load_task_model
from pyapp.models.loading.sentence_folders import parts_in, read_json
from pyapp.models.loading.task_files import MORE_FILES, TOKENIZER_FILES
from pyapp.models.loading.writing_folder import write_folder, write_json
from pyapp.models.sentences.embedding import MODULES, POOLING_FIELDS, Pooling, SentenceEmbedder
from pyapp.nn import functional as F
from pyapp.text.tokenization.encoding import Encoding
from pyapp.train.embedding_losses import cosent_loss, multiple_negatives_ranking_loss
from pyapp.train.token_rows import IGNORED, padded

from .examples import digest_of
from .labelled import LabelledFile, read_labelled
from .steps import Request
from .whole import LabelTraining, WholeSettings, WholeTraining, check_choice, labels_for

LENGTH = 512  # tokens, where the model reads more
POOLING_FOLDER = "1_Pooling"


@dataclass(frozen=True, eq=False)
class LabelledTokens:
    """An example as tokens: its texts, or a pair as one; what is to be learnt of it: the number of a label, a score, or
    a label for each token.
    """

    encodings: tuple[Encoding, ...]
    target: Any


class TextTraining(WholeTraining):
    """Base: of texts."""

    def outputs(self, model: Any, rows: Sequence[LabelledTokens]) -> tuple[Tensor, ...]:
        """What the model computes of rows, float32."""
        return (self._run(model, [row.encodings[0] for row in rows]),)

    def export(self) -> None:
        """Writes the model's folder."""
        words = {name: path for name, path in self.files.items() if name in TOKENIZER_FILES}
        write_folder(self.model, self.config(), words, self.folder)

    def _run(self, model: Any, encodings: Sequence[Encoding], *more: Any) -> Tensor:
        """Encodings → the model's output as float32."""
        config, device = self.model.config, self.model.device
        fill = getattr(config, "pad_token_id", None)
        fill = (self.loaded.tokenizer.pad_id or 0) if fill is None else fill
        ids = padded([one.ids for one in encodings], fill).to(device)  # (B, T)
        mask = padded([one.attention_mask for one in encodings], 0).to(device)  # (B, T)
        types = padded([one.type_ids for one in encodings], 0).to(device)  # (B, T)
        with self.region():
            found: Tensor = model(ids, mask, types, *more)
        return found.float()


class ClassifierTraining(LabelTraining, TextTraining):
    """Texts, or pairs of texts, and their labels."""

    task = "sequence-classification"


class ScorerTraining(TextTraining):
    """Pairs of texts and scores from 0 to 1: binary cross-entropy of one output. A cross-encoder, as rerankers are."""

    task = "sequence-classification"

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> Tensor:
        logits = outputs[0][:, 0]  # (B,)
        return F.binary_cross_entropy_with_logits(
            logits, ops.tensor([row.target for row in rows], device=logits.device)
        )

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> list[tuple[float, float]]:
        found = (outputs[0][:, 0] > 0).tolist()
        return [(float(above), float(row.target > 0.5)) for above, row in zip(found, rows, strict=True)]


class TaggerTraining(TextTraining):
    """Words and their tags: cross-entropy of each word's first token."""

    task = "token-classification"
    unit = "nats/word"

    def _targets(self, rows: Sequence[LabelledTokens], like: Tensor) -> Tensor:
        """(B, T): the tags, IGNORED where there is none."""
        return padded([row.target for row in rows], IGNORED).to(like.device)

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> Tensor:
        logits = outputs[0]  # (B, T, labels)
        targets = self._targets(rows, logits)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), ignore_index=IGNORED)

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> list[tuple[float, float]]:
        found = outputs[0].argmax(2).tolist()
        return [
            (one, wanted)
            for line, row in zip(found, rows, strict=True)
            for one, wanted in zip(line, row.target, strict=False)
            if wanted != IGNORED
        ]


class EmbedderTraining(TextTraining):
    """Base: each text of a row becomes a vector. Parts after the encoder stay as they are."""

    task = "features"

    def __init__(
        self, folder: Path, settings: WholeSettings, loaded: Any, files: Mapping[str, Path],
        rows: Sequence[LabelledTokens], held_out: Sequence[LabelledTokens],
    ) -> None:  # fmt: skip
        super().__init__(folder, settings, loaded, files, rows, held_out, loaded.model.encoder)

    def outputs(self, model: Any, rows: Sequence[LabelledTokens]) -> tuple[Tensor, ...]:
        """(B, D) of the first texts, of the second ones …"""
        count = len(rows[0].encodings)
        vectors = self._run(model, [row.encodings[place] for place in range(count) for row in rows])
        return tuple(vectors.split(len(rows)))

    def export(self) -> None:
        """Writes the folder with the parts after the encoder as they were, or with the pooling that it was trained
        with.
        """
        inner = f"{parts_in(self.files)[0].folder}/" if MODULES in self.files else ""
        kept = {name.removeprefix(inner): path for name, path in self.files.items() if MORE_FILES.fullmatch(name)}
        write_folder(self.loaded.model.encoder, self.config(), kept, self.folder)
        if MODULES in self.files:
            modules = read_json(self.files[MODULES], list)
            modules[0]["path"] = ""  # the encoder is beside it now
            write_json(self.folder / MODULES, modules)
        else:
            write_pooling(self.loaded.model.pooling, self.loaded.model.config.hidden_size, self.folder)


class ContrastTraining(EmbedderTraining):
    """Texts that belong together: each has to find its own among those of the batch, and the wrong answers."""

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> Tensor:
        return multiple_negatives_ranking_loss(*outputs)

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> list[tuple[float, float]]:
        anchors, others = F.normalize(outputs[0]), F.normalize(ops.cat(tuple(outputs[1:])))  # (B, D), (n B, D)
        return list(zip((anchors @ others.T).argmax(1).tolist(), range(len(rows)), strict=True))


class SimilarityTraining(EmbedderTraining):
    """Pairs of texts, of which the ones with the higher score are to be more similar (CoSENT)."""

    quality = "correlation"

    def loss(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> Tensor:
        first, second = outputs
        return cosent_loss(first, second, ops.tensor([row.target for row in rows], device=first.device))

    def judged(self, outputs: Sequence[Tensor], rows: Sequence[LabelledTokens]) -> list[tuple[float, float]]:
        first, second = outputs
        return list(zip(F.cosine_similarity(first, second).tolist(), (row.target for row in rows), strict=True))

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
TRAININGS: dict[str, type[TextTraining]] = {
    "texts with labels": ClassifierTraining,
    "pairs with labels": ClassifierTraining,
    "pairs with scores": ScorerTraining,
    "tagged words": TaggerTraining,
    "similar sentences": SimilarityTraining,
    "triplets": ContrastTraining,
    "texts that belong together": ContrastTraining,
}


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


def rows_of(found: LabelledFile, loaded: LoadedTaskModel, length: int) -> tuple[list[LabelledTokens], int]:
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
        rows.append(LabelledTokens(encodings, target))
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
    ends = list(accumulate(len(word) + 1 for word in words))  # the characters after each word and its space
    found, last = [], -1
    for (start, end), text in zip(encoding.offsets or (), encoding.texts, strict=True):
        word = bisect_right(ends, max(start, end - 1)) if text is not None and end > start else last
        found.append(labels[word] if word != last else IGNORED)
        last = word
    return found


def finetune_encoder(request: Request) -> Iterator[Event]:
    """Trains an encoder further on a file of labelled examples, with the settings of WholeSettings: Progress, Metric
    and finally Done. What is trained follows from the form of the examples (labelled.FORMS).
    """
    chosen = request.settings_as(WholeSettings)
    yield Progress("reading the examples", 0, 1)
    examples = read_labelled(request.data)
    kind = TRAININGS[examples.form]
    more, judged = {"data": digest_of(request.data)}, None
    if request.held_out_data is not None:
        judged = read_labelled(request.held_out_data)
        if judged.form != examples.form:
            raise OptionError(f"has {judged.form}, the data {examples.form}", where="held_out_data")
        more["held_out_data"] = digest_of(request.held_out_data)
    yield Progress("loading the model", 0, 1)
    own, labels = read_settings(request.files["config"]), None
    if kind.task != "features":
        labels = labels_for(examples.labels or ("score",), own, kind.task)
        check_choice(labels if examples.labels else (), request.data)
    default_generator.manual_seed(chosen.seed)  # of the new layers
    loaded = load_task_model(
        request.model, kind.task, dtype="float32", device=request.device, cancel=request.cancel,
        labels=labels,
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
    settings = request.settings_as(WholeSettings, length=chosen.length or min(most, LENGTH), **more)
    rows, cut = rows_of(examples, loaded, settings.length)
    held_out = None if judged is None else rows_of(judged, loaded, settings.length)[0]
    if cut:
        yield Notice(f"{cut} examples were longer than {settings.length} tokens and were cut", hint="Raise --length")
    yield from kind.started(request, settings, loaded, rows, held_out)


__all__ = ["finetune_encoder"]
