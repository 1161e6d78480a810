"""Adapters in the files of peft: adapter_config.json and adapter_model.safetensors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pyapp.engine import Tensor, no_grad
from pyapp.errors import FileFormatError, ModelError, ModelNotFoundError
from pyapp.formats import ByteSource, Checkpoint, open_checkpoint, write_safetensors
from pyapp.formats.folders import made_folder
from pyapp.formats.safe_json import json_object
from pyapp.formats.sink import open_sink
from pyapp.formats.source import FileSource, read_whole
from pyapp.nn import Experts, Module, Parameter
from pyapp.nn.layers.linear import TransposedLinear

from .adapting import (
    adapted_layers,
    adapter_state,
    adapters_of,
    check_name,
    enter,
    remove_adapter,
    resolved_targets,
    set_adapter,
    unmerge_adapters,
)  # fmt: skip
from .config import LoraConfig
from .layers import LowRank, adapt, can_adapt

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
OLD_WEIGHTS = "adapter_model.bin"
PREFIX = "base_model.model."


def is_adapter(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder has an adapter."""
    return (Path(folder) / CONFIG).is_file()


def save_adapter(model: Module, folder: str | os.PathLike[str], name: str = "default") -> None:
    """Writes an adapter of a model into a folder, which is made if need be: adapter_config.json and
    adapter_model.safetensors, as peft writes them. OptionError for an unknown name, OSError or StorageFullError.
    """
    adapted = dict(adapted_layers(model, name))
    tensors = {PREFIX + _in_file(path, adapted, name): value for path, value in adapter_state(model, name).items()}
    config = resolved_targets(model, name).to_dict()
    layers = [layer for _, layer in adapted_layers(model, name)]
    config["fan_in_fan_out"] = bool(layers) and all(isinstance(layer, TransposedLinear) for layer in layers)
    config["inference_mode"] = True
    with made_folder(folder) as place:
        write_safetensors(place / WEIGHTS, tensors, {"format": "pt"})
        with open_sink(place / CONFIG) as file:
            file.write((json.dumps(config, indent=2, sort_keys=True) + "\n").encode())


def read_config(folder: str | os.PathLike[str]) -> LoraConfig:
    """The settings of an adapter in a folder. ModelNotFoundError if there is none, FileFormatError or ModelError for
    other contents.
    """
    place = Path(folder) / CONFIG
    if not place.is_file():
        raise ModelNotFoundError(
            f"there is no {CONFIG} here", where=str(folder), hint="Name the folder that an adapter was written to"
        )
    with FileSource(place) as source:
        return config_of(source)


def config_of(source: ByteSource) -> LoraConfig:
    """The settings of an adapter_config.json, as read_config."""
    found = json_object(read_whole(source).decode("utf-8", "replace"))
    if not found:
        raise FileFormatError("this is not a configuration: a JSON object is expected", where=source.name)
    return LoraConfig.from_dict(found, source.name)


def load_adapter(
    model: Module, folder: str | os.PathLike[str], name: str = "default", trainable: bool = False
) -> list[str]:
    """Adds the adapter in a folder of peft's to a model, and makes it the active one; returns the paths of the layers
    that it adapts. `trainable`: its parameters require gradients.

    Raises ModelNotFoundError, FileFormatError for damaged files, and ModelError for an adapter of another model; then
    the model is as it was.
    """
    check_name(model, name)
    config = read_config(folder)
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        old = Path(folder) / OLD_WEIGHTS
        if not old.is_file():
            raise ModelNotFoundError(f"there is no {WEIGHTS} here", where=str(folder))
        path = old
    with open_checkpoint(path) as checkpoint:
        return add_file(model, config, checkpoint, name, trainable)


def add_file(
    model: Module, config: LoraConfig, checkpoint: Checkpoint, name: str = "default", trainable: bool = False,
    renamed: Callable[[str], str] = str,
) -> list[str]:  # fmt: skip
    """As load_adapter, of the settings and the open file of an adapter. renamed: the model's names of the file's."""
    check_name(model, name)
    where = checkpoint.source.name
    modules = dict(model.named_modules())
    sizes = {key: tuple(info.shape) for key, info in checkpoint.tensors.items()}
    tensors = {_path_of(key, sizes, modules, renamed): key for key in sizes}
    shapes = {known: tuple(checkpoint.tensors[key].shape) for known, key in tensors.items()}
    layers, whole = _divide(model, config, shapes, where)
    state = {known: checkpoint.read(key, finite=True) for known, key in tensors.items()}
    changed = [known for known in whole if not _equals(model.get_parameter(known), state.get(known))]
    before = adapters_of(model).active
    values = {known: state.pop(known).to(model.get_parameter(known).device) for known in changed}
    unmerge_adapters(model)
    for layer in layers:
        adapt(model.get_submodule(layer), name, config, layer)
    enter(model, name, config, {known: Parameter(value, False) for known, value in values.items()})
    try:
        _fill(model, name, {known: value for known, value in state.items() if known not in whole}, where)
    except ModelError:
        remove_adapter(model, name)
        set_adapter(model, before)
        raise
    set_adapter(model, name, trainable=trainable)
    return layers


def _path_of(
    key: str, sizes: Mapping[str, tuple[int, ...]], modules: Mapping[str, Module], renamed: Callable[[str], str]
) -> str:
    """The path of a tensor in the model from its name in a file, whose tensors have these sizes."""
    owner, found, rest = key.partition(".lora_")
    path = renamed(owner.removeprefix(PREFIX).replace(".base_layer", ""))
    module = modules.get(path)
    if found and isinstance(module, Experts):
        stack = _stack_of(module, sizes.get(f"{owner}.lora_A.weight", ()), sizes.get(f"{owner}.lora_B.weight", ()))
        return f"{path}.lora_{rest.replace('.weight', f'.{stack}.weight')}"
    known = renamed(key.removeprefix(PREFIX).replace(".base_layer.", "."))
    return known.removesuffix(".weight") if known.endswith(".lora_magnitude_vector.weight") else known


def _stack_of(module: Experts, first: tuple[int, ...], second: tuple[int, ...]) -> str:
    """The stack of experts that matrices A and B of these sizes fit; no two stacks have the same sizes. peft's names do
    not say it: the adapter of a stack is around that of another one.
    """
    for stack in module.STACKS:
        _, outputs, inputs = module.stack_shape(stack)
        if first[1:] == (inputs,) and second[:1] == (outputs,):
            return stack
    return "unknown"


def _in_file(path: str, adapted: Mapping[str, LowRank], name: str) -> str:
    """The name of an adapter's tensor in a file. peft puts the own parameters of adapted layers below base_layer, and
    of several adapted stacks of experts those of the first ones.
    """
    owner, found, rest = path.partition(".lora_")
    layer = adapted.get(owner)
    if found and isinstance(layer, Experts):
        group, stack, last = rest.split(".")
        inner = len(stacks := list(layer.lora_A[name])) - 1 - stacks.index(stack)
        return f"{owner}{'.base_layer' * inner}.lora_{group}.{last}"
    owner, _, last = path.rpartition(".")
    return f"{owner}.base_layer.{last}" if owner in adapted and not last.startswith("lora_") else path


def _equals(own: Tensor, value: Tensor | None) -> bool:
    """Whether a whole parameter of a file has the model's values: peft stores embeddings beside their matrices."""
    return value is not None and own.dtype is value.dtype and bool((own == value.to(own.device)).all())


def _divide(
    model: Module, config: LoraConfig, shapes: dict[str, tuple[int, ...]], where: str
) -> tuple[list[str], list[str]]:
    """The paths of an adapter's layers, and of whole parameters. ModelError for tensors that the model has no place
    for, and for other ranks than those of the settings.
    """
    modules = dict(model.named_modules())
    own = dict(model.named_parameters(remove_duplicate=False))  # a head may share the embedding's weight
    layers: list[str] = []
    whole: list[str] = []
    for known, shape in shapes.items():
        path, found, _ = known.partition(".lora_")
        if found:
            module = modules.get(path)
            if module is None or not can_adapt(module):
                what = "the model has no such layer" if module is None else f"{path} is a {type(module).__name__}"
                raise ModelError(
                    f"the adapter has {known!r:.120}: {what}", where=where, hint="Take the model it was trained for"
                )
            if isinstance(module, Experts):
                stack = known.split(".")[-2]
                layers += [path] if path not in layers else []
                if stack in module.STACKS and known.endswith(f".lora_A.{stack}.weight"):
                    _check_rank(f"{path}.{stack}", shape[0] / module.count, config, where)
            elif known.endswith((".lora_A.weight", ".lora_embedding_A")) and len(shape) == 2 and shape[0]:
                layers.append(path)
                _check_rank(path, shape[0], config, where)
        elif known in own:
            if shape != own[known].shape:
                raise ModelError(
                    f"{known} is {shape}, that of the model is {own[known].shape}", where=where,
                    hint="Take the model it was trained for",
                )  # fmt: skip
            whole.append(known)
        else:
            raise ModelError(
                f"the adapter has {known!r:.120}, which the model has not", where=where,
                hint="Take the model it was trained for",
            )  # fmt: skip
    if not layers:
        raise ModelError("the file has no LoRA matrices", where=where)
    return layers, whole


def _check_rank(path: str, rank: float, config: LoraConfig, where: str) -> None:
    """ModelError for another rank than that of the settings."""
    if rank != config.rank(path):
        raise ModelError(
            f"the matrices of {path} have rank {rank:g}, the settings say {config.rank(path)}", where=where
        )


def _fill(model: Module, name: str, state: dict[str, Tensor], where: str) -> None:
    """Copies the tensors of a file into the new adapter of a model."""
    own = {path: value for path, value in adapter_state(model, name).items() if ".lora_" in path}
    missing = sorted(own.keys() - state.keys())
    extra = sorted(state.keys() - own.keys())
    if missing or extra:
        what = f"missing {missing[0]}" if missing else f"unexpected {extra[0]}"
        raise ModelError(f"the adapter's tensors do not fit its settings: {what}", where=where)
    with no_grad():
        for path, value in own.items():
            if value.shape != state[path].shape:
                raise ModelError(
                    f"{path} is {tuple(state[path].shape)}, the model needs {tuple(value.shape)}", where=where,
                    hint="Take the model it was trained for",
                )  # fmt: skip
            value.copy_(state[path].to(value.device))


__all__ = ["CONFIG", "WEIGHTS", "is_adapter", "load_adapter", "read_config", "save_adapter"]
