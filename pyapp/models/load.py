"""Load language models by name or from files, and tell what a configuration is for.

Architectures and tokenizers are imported when a model needs them, so that the page's first token does not wait for
other code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine.storage import release_memory
from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.events import Cancel, Event, reading_of
from pyapp.formats import ByteSource, Checkpoint, open_checkpoint
from pyapp.formats.safe_json import json_object, object_problem
from pyapp.formats.source import opened_source, read_whole

from ._index import GGUF_ARCHITECTURES, MODEL_TYPES, SEEING, TASKS
from .loading.architectures import module_called, seeing_architecture

if TYPE_CHECKING:
    from pyapp.engine.device import Device
    from pyapp.engine.processes.group import ProcessGroup
    from pyapp.text.generation.generate import LanguageModel
    from pyapp.text.tokenization.tokenizer import Tokenizer

Source: TypeAlias = "str | os.PathLike[str] | bytes | ByteSource"

# The tasks of language models: of text alone, with pictures, and with recordings.
TEXT, SEES, HEARS = "causal-lm", "image-text-to-text", "audio-text-to-text"
DENOISES = "text-diffusion"  # of language models that write by masked diffusion
OF_ENCODERS = ("features", "sequence-classification", "token-classification")  # which language models do too
# Quantised models up to this size are computed in float32. With int8 activations, a rounding difference in the last bit
# can grow to a tenth of a logit, and near ties would be decided differently on other processors and in the page.
# A model that fits the processor's cache as float32 is fast enough without int8.
EXACT_TEXT_BYTES = 4 << 20  # of the parameters of a language model, as they lie in memory
OF_BASED = "alt_mixer_layers"  # a field of config.json that says the architecture
OF_RWKV = "blocks.0.ln0.weight"  # a tensor of its author's files


@dataclass(frozen=True)
class LoadedModel:
    """A language model and its tokenizer. `config` holds the hyper-parameters as JSON values, `generation` the settings
    of its generation_config.json (pyapp/text/generation/generation_config.py), `processor` prepares the pictures of one
    that sees them (pyapp.vision.processors.ImageProcessor), or the recordings of one that hears
    (pyapp.audio.processors); `hearing`: what prepares the recordings of one that sees and hears; `watching`: what
    prepares the frames of videos, where files say it.
    """

    name: str
    model: LanguageModel
    tokenizer: Tokenizer
    config: dict[str, Any]
    generation: dict[str, Any] = field(default_factory=dict)
    processor: Any = None
    hearing: Any = None
    watching: Any = None


def load_model(
    source: Source | Checkpoint,
    tokenizer: Source | Mapping[str, Source] | None = None,
    *,
    config: Source | None = None,
    generation: Source | None = None,
    processor: Source | None = None,
    projector: Source | None = None,
    dtype: str | None = None,
    device: Device | str | None = None,
    adapter: str | os.PathLike[str] | None = None,
    pictures: bool = True,
    tensor_parallel: ProcessGroup | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedModel:
    """Loads a language model by name (embedded, or `owner/repo` or `owner/repo:file` on the hub), from a folder of
    Hugging Face's, a path, bytes, a ByteSource or an open checkpoint.

    `tokenizer` and `config` (config.json) are needed if none is beside the model or in it (the tokenizer in a GGUF file
    comes before one beside it, unless that is called STEM.tokenizer.json like the model); `generation` is its
    generation_config.json, if it has one, and `processor` the preprocessor_config.json (or processor_config.json) of a
    model that sees pictures, which needs it to read any. `projector` is the "mmproj" file of a model in GGUF that sees
    pictures; None: the one beside it, if it belongs to it. `dtype` ("q4_0", "Q4_K_M", "float16" …) is the type to
    convert the matrices to while they are read; None keeps their type, except that small quantised models become
    float32. `device`: where the model computes. `adapter`: a folder with a LoRA adapter, which is merged into weights
    in floating point, and stays beside quantised ones (pyapp.adapters). `pictures`: whether one that sees them is to
    see; Gemma 3, Gemma 4 and Qwen3.5 are read without their towers also with an adapter, by a group and without
    `processor`. `tensor_parallel`:
    a group of processes (pyapp.distributed) that all load the model, read their parts of it, and then make the same
    calls of it with the same arguments, which compute it together (docs/distributed.md). `report` receives Progress in
    bytes (download, reading). The parameters do not require gradients: call `model.requires_grad_()` to train those
    that are not quantised. Returns when everything is read. Raises ModelNotFoundError, DownloadError, FileFormatError,
    ModelError, OptionError, and Cancelled once `cancel` is set.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    given = _Files(getattr(source, "name", "model"), source, tokenizer, config, generation, processor)
    files = _files_of(source, given, report, cancel) if isinstance(source, str | os.PathLike) else given
    settings = None if files.config is None else read_settings(files.config)
    if settings is not None:
        check_architecture(settings, _named(files.config))
    checkpoint = files.model if isinstance(files.model, Checkpoint) else open_checkpoint(files.model)
    projector_file: Any = None
    try:
        settings = _settings(checkpoint, settings, files.config)
        alone = adapter is None and tensor_parallel is None  # what is added to a model takes no tower
        if pictures and (projector is not None or (files.projector is not None and alone)):
            from .loading.projectors import find_projector

            projector_file = find_projector(projector, files.projector, checkpoint, settings, report)
            settings = settings if projector_file is None else projector_file.settings
        text = _tokenizer(files, checkpoint)
        if checkpoint is not files.model:
            _forget_vocabulary(checkpoint)
        release_memory()
        task = task_of(settings)
        sees = task == SEES and pictures
        if sees and projector_file is None and _may_be_blind(settings):
            sees = (
                alone
                and files.processor is not None
                and any(seen in name for name in checkpoint.tensors for seen in ("vision_", "visual."))
            )
        task = TEXT if task == SEES and not sees else task
        if adapter is not None and task not in (TEXT, DENOISES):
            what = f"a model that {'sees pictures' if sees else 'hears'} takes none"
            raise OptionError(what, where="adapter", hint="Leave it out")
        if sees and (with_tokens := getattr(_seeing(settings), "with_tokens", None)) is not None:
            text = with_tokens(text)
        prepares = _preparation(files, settings, task, projector_file)
        hears = sees and HEARS in TASKS.get(MODEL_TYPES.get(settings.get("model_type", ""), ""), ())
        hearing = _preparation(files, settings, HEARS, None) if hears else None
        model = build(checkpoint, report, cancel, settings, dtype, device, task, tensor_parallel, projector_file)
        if task == HEARS:
            from .loading.sound import add_own_adapter, files_of

            beside_it = files_of(source, report, cancel) if settings.get("has_lora_adapter") and files.named else {}
            add_own_adapter(model, settings, beside_it, files.name, report)
        if sees and prepares is not None:
            prepares = _fitting(prepares, model, files.processor)
        watching = _watching(files) if sees and getattr(model, "watcher", None) is not None else None
    finally:
        if projector_file is not None:
            projector_file.close()
        if checkpoint is not files.model and checkpoint.source is not files.model:
            checkpoint.close()
    from pyapp.text.generation.generate import check_tokenizer

    doubt = check_tokenizer(text, model.config)
    if doubt is not None:
        report(doubt)
    if adapter is not None:
        _add_adapter(model, adapter, tensor_parallel is not None)
    chosen = {**getattr(model, "usual_settings", {}), **_generation(files.generation, report)}
    return LoadedModel(files.name, model, text, model.config.to_dict(), chosen, prepares, hearing, watching)


@dataclass(frozen=True)
class _Files:
    """The files of a language model, as load_model was given them or found them beside the model. `named`: the source
    was a name or a path. `tokenizer_beside`, `projector`: found beside the model, not given.
    """

    name: str
    model: Source | Checkpoint
    tokenizer: Source | Mapping[str, Source] | None = None
    config: Source | None = None
    generation: Source | None = None
    processor: Source | None = None
    tokenizer_beside: Path | None = None
    projector: Path | None = None
    named: bool = False
    video: Path | None = None


def _files_of(
    source: str | os.PathLike[str], given: _Files, report: Callable[[Event], None], cancel: Cancel
) -> _Files:  # fmt: skip
    """The files of a name or path, downloaded if need be, in place of those that were not given. ModelError for an
    adapter.
    """
    from pyapp import hub

    name = os.fspath(source)
    resolved = hub.resolve(source, report=report, cancel=cancel, check=check_config_file)
    if os.path.basename(str(resolved.model)).startswith("adapter_model."):
        raise ModelError(
            "this is an adapter (LoRA), not a model", where=name,
            hint="Give the model that it belongs to, and this as --adapter (in Python adapter=)",
        )  # fmt: skip
    found = resolved.files
    return _Files(
        name, resolved.model, given.tokenizer,
        found.get("config") if given.config is None else given.config,
        found.get("generation_config") if given.generation is None else given.generation,
        next((file for file in (given.processor, found.get("preprocessor_config"), found.get("processor_config"))
              if file is not None), None),
        resolved.tokenizer, found.get("projector"), named=True,
        video=found.get("video_preprocessor_config", found.get("processor_config")),
    )  # fmt: skip


def _settings(
    checkpoint: Checkpoint, settings: Mapping[str, Any] | None, config: Source | None
) -> dict[str, Any]:  # fmt: skip
    """The configuration of a checkpoint, with `settings` of its config.json. ModelError for one that says no
    architecture, or an unknown one.
    """
    found = dict(settings_of(checkpoint, settings))
    if config is not None and "model_type" not in found and "dim" not in found:
        hint = "Give the config.json that belongs to the weights"
        raise ModelError("it does not say the model_type", where=_named(config), hint=hint)
    check_architecture(found, checkpoint.source.name)
    return found


def _preparation(files: _Files, settings: Mapping[str, Any], task: str, projector_file: Any) -> Any:
    """What prepares the pictures or recordings of a model, by its processor's file or its vision projector; None if
    there is neither.
    """
    if task == HEARS:
        from .loading.sound import processor_of

        return processor_of(
            files.name, settings, read_settings(files.processor) if files.processor is not None else {}
        )  # fmt: skip
    if task == SEES and files.processor is not None:
        from pyapp.vision.processors import ImageProcessor

        from .loading.image_processors import usual_processor

        usual = usual_processor(str(settings["model_type"]))
        return ImageProcessor.from_settings(read_settings(files.processor), usual)
    if task == SEES and (made := getattr(_seeing(settings), "processor_settings", None)) is not None:
        from pyapp.vision.processors import ImageProcessor  # late: models of texts do not need it

        return ImageProcessor.from_settings(made(settings), None)
    return None if projector_file is None else projector_file.processor()


def _watching(files: _Files) -> Any:
    """What prepares the frames of videos, by video_preprocessor_config.json, or the part of processor_config.json; None
    where there is neither.
    """
    from pyapp.vision.processors import ImageProcessor  # late: models of texts do not need it

    found = {} if files.video is None else read_settings(files.video)
    own = found.get("video_processor", found)
    return ImageProcessor.from_settings(own) if isinstance(own, dict) and "video_processor_type" in own else None


def _seeing(settings: Mapping[str, Any]) -> Any:
    """The module of a model that sees pictures; None where there is none."""
    return seeing_architecture(settings["model_type"])


def _fitting(prepares: Any, model: Any, processor: Source | None) -> Any:
    """The image processor as the model wants it. ModelError if it makes pictures of another size."""
    prepares = model.prepared_by(prepares)
    if prepares is not None and prepares.fixed_size not in (None, model.pixels):
        raise ModelError(
            f"it makes pictures of {prepares.fixed_size} pixels, the model takes {model.pixels}",
            where=_named(processor), hint="Give the file that belongs to the weights",
        )  # fmt: skip
    return prepares


def _may_be_blind(settings: Mapping[str, Any]) -> bool:
    """Whether a model that sees pictures is a language model without its tower, too."""
    return TEXT in TASKS.get(MODEL_TYPES.get(settings["model_type"], ""), ())


def _add_adapter(model: Any, adapter: str | os.PathLike[str], several: bool) -> None:
    """Adds a LoRA adapter to a model. OptionError if several processes compute it."""
    if several:
        raise OptionError(
            "cannot be added to a model that several processes compute together", where="adapter",
            hint="Merge it into the model before: pyapp merge",
        )  # fmt: skip
    from pyapp.adapters import load_adapter, merge_adapters

    load_adapter(model, adapter)
    merge_adapters(model, quantized=False)


def _generation(source: Source | None, report: Callable[[Event], None]) -> dict[str, Any]:
    """The settings of a generation_config.json."""
    if source is None:
        return {}
    from pyapp.text.generation.generation_config import generation_settings

    return generation_settings(read_settings(source), _named(source), report)


def _tokenizer(files: _Files, checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer that is given, named like the model, in the checkpoint, or beside the model. ModelError if there is
    none.
    """
    found: Any = files.tokenizer
    beside = files.tokenizer_beside
    own = beside is not None and beside.name.startswith(f"{Path(os.fspath(files.model)).stem}.tokenizer.")  # type: ignore[arg-type]
    if found is None and has_tokenizer(checkpoint) and not own:  # files of other models may lie in the folder
        from pyapp.text.tokenization.tokenizer_files import gguf_tokenizer

        return gguf_tokenizer(checkpoint.values, checkpoint.source.name)  # type: ignore[attr-defined]
    found = beside if found is None else found
    if found is None and not isinstance(files.model, Checkpoint):
        found = tokenizer_beside(files.model, checkpoint)
    if found is None:
        hint = "Put its tokenizer.json or tokenizer.bin beside it, or give that too"
        raise ModelError("its tokenizer is missing", where=files.name, hint=hint)
    return load_tokenizer(found)


def _forget_vocabulary(checkpoint: Checkpoint) -> None:
    """Gives the memory of a GGUF file's vocabulary back: the weights, which come next, need it."""
    for name in ("tokens", "scores", "token_type", "merges"):
        getattr(checkpoint, "values", {}).pop(f"tokenizer.ggml.{name}", None)


def has_tokenizer(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is a GGUF file with a tokenizer."""
    return "tokenizer.ggml.tokens" in getattr(checkpoint, "values", {})


def _named(source: Any) -> str:
    """A source's name for errors."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else getattr(source, "name", "config.json")


def tokenizer_beside(source: Source, checkpoint: Checkpoint) -> Source | None:
    """The tokenizer in a GGUF file, or another kind of tokenizer than tokenizer.json in the model's folder."""
    if has_tokenizer(checkpoint):
        return source
    if not isinstance(source, str | os.PathLike):
        return None
    from pyapp.text.tokenization.tokenizer_files import VOCABULARIES

    folder = Path(source).parent
    return folder if any((folder / name).is_file() for name in VOCABULARIES) else None


def read_settings(source: Source) -> dict[str, Any]:
    """The object of a config.json."""
    with opened_source(source) as opened:
        text = read_whole(opened).decode("utf-8-sig", "replace")  # editors on Windows write a mark before the text
        found = json_object(text)
        if not found:
            hint = "Take the file of the model's own repository again"
            raise FileFormatError(f"this is not a configuration: {object_problem(text)}", where=opened.name, hint=hint)
        if OF_BASED in found and found.get("model_type", "gpt2") == "gpt2":  # whose files do not say it
            found["model_type"] = "based"
        return found


def settings_beside(files: Mapping[str, Any], role: str) -> dict[str, Any]:
    """The object of the JSON file with a role, such as "generation_config"; empty where there is none."""
    return read_settings(files[role]) if role in files else {}


def is_llama_cpps(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint is a GGUF file with llama.cpp's names; those that pyapp wrote from other formats are not."""
    values = getattr(checkpoint, "values", {})
    return "general.architecture" in values and values["general.architecture"] != "pyapp"


def settings_of(checkpoint: Checkpoint, settings: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The configuration of a checkpoint in the form of config.json: its own if it says the architecture, else
    `settings`. ModelError for an unknown architecture of a GGUF file.
    """
    own = checkpoint.config
    values = getattr(checkpoint, "values", {})
    if not is_llama_cpps(checkpoint):
        if not settings and OF_RWKV in checkpoint.tensors:
            from .loading.rwkv_files import version_of

            # The author's files have no settings: their tensors say the sizes.
            return {"model_type": version_of(checkpoint.tensors) or "rwkv"}
        return own if settings is None or "model_type" in own or "dim" in own else settings
    from .loading import reading_gguf

    architecture = values["general.architecture"]
    known = reading_gguf.index_names(str(architecture), values, checkpoint.tensors)
    name = next((GGUF_ARCHITECTURES[form] for form in known if form in GGUF_ARCHITECTURES), None)
    if name is None:
        raise ModelError(
            f"the architecture {str(architecture)[:50]!r} is not known", where=checkpoint.source.name,
            hint=f"Known in GGUF files: {', '.join(form for form in GGUF_ARCHITECTURES if ' ' not in form)}",
        )  # fmt: skip
    module = module_called(name)
    return reading_gguf.settings_of(module.GGUF, module.MODEL_TYPES[0], values, checkpoint)


CHOOSES = "It chooses among labels that you give it: --labels, or tasks.match_images"  # a dual encoder, asked to label


def module_of(settings: Mapping[str, Any], where: str, task: str = "causal-lm") -> str | None:
    """The module of pyapp.models of a configuration's architecture; None for llama2.c's. ModelError for an unknown
    architecture, for one that has no model for the task, and for weights that are quantised in a way that is not read.
    """
    kind = settings.get("model_type", "llama2c")
    if _may_be_quantised(settings):
        from .loading.quantised.methods import check_method

        check_method(settings, where)
    if kind == "llama2c":
        return None
    found = (SEEING if task == SEES else MODEL_TYPES).get(kind) if isinstance(kind, str) else None
    if task == TEXT and settings.get("use_bidirectional_attention"):
        raise ModelError(
            "each token also sees those after it, so the model embeds texts and cannot write them", where=where,
            hint="Use it with pyapp embed --model, or tasks.embed",
        )  # fmt: skip
    if found is not None and task == SEES and answers_once(settings):
        raise ModelError(
            f"this model ({kind}) answers one prompt about a picture, and does not chat", where=where,
            hint="Use it with pyapp caption --prompt, or tasks.read_images",
        )  # fmt: skip
    if found is not None and (task in TASKS[found] or (task in OF_ENCODERS and TEXT in TASKS[found])):
        return found
    if found is not None:
        hint = f"They are for {', '.join(TASKS[found])}"
        if (task, "zero-shot-image-classification") == ("image-classification", *TASKS[found]):
            hint = CHOOSES
        raise ModelError(f"models of the architecture {kind!r} are not for {task}", where=where, hint=hint)
    if kind == "whisper":
        raise ModelError(
            f"models of the architecture 'whisper' are not for {task}", where=where,
            hint="They transcribe speech: pyapp transcribe --model, or tasks.transcribe",
        )  # fmt: skip
    known = sorted(name for name, module in [*MODEL_TYPES.items(), *SEEING.items()] if task in TASKS[module])
    raise ModelError(
        f"the architecture {str(kind)[:50]!r} is not known{'' if task == 'causal-lm' else f' for {task}'}",
        where=where,
        hint=f"Known: {', '.join(['llama2c', *known] if task == 'causal-lm' else known)}",
    )


def named_architecture(settings: Mapping[str, Any], where: str, task: str) -> Any:
    """As module_of, the module itself. ModelError for a configuration that names no architecture."""
    name = module_of(settings, where, task)
    if name is None:
        hint = "Give the config.json that belongs to the weights"
        raise ModelError("it does not say the model_type", where=where, hint=hint)
    return module_called(name)


def answers_once(settings: Mapping[str, Any]) -> bool:
    """Whether the texts of a model that sees pictures are those of an encoder and a decoder, such as T5."""
    text = settings.get("text_config")
    kind = text.get("model_type") if isinstance(text, Mapping) else None
    return isinstance(kind, str) and "seq2seq-lm" in TASKS.get(MODEL_TYPES.get(kind, ""), ())


def _may_be_quantised(settings: Mapping[str, Any]) -> bool:
    """Whether loading.quantised has to look at a configuration; it is not imported for others."""
    parts = (settings, settings.get("text_config"))
    return any(isinstance(part, Mapping) and any("_config" in key for key in part) for part in parts)


def architectures() -> dict[str, list[str]]:
    """The `model_type`s of config.json that are known, by task."""
    tasks = sorted({task for known in TASKS.values() for task in known})
    known = {task: sorted(name for name, module in MODEL_TYPES.items() if task in TASKS[module]) for task in tasks}
    return known | {SEES: sorted(SEEING)}


def task_of(settings: Mapping[str, Any]) -> str:
    """The task of a language model's configuration: whether it sees pictures, or hears."""
    kind = settings.get("model_type")
    known = TASKS.get(MODEL_TYPES.get(kind, ""), ()) if isinstance(kind, str) and kind not in SEEING else ()
    for task in (HEARS, DENOISES):
        if task in known:
            return task
    if not isinstance(kind, str) or kind not in SEEING:
        return TEXT
    return (
        SEES if settings.get("vision_config") or kind in MODEL_TYPES and TEXT not in TASKS[MODEL_TYPES[kind]] else TEXT
    )


def check_architecture(config: Mapping[str, Any], where: str) -> None:
    """ModelError for a configuration of an unknown architecture of language models."""
    module_of(config, where, task_of(config))


def check_config_file(files: Mapping[str, Path]) -> None:
    """check_architecture of a repository's config.json, before its weights are downloaded."""
    path = files.get("config")
    if path is not None:
        check_architecture(read_settings(path), str(path))


def build(
    checkpoint: Checkpoint,
    report: Callable[[Event], None],
    cancel: Cancel,
    settings: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    device: Device | str | None = None,
    task: str = "causal-lm",
    group: ProcessGroup | None = None,
    projector_file: Any = None,
) -> Any:
    """The model of a checkpoint. `model_type` in its configuration names the architecture; else it is llama2.c's.
    `group`: processes that compute it together. `projector_file`: the vision projector
    (loading.projectors), whose settings these are.
    """
    settings = settings_of(checkpoint, settings) if projector_file is None else settings or {}
    opened = checkpoint
    if _may_be_quantised(settings) or any(info.dtype[:5] == "ggml_" for info in checkpoint.tensors.values()):
        from .loading.quantised.methods import as_floats

        checkpoint = as_floats(checkpoint, settings)

    progress = reading_of(report, cancel)
    name = module_of(settings, checkpoint.source.name, task)
    if task in (SEES, HEARS) and group is not None:
        raise ModelError(
            f"{settings.get('model_type')} sees pictures or hears, and such files are read by one process",
            where=checkpoint.source.name,
            hint="Load it whole in each, then call nn.tensor_parallel.parallelize(model, group)",
        )  # fmt: skip
    if name is None and group is not None:
        raise ModelError(
            "models of llama2.c's form run in one process", where=checkpoint.source.name,
            hint="Take one of Hugging Face's or llama.cpp's form for several processes",
        )  # fmt: skip
    if name is None:
        if dtype is None:
            model = _build_llama2c(checkpoint, progress, device)
        else:
            from pyapp.models.loading.matrix_types import convert_matrices, matrix_types

            matrix_types({}, dtype, {})  # an unknown type is refused before the weights are read
            model = _build_llama2c(checkpoint, progress, device)
            convert_matrices(model, dtype, model.config.to_dict())
        model = model if device is None else model.to(device)
    else:
        module = module_called(name)
        read = read_model if projector_file is None else projector_file.read_model
        model = read(module, module.TASKS[task], checkpoint, settings, dtype, device, progress, group)
    taken = _bytes_of(model) if dtype is None else 0
    if dtype is None and taken <= EXACT_TEXT_BYTES:
        model.dequantize()
    elif checkpoint is not opened:
        from .loading.quantised.methods import growth

        for notice in growth(checkpoint, taken):
            report(notice)
    return model


def _bytes_of(model: Any) -> int:
    """Bytes of the parameters, of all processes."""
    if "divided" not in vars(model):
        return sum(parameter.nbytes for parameter in model.parameters())
    from pyapp.models.loading.weights import whole_bytes

    return whole_bytes(model)


def _build_llama2c(checkpoint: Checkpoint, progress: Callable[[int, int], None], device: Device | str | None) -> Any:
    from pyapp.models.llama2c import Llama2c

    try:
        return Llama2c.from_checkpoint(checkpoint, progress, device)
    except KeyError as error:
        raise ModelError(
            f"the file does not contain the model's {error.args[0]}", where=checkpoint.source.name,
            hint="Give a llama2.c checkpoint, or safetensors that pyapp wrote; a model of another architecture needs "
            "its config.json beside it",
        ) from error  # fmt: skip


def read_model(
    module: Any,
    kind: Any,
    checkpoint: Checkpoint,
    settings: Mapping[str, Any],
    dtype: str | None = None,
    device: Device | str | None = None,
    progress: Callable[[int, int], None] | None = None,
    group: ProcessGroup | None = None,
) -> Any:
    """A model of the class `kind` of an architecture's module, with the weights of a checkpoint. `group`: processes
    that compute it together.
    """
    from pyapp.models.loading.matching import check_left
    from pyapp.models.loading.stored import ignored_by
    from pyapp.models.loading.weights import load_buffers, load_weights

    config, model, stored = empty_model(module, kind, checkpoint, settings)
    base, renames = getattr(kind, "base_model_prefix", ""), getattr(module, "renamed", None)
    buffers = {name for name, _ in model.named_buffers()} & {*model.state_dict()}  # that files have
    left = load_weights(
        model, checkpoint, stored=stored, base=base, dtype=dtype, device=device, progress=progress,
        config=config.to_dict(), renames=renames, ignored=ignored_by(module), strict=not buffers, group=group,
    )  # fmt: skip
    if buffers:
        check_left(checkpoint, load_buffers(model, checkpoint, left, base, renames, device))
    model.eval()
    return model


def empty_model(module: Any, kind: Any, checkpoint: Checkpoint, settings: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """The configuration, a model with empty parameters, and how the checkpoint stores them."""
    from pyapp.nn.parameter import skip_initialization

    try:
        adapted = getattr(module, "adapted", None)
        config = module.Config.from_dict(settings if adapted is None else adapted(settings, checkpoint.tensors))
        with skip_initialization():
            model = kind(config)
    except ModelError as error:
        raise ModelError(error.what, where=error.where or settings_name(checkpoint), hint=error.hint) from error
    return config, model, stored_parameters(module, config, model, checkpoint)


def settings_name(checkpoint: Checkpoint) -> str:
    """What errors of a configuration name: the config.json beside the weights, where these have none."""
    path = getattr(checkpoint.source, "path", None)
    beside = None if path is None or "model_type" in checkpoint.config else Path(path).with_name("config.json")
    return str(beside) if beside is not None and beside.is_file() else checkpoint.source.name


def stored_parameters(module: Any, config: Any, model: Any, checkpoint: Checkpoint) -> Mapping[str, Any]:
    """How a checkpoint stores the parameters of a model of an architecture's module (loading.stored.Stored)."""
    if hasattr(module, "GGUF") and is_llama_cpps(checkpoint):
        from .loading import reading_gguf, slots

        values = checkpoint.values  # type: ignore[attr-defined]
        return reading_gguf.stored_in(module.GGUF, config, dict(slots.slots(model)), checkpoint.tensors, values)
    found: Mapping[str, Any] = module.stored(config, checkpoint.tensors) if hasattr(module, "stored") else {}
    return found


def files_to_convert(
    source: Source, report: Callable[[Event], None] | None = None, cancel: Cancel | None = None
) -> tuple[Source, Path | None]:
    """The file of weights of a model's folder, or of a model by its name, downloaded with Progress for `report`, and
    the tokenizer's; any other source itself."""
    from pyapp import hub

    if not isinstance(source, str | os.PathLike) or not hub.is_name(source):
        return source, None
    found = hub.resolve(os.fspath(source), report=report, cancel=cancel)
    return found.model, found.tokenizer


def load_tokenizer(source: Source | Mapping[str, Source], name: str | None = None) -> Tokenizer:
    """pyapp.text.tokenization.tokenizer_files.load_tokenizer: from a model's folder, one of its files, or a mapping of
    names to files.
    """
    from pyapp.text.tokenization.tokenizer_files import load_tokenizer

    return load_tokenizer(source, name)
