"""Layers around a layer."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, no_grad, ops
from ...train.stateless import about_to_write
from ..core import Layer
from ..initializers import TruncatedNormal
from ..other_layers import ModuleLayer, as_layer
from ..weight_attributes import weights_read_in

__all__ = ["SpectralNormalization", "TorchModuleWrapper", "Wrapper"]


class Wrapper(Layer):
    """Base of layers that have a layer inside, `self.layer`."""

    def __init__(self, layer: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.layer = as_layer(layer)

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True


class SpectralNormalization(Wrapper):
    """Divides the kernel of a layer by its largest singular value at each step of training (Miyato et al. 2018, arXiv
    1802.05957). `power_iterations` improve the estimate of it at each step."""

    def __init__(self, layer: Any, power_iterations: int = 1, **settings: Any) -> None:
        super().__init__(layer, **settings)
        if not isinstance(power_iterations, int) or power_iterations < 1:
            raise ValueError(f"SpectralNormalization: power_iterations is a positive integer, not {power_iterations!r}")
        self.power_iterations = power_iterations

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self._weight_order.append(self._kernel())  # the first of the weights, as in Keras
        self.vector_u = self.add_weight(
            (1, self._kernel().shape[-1]), TruncatedNormal(stddev=0.02), trainable=False, name="vector_u"
        )

    def _kernel(self) -> Tensor:
        for name in ("kernel", "embeddings"):
            found: Tensor | None = self.layer.__dict__.get(name)  # itself, not as it is read
            if found is not None:
                return found
        raise ValueError(f"SpectralNormalization: {type(self.layer).__name__} has neither a kernel nor embeddings")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            with no_grad(), weights_read_in(None):
                self._normalize()
        return self.layer(inputs)

    def _normalize(self) -> None:
        kernel = self._kernel()
        flat = kernel.detach().reshape(-1, kernel.shape[-1])
        u: Any = self.vector_u.detach()
        for _ in range(self.power_iterations):
            v = _unit(u @ flat.T)
            u = _unit(v @ flat)
        sigma = v @ flat @ u.T  # (1, 1)
        empty = (flat == 0).all()  # then nothing can be divided
        about_to_write(self.vector_u, kernel)
        self.vector_u.copy_(ops.where(empty, self.vector_u, u))
        kernel.copy_(ops.where(empty, flat, flat / ops.where(empty, ops.ones_like(sigma), sigma)).reshape(kernel.shape))


def _unit(x: Tensor) -> Tensor:
    return x / x.square().sum().clamp(min=1e-12).sqrt()


class TorchModuleWrapper(ModuleLayer):
    """A module of `pyapp.nn` among the layers, which may also stand there as it is."""

    def __init__(self, module: Any, name: str | None = None, output_shape: Any = None) -> None:
        super().__init__(module, name)
        self.output_shape = output_shape
