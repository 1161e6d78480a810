"""Writes models as folders with an ONNX file, as transformers' and sentence-transformers' ONNX backends, Optimum and
transformers.js read them: model.onnx, config.json, and the files of the tokenizer or the image processor.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Event, Progress
from pyapp.models.load import load_model, read_settings
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.heads import completed, known_tasks, own_task
from pyapp.models.loading.pictures import load_image_model
from pyapp.models.loading.task_files import MORE_FILES, files_of
from pyapp.models.sentences.embedding import SentenceEmbedder
from pyapp.onnx import export

WRITING = "causal-lm"
OF_TEXTS: Mapping[str, tuple[str, ...]] = {  # the outputs of the tasks
    "features": ("last_hidden_state",), "masked-lm": ("logits",), "sequence-classification": ("logits",),
    "token-classification": ("logits",), "question-answering": ("start_logits", "end_logits"), WRITING: ("logits",),
}  # fmt: skip
OF_PICTURES: Mapping[str, tuple[str, ...]] = {"image-classification": ("logits",), "image-features": ("image_embeds",)}
TASKS = (*OF_TEXTS, *OF_PICTURES)
TOKENS = {0: "batch_size", 1: "sequence_length"}
EXAMPLE = 6  # tokens


def onnx_task(settings: Mapping[str, Any], where: str) -> str:
    """The task that a checkpoint was made for. ModelError for one that is not written here."""
    known, classes = known_tasks(settings), settings.get("architectures")
    name = str(classes[0]) if isinstance(classes, list) and classes else ""
    found = WRITING if name.endswith(("ForCausalLM", "LMHeadModel")) and WRITING in known else own_task(settings)
    if found is None:
        found = next((task for task in ("features", "image-features") if task in known), None)
    if found not in TASKS:
        raise ModelError(
            f"this model is for {found or 'no task that is known'}; ONNX files are written for {', '.join(TASKS)}",
            where=where, hint="Choose one by the option task, or write a module of your own with pyapp.onnx.export",
        )  # fmt: skip
    return found


def write_onnx(
    source: str | os.PathLike[str], folder: str | os.PathLike[str], *, task: str | None = None,
    dtype: str = "float32", opset_version: int | None = None, report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Writes a folder of Hugging Face's, or a model of the hub, into a folder: `task`, one of TASKS, or None: what
    config.json says. Batches and texts may have any size. Gives `file`, `size` in bytes and `task`.

    Inputs are input_ids, attention_mask and, where the model has types of tokens, token_type_ids (B, T) int64, or
    pixel_values (B, 3, H, W) float32. A language model computes the logits (B, T, V) of whole texts: there is no cache
    of keys and values. With "features" of a sentence-transformers' folder there is sentence_embedding (B, D) beside
    last_hidden_state (B, T, D). OptionError for another task, ModelError for a model that ONNX cannot express.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    if task is not None and task not in TASKS:
        raise OptionError(f"{task!r:.60} is none of {', '.join(TASKS)}", where="task")
    found: dict[str, Any] = {}

    def check(files: Mapping[str, Path]) -> None:
        if "config" not in files:
            raise ModelError("there is no config.json", where=os.fspath(source), hint="Give a folder that has it")
        found["settings"] = completed(read_settings(files["config"]))
        found["task"] = task or onnx_task(found["settings"], str(files["config"]))

    name, files = files_of(source, check, report, cancel, MORE_FILES)
    if not found:
        check(files)
    chosen = found["task"]
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(path.parent.resolve() == target.resolve() for path in files.values() if isinstance(path, Path)):
        raise OptionError("this is the folder of the model", where=str(target), hint="Name another one")
    _copy_files(files, target)
    file = target / "model.onnx"
    steps = Progress("writing ONNX", 0, None, "")
    if chosen in OF_PICTURES:
        image: Any = load_image_model(source, chosen, dtype=dtype, report=report, cancel=cancel)
        report(steps)
        pixels = _pixels(image)
        axes = {"pixel_values": {0: "batch_size"}}
        export(
            image.model, pixels, file, input_names=["pixel_values"], output_names=OF_PICTURES[chosen],
            opset_version=opset_version, dynamic_axes=axes,
        )  # fmt: skip
    else:
        if chosen == WRITING:
            loaded: Any = load_model(source, dtype=dtype, report=report, cancel=cancel, pictures=False)
        else:
            loaded = load_task_model(source, chosen, dtype=dtype, report=report, cancel=cancel)
        report(steps)
        module, inputs, outputs = _of_texts(loaded, chosen)
        export(
            module, list(inputs.values()), file, input_names=list(inputs), output_names=outputs,
            opset_version=opset_version, dynamic_axes=dict.fromkeys(inputs, TOKENS),
        )  # fmt: skip
    size = sum(path.stat().st_size for path in target.glob("model.onnx*"))
    return {"file": str(file), "size": size, "task": chosen}


def _copy_files(files: Mapping[str, Any], target: Path) -> None:
    """The files of a model other than its weights, by their paths in the folder."""
    for role, path in files.items():
        if role == "model" or not isinstance(path, Path):
            continue
        place = target / (role if "." in Path(role).name else path.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def _pixels(image: Any) -> Tensor:
    """Two pictures of the size that the model's processor makes."""
    found: Tensor = image.processor([ops.zeros(48, 64, 3, dtype="uint8")] * 2).pixel_values  # (2, 3, H, W)
    return found


def _of_texts(loaded: Any, task: str) -> tuple[Any, dict[str, Tensor], list[str]]:
    """(a function of the inputs, the inputs by name, the names of the outputs)."""
    model, outputs = loaded.model, list(OF_TEXTS[task])
    ids = ops.ones(2, EXAMPLE, dtype="int64")
    inputs = {"input_ids": ids}
    if task != WRITING:
        inputs["attention_mask"] = ids.clone()
        if (getattr(model.config, "type_vocab_size", 0) or 0) > 1:
            inputs["token_type_ids"] = ids * 0
    if isinstance(model, SentenceEmbedder):
        outputs.append("sentence_embedding")

        def embed(ids: Tensor, mask: Tensor, types: Tensor | None = None) -> list[Tensor]:
            states = model.encoder(ids, mask, types)  # (B, T, D)
            return [states, model.pooled(states, ids, mask)]

        return _Named(model, embed), inputs, outputs
    if task == "question-answering":
        return _Named(model, lambda *given: model(*given).unbind(-1)), inputs, outputs
    return model, inputs, outputs


class _Named:
    """A function, with the names of a model's parameters for the file."""

    def __init__(self, model: Any, function: Callable[..., Any]) -> None:
        self.named_parameters, self.named_buffers = model.named_parameters, model.named_buffers
        self._function = function

    def __call__(self, *inputs: Tensor) -> Any:
        return self._function(*inputs)
