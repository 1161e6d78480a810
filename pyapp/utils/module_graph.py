"""The ops of a module, and what goes from one to another, as TensorBoard's graph shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..engine import no_grad
from ..engine.op import Op
from ..engine.tensor import Tensor
from ..engine.tracing import observed
from ..formats.tensorboard_plugins import GraphNode


class _Tracer:
    """Writes down nodes, named by the modules in which their ops run."""

    def __init__(self, model: Any) -> None:
        self.nodes: list[GraphNode] = []
        self.title = type(model).__name__
        self._kept: list[Tensor] = []  # their ids stay theirs
        self._names: dict[int, str] = {}
        self._places: list[str] = []
        self._used: Counter[str] = Counter()
        self._parameters: dict[int, tuple[str, Tensor]] = {}
        scopes = {"": self.title}
        for path, module in model.named_modules():
            parent, _, last = path.rpartition(".")
            if path:
                scopes[path] = f"{scopes[parent]}/{type(module).__name__}[{last}]"
            for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
                self._parameters.setdefault(id(tensor), (f"{scopes[path]}/{name}", tensor))
        self.scopes = scopes

    def add(self, name: str, op: str, inputs: Sequence[str], result: Tensor | None, note: str = "") -> None:
        """A node whose result is a tensor."""
        self._used[name] += 1
        if self._used[name] > 1:
            name = f"{name}_{self._used[name] - 1}"
        self.nodes.append(GraphNode(name, op, inputs, None if result is None else result.shape, note))
        if result is not None:
            self._names[id(result)] = name
            self._kept.append(result)

    def name_of(self, tensor: Tensor) -> str | None:
        """The node that gave a tensor. That of a parameter is made at its first use."""
        if id(tensor) not in self._names and id(tensor) in self._parameters:
            name, parameter = self._parameters[id(tensor)]
            self.add(name, "Parameter", [], parameter)
        return self._names.get(id(tensor))

    def observe(self, op: Op, args: tuple[Any, ...], run: Any) -> Any:
        """An op runs."""
        result = run()
        tensors, rest = _parted(args)
        names = [name for name in map(self.name_of, tensors) if name is not None]
        found = [x for x in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(x, Tensor)]
        kind = op.name.lstrip("_")
        for x in found:
            if id(x) not in self._names:
                self.add(f"{self._places[-1] if self._places else self.title}/{kind}", kind, names, x, rest)
        return result

    def enter(self, scope: str) -> Any:
        """A hook that begins a module."""
        return lambda *_: self._places.append(scope)

    def leave(self, *_: Any) -> None:
        """A hook that ends it."""
        self._places.pop()


def _parted(args: tuple[Any, ...]) -> tuple[list[Tensor], str]:
    """The tensors among arguments, also in lists, and a text of the others."""
    tensors: list[Tensor] = []
    others: list[str] = []
    for argument in args:
        inner = [x for x in argument if isinstance(x, Tensor)] if isinstance(argument, (list, tuple)) else []
        if isinstance(argument, Tensor):
            tensors.append(argument)
        elif inner:
            tensors.extend(inner)
        elif isinstance(argument, (int, float, str, tuple, list, type(None))):
            others.append(repr(argument))
    return tensors, f"({', '.join(others)})"


def module_graph(model: Any, inputs: Any) -> list[GraphNode]:
    """The nodes of a run of `model(*inputs)`, a Module in evaluation mode; `inputs` is a tensor or several. Parameters
    and buffers are nodes where an op uses them. What an op writes in place is not shown.
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    tracer = _Tracer(model)
    handles, learning = [], [p for p in model.parameters() if p.requires_grad]
    modes = [(module, module.training) for module in model.modules()]
    given = [x.detach().clone() if isinstance(x, Tensor) else x for x in given]
    for at, x in enumerate(given):
        if isinstance(x, Tensor):
            tracer.add(f"input/input_{at}", "IO Node", [], x)
    try:
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(tracer.enter(tracer.scopes[path])))
            handles.append(module.register_forward_hook(tracer.leave, always_call=True))
        for p in learning:
            p.requires_grad_(False)
        model.eval()
        with observed(tracer.observe):
            result = model(*given)
    finally:
        for handle in handles:
            handle.remove()
        for p in learning:
            p.requires_grad_(True)
        for module, mode in modes:
            module.training = mode
    with no_grad():
        for at, x in enumerate(_tensors(result)):
            name = tracer.name_of(x)
            tracer.nodes.append(
                GraphNode(f"output/output_{at}", "IO Node", [] if name is None else [name], x.shape, "")
            )
    return tracer.nodes


def _tensors(result: Any) -> list[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    return [x for part in result for x in _tensors(part)] if isinstance(result, (list, tuple)) else []
