"""The types of a model's matrices: those that are asked for, and those with which it can compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.engine import Tensor, as_dtype, no_grad, quant
from pyapp.engine.blocks.layout import BLOCK_TYPES, SHORTER
from pyapp.engine.dtype import float16, float32
from pyapp.errors import OptionError
from pyapp.formats.mixtures import MIXTURES, Mixture
from pyapp.nn import Module, Parameter

from .slots import Slot, slots
from .stored import Stored

FLOATS = ("float32", "float16", "bfloat16")  # types of matrices besides the block types and mixtures


def chosen_types(
    plans: Mapping[str, tuple[Slot, Stored]], dtype: str | None, config: Mapping[str, Any]
) -> dict[str, str]:
    """The type of each matrix, by name; empty if the types of the file are kept."""
    if dtype is None:
        return {}
    return matrix_types({name: slot for name, (slot, _) in plans.items()}, dtype, config)


def matrix_types(found: Mapping[str, Slot], dtype: str, config: Mapping[str, Any]) -> dict[str, str]:
    """The type that each matrix among the parameters gets by `dtype`, by name. OptionError for an unknown dtype."""
    matrices = [name for name, slot in found.items() if slot.is_matrix or slot.is_stack]
    if dtype in MIXTURES:
        called = {name: f"{name}.weight" if found[name].is_stack else name for name in matrices}
        stacks = [own for name, own in called.items() if found[name].is_stack]
        mixture = Mixture(dtype, called.values(), config, stacks=stacks)
        return {name: mixture.type_of(own) for name, own in called.items()}
    try:
        kind = as_dtype(dtype).name
        matrices += [name for name, slot in found.items() if slot.is_filter]
    except (TypeError, ValueError):
        kind = None
    if kind is None or kind not in (*FLOATS, *BLOCK_TYPES):
        raise OptionError(
            f"{dtype!r:.50} is not a type of weights", where="dtype",
            hint=f"Types: {', '.join((*FLOATS, *BLOCK_TYPES, *MIXTURES))}",
        )  # fmt: skip
    return dict.fromkeys(matrices, kind)


def convert_matrices(model: Module, dtype: str, config: Mapping[str, Any]) -> None:
    """Converts the matrices of a model to the type `dtype` in place; arguments and errors as those of load_weights."""
    found = dict(slots(model))
    for name, kind in matrix_types(found, dtype, config).items():
        slot = found[name]
        owner, attribute = slot.places[0]
        value = owner._parameters[attribute]
        if name == slot.name and value is not None:  # of a tied matrix, its first name
            with no_grad():
                parameter = Parameter(converted(value.detach(), slot, kind), requires_grad=False)
            for other, called in slot.places:
                setattr(other, called, parameter)


def converted(value: Tensor, slot: Slot, kind: str | None) -> Tensor:
    """The tensor in the type `kind`, or in a type that the model can compute with."""
    if slot.is_filter and kind is not None:
        matrix = in_type(value.reshape(value.shape[0], -1), kind)
        return matrix if matrix.dtype.is_quantized else matrix.reshape(value.shape)
    if not slot.is_matrix:
        return quant.dequantize(value).to(float32) if value.dtype is not float32 else value
    if slot.is_transposed:  # the layer's matrix lies in memory as (out, in)
        matrix = value.T
        return in_type(matrix if matrix.dtype.is_quantized else matrix.contiguous(), kind).T
    return in_type(value, kind)


def in_type(value: Tensor, kind: str | None) -> Tensor:
    if kind is None:
        kept = value.dtype.is_quantized or value.dtype in (float16, float32) or value.dtype.name == "bfloat16"
        return value if kept else value.to(float32)
    wanted = next((k for k in (kind, SHORTER.get(kind)) if k and _fits(k, value.shape[1])), "float32")
    if wanted == value.dtype.name:
        return value
    if wanted in BLOCK_TYPES:
        return quant.quantize(value, wanted)
    dense = quant.dequantize(value).to(float32) if value.dtype is not float32 else value
    return dense.to(wanted)


def _fits(kind: str, columns: int) -> bool:
    return kind not in BLOCK_TYPES or columns % BLOCK_TYPES[kind].values == 0
