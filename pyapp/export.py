"""Programs of modules, by torch.export's names: what a module computes with inputs of given shapes, as a graph.

    batch = pyapp.export.Dim("batch")
    program = pyapp.export.export(model.eval(), (pyapp.rand(2, 4),), dynamic_shapes={"x": {0: batch}})
    program.module()(pyapp.rand(7, 4))

The graph is that of pyapp.fx: functions, methods and layers as they are called, with tensors of the inputs as its
placeholders, and all other arguments, conditions and the mode of the module as they were. Sizes of the example hold for
all calls, unless `dynamic_shapes` says otherwise. The program runs once with the example, and where sizes may differ
once more beside it, with other ones: conditions and loops may be those of sizes, dtypes and settings that both agree
in, not of elements.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NoReturn

from .dataclass import dataclass
from .engine import no_grad, ops
from .engine.dtype import int64
from .engine.tensor import Tensor
from .engine.user_errors import describe
from .fx import Graph, GraphModule, Node, Proxy, Tracer
from .fx.names import Namespace
from .fx.node import map_arg
from .fx.proxy import TraceError
from .nn import Module
from .random import get_rng_state, set_rng_state
from .utils import _pytree

__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "InputKind", "InputSpec", "OutputKind", "OutputSpec",
    "TensorArgument", "UserError", "dims", "export",
]  # fmt: skip


class UserError(RuntimeError):
    """A program that cannot be exported, and why."""


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


class Dim:
    """A size that may differ from call to call: `Dim("batch", min=1, max=64)`. Dims of one name are equal. In place of
    one, `Dim.AUTO` and `Dim.DYNAMIC` are any size, `Dim.STATIC` and None that of the example."""

    AUTO: Any
    DYNAMIC: Any
    STATIC: Any = None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise AssertionError(f"Dim: a name is a word, not {name!r}")
        self.__name__ = name
        self.min, self.max = 0 if min is None else min, max
        if max is not None and self.min > max:
            raise ValueError(f"Dim {name}: min={min} is above max={max}")

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}{'' if self.max is None else f', max={self.max}'})"


Dim.AUTO = Dim("AUTO")
Dim.DYNAMIC = Dim("DYNAMIC")
_ANY = (Dim.AUTO, Dim.DYNAMIC)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class Inputs:
    """The inputs of a program: how arguments become the leaves that the graph takes, and which shapes they have."""

    def __init__(self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.signature = inspect.signature(forward)
        given = self._bound(args, kwargs)
        self.leaves, self.spec = _pytree.tree_flatten(given)
        paths, _ = _pytree.tree_flatten_with_path(given)
        self.names = _words([path for path, _ in paths])
        self.sizes: list[list[int | Dim]] = [
            list(leaf.shape) if isinstance(leaf, Tensor) else [] for leaf in self.leaves
        ]

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name, defaults included."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def called(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the forward, with other leaves in place of those of the example."""
        bound = self.signature.bind_partial()
        bound.arguments.update(_pytree.tree_unflatten(list(leaves), self.spec))
        return bound.args, bound.kwargs

    def examples(self) -> list[dict[str, Tensor]]:
        """The tensors by name; where sizes may differ, in a second example with other sizes, too."""
        given = [
            (name, leaf, sizes)
            for name, leaf, sizes in zip(self.names, self.leaves, self.sizes, strict=True)
            if isinstance(leaf, Tensor)
        ]
        found = [{name: leaf.detach().clone() for name, leaf, _ in given}]
        if any(isinstance(size, Dim) for _, _, sizes in given for size in sizes):
            found.append({name: self._resized(leaf, sizes) for name, leaf, sizes in given})
        return found

    def _resized(self, leaf: Tensor, sizes: list[int | Dim]) -> Tensor:
        for dim, size in enumerate(sizes):
            if isinstance(size, Dim):
                now = leaf.shape[dim]
                wanted = now + 1 if size.max is None or now < size.max else max(now - 1, size.min)
                places = [k % max(now, 1) for k in range(wanted)]
                leaf = leaf.index_select(dim, ops.tensor(places, dtype=int64, device=leaf.device))
        return leaf.detach().clone()

    def vary(self, dynamic: Any) -> None:
        """Notes which sizes may differ. UserError for what does not fit the inputs."""
        if dynamic is None:
            return
        example = _pytree.tree_unflatten(list(range(len(self.leaves))), self.spec)
        if not isinstance(dynamic, Mapping):
            dynamic = self._by_name([entry for _, entry in _entries("the module", dynamic)])
        unknown = [name for name in dynamic if name not in self.signature.parameters]
        if unknown:
            raise UserError(f"dynamic_shapes: has {unknown}; the arguments are {list(self.signature.parameters)}")
        for name, given in dynamic.items():
            self._note(name, example[name], given)

    def _by_name(self, dynamic: Sequence[Any]) -> dict[str, Any]:
        """Entries in the order of the arguments, by name. Those of `*args` are one tuple; or they follow, as layers
        here take `*args` where torch's have names.
        """
        found: dict[str, Any] = {}
        left = list(dynamic)
        for name, parameter in self.signature.parameters.items():
            if left and parameter.kind is parameter.VAR_POSITIONAL:
                is_tuple = len(left) == 1 and isinstance(left[0], (tuple, list))
                is_tuple = is_tuple and not any(isinstance(size, (Dim, int)) for size in left[0])
                found[name], left = tuple(left[0] if is_tuple else left), []
            elif left:
                found[name] = left.pop(0)
        if left:
            raise UserError(f"dynamic_shapes: has {len(dynamic)} entries, the module {len(found)} arguments")
        return found

    def _note(self, name: str, numbers: Any, given: Any) -> None:
        if given is None:
            return
        if isinstance(numbers, int):
            sizes = self.sizes[numbers]
            for dim, size in _entries(name, given):
                if not isinstance(dim, int) or not -len(sizes) <= dim < len(sizes):
                    raise UserError(f"dynamic_shapes: {name} has {len(sizes)} dims, no dim {dim!r}")
                if isinstance(size, Dim):
                    if sizes[dim] == 0:
                        raise UserError(f"dynamic_shapes: {name} is empty at dim {dim}: give an example that is not")
                    sizes[dim] = size
                elif size is not None and size != sizes[dim]:
                    raise UserError(f"dynamic_shapes: {name} has {sizes[dim]} at dim {dim}, not {size!r}")
            return
        for key, inner in _entries(name, given):
            try:
                self._note(f"{name}[{key!r}]", numbers[key], inner)
            except (KeyError, IndexError, TypeError) as error:
                raise UserError(f"dynamic_shapes: {name} has no {key!r}") from error

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """The tensors of a call. ValueError for other arguments than those of the example, AssertionError for other
        sizes."""
        try:
            leaves, spec = _pytree.tree_flatten(self._bound(args, kwargs))
        except TypeError as error:
            raise ValueError(f"the exported program does not take these arguments: {error}") from error
        if spec != self.spec:
            raise ValueError(f"the exported program takes arguments of the form {self.spec}, got {spec}")
        known: dict[str, tuple[str, int]] = {}
        for name, leaf, example, sizes in zip(self.names, leaves, self.leaves, self.sizes, strict=True):
            if not isinstance(example, Tensor):
                if leaf is not example and (type(leaf) is not type(example) or leaf != example):
                    raise ValueError(
                        f"{name} was {example!r:.80} when the program was exported, and is {leaf!r:.80} now"
                    )
                continue
            if not isinstance(leaf, Tensor):
                raise ValueError(f"{name} is a tensor, not {describe(leaf)}")
            if leaf.dtype is not example.dtype:
                raise RuntimeError(f"{name} is {example.dtype} in the exported program, got {describe(leaf)}")
            if leaf.ndim != len(sizes):
                raise AssertionError(f"{name} has {len(sizes)} dims in the exported program, got {describe(leaf)}")
            for dim, (size, found) in enumerate(zip(sizes, leaf.shape, strict=True)):
                place = f"{name}.size()[{dim}]"
                if not isinstance(size, Dim):
                    if found != size:
                        raise AssertionError(f"{place} is {size} in the exported program, got {found}")
                    continue
                if found < size.min or size.max is not None and found > size.max:
                    raise AssertionError(f"{place} is {size}, got {found}")
                if size not in _ANY:
                    first = known.setdefault(size.__name__, (place, found))
                    if first[1] != found:
                        raise AssertionError(f"{place} and {first[0]} are both {size}, got {found} and {first[1]}")
        return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _entries(name: str, given: Any) -> Iterable[tuple[Any, Any]]:
    """(key, entry) of what `dynamic_shapes` says of an argument, of a container, or of the module."""
    if isinstance(given, Mapping):
        return given.items()
    if isinstance(given, (tuple, list)):
        return enumerate(given)
    raise UserError(f"dynamic_shapes: the entry of {name} is a dict, a list or a tuple, not {given!r}")


def _words(paths: Sequence[Any]) -> list[str]:
    """A name of Python for each leaf: "x", "batch_ids", "pair_0"; no two are the same."""
    names, found = Namespace(), list[str]()
    for path in paths:
        word = "_".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path)
        if word.isidentifier() and word not in found:
            names.take(word)
        else:
            word = names.create_name(word)
        found.append(word)
    return found


class ExampleTracer(Tracer):
    """Traces a module with proxies for the tensors among its inputs, and the values of all others. Beside the graph it
    computes what each node gives for the examples, of which sizes and settings are known numbers."""

    proxy_buffer_attributes = True  # what is written to a buffer is a part of the program

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self._inputs = inputs
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

    def _value(self, node: Node, example: int) -> Any:
        """What a node gives for an example. Nothing of the module changes."""
        args, kwargs = (map_arg(given, lambda n: self._values[n][example]) for given in (node.args, node.kwargs))
        if node.op == "get_attr":
            found: Any = self.root
            for part in str(node.target).split("."):
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

    def __init__(self, root: Module, graph_module: GraphModule, inputs: Inputs, example: Any) -> None:
        self._root, self.inputs = root, inputs
        self.graph_module, self.example_inputs = graph_module, example
        names = {id(value): name for name, value in root.named_parameters()}
        buffers = {id(value): name for name, value in root.named_buffers()}
        hidden = set(names.values()) | set(root.state_dict())
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
        return self._root.state_dict()

    def parameters(self) -> Iterator[Any]:
        """The parameters."""
        return self._root.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters with their names."""
        return self._root.named_parameters()

    def buffers(self) -> Iterator[Any]:
        """The buffers."""
        return self._root.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """The buffers with their names."""
        return self._root.named_buffers()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("an ExportedProgram is not called itself: program.module()(...)")

    def __str__(self) -> str:
        return f"ExportedProgram:\n{self.graph_module.print_readable(False)}\nGraph signature: {self.graph_signature}"


def _with_its_mode(module: Module) -> Module:
    """A copy with the same parameters, which keeps its mode when that of the module changes."""
    found = copy.copy(module)
    found.__dict__["_modules"] = {
        name: None if child is None else _with_its_mode(child) for name, child in module._modules.items()
    }
    return found


def _tell_assigned(attributes: list[tuple[Module, dict[str, Any]]]) -> None:
    """Warns where a forward has put what it computes into an attribute, which no call of the program does."""
    for module, _ in attributes:
        for name, value in vars(module).items():
            if isinstance(value, Proxy):
                warnings.warn(
                    f"export: {type(module).__name__}.forward assigns the attribute {name!r}, the program does not: "
                    "return it, or register a buffer and write to that with copy_()",
                    stacklevel=3,
                )


def traced_with_examples(mod: Module, tracer: ExampleTracer) -> Graph:
    """The graph of a module, which stays as it was. UserError for what cannot be traced."""
    state, attributes = get_rng_state(), [(module, dict(vars(module))) for module in mod.modules()]
    try:
        graph = tracer.trace(mod)
        _tell_assigned(attributes)
    except TraceError as error:
        raise UserError(f"export: {type(mod).__name__} cannot be traced: {error}") from error
    finally:
        set_rng_state(state)
        for module, before in attributes:
            vars(module).clear()
            vars(module).update(before)
    return graph


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
    inputs = Inputs(mod.forward, args, kwargs or {})
    inputs.vary(dynamic_shapes)
    try:
        inputs.check(args, kwargs or {})
    except AssertionError as error:
        raise UserError(f"dynamic_shapes: {error}") from error
    graph = traced_with_examples(mod, ExampleTracer(inputs))
    made = GraphModule(mod, graph, type(mod).__name__)
    for target in {str(node.target) for node in graph.nodes if node.op == "call_module"}:
        path, _, last = target.rpartition(".")
        setattr(made.get_submodule(path), last, _with_its_mode(made.get_submodule(target)))
    return ExportedProgram(mod, made, inputs, (args, dict(kwargs or {})))
