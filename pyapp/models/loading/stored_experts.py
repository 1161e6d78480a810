"""How files store the matrices of experts: each by itself, or transposed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyapp.engine import Tensor, quant
from pyapp.engine.dtype import float32
from pyapp.formats.checkpoint import TensorInfo

from .stored import Stored


def experts_apart(
    tensors: Mapping[str, TensorInfo], place: str, parts: tuple[str, ...], experts: int, layers: int,
    stacks: str = "mlp.experts", root: str = "model.layers",
) -> dict[str, Stored]:  # fmt: skip
    """How files that keep the matrices of each expert apart store the stacks of nn.layers.experts.Experts: `parts` are
    the names of gate (if there is one), up and down, as in model.layers.0.PLACE.3.GATE.weight (in `place`, {} may say
    where the number is); `stacks` is the path of the stacks in a layer, `root` that of the layers.
    """
    place = place if "{}" in place else f"{place}.{{}}"
    first = "gate_up_proj" if len(parts) == 3 else "up_proj"
    found: dict[str, Stored] = {}
    for layer in range(layers if experts else 0):
        before = f"{root}.{layer}."
        gate_up, down = (
            tuple(f"{before}{place.format(e)}.{part}.weight" for e in range(experts) for part in chosen)
            for chosen in (parts[:-1], parts[-1:])
        )
        if gate_up[0] not in tensors and gate_up[0].removeprefix("model.") not in tensors:
            continue
        found[f"{before}{stacks}.{first}"] = Stored(gate_up, values=_stacked(experts))
        found[f"{before}{stacks}.down_proj"] = Stored(down, values=_stacked(experts))
    return found


def _transposed(parts: Sequence[Tensor]) -> Tensor:
    """(E, K, N) → (E, N, K)."""
    return parts[0].transpose(1, 2).contiguous()


def experts_transposed(
    shapes: Mapping[str, Sequence[int]], place: str, layers: Iterable[int], hidden: int, inner: int
) -> dict[str, Stored]:
    """How files that have each matrix of the stacks of nn.layers.experts.Experts transposed, as their `shapes` say by
    the model's names, store them: `place` is the path of the stacks, with {} for the number of a layer. A square matrix
    is transposed where the other of its layer is.
    """
    found: dict[str, Stored] = {}
    for layer in layers:
        parts = (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner))
        names = [f"{place.format(layer)}.{part}" for part, *_ in parts]
        given = [tuple(shapes.get(name, ()))[1:] for name in names]
        turned = [shape == (columns, rows) for shape, (_, rows, columns) in zip(given, parts, strict=True)]
        if any(was and rows != columns for was, (_, rows, columns) in zip(turned, parts, strict=True)):
            found |= {name: Stored((name,), join=_transposed) for name, was in zip(names, turned, strict=True) if was}
    return found


def stacks_renamed(name: str) -> str:
    """The parameter of a stack of experts that a file calls as layers of a feed-forward part, `fc1` and `fc2`."""
    for old, new in ((".experts.fc1.weight", ".experts.gate_up_proj"), (".experts.fc2.weight", ".experts.down_proj")):
        name = name.replace(old, new)
    return name


def with_experts_transposed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by the names of a model's parameters with each matrix of the experts' stacks transposed: (E, inputs,
    outputs). Those in blocks stay as they are.
    """
    return {
        name: value.transpose(1, 2).contiguous() if value.ndim == 3 and ".experts." in name else value
        for name, value in tensors.items()
    }


def gated_experts_apart(config: Any, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """`experts_apart` of a configuration with `num_experts`, under the names that most published files have."""
    parts = "gate_proj", "up_proj", "down_proj"
    return experts_apart(tensors, "mlp.experts", parts, config.num_experts, config.num_hidden_layers)


def _stacked(experts: int) -> Callable[[Tensor], Tensor]:
    """(E N, K) → (E, N, K)."""

    def stack(value: Tensor) -> Tensor:
        dense = quant.dequantize(value).to(float32)
        return dense.reshape(experts, dense.shape[0] // experts, dense.shape[1])

    return stack
