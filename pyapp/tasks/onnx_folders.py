"""Writes models as folders with ONNX files, as transformers' and sentence-transformers' ONNX backends, Optimum and
transformers.js read them, with config.json and the files of the tokenizer or the processor.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Event, Progress
from pyapp.models.load import load_model, read_settings
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.heads import completed, known_tasks, own_task
from pyapp.models.loading.pictures import load_image_model
from pyapp.models.loading.speech import load_speech_model
from pyapp.models.loading.task_files import MORE_FILES, files_of
from pyapp.onnx.exporting.blocks import BITS

from .onnx_forms import (
    ANSWERING,
    HEARING,
    OF_PICTURES,
    TASKS,
    WRITING,
    EncoderDecoder,
    Form,
    of_pictures,
    of_speech,
    of_texts,
    of_translator,
    of_writer,
)

TYPES = ("float32", "float16", "bfloat16", *BITS)


def onnx_task(settings: Mapping[str, Any], where: str) -> str:
    """The task that a checkpoint was made for. ModelError for one that is not written here."""
    if settings.get("model_type") == "whisper":
        return HEARING
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
    config.json says. Batches and texts may have any size. Gives `files`, `size` in bytes and `task`.

    The inputs of model.onnx are input_ids, attention_mask and, where the model has types of tokens, token_type_ids (B,
    T) int64, or pixel_values (B, 3, H, W) float32. A language model takes position_ids (B, T) and past_key_values.0.key
    (B, KV, P, D), past_key_values.0.value … of P earlier tokens, 0 or more, and attention_mask (B, P + T); it gives
    logits (B, T, V) and present.0.key (B, KV, P + T, D) …. Layers with states take past_conv.0, past_ssm.0 or
    past_recurrent.0 …, zeros at the beginning, and give present_conv.0 …; where no layer attends, attention_mask is (B,
    T), and there are no position_ids. A model that keeps something else takes input_ids of whole texts alone. With
    "features" of a sentence-transformers' folder there is sentence_embedding (B, D) beside last_hidden_state (B, T, D).

    "seq2seq-lm" and "speech-recognition" give encoder_model.onnx, of input_ids and attention_mask or of Whisper's
    input_features (B, mels, frames), and decoder_model_merged.onnx: of input_ids (B, T), encoder_hidden_states (B, S,
    D) and encoder_attention_mask (B, S). Where use_cache_branch (1,) is True, it goes on after P earlier tokens by
    past_key_values.0.decoder.key (B, H, P, D) … and past_key_values.0.encoder.key (B, H, S, D) …. It gives logits (B,
    T, V) and all these as present.0.decoder.key ….

    dtype: of the weights, one of TYPES; q8_0 and q4_0 are for onnxruntime (pyapp.onnx.export). Each file is run beside
    the model. OptionError for another task or type, ModelError for a model that ONNX cannot express.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    if dtype not in TYPES:
        raise OptionError(f"{dtype!r:.60} is none of {', '.join(TYPES)}", where="type")
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
    report(steps := Progress("writing ONNX", 0, None, ""))
    if chosen in OF_PICTURES:
        form: Form | EncoderDecoder = of_pictures(
            load_image_model(source, chosen, dtype=dtype, report=report, cancel=cancel), chosen
        )
    elif chosen == HEARING:
        form = of_speech(load_speech_model(source, dtype=dtype, report=report, cancel=cancel).model)
    elif chosen == WRITING:
        form = of_writer(load_model(source, dtype=dtype, report=report, cancel=cancel, pictures=False).model)
    elif chosen == ANSWERING:
        form = of_translator(load_task_model(source, chosen, dtype=dtype, report=report, cancel=cancel).model)
    else:
        form = of_texts(load_task_model(source, chosen, dtype=dtype, report=report, cancel=cancel).model, chosen)
    report(steps)
    written = form.write(target, opset_version)
    if isinstance(form, EncoderDecoder):
        _say_two_parts(target / "config.json")
    size = sum(path.stat().st_size for file in written for path in target.glob(f"{file.name}*"))
    return {"files": list(map(str, written)), "size": size, "task": chosen}


def _say_two_parts(config: Path) -> None:
    """Completes a configuration of an encoder and a decoder by what other runtimes read the names of the caches from,
    which older files leave out.
    """
    settings = json.loads(config.read_text(encoding="utf-8"))
    more = {"is_encoder_decoder": True}
    if "num_layers" in settings:
        more["num_decoder_layers"] = settings["num_layers"]
    if not more.keys() <= settings.keys():
        config.write_text(json.dumps({**more, **settings}, indent=2) + "\n", encoding="utf-8")


def _copy_files(files: Mapping[str, Any], target: Path) -> None:
    """The files of a model other than its weights, by their paths in the folder."""
    for role, path in files.items():
        if role == "model" or not isinstance(path, Path):
            continue
        place = target / (role if "." in Path(role).name else path.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
