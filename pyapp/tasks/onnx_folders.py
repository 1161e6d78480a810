"""Writes models as folders with an ONNX file, as transformers' and sentence-transformers' ONNX backends, Optimum and
transformers.js read them: model.onnx, config.json, and the files of the tokenizer or the image processor.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.ops.random import Generator
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Event, Progress
from pyapp.models.load import load_model, read_settings
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.heads import completed, known_tasks, own_task
from pyapp.models.loading.pictures import load_image_model
from pyapp.models.loading.task_files import MORE_FILES, files_of
from pyapp.models.sentences.embedding import SentenceEmbedder
from pyapp.nn.decoders.continued import cache_shapes, continued_logits
from pyapp.onnx import export, load
from pyapp.onnx.verifying import check_outputs

WRITING = "causal-lm"
OF_TEXTS: Mapping[str, tuple[str, ...]] = {  # the outputs of the tasks
    "features": ("last_hidden_state",), "masked-lm": ("logits",), "sequence-classification": ("logits",),
    "token-classification": ("logits",), "question-answering": ("start_logits", "end_logits"), WRITING: ("logits",),
}  # fmt: skip
OF_PICTURES: Mapping[str, tuple[str, ...]] = {"image-classification": ("logits",), "image-features": ("image_embeds",)}
TASKS = (*OF_TEXTS, *OF_PICTURES)
TOKENS = {0: "batch_size", 1: "sequence_length"}
PAST = "past_sequence_length"
EXAMPLE, EARLIER = 6, 5  # tokens of the example, and before it


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
    pixel_values (B, 3, H, W) float32. A language model whose cache holds keys and values takes position_ids (B, T) and
    past_key_values.0.key (B, KV, P, D), past_key_values.0.value … of P earlier tokens, 0 or more, and attention_mask
    (B, P + T); it gives logits (B, T, V) and present.0.key (B, KV, P + T, D) …. Another language model takes input_ids
    of whole texts alone. With "features" of a sentence-transformers' folder there is sentence_embedding (B, D) beside
    last_hidden_state (B, T, D). The file is run beside the model. OptionError for another task, ModelError for a model
    that ONNX cannot express.
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
            opset_version=opset_version, dynamic_axes=axes, verify=True,
        )  # fmt: skip
    else:
        if chosen == WRITING:
            loaded: Any = load_model(source, dtype=dtype, report=report, cancel=cancel, pictures=False)
        else:
            loaded = load_task_model(source, chosen, dtype=dtype, report=report, cancel=cancel)
        report(steps)
        form = _of_texts(loaded, chosen)
        export(
            form.module, list(form.inputs.values()), file, input_names=list(form.inputs), output_names=form.outputs,
            opset_version=opset_version, dynamic_axes=form.axes, verify=True,
        )  # fmt: skip
        if form.first:
            with no_grad():
                check_outputs(load(file), form.module, form.first, form.outputs)
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


@dataclass
class _Form:
    """What is written: a function of the inputs, an example of these by name, the names of the outputs and of the sizes
    that differ. `first`: inputs of another call, with which the file is tried.
    """

    module: Any
    inputs: dict[str, Tensor]
    outputs: list[str]
    axes: dict[str, dict[int, str]]
    first: dict[str, Tensor] = field(default_factory=dict)


def _of_texts(loaded: Any, task: str) -> _Form:
    model, outputs = loaded.model, list(OF_TEXTS[task])
    ids = ops.ones(2, EXAMPLE, dtype="int64")
    inputs = {"input_ids": ids}
    if task == WRITING:
        shapes = cache_shapes(model)
        return _Form(model, inputs, outputs, {"input_ids": TOKENS}) if shapes is None else _continued(model, shapes)
    inputs["attention_mask"] = ids.clone()
    if (getattr(model.config, "type_vocab_size", 0) or 0) > 1:
        inputs["token_type_ids"] = ids * 0
    axes, module = dict.fromkeys(inputs, TOKENS), model
    if isinstance(model, SentenceEmbedder):
        outputs.append("sentence_embedding")

        def embed(ids: Tensor, mask: Tensor, types: Tensor | None = None) -> list[Tensor]:
            states = model.encoder(ids, mask, types)  # (B, T, D)
            return [states, model.pooled(states, ids, mask)]

        module = _Named(model, embed)
    elif task == "question-answering":
        module = _Named(model, lambda *given: model(*given).unbind(-1))
    return _Form(module, inputs, outputs, axes)


def _continued(model: Any, shapes: Sequence[tuple[int, int]]) -> _Form:
    """A language model with a cache: `shapes` are (KV, D) of each layer."""
    names = [f"{layer}.{part}" for layer in range(len(shapes)) for part in ("key", "value")]
    axes = {"input_ids": TOKENS, "attention_mask": {0: TOKENS[0], 1: f"{PAST} + {TOKENS[1]}"}, "position_ids": TOKENS}
    axes |= {f"past_key_values.{name}": {0: TOKENS[0], 2: PAST} for name in names}

    def example(earlier: int) -> dict[str, Tensor]:
        places = ops.arange(earlier, earlier + EXAMPLE).expand(2, EXAMPLE).contiguous()  # (2, T)
        past = [
            ops.randn(2, kv, earlier, size, generator=Generator().manual_seed(at)).to(model.embedding.weight.dtype)
            for at, (kv, size) in enumerate(shapes)
            for _ in range(2)
        ]
        given = (ops.ones(2, EXAMPLE, dtype="int64"), ops.ones(2, earlier + EXAMPLE, dtype="int64"), places, *past)
        return dict(zip(axes, given, strict=True))

    def function(ids: Tensor, mask: Tensor, places: Tensor, *past: Tensor) -> list[Tensor]:
        pairs = list(zip(past[::2], past[1::2], strict=True))
        logits, present = continued_logits(model, ids, mask, places, pairs)
        return [logits, *(x for pair in present for x in pair)]

    outputs = [*OF_TEXTS[WRITING], *(f"present.{name}" for name in names)]
    return _Form(_Named(model, function), example(EARLIER), outputs, axes, example(0))


class _Named:
    """A function, with the names of a model's parameters for the file."""

    def __init__(self, model: Any, function: Callable[..., Any]) -> None:
        self.named_parameters, self.named_buffers = model.named_parameters, model.named_buffers
        self._function = function

    def __call__(self, *inputs: Tensor) -> Any:
        return self._function(*inputs)
