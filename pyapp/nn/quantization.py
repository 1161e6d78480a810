"""Quantises a model's weights to a block format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..engine import Tensor, as_dtype, quant
from ..engine.blocks.layout import SHORTER
from ..errors import ArgumentError
from .layers.embedding import Embedding
from .layers.experts import Experts
from .layers.linear import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["quantize"]


def quantize(
    model: Module,
    kind: str = "q8_0",
    where: Callable[[str, Tensor], bool] | None = None,
    importance: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Replaces the weights of the model's Linear, Embedding and Experts layers by tensors of the block type `kind`, in
    place.

    `where(name, weight)` chooses among them. `importance` maps names to the weight of each column in the rounding
    error, (columns,). Shared weights stay shared. Rows that are not whole blocks get the SHORTER type, or are not
    quantised. Returns name → type for the replaced weights. Quantised weights have no gradient: train in floating
    point. ValueError for unknown types, and for NaN and infinite weights.
    """
    if as_dtype(kind).name not in quant.BLOCK_TYPES:
        raise ArgumentError(f"quantize: {kind} is not a block type; use one of {', '.join(quant.BLOCK_TYPES)}")
    made: dict[int, tuple[Tensor, Tensor]] = {}  # id of the old weight → (old weight, kept alive, new weight)
    names: dict[str, str] = {}
    for path, module in model.named_modules():
        if not isinstance(module, Linear | Embedding | Experts):
            continue
        for attribute in module.STACKS if isinstance(module, Experts) else ("weight",):
            weight, name = getattr(module, attribute), f"{path}.{attribute}" if path else attribute
            if id(weight) not in made:
                chosen = _fitting(kind, weight)
                if chosen is None or (where is not None and not where(name, weight)):
                    continue
                columns = None if importance is None else importance.get(name)
                made[id(weight)] = weight, Parameter(_quantized(name, weight, chosen, columns), requires_grad=False)
                names[name] = chosen
            setattr(module, attribute, made[id(weight)][1])
    return names


def _fitting(kind: str, weight: Tensor) -> str | None:
    """`kind`, the SHORTER type, or None if the weight's rows fit neither or it is quantised already."""
    if not weight.dtype.is_floating_point or weight.ndim not in (2, 3) or not weight.numel():
        return None
    if weight.ndim == 3 and weight.shape[1] % quant.BAND:
        return None  # the matrices of a stack cannot be read alone
    fits = (name for name in (kind, SHORTER.get(kind)) if name and weight.shape[-1] % as_dtype(name).block == 0)
    return next(fits, None)


def _quantized(name: str, weight: Tensor, kind: str, importance: Any) -> Tensor:
    if not weight.detach().isfinite().all():
        raise ArgumentError(f"quantize: {name}: cannot quantize NaN or infinite values to {kind}")
    try:
        return quant.quantize(weight.reshape(-1, weight.shape[-1]), kind, importance)
    except ValueError as error:
        raise ArgumentError(f"quantize: {name}: {error}") from None
