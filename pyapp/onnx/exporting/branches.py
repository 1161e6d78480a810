"""Two functions in one file: an input says which of them is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyapp.engine import no_grad
from pyapp.engine.ops import ones
from pyapp.formats.sink import AnySink

from .blocks import keep_blocks
from .calls import Call, named_parameters, written_graph
from .graph import Graph, Info, Node, Written
from .model_file import checked_opset, write_model


def export_either(
    condition: str, calls: Sequence[Call], outputs: Sequence[str], file: AnySink, *,
    unlike: Mapping[str, str] | None = None, opset_version: int | None = None,
) -> None:  # fmt: skip
    """Writes what the first call computes where the input `condition`, (1,) bool, is True, and what the second one does
    where it is False, of the inputs of both; those with equal names are the same. Both give the same outputs.

    Weights in blocks stay as they are, as with `blocks` of pyapp.onnx.export.

    unlike: other names for sizes of inputs that one call alone has. Where the other one is computed, these inputs may
    be anything, so that nothing is said of their sizes.
    """
    opset, branches = checked_opset(opset_version), list[Written]()
    whole = Graph({}, opset)
    inputs: dict[str, Info] = {}
    for call, branch in zip(calls, ("then", "else"), strict=True):
        with named_parameters(call.module, call.names) as parameters, no_grad():
            written = written_graph(call, parameters, opset, outputs)
        branches.append(_renamed(written, branch, set(parameters.values()), outputs))
        whole.tensors.update(written.graph.tensors)
        inputs.update((info[0], info) for info in written.inputs if info[0] not in inputs)
    for name, x, sizes in list(inputs.values()):
        if not all(name in call.names for call in calls):
            inputs[name] = name, x, [(unlike or {}).get(str(size), size) for size in sizes]
    attributes = {f"{branch}_branch": written for branch, written in zip(("then", "else"), branches, strict=True)}
    keep_blocks([branch.graph for branch in branches], whole.tensors)
    whole.add(Node("If", [condition], list(outputs), attributes))
    inputs[condition] = condition, ones(1, dtype="bool"), (1,)
    results = [(name, x, sizes) for name, (_, x, sizes) in zip(outputs, branches[0].outputs, strict=True)]
    write_model(Written(whole, list(inputs.values()), results), file, None)


def _renamed(written: Written, branch: str, shared: set[str], outputs: Sequence[str]) -> Written:
    """The graph of a branch: its constants and results have names that the model and the other branch do not use."""
    graph = written.graph
    names = {name: f"{branch}_{name}" for name in (*graph.tensors, *outputs) if name not in shared}
    graph.tensors = {names.get(name, name): x for name, x in graph.tensors.items()}
    graph.nodes = [
        replace(
            node, inputs=[names.get(name, name) for name in node.inputs],
            outputs=[names.get(name, name) for name in node.outputs],
        )
        for node in graph.nodes
    ]  # fmt: skip
    return Written(graph, [], [(names[name], x, sizes) for name, x, sizes in written.outputs])
