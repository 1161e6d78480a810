"""The model of a configuration for a task, with the weights of a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyapp.engine import Device, ops
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event, Notice, reading_of
from pyapp.formats import Checkpoint, open_checkpoint
from pyapp.models.load import is_llama_cpps, named_architecture, settings_name, stored_parameters
from pyapp.nn import Module
from pyapp.nn.decoders.decoder import CausalLanguageModel, SelfAttention
from pyapp.nn.encoders.decoder_encoders import DecoderClassifier, DecoderEncoder, DecoderTokenClassifier
from pyapp.nn.parameter import Parameter, skip_initialization

from . import timm
from .heads import FEATURES
from .labels import labels_of
from .quantised.methods import as_floats
from .sentence_folders import PROJECTION
from .stored import IGNORED, base_of, ignored_by
from .weights import load_buffers, load_weights

DEVIATION = 0.02  # of new layers' matrices, where config.json says no initializer_range
# Classes in `auto_map` of language models that see the whole text: that of GTE-Qwen2 and Stella.
SEE_BOTH_WAYS = ("modeling_qwen.Qwen2Model",)
# Buffers of older files and heads that no task here reads.
LEFT_OUT = re.compile(IGNORED.pattern + rf"|.*token_type_ids|cls\.seq_relationship\..*|{re.escape(PROJECTION)}")


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
    module = named_architecture(settings, where, task)
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
    head = DecoderTokenClassifier if task == "token-classification" else DecoderClassifier
    return head(model, labels_of(settings), both_ways)


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
