"""Adapters of a model: adding, choosing, merging and removing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyapp.engine import Tensor, no_grad, quant
from pyapp.errors import OptionError
from pyapp.nn import Experts, Module, MultiheadAttention, Parameter

from .config import ALL_LINEAR, LoraConfig, ends_in
from .layers import GROUPS, LowRank, adapt, can_adapt, is_linear

_RECORD = "_adapters"  # the attribute of a model that has its Adapters
HEADS = ("lm_head", "output", "score", "classifier", "embed_out")  # of which "all-linear" takes none
CHOOSING = "indexer"  # a part that chooses the tokens that are seen: it gets no gradient, so "all-linear" leaves it out


class Adapters:
    """The adapters of a model: their settings, and what they train besides their matrices."""

    def __init__(self) -> None:
        self.configs: dict[str, LoraConfig] = {}
        self.whole: dict[str, dict[str, Tensor]] = {}  # adapter → path of a parameter → its own value
        self.originals: dict[str, Tensor] = {}  # path → the model's value, of the parameters that are exchanged now
        self.active: tuple[str, ...] = ()


def adapters_of(model: Module) -> Adapters:
    """The record of a model's adapters; an empty one if it has none."""
    return getattr(model, _RECORD, None) or Adapters()


def adapted_layers(model: Module, name: str | None = None) -> Iterator[tuple[str, LowRank]]:
    """(path, layer) of the layers with adapters, or with the adapter `name`."""
    for path, module in model.named_modules():
        if isinstance(module, LowRank) and (name is None or name in module.scalings):
            yield path, module


def add_adapter(model: Module, config: LoraConfig, name: str = "default", trainable: bool = True) -> list[str]:
    """Adds a new adapter to a model, and makes it the active one; returns the paths of the layers that it adapts.

    The model's own parameters no longer require gradients. The base may be quantised: it stays as it is. OptionError
    for a name that is taken, or a target that fits no layer.
    """
    check_name(model, name)
    targets = chosen_layers(model, config)
    whole = _whole_parameters(model, config, list(targets))
    unmerge_adapters(model)
    for path, module in targets.items():
        adapt(module, name, config, path)
    enter(model, name, config, whole)
    set_adapter(model, name, trainable=trainable)
    return list(targets)


def check_name(model: Module, name: str) -> None:
    """OptionError for a name that a model's adapter has already, or that cannot be part of a parameter's name."""
    if not isinstance(name, str) or not name or "." in name:
        raise OptionError(f"an adapter's name is a text without a dot, not {name!r:.50}", where="name")
    if name in adapters_of(model).configs:
        raise OptionError(f"the model has an adapter {name!r} already", where="name", hint="Remove it, or take another")


def enter(model: Module, name: str, config: LoraConfig, whole: dict[str, Tensor]) -> None:
    found = adapters_of(model)
    found.configs[name] = config
    found.whole[name] = whole
    object.__setattr__(model, _RECORD, found)


def chosen_layers(model: Module, config: LoraConfig) -> dict[str, Any]:
    """The layers that an adapter of these settings adapts, by path. OptionError if there are none, or one that cannot
    have adapters.
    """
    found: dict[str, Any] = {}
    read = _weights_read_directly(model)
    for path, module in model.named_modules():
        if not path or _is_part_of_adapter(path):
            continue
        if path in read:
            if config.target_modules != ALL_LINEAR and config.targets(path):
                raise OptionError(
                    f"{path} cannot have an adapter: nn.MultiheadAttention reads its weight without calling it",
                    where="target_modules",
                )
            continue
        if isinstance(module, Experts) and any(config.targets_parameter(f"{path}.{stack}") for stack in module.STACKS):
            found[path] = module
        elif config.target_modules == ALL_LINEAR:
            if (
                is_linear(module)
                and not ends_in(path, HEADS)
                and CHOOSING not in path.split(".")
                and not config.excludes(path)
            ):
                found[path] = module
        elif config.targets(path):
            if not can_adapt(module) or isinstance(module, Experts):
                raise OptionError(
                    f"{path} is a {type(module).__name__}; adapters are for Linear and Embedding layers",
                    where="target_modules",
                    hint=f"Name its stacks in target_parameters: {path}.gate_up_proj" if can_adapt(module) else None,
                )
            found[path] = module
    for name in config.target_parameters or ():
        if not any(
            ends_in(f"{path}.{stack}", [name])
            for path, module in found.items()
            for stack in getattr(module, "STACKS", ())
        ):
            raise OptionError(
                f"{name!r:.80} is not a stack of experts of the model", where="target_parameters",
                hint="Such are, for example, mlp.experts.gate_up_proj and mlp.experts.down_proj",
            )  # fmt: skip
    if not found:
        known = sorted({path.rpartition(".")[2] for path, module in model.named_modules() if can_adapt(module)})
        raise OptionError(
            f"{config.target_modules!r:.100} fits no layer of the model", where="target_modules",
            hint=f"Its layers are called {', '.join(known)}",
        )  # fmt: skip
    for path, module in found.items():
        if any(parameter is not None and parameter.part is not None for parameter in module._parameters.values()):
            raise OptionError(
                f"{path} has only a part of its parameters in this process", where="target_modules",
                hint="Add the adapter first, then call fully_shard; models that parallelize divides take none",
            )  # fmt: skip
    return found


def _weights_read_directly(model: Module) -> set[str]:
    """Paths of layers that are never called: an adapter there would have no effect."""
    return {
        f"{path}.out_proj".lstrip(".")
        for path, module in model.named_modules()
        if isinstance(module, MultiheadAttention)
    }


def _is_part_of_adapter(path: str) -> bool:
    return any(part in GROUPS or part == "lora_dropout" for part in path.split("."))


def _whole_parameters(model: Module, config: LoraConfig, targets: Sequence[str]) -> dict[str, Tensor]:
    """Copies of the parameters that the adapter trains as a whole, by path."""
    found: dict[str, Tensor] = {}
    fits = dict.fromkeys(config.modules_to_save or (), False)
    for path, module in model.named_modules():
        if _is_part_of_adapter(path):
            continue
        named = [name for name in fits if path.endswith(name)]  # "norm" fits input_layernorm too, as in peft
        fits |= dict.fromkeys(named, True)
        biases = config.bias == "all" or (config.bias == "lora_only" and path in targets)
        for name, value in module.named_parameters() if named else module._parameters.items():
            if not _is_part_of_adapter(name) and (named or (biases and name.rpartition(".")[2] == "bias")):
                with no_grad():
                    copy = quant.dequantize(value.detach()) if value.dtype.is_quantized else value.detach().clone()
                found[f"{path}.{name}" if path else name] = Parameter(copy)
    missing = [name for name, fit in fits.items() if not fit]
    if missing:
        raise OptionError(f"the model has no module {missing[0]!r:.80}", where="modules_to_save")
    return found


def set_adapter(model: Module, names: str | Sequence[str] | None, trainable: bool = False) -> None:
    """Makes adapters the active ones; None: none of them, the model computes as without. Of several, the parts are
    added up.

    With `trainable`, their parameters require gradients; all others do not. Merged adapters are unmerged first. Text
    sessions made before keep computing with the old ones. OptionError for an unknown name, and for several of which
    more than one stores the same whole parameter.
    """
    record = adapters_of(model)
    chosen = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    for name in chosen:
        if name not in record.configs:
            known = ", ".join(record.configs) or "none"
            raise OptionError(f"the model has no adapter {name!r:.50}", where="names", hint=f"There are: {known}")
    whole: dict[str, Tensor] = {}
    for name in chosen:
        if both := whole.keys() & record.whole[name].keys():
            raise OptionError(
                f"two adapters store {min(both)}, so they cannot be active together", where="names", hint="Take one"
            )
        whole |= record.whole[name]
    unmerge_adapters(model)
    for path, value in record.originals.items():
        _exchange(model, path, value)
    record.originals = {path: model.get_parameter(path) for path in whole}
    for path, value in whole.items():
        _exchange(model, path, value)
    record.active = chosen
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for value in whole.values():
        value.requires_grad_(trainable)
    for _, layer in adapted_layers(model):
        layer.active = tuple(name for name in chosen if name in layer.scalings)
        for name in layer.active:
            for value in _parameters_of(layer, name):
                value.requires_grad_(trainable)


def _exchange(model: Module, path: str, value: Tensor) -> None:
    owner, _, name = path.rpartition(".")
    setattr(model.get_submodule(owner), name, value)


def _parameters_of(layer: LowRank, name: str) -> Iterator[Tensor]:
    for group in GROUPS:
        part = getattr(layer, group, {})
        if name in part:
            found = part[name]
            yield from found.parameters() if isinstance(found, Module) else (found,)


def merge_adapters(model: Module, quantized: bool = True) -> None:
    """Adds the active adapters to the weights, so that the model is as fast as without. `unmerge_adapters`, and
    choosing others, restores every bit: the old weights are kept. Quantised weights are quantised again, which rounds;
    `quantized` False leaves their adapters beside them.
    """
    for _, layer in adapted_layers(model):
        if quantized or not layer.is_quantized:
            layer.merge()


def unmerge_adapters(model: Module) -> None:
    """Restores the weights from before merge_adapters."""
    for _, layer in adapted_layers(model):
        layer.unmerge()


def merge_and_unload(model: Module) -> Module:
    """The model with the active adapters in its weights and without any adapter, to be written or used alone. A head
    that shares the embedding's weight gets its own if one of the two was adapted.
    """
    merge_adapters(model)
    for _, layer in list(adapted_layers(model)):
        layer.merged = None
        for name in list(layer.scalings):
            layer.remove(name)
    if hasattr(model, _RECORD):
        delattr(model, _RECORD)
    return model


def remove_adapter(model: Module, name: str) -> None:
    """Removes an adapter. OptionError for an unknown name."""
    record = adapters_of(model)
    if name not in record.configs:
        raise OptionError(f"the model has no adapter {name!r:.50}", where="name")
    if name in record.active:
        set_adapter(model, [other for other in record.active if other != name])
    for _, layer in list(adapted_layers(model, name)):
        layer.remove(name)
    del record.configs[name], record.whole[name]
    if not record.configs:
        delattr(model, _RECORD)


@contextmanager
def disabled_adapters(model: Module) -> Iterator[None]:
    """A context in which the model computes without its adapters."""
    before = adapters_of(model).active
    training = any(value.requires_grad for value in model.parameters())
    set_adapter(model, None)
    try:
        yield
    finally:
        set_adapter(model, before, trainable=training)


def adapter_state(model: Module, name: str) -> dict[str, Tensor]:
    """The tensors of an adapter by dotted path, without the adapter's name: "layers.0.q_proj.lora_A.weight" … They
    share memory with the model.
    """
    record = adapters_of(model)
    if name not in record.configs:
        raise OptionError(f"the model has no adapter {name!r:.50}", where="name")
    found = {path: value.detach() for path, value in record.whole[name].items()}
    for path, layer in adapted_layers(model, name):
        for group in GROUPS:
            part = getattr(layer, group, {})
            if name not in part:
                continue
            value = part[name]
            if isinstance(value, Module):
                found |= {f"{path}.{group}.{last}": tensor for last, tensor in value.state_dict().items()}
            else:
                found[f"{path}.{group}"] = value.detach()
    return found


def resolved_targets(model: Module, name: str) -> LoraConfig:
    """The settings of an adapter with "all-linear" replaced by the names of the layers."""
    config = adapters_of(model).configs[name]
    if config.target_modules != ALL_LINEAR:
        return config
    paths = [path for path, layer in adapted_layers(model, name) if not isinstance(layer, Experts)]
    short = sorted({path.rpartition(".")[2] for path in paths})
    same = {path for path, module in model.named_modules() if can_adapt(module) and ends_in(path, short)}
    return replace(config, target_modules=short if same == set(paths) else sorted(paths))


__all__ = [
    "add_adapter", "adapter_state", "adapters_of", "disabled_adapters", "merge_adapters", "merge_and_unload",
    "remove_adapter", "set_adapter", "unmerge_adapters",
]  # fmt: skip
