"""Which task a checkpoint was made for: what config.json says of its architecture and its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import ModelError
from pyapp.models.load import CHOOSES, SEES, answers_once, module_of

from .._index import MODEL_TYPES, TASKS
from .architectures import module_called

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
FEATURES = ("features", "image-features")  # what encoders of any head give
# The class of Jina's rerankers and Jina ColBERT, whose files do not say their model_type, or say another one.
FLASH = ".XLMRobertaFlashConfig"
# Fields by which other configurations that do not say it are known: no others have them.
UNNAMED = {"snac": ("vq_strides", "encoder_rates"), "kokoro": ("plbert", "istftnet")}
ANSWERS = "image-to-text"
MATCHES = "zero-shot-image-classification"


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


def check_task(settings: Mapping[str, Any], where: str, task: str) -> None:
    """ModelError for an unknown architecture, and for a checkpoint that was made for another task."""
    if module_of(settings, where, task) is None:
        raise ModelError(f"this configuration names no architecture for {task}", where=where)
    classes = settings.get("architectures")
    made_for = own_task(settings)
    if classes and task not in FEATURES and made_for is not None and made_for != task:
        hint = "Choose a model whose config.json names a class for this task"
        if (task, made_for) == ("image-classification", MATCHES):
            hint = CHOOSES
        raise ModelError(
            f"this model ({classes[0]!s:.60}) is made for {made_for}, not for {task}", where=where, hint=hint
        )


def check_new_head(settings: Mapping[str, Any], where: str, task: str) -> None:
    """ModelError for an architecture that gets no new head for a task."""
    kind = settings.get("model_type")
    module = MODEL_TYPES.get(kind) if isinstance(kind, str) else None
    if module is None or task not in TASKS[module]:
        raise ModelError(f"models of the architecture {kind!r:.40} are not for {task}", where=where)
    if not module_called(module).BASE:
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
    if known[:1] == (MATCHES,):  # of a model of pictures and texts without a head
        return MATCHES
    return known[0] if len(known) == 1 and known != ("causal-lm",) else None
