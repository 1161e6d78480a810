"""Linear layers of one input as one matrix in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...engine import Tensor, no_grad, ops, quant
from ...engine.grad_mode import STATE
from ...engine.launch import capturing
from ...engine.ops import cat
from ...engine.thread_local import ThreadLocal
from ..module import Module
from .linear import Linear

__all__ = ["JoinedLinear"]


class _Thread(ThreadLocal):
    """Whether layers are joined in this thread."""

    joins = True


_THREAD = _Thread()


@contextmanager
def separate_layers() -> Iterator[None]:
    """Inside, no layers are joined: each weight of a model that is read keeps its own memory, such as a mapped file's.
    For models whose weights are copied after that.
    """
    before, _THREAD.joins = _THREAD.joins, False
    try:
        yield
    finally:
        _THREAD.joins = before


class JoinedLinear:
    """Computes several Linear layers of the same input as one: `joined(owner, x)` is x (..., in) → (..., the outputs of
    all layers, side by side).

    The layers are children of `owner` with the names given here, and stay the owner of the parameters: states,
    gradients and optimisers see each by its name. Their weights become parts of one matrix in memory at the first call,
    or by `join`. Layers that cannot be joined run one by one: those of different dtypes, those with hooks or of other
    classes, and all while gradients are recorded.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self._whole: tuple[Tensor, Tensor | None] | None = None
        self._parts: tuple[Any, ...] = ()  # the storages of the layers' weights and biases when they were joined

    def __getstate__(self) -> dict[str, Any]:
        """A copy joins its own layers."""
        return {"names": self.names, "_whole": None, "_parts": ()}

    def __call__(self, owner: Module, x: Tensor) -> Tensor:
        parts = [owner._modules[name] for name in self.names]
        whole = self._joined(parts)
        if whole is None:
            return cat([part(x) for part in parts], -1)
        return ops.linear(x, *whole)

    def join(self, owner: Module) -> bool:
        """Joins the weights now, if they can be joined; whether they are."""
        return self._joined([owner._modules[name] for name in self.names]) is not None

    def _joined(self, parts: list[Module]) -> tuple[Tensor, Tensor | None] | None:
        """The weight and the bias of all parts; None if they run one by one."""
        if STATE.enabled and any(parameter.requires_grad for part in parts for parameter in part._parameters.values()):
            return None
        if any(type(part) is not Linear or part._hooks is not None for part in parts):
            return None
        if self._parts != (stores := _storages(parts)):
            self._whole, self._parts = None, stores
            if not capturing() and _THREAD.joins and _fit(parts):
                with no_grad():
                    self._whole = _join(parts)
                self._parts = _storages(parts)
        return self._whole


def forget_joined(module: Module) -> None:
    """Frees the matrices of the JoinedLinear of a module (not of those inside it), whose layers have other weights by
    now.
    """
    for value in vars(module).values():
        if isinstance(value, JoinedLinear):
            value._whole, value._parts = None, ()


def _storages(parts: list[Any]) -> tuple[Any, ...]:
    return tuple(t._storage for part in parts for t in (part.weight, part.bias) if t is not None)


def _fit(parts: list[Any]) -> bool:
    """Whether the weights can be one matrix without a change of their values, and the biases one vector."""
    kind, device = parts[0].weight.dtype, parts[0].weight.device
    if any(not part.weight.is_parameter for part in parts):
        return False  # fully_sharded.py has gathered them, for this call alone
    if any(part.weight.dtype is not kind or part.weight.device is not device for part in parts):
        return False
    biases = [part.bias for part in parts]
    if any((bias is None) != (biases[0] is None) for bias in biases):
        return False
    if biases[0] is not None and any(bias.dtype is not biases[0].dtype for bias in biases):
        return False
    if not kind.is_quantized:
        return True
    whole = all(part.weight.shape[0] % quant.BAND == 0 for part in parts) or kind.name not in quant.BANDED
    return whole and not any(quant.is_transposed(part.weight) for part in parts)


def _join(parts: list[Any]) -> tuple[Tensor, Tensor | None]:
    """One matrix, and one bias; the parameters of the parts become views of them."""
    weight = quant.concatenate([part.weight.detach() for part in parts])
    bias = None if parts[0].bias is None else cat([part.bias.detach() for part in parts])
    row = 0
    for part in parts:
        rows = part.weight.shape[0]
        part.weight.data = quant.rows_of(weight, row, rows)
        if bias is not None:
            part.bias.data = bias.narrow(0, row, rows)
        row += rows
    return weight, bias
