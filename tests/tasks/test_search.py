"""Search by meaning over a small encoder: passages and vectors, sentences, a model given as its files, precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import quant
from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.events import Cancel, Done, Error, Item, Progress
from pyapp.formats import write_gguf, write_safetensors
from pyapp.formats.gguf_header import architecture_of
from pyapp.formats.source import FileSource
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.precision import SMALLEST, quick_dtype
from pyapp.models.loading.task_files import given_files
from pyapp.tasks import search, unload
from tests.text.embedder import LONGEST, TEXTS, WORDS, write_embedder
from tests.together import collect

pytestmark = pytest.mark.native_only  # needs the tokenizers library and files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of an encoder, by their paths in its folder."""
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("encoder")
    return {path.relative_to(folder).as_posix(): path for path in write_embedder(folder)}


@pytest.fixture(scope="module")
def loaded(files: dict[str, Path]) -> Any:
    return load_task_model(files["config.json"].parent, "features")


def items(events: Any) -> list[dict[str, Any]]:
    return [dict(event.values) for event in events if isinstance(event, Item)]


def test_texts_become_passages_with_vectors(loaded: Any) -> None:
    texts = list(TEXTS.values())
    events = [event for event in search.index_texts(loaded, texts, size=12, overlap=0, prompt="passage : ") if event]
    found = items(events)
    assert [one["text"] for one in found] == sorted(one["text"] for one in found)
    assert all(len(texts[one["text"]][one["start"] : one["end"]].split()) <= 12 for one in found)
    assert isinstance(events[-1], Done) and events[-1].to_dict()["count"] == len(found)
    steps = [event for event in events if isinstance(event, Progress) and event.what == "embedding"]
    assert steps[-1].done <= steps[-1].total == sum(map(len, texts))
    vectors = np.array([one["embedding"] for one in found])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    [question] = items(search.unit_vectors(loaded, ["Where did the boat sail?"], prompt="query : "))
    best = found[int(np.argmax(vectors @ np.array(question["embedding"])))]
    assert "boat" in texts[best["text"]][best["start"] : best["end"]]


def test_a_passage_is_no_longer_than_the_model_reads(loaded: Any) -> None:
    text = "the cat " * 200
    found = items(search.index_texts(loaded, [text], size=5000, overlap=2500))
    longest = search.largest_passage(loaded)
    assert longest == LONGEST - 2 and max(len(text[one["start"] : one["end"]].split()) for one in found) <= longest
    assert search.largest_passage(loaded, "passage : ") == longest - 2


def test_a_long_text_comes_in_groups_and_goes_on(loaded: Any) -> None:
    text = "\n\n".join(f"The {WORDS[number % 40]} ran. " * (number % 5 + 1) for number in range(400))
    texts, sizes = ["the cat", text, "the dog"], {"size": 12, "overlap": 4}
    events = list(search.index_texts(loaded, texts, **sizes))
    whole = items(events)
    assert len(whole) > 5 * search.PASSAGES_AT_ONCE and [one["text"] for one in whole] == sorted(
        one["text"] for one in whole
    )
    steps = [event.done for event in events if isinstance(event, Progress) and event.what == "embedding"]
    assert steps == sorted(steps) and steps[-1] == sum(map(len, texts))
    first = next(place for place, event in enumerate(events) if isinstance(event, Item))
    assert len(items(events[first : first + search.PASSAGES_AT_ONCE])) == search.PASSAGES_AT_ONCE
    assert any(isinstance(event, Progress) for event in events[first:])
    # Go on from the last passage of each group.
    for count in range(search.PASSAGES_AT_ONCE, len(whole) - 1, search.PASSAGES_AT_ONCE):
        last = whole[count - 1]
        rest = items(search.index_texts(loaded, texts[last["text"] :], start=last["start"], **sizes))
        places = [(one["text"] + last["text"], one["start"], one["end"]) for one in rest]
        assert places == [(one["text"], one["start"], one["end"]) for one in whole[count - 1 :]]
        vectors = [[one["embedding"] for one in some] for some in (rest, whole[count - 1 :])]
        np.testing.assert_allclose(*vectors, atol=1e-5)
    with pytest.raises(OptionError, match="not a place in a text of 7 characters"):
        items(search.index_texts(loaded, texts, start=8))


def test_the_sentence_that_answers(loaded: Any) -> None:
    texts = list(TEXTS.values())
    found = items(search.best_sentences(loaded, "warm bread", texts))
    assert texts[1][found[1]["start"] : found[1]["end"]] == "The bread was warm."
    assert found[1]["score"] > max(found[0]["score"], found[2]["score"])


def test_streams_cancel_and_refuse(files: dict[str, Path], loaded: Any) -> None:
    folder = files["config.json"].parent
    assert [event.type for event in collect(search.vectors(["a cat"], model=loaded))][-2:] == ["progress", "done"]
    unload()
    [*_, last] = collect(search.index([" \n "], model=folder))
    assert isinstance(last, Error) and last.what.startswith("there is no text")
    cancel = Cancel()
    cancel.set()
    assert collect(search.index(["a cat"], model=folder, cancel=cancel))[-1].to_dict()["reason"] == "cancelled"
    unload()


def test_a_model_given_as_its_files(files: dict[str, Path], loaded: Any) -> None:
    sources: dict[str, Any] = {path: FileSource(file) for path, file in files.items()}
    roles = given_files(sources)
    assert (
        roles["model"] is sources["model.safetensors"]
        and roles["1_Pooling/config.json"] is sources["1_Pooling/config.json"]
    )
    given = load_task_model(sources, "features")
    vectors = [items(search.unit_vectors(model, ["the fox ran"])) for model in (given, loaded)]
    assert vectors[0] == vectors[1]
    del sources["tokenizer.json"]
    with pytest.raises(ModelError, match="tokenizer is missing"):
        load_task_model(sources, "features")
    for source in sources.values():
        source.close()


def test_what_is_quantised_while_it_is_read(tmp_path: Path) -> None:
    rows = SMALLEST // 256 // 4 + 8
    weights = {"a.weight": np.zeros((rows, 256), "f4"), "bias": np.zeros(8, "f4")}
    write_safetensors(tmp_path / "large.safetensors", weights)
    write_safetensors(tmp_path / "small.safetensors", {"a.weight": np.zeros((8, 256), "f4")})
    packed = quant.quantize(pyapp.zeros((4 * rows, 256)), "q8_0")
    write_gguf(tmp_path / "packed.gguf", {"a.weight": packed}, {"general.architecture": "llama"})
    expected = {"large.safetensors": "q8_0", "small.safetensors": None, "packed.gguf": None}
    for name, kind in expected.items():
        with FileSource(tmp_path / name) as source:
            assert quick_dtype(source) == kind


def test_the_architecture_in_the_first_bytes_of_a_gguf_file(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", {"a": np.zeros(4, "f4")}, {"general.architecture": "qwen2", "other": 1})
    data = (tmp_path / "x.gguf").read_bytes()
    assert architecture_of(data, "x") == architecture_of(data[:80], "x") == "qwen2"
    assert architecture_of(data[:30], "x") is None
    with pytest.raises(FileFormatError):
        architecture_of(b"<html>" * 20, "x")
