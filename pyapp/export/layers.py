"""Layers of exported programs as records: the class of pyapp.nn by name, and its constructor's arguments.

A layer is made again by its constructor, on the meta device, and takes tensors of the shapes that it then has. So a
record cannot give it sizes that its weights do not have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from .. import nn
from ..engine import set_grad_enabled
from ..engine.device import Device
from ..engine.tensor import Tensor
from ..errors import FileFormatError
from ..nn import Module

Encode = Callable[[Any], Any]
_MODULE = frozenset(vars(Module())) | {"training"}  # what every module has
# Arguments that a layer does not keep under their names.
_OF_TRANSFORMERS: dict[str, Callable[[Any], Any]] = {
    "d_model": lambda layer: layer.self_attn.embed_dim,
    "nhead": lambda layer: layer.self_attn.num_heads,
    "dim_feedforward": lambda layer: layer.linear1.out_features,
    "dropout": lambda layer: layer.dropout1.p,
    "layer_norm_eps": lambda layer: layer.norm1.eps,
    "batch_first": lambda layer: layer.self_attn.batch_first,
    "bias": lambda layer: layer.linear1.bias is not None,
}
_OF_ATTENTION: dict[str, Callable[[Any], Any]] = {
    "bias": lambda layer: layer.in_proj_bias is not None,
    "add_bias_kv": lambda layer: layer.bias_k is not None,
}


def _of_first(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An argument of a whole transformer, which its first layer keeps."""
    return lambda model: read(model.encoder.layers[0])


_ARGUMENTS: dict[type[Module], dict[str, Callable[[Any], Any]]] = {
    nn.TransformerEncoderLayer: _OF_TRANSFORMERS,
    nn.TransformerDecoderLayer: _OF_TRANSFORMERS,
    nn.TransformerEncoder: {"encoder_layer": lambda stack: stack.layers[0]},
    nn.TransformerDecoder: {"decoder_layer": lambda stack: stack.layers[0]},
    nn.MultiheadAttention: _OF_ATTENTION,
    nn.Transformer: {
        **{name: _of_first(read) for name, read in _OF_TRANSFORMERS.items()},
        "activation": lambda model: model.encoder.layers[0].activation,
        "norm_first": lambda model: model.encoder.layers[0].norm_first,
        "num_encoder_layers": lambda model: len(model.encoder.layers),
        "num_decoder_layers": lambda model: len(model.decoder.layers),
    },
    nn.AdaptiveLogSoftmaxWithLoss: {"cutoffs": lambda layer: layer.cutoffs[:-1]},  # which ends in n_classes
}


def _class_of(name: str) -> type[Module]:
    """The class of pyapp.nn of that name. FileFormatError for others."""
    found = getattr(nn, name, None) if name in nn.__all__ else None
    if not isinstance(found, type) or not issubclass(found, Module):
        raise FileFormatError(f"the program has a layer {name!r:.60}, which is none of pyapp.nn")
    return found


def _plain(module: Module) -> dict[str, Any]:
    """The settings of a module: what its attributes are beside tensors and modules."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in _MODULE and not isinstance(value, (Tensor, Module))
    }


def _argument(module: Module, parameter: inspect.Parameter) -> Any:
    """The argument of the constructor; parameter.empty where it is the default, or not known."""
    name = parameter.name
    if (read := _ARGUMENTS.get(type(module), {}).get(name)) is not None:
        return read(module)
    if name in ("device", "dtype"):
        return parameter.empty
    value = getattr(module, name, parameter.empty)
    if name in module._parameters or isinstance(value, Tensor) and "Tensor" not in str(parameter.annotation):
        return value is not None  # `bias` and the like
    return parameter.empty if callable(value) and name in dir(type(module)) else value


def described(module: Module, encode: Encode, path: str) -> dict[str, Any]:
    """The record of a layer. TypeError for those that a file cannot have."""
    kind = type(module)
    if kind.__name__ not in nn.__all__ or getattr(nn, kind.__name__) is not kind:
        raise TypeError(
            f"export.save: {path!r} is a {kind.__name__}, no layer of pyapp.nn; remove parametrizations before export, "
            "and let classes of your own be traced"
        )
    args, kwargs = [], {}
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            args = [encode(child) for child in module.children()]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            value = _argument(module, parameter)
            if value is not parameter.empty:
                kwargs[parameter.name] = encode(value)
    return {"class": kind.__name__, "args": args, "kwargs": kwargs}


def made(record: Any, decode: Encode) -> Module:
    """The layer of a record, on the meta device."""
    if not isinstance(record, dict) or not isinstance(record.get("class"), str):
        raise FileFormatError("the program has a layer that is no record")
    kind = _class_of(record["class"])
    args = [decode(value) for value in record["args"]]
    kwargs = {name: decode(value) for name, value in record["kwargs"].items()}
    try:
        with Device("meta"), set_grad_enabled(False):
            return kind(*args, **kwargs)
    except (TypeError, ValueError, RuntimeError, MemoryError, AssertionError, AttributeError, KeyError) as error:
        raise FileFormatError(f"the program has a {kind.__name__} that cannot be made: {error!s:.200}") from error


def tensors_of(module: Module) -> Iterator[tuple[str, Module, str, bool]]:
    """(path, owner, name, whether it is a parameter) of all tensors of a module."""
    for path, owner in module.named_modules():
        for group, is_parameter in ((owner._parameters, True), (owner._buffers, False)):
            for name, value in group.items():
                if value is not None:
                    yield f"{path}.{name}" if path else name, owner, name, is_parameter


def same(a: Module, b: Module) -> str:
    """In what two layers differ, beside the numbers in their tensors; an empty text if in nothing."""
    left, right = dict(a.named_modules()), dict(b.named_modules())
    if left.keys() != right.keys():
        return "its parts"
    for path, module in left.items():
        other = right[path]
        if type(module) is not type(other):
            return f"the class of {path!r}"
        mine, found = _plain(module), _plain(other)
        for name in mine.keys() | found.keys():
            if name not in mine or name not in found or not _equal(mine[name], found[name]):
                return f"{path}.{name}".lstrip(".")
    shapes = [{p: (tuple(getattr(o, n).shape), q) for p, o, n, q in tensors_of(m)} for m in (a, b)]
    return "" if shapes[0] == shapes[1] else "its tensors"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    if callable(a) and callable(b):
        return a is b
    return type(a) is type(b) and bool(a == b)
