"""A language model from files by name, as a user picks them or drops their folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats.sharded import INDEX, ShardedFile, shard_names
from pyapp.formats.source import ByteSource
from pyapp.models.load import LoadedModel, build, check_architecture, load_model, load_tokenizer, read_settings

if TYPE_CHECKING:
    from pyapp.engine.device import Device

CONFIG = "config.json"
# Weights, the preferred kind first.
WEIGHTS = (".gguf", "model.safetensors", ".safetensors", "pytorch_model.bin", ".bin")
TOKENIZER_BIN = "tokenizer.bin"  # the one .bin that has no weights
HINT = "Choose one .gguf file, or all files of a model's folder: config.json, model.safetensors, tokenizer.json …"


def load_files(
    files: Mapping[str, ByteSource],
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
    dtype: str | None = None,
    device: Device | str | None = None,
) -> LoadedModel:
    """Loads a language model from all its files by name: a .gguf file; config.json, the tokenizer's files and
    model.safetensors, or model.safetensors.index.json with its shards; or a llama2.c checkpoint with tokenizer.bin.

    The arguments and errors are those of pyapp.models.load_model.
    """
    if INDEX in files:
        return _load_shards(files, report or (lambda event: None), cancel or Cancel(), dtype, device)
    name = _weights(files)
    beside = {key: source for key, source in files.items() if key not in (name, CONFIG)}
    tokenizer = beside | {name: files[name]} if name.lower().endswith(".gguf") else beside
    loaded = load_model(
        files[name],
        tokenizer,
        config=files.get(CONFIG),
        dtype=dtype,
        device=device,
        report=report,
        cancel=cancel,
    )
    return LoadedModel(name, loaded.model, loaded.tokenizer, loaded.config)


def _weights(files: Mapping[str, ByteSource]) -> str:
    for ending in WEIGHTS:
        found = [name for name in files if name.lower().endswith(ending) and name != TOKENIZER_BIN]
        if len(found) > 1:
            what = f"{len(found)} files could be the weights: {', '.join(sorted(found))[:200]}"
            raise ModelError(what, where="files", hint="Choose one model at a time")
        if found:
            return found[0]
    raise ModelError("the file of weights is missing", where=", ".join(sorted(files))[:200] or "files", hint=HINT)


def _load_shards(
    files: Mapping[str, ByteSource],
    report: Callable[[Event], None],
    cancel: Cancel,
    dtype: str | None,
    device: Device | str | None,
) -> LoadedModel:
    shards = shard_names(files[INDEX])
    missing = [name for name in (CONFIG, *shards) if name not in files]
    if missing:
        raise ModelError(f"the files {', '.join(missing)[:300]} are missing", where=INDEX, hint=HINT)
    settings = read_settings(files[CONFIG])
    check_architecture(settings, CONFIG)
    weights = {CONFIG, INDEX, *shards}
    tokenizer: dict[str, Any] = {name: source for name, source in files.items() if name not in weights}
    if not tokenizer:
        raise ModelError("its tokenizer is missing", where=INDEX, hint=HINT)
    text = load_tokenizer(tokenizer)
    model = build(ShardedFile(files[INDEX], shards=files.__getitem__), report, cancel, settings, dtype, device)
    from pyapp.text.generate import check_tokenizer

    check_tokenizer(text, model.config.vocab_size)
    return LoadedModel(INDEX, model, text, model.config.to_dict())
