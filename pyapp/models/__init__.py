"""Architectures, one file each, and the way from a name or file to a model that is ready to use."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Progress
from pyapp.formats import ByteSource, Checkpoint, open_checkpoint, open_source, read_tokenizer_bin
from pyapp.formats.source import close_source, read_whole

from .speech import LoadedSpeechModel, load_speech_model

if TYPE_CHECKING:
    from pyapp.text.generate import LanguageModel
    from pyapp.text.tokenizer import Tokenizer

__all__ = ["LoadedModel", "LoadedSpeechModel", "load_model", "load_speech_model", "load_tokenizer"]

# Quantised models up to this size are computed in float32. With int8 activations, a rounding difference in the last bit
# can grow to a tenth of a logit, and near ties would fall differently on different processors and in the browser; a
# model that stays in the cache as float32 need not pay for speed with that.
EXACT_BYTES = 4 << 20

Source: TypeAlias = "str | os.PathLike[str] | bytes | ByteSource"


@dataclass(frozen=True)
class LoadedModel:
    """A language model and its tokenizer. `config` is what the checkpoint says of the model, as JSON values."""

    name: str
    model: LanguageModel
    tokenizer: Tokenizer
    config: dict[str, Any]


def load_model(
    source: Source,
    tokenizer: Source | None = None,
    *,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedModel:
    """Loads a model by name (embedded, or `owner/repo:file` on the hub), from a path, bytes or a ByteSource.

    `tokenizer` is needed where none lies beside the model. `report` receives Progress in bytes (download, reading).
    Blocks, and has read everything when it returns. Raises ModelNotFoundError, DownloadError, FileFormatError,
    ModelError, and Cancelled once `cancel` is set.
    """
    report = report or (lambda event: None)
    cancel = cancel or Cancel()
    name = getattr(source, "name", "model")
    if isinstance(source, str | os.PathLike):
        from pyapp import hub

        name = os.fspath(source)
        files = hub.resolve(source, report=report, cancel=cancel)
        source, tokenizer = files.model, files.tokenizer if tokenizer is None else tokenizer
    if tokenizer is None:
        raise ModelError("its tokenizer is missing", where=name, hint="Give the tokenizer.bin or tokenizer.json too")
    text = load_tokenizer(tokenizer)
    checkpoint = open_checkpoint(source)
    try:
        model = build(checkpoint, report, cancel)
    finally:
        if checkpoint.source is not source:
            checkpoint.close()
    from pyapp.text.generate import check_tokenizer

    check_tokenizer(text, model.config.vocab_size)
    return LoadedModel(name, model, text, model.config.to_dict())


def build(checkpoint: Checkpoint, report: Callable[[Event], None], cancel: Cancel) -> Any:
    """The model that a checkpoint holds: of the architecture that its config calls `model_type`, else llama2.c's."""
    kind = checkpoint.config.get("model_type", "llama2c")
    if kind != "llama2c":
        raise ModelError(f"the architecture {kind!r} is not known", where=checkpoint.source.name, hint="Known: llama2c")
    from pyapp.models.llama2c import Llama2c

    def progress(done: int, total: int) -> None:
        cancel.check()
        report(Progress("reading the model", done, total, "bytes"))

    try:
        model = Llama2c.from_checkpoint(checkpoint, progress)
    except KeyError as error:
        raise ModelError(
            f"the file does not say the model's {error.args[0]}", where=checkpoint.source.name,
            hint="Give a llama2.c checkpoint, or safetensors that pyapp wrote",
        ) from error  # fmt: skip
    if sum(parameter.nbytes for parameter in model.parameters()) <= EXACT_BYTES:
        model.dequantize()
    return model


def load_tokenizer(source: Source) -> Tokenizer:
    """From a tokenizer.json (and the tokenizer_config.json beside a path), or a llama2.c tokenizer.bin, by content."""
    from pyapp.text.tokenizer import Tokenizer

    opened = open_source(source)
    try:
        if opened.size and bytes(opened.read(0, min(opened.size, 16))).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            vocabulary = read_tokenizer_bin(opened)
            return Tokenizer.from_llama2c(vocabulary.pieces, vocabulary.scores, where=opened.name)
        data = read_whole(opened)
        beside = Path(source).with_name("tokenizer_config.json") if isinstance(source, str | os.PathLike) else None
        settings = beside.read_bytes() if beside and beside.is_file() else None
        return Tokenizer.from_json(data, settings, where=opened.name)
    finally:
        if opened is not source:
            close_source(opened)
