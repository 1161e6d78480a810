"""The table of `model.summary()`: layers, the shapes of their outputs, their numbers of parameters, and in models with
branches what they are connected to. It has Keras' form and widths.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .core import Layer
from .other_layers import InputLayer
from .structures import flatten

if TYPE_CHECKING:
    from .models import Model

_ALIGNMENTS = {"Param #": str.rjust, "Trainable": str.center}  # of columns by title; the others begin on the left


def summary(
    model: Model, line_length: int | None = None, positions: Sequence[float] | None = None,
    expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None,
) -> str:  # fmt: skip
    """A table of the layers, their output shapes and numbers of parameters, as text. ValueError where a column would
    have less than four characters, or where no layers have the names of `layer_range`.
    """
    graph = model.graph
    branched = graph is not None and not _is_chain(model)
    titles = ["Layer (type)", "Output Shape", "Param #"]
    if branched:
        titles.append("Connected to")
        ends = list(positions or (0.3, 0.56, 0.74, 1.0))
    else:
        ends = list(positions or (0.45, 0.8, 1.0))
    most = 108 if branched else 88
    if show_trainable:
        titles.append("Trainable")
        ends = [end * 0.9 for end in ends] + [1.0]
        most += 12
    if len(ends) != len(titles):
        raise ValueError(f"summary: positions has one number for each of {', '.join(titles)}, got {ends}")
    length = line_length or min(most, shutil.get_terminal_size().columns - 4)
    rows: list[list[str]] = []

    def add(layers: Iterable[Layer], depth: int) -> None:
        for layer in layers:
            prefix = "   " * depth + "└ " if depth else ""
            count = f"{layer.count_params():,}" if layer.built or layer.has_no_weights() else "0 (unbuilt)"
            row = [f"{prefix}{layer.name} ({_type_name(layer)})", _output_shape(layer), count]
            if branched:
                row.append(_connections(model, layer))
            if show_trainable:
                row.append("-" if not layer.weights else "Y" if layer.trainable else "N")
            rows.append(row)
            if expand_nested:
                add(getattr(layer, "layers", ()), depth + 1)

    add(_between(model.operations, layer_range), 0)
    trained, others = model.trainable_weights, model.non_trainable_weights
    if model.compiled and model.was_evaluated and not model.optimizer.built:
        model.optimizer.build(trained)  # Keras' evaluate makes the optimiser's state
    optimizer = model.optimizer if model.compiled and model.optimizer.built else None
    states = [] if optimizer is None else optimizer.variables
    lines = [f'Model: "{model.name}"', *_table(titles, rows, _widths(ends, length))]
    lines += [f" Total params: {_counted([*trained, *others, *states])}"]
    lines += [f" Trainable params: {_counted(trained)}", f" Non-trainable params: {_counted(others)}"]
    if optimizer is not None:
        lines.append(f" Optimizer params: {_counted(states)}")
    return "\n".join(lines)


def _is_chain(model: Model) -> bool:
    """Whether each call of a functional model takes what the one before gives, and nothing else."""
    graph = model.graph
    layers = {id(call.layer) for call in graph.calls}
    if len(flatten(graph.inputs)) != 1 or len(layers) != len(graph.calls):
        return False
    before = flatten(graph.inputs)
    for call in graph.calls:
        if len(call.inputs) != 1 or all(call.inputs[0] is not one for one in before):
            return False
        before = flatten(call.outputs)
    return True


def _connections(model: Model, layer: Layer) -> str:
    """The tensors that a layer takes in this model: the layer that makes each, which call of it, and which output."""
    found = []
    for call in model.graph.calls:
        if call.layer is layer:
            for tensor in call.inputs:
                if tensor.call is None or id(tensor) in model.graph.input_ids:
                    found.append(f"{tensor.name if tensor.call is None else tensor.call.layer.name}[0][0]")
                else:
                    maker = tensor.call.layer
                    number = next(k for k, one in enumerate(maker._symbolic_calls) if one is tensor.call)
                    found.append(f"{maker.name}[{number}][{tensor.index}]")
    return ", ".join(found) or "-"


def _type_name(layer: Layer) -> str:
    """The class of a layer. That of an operator is the name of its function: GetItem of get_item."""
    if layer.is_operation:
        return "".join(part.capitalize() for part in layer.operation.split("_"))
    return type(layer).__name__


def _output_shape(layer: Layer) -> str:
    """The shape of what the last symbolic call gives, or else of what inputs like those of `build` give."""
    if isinstance(layer, InputLayer):
        return _written(layer.tensor.shape)
    if layer._symbolic_calls:
        shapes = [leaf.shape for leaf in flatten(layer._symbolic_calls[-1].outputs)]
    elif isinstance(getattr(layer, "outputs", None), list) and layer.outputs:
        shapes = [leaf.shape for leaf in layer.outputs]
        shapes = shapes if len(shapes) == 1 else tuple(shapes)  # type: ignore[assignment]
    elif layer._built_for is not None:
        try:
            shapes = layer.compute_output_shape(layer._built_for)
        except (TypeError, ValueError, NotImplementedError):  # a layer of one's own that takes more than a tensor
            return "?"
    else:
        return "?"
    if isinstance(shapes, list) and len(shapes) == 1:
        shapes = shapes[0]
    return _written(shapes)


def _written(shapes: Any) -> str:
    """Shapes as Keras writes them: one of a single dim has no comma."""
    return re.sub(r"\((\w+),\)", r"(\1)", str(shapes))


def _between(layers: list[Layer], names: Any) -> list[Layer]:
    """The layers from the first to the second of two names (regular expressions), both included; all for None."""
    if names is None:
        return layers
    places = [[k for k, layer in enumerate(layers) if re.match(name, layer.name)] for name in names]
    if len(places) != 2 or not all(places):
        raise ValueError(f"summary: layer_range is a pair of names of layers, got {names!r:.80}")
    first, last = min(places[0]), max(places[1])
    return layers[min(first, last) : max(first, last) + 1]


def _counted(weights: Iterable[Any]) -> str:
    """The number of elements, and of bytes in a unit that fits."""
    every = {id(weight): weight for weight in weights}.values()
    size: float = sum(weight.numel() * weight.dtype.itemsize for weight in every)
    count = sum(weight.numel() for weight in every)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1024:
            return f"{count:,} ({size:.2f} {unit})"
        size /= 1024
    return f"{count:,} ({size:.2f} PB)"


def _widths(ends: Sequence[float], length: int) -> list[int]:
    """The widths of columns that end at these parts of a line. The lines around and between them, and the spaces
    beside texts, take room from all alike.
    """
    widths, last = [], 0
    for end in ends:
        widths.append(int(end * length) - last)
        last += widths[-1]
    if min(widths) < 4:
        raise ValueError(f"summary: {length} characters are too few for these columns; give a larger line_length")
    left, columns = sum(widths) + 2 * len(widths) - (length - len(widths) - 1), len(widths)
    for k in range(columns):
        taken = round(left / (columns - k))
        widths[k], left = widths[k] + 2 - taken, left - taken
    return widths


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a text: broken at spaces, and cut where one word is longer."""
    lines = [""]
    for word in re.findall(r"\S+\s*|\s+", text):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    lines = [line.rstrip() for line in lines]
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def _table(titles: list[str], rows: list[list[str]], widths: list[int]) -> list[str]:
    """The lines of a table in a box; `widths` have a space on both sides of the texts."""

    def ruled(line: str, left: str, cross: str, right: str) -> str:
        return left + cross.join(line * width for width in widths) + right

    def filled(cells: list[str], bar: str) -> list[str]:
        parts = [_wrapped(text, width - 2) for text, width in zip(cells, widths, strict=True)]
        found = []
        for k in range(max(map(len, parts))):
            texts = []
            for title, part, width in zip(titles, parts, widths, strict=True):
                align = _ALIGNMENTS.get(title, str.ljust)
                texts.append(f" {align(part[k] if k < len(part) else '', width - 2)} ")
            found.append(bar + bar.join(texts) + bar)
        return found

    lines = [ruled("━", "┏", "┳", "┓"), *filled(titles, "┃"), ruled("━", "┡", "╇", "┩")]
    for number, row in enumerate(rows):
        if number:
            lines.append(ruled("─", "├", "┼", "┤"))
        lines += filled(row, "│")
    return [*lines, ruled("─", "└", "┴", "┘")]
