"""Where the quantised part of a model begins and ends."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ...nn import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(Module):
    """Gives what it gets, until `convert` replaces it."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig is not None:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantStub(_Stub):
    """The beginning of the quantised part: `convert` makes it a layer that rounds."""


class DeQuantStub(_Stub):
    """The end of the quantised part."""


class QuantWrapper(Module):
    """A module between both."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant, self.module = QuantStub(qconfig), DeQuantStub(qconfig), module
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        return self.dequant(self.module(self.quant(X)))
