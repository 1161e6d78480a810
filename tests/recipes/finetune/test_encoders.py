"""Encoders that are trained on labelled texts, pairs, tags and texts that belong together."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pyapp import tasks
from pyapp.cli import run as run_command
from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.events import Done, Event, Metric, Notice
from pyapp.formats import open_checkpoint
from pyapp.models.loading.by_task import load_task_model
from pyapp.recipes.finetune import finetune
from pyapp.recipes.finetune.encoders import _correlation, _ranks
from pyapp.recipes.finetune.labelled import read_labelled
from tests.recipes.finetune.interrupted import trained, write_lines
from tests.tasks.test_texts import folder
from tests.together import values_of

pytestmark = pytest.mark.native_only  # needs the tokenizers library, files and processes
pytest.importorskip("tokenizers")

ANIMALS, COLOURS = (
    ("the cat sat", "a dog ran", "the dog sat", "a cat ran"),
    ("green house", "a blue mat", "blue", "green"),
)
CLASSES = [
    {"text": text, "label": label} for label, texts in (("animal", ANIMALS), ("colour", COLOURS)) for text in texts
]
SCORED = [
    {"text": first, "text_pair": second, "score": float(same)}
    for first, second, same in (
        ("a cat", "the cat", 1),
        ("a cat", "blue", 0),
        ("a dog", "the dog", 1),
        ("dog", "mat", 0),
    )
]
SIMILAR = [{"sentence1": row["text"], "sentence2": row["text_pair"], "score": 5 * row["score"]} for row in SCORED]
TOGETHER = [
    {"anchor": "the cat", "positive": "a cat", "negative": "a dog"},
    {"anchor": "blue", "positive": "the mat", "negative": "green"},
    {"anchor": "house", "positive": "is in", "negative": "fast"},
]
TAGGED = [
    {"tokens": ["the", "cat", "ran"], "tags": ["O", "ANIMAL", "O"]},
    {"tokens": ["blue", "dog"], "tags": ["O", "ANIMAL"]},
    {"tokens": ["a", "mat", "is", "green"], "tags": ["O", "O", "O", "O"]},
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("models")
    return {
        "bert": folder(top / "bert", "bert", "features", "BertModel", id2label=None),
        "masked": folder(top / "masked", "modernbert", "masked-lm", "ModernBertForMaskedLM", id2label=None),
    }


def run(model: Path, place: Path, rows: Sequence[Any], out: str = "out", stop: int = 0, **settings: Any) -> list[Event]:
    data = write_lines(place / "data.jsonl", rows)
    given = {"rate": 1e-2, "rows": 4, "steps": 24, "evaluate_every": 24, **settings}
    return trained(model, data, place / out, stop, held_out_data=data, **given)


def results(events: Sequence[Event]) -> dict[str, Any]:
    assert isinstance(events[-1], Done) and events[-1].reason == "complete"
    return events[-1].results


@pytest.mark.parametrize("name", ["bert", "masked"])
def test_a_classifier_of_texts(models: dict[str, Path], tmp_path: Path, name: str) -> None:
    """It learns its texts, is the same after a break, and loads as any classifier."""
    found = results(run(models[name], tmp_path, CLASSES))
    assert found["held_out_accuracy"] == 1.0 and found["held_out_loss"] < 0.3 < found["held_out_loss_before"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "animal", "1": "colour"} and config["label2id"]["colour"] == 1
    family = {"bert": "Bert", "masked": "ModernBert"}[name]
    assert config["architectures"] == [f"{family}ForSequenceClassification"]
    stopped = run(models[name], tmp_path, CLASSES, "parts", 5)[-1]
    assert isinstance(stopped, Done) and stopped.reason == "cancelled"
    run(models[name], tmp_path, CLASSES, "parts")
    whole, parts = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("out", "parts"))
    assert whole == parts
    labels = values_of(tasks.classify(["a dog sat", "blue house"], model=tmp_path / "out"))
    assert [one["labels"][0]["label"] for one in labels] == ["animal", "colour"]
    # Its labels go on: the head is not new.
    again = run(tmp_path / "out", tmp_path, CLASSES[:4], "again", steps=1)
    before = next(event for event in again if isinstance(event, Metric) and event.name == "held_out_accuracy")
    assert before.value == 1.0
    run(tmp_path / "out", tmp_path, [{"text": "a", "label": 4}, {"text": "b", "label": 3}], "new", steps=1)
    assert json.loads((tmp_path / "new" / "config.json").read_text())["id2label"] == {"0": "3", "1": "4"}


def test_a_reranker(models: dict[str, Path], tmp_path: Path) -> None:
    assert results(run(models["bert"], tmp_path, SCORED, steps=40))["held_out_accuracy"] == 1.0
    scores = values_of(tasks.rerank("a cat", ["blue", "the cat"], model=tmp_path / "out"))
    assert scores[1]["score"] > 0.6 > 0.4 > scores[0]["score"]


def test_a_tagger(models: dict[str, Path], tmp_path: Path) -> None:
    found = results(run(models["bert"], tmp_path, TAGGED, steps=40))
    assert found["held_out_accuracy"] == 1.0 and found["unit"] == "nats/word"
    entities = values_of(tasks.label(["the dog is on a mat"], model=tmp_path / "out"))[0]["entities"]
    assert [one["word"] for one in entities if one["label"] == "ANIMAL"] == ["dog"]


@pytest.mark.parametrize(("rows", "quality"), [(TOGETHER, "accuracy"), (SIMILAR, "correlation")])
def test_an_embedder(models: dict[str, Path], tmp_path: Path, rows: list[Any], quality: str) -> None:
    """The pooling that it was trained with is in its folder."""
    found = results(run(models["bert"], tmp_path, rows, steps=40))
    assert found[f"held_out_{quality}"] > 0.85 and found["held_out_loss"] < found["held_out_loss_before"]
    pooling = json.loads((tmp_path / "out" / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode_mean_tokens"] is True and pooling["word_embedding_dimension"] == 16
    first, second = (values_of(tasks.embed(["the cat"], model=tmp_path / "out"))[0]["embedding"] for _ in range(2))
    assert first == second and len(first) == 16


def test_the_parts_behind_an_encoder_stay(models: dict[str, Path], tmp_path: Path) -> None:
    """A folder of sentence-transformers whose encoder lies in a folder of its own."""
    place = tmp_path / "model"
    place.mkdir()
    inner = place / "0_Transformer"
    inner.mkdir()
    for file in models["bert"].iterdir():
        (inner / file.name).write_bytes(file.read_bytes())
    modules = [{"path": "0_Transformer", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    results(run(place, tmp_path, TOGETHER, steps=2))
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".png") == [
        "1_Pooling", "checkpoint.safetensors", "config.json", "model.safetensors", "modules.json", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    assert load_task_model(tmp_path / "out", "features").model.pooling.modes == ("cls",)
    with open_checkpoint(tmp_path / "out" / "model.safetensors") as checkpoint:
        assert "embeddings.word_embeddings.weight" in checkpoint.tensors


def test_files(tmp_path: Path) -> None:
    table = tmp_path / "data.csv"
    table.write_text('text,label\n"a, b",10\nc,9\n')
    found = read_labelled(table)
    assert found.labels == ("9", "10") and found.rows[0].texts == ("a, b",) and found.form == "texts with labels"
    table.write_text("text,label\na,x,y\n")
    with pytest.raises(FileFormatError, match="more values than there are columns"):
        read_labelled(table)
    table.write_bytes(b"text,label\n\xff,x\n")
    with pytest.raises(FileFormatError, match="line 2: not UTF-8"):
        read_labelled(table)
    wrong: list[tuple[list[Any], str]] = [
        ([{"text": "a", "label": 1.5}], "the label is 1.5"), ([{"text": 1, "label": "a"}], "text is 1"),
        ([{"text": "a", "text_pair": "b", "score": 10**400}], "expected a number"),
        ([{"text": "a", "text_pair": "b", "score": 2}], "expected a number from 0 to 1"),
        ([{"sentence1": "a", "sentence2": "b", "score": "x"}], "the score is 'x'"),
        ([{"tokens": ["a"], "tags": []}], "1 tokens and 0 tags"), ([{"tokens": "a", "tags": "b"}], "are not lists"),
        ([{"text": "a"}], "for this model: it has only text"), (["a"], "not an example"), ([], "nothing to learn"),
        ([CLASSES[0], TOGETHER[0]], "line 2: the line has triplets, the lines before have texts with labels"),
    ]  # fmt: skip
    for rows, told in wrong:
        with pytest.raises(FileFormatError, match=told):
            read_labelled(write_lines(tmp_path / "data.jsonl", rows))
    assert _ranks([3, 1, 3, 2]) == [2.5, 0, 2.5, 1] and _correlation([1, 2], [2, 4]) == pytest.approx(1)


def test_what_is_refused(models: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="rank: is a setting of language models"):
        run(models["bert"], tmp_path, CLASSES, rank=4)
    with pytest.raises(OptionError, match="the model reads up to 12 tokens, not 99"):
        run(models["bert"], tmp_path, CLASSES, length=99)
    with pytest.raises(OptionError, match="unknown setting"):
        run(models["bert"], tmp_path, CLASSES, nobody=4)
    with pytest.raises(FileFormatError, match="all examples have the label 'new'"):
        run(models["bert"], tmp_path, [{"text": "a", "label": "new"}] * 3)
    other = write_lines(tmp_path / "other.jsonl", [{"text": "a", "label": "new"}])
    data = write_lines(tmp_path / "data.jsonl", CLASSES)
    with pytest.raises(OptionError, match="held_out_data: the label 'new' is not among"):
        list(finetune(models["bert"], data, tmp_path / "out", held_out_data=other))
    with pytest.raises(OptionError, match="held_out_data: has triplets, the data texts with labels"):
        list(finetune(models["bert"], data, tmp_path / "out", held_out_data=write_lines(other, TOGETHER)))
    with pytest.raises(OptionError, match="not trained on this kind of data.*tables are for encoders"):
        list(finetune("stories", write_lines(tmp_path / "data.csv", ["a"]), tmp_path / "out"))
    nameless = tmp_path / "nameless"
    shutil.copytree(models["bert"], nameless)
    config = json.loads((nameless / "config.json").read_text())
    (nameless / "config.json").write_text(json.dumps({**config, "model_type": None}))
    with pytest.raises(ModelError, match="architecture None are not for sequence-classification"):
        load_task_model(nameless, "sequence-classification", labels=("a", "b"))
    fnet = folder(tmp_path / "fnet", "fnet", "features", "FNetModel")
    with pytest.raises(ModelError, match="reads the padding"):
        run(fnet, tmp_path, CLASSES)
    cut = [{"text": "the cat sat on the mat " * 4, "label": label} for label in ("a", "b")]
    notices = [event.what for event in run(models["bert"], tmp_path, cut, steps=1) if isinstance(event, Notice)]
    assert "2 examples were longer than 12 tokens and were cut" in notices


def test_the_command(models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = write_lines(tmp_path / "data.jsonl", 5 * CLASSES), str(tmp_path / "out")
    command = ["finetune", str(models["bert"]), str(data), "-o", out]
    assert run_command([*command, "--steps", "20", "--rate", "1e-2"]) == 0
    told = capsys.readouterr().out
    assert "of the held-out texts, 100% are right" in told and f"try it: pyapp classify TEXTS -m {out}" in told
    assert run_command([*command, "--lora", "4"]) == 1
    assert "is a setting of language models" in capsys.readouterr().err
