"""Layers after static quantisation. Weights are held in 8 bits and become float32 for the moment of a call."""

from __future__ import annotations

from typing import Any

import pyapp.nn.functional as F

from .... import nn
from ....engine import Tensor, float32
from ....engine.ops import cat, tensor
from ....nn import Module
from ...tensors import QuantizedTensor, rounded
from ...types import bounds_of, quint8
from .. import qat
from ..adopting import adopted
from .weights import OutputSteps, QuantizedWeight, quantized_by

__all__ = [
    "BNReLU2d", "BNReLU3d", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "DeQuantize", "Dropout", "ELU", "Embedding",
    "EmbeddingBag", "FloatFunctional", "GroupNorm", "Hardsigmoid", "Hardswish", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LeakyReLU", "Linear", "LinearReLU", "PReLU", "QFunctional", "Quantize", "ReLU6",
    "Sigmoid", "Softmax", "Tanh",
]  # fmt: skip


def _observed(mod: Any) -> tuple[float, int, int, int]:
    """(scale, zero_point, least, greatest step) that the observer of a layer's results gives."""
    observer = getattr(mod, "activation_post_process", None)
    if observer is None:
        raise AssertionError(f"{type(mod).__name__} has no observer of its results: prepare() the model first")
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point), *bounds_of(observer.dtype)


class Quantize(Module):
    """Rounds to steps of `scale` (1,), of which `zero_point` (1,) stands for 0: (…) → (…) float32."""

    def __init__(self, scale: Any, zero_point: Any, dtype: Any = quint8, factory_kwargs: Any = None) -> None:
        super().__init__()
        self.dtype = dtype
        self.register_buffer("scale", tensor([float(scale)]))
        self.register_buffer("zero_point", tensor([int(zero_point)]))

    def forward(self, X: Tensor) -> Tensor:
        return rounded(X, float(self.scale), int(self.zero_point), *bounds_of(self.dtype))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return cls(scale, zero_point, mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """The end of the quantised part: what comes is float32 already, or a QuantizedTensor."""

    def forward(self, Xq: Any) -> Tensor:
        return Xq.dequantize() if isinstance(Xq, QuantizedTensor) else Xq

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        return cls()


class _Weighted(QuantizedWeight, OutputSteps):
    """Base of Linear and the convolutions: `inner` has the settings of the layer, without weights."""

    relu = False
    inner: Any

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a layer with observers, which was prepared."""
        layer = mod
        if isinstance(mod, qat._Rounded):
            observer, (weight, bias) = mod.weight_fake_quant, mod.joined()
        else:
            layer = mod[0] if isinstance(mod, nn.Sequential) else mod
            weight, bias = layer.weight.detach(), layer.bias
            observer = mod.qconfig.weight()
        if use_precomputed_fake_quant:
            observer = _Held(observer)
        steps = _observed(mod)
        made = cls.__new__(cls)
        Module.__init__(made)
        object.__setattr__(made, "inner", _bare(layer))
        made.hold(quantized_by(observer, weight.to(float32)), bias)
        made.give(*steps)
        made.training = mod.training
        return made

    def forward(self, input: Tensor) -> Tensor:
        result = self._by(input, self.weight().dequantize(), self.bias_values)
        return rounded(F.relu(result) if self.relu else result, self.scale, self.zero_point, self.low, self.high)

    def _by(self, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        return self.inner._conv_forward(input, weight, bias)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        text = self.inner.extra_repr()
        return f"{text}, scale={self.scale}, zero_point={self.zero_point}"


class _Held:
    """An observer that does not look again."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer

    def __call__(self, x: Tensor) -> Tensor:
        return x

    def __getattr__(self, name: str) -> Any:
        return getattr(self._observer, name)


def _bare(layer: Any) -> Any:
    """The settings of a layer, without its weights."""
    made = adopted(next(kind for kind in type(layer).__mro__ if kind.__module__.startswith(nn.__name__)), layer)
    for name in ("weight", "bias"):
        if getattr(made, name) is not None:
            delattr(made, name)
            object.__setattr__(made, name, True)  # extra_repr says whether there is a bias
    for name in list(made._modules):
        delattr(made, name)
    return made


class Linear(_Weighted):
    """Linear with an int8 weight; its results lie on steps."""

    @property
    def in_features(self) -> int:
        return self.inner.in_features

    @property
    def out_features(self) -> int:
        return self.inner.out_features

    def _by(self, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"


class LinearReLU(Linear):
    """Linear and ReLU."""

    relu = True


class Conv1d(_Weighted):
    """Conv1d with an int8 weight; its results lie on steps."""


class Conv2d(_Weighted):
    """Conv2d with an int8 weight; its results lie on steps."""


class Conv3d(_Weighted):
    """Conv3d with an int8 weight; its results lie on steps."""


class ConvReLU1d(Conv1d):
    """Conv1d and ReLU."""

    relu = True


class ConvReLU2d(Conv2d):
    """Conv2d and ReLU."""

    relu = True


class ConvReLU3d(Conv3d):
    """Conv3d and ReLU."""

    relu = True


class _Transposed(_Weighted):
    def _by(self, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        layer = self.inner
        function = getattr(F, f"conv_transpose{layer.dims}d")
        return function(
            input, weight, bias, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation
        )


class ConvTranspose1d(_Transposed):
    """ConvTranspose1d with an int8 weight; its results lie on steps."""


class ConvTranspose2d(_Transposed):
    """ConvTranspose2d with an int8 weight; its results lie on steps."""


class ConvTranspose3d(_Transposed):
    """ConvTranspose3d with an int8 weight; its results lie on steps."""


class _Rounding(OutputSteps):
    """Base of layers that compute in float32, and round what they give."""

    fixed: tuple[float, int] | None = None  # the steps of a layer whose results have a known range

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        layer = mod
        if isinstance(mod, nn.Sequential):  # a batch norm and ReLU
            layer = mod[0]
        made = adopted(cls, layer)
        if cls.fixed is not None:
            made.give(*cls.fixed)
        else:
            made.give(*_observed(mod))
        return made

    def forward(self, input: Tensor) -> Tensor:
        return rounded(super().forward(input), self.scale, self.zero_point, self.low, self.high)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


class BatchNorm2d(_Rounding, nn.BatchNorm2d):
    """BatchNorm2d whose results lie on steps."""


class BatchNorm3d(_Rounding, nn.BatchNorm3d):
    """BatchNorm3d whose results lie on steps."""


class BNReLU2d(BatchNorm2d):
    """BatchNorm2d and ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class BNReLU3d(BatchNorm3d):
    """BatchNorm3d and ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class LayerNorm(_Rounding, nn.LayerNorm):
    """LayerNorm whose results lie on steps."""


class GroupNorm(_Rounding, nn.GroupNorm):
    """GroupNorm whose results lie on steps."""


class InstanceNorm1d(_Rounding, nn.InstanceNorm1d):
    """InstanceNorm1d whose results lie on steps."""


class InstanceNorm2d(_Rounding, nn.InstanceNorm2d):
    """InstanceNorm2d whose results lie on steps."""


class InstanceNorm3d(_Rounding, nn.InstanceNorm3d):
    """InstanceNorm3d whose results lie on steps."""


class ELU(_Rounding, nn.ELU):
    """ELU whose results lie on steps."""


class Hardswish(_Rounding, nn.Hardswish):
    """Hardswish whose results lie on steps."""


class LeakyReLU(_Rounding, nn.LeakyReLU):
    """LeakyReLU whose results lie on steps."""


class PReLU(_Rounding, nn.PReLU):
    """PReLU whose results lie on steps."""


class Sigmoid(_Rounding, nn.Sigmoid):
    """Sigmoid whose results lie on 256 steps from 0 to 1."""

    fixed = (1 / 256, 0)


class Hardsigmoid(_Rounding, nn.Hardsigmoid):
    """Hardsigmoid whose results lie on 256 steps from 0 to 1."""

    fixed = (1 / 256, 0)


class Softmax(_Rounding, nn.Softmax):
    """Softmax whose results lie on 256 steps from 0 to 1."""

    fixed = (1 / 256, 0)


class Tanh(_Rounding, nn.Tanh):
    """Tanh whose results lie on 256 steps from -1 to 1."""

    fixed = (2 / 256, 128)


class ReLU6(nn.ReLU6):
    """ReLU6: what lies on steps stays there."""

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        return cls(mod.inplace)


class Dropout(nn.Dropout):
    """Does nothing, as in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        return input

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        return cls(mod.p, mod.inplace)


class Embedding(QuantizedWeight):
    """Rows of a table of uint8 steps, each with a scale and a zero point: (…) whole numbers → (…, D) float32."""

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        observer = mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else mod.qconfig.weight()
        made = cls()
        made.num_embeddings, made.embedding_dim = mod.weight.shape
        made.mode, made.padding_idx = getattr(mod, "mode", "sum"), getattr(mod, "padding_idx", None)
        made.include_last_offset = getattr(mod, "include_last_offset", False)
        made.hold(quantized_by(observer, mod.weight.detach()), None)
        return made

    def forward(self, indices: Tensor) -> Tensor:
        rows = F.embedding(indices, self.steps.to(float32))
        zero, scale = self.weight_zero_point[indices].to(float32), self.weight_scale[indices].to(float32)
        return (rows - zero.unsqueeze(-1)) * scale.unsqueeze(-1)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        text = f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self.dtype}"
        return f"{text}, qscheme=pyapp.per_channel_affine_float_qparams"


class EmbeddingBag(Embedding):
    """Sums or means of rows of such a table, as nn.EmbeddingBag."""

    def forward(self, indices: Tensor, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        return F.embedding_bag(
            indices, self.weight().dequantize(), offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip


class FloatFunctional(Module):
    """Sums, products and the like of tensors as a module, so that what they give can be observed."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Any = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def _given(self, x: Tensor) -> Tensor:
        return self.activation_post_process(x)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self._given(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self._given(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return x * y

    def cat(self, x: Any, dim: int = 0) -> Tensor:
        return self._given(cat(list(x), dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self._given(F.relu(x + y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return self._given(x @ y)


class QFunctional(FloatFunctional, OutputSteps):
    """The same of numbers on steps: what is given is rounded."""

    def __init__(self) -> None:
        super().__init__()
        self.give(1.0, 0)

    def _given(self, x: Tensor) -> Tensor:
        return rounded(x, self.scale, self.zero_point, self.low, self.high)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> QFunctional:
        made = cls()
        if hasattr(mod.activation_post_process, "calculate_qparams"):
            made.give(*_observed(mod))
        return made

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"
