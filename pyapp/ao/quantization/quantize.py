"""From a model to its quantised form: `prepare` sets observers, `convert` replaces layers."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from ... import nn
from ...engine import Tensor, float16
from ..nn import intrinsic, qat, quantized
from ..nn.quantized import dynamic
from ..types import qint8, quint4x2, quint8
from .fake_quantize import (
    FakeQuantizeBase,
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from .observer import ObserverBase
from .qconfig import (
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .stubs import DeQuantStub, QuantStub, QuantWrapper

__all__ = [
    "add_quant_dequant", "convert", "get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings", "prepare", "prepare_qat",
    "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat", "swap_module",
]  # fmt: skip

_STATIC: dict[Any, Any] = {
    QuantStub: quantized.Quantize, DeQuantStub: quantized.DeQuantize, quantized.FloatFunctional: quantized.QFunctional,
    **{
        getattr(nn, name): getattr(quantized, name)
        for name in """
            Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm2d BatchNorm3d Dropout
            ELU Embedding EmbeddingBag GroupNorm Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm
            LeakyReLU ReLU6 PReLU Sigmoid Hardsigmoid Softmax Tanh
        """.split()
    },
    **{
        getattr(intrinsic, name): getattr(quantized, name)
        for name in "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU".split()
    },
    **{getattr(qat, name): getattr(quantized, name.replace("Bn1d", "").replace("Bn", "")) for name in (
        "Linear", "Conv1d", "Conv2d", "Conv3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "LinearBn1d",
        "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    )},
    qat.ConvBn1d: quantized.Conv1d, qat.ConvBn2d: quantized.Conv2d, qat.ConvBn3d: quantized.Conv3d,
}  # fmt: skip
_QAT: dict[Any, Any] = {
    **{getattr(nn, name): getattr(qat, name) for name in ("Linear", "Conv2d", "Conv3d")},
    **{
        getattr(intrinsic, name): getattr(qat, name)
        for name in """
            ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d ConvReLU3d LinearReLU
            LinearBn1d
        """.split()
    },
}
_DYNAMIC: dict[Any, Any] = {
    **{getattr(nn, name): getattr(dynamic, name) for name in "Linear LSTM GRU LSTMCell GRUCell RNNCell".split()},
    intrinsic.LinearReLU: dynamic.LinearReLU, qat.Linear: dynamic.Linear, nn.EmbeddingBag: quantized.EmbeddingBag,
    nn.Embedding: quantized.Embedding,
}  # fmt: skip
# Layers whose results have a known range, so that nothing is measured; training rounds their results.
_FIXED: dict[Any, Any] = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Class of a layer → class of the quantised one."""
    return dict(_STATIC)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Class of a layer → class of the one that rounds its weight."""
    return dict(_QAT)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Class of a layer → class of the one that rounds its inputs by their own range."""
    return dict(_DYNAMIC)


def get_default_qconfig_propagation_list() -> set[Any]:
    """The classes that get observers."""
    return {kind for kind in (*_STATIC, *_QAT, *_DYNAMIC) if kind not in _FIXED} | {nn.Sequential}


def propagate_qconfig_(module: Any, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None) -> None:
    """Gives every layer the `qconfig` of its name or class in qconfig_dict, else its own, else that of its parent."""
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module: Any, given: Any, parent: Any, prefix: str) -> None:
    found = given.get(prefix, given.get(type(module), parent))
    module.qconfig = found = getattr(module, "qconfig", found)
    transposed = isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d))
    if found is not None and transposed and found.weight().qscheme.is_per_channel:
        name = type(module).__name__
        raise AssertionError(f"Per channel weight observer is not supported yet for {name}.")
    for name, child in module.named_children():
        _propagate(child, given, found, f"{prefix}.{name}" if prefix else name)


def _observe_result(module: Any, inputs: Any, output: Tensor) -> Tensor:
    return module.activation_post_process(output)


def _observe_input(module: Any, inputs: Any) -> Tensor:
    return module.activation_post_process(inputs[0])


def _memoryless(qconfig: Any) -> bool:
    made = qconfig.activation()
    return getattr(getattr(made, "activation_post_process", made), "averaging_constant", None) == 1


def _insert(module: Any, special: Any = None) -> None:
    if module.qconfig is None or isinstance(module, DeQuantStub) or "activation_post_process" in module._modules:
        return
    observer = (special or module.qconfig.activation)()
    place = next((value.device for value in (*module.parameters(), *module.buffers())), None)
    module.add_module("activation_post_process", observer if place is None else observer.to(place))
    if _memoryless(module.qconfig):
        module.register_forward_pre_hook(_observe_input, prepend=True)
    else:
        module.register_forward_hook(_observe_result, prepend=True)


def _add_observers(module: Any, listed: set[Any], whole: set[Any]) -> None:
    for child in list(module.children()):
        if type(child) is nn.Dropout:
            continue
        if isinstance(child, quantized.FloatFunctional):
            if child.qconfig is not None:
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, intrinsic._FusedModule) or type(child) in whole:
            _insert(child)
        elif child.training and type(child) in _FIXED:
            _insert(child, _FIXED[type(child)])
        else:
            _add_observers(child, listed, whole)
    alone = not module._modules or hasattr(module, "weight_fake_quant")
    if alone and type(module) in listed and not isinstance(module, nn.Sequential):
        _insert(module)


def prepare(
    model: Any, inplace: bool = False, allow_list: Any = None, observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """A copy of a model whose layers are observed: those with a `qconfig`, their own or of a module that they are in.
    Call it with typical inputs, then `convert` it."""
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(module, "qconfig", None) for module in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through "
            "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    listed = get_default_qconfig_propagation_list() if allow_list is None else set(allow_list)
    _add_observers(model, listed, set(observer_non_leaf_module_list or ()))
    return model


def prepare_qat(model: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """A copy of a model in training whose layers round their weights and results. AssertionError in evaluation."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = _QAT if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


def swap_module(
    mod: Any, mapping: Any, custom_module_class_mapping: Any = None, use_precomputed_fake_quant: bool = False
) -> Any:
    """The layer that `mapping` has for the class of `mod`, with its hooks; `mod` itself without one or a `qconfig`."""
    if getattr(mod, "qconfig", None) is None or type(mod) not in mapping:
        return mod
    made = mapping[type(mod)].from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    for hook in mod._forward_pre_hooks.values():
        if hook is not _observe_input:
            made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observe_result:
            made.register_forward_hook(hook)
    return made


def _swap_all(module: Any, mapping: Any, precomputed: bool) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, (ObserverBase, FakeQuantizeBase)):
            continue
        if not isinstance(child, intrinsic._FusedModule):
            _swap_all(child, mapping, precomputed)
        setattr(module, name, swap_module(child, mapping, use_precomputed_fake_quant=precomputed))


def _forget(module: Any) -> None:
    for part in module.modules():
        vars(part).pop("qconfig", None)
        if isinstance(part._modules.get("activation_post_process"), (ObserverBase, FakeQuantizeBase)):
            del part.activation_post_process
        for hooks, own in ((part._forward_pre_hooks, _observe_input), (part._forward_hooks, _observe_result)):
            for key in [key for key, hook in hooks.items() if hook is own]:
                del hooks[key]


def convert(
    module: Any, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True, is_reference: bool = False,
    convert_custom_config_dict: Any = None, use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """A copy of a prepared model with quantised layers, by `mapping` from classes to classes, without observers."""
    if is_reference:
        raise NotImplementedError("convert: there are no reference layers; leave is_reference out")
    if not inplace:
        module = copy.deepcopy(module)
    _swap_all(module, _STATIC if mapping is None else mapping, use_precomputed_fake_quant)
    if remove_qconfig:
        _forget(module)
    return module


def quantize(model: Any, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """prepare, `run_fn(model, *run_args)`, convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Any, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """prepare_qat, `run_fn(model, *run_args)`, convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def quantize_dynamic(
    model: Any, qconfig_spec: Any = None, dtype: Any = qint8, mapping: Any = None, inplace: bool = False
) -> Any:
    """A copy of a model in evaluation whose layers have weights of `dtype`, and round their inputs by their own range:
    Linear, LSTM, GRU and cells, or what qconfig_spec names, a set of classes and names, or a dict to QConfigs. With
    quint8 embeddings. ValueError for other types."""
    choices = {qint8: default_dynamic_qconfig, float16: float16_dynamic_qconfig,
               quint8: float_qparams_weight_only_qconfig, quint4x2: float_qparams_weight_only_qconfig_4bit}  # fmt: skip
    if qconfig_spec is None or isinstance(qconfig_spec, set):
        if dtype not in choices:
            raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig "
                             "please")  # fmt: skip
        usual = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell}
        if dtype in (quint8, quint4x2):
            usual = {nn.EmbeddingBag, nn.Embedding} if dtype is quint8 else {nn.EmbeddingBag}
        qconfig_spec = dict.fromkeys(usual if qconfig_spec is None else qconfig_spec, choices[dtype])
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    return convert(model, _DYNAMIC if mapping is None else mapping, inplace=True)


def add_quant_dequant(module: Any) -> Any:
    """Puts every layer with a `qconfig` between stubs."""
    if not module._modules and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        module._modules[name] = add_quant_dequant(child)
    return module
