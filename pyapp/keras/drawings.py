"""Drawings of models: boxes for layers, arrows for what they pass on. The text is that of Graphviz; an SVG is laid out
here by ranks, as Sugiyama et al. 1981 do ("Methods for visual understanding of hierarchical system structures").
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from ..dataclass import dataclass
from .other_layers import InputLayer
from .structures import flatten, map_structure

__all__ = ["Dot", "model_to_dot", "plot_model"]

ROW, CHARACTER, PADDING = 22, 7.4, 12  # pixels: the height of a line, the width of a character of 13 px, around texts
GAP, RANK_GAP = 24, 36  # between boxes beside and above one another
COLOURS = {"title": ("#000000", "#ffffff"), "plain": ("#ffffff", "#000000"),
           "trains": ("#228b22", "#ffffff"), "fixed": ("#b22222", "#ffffff")}  # fmt: skip


@dataclass(eq=False)
class Box:
    """A layer, with the lines in its box; or a model whose layers are drawn inside."""

    layer: Any
    lines: list[tuple[str, str]] = field(default_factory=list)  # (text, key of COLOURS)
    inside: Graph | None = None
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


@dataclass(eq=False)
class Graph:
    """The layers of a model. Arrows may lead into the models inside."""

    name: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[tuple[Box, Box]] = field(default_factory=list)
    routes: list[list[Box]] = field(default_factory=list)  # of each arrow: the gaps beside boxes that it passes

    def within(self) -> Iterator[Graph]:
        """This graph, and those inside."""
        yield self
        for box in self.boxes:
            if box.inside is not None:
                yield from box.inside.within()

    def every_box(self) -> Iterator[Box]:
        """The boxes of this graph and of those inside, and the gaps that arrows pass."""
        for graph in self.within():
            yield from graph.boxes
            for route in graph.routes:
                yield from route

    def of_layer(self, layer: Any) -> Box:
        return next(box for box in self.boxes if box.layer is layer)


@dataclass(frozen=True)
class Settings:
    """What a drawing shows, as `plot_model` takes it."""

    show_shapes: bool = False
    show_dtype: bool = False
    show_layer_names: bool = True
    expand_nested: bool = False
    show_layer_activations: bool = False
    show_trainable: bool = False


def _graph_of(model: Any, settings: Settings) -> Graph:
    graph = Graph(model.name)
    layers = model.operations if _has_layers(model) else [model]
    for layer in layers:
        if settings.expand_nested and layer is not model and _has_layers(layer):
            graph.boxes.append(Box(layer, inside=_graph_of(layer, settings)))
        else:
            graph.boxes.append(Box(layer, _lines(layer, settings)))
    if model.graph is None:
        pairs = [(graph.of_layer(a), 0, graph.of_layer(b), 0) for a, b in zip(layers, layers[1:], strict=False)]
    else:
        pairs = list(_arrows_of_calls(model, graph))
    for source, index, target, place in pairs:
        arrow = _end_of(source, index), _start_of(target, place)
        if all(arrow[0] is not a or arrow[1] is not b for a, b in graph.arrows):
            graph.arrows.append(arrow)
    return graph


def _has_layers(layer: Any) -> bool:
    """Whether the layers inside and their order are known: of Sequential and functional models."""
    return getattr(layer, "graph", None) is not None or hasattr(layer, "_end")


def _arrows_of_calls(model: Any, graph: Graph) -> Iterator[tuple[Box, int, Box, int]]:
    """(the box that makes a tensor, which of its outputs, the box that takes it, which of its inputs)."""
    inputs = {id(layer.tensor): layer for layer in model.operations if isinstance(layer, InputLayer)}
    for call in model.graph.calls:
        for place, tensor in enumerate(call.inputs):
            maker = inputs[id(tensor)] if id(tensor) in inputs else tensor.call.layer
            yield graph.of_layer(maker), tensor.index, graph.of_layer(call.layer), place


def _end_of(box: Box, index: int) -> Box:
    """The box inside that makes an output."""
    if box.inside is None:
        return box
    model = box.layer
    if model.graph is None:
        return _end_of(box.inside.boxes[-1], index)
    tensor = flatten(model.graph.outputs)[index]
    if id(tensor) in model.graph.input_ids:
        return _of_input(box.inside, tensor)
    return _end_of(box.inside.of_layer(tensor.call.layer), tensor.index)


def _start_of(box: Box, place: int) -> Box:
    """The box inside that takes an input."""
    if box.inside is None:
        return box
    model = box.layer
    if model.graph is None:
        return _start_of(box.inside.boxes[0], place)
    return _of_input(box.inside, flatten(model.graph.inputs)[place])


def _of_input(graph: Graph, tensor: Any) -> Box:
    """The box of an input of a model."""
    return next(box for box in graph.boxes if isinstance(box.layer, InputLayer) and box.layer.tensor is tensor)


def _lines(layer: Any, settings: Settings) -> list[tuple[str, str]]:
    kind = type(layer).__name__
    if layer.is_operation:
        kind = "".join(part.capitalize() for part in layer.operation.split("_"))
    lines = [(f"{layer.name} ({kind})" if settings.show_layer_names else kind, "title")]
    activation = getattr(layer, "activation", None)
    if settings.show_layer_activations and activation is not None:
        lines.append((f"Activation: {getattr(activation, '__name__', None) or activation}", "plain"))
    if settings.show_shapes:
        if kind != "InputLayer":
            lines.append((f"Input shape: {_told(layer, 'input', 'shape')}", "plain"))
        lines.append((f"Output shape: {_told(layer, 'output', 'shape')}", "plain"))
    if settings.show_dtype:
        lines.append((f"Output dtype: {_told(layer, 'output', 'dtype')}", "plain"))
    if settings.show_trainable and layer.weights:
        lines.append(("Trainable", "trains") if layer.trainable else ("Non-trainable", "fixed"))
    return lines


def _told(layer: Any, side: str, what: str) -> str:
    """The shapes or dtypes of a layer's symbolic inputs or outputs; a question mark where it has none."""
    try:
        tensors = layer.tensor if isinstance(layer, InputLayer) else getattr(layer, side)
    except (AttributeError, ValueError):
        return "?"
    found = map_structure(lambda tensor: getattr(tensor, what), tensors)
    found = found[0] if isinstance(found, list) and len(found) == 1 else found
    return ", ".join(f"{k}: {v}" for k, v in found.items()) if isinstance(found, dict) else str(found)


class Dot:
    """The drawing of a model: `to_string` (Graphviz' language), `to_svg`, `write` and `create`."""

    def __init__(self, graph: Graph, rankdir: str, dpi: int, splines: str) -> None:
        self.graph, self.rankdir, self.dpi, self.splines = graph, rankdir, dpi, splines

    def to_string(self) -> str:
        """The drawing in Graphviz' language, DOT."""
        names: dict[int, str] = {}
        lines = [
            f"digraph {_quoted(self.graph.name)} {{",
            f"  graph [rankdir={self.rankdir}, dpi={self.dpi}, splines={self.splines}, concentrate=true];",
            '  node [shape=plain, fontname="Helvetica"];',
            *self._boxes(self.graph, names, "  "),
            *(
                f"  {names[id(a)]} -> {names[id(b)]} [penwidth=2];"
                for graph in self.graph.within()
                for a, b in graph.arrows
            ),
        ]
        return "\n".join([*lines, "}", ""])

    def _boxes(self, graph: Graph, names: dict[int, str], indent: str) -> Iterator[str]:
        for box in graph.boxes:
            names[id(box)] = name = f"box_{len(names)}"
            if box.inside is None:
                rows = ""
                for text, key in box.lines:
                    back, front = COLOURS[key]
                    rows += f'<tr><td bgcolor="{back}"><font color="{front}">{escape(text)}</font></td></tr>'
                table = f'<table border="0" cellborder="1" cellspacing="0" cellpadding="8">{rows}</table>'
                yield f"{indent}{name} [label=<{table}>];"
            else:
                yield f"{indent}subgraph cluster_{name} {{"
                yield f"{indent}  label={_quoted(box.inside.name)}; labeljust=l; style=dashed;"
                yield from self._boxes(box.inside, names, indent + "  ")
                yield f"{indent}}}"

    def to_svg(self) -> str:
        """The drawing as an SVG, without Graphviz. `dpi` and `splines` do not matter to it."""
        across = self.rankdir in ("LR", "RL")
        width, height = _place(self.graph, across)
        if self.rankdir in ("BT", "RL"):
            axis, side, size = ("x", "width", width) if across else ("y", "height", height)
            for box in self.graph.every_box():
                setattr(box, axis, size - getattr(box, axis) - getattr(box, side))
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
            f"<title>{escape(self.graph.name)}</title>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" '
            'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z"/></marker></defs>',
            *_svg_arrows(self.graph, self.rankdir),
            *_svg_boxes(self.graph),
        ]
        return "\n".join([*lines, "</svg>", ""])

    def create(self, format: str = "svg") -> bytes:
        """The drawing as a file's bytes: "svg", "dot", or with Graphviz another format such as "png" or "pdf"."""
        if format in ("dot", "gv", "raw"):
            return self.to_string().encode()
        if format == "svg":
            return self.to_svg().encode()
        program = shutil.which("dot")
        if program is None:
            raise RuntimeError(
                f"a drawing as {format!r} needs the program `dot` of Graphviz, which is not there: install Graphviz, "
                "or choose a name that ends in .svg or .dot"
            )
        done = subprocess.run([program, f"-T{format}"], input=self.to_string().encode(), capture_output=True)
        if done.returncode:
            raise RuntimeError(f"Graphviz could not draw {format!r}: {done.stderr.decode(errors='replace')[:300]}")
        return done.stdout

    def write(self, path: str | Path, format: str | None = None) -> None:
        """Writes `create(format)` to a file; without a format that of the name's ending."""
        Path(path).write_bytes(self.create(format or Path(path).suffix[1:] or "svg"))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- the layout of the SVG


def _place(graph: Graph, across: bool) -> tuple[float, float]:
    """Gives each box its place and size. Returns the size of the whole."""
    for box in graph.boxes:
        if box.inside is None:
            box.width = max(len(text) for text, _ in box.lines) * CHARACTER + 2 * PADDING
            box.height = ROW * len(box.lines) + 4
        else:
            width, height = _place(box.inside, across)
            box.width, box.height = max(width, len(box.inside.name) * CHARACTER + 2 * PADDING), height + ROW
    owner = {id(inner): box for box in graph.boxes for inner in _inside(box)}
    before: dict[int, list[Box]] = {id(box): [] for box in graph.boxes}
    for a, b in graph.arrows:
        before[id(owner[id(b)])].append(owner[id(a)])
    rank: dict[int, int] = {}
    for _ in graph.boxes:  # a path has as many boxes at most
        for box in graph.boxes:
            rank[id(box)] = max((rank.get(id(one), 0) + 1 for one in before[id(box)]), default=0)
    rows: list[list[Box]] = [[] for _ in range(max(rank.values(), default=0) + 1)]
    for box in graph.boxes:
        rows[rank[id(box)]].append(box)
    nearest: dict[int, list[Box]] = {id(box): [] for box in graph.boxes}  # what each comes after, one rank before
    graph.routes = []
    for a, b in graph.arrows:
        last, end, route = owner[id(a)], owner[id(b)], []
        for level in range(rank[id(last)] + 1, rank[id(end)]):
            gap = Box(None, width=CHARACTER, height=CHARACTER)
            nearest[id(gap)] = [last]
            rows[level].append(gap)
            route.append(gap)
            last = gap
        nearest[id(end)].append(last)
        graph.routes.append(route)
    return _in_rows(rows, nearest, across)


def _inside(box: Box) -> Iterator[Box]:
    yield box
    for inner in box.inside.boxes if box.inside else ():
        yield from _inside(inner)


def _in_rows(rows: list[list[Box]], before: dict[int, list[Box]], across: bool) -> tuple[float, float]:
    """Orders each row by what its boxes come after, and packs it around the middle."""

    def breadth(box: Box) -> float:
        return box.height if across else box.width

    middle: dict[int, float] = {}
    for row in rows:
        wanted = {
            id(box): sum(middle[id(one)] for one in before[id(box)]) / len(before[id(box)]) if before[id(box)] else 0.0
            for box in row
        }
        row.sort(key=lambda box: wanted[id(box)])
        at = -1e30
        for box in row:
            middle[id(box)] = max(wanted[id(box)], at + breadth(box) / 2)
            at = middle[id(box)] + breadth(box) / 2 + GAP
        shift = sum(wanted[id(box)] - middle[id(box)] for box in row) / len(row)
        for box in row:
            middle[id(box)] += shift
    least = min(middle[id(box)] - breadth(box) / 2 for row in rows for box in row)
    most = max(middle[id(box)] + breadth(box) / 2 for row in rows for box in row)
    along = float(PADDING)
    for row in rows:
        depth = max(box.width if across else box.height for box in row)
        for box in row:
            start = middle[id(box)] - breadth(box) / 2 - least + PADDING
            size = box.width if across else box.height
            place = along + (depth - size) / 2
            _move(box, *((place, start) if across else (start, place)))
        along += depth + RANK_GAP
    whole = most - least + 2 * PADDING, along - RANK_GAP + PADDING
    return (whole[1], whole[0]) if across else whole


def _move(box: Box, x: float, y: float) -> None:
    box.x, box.y = box.x + x, box.y + y
    if box.inside is not None:
        for inner in box.inside.boxes:
            _move(inner, x, y + ROW)
        for gap in (gap for route in box.inside.routes for gap in route):
            _move(gap, x, y + ROW)


def _svg_arrows(graph: Graph, rankdir: str) -> Iterator[str]:
    across, backwards = rankdir in ("LR", "RL"), rankdir in ("BT", "RL")

    def side(box: Box, far: bool) -> tuple[float, float]:
        """The middle of a side: of that which is farther down or to the right, or of the other."""
        if across:
            return box.x + box.width * far, box.y + box.height / 2
        return box.x + box.width / 2, box.y + box.height * far

    for one in graph.within():
        for (a, b), route in zip(one.arrows, one.routes, strict=True):
            points = [side(a, not backwards), *((g.x + g.width / 2, g.y + g.height / 2) for g in route)]
            points.append(side(b, backwards))
            path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
            for (x, y), (to_x, to_y) in zip(points, points[1:], strict=False):
                dx, dy = ((to_x - x) / 2, 0.0) if across else (0.0, (to_y - y) / 2)
                path += f"C{x + dx:.1f} {y + dy:.1f} {to_x - dx:.1f} {to_y - dy:.1f} {to_x:.1f} {to_y:.1f}"
            yield f'<path d="{path}" fill="none" stroke="black" stroke-width="1.5" marker-end="url(#head)"/>'


def _svg_boxes(graph: Graph) -> Iterator[str]:
    for box in graph.boxes:
        start, width = f'x="{box.x:.1f}"', f'width="{box.width:.1f}"'
        place = f'{start} y="{box.y:.1f}" {width}'
        if box.inside is not None:
            yield f'<rect {place} height="{box.height:.1f}" fill="none" stroke="black" stroke-dasharray="5 3"/>'
            yield f'<text x="{box.x + 6:.1f}" y="{box.y + 15:.1f}">{escape(box.inside.name)}</text>'
            yield from _svg_boxes(box.inside)
            continue
        yield f'<rect {place} height="{box.height:.1f}" fill="white" stroke="black"/>'
        for k, (text, key) in enumerate(box.lines):
            back, front = COLOURS[key]
            top = box.y + 2 + k * ROW
            yield f'<rect {start} y="{top:.1f}" {width} height="{ROW}" fill="{back}" stroke="black"/>'
            yield (
                f'<text x="{box.x + box.width / 2:.1f}" y="{top + 15:.1f}" text-anchor="middle" fill="{front}">'
                f"{escape(text)}</text>"
            )


def model_to_dot(
    model: Any, show_shapes: bool = False, show_dtype: bool = False, show_layer_names: bool = True,
    rankdir: str = "TB", expand_nested: bool = False, dpi: int = 200, subgraph: bool = False,
    show_layer_activations: bool = False, show_trainable: bool = False, splines: str = "ortho",
) -> Dot:  # fmt: skip
    """The drawing of a model that is built: boxes with the names and classes of the layers, and what `show_…` asks
    for, from top to bottom ("TB"), or "LR", "BT" or "RL". `expand_nested` draws the layers of the models inside.
    `subgraph` is accepted: models inside are drawn as parts of the whole. ValueError for a model without weights."""
    if not model.built:
        raise ValueError(f"{model.name} has no weights yet: call build() or the model itself before it is drawn")
    if rankdir not in ("TB", "LR", "BT", "RL"):
        raise ValueError(f"model_to_dot: rankdir is TB, LR, BT or RL, not {rankdir!r:.40}")
    settings = Settings(
        show_shapes, show_dtype, show_layer_names, expand_nested, show_layer_activations, show_trainable
    )
    return Dot(_graph_of(model, settings), rankdir, dpi, splines)


def plot_model(
    model: Any, to_file: str | Path = "model.png", show_shapes: bool = False, show_dtype: bool = False,
    show_layer_names: bool = False, rankdir: str = "TB", expand_nested: bool = False, dpi: int = 200,
    show_layer_activations: bool = False, show_trainable: bool = False, splines: str = "ortho",
) -> Any:  # fmt: skip
    """Draws a model (see `model_to_dot`) to a file: .svg and .dot as they are, .png, .pdf and others with Graphviz.
    Returns the picture where IPython runs, so that a notebook shows it."""
    path = Path(to_file)
    drawing = model_to_dot(
        model, show_shapes, show_dtype, show_layer_names, rankdir, expand_nested, dpi,
        show_layer_activations=show_layer_activations, show_trainable=show_trainable, splines=splines,
    )  # fmt: skip
    drawing.write(path, None if path.suffix else "png")
    if "IPython" not in sys.modules or path.suffix not in (".svg", ".png", ".jpg", ".jpeg", ""):
        return None
    display = sys.modules["IPython"].display
    return display.SVG(filename=str(path)) if path.suffix == ".svg" else display.Image(filename=str(path))
