"""Load a model for a task other than writing text: "features" (embeddings), "masked-lm", "sequence-classification",
"token-classification", "question-answering", "multiple-choice", "seq2seq-lm", "ranking" (whichever of them a model
ranks texts by).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, quant
from pyapp.engine.storage import release_memory
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource, open_checkpoint
from pyapp.formats.sentencepiece_model import read_sentencepiece_model
from pyapp.formats.source import name_of, opened_source
from pyapp.models.load import is_llama_cpps, read_settings, settings_beside, settings_of
from pyapp.models.sentences.embedding import DENSE, SentenceEmbedder, SentenceSettings, from_gguf_keys
from pyapp.models.sentences.logit_ranking import answer_ids
from pyapp.nn.encoders.decoder_encoders import LogitRanker
from pyapp.text.tokenization.marian_vocabulary import marian_document
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import VOCABULARIES, gguf_tokenizer, load_tokenizer, needs_no_vocabulary
from pyapp.text.tokenization.vocabulary_files import checked_vocabulary
from pyapp.vision.processors import ImageProcessor

from .building import build, ready_model
from .heads import check_new_head, check_task, completed, own_task, with_labels
from .image_processors import check_fit, usual_processor
from .loaded import Loaded
from .sentence_folders import (
    MODEL2VEC,
    embedder,
    has_word_vectors,
    parts_in,
    read_json,
    sentence_settings,
    word_vectors,
)
from .task_files import MORE_FILES, SOURCE_PIECES, TOKENIZER_FILES, files_of, settings_in

GGUF_TASKS = ("features", "seq2seq-lm")  # of GGUF files that are loaded here
RANKING = "ranking"


@dataclass(frozen=True)
class LoadedTaskModel(Loaded):
    """A model, its tokenizer, and the objects of its config.json and generation_config.json. `sentence`: the settings
    that sentence-transformers keeps beside them. `processor`: prepares pictures of pages for a model that reads them.
    """

    tokenizer: Tokenizer
    settings: dict[str, Any]
    generation: dict[str, Any]
    sentence: SentenceSettings = SentenceSettings()
    processor: ImageProcessor | None = None


def load_task_model(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    task: str,
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    labels: Sequence[str] | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedTaskModel:
    """Loads a folder of Hugging Face's or sentence-transformers', its files by their paths in it, or a name on the hub,
    for a task.

    dtype ("q8_0", "q4_0", "float16" …): the type to convert the matrices to while they are read. labels: those of a
    classifier that is to be trained, in place of the file's; layers of its head that the file lacks, or has for other
    labels, are new. The parameters need no gradients: call `model.requires_grad_()` to train. A file without the layers
    of the task's head is refused by name; layers of other heads are left out, which a Notice reports. Raises
    ModelNotFoundError, DownloadError, FileFormatError, ModelError, OptionError, and Cancelled once `cancel` is set.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()

    def check(files: Mapping[str, Path]) -> None:
        if "config" in files and not has_word_vectors(files):
            found = completed(read_settings(files["config"]))
            if labels is None:
                check_task(found, str(files["config"]), ranking_task(found, files) if task == RANKING else task)
            else:
                check_new_head(found, str(files["config"]), task)

    name, files = files_of(source, check, report, cancel, MORE_FILES)
    if labels is not None and "config" not in files:
        raise ModelError(f"a new head for {task} needs a folder with config.json", where=name)
    if name.lower().endswith(".gguf") or str(files["model"]).lower().endswith(".gguf"):
        chosen = "features" if task == RANKING else task
        return _load_gguf(name, files["model"], chosen, dtype, device, report, cancel)
    if task in ("features", RANKING) and has_word_vectors(files):
        return _load_word_vectors(name, source, files, dtype, device)
    settings = completed(settings_in(files, name))
    task = ranking_task(settings, files) if task == RANKING else task
    if labels is None:
        check_task(settings, name_of(files["config"]), task)
    else:
        check_new_head(settings, name_of(files["config"]), task)
        settings |= with_labels(labels)
    tokenizer, answers = _tokenizer(name, source, files), None
    if task == "causal-lm":  # a ranking's: one that ranks nothing is refused before its weights are read
        scores = [read_json(files[part.file("config.json")], dict) for part in parts_in(files)
                  if part.kind == "LogitScore" and part.file("config.json") in files]  # fmt: skip
        answers = answer_ids(tokenizer, settings, scores[0] if scores else None, name)
    release_memory()
    model = ready_model(files, settings, task, dtype, device, report, cancel, labels is not None)
    check_tokenizer(tokenizer, model, name)
    if task == "features":
        model = embedder(model, files, settings, dtype, device)
    elif answers is not None:
        model = LogitRanker(model, *answers)
    model.eval()
    generation = settings_beside(files, "generation_config")
    processor = _processor(getattr(model, "encoder", None), files, settings, name)
    return LoadedTaskModel(name, model, tokenizer, settings, generation, sentence_settings(files), processor)


def _processor(
    encoder: Any, files: Mapping[str, Any], settings: Mapping[str, Any], name: str
) -> ImageProcessor | None:  # fmt: skip
    """The image processor of an encoder that reads the pictures of pages. ModelError for one of other pictures."""
    wanted = getattr(encoder, "pixels", None)
    if wanted is None:
        return None
    found = settings_beside(files, "preprocessor_config")
    processor = ImageProcessor.from_settings(found, usual_processor(str(settings.get("model_type"))))
    check_fit(processor, wanted, name)
    return processor


def ranking_task(settings: Mapping[str, Any], files: Mapping[str, Any]) -> str:
    """The task by which a model ranks texts: scores of pairs, logits of a language model, or vectors."""
    classes = settings.get("architectures")
    first = str(classes[0]) if isinstance(classes, list) and classes else ""
    kinds = {part.kind for part in parts_in(files)}
    if "LogitScore" in kinds or (first.endswith("ForCausalLM") and not kinds - {"Transformer"}):
        return "causal-lm"
    return "sequence-classification" if own_task(settings) == "sequence-classification" else "features"


def _tokenizer(name: str, source: Any, files: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer beside the weights."""
    if isinstance(source, Mapping):
        weights = getattr(files["model"], "file", files["model"])
        folder = next(PurePosixPath(path).parent for path, file in source.items() if file is weights)
        words = {path.name: source[str(path)] for path in map(PurePosixPath, source)
                 if path.name in TOKENIZER_FILES and path.parent == folder}  # fmt: skip
    else:
        folder = files["model"].parent  # folders of modules have a config.json of their own
        words = {
            path.name: path for role, path in files.items()
            if role == "tokenizer" or (path.name in TOKENIZER_FILES and path.parent == folder)
        }  # fmt: skip
    if not any(file in words for file in VOCABULARIES) and not needs_no_vocabulary(words):
        raise ModelError("its tokenizer is missing", where=name, hint="Put the model's tokenizer.json beside it")
    pair = (files.get(SOURCE_PIECES), files.get("vocab.json"))
    return load_tokenizer(words, name) if None in pair or "tokenizer.json" in words else _marian(*pair, words)


def _load_word_vectors(
    name: str, source: Any, files: Mapping[str, Any], dtype: str | None, device: Device | str | None
) -> LoadedTaskModel:
    """A folder with a table of vectors in place of an encoder."""
    model, tokenizer = word_vectors(files, lambda: _tokenizer(name, source, files), dtype, device)
    check_tokenizer(tokenizer, model, name)
    model.eval()
    return LoadedTaskModel(name, model, tokenizer, {"model_type": MODEL2VEC}, {}, model.settings)


def _load_gguf(
    name: str, path: Any, task: str, dtype: str | None, device: Device | str | None,
    report: Callable[[Event], None], cancel: Cancel,
) -> LoadedTaskModel:  # fmt: skip
    """The model of a GGUF file, which has its configuration and its tokenizer."""
    with open_checkpoint(path) as checkpoint:
        if not is_llama_cpps(checkpoint):
            raise ModelError(
                "this GGUF file has no names of llama.cpp's", where=name, hint="Load the folder that it was made of"
            )
        if task not in GGUF_TASKS:
            raise ModelError(
                f"a GGUF file has no head for {task}", where=name, hint="Load the model's folder or its name on the hub"
            )
        settings = dict(settings_of(checkpoint))
        check_task(settings, name_of(path), task)
        tokenizer = gguf_tokenizer(checkpoint.values, name_of(path))  # type: ignore[attr-defined]
        release_memory()
        model: Any = build(checkpoint, settings, task, dtype, device, report, cancel)
        check_tokenizer(tokenizer, model, name)
        if task == "features":
            values = checkpoint.values  # type: ignore[attr-defined]
            there = [f"{layer}.weight" for layer in DENSE if f"{layer}.weight" in checkpoint.tensors]
            dense = [quant.dequantize(checkpoint.read(layer, device=device)).to("float32") for layer in there]
            model = SentenceEmbedder(model, *from_gguf_keys(values, model.pooling, dense))
    model.eval()
    return LoadedTaskModel(name, model, tokenizer, settings, {})


def check_tokenizer(tokenizer: Tokenizer, model: Any, name: str) -> None:
    """ModelError for a tokenizer with more tokens than a model."""
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ModelError(
            f"the tokenizer has {tokenizer.vocab_size:,} tokens, the model {model.config.vocab_size:,}", where=name,
            hint="Give the tokenizer that belongs to the model",
        )  # fmt: skip


def _marian(pieces: Any, vocabulary: Any, words: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of OPUS-MT's folders."""
    with opened_source(pieces) as source:
        model = read_sentencepiece_model(source)
    numbers = checked_vocabulary(read_json(vocabulary, dict), name_of(vocabulary))
    settings = read_json(words["tokenizer_config.json"], dict) if "tokenizer_config.json" in words else {}
    return Tokenizer(marian_document(model, numbers, name_of(pieces)), settings, where=name_of(pieces))
