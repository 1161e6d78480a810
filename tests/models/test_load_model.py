"""From a name, a path, bytes or a source to a model that is ready to use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyapp.errors import Cancelled, FileFormatError, ModelError, ModelNotFoundError, OptionError
from pyapp.events import Cancel, Event, Progress
from pyapp.formats import BytesSource
from pyapp.models import load_model, load_tokenizer
from pyapp.text.generation.generate import Session
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.text.parrot import make_vocabulary
from tests.text.small_model import CONFIG, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def logits(loaded: object) -> list[float]:
    values: list[float] = Session(loaded.model).feed([1, 300]).data_view().tolist()  # type: ignore[attr-defined]
    return values


def test_from_a_path(model: Path) -> None:
    events: list[Event] = []
    loaded = load_model(model, report=events.append)
    assert loaded.name == str(model)
    assert loaded.config == CONFIG | {"vocab_size": loaded.tokenizer.vocab_size}
    steps = [event for event in events if isinstance(event, Progress)]
    assert steps[-1].done == steps[-1].total and [step.done for step in steps] == sorted(step.done for step in steps)
    assert logits(load_model(model.parent)) == logits(loaded) == logits(load_model(str(model)))


def test_parameters_need_gradients_only_when_asked(model: Path) -> None:
    loaded = load_model(model).model
    assert not any(parameter.requires_grad for parameter in loaded.parameters())  # type: ignore[attr-defined]
    loaded.requires_grad_()  # type: ignore[attr-defined]
    assert all(parameter.requires_grad for parameter in loaded.parameters())  # type: ignore[attr-defined]


def test_types_of_llama2c_models(model: Path) -> None:
    """Every type that load_model's documentation names, as for models of other forms."""
    exact = logits(load_model(model))
    for given, kinds in {
        "float16": {"float16"}, "bfloat16": {"bfloat16"}, "float32": {"float32"}, "q8_0": {"q8_0", "float32"},
        "Q4_0": {"q4_0", "q8_0", "float32"}, "Q4_K_M": {"q5_0", "q8_0", "float32"},
    }.items():  # fmt: skip
        loaded = load_model(model, dtype=given)
        found = {parameter.dtype.name for parameter in loaded.model.parameters() if parameter.ndim == 2}  # type: ignore[attr-defined]
        assert found and found <= kinds, (given, found)
        near = 1e-6 if given == "float32" else 0.01 if given == "float16" else 0.5
        assert max(abs(a - b) for a, b in zip(logits(loaded), exact, strict=True)) < near * max(map(abs, exact))
    for given in ("q9", "int8", "float64", "q8_group", ""):
        with pytest.raises(OptionError, match=f"'{given}' is not a type of weights.*float32, float16, bfloat16, q4_0"):
            load_model(model, dtype=given)


def test_from_bytes_and_sources(model: Path) -> None:
    weights, vocabulary = model.read_bytes(), (model.parent / "tokenizer.bin").read_bytes()
    expected = logits(load_model(model))
    assert logits(load_model(weights, vocabulary)) == expected
    loaded = load_model(BytesSource(weights, "a.bin"), BytesSource(vocabulary, "b.bin"))
    assert loaded.name == "a.bin" and logits(loaded) == expected


def test_tokenizer_by_content(model: Path, tmp_path: Path) -> None:
    ours = Tokenizer.from_llama2c(*make_vocabulary())
    path = tmp_path / "tokenizer.json"
    path.write_text(ours.to_json(), encoding="utf-8")
    ids = ours.encode("the dog")
    assert load_tokenizer(path).encode("the dog") == ids == load_tokenizer(path.read_bytes()).encode("the dog")
    assert load_model(model, path).tokenizer.encode("the dog") == ids
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "."}))
    assert load_tokenizer(path).eos_ids == {make_vocabulary()[0].index(b".")}


def test_what_does_not_fit(model: Path, tmp_path: Path) -> None:
    data = model.read_bytes()
    with pytest.raises(ModelError, match="its tokenizer is missing"):
        load_model(data)
    with pytest.raises(FileFormatError, match="^x.json: this JSON is not a tokenizer.json"):
        load_model(data, BytesSource(b"{}", "x.json"))
    with pytest.raises(FileFormatError):
        load_model(data, b"")
    with pytest.raises(ModelNotFoundError):
        load_model("no such name")
    pieces, scores = make_vocabulary()
    more = Tokenizer.from_llama2c([*pieces, b"more"], [*scores, -999.0]).to_json().encode()
    with pytest.raises(ModelError, match="do not belong together"):
        load_model(data, more)
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    foreign = len(header).to_bytes(8, "little") + header + bytes(4)
    with pytest.raises(ModelError, match="does not contain the model's"):
        load_model(foreign, (model.parent / "tokenizer.bin").read_bytes())


def test_cancelling(model: Path) -> None:
    cancel = Cancel()
    events: list[Event] = []

    def report(event: Event) -> None:
        events.append(event)
        cancel.set()

    with pytest.raises(Cancelled):
        load_model(model, report=report, cancel=cancel)
    assert len(events) == 1
