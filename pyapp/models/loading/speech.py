"""Load speech models by name or from files: a Whisper, and others that hear samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, reading_of
from pyapp.formats import ByteSource, Checkpoint, open_checkpoint, open_source
from pyapp.formats.source import close_source, read_whole

from .._index import MODEL_TYPES, TASKS
from ..load import Source, read_settings

if TYPE_CHECKING:
    from pyapp.engine.device import Device
    from pyapp.engine.processes.group import ProcessGroup
    from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer

SpeechSource: TypeAlias = "Source | Mapping[str, Any]"

# Quantised models up to this size are computed in float32, as in load.py.
EXACT_BYTES = 8 << 20  # of the tensors of a speech model, as they lie in the file
ENGLISH_TOKENS = 51864  # tokens of Whisper's .en models


@dataclass(frozen=True)
class LoadedSpeechModel:
    """A speech model and its tokenizer. `config` holds the hyper-parameters as JSON values. `processor` prepares the
    samples of one that is not a Whisper (models/loading/sound.py), whose tokenizer is a CTCTokenizer, or a Tokenizer if
    it writes texts. `generation`: the object of its generation_config.json.
    """

    name: str
    model: Any
    tokenizer: Any
    config: dict[str, Any]
    processor: Any = None
    generation: dict[str, Any] = field(default_factory=dict)


def load_speech_model(
    source: SpeechSource,
    tokenizer: Any = None,
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    tensor_parallel: ProcessGroup | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedSpeechModel:
    """Loads a Whisper model by name (embedded, or `owner/repo` on the hub), from a folder, a file (openai's .pt,
    whisper.cpp's ggml-*.bin, .safetensors with its config.json), or a mapping of roles ("model", "config", "tokenizer",
    "generation_config") to paths, bytes or ByteSources; a Moonshine or a language model that hears (Voxtral …), of
    which it has "preprocessor_config" too, or a Parakeet, of which it has that or "processor_config"; or a wav2vec 2.0
    (BERT), HuBERT or WavLM with characters, of which it has "vocab.json" and "tokenizer_config" as well.

    `tokenizer` (tokenizer.json, or openai's .tiktoken) is needed if none is beside the model or in it. `dtype`
    ("float32", "float16", "q8_0") is the type to convert the matrices to; None keeps their type, except that small
    models become float32. `device`: where the model computes. `tensor_parallel`: a group of processes that all load
    the model, and then make the same calls of it, as in load_model. `report` receives Progress in bytes. The parameters
    do not require gradients: call `model.requires_grad_()` to train those that are not quantised. Returns when
    everything is read. Raises ModelNotFoundError, DownloadError, FileFormatError, ModelError, and Cancelled once
    `cancel` is set.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    name = getattr(source, "name", "model")
    if isinstance(source, str | os.PathLike):
        from pyapp import hub

        name = os.fspath(source)
        named, source = source, dict(hub.resolve(source, report=report, cancel=cancel).files)
        if "config" in source and hears_samples(read_settings(source["config"])):
            from .sound import files_of

            source = files_of(named, report, cancel)
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
        return _load(name, opened, dtype, device, tensor_parallel, report, cancel)


def _load(
    name: str,
    files: Mapping[str, ByteSource],
    dtype: str | None,
    device: Device | str | None,
    group: ProcessGroup | None,
    report: Callable[[Event], None],
    cancel: Cancel,
) -> LoadedSpeechModel:
    from ..whisper.files import build_whisper, check_architecture, is_whisper, read_json_file

    config, generation = (
        read_json_file(files[role]) if role in files else None for role in ("config", "generation_config")
    )
    if config is not None and hears_samples(config):
        from .sound import load_sound_model

        if group is not None:
            raise ModelError("models of this architecture run in one process", where=name)
        heard, tokenizer, processor = load_sound_model(name, files, config, dtype, device, report, cancel)
        return LoadedSpeechModel(name, heard, tokenizer, heard.config.to_dict(), processor, generation or {})
    if config is not None:
        check_architecture(config, files["config"].name)
    checkpoint = open_checkpoint(files["model"])
    where = checkpoint.source.name
    if not is_whisper(checkpoint):
        raise ModelError("this is not a speech model", where=where, hint="Choose a Whisper model")
    if config is None and any("self_attn" in tensor for tensor in checkpoint.tensors):
        raise ModelError("its config.json is missing", where=where, hint="Give it too: it lies beside the weights")
    words = load_whisper_tokenizer(checkpoint, files.get("tokenizer"), config, generation)

    progress = reading_of(report, cancel)
    stored = sum(info.nbytes for info in checkpoint.tensors.values())
    dtype = "float32" if dtype is None and stored <= EXACT_BYTES else dtype
    model = build_whisper(checkpoint, config, generation, dtype=dtype, device=device, progress=progress, group=group)
    if words.vocab_size > model.config.n_vocab:
        raise ModelError(
            f"the tokenizer has {words.vocab_size:,} tokens, the model {model.config.n_vocab:,}", where=where,
            hint="Give the tokenizer that belongs to the model",
        )  # fmt: skip
    return LoadedSpeechModel(name, model, words, model.config.to_dict())


def hears_samples(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is of a model that hears samples, and not the spectrograms of Whisper."""
    return "speech-recognition" in TASKS.get(MODEL_TYPES.get(str(config.get("model_type")), ""), ())


def load_whisper_tokenizer(
    checkpoint: Checkpoint,
    source: ByteSource | None,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
) -> WhisperTokenizer:
    """From a tokenizer.json or .tiktoken file, or the vocabulary in the checkpoint. ModelError if there is none."""
    from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer

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
    from pyapp.text.tokenization.vocabulary_files import read_tiktoken

    return WhisperTokenizer.from_pieces(read_tiktoken(data, source.name), size, multilingual=multilingual)


def _is_embedding(name: str) -> bool:
    return name.endswith(("decoder.token_embedding.weight", "decoder.embed_tokens.weight"))
