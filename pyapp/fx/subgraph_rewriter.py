"""Finds the places of a graph that compute what a pattern computes, and writes something else there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..dataclass import dataclass
from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _copy_attr
from .node import Node, map_arg


class Match(NamedTuple):
    """Where a pattern was found: the node that gives its result, and by the pattern's nodes those of the graph."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """The same, and the nodes that were written there."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


class _Search:
    """Compares a pattern with a graph, backwards from a result."""

    def __init__(self, module: GraphModule, pattern: GraphModule | None) -> None:
        self._module, self._pattern = module, pattern
        self.found: dict[Node, Any] = {}

    def same(self, wanted: Any, node: Any) -> bool:
        """Whether a node, or another argument, is what the pattern wants there."""
        if not isinstance(wanted, Node):
            if isinstance(wanted, (list, tuple)) and isinstance(node, (list, tuple)):
                return len(wanted) == len(node) and all(map(self.same, wanted, node))
            if isinstance(wanted, dict) and isinstance(node, dict):
                return wanted.keys() == node.keys() and all(self.same(v, node[k]) for k, v in wanted.items())
            if isinstance(wanted, slice) and isinstance(node, slice):
                return self.same((wanted.start, wanted.stop, wanted.step), (node.start, node.stop, node.step))
            return not isinstance(node, Node) and type(wanted) is type(node) and bool(wanted == node)
        if wanted in self.found:
            return self.found[wanted] is node
        if wanted.op == "placeholder":
            self.found[wanted] = node
            return True
        if not isinstance(node, Node) or node.op != wanted.op or not self._same_target(wanted, node):
            return False
        self.found[wanted] = node
        return self.same(wanted.args, node.args) and self.same(wanted.kwargs, node.kwargs)

    def _same_target(self, wanted: Node, node: Node) -> bool:
        if wanted.op == "call_module" and self._pattern is not None and self._has(self._pattern, wanted):
            kinds = [type(m.get_submodule(str(n.target))) for m, n in ((self._pattern, wanted), (self._module, node))]
            return kinds[0] is kinds[1]
        return wanted.target == node.target

    @staticmethod
    def _has(module: Module, node: Node) -> bool:
        return any(name == node.target for name, _ in module.named_modules())


def _graph_of(given: Any) -> tuple[Graph, GraphModule | None]:
    if isinstance(given, Graph):
        return given, given.owning_module
    made = given if isinstance(given, GraphModule) else symbolic_trace(given)
    return made.graph, made


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Writes `replacement` wherever the graph computes `pattern`; both are functions or modules of as many inputs.
    Other numbers, other targets and values that are used elsewhere, too, are no matches. Gives the matches."""
    return [Match(found.anchor, found.nodes_map) for found in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule | Graph,
    replacement: Callable[..., Any] | GraphModule | Graph,
    match_filters: list[Callable[[Any, Graph, Graph], bool]] | None = None,
) -> list[ReplacedPatterns]:  # fmt: skip
    """replace_pattern where all filters `filter(match, graph, pattern)` give True."""
    (wanted, of_pattern), (other, of_other) = _graph_of(pattern), _graph_of(replacement)
    inputs = [[n for n in graph.nodes if n.op == "placeholder"] for graph in (wanted, other)]
    if len(inputs[0]) != len(inputs[1]):
        raise ValueError(f"replace_pattern: the pattern has {len(inputs[0])} inputs, the replacement {len(inputs[1])}")
    results, inner = wanted.output_node().all_input_nodes, set(wanted.nodes) - set(inputs[0])
    if len(results) != 1 or results[0].op == "placeholder" or wanted.output_node().args[0] is not results[0]:
        raise NotImplementedError("replace_pattern: a pattern has one result, which it computes")
    inner.discard(wanted.output_node())
    taken: set[Node] = set()
    replaced: list[ReplacedPatterns] = []
    changed: dict[Node, Node] = {}  # results of matches by which other matches begin: what is there now
    for node in list(gm.graph.nodes):
        search = _Search(gm, of_pattern)
        if node.op in ("placeholder", "output") or not search.same(results[0], node):
            continue
        found = search.found
        if set(inputs[0]) - found.keys():
            continue
        own = {found[n] for n in inner if n in found}
        leak = any(user not in own for n in own if n is not node for user in n.users)
        if leak or own & taken:
            continue
        match = Match(node, found)
        if not all(accepts(match, gm.graph, wanted) for accepts in match_filters or ()):
            continue
        taken |= own
        replaced.append(_write(gm, match, own, inputs, other, of_other, changed))
    gm.recompile()
    return replaced


def _write(
    gm: GraphModule, match: Match, own: set[Node], inputs: list[list[Node]], other: Graph, of_other: Any,
    changed: dict[Node, Node],
) -> ReplacedPatterns:  # fmt: skip
    values = {}
    for theirs, mine in zip(*inputs, strict=True):
        value = match.nodes_map[theirs]
        values[mine] = changed.get(value, value) if isinstance(value, Node) else value
    before = set(gm.graph.nodes)
    with gm.graph.inserting_before(match.anchor):
        result = _copied(gm.graph, other, values)
    made = [n for n in gm.graph.nodes if n not in before]
    if of_other is not None:
        for node in made:
            if node.op in ("call_module", "get_attr") and not _reaches(gm, str(node.target)):
                _copy_attr(of_other, gm, str(node.target))
    match.anchor.replace_all_uses_with(result)
    changed[match.anchor] = result
    for node in reversed(list(gm.graph.nodes)):
        if node in own:
            gm.graph.erase_node(node)
    return ReplacedPatterns(match.anchor, match.nodes_map, made)


def _copied(graph: Graph, source: Graph, values: dict[Node, Any]) -> Node:
    for node in source.nodes:
        if node.op == "output":
            found = map_arg(node.args[0], lambda n: values[n])
            if not isinstance(found, Node):
                raise NotImplementedError("replace_pattern: a replacement has one result")
            return found
        if node not in values:
            values[node] = graph.node_copy(node, lambda n: values[n])
    raise ValueError("replace_pattern: the replacement has no result")


def _reaches(module: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]
