"""Models of several files: the registry's speech models, and the files beside the weights in folders and on the hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pyapp
from pyapp import hub
from pyapp.errors import FileFormatError, ModelNotFoundError
from pyapp.formats import open_checkpoint, write_sharded_safetensors
from tests.hub_server import Hub

pytestmark = pytest.mark.native_only
pytest.importorskip("huggingface_hub")

REPO = "someone/tiny"


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A local hub and an empty cache."""
    running = Hub({REPO: {"model.bin": b"weights", "tokenizer.json": b"{}"}})
    running.start()
    running.use(monkeypatch, tmp_path / "cache")
    yield running
    running.stop()


def test_all_files_of_a_speech_model(tmp_path: Path) -> None:
    names = ("model.safetensors", "tokenizer.json", "config.json", "generation_config.json", "preprocessor_config.json")
    for name in (*names, "pytorch_model.bin", "optimizer.pt", "vocab.json", "README.md"):
        (tmp_path / name).touch()
    expected = {Path(name).stem: tmp_path / name for name in names}
    assert hub.resolve(tmp_path).files == expected
    assert hub.resolve(tmp_path / "model.safetensors").files == expected
    assert hub.resolve(tmp_path / "pytorch_model.bin").model == tmp_path / "pytorch_model.bin"


@pytest.mark.parametrize("name", ["ggml-tiny.bin", "tiny.en.pt", "model.q8_0.gguf", "last.ckpt"])
def test_a_model_in_one_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert hub.resolve(tmp_path).files == {"model": tmp_path / name} == hub.resolve(tmp_path / name).files
    (tmp_path / "epoch=3.ckpt").touch()  # of training
    if not name.endswith(".ckpt"):
        assert hub.resolve(tmp_path).files == {"model": tmp_path / name}


def test_a_gguf_in_several_parts(remote: Hub) -> None:
    """Its first part stands for all, which are downloaded together; a model beside it is another choice."""
    parts = [f"q4-{number:05d}-of-00002.gguf" for number in (1, 2)]
    remote.files[REPO] = {name: name.encode() for name in parts} | {"README.md": b"m"}
    for name in (REPO, f"{REPO}:{parts[1]}"):
        found = hub.resolve(name).model
        assert found.name == parts[0] and (found.parent / parts[1]).read_bytes() == parts[1].encode()
    assert hub.resolve(found.parent).model == found == hub.resolve(found.parent / parts[1]).model
    remote.files[REPO]["q8.gguf"] = b"q8"
    with pytest.raises(ModelNotFoundError, match=r"several models: q4-00001-of-00002.gguf, q8.gguf"):
        hub.resolve(REPO)
    assert hub.resolve(f"{REPO}:Q4").model == found  # as llama.cpp and Ollama name it
    assert hub.resolve(f"{REPO}:Q8").model.read_bytes() == b"q8"
    with pytest.raises(ModelNotFoundError, match="has no file 'Q5'; it has q4"):
        hub.resolve(f"{REPO}:Q5")


def test_models_of_a_task() -> None:
    every = hub.models()
    assert {entry for task in ("generate", "chat", "transcribe", "embed", "read") for entry in hub.models(task)} == set(
        every
    )
    assert {entry.task for entry in hub.models("transcribe")} == {"transcribe"}
    assert [entry.kind for entry in every] == sorted((entry.kind for entry in every), key=lambda kind: kind == "hub")
    assert not hub.models("sing")


def test_speech_models_by_all_their_names() -> None:
    for name in ("whisper-tiny", "openai/whisper-tiny", "openai/whisper-tiny:model.safetensors"):
        entry = hub.find_entry(name)
        assert entry and entry.id == "whisper-tiny"
    turbo = hub.find_entry("turbo", "transcribe")
    assert turbo and turbo.id == "whisper-large-v3-turbo"
    assert hub.find_entry("turbo") is None and hub.find_entry("turbo", "generate") is None
    assert hub.find_entry("karpathy/tinyllamas") is None  # it has several
    assert hub.find_entry("openai/whisper-tiny:pytorch_model.bin") is None
    assert hub.find_entry("openai/whisper-tiny@main") is None


def test_a_speech_model_is_downloaded_whole(remote: Hub) -> None:
    entry = hub.find_entry("distil-whisper/distil-small.en")
    assert entry is not None
    remote.files[entry.files[0].repo] = {file.path: file.role.encode() for file in entry.files}
    found = hub.resolve("distil-whisper/distil-small.en")
    assert found.entry is entry
    assert {role: path.read_bytes().decode() for role, path in found.files.items()} == {
        role: role for role in ("model", "tokenizer", "config", "generation_config", "preprocessor_config")
    }
    assert len({path.parent for path in found.files.values()}) == 1  # side by side, as in the repository


def test_companions_of_a_model_without_entry(remote: Hub) -> None:
    remote.files[REPO] |= {"config.json": b"{}", "generation_config.json": b"{}", "other/config.json": b"no"}
    found = hub.resolve(REPO)
    assert set(found.files) == {"model", "tokenizer", "config", "generation_config"}
    assert found.files["config"].read_bytes() == b"{}"


SHARDS = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}


def sharded(folder: Path) -> Path:
    """A model in two shards of one tensor each."""
    tensors = {name: pyapp.ones((size, 4)) for name, size in (("first", 5), ("second", 6))}
    index = write_sharded_safetensors(folder, tensors, limit=90)
    (folder / "config.json").write_text("{}")
    assert {path.name for path in folder.iterdir()} == {"config.json", index.name, *SHARDS}
    return index


def test_a_model_in_shards(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    expected = {"model": index, "config": tmp_path / "config.json"}
    assert hub.resolve(tmp_path).files == expected == hub.resolve(index).files
    (tmp_path / "consolidated.00.pth").touch()  # as Llama's repositories have
    assert hub.resolve(tmp_path).model == index
    index.unlink()
    (tmp_path / "consolidated.00.pth").unlink()
    with pytest.raises(ModelNotFoundError, match="no file of weights") as raised:
        hub.resolve(tmp_path)
    assert index.name in str(raised.value.hint)


def test_shards_are_downloaded_to_lie_beside_their_index(remote: Hub, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    index = sharded(tmp_path / "made")
    remote.files[REPO] = {path.name: path.read_bytes() for path in index.parent.iterdir()}
    for found in (hub.resolve(REPO), hub.resolve(REPO, offline=True)):
        assert {path.name for path in found.model.parent.iterdir()} == {"config.json", index.name, *SHARDS}
        with open_checkpoint(found.model) as checkpoint:
            assert {name: info.shape for name, info in checkpoint.tensors.items()} == {
                "first": (5, 4),
                "second": (6, 4),
            }


def test_an_index_that_leads_elsewhere_fetches_nothing(remote: Hub) -> None:
    remote.files[REPO] = {"model.safetensors.index.json": b'{"weight_map": {"a": "../other/model.safetensors"}}'}
    with pytest.raises(FileFormatError, match="not a file beside it"):
        hub.resolve(REPO)
