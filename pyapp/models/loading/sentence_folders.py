"""Folders of sentence-transformers: modules.json lists the parts, each with files in a folder of its own; the encoder's
are beside it, or in the folder of part 0.

Checkpoints of Stanford's ColBERT have their projection in the encoder's file, and settings in artifact.metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import Checkpoint, open_checkpoint, open_source
from pyapp.formats.safe_json import parse_json
from pyapp.formats.source import close_source, name_of, read_whole
from pyapp.models.sentences import late_interaction
from pyapp.models.sentences.embedding import (
    MODULES,
    Dense,
    Norm,
    Normalize,
    Pooling,
    SentenceEmbedder,
    SentenceSettings,
    TextEmbedder,
    pooling_modes,
)
from pyapp.models.sentences.late_interaction import METADATA, PYLATE, LateInteraction, MultiVectorEmbedder
from pyapp.models.sentences.word_vectors import Convolutions, Recurrent, WordVectors, WordWeights
from pyapp.nn import Module
from pyapp.nn.encoders.encoders import Encoder
from pyapp.nn.parameter import skip_initialization
from pyapp.text.tokenization.whitespace_tokenizer import FILE as WORD_LIST
from pyapp.text.tokenization.whitespace_tokenizer import WhitespaceTokenizer

from .stored import Stored
from .weights import load_weights

SETTINGS = "config_sentence_transformers.json"
LIMITS = re.compile(r"sentence_[\w-]+_config\.json")  # of the encoder, by its architecture's name
OF_WORDS = "wordembedding_config.json"
# Files beside the weights, and of parts in folders of their own, besides those of tokenizers.
FILES = (
    rf"modules\.json|config_sentence_transformers\.json|{LIMITS.pattern}|artifact\.metadata"
    r"|(\d+_\w+/)?(wordembedding_config|whitespacetokenizer_config)\.json"
    r"|\d+_\w+/(config\.json|(cnn|lstm)_config\.json|model\.safetensors|pytorch_model\.bin)"
)
STANFORD = "HF_ColBERT"  # a class of config.json
MODEL2VEC = "model2vec"  # a model_type
PROJECTION = "linear.weight"  # of Stanford's files

# The parts that have weights, by the last part of their class' name: how they are made, and the file of their settings.
WEIGHTED: Mapping[str, tuple[Callable[[Mapping[str, Any], str], Module], str]] = {
    "Dense": (Dense, "config.json"),
    "LayerNorm": (Norm, "config.json"),
    "WordWeights": (WordWeights, "config.json"),
    "CNN": (Convolutions, "cnn_config.json"),
    "LSTM": (Recurrent, "lstm_config.json"),
}
ENCODERS = ("Transformer", "StaticEmbedding", "WordEmbeddings")
WITHOUT_EFFECT = ("Dropout",)
OTHERS = ("Pooling", "Normalize", "MultiVectorMask", "LogitScore")


@dataclass(frozen=True)
class Part:
    """An entry of modules.json: the last part of its class' name, and its folder."""

    kind: str
    folder: str

    def file(self, name: str) -> str:
        """The path of a file of the part."""
        return str(PurePosixPath(self.folder, name))


def parts_in(files: Mapping[str, Any]) -> list[Part]:
    """What modules.json lists; nothing without that file. `files` are those of the folder, by path. ModelError for a
    part that is not known.
    """
    found: list[Part] = []
    for entry in read_json(files[MODULES], list) if MODULES in files else []:
        path, folder = (str(entry.get(key, "")) if isinstance(entry, dict) else "" for key in ("type", "path"))
        kind = path.rpartition(".")[2]
        known = (*ENCODERS, *OTHERS, *WEIGHTED, *WITHOUT_EFFECT)
        if kind not in known:
            raise ModelError(f"the part {path!r:.80} is not known", where=MODULES, hint=f"Known: {', '.join(known)}")
        if kind in ENCODERS and (found or PurePosixPath(folder).parts[1:]):
            raise ModelError(f"the encoder is part {len(found)} in {folder!r:.60}, expected part 0", where=MODULES)
        found.append(Part(kind, folder))
    return found


def sentence_settings(files: Mapping[str, Any]) -> SentenceSettings:
    """The settings beside the weights."""
    return SentenceSettings.from_files(_settings(files), _limits(files))


def _settings(files: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = read_json(files[SETTINGS], dict) if SETTINGS in files else {}
    return found


def _limits(files: Mapping[str, Any]) -> dict[str, Any]:
    """The object of sentence_bert_config.json, or of another architecture's file of that kind."""
    names = sorted(filter(LIMITS.fullmatch, files), key=lambda name: name != "sentence_bert_config.json")
    found: dict[str, Any] = read_json(files[names[0]], dict) if names else {}
    return found


def sentence_parts(
    files: Mapping[str, Any], dtype: str | None, device: Device | str | None
) -> tuple[list[Module], SentenceSettings]:
    """What modules.json puts after the encoder, and the settings beside it. `files` are those of the folder, by
    path.
    """
    parts: list[Module] = []
    for part in parts_in(files):
        if part.kind in WEIGHTED:
            parts.append(_weighted(files, part, dtype, device))
        elif part.kind == "Pooling":
            config = _part_config(files, part.file("config.json"))
            parts.append(Pooling(pooling_modes(config), config.get("include_prompt") is not False))
        elif part.kind == "Normalize":
            parts.append(Normalize())
    return parts, sentence_settings(files)


def embedder(
    encoder: Encoder, files: Mapping[str, Any], config: Mapping[str, Any], dtype: str | None = None,
    device: Device | str | None = None,
) -> TextEmbedder:  # fmt: skip
    """The encoder with the parts of its folder: one vector for each text, or for each of its tokens. `config` is the
    object of config.json.
    """
    form = late_interaction_of(files, config)
    parts, settings = sentence_parts(files, dtype, device)
    check_widths(encoder, parts)
    if form is None:
        return SentenceEmbedder(encoder, parts, settings)
    if STANFORD in _classes(config) and not parts:
        parts = [_projection(files["model"], dtype, device)]
    if form.prefixes:
        parts = late_interaction.with_normalizing(parts)
    poolings = [type(part).__name__ for part in parts if isinstance(part, Pooling)]
    if poolings:
        raise ModelError("a model of late interaction has no pooling", where=MODULES)
    return MultiVectorEmbedder(encoder, parts, settings, form)


def check_widths(encoder: Encoder, parts: Sequence[Module]) -> None:
    """ModelError for a linear layer that does not take the vectors of the parts before it, as far as their width is
    known.
    """
    width = getattr(encoder, "output_size", getattr(encoder.config, "hidden_size", None))
    for part in parts:
        if width is None or not isinstance(part, Pooling | Dense | Norm | Normalize):
            return
        if isinstance(part, Pooling):
            width *= len(part.modes)
        elif isinstance(part, Dense):
            if part.linear.in_features != width:
                what = f"Dense has in_features {part.linear.in_features}, the vectors have {width} columns"
                raise ModelError(what, where=MODULES)
            width = part.linear.out_features


def late_interaction_of(files: Mapping[str, Any], config: Mapping[str, Any]) -> LateInteraction | None:
    """How a model of late interaction reads texts; None for models of another kind."""
    settings, parts = _settings(files), parts_in(files)
    mask = next((part for part in parts if part.kind == "MultiVectorMask"), None)
    if mask is not None:
        return late_interaction.from_encoder(_limits(files), _part_config(files, mask.file("config.json")))
    if settings.get("model_type") == "MultiVectorEncoder":
        return late_interaction.from_encoder(_limits(files), None)
    if settings.get("model_type") == "ColBERT" or any(settings.get(name) is not None for name in PYLATE):
        return late_interaction.from_pylate(settings)
    if STANFORD in _classes(config) and not parts:
        return late_interaction.from_stanford(read_json(files[METADATA], dict) if METADATA in files else {})
    return None


def _classes(config: Mapping[str, Any]) -> list[Any]:
    found = config.get("architectures")
    return found if isinstance(found, list) else []


def _projection(file: Any, dtype: str | None, device: Device | str | None) -> Dense:
    """The projection of Stanford's ColBERT, which the encoder's file has."""
    with open_checkpoint(file) as checkpoint:
        info = checkpoint.tensors.get(PROJECTION)
        if info is None or len(info.shape) != 2:
            raise ModelError(f"{PROJECTION} is missing", where=checkpoint.source.name)
        sizes = {"in_features": info.shape[1], "out_features": info.shape[0], "bias": False}
        with skip_initialization():
            part = Dense(sizes | {"activation_function": "Identity"}, checkpoint.source.name)
        load_weights(part, checkpoint, dtype=dtype, device=device, strict=False)
    return part


def _weighted(files: Mapping[str, Any], part: Part, dtype: str | None, device: Device | str | None) -> Module:
    make, name = WEIGHTED[part.kind]
    with skip_initialization():
        made = make(_part_config(files, part.file(name)), part.file(name))
    with open_checkpoint(_weights_of(files, part)) as checkpoint:
        load_weights(made, checkpoint, dtype=dtype, device=device)
    return made


def _weights_of(files: Mapping[str, Any], part: Part) -> Any:
    names = [part.file(name) for name in ("model.safetensors", "pytorch_model.bin")]
    found = next((files[name] for name in names if name in files), None)
    if found is None:
        raise ModelError(f"{names[0]:.200} is missing", where=MODULES, hint="Give all files of the model")
    return found


def _part_config(files: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name not in files:
        raise ModelError(f"{name:.200} is missing", where=MODULES, hint="Give all files of the model")
    found: dict[str, Any] = read_json(files[name], dict)
    return found


# -- tables of vectors in place of an encoder


def has_word_vectors(files: Mapping[str, Any]) -> bool:
    """Whether a folder has a table of vectors in place of an encoder."""
    if MODULES in files:
        return any(part.kind in ("StaticEmbedding", "WordEmbeddings") for part in parts_in(files))
    return "config" in files and read_json(files["config"], dict).get("model_type") == MODEL2VEC


def word_vectors(
    files: Mapping[str, Any], tokenizer: Callable[[], Any], dtype: str | None, device: Device | str | None
) -> tuple[SentenceEmbedder, Any]:
    """The model of such a folder, and its tokenizer: a list of words, or what `tokenizer` gives."""
    listed = parts_in(files)
    parts, settings = sentence_parts(files, dtype, device)
    if not listed and read_json(files["config"], dict).get("normalize") is True:
        parts = [Normalize()]
    first = listed[0] if listed else Part("StaticEmbedding", "")
    with open_checkpoint(files["model"]) as checkpoint:
        if first.kind == "StaticEmbedding":
            return SentenceEmbedder(_static(checkpoint, dtype, device), parts, settings), tokenizer()
        if first.file(WORD_LIST) not in files:
            raise ModelError(
                "its words are missing", where=first.file(WORD_LIST),
                hint="Word vectors are read with a WhitespaceTokenizer of sentence-transformers",
            )  # fmt: skip
        where = first.file(OF_WORDS)
        longest = _part_config(files, where).get("max_seq_length", 1_000_000)
        if type(longest) is not int or longest < 1:
            raise ModelError(f"max_seq_length is {longest!r:.40}", where=where)
        words = WhitespaceTokenizer(read_json(files[first.file(WORD_LIST)], dict), first.file(WORD_LIST))
        encoder = _table(checkpoint, "emb_layer.weight", "emb_layer", longest)
        load_weights(encoder, checkpoint, dtype=dtype, device=device)
    return SentenceEmbedder(encoder, parts, settings), words


def _table(checkpoint: Checkpoint, name: str, table: str, most: int, rows: str | None = None) -> WordVectors:
    """An empty table with the shape of the tensor `name`, with as many rows as the tensor `rows` if it is given."""
    info = checkpoint.tensors.get(name)
    if info is None or len(info.shape) != 2:
        raise ModelError(f"{name!r} is missing, or is not a table", where=checkpoint.source.name)
    count = info.shape[0] if rows is None else checkpoint.tensors[rows].shape[0]
    with skip_initialization():
        return WordVectors(table, count, info.shape[1], min(most, 1 << 20))


def _static(checkpoint: Checkpoint, dtype: str | None, device: Device | str | None) -> WordVectors:
    """The table of sentence-transformers, or model2vec's: rows by token (`mapping`), and weights of tokens."""
    if "embeddings" not in checkpoint.tensors:
        encoder = _table(checkpoint, "embedding.weight", "embedding", 1 << 20)
        load_weights(encoder, checkpoint, dtype=dtype, device=device)
        return encoder
    more = [name for name in ("mapping", "weights") if name in checkpoint.tensors]
    if any(len(checkpoint.tensors[name].shape) != 1 for name in more):
        raise ModelError("mapping and weights have one number for each token", where=checkpoint.source.name)
    encoder = _table(checkpoint, "embeddings", "embedding", 1 << 20, more[0] if more else None)

    def rows(table: Tensor) -> Tensor:
        table = table.to("float32")
        if "mapping" in more:
            places = checkpoint.read("mapping").to("int64")
            if places.numel() and not 0 <= places.amin().item() <= places.amax().item() < table.shape[0]:
                raise ModelError("mapping names rows that are not there", where=checkpoint.source.name)
            table = table[places]
        return table * checkpoint.read("weights").to("float32").unsqueeze(-1) if "weights" in more else table

    stored = {"embedding.weight": Stored(("embeddings",), values=rows)}
    load_weights(encoder, checkpoint, stored=stored, dtype=dtype, device=device, strict=False)
    return encoder


def read_json(file: Any, kind: type) -> Any:
    """The list or object of a JSON file. FileFormatError for anything else."""
    source = open_source(file)
    try:
        found = parse_json(read_whole(source).decode("utf-8", "replace"))
    except ValueError as error:
        raise FileFormatError(f"not valid JSON: {error}", where=name_of(file)) from None
    finally:
        if source is not file:
            close_source(source)
    if not isinstance(found, kind):
        raise FileFormatError(f"a JSON {'list' if kind is list else 'object'} is expected", where=name_of(file))
    return found
