"""tasks.chat as the page uses it: files by name, answers that go on, own tokens, models without a template."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp import tasks
from pyapp.adapters import LoraConfig, add_adapter, save_adapter
from pyapp.formats import open_checkpoint
from pyapp.formats.convert import quantize_file
from pyapp.formats.gguf_writer import write_gguf
from pyapp.formats.sharded import write_sharded_safetensors
from pyapp.formats.source import FileSource
from pyapp.models import load_model
from pyapp.models.loading.writing_gguf import gguf_view
from tests.text.chat_model import write_chat_model
from tests.text.page_library import page_library  # noqa: F401 (for every test)
from tests.text.small_model import write_model
from tests.together import collect

pytest.importorskip("jinja2")
GREEDY = {"temperature": 0, "max_new_tokens": 12}


def run(events: tasks.Events) -> tuple[str, Any, list[Any]]:
    """The text, the last event, and all events."""

    found = collect(events)
    return "".join(event.text for event in found if event.type == "token"), found[-1], found


def sources(folder: Path) -> dict[str, FileSource]:
    return {path.name: FileSource(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_chat_model(folder)
    return folder


@pytest.fixture
def files(folder: Path) -> dict[str, FileSource]:
    tasks.unload()
    return sources(folder)


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def test_a_turn_reads_only_what_is_new(files: dict[str, FileSource]) -> None:
    """The answers are random letters, which a tokenizer with merges would divide otherwise: their own ids are taken."""
    messages = [said("user", "Hello, fox")]
    first, done, _ = run(tasks.chat(files, messages, GREEDY, key="a"))
    assert done.results["context_tokens"] == done.results["prompt_tokens"] + 11
    messages += [said("assistant", first), said("user", "And <|im_end|> then?")]
    second, after, _ = run(tasks.chat(files, messages, GREEDY, key="a"))
    assert after.results["reused_tokens"] == done.results["context_tokens"]
    tasks.unload()
    assert run(tasks.chat(files, messages, GREEDY, key="a"))[0] == second  # with nothing kept


def test_an_answer_goes_on(files: dict[str, FileSource]) -> None:
    question = said("user", "Hello, fox")
    whole, _, _ = run(tasks.chat(files, [question], {**GREEDY, "max_new_tokens": 24}, key="a"))
    begun, _, _ = run(tasks.chat(files, [question], GREEDY, key="a"))
    rest, done, _ = run(tasks.chat(files, [question, said("assistant", begun)], GREEDY, key="a"))
    assert begun + rest == whole
    assert done.results["reused_tokens"] == done.results["prompt_tokens"] - 1


def test_a_smaller_context(files: dict[str, FileSource]) -> None:
    messages = [said("user", "a" * 100)]
    _, done, _ = run(tasks.chat(files, messages, GREEDY | {"context": 64}, key="a"))
    assert done.type == "error" and "room for 64" in done.what and "can read 512" in done.hint
    _, done, _ = run(tasks.chat(files, messages, GREEDY | {"context": 1 << 20}, key="a"))
    assert done.type == "error" and done.where == "context" and "from 1 to 512" in done.what
    assert run(tasks.chat(files, messages, GREEDY, key="a"))[1].results["context_size"] == 512


def test_without_a_template(tmp_path: Path) -> None:
    write_model(tmp_path)
    files = sources(tmp_path)
    _, done, events = run(tasks.load_chat(files, key="b"))
    assert done.results["template"] is False
    assert [event.what for event in events if event.type == "notice"][0].startswith("This model has no chat template")
    messages = [said("system", "Be kind."), said("user", "One day")]
    refused = run(tasks.chat(files, messages, GREEDY, key="b"))[1]
    assert refused.type == "error" and "no chat template" in refused.what
    answer, _, _ = run(tasks.chat(files, messages, GREEDY, plain=True, key="b"))
    prompt = "Be kind.\nUser: One day\nAssistant:"
    assert answer == run(tasks.generate(files, prompt, GREEDY, key="b"))[0].lstrip().partition("\nUser:")[0]


def test_shards_are_read_like_one_file(folder: Path, tmp_path: Path, files: dict[str, FileSource]) -> None:
    with open_checkpoint(folder / "model.safetensors") as checkpoint:
        tensors = {name: checkpoint.read(name) for name in checkpoint.tensors}
    write_sharded_safetensors(tmp_path, tensors, limit=100_000)
    for path in folder.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    parts = sources(tmp_path)
    assert sum(name.endswith(".safetensors") for name in parts) > 1
    messages = [said("user", "Hello, fox")]
    assert run(tasks.chat(parts, messages, GREEDY, key="c"))[0] == run(tasks.chat(files, messages, GREEDY, key="a"))[0]
    lost = next(name for name in parts if name.endswith(".safetensors"))
    del parts[lost]
    assert lost in run(tasks.chat(parts, messages, GREEDY, key="d"))[1].what


def test_a_gguf_in_two_parts(folder: Path, tmp_path: Path, files: dict[str, FileSource]) -> None:
    weights = folder / "model.safetensors"
    quantize_file(weights, tmp_path / "whole.gguf", "f32", view=gguf_view(weights))
    with open_checkpoint(tmp_path / "whole.gguf") as whole:
        tensors, values = {name: whole.read(name) for name in whole.tensors}, whole.values  # type: ignore[attr-defined]
    (tmp_path / "parts").mkdir()
    names, every = list(tensors), {"split.count": 2, "split.tensors.count": len(tensors)}
    for number, (chosen, own) in enumerate(((names[:5], values), (names[5:], {}))):
        path = tmp_path / "parts" / f"m-0000{number + 1}-of-00002.gguf"
        write_gguf(path, {name: tensors[name] for name in chosen}, own | every | {"split.no": number})
    parts = sources(tmp_path / "parts")
    messages = [said("user", "Hello, fox")]
    assert run(tasks.chat(parts, messages, GREEDY, key="e"))[0] == run(tasks.chat(files, messages, GREEDY, key="a"))[0]
    del parts["m-00001-of-00002.gguf"]
    assert "'m-00001-of-00002.gguf' is missing" in run(tasks.chat(parts, messages, GREEDY, key="f"))[1].what


@pytest.mark.parametrize(
    ("left_out", "says"), [("model.safetensors", "weights"), ("tokenizer.json", "tokenizer"), ("config.json", "model")]
)
def test_missing_files_are_named(files: dict[str, FileSource], left_out: str, says: str) -> None:
    del files[left_out]
    error = run(tasks.load_chat(files, key=left_out))[1]
    assert error.type == "error" and says in f"{error.what} {error.where}" and "unexpected" not in error.what


def test_files_that_have_changed_are_read_again(folder: Path, tmp_path: Path) -> None:
    """An adapter that was trained further in its folder, and a settings file that was edited in the model's."""
    tasks.unload()
    place, adapter = tmp_path / "model", tmp_path / "adapter"
    shutil.copytree(folder, place)
    texts = []
    for scale in (0.0, 1.0):
        model = load_model(place).model
        add_adapter(model, LoraConfig(r=2))
        for name, value in model.named_parameters():
            if ".lora_B." in name:
                value.detach().copy_(scale * pyapp.randn(value.shape, generator=pyapp.Generator().manual_seed(3)))
        save_adapter(model, adapter)
        texts.append(run(tasks.generate(place, "Hello", GREEDY, adapter=adapter))[0])
    assert texts[0] == run(tasks.generate(place, "Hello", GREEDY))[0] != texts[1]
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"model_type": "no such"}))  # the folder's time stays
    last = run(tasks.generate(place, "Hello", GREEDY))[1]
    assert last.type == "error" and "no such" in last.what
