"""A language model from files by name, as a user picks them or drops their folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats.checkpoint import Checkpoint
from pyapp.formats.gguf import GgufFile
from pyapp.formats.gguf_shards import ShardedGguf
from pyapp.formats.part_names import INDICES, part_names
from pyapp.formats.sharded import ShardedFile, shard_names
from pyapp.formats.source import ByteSource
from pyapp.hub.resolver import PROJECTOR, choose_projector
from pyapp.models.load import LoadedModel, check_architecture, load_model, read_settings

if TYPE_CHECKING:
    from pyapp.engine.device import Device

CONFIG = "config.json"
# Weights, the preferred kind first.
WEIGHTS = (".gguf", "model.safetensors", ".safetensors", "pytorch_model.bin", ".bin", ".pt", ".pth", ".ckpt")
TOKENIZER_BIN = "tokenizer.bin"  # the one .bin that has no weights
HINT = "Choose one .gguf file, or all files of a model's folder: config.json, model.safetensors, tokenizer.json …"


def load_files(
    files: Mapping[str, ByteSource],
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
    dtype: str | None = None,
    device: Device | str | None = None,
) -> LoadedModel:
    """Loads a language model from all its files by name: a .gguf file, or all of its parts; config.json, the
    tokenizer's files and model.safetensors, or the index of its shards (model.safetensors.index.json,
    pytorch_model.bin.index.json) with them; or a llama2.c checkpoint with tokenizer.bin.

    The arguments and errors are those of pyapp.models.load_model.
    """
    index = next((name for name in INDICES if name in files), None)
    name = index or _weights(files)
    settings = read_settings(files[CONFIG]) if CONFIG in files else None
    if settings is not None:
        check_architecture(settings, CONFIG)
    source: ByteSource | Checkpoint = files[name]
    parts = {name, *part_names(name)}
    if index is not None:
        source, parts = _sharded(files, index)
    elif part_names(name):
        source = ShardedGguf(GgufFile(files[name]), parts=files.__getitem__)
    others = {*parts, CONFIG, *filter(PROJECTOR.fullmatch, files)}
    beside = {key: other for key, other in files.items() if key not in others}
    if index is not None and not beside:
        raise ModelError("its tokenizer is missing", where=index, hint=HINT)
    loaded = load_model(
        source,
        beside | {name: files[name]} if name.lower().endswith(".gguf") else beside,
        config=files.get(CONFIG),
        generation=files.get("generation_config.json"),
        processor=files.get("preprocessor_config.json", files.get("processor_config.json")),
        projector=files.get(choose_projector(files, name) or ""),
        dtype=dtype,
        device=device,
        report=report,
        cancel=cancel,
    )
    return replace(loaded, name=name)


def _weights(files: Mapping[str, ByteSource]) -> str:
    for ending in WEIGHTS:
        others = {TOKENIZER_BIN, *filter(PROJECTOR.fullmatch, files)}
        found = [name for name in files if name.lower().endswith(ending) and name not in others]
        found = [name for name in found if part_names(name)[:1] in ([], [name]) or part_names(name)[0] not in files]
        if len(found) > 1:
            what = f"{len(found)} files could be the weights: {', '.join(sorted(found))[:200]}"
            raise ModelError(what, where="files", hint="Choose one model at a time")
        if found:
            return found[0]
    raise ModelError("the file of weights is missing", where=", ".join(sorted(files))[:200] or "files", hint=HINT)


def _sharded(files: Mapping[str, ByteSource], index: str) -> tuple[ShardedFile, set[str]]:
    """The weights of an index and the names of the files that they are in. ModelError names missing files."""
    shards = shard_names(files[index])
    missing = [name for name in (CONFIG, *shards) if name not in files]
    if missing:
        what = f"the files {', '.join(missing)[:300]} are" if len(missing) > 1 else f"the file {missing[0]} is"
        raise ModelError(f"{what} missing", where=index, hint=HINT)
    return ShardedFile(files[index], shards=files.__getitem__), {index, *shards}
