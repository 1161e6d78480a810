"""torch.fx: a module's program as a graph, which can be looked at, changed and run.

    traced = pyapp.fx.symbolic_trace(model)
    for node in traced.graph.nodes:
        if node.target is pyapp.relu:
            node.target = pyapp.nn.functional.gelu
    traced.recompile()
    print(traced.code)

A graph has no conditions and no loops: it is what the program did in one run with proxies in place of tensors.
"""

from __future__ import annotations

from . import subgraph_rewriter
from ._symbolic_trace import Tracer, is_fx_tracing, symbolic_trace, wrap
from .graph import Graph, PythonCode
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy, TraceError
from .subgraph_rewriter import replace_pattern

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "PythonCode", "TraceError", "Tracer", "Transformer",
    "has_side_effect", "is_fx_tracing", "map_arg", "replace_pattern", "subgraph_rewriter", "symbolic_trace", "wrap",
]  # fmt: skip
