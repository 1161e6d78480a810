"""Weights in blocks of 32 (q8_0 and q4_0) in files: the operators of onnxruntime that compute with them. Source: their
descriptions in onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyapp.engine import Tensor, quant
from pyapp.engine.lazy import np

from ..registry import MICROSOFT
from .graph import Graph, Node

BITS = {"q8_0": 8, "q4_0": 4}
_BLOCK = 32  # columns
_INT8 = 4  # an accuracy_level: activations become int8 within a product, as in a linear layer with such a weight


def keep_blocks(graphs: Sequence[Graph], tensors: dict[str, Tensor]) -> None:
    """Products with weights in blocks, and look-ups in tables of them, become MatMulNBits and GatherBlockQuantized.
    `tensors`: those of the file; what nothing reads any more is left out.
    """
    kept = _Blocks(tensors)
    for graph in graphs:
        kept.note_products(graph)
    for graph in graphs:
        kept.replace(graph)
    if kept.done:
        read = {name for graph in graphs for node in graph.nodes for name in node.inputs}
        for graph in graphs:
            graph.nodes = [n for n in graph.nodes if n.operator != "Transpose" or n.outputs[0] in read]
        read = {name for graph in graphs for node in graph.nodes for name in node.inputs}
        for name in kept.done - read:
            del tensors[name]


class _Blocks:
    """The weights (N, K) of a file by name, and what takes their place: codes as bytes, with the middle of their range
    for 0, and the scales (N, K / 32) of the blocks.
    """

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors
        self._multiplied: set[str] = set()  # weights of products
        self._names: dict[tuple[str, str], str] = {}  # by the weight and its part
        self.done: set[str] = set()

    def _name(self, weight: str, part: str) -> str:
        """The name of a part of a weight: WEIGHT_PART, with more of these lines where another tensor is called so."""
        if (weight, part) not in self._names:
            name = f"{weight}_{part}"
            while name in self._tensors:
                name += "_"
            self._names[weight, part] = name
        return self._names[weight, part]

    def _is_kept(self, name: str) -> bool:
        x = self._tensors.get(name)
        return x is not None and x.dtype.name in BITS and x.ndim == 2 and not quant.is_transposed(x)

    def _products(self, graph: Graph) -> dict[int, str]:
        """The weights in blocks of products, by the places of these nodes."""
        turned = {node.outputs[0]: node.inputs[0] for node in graph.nodes if node.operator == "Transpose"}
        found = {}
        for at, node in enumerate(graph.nodes):
            weight = node.inputs[1] if node.operator in ("MatMul", "Gemm") else ""
            weight = turned.get(weight, "") if node.operator == "MatMul" else weight
            if self._is_kept(weight):
                found[at] = weight
        return found

    def note_products(self, graph: Graph) -> None:
        """Notes the weights of products: tables that are weights too are in the file once."""
        self._multiplied.update(self._products(graph).values())

    def replace(self, graph: Graph) -> None:
        """Writes the nodes of a graph anew."""
        products = self._products(graph)
        nodes, graph.nodes = graph.nodes, []
        for at, node in enumerate(nodes):
            if at in products:
                self._product(graph, node, products[at])
            elif node.operator == "Gather" and self._is_kept(node.inputs[0]) and not node.attributes.get("axis"):
                self._look_up(graph, node)
            else:
                graph.nodes.append(node)

    def _product(self, graph: Graph, node: Node, weight: str) -> None:
        rows, columns = self._tensors[weight].shape
        settings = {
            "K": columns, "N": rows, "bits": self._parts(weight), "block_size": _BLOCK, "accuracy_level": _INT8,
        }  # fmt: skip
        more = node.inputs[2:]
        names = [graph.fresh("product")] if more else node.outputs
        inputs = [node.inputs[0], self._name(weight, "blocks"), self._name(weight, "scales")]
        graph.add(Node("MatMulNBits", inputs, names, settings, node.op, MICROSOFT))
        if more:
            graph.add(Node("Add", [names[0], *more], node.outputs, {}, node.op))

    def _look_up(self, graph: Graph, node: Node) -> None:
        table, index = node.inputs
        bits, codes = self._parts(table), self._name(table, "blocks")
        if table in self._multiplied:
            shape = np.array([self._tensors[table].shape[0], -1])
            name = self._name(table, "rows")
            self._tensors[name] = Tensor.from_buffer(shape.tobytes(), (2,), "int64")
            codes = graph.node("Reshape", [codes, name])
        settings = {"bits": bits, "block_size": _BLOCK, "gather_axis": 0, "quantize_axis": 1}
        inputs = [codes, index, self._name(table, "scales")]
        graph.add(Node("GatherBlockQuantized", inputs, node.outputs, settings, node.op, MICROSOFT))

    def _parts(self, name: str) -> int:
        """Puts the codes and scales of a weight into the file; its bits."""
        weight = self._tensors[name]
        bits, (rows, columns) = BITS[weight.dtype.name], weight.shape
        if name in self.done:
            return bits
        self.done.add(name)
        size = _BLOCK * bits // 8
        stored = np.frombuffer(quant.to_blocks(weight.detach()).data, np.uint8).reshape(-1, 2 + size)
        scales = stored[:, :2].copy().view(np.float16).astype(np.float32)
        codes = stored[:, 2:]
        if bits == 8:
            codes = codes ^ np.uint8(0x80)  # int8 + 128
        else:  # a byte of q4_0 has the elements i and i + 16 of a block, a byte here 2 i and 2 i + 1
            codes = np.concatenate([codes & np.uint8(15), codes >> np.uint8(4)], 1)
            codes = codes[:, ::2] | codes[:, 1::2] << np.uint8(4)
        shape = (rows, columns // _BLOCK, size) if name in self._multiplied else (rows, columns // _BLOCK * size)
        self._tensors[self._name(name, "blocks")] = Tensor.from_buffer(codes.tobytes(), shape, "uint8")
        size_of_scales = (rows, columns // _BLOCK)
        self._tensors[self._name(name, "scales")] = Tensor.from_buffer(scales.tobytes(), size_of_scales, "float32")
        return bits
