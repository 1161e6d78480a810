"""Load models by name or from files.

Architectures and tokenizers are imported when a model needs them, so that the page's first token does not wait for
other code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Progress
from pyapp.formats import ByteSource, Checkpoint, open_checkpoint, open_source
from pyapp.formats.safe_json import json_object
from pyapp.formats.source import FileSource, close_source, read_whole

if TYPE_CHECKING:
    from pyapp.models.whisper import Whisper
    from pyapp.text.generate import LanguageModel
    from pyapp.text.tokenizer import Tokenizer
    from pyapp.text.whisper_tokenizer import WhisperTokenizer

Source: TypeAlias = "str | os.PathLike[str] | bytes | ByteSource"
SpeechSource: TypeAlias = "Source | Mapping[str, Any]"

# Quantised models up to these sizes are computed in float32. With int8 activations, a rounding difference in the last
# bit can grow to a tenth of a logit, and near ties would be decided differently on other processors and in the page.
# A model that fits the processor's cache as float32 is fast enough without int8.
EXACT_TEXT_BYTES = 4 << 20  # of the parameters of a language model, as they lie in memory
EXACT_SPEECH_BYTES = 8 << 20  # of the tensors of a speech model, as they lie in the file
ENGLISH_TOKENS = 51864  # tokens of Whisper's .en models


@dataclass(frozen=True)
class LoadedModel:
    """A language model and its tokenizer. `config` holds the hyper-parameters as JSON values."""

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

    `tokenizer` is needed if none is beside the model. `report` receives Progress in bytes (download, reading). The
    parameters do not require gradients: call `model.requires_grad_()` to train those that are not quantised. Returns
    when everything is read. Raises ModelNotFoundError, DownloadError, FileFormatError, ModelError, and Cancelled once
    `cancel` is set.
    """
    report = report or (lambda event: None)
    cancel = cancel or Cancel()
    name = getattr(source, "name", "model")
    if isinstance(source, str | os.PathLike):
        from pyapp import hub

        name = os.fspath(source)
        files = hub.resolve(source, report=report, cancel=cancel, check=_check_config_file)
        source, tokenizer = files.model, files.tokenizer if tokenizer is None else tokenizer
    checkpoint = open_checkpoint(source)
    try:
        check_architecture(checkpoint.config, checkpoint.source.name)
        if tokenizer is None:
            hint = "Give the tokenizer.bin or tokenizer.json too"
            raise ModelError("its tokenizer is missing", where=name, hint=hint)
        text = load_tokenizer(tokenizer)
        model = build(checkpoint, report, cancel)
    finally:
        if checkpoint.source is not source:
            checkpoint.close()
    from pyapp.text.generate import check_tokenizer

    check_tokenizer(text, model.config.vocab_size)
    return LoadedModel(name, model, text, model.config.to_dict())


def check_architecture(config: Mapping[str, Any], where: str) -> None:
    """ModelError for a configuration of an unknown architecture."""
    kind = config.get("model_type", "llama2c")
    if kind != "llama2c":
        raise ModelError(f"the architecture {str(kind)[:50]!r} is not known", where=where, hint="Known: llama2c")


def _check_config_file(files: Mapping[str, Path]) -> None:
    """check_architecture of a repository's config.json, before its weights are downloaded."""
    path = files.get("config")
    if path is not None:
        with FileSource(path) as source:
            config = json_object(read_whole(source).decode("utf-8", "replace"))
        check_architecture(config, str(path))


def build(checkpoint: Checkpoint, report: Callable[[Event], None], cancel: Cancel) -> Any:
    """The model of a checkpoint. `model_type` in its config names the architecture; the default is llama2.c's."""
    check_architecture(checkpoint.config, checkpoint.source.name)
    from pyapp.models.llama2c import Llama2c

    def progress(done: int, total: int) -> None:
        cancel.check()
        report(Progress("reading the model", done, total, "bytes"))

    try:
        model = Llama2c.from_checkpoint(checkpoint, progress)
    except KeyError as error:
        raise ModelError(
            f"the file does not contain the model's {error.args[0]}", where=checkpoint.source.name,
            hint="Give a llama2.c checkpoint, or safetensors that pyapp wrote",
        ) from error  # fmt: skip
    if sum(parameter.nbytes for parameter in model.parameters()) <= EXACT_TEXT_BYTES:
        model.dequantize()
    return model


def load_tokenizer(source: Source | Mapping[str, Source], name: str | None = None) -> Tokenizer:
    """pyapp.text.tokenizer_files.load_tokenizer: from a model's folder, one of its files, or a mapping of names to
    files.
    """
    from pyapp.text.tokenizer_files import load_tokenizer

    return load_tokenizer(source, name)


@dataclass(frozen=True)
class LoadedSpeechModel:
    """A speech model and its tokenizer. `config` holds the hyper-parameters as JSON values."""

    name: str
    model: Whisper
    tokenizer: WhisperTokenizer
    config: dict[str, Any]


def load_speech_model(
    source: SpeechSource,
    tokenizer: Any = None,
    *,
    dtype: str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedSpeechModel:
    """Loads a Whisper model by name (embedded, or `owner/repo` on the hub), from a folder, a file (openai's .pt,
    whisper.cpp's ggml-*.bin, .safetensors with its config.json), or a mapping of roles ("model", "config", "tokenizer",
    "generation_config") to paths, bytes or ByteSources.

    `tokenizer` (tokenizer.json, or openai's .tiktoken) is needed if none is beside the model or in it. `dtype`
    ("float32", "float16", "q8_0") is the type to convert the matrices to; None keeps their type, except that small
    models become float32. `report` receives Progress in bytes. The parameters do not require gradients: call
    `model.requires_grad_()` to train those that are not quantised. Returns when everything is read. Raises
    ModelNotFoundError, DownloadError, FileFormatError, ModelError, and Cancelled once `cancel` is set.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    name = getattr(source, "name", "model")
    if isinstance(source, str | os.PathLike):
        from pyapp import hub

        name = os.fspath(source)
        source = dict(hub.resolve(source, report=report, cancel=cancel).files)
    roles = dict(source) if isinstance(source, Mapping) else {"model": source}
    if tokenizer is not None:
        roles["tokenizer"] = tokenizer
    if "model" not in roles:
        raise ModelError("the file of weights is missing", where=name, hint="Give model.safetensors too")
    with ExitStack() as stack:
        opened: dict[str, ByteSource] = {}
        for role, given in roles.items():
            opened[role] = open_source(given)
            if opened[role] is not given:
                stack.callback(close_source, opened[role])
        return _load(name, opened, dtype, report, cancel)


def _load(
    name: str, files: Mapping[str, ByteSource], dtype: str | None, report: Callable[[Event], None], cancel: Cancel
) -> LoadedSpeechModel:
    from pyapp.models.whisper.files import build_whisper, check_architecture, is_whisper, read_json_file

    config, generation = (
        read_json_file(files[role]) if role in files else None for role in ("config", "generation_config")
    )
    if config is not None:
        check_architecture(config, files["config"].name)
    checkpoint = open_checkpoint(files["model"])
    where = checkpoint.source.name
    if not is_whisper(checkpoint):
        raise ModelError("this is not a speech model", where=where, hint="Choose a Whisper model")
    if config is None and any("self_attn" in tensor for tensor in checkpoint.tensors):
        raise ModelError("its config.json is missing", where=where, hint="Give it too: it lies beside the weights")
    words = load_whisper_tokenizer(checkpoint, files.get("tokenizer"), config, generation)

    def progress(done: int, total: int) -> None:
        cancel.check()
        report(Progress("reading the model", done, total, "bytes"))

    stored = sum(info.nbytes for info in checkpoint.tensors.values())
    dtype = "float32" if dtype is None and stored <= EXACT_SPEECH_BYTES else dtype
    model = build_whisper(checkpoint, config, generation, dtype=dtype, progress=progress)
    if words.vocab_size > model.config.n_vocab:
        raise ModelError(
            f"the tokenizer has {words.vocab_size:,} tokens, the model {model.config.n_vocab:,}", where=where,
            hint="Give the tokenizer that belongs to the model",
        )  # fmt: skip
    return LoadedSpeechModel(name, model, words, model.config.to_dict())


def load_whisper_tokenizer(
    checkpoint: Checkpoint,
    source: ByteSource | None,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
) -> WhisperTokenizer:
    """From a tokenizer.json or .tiktoken file, or the vocabulary in the checkpoint. ModelError if there is none."""
    from pyapp.text.vocabulary_files import read_tiktoken
    from pyapp.text.whisper_tokenizer import WhisperTokenizer

    embedding = next((info for name, info in checkpoint.tensors.items() if _is_embedding(name)), None)
    if embedding is None or len(embedding.shape) != 2:
        raise ModelError("the model has no token embedding", where=checkpoint.source.name)
    size = embedding.shape[0]
    multilingual = (generation or {}).get("is_multilingual")
    if not isinstance(multilingual, bool):
        multilingual = False if size == ENGLISH_TOKENS else None
    pieces = getattr(checkpoint, "pieces", None)
    if source is None and pieces:
        return WhisperTokenizer.from_pieces(pieces, size, multilingual=multilingual, where=checkpoint.source.name)
    if source is None:
        raise ModelError(
            "its tokenizer is missing", where=checkpoint.source.name,
            hint="Put the model's tokenizer.json (or openai's .tiktoken file) beside it, or give it too",
        )  # fmt: skip
    data = read_whole(source)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return WhisperTokenizer.from_json(data, multilingual=multilingual, where=source.name)
    return WhisperTokenizer.from_pieces(read_tiktoken(data, source.name), size, multilingual=multilingual)


def _is_embedding(name: str) -> bool:
    return name.endswith(("decoder.token_embedding.weight", "decoder.embed_tokens.weight"))
