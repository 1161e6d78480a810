"""Load a model for a task other than writing text: "features" (embeddings), "masked-lm", "sequence-classification",
"token-classification", "question-answering", "multiple-choice", "seq2seq-lm", "ranking" (whichever of them a model
ranks texts by).
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pyapp import hub
from pyapp.dataclass import dataclass
from pyapp.engine import Device, ops, quant
from pyapp.engine.storage import release_memory
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Notice, reading_of
from pyapp.formats import ByteSource, Checkpoint, open_checkpoint
from pyapp.formats.first_among_files import FirstAmongFiles
from pyapp.formats.part_names import INDICES, part_names
from pyapp.formats.sentencepiece_model import read_sentencepiece_model
from pyapp.formats.source import name_of, opened_source
from pyapp.hub.resolver import choose_files, choose_model
from pyapp.models.load import (
    SEES,
    answers_once,
    is_llama_cpps,
    module_of,
    read_settings,
    settings_beside,
    settings_name,
    settings_of,
    stored_parameters,
)
from pyapp.models.sentences.embedding import DENSE, SentenceEmbedder, SentenceSettings, from_gguf_keys
from pyapp.models.sentences.logit_ranking import answer_ids
from pyapp.nn import Module
from pyapp.nn.decoders.decoder import CausalLanguageModel, SelfAttention
from pyapp.nn.encoders.decoder_encoders import DecoderClassifier, DecoderEncoder, LogitRanker
from pyapp.nn.parameter import Parameter, skip_initialization
from pyapp.text.tokenization.marian_vocabulary import marian_document
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import (
    MERGES,
    SETTINGS,
    TARGET,
    VOCABULARIES,
    gguf_tokenizer,
    load_tokenizer,
    needs_no_vocabulary,
)
from pyapp.text.tokenization.vocabulary_files import checked_vocabulary
from pyapp.vision.processors import ImageProcessor

from .._index import MODEL_TYPES, TASKS
from . import timm
from .image_processors import check_fit, usual_processor
from .labels import labels_of
from .quantised.methods import as_floats
from .sentence_folders import (
    FILES,
    MODEL2VEC,
    PROJECTION,
    embedder,
    has_word_vectors,
    parts_in,
    read_json,
    sentence_settings,
    word_vectors,
)
from .weights import IGNORED, base_of, ignored_by, load_buffers, load_weights

SOURCE_PIECES = "source.spm"  # of OPUS-MT, beside vocab.json
TOKENIZER_FILES = (*VOCABULARIES, *SETTINGS, MERGES, TARGET)
# The files of the tokenizer, which may lie in the folder of part 0, and of sentence-transformers.
MORE_FILES = re.compile(
    FILES + r"|(0_\w+/)?(" + "|".join(map(re.escape, (*TOKENIZER_FILES, SOURCE_PIECES))) + ")"
)  # fmt: skip
# The ends of the classes that config.json names in `architectures`, and what they can mean, by architecture.
HEADS = {
    "ForMaskedLM": ("masked-lm",),
    "ForSequenceClassification": ("sequence-classification", "audio-classification"),
    "ForTokenClassification": ("token-classification",),
    "ForMultipleChoice": ("multiple-choice",),
    "ForQuestionAnswering": ("question-answering", "visual-question-answering", "table-question-answering"),
    "ForConditionalGeneration": (
        "seq2seq-lm", "image-to-text", "speech-recognition", "text-to-speech", "text-to-audio", "image-text-to-text",
        "audio-text-to-text", "time-series-forecasting",
    ),
    "ForVideoClassification": ("video-classification",),
    "ForPrediction": ("time-series-forecasting",),
    "ForForecasting": ("time-series-forecasting",),
    "ForImageClassification": ("image-classification",),
    "ForImageClassificationWithTeacher": ("image-classification",),
    "ForImageClassificationLearned": ("image-classification",),
    "ForImageClassificationFourier": ("image-classification",),
    "ForImageClassificationConvProcessing": ("image-classification",),
    "ForObjectDetection": ("object-detection", "zero-shot-object-detection"),
    "ForImageSegmentation": ("semantic-segmentation", "zero-shot-semantic-segmentation"),
    "ForSemanticSegmentation": ("semantic-segmentation",),
    "ForUniversalSegmentation": ("semantic-segmentation",),
    "ForDepthEstimation": ("depth-estimation",),
    "ForKeypointDetection": ("keypoint-detection",),
    "ForKeypointMatching": ("keypoint-matching",),
    "ForImageSuperResolution": ("image-to-image",),
    "ForRetrieval": ("visual-document-retrieval",),
    "ForXVector": ("audio-xvector",),
    "ForAudioFrameClassification": ("audio-frame-classification",),
    "ForCTC": ("speech-recognition",),
    "ForRNNT": ("speech-recognition",),
    "ForTDT": ("speech-recognition",),
    "ForSpeechToText": ("speech-recognition",),
    "ForTextToSpeech": ("text-to-speech",),
    "ForAudioClassification": ("audio-classification",),
}  # fmt: skip
DEVIATION = 0.02  # of new layers' matrices, where config.json says no initializer_range
FEATURES = ("features", "image-features")  # what encoders of any head give
# Fields by which configurations that do not say their model_type are known: no others have them.
# The class of Jina's rerankers and Jina ColBERT, whose files do not say it either, or say another one.
FLASH = ".XLMRobertaFlashConfig"
UNNAMED = {"snac": ("vq_strides", "encoder_rates"), "kokoro": ("plbert", "istftnet")}
GGUF_TASKS = ("features", "seq2seq-lm")  # of GGUF files that are loaded here
RANKING = "ranking"
ANSWERS = "image-to-text"
# Classes in `auto_map` of language models that see the whole text: that of GTE-Qwen2 and Stella.
SEE_BOTH_WAYS = ("modeling_qwen.Qwen2Model",)
# Buffers of older files and heads that no task here reads.
LEFT_OUT = re.compile(IGNORED.pattern + rf"|.*token_type_ids|cls\.seq_relationship\..*|{re.escape(PROJECTION)}")


@dataclass(frozen=True)
class Loaded:
    """A model under its name."""

    name: str
    model: Any

    @property
    def config(self) -> dict[str, Any]:
        """The hyper-parameters as JSON values."""
        found: dict[str, Any] = self.model.config.to_dict()
        return found


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


def files_of(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    check: Callable[[Mapping[str, Path]], None],
    report: Callable[[Event], None],
    cancel: Cancel,
    also: re.Pattern[str] | None = None,
) -> tuple[str, Mapping[str, Any]]:
    """The name of a model, and its files by role: those that are given, or those of a folder or of the hub, which
    `check` sees before the weights are downloaded (pyapp.hub.resolve).
    """
    if isinstance(source, Mapping):
        given = given_files(source, also)
        return given["model"].name, given
    return os.fspath(source), hub.resolve(source, report=report, cancel=cancel, check=check, also=also).files


def task_files(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    task: str | Callable[[Mapping[str, Any]], str],
    report: Callable[[Event], None],
    cancel: Cancel,
    also: re.Pattern[str] | None = None,
    new_head: bool = False,
) -> tuple[str, Mapping[str, Any], dict[str, Any]]:
    """As `files_of`, for a task, and the object of config.json; a model of another task is refused before its weights
    are downloaded, unless it gets a new head. task: or what names the task of such an object.
    """

    def suits(settings: Mapping[str, Any], where: str) -> None:
        wanted = task if isinstance(task, str) else task(settings)
        (check_new_head if new_head else check_task)(settings, where, wanted)

    def check(files: Mapping[str, Path]) -> None:
        if "config" in files:
            suits(completed(read_settings(files["config"])), str(files["config"]))

    name, files = files_of(source, check, report, cancel, also)
    settings = completed(settings_in(files, name))
    suits(settings, name)
    return name, files, settings


def completed(settings: dict[str, Any]) -> dict[str, Any]:
    """The object of a config.json, with the model_type that the files of SNAC, Kokoro and Jina's rerankers do not say,
    and that of the files of Chronos and Jina ColBERT, which say T5's and XLM-RoBERTa's.
    """
    if isinstance(own := settings.get("chronos_config"), dict) and settings.get("model_type") == "t5":
        older = "chronos_bolt" if "input_patch_size" in own else "chronos"
        return {**settings, "model_type": "chronos2" if "output_patch_size" in own else older}
    code = settings.get("auto_map")
    if isinstance(code, dict) and str(code.get("AutoConfig", "")).endswith(FLASH):
        if settings.get("position_embedding_type") == "rotary":
            return {**settings, "model_type": "jina_embeddings_v3"}
        return {"model_type": "xlm-roberta", **settings}
    known = (kind for kind, own in UNNAMED.items() if {*own} <= {*settings})
    kind = None if "model_type" in settings else next(known, None)
    return settings if kind is None else {"model_type": kind, **settings}


def settings_in(files: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object of config.json. ModelError where there is none."""
    if "config" not in files:
        raise ModelError(
            "its config.json is missing", where=name, hint="Give the folder that has it, or the hub's name"
        )
    return read_settings(files["config"])


def given_files(files: Mapping[str, ByteSource], also: re.Pattern[str] | None = None) -> dict[str, ByteSource]:
    """The files of a model by role, as pyapp.hub.resolve gives them, of its files by their paths in its folder."""
    weights = choose_model(files, "files")
    chosen = choose_files(files, weights)
    wanted = [MORE_FILES] if also is None else [MORE_FILES, also]
    chosen |= {path: path for path in files if any(pattern.fullmatch(path) for pattern in wanted)}
    found = {role: files[path] for role, path in chosen.items()}
    in_parts = weights in INDICES or part_names(weights)
    return found | {"model": FirstAmongFiles(weights, files)} if in_parts else found


def _marian(pieces: Any, vocabulary: Any, words: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of OPUS-MT's folders."""
    with opened_source(pieces) as source:
        model = read_sentencepiece_model(source)
    numbers = checked_vocabulary(read_json(vocabulary, dict), name_of(vocabulary))
    settings = read_json(words["tokenizer_config.json"], dict) if "tokenizer_config.json" in words else {}
    return Tokenizer(marian_document(model, numbers, name_of(pieces)), settings, where=name_of(pieces))


def check_task(settings: Mapping[str, Any], where: str, task: str) -> None:
    """ModelError for an unknown architecture, and for a checkpoint that was made for another task."""
    if module_of(settings, where, task) is None:
        raise ModelError(f"this configuration names no architecture for {task}", where=where)
    classes = settings.get("architectures")
    made_for = own_task(settings)
    if classes and task not in FEATURES and made_for is not None and made_for != task:
        raise ModelError(
            f"this model ({classes[0]!s:.60}) is made for {made_for}, not for {task}", where=where,
            hint="Choose a model whose config.json names a class for this task",
        )  # fmt: skip


def check_new_head(settings: Mapping[str, Any], where: str, task: str) -> None:
    """ModelError for an architecture that gets no new head for a task."""
    kind = settings.get("model_type")
    module = MODEL_TYPES.get(kind) if isinstance(kind, str) else None
    if module is None or task not in TASKS[module]:
        raise ModelError(f"models of the architecture {kind!r:.40} are not for {task}", where=where)
    if not importlib.import_module(f"pyapp.models.{module}").BASE:
        raise ModelError(f"models of the architecture {kind!r:.40} get no new head: train another one", where=where)


def with_labels(labels: Sequence[str]) -> dict[str, Any]:
    """What config.json says of the labels of a classifier."""
    return {"id2label": {str(number): label for number, label in enumerate(labels)}, "num_labels": None}


def known_tasks(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What the architecture of a configuration is for here; empty for an unknown one."""
    kind = settings.get("model_type")
    return TASKS.get(MODEL_TYPES.get(kind, ""), ()) if isinstance(kind, str) else ()


def own_task(settings: Mapping[str, Any]) -> str | None:
    """The task that a checkpoint was made for, by its architecture and the first class that config.json names, if it
    names one; None if they do not tell, as with the base of several heads.
    """
    classes, known = settings.get("architectures"), known_tasks(settings)
    if {SEES, ANSWERS} <= {*known}:  # of a class for both
        return ANSWERS if answers_once(settings) else SEES
    name = str(classes[0]) if isinstance(classes, list) and classes else ""
    for end, tasks in HEADS.items():
        if name.endswith(end):
            return next((task for task in known if task in tasks), tasks[0])
    return known[0] if len(known) == 1 and known != ("causal-lm",) else None


def build(
    checkpoint: Checkpoint,
    settings: Mapping[str, Any],
    task: str,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] = lambda event: None,
    cancel: Cancel | None = None,
    new_head: bool = False,
) -> Module:
    """The model of a configuration for a task, with the weights of a checkpoint. new_head: layers of the head that do
    not fit the checkpoint, or are not there, are new.
    """
    where, checkpoint = checkpoint.source.name, as_floats(checkpoint, settings)
    module = importlib.import_module(f"pyapp.models.{module_of(settings, where, task)}")
    own_names = not is_llama_cpps(checkpoint)
    try:
        adapts = own_names and hasattr(module, "adapted")
        adapted = module.adapted(settings, checkpoint.tensors) if adapts else settings
        config = module.Config.from_dict(adapted)
        with skip_initialization():
            model: Any = (
                module.TASKS[task](config) if task in module.TASKS else _of_decoder(module, config, settings, task)
            )
    except ModelError as error:
        raise ModelError(error.what, where=error.where or settings_name(checkpoint), hint=error.hint) from error
    if task in FEATURES:
        _drop_pooler(model, checkpoint)

    older = getattr(module, "renamed", None)
    renames = renamed if older is None else lambda name: older(renamed(name))
    stored: Mapping[str, Any]
    if timm.PREPARATION in settings:
        renames = timm.renamed(settings["architecture"])
        stored = timm.stored(model, checkpoint.tensors, renames)
    else:
        stored = stored_parameters(module, config, model, checkpoint)
    base = base_of(module, settings) if hasattr(module, "BASE") else model.base_model_prefix
    deviation = getattr(config, "initializer_range", DEVIATION)
    optional = _initialised_head(model, base, deviation, device) if new_head else ()
    left = load_weights(
        model, checkpoint, stored=stored, base=base, ignored=ignored_by(module, LEFT_OUT), dtype=dtype,
        device=device, renames=renames, progress=reading_of(report, cancel), config=config.to_dict(), strict=False,
        optional=optional,
    )  # fmt: skip
    left = load_buffers(model, checkpoint, left, base, renames, device)
    unread = re.compile(getattr(model, "unread", "$"))
    left = [name for name in left if not unread.fullmatch(name)]
    if left and task not in FEATURES:
        more = f" and {len(left) - 4} more" if len(left) > 4 else ""
        report(Notice(f"tensors of the file that are not used: {', '.join(left[:4])}{more}", where=where))
    return model


def ready_model(
    files: Mapping[str, Any], settings: Mapping[str, Any], task: str, dtype: str | None, device: Device | str | None,
    report: Callable[[Event], None], cancel: Cancel, new_head: bool = False,
) -> Any:  # fmt: skip
    """As `build`, of the file of weights: a model that is ready to be used."""
    with open_checkpoint(files["model"]) as checkpoint:
        return build(checkpoint, settings, task, dtype, device, report, cancel, new_head).eval()


def _initialised_head(model: Module, base: str, deviation: float, device: Device | str | None) -> set[str]:
    """Initialises what is not the encoder `base`, and its pooler, as transformers does: matrices from a normal
    distribution, biases 0, scales of norms 1. Returns the names of these parameters, which are on the device.
    """
    found = set()
    for path, module in model._paths():
        if (path == base or path.startswith(f"{base}.")) and "pooler" not in path:
            continue
        for attribute, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            shape = tuple(parameter.shape)
            if len(shape) > 1:
                value = ops.randn(shape) * deviation
            else:
                value = ops.zeros(shape) if attribute == "bias" else ops.ones(shape)
            value = value if device is None else value.to(device)
            setattr(module, attribute, Parameter(value, requires_grad=False))
            found.add(f"{path}.{attribute}" if path else attribute)
    return found


def _of_decoder(module: Any, config: Any, settings: Mapping[str, Any], task: str) -> Module:
    """A language model for a task of encoders. ModelError for one of another form."""
    model = module.TASKS["causal-lm"](config)
    both_ways = getattr(config, "use_bidirectional_attention", False)
    if reads_both_ways(settings) and not both_ways:
        both_ways = True
        if any(part.heads.window is not None for part in model.modules() if isinstance(part, SelfAttention)):
            raise ModelError("is_causal is false in a model with windows, which is not known")
    if not isinstance(model, CausalLanguageModel):
        raise ModelError(f"models of the architecture {settings.get('model_type')!r:.40} are not for {task}")
    if task == "features":
        return DecoderEncoder(model, both_ways)
    return DecoderClassifier(model, labels_of(settings), both_ways)


def reads_both_ways(settings: Mapping[str, Any]) -> bool:
    """Whether the tokens of a language model that embeds see those after them: `is_causal` is false, or, in files that
    do not say it, the class is one whose code has that as its default.
    """
    said, classes = settings.get("is_causal"), settings.get("auto_map")
    if said is not None:
        return said is False
    return isinstance(classes, dict) and classes.get("AutoModel") in SEE_BOTH_WAYS


def renamed(name: str) -> str:
    """Today's name of a tensor: norms of old files have a gamma and a beta."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def _drop_pooler(model: Any, checkpoint: Checkpoint) -> None:
    """An encoder whose file has no pooler has none either: embeddings do not read it."""
    if getattr(model, "pooler", None) is not None and not any("pooler." in name for name in checkpoint.tensors):
        model.pooler = None
