"""How `export` makes the program of a module, and what it is."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, NoReturn

from ..dataclass import dataclass
from ..engine import no_grad
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from ..fx import Graph, GraphModule, Node, Proxy, Tracer
from ..fx.node import map_arg
from ..fx.proxy import TraceError
from ..nn import Module
from ..random import get_rng_state, set_rng_state
from ..utils import _pytree
from .dims import UserError
from .inputs import Inputs


class InputKind(Enum):
    """What an input of a program is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()


class OutputKind(Enum):
    """What an output of a program is."""

    USER_OUTPUT = auto()


@dataclass
class TensorArgument:
    """A tensor, by the name of its node, or of the parameter or buffer."""

    name: str


@dataclass
class InputSpec:
    """An input: its kind, and for parameters and buffers their names in the module."""

    kind: InputKind
    arg: TensorArgument
    target: str | None = None
    persistent: bool | None = None


@dataclass
class OutputSpec:
    """An output."""

    kind: OutputKind
    arg: TensorArgument
    target: str | None = None


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of a program."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(str(spec.target) for spec in self.input_specs if spec.kind is kind)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that the program reads."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers that the program reads."""
        return self._targets(InputKind.BUFFER)

    @property
    def user_inputs(self) -> tuple[str, ...]:
        """The placeholders of the graph."""
        return tuple(spec.arg.name for spec in self.input_specs if spec.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[str, ...]:
        """The nodes that the program gives."""
        return tuple(spec.arg.name for spec in self.output_specs)


class ExampleTracer(Tracer):
    """Traces a module with proxies for the tensors among its inputs, and the values of all others. Beside the graph it
    computes what each node gives for the examples, of which sizes and settings are known numbers."""

    proxy_buffer_attributes = True  # what is written to a buffer is a part of the program

    def __init__(self, inputs: Inputs, mod: Module) -> None:
        super().__init__()
        self._inputs = inputs
        self._buffers = dict(mod.named_buffers(remove_duplicate=False))  # before the forward assigns others
        self._examples = inputs.examples()
        self._values: dict[Node, list[Any]] = {}  # for each example
        self._runs = False  # whether a node is computed now, which is no part of the program

    def create_node(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if kind == "placeholder":
            self._values[node] = [example[target] for example in self._examples]
        elif kind != "output":
            self._runs = True
            try:
                with no_grad():
                    self._values[node] = [self._value(node, k) for k in range(len(self._examples))]
            finally:
                self._runs = False
        return node

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return forward(*args, **kwargs) if self._runs else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        return attr_val if self._runs else super().getattr(attr, attr_val, parameter_proxy_cache)

    @contextmanager
    def _patched(self, function: Callable[..., Any]) -> Iterator[None]:
        """A buffer may become what the forward computes: `self.n = self.n + 1`."""
        patched: Any = Module
        assign = Module.__setattr__

        def noted(module: Module, name: str, value: Any) -> None:
            if isinstance(value, Proxy) and name in module._buffers:
                object.__setattr__(module, name, value)
            else:
                assign(module, name, value)

        with super()._patched(function):
            patched.__setattr__ = noted
            try:
                yield
            finally:
                patched.__setattr__ = assign

    def write(self, assigned: Sequence[tuple[str, Tensor, Any]]) -> None:
        """Copies values into buffers, at the end of the program. UserError for values of other shapes or dtypes."""
        if not assigned:
            return
        output = self.graph.output_node()
        paths = {path for path, _, _ in assigned}
        held = [
            self._values[node][0]._storage
            for node in self.graph.nodes
            if node.op == "get_attr" and node.target in paths
        ]  # what the buffers hold until then

        def own(node: Node) -> Node:
            """The node, or a copy of what shares memory with a buffer that is written."""
            value = self._values[node][0]
            shared = isinstance(value, Tensor) and any(value._storage is each for each in held)
            return self.create_node("call_method", "clone", (node,), {}) if shared else node

        with self.graph.inserting_before(output):
            written = []
            for path, buffer, value in assigned:
                node = own(self.create_arg(value))
                for found in self._values[node]:
                    if found.shape != buffer.shape or found.dtype is not buffer.dtype:
                        raise UserError(
                            f"export: the forward assigns {describe(found)} to the buffer {path!r}, which is "
                            f"{describe(buffer)}: buffers of a program keep their shape and dtype"
                        )
                written.append((path, node))
            output.args = map_arg(output.args, own)
            for path, node in written:
                self.create_node("call_method", "copy_", (self.create_node("get_attr", path, (), {}), node), {})

    def _value(self, node: Node, example: int) -> Any:
        """What a node gives for an example. Nothing of the module changes."""
        args, kwargs = (map_arg(given, lambda n: self._values[n][example]) for given in (node.args, node.kwargs))
        if node.op == "get_attr":
            found: Any = self._buffers.get(str(node.target), self.root)
            for part in str(node.target).split(".") if found is self.root else ():
                found = getattr(found, part)
            return found.clone() if isinstance(found, Tensor) else found
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "call_module":
            module = self.root.get_submodule(str(node.target))
            return (copy.deepcopy(module) if module.training else module)(*args, **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _known(self, obj: Proxy) -> Any:
        """The number, dtype or container of both examples; None where they differ, and for tensors."""
        first, *others = self._values[obj.node]
        leaves = _pytree.tree_leaves(first)
        return (
            None if any(isinstance(leaf, Tensor) for leaf in leaves) or any(one != first for one in others) else first
        )

    def to_bool(self, obj: Proxy) -> bool:
        known = self._known(obj)
        return super().to_bool(obj) if known is None else bool(known)

    def to_number(self, obj: Proxy) -> Any:
        known = self._known(obj)
        return super().to_number(obj) if known is None else known

    def length(self, obj: Proxy) -> int:
        lengths = {len(value) for value in self._values[obj.node]}
        return super().length(obj) if len(lengths) > 1 else lengths.pop()

    def iter(self, obj: Proxy) -> Iterator[Any]:
        return iter([obj[k] for k in range(self.length(obj))])  # type: ignore[index]

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        leaves = [
            self.create_proxy("placeholder", name, (), {}) if isinstance(leaf, Tensor) else leaf
            for name, leaf in zip(self._inputs.names, self._inputs.leaves, strict=True)
        ]
        args, kwargs = self._inputs.called(leaves)
        function = functools.partial(root_fn, **kwargs) if kwargs else root_fn
        return function, [*([self.root] if is_module else []), *args]


class _Program(Module):
    """What `ExportedProgram.module()` gives: the program, with checks of its inputs."""

    def __init__(self, graph_module: GraphModule, inputs: Inputs) -> None:
        super().__init__()
        for name, value in vars(graph_module).items():
            if name not in ("_graph", "_code"):
                self.__dict__[name] = value
        self.__dict__["_run"], self.__dict__["_inputs"] = graph_module, inputs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The program's outputs, for inputs of the form of the example."""
        return self.__dict__["_run"](*self.__dict__["_inputs"].check(args, kwargs))

    @property
    def graph(self) -> Graph:
        """The program."""
        found: Graph = self.__dict__["_run"].graph
        return found

    @property
    def code(self) -> str:
        """The program as Python."""
        found: str = self.__dict__["_run"].code
        return found

    def train(self, mode: bool = True) -> NoReturn:
        """NotImplementedError: the mode is that of the module when it was exported."""
        raise NotImplementedError("an exported program keeps the mode of its module: export that in the other mode")

    def eval(self) -> NoReturn:
        """NotImplementedError, as `train`."""
        self.train(False)


class ExportedProgram:
    """A program that `export` makes. `module()` gives what runs it; `graph_module` and `graph` are the graph of fx."""

    dialect = "TRAINING"

    def __init__(
        self, root: Module, graph_module: GraphModule, inputs: Inputs, example: Any, alone: bool = False
    ) -> None:
        """`alone`: the program is one layer, the child `layer` of the root; names of tensors are those in the layer."""
        self._root, self.inputs = root, inputs
        self._named: Module = root.layer if alone else root
        self.graph_module, self.example_inputs = graph_module, example
        names = {id(value): name for name, value in self._named.named_parameters()}
        buffers = {id(value): name for name, value in self._named.named_buffers()}
        hidden = set(names.values()) | set(self._named.state_dict())
        specs = [
            InputSpec(InputKind.PARAMETER, TensorArgument(f"p_{name.replace('.', '_')}"), name)
            for name in dict.fromkeys(names[id(p)] for p in graph_module.parameters() if id(p) in names)
        ]
        specs += [
            InputSpec(InputKind.BUFFER, TensorArgument(f"b_{name.replace('.', '_')}"), name, name in hidden)
            for name in dict.fromkeys(buffers[id(b)] for b in graph_module.buffers() if id(b) in buffers)
        ]
        placed = graph_module.graph.find_nodes(op="placeholder")
        specs += [InputSpec(InputKind.USER_INPUT, TensorArgument(node.name)) for node in placed]
        given: list[Node] = []
        map_arg(graph_module.graph.output_node().args, given.append)
        outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name)) for node in given]
        self.graph_signature = ExportGraphSignature(specs, outputs)

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.graph_module.graph

    def module(self, check_guards: bool = True) -> Module:
        """A module that runs the program, with the parameters of the one that was exported. Its calls take arguments of
        the form of the example: ValueError for others, AssertionError for sizes that the program does not have."""
        return _Program(self.graph_module, self.inputs)

    @property
    def state_dict(self) -> dict[str, Any]:
        """The state of the module that was exported."""
        return self._named.state_dict()

    def parameters(self) -> Iterator[Any]:
        """The parameters."""
        return self._named.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters with their names."""
        return self._named.named_parameters()

    def buffers(self) -> Iterator[Any]:
        """The buffers."""
        return self._named.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """The buffers with their names."""
        return self._named.named_buffers()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("an ExportedProgram is not called itself: program.module()(...)")

    def __str__(self) -> str:
        return f"ExportedProgram:\n{self.graph_module.print_readable(False)}\nGraph signature: {self.graph_signature}"


def with_its_mode(module: Module) -> Module:
    """A copy with the same parameters, which keeps its mode when that of the module changes."""
    found = copy.copy(module)
    found.__dict__["_modules"] = {
        name: None if child is None else with_its_mode(child) for name, child in module._modules.items()
    }
    return found


def _assigned(mod: Module, before: Mapping[Module, Mapping[str, Tensor | None]]) -> Iterator[tuple[str, Tensor, Any]]:
    """(path, buffer, value) of the buffers to which a forward has assigned what it computes, or other tensors. Warns of
    other attributes, which no call of the program assigns."""
    for path, module in mod.named_modules():
        for name, value in vars(module).items():
            buffer = before[module].get(name)
            if buffer is not None and value is not buffer and isinstance(value, (Proxy, Tensor)):
                yield f"{path}.{name}" if path else name, buffer, value
            elif isinstance(value, Proxy):
                warnings.warn(
                    f"export: {type(module).__name__}.forward assigns the attribute {name!r}, the program does not: "
                    "return it, or register a buffer of that name",
                    stacklevel=4,
                )


def traced_with_examples(mod: Module, tracer: ExampleTracer) -> tuple[Graph, Module, set[str]]:
    """(the graph of a module, a copy of the module with the tensors that its forward makes, their names). The module
    stays as it was. UserError for what cannot be traced."""
    state, attributes = get_rng_state(), [(module, dict(vars(module))) for module in mod.modules()]
    buffers = {module: dict(module._buffers) for module in mod.modules()}
    try:
        graph = tracer.trace(mod)
        tracer.write(list(_assigned(mod, buffers)))
        constants = {name: value for name, value in vars(mod).items() if name not in attributes[0][1]}
    except TraceError as error:
        raise UserError(f"export: {type(mod).__name__} cannot be traced: {error}") from error
    finally:
        set_rng_state(state)
        for module, before in attributes:
            vars(module).clear()
            vars(module).update(before)
            for name, buffer in buffers[module].items():
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
    root = copy.copy(mod)
    vars(root).update(constants)  # tensors that the forward makes
    return graph, root, {*constants}


class _Alone(Module):
    """A module that calls a layer."""

    def __init__(self, layer: Module) -> None:
        super().__init__()
        self.layer = layer
        self.training = layer.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.layer(*args, **kwargs)


def export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
    strict: bool = False, preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """The program that `mod` runs for example inputs: `args` and `kwargs` with tensors, containers of them, and values
    that stay as they are. `dynamic_shapes` says by the names of arguments, or in their order, which sizes may differ:
    a dict {dim: Dim}, or one entry for each dim. UserError where the program depends on the values of tensors.
    """
    if not isinstance(mod, Module):
        raise ValueError(f"export: takes a Module, not {type(mod).__name__}")
    if not isinstance(args, tuple):
        raise UserError(f"export: args is a tuple of example inputs, not {type(args).__name__}")
    inputs = Inputs.of(mod.forward, args, kwargs or {})
    inputs.vary(dynamic_shapes)
    try:
        inputs.check(args, kwargs or {})
    except AssertionError as error:
        raise UserError(f"dynamic_shapes: {error}") from error
    traced = mod
    if Tracer().is_leaf_module(mod, ""):  # a layer is a single node, also where it is the whole program
        traced = _Alone(mod)
    graph, root, constants = traced_with_examples(traced, ExampleTracer(inputs, traced))
    made = GraphModule(root, graph, type(mod).__name__)
    made._non_persistent_buffers_set.update(constants & made._buffers.keys())
    for target in {str(node.target) for node in graph.nodes if node.op == "call_module"}:
        path, _, last = target.rpartition(".")
        setattr(made.get_submodule(path), last, with_its_mode(made.get_submodule(target)))
    return ExportedProgram(traced, made, inputs, (args, dict(kwargs or {})), traced is not mod)
