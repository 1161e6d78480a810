"""Joins layers that follow each other, so that only what the last one gives is rounded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ..nn import intrinsic

__all__ = ["fuse_conv_bn", "fuse_conv_bn_relu", "fuse_known_modules", "fuse_linear_bn", "fuse_modules",
           "fuse_modules_qat"]  # fmt: skip


def _trained(kind: type) -> Callable[..., Any]:
    return lambda is_qat, *layers: kind(*layers)


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """A convolution and its batch norm as one layer: for training with rounding, or with the norm in its weight."""
    if conv.training != bn.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    if is_qat:
        return getattr(intrinsic, f"ConvBn{conv.dims}d")(conv, bn)
    return fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """The same with ReLU."""
    if is_qat:
        return getattr(intrinsic, f"ConvBnReLU{conv.dims}d")(conv, bn, relu)
    return getattr(intrinsic, f"ConvReLU{conv.dims}d")(fuse_conv_bn(False, conv, bn), relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """The same of Linear and BatchNorm1d."""
    if is_qat:
        return intrinsic.LinearBn1d(linear, bn)
    return fuse_linear_bn_eval(linear, bn)


def _fuse_transposed(is_qat: bool, conv: Any, bn: Any) -> Any:
    if is_qat:
        raise NotImplementedError("Fusing ConvTranspose and BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(conv, bn, transpose=True)


FUSERS: dict[tuple[type, ...], Callable[..., Any]] = {
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): _trained(intrinsic.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _trained(intrinsic.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): _trained(intrinsic.BNReLU3d),
}
for _dims in (1, 2, 3):
    _conv, _norm = getattr(nn, f"Conv{_dims}d"), getattr(nn, f"BatchNorm{_dims}d")
    FUSERS[_conv, _norm], FUSERS[_conv, _norm, nn.ReLU] = fuse_conv_bn, fuse_conv_bn_relu
    FUSERS[_conv, nn.ReLU] = _trained(getattr(intrinsic, f"ConvReLU{_dims}d"))
    FUSERS[getattr(nn, f"ConvTranspose{_dims}d"), _norm] = _fuse_transposed


def fuse_known_modules(mod_list: list[Any], is_qat: bool, additional_fuser_method_mapping: Any = None) -> list[Any]:
    """The layers as one, followed by an Identity for each other. AssertionError for classes that do not go together."""
    kinds = tuple(type(mod) for mod in mod_list)
    fuser = {**FUSERS, **(additional_fuser_method_mapping or {})}.get(kinds)
    if fuser is None:
        raise AssertionError(f"did not find fuser method for: {kinds} ")
    fused = fuser(is_qat, *mod_list)
    first, last = mod_list[0], mod_list[-1]
    for hook in first._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    first._forward_pre_hooks.clear()
    for hook in last._forward_hooks.values():
        fused.register_forward_hook(hook)
    last._forward_hooks.clear()
    return [fused, *(nn.Identity().train(first.training) for _ in mod_list[1:])]


def _fuse(model: Any, names: Any, is_qat: bool, inplace: bool, fuser_func: Any, custom: Any) -> Any:
    if not inplace:
        model = copy.deepcopy(model)
    more = (custom or {}).get("additional_fuser_method_mapping", {})
    for group in [names] if all(isinstance(name, str) for name in names) else names:
        layers = [model.get_submodule(name) for name in group]
        for name, layer in zip(group, fuser_func(layers, is_qat, more), strict=True):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, layer)
    return model


def fuse_modules(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """A copy of a model in evaluation in which layers are joined: `modules_to_fuse` is a list of names, or of such
    lists. Batch norms go into the weights before them. The first layer becomes the joined one, the others Identity.
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Any = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The same of a model that is trained further: batch norms stay."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
