"""Hostile config.json, generation_config.json and indexes of shards: only clear errors, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import BytesSource, ShardedFile, open_checkpoint, write_safetensors
from pyapp.formats.llama2c import LIMITS
from pyapp.models import load_speech_model
from pyapp.models.llama2c import Config as LlamaConfig
from pyapp.models.llama2c import Llama2c
from pyapp.models.loading.t5_config import T5Config
from pyapp.models.whisper.files import HUGGING_FACE_CONFIG, config_from_hugging_face, read_json_file
from tests.hostile import VALUES, damaged_texts, hostile_documents, peak_memory, survives, written
from tests.models.test_whisper_files import documents, write_folder

MEMORY = 64 << 20
DOCUMENTS = documents()
NUMBERS = {name: DOCUMENTS["config.json"][name] for name in HUGGING_FACE_CONFIG.values()}


def read_config(data: bytes) -> None:
    config_from_hugging_face(read_json_file(BytesSource(data, "config.json")))


def test_damaged_config_json() -> None:
    data = json.dumps(DOCUMENTS["config.json"]).encode()
    read_config(data)
    with peak_memory(MEMORY):
        for text in damaged_texts(data, 30):
            survives(read_config, text)
        for changed in hostile_documents(DOCUMENTS["config.json"], 150):
            survives(read_config, written(changed))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("whisper"))


@pytest.mark.parametrize("role", ["config.json", "generation_config.json"])
def test_a_whole_model_with_a_hostile_document(folder: Path, role: str) -> None:
    files: dict[str, Any] = {name.rpartition(".")[0]: (folder / name).read_bytes() for name in DOCUMENTS}
    files |= {"model": folder / "model.safetensors", "tokenizer": folder / "tokenizer.json"}
    assert survives(load_speech_model, files)
    for changed in hostile_documents(DOCUMENTS[role], 40):
        survives(load_speech_model, files | {role.rpartition(".")[0]: written(changed)})


@pytest.mark.parametrize("pairs", [[["a", "b"]], [[0.5, 1]], [[True, 0]], [[0, 10**30]], [[-1, 0]], [[]], [None], []])
def test_alignment_heads_that_are_none(folder: Path, pairs: list[Any]) -> None:
    document = {**DOCUMENTS["generation_config.json"], "alignment_heads": pairs}
    files = {"config": folder / "config.json", "model": folder / "model.safetensors"}
    files["tokenizer"] = folder / "tokenizer.json"
    assert load_speech_model({**files, "generation_config": written(document)}).model.alignment_heads is None


@pytest.mark.parametrize("name", ["encoder_layers", "max_source_positions", "d_model", "vocab_size", "num_mel_bins"])
def test_numbers_of_speech_models_have_limits(name: str) -> None:
    """Without a limit, a billion layers would be built before a missing tensor is noticed."""
    with peak_memory(MEMORY), pytest.raises(ModelError, match="expected 1 to"):
        read_config(
            written({**DOCUMENTS["config.json"], name: 10**9, "encoder_ffn_dim": None, "decoder_ffn_dim": None})
        )


LLAMA = {"dim": 8, "hidden_dim": 12, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "vocab_size": 6, "max_seq_len": 4}


def llama_file(path: Path, config: Any) -> Path:
    tensors = Llama2c(LlamaConfig(**LLAMA)).export_tensors()
    write_safetensors(path, tensors, {"config": written(config).decode()})
    return path


def test_hostile_configurations_inside_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"

    def read(config: Any) -> None:
        llama_file(path, config)
        with open_checkpoint(path) as checkpoint:
            try:
                Llama2c.from_checkpoint(checkpoint)
            except KeyError as error:  # load_model says so
                assert error.args[0] in LLAMA

    read(LLAMA)
    with peak_memory(MEMORY):
        for changed in hostile_documents(LLAMA, 60):
            survives(read, changed)


@pytest.mark.parametrize("name", LLAMA)
def test_numbers_of_language_models_have_limits(name: str) -> None:
    for value in VALUES:
        if type(value) is not int or not 1 <= value <= LIMITS[name]:
            with pytest.raises(ModelError, match=f"{name} is .*expected a whole number from 1 to"):
                LlamaConfig.from_dict({**LLAMA, name: value})


@pytest.mark.parametrize("name", ["d_ff", "d_kv", "num_heads", "vocab_size", "num_layers", "num_decoder_layers"])
def test_numbers_of_other_names_have_limits_by_their_ends(name: str) -> None:
    """T5 has names of its own for what Llama has."""
    small = {"vocab_size": 100, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 4}
    assert T5Config.from_dict({**small, name: 5})
    for value in (-1, 0, 1 << 30, 10**12):
        with pytest.raises(ModelError, match=f"{name} is {value}, expected a whole number from 1 to"):
            T5Config.from_dict({**small, name: value})


def test_positions_have_a_limit() -> None:
    with pytest.raises(ModelError, match="positions"):
        LlamaConfig.from_dict({**LLAMA, "dim": 1 << 16, "n_heads": 1, "n_kv_heads": 1, "max_seq_len": 1 << 20})


SHARDS = {"a.safetensors": {"x": (2, 3), "y": (4,)}, "b.safetensors": {"z": (1,)}}
INDEX = {"metadata": {"total_size": 44}, "weight_map": {n: file for file, names in SHARDS.items() for n in names}}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes]]:
    where = tmp_path_factory.mktemp("shards")
    for file, names in SHARDS.items():
        write_safetensors(where / file, {name: pyapp.ones(*shape) for name, shape in names.items()})
    yield {file: (where / file).read_bytes() for file in SHARDS}


def test_hostile_indexes(shards: dict[str, bytes]) -> None:
    def read(text: bytes) -> None:
        opened = ShardedFile(BytesSource(text, "model.safetensors.index.json"), shards.__getitem__)
        for name in opened.tensors:
            assert opened.read(name).numpy().max() == 1
        assert len(str(opened.metadata)) < 100_000

    read(written(INDEX))
    with peak_memory(MEMORY):
        for text in damaged_texts(written(INDEX), 30):
            survives(read, text)
        for changed in hostile_documents(INDEX, 150):
            survives(read, written(changed))


@pytest.mark.parametrize("name", ["../a.safetensors", "/etc/passwd", "..", "a\\b", "c:x", "", "a\0", "x" * 2000])
def test_an_index_does_not_leave_its_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"x": name}}))
    with pytest.raises(FileFormatError, match="not a file beside it"):
        open_checkpoint(path)
