"""A batch in microbatches, and their outputs as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Tensor
from ...engine.ops import cat
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ...utils._pytree import is_namedtuple_instance, tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec"]


@dataclass(frozen=True)
class TensorChunkSpec:
    """The dim along which a tensor is divided into microbatches; None in its place: every microbatch has the whole."""

    split_dim: int

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """Those of several dims."""
        return tuple(map(TensorChunkSpec, chunk_dims))

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """Those of several dims by name."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


def chunks_of(value: Any, count: int, spec: Any, what: str) -> list[Any]:
    """The parts of one argument: of a tensor, or of each in a list, tuple or dict, along the dim that `spec` says;
    anything else goes to all.
    """
    if spec is None:
        return [value] * count
    if not isinstance(spec, TensorChunkSpec):
        raise TypeError(f"{what}: how it is divided is a TensorChunkSpec or None, got {describe(spec)}")
    leaves, containers = tree_flatten(value)
    parts = [_divided(x, count, spec.split_dim, what) if isinstance(x, Tensor) else [x] * count for x in leaves]
    return [tree_unflatten([part[i] for part in parts], containers) for i in range(count)]


def _divided(x: Tensor, count: int, dim: int, what: str) -> Sequence[Tensor]:
    if not -x.ndim <= dim < x.ndim or x.shape[dim] < count:
        raise ArgumentError(f"{what}, {describe(x)}, has not {count} parts for microbatches along dim {dim}")
    return x.tensor_split(count, dim)


def split_inputs(
    args: Sequence[Any], kwargs: Mapping[str, Any], count: int, args_spec: Sequence[Any] | None,
    kwargs_spec: Mapping[str, Any] | None,
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:  # fmt: skip
    """The arguments of each microbatch; without specs, tensors are divided along their first dim."""
    whole = TensorChunkSpec(0)
    specs = [whole] * len(args) if args_spec is None else list(args_spec)
    if len(specs) != len(args):
        raise ArgumentError(f"args_chunk_spec has {len(specs)} entries for {len(args)} arguments")
    named = dict.fromkeys(kwargs, whole) if kwargs_spec is None else dict(kwargs_spec)
    if named.keys() != kwargs.keys():
        raise ArgumentError(f"kwargs_chunk_spec names {sorted(named)}, the arguments are {sorted(kwargs)}")
    parts = [chunks_of(x, count, spec, f"argument {i}") for i, (x, spec) in enumerate(zip(args, specs, strict=True))]
    others = {name: chunks_of(x, count, named[name], f"argument {name!r}") for name, x in kwargs.items()}
    return [
        (tuple(every[i] for every in parts), {name: every[i] for name, every in others.items()}) for i in range(count)
    ]


def merged(outputs: Sequence[Any], spec: Any) -> Any:
    """The outputs of all microbatches as one: tensors along the dim that `spec` says (None: the first)."""
    first = outputs[0]
    if isinstance(first, Tensor):
        dim = 0 if spec is None else spec.split_dim
        return cat(list(outputs), dim) if first.ndim else list(outputs)
    if isinstance(first, (list, tuple)):
        specs = [None] * len(first) if spec is None else list(spec)
        whole = [merged([each[i] for each in outputs], own) for i, own in enumerate(specs)]
        return type(first)(*whole) if is_namedtuple_instance(first) else type(first)(whole)
    if isinstance(first, dict):
        return {key: merged([each[key] for each in outputs], None if spec is None else spec[key]) for key in first}
    return list(outputs)
