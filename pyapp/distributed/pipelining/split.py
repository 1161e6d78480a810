"""Splits a model into stages: `pipeline` traces it and cuts its graph before or after modules that are named, or where
its program calls `pipe_split`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from ...engine import Tensor
from ...engine.processes.group import ProcessGroup
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ...export import Dim, UserError
from ...export.inputs import Inputs
from ...export.program import ExampleTracer, traced_with_examples
from ...fx import Graph, GraphModule, Node
from ...fx._symbolic_trace import current_tracer
from ...nn.module import Module
from .stage import PipelineStage

__all__ = ["Pipe", "SplitPoint", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Where a module that `split_spec` names begins a stage, or ends one."""

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """In the program of a model: the next stage begins here. It does nothing but in `pipeline`."""
    tracer = current_tracer()
    if isinstance(tracer, _Tracer) and not tracer._runs:
        tracer.create_proxy("call_function", pipe_split, (), {})


class _Tracer(ExampleTracer):
    """Calls pipe_split before or after the modules that are named."""

    def __init__(self, inputs: Inputs, module: Module, points: Mapping[str, SplitPoint]) -> None:
        super().__init__(inputs, module)
        self._points, self.met = points, set[str]()

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        path = "" if self._runs else self.path_of_module(m)
        point = self._points.get(path)
        if point is not None and path in self.met:
            raise ArgumentError(f"pipeline: {path} is called twice, and divides nothing")
        if point is SplitPoint.BEGINNING:
            pipe_split()
        found = super().call_module(m, forward, args, kwargs)
        if point is not None:
            self.met.add(path)
        if point is SplitPoint.END:
            pipe_split()
        return found


class Pipe:
    """The stages of a model, in which parameters keep their names. `pipeline` makes it."""

    def __init__(self, stages: list[GraphModule]) -> None:
        self._stages = stages

    @property
    def num_stages(self) -> int:
        """How many there are."""
        return len(self._stages)

    def get_stage_module(self, stage_idx: int) -> GraphModule:
        """The module of a stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ArgumentError(f"Pipe: there is no stage {stage_idx}, but {self.num_stages}")
        return self._stages[stage_idx]

    def build_stage(self, stage_index: int, device: Any = None, group: ProcessGroup | None = None) -> PipelineStage:
        """The stage of this process, moved to `device`."""
        module: Module = self.get_stage_module(stage_index)
        module = module if device is None else module.to(device)
        return PipelineStage(module, stage_index, self.num_stages, device, group=group)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives, by one process that has all stages."""
        found: Any = self._stages[0](*args, **kwargs)
        for stage in self._stages[1:]:
            found = stage(*found) if isinstance(found, tuple) else stage(found)
        return found

    __call__ = forward

    def __repr__(self) -> str:
        return "\n".join(f"stage {i}: {stage.code}" for i, stage in enumerate(self._stages))


def pipeline(
    module: Module, mb_args: tuple[Any, ...], mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None, split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:  # fmt: skip
    """Splits a model by `split_spec`, which names modules, {"layers.2": SplitPoint.BEGINNING}, or by the calls of
    `pipe_split` in its program. A value that a later stage needs passes through those between.

    `mb_args` and `mb_kwargs` are the arguments of one microbatch, as pyapp.export takes them: what of them is no
    tensor, such as a flag, is the same in all, and no argument of the stages. `split_policy` changes the traced module
    before it is cut, as by adding calls of `pipe_split`.

    UserError for a program that cannot be traced; ArgumentError for a name that is no module's, or one that the program
    does not call; where no cut is; for a parameter that two stages have.
    """
    if not isinstance(module, Module):
        raise TypeError(f"pipeline: takes a Module, not {describe(module)}")
    spec = dict(split_spec or {})
    for path, point in spec.items():
        if not isinstance(point, SplitPoint):
            raise TypeError(f"pipeline: {path!r} has a SplitPoint, not {describe(point)}")
        if path not in dict(module.named_modules()):
            raise ArgumentError(f"pipeline: {path!r:.80} names no module of {type(module).__name__}")
    traced = _traced(module, mb_args, mb_kwargs or {}, spec)
    traced = traced if split_policy is None else split_policy(traced)
    stages = list(_stages(traced))
    _check_parameters(stages)
    return Pipe(stages)


def _traced(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], spec: dict[str, SplitPoint]) -> GraphModule:
    inputs = Inputs.of(module.forward, args, kwargs)
    tracer = _Tracer(inputs, module, spec)
    try:
        _vary_batch(inputs)
        graph, root, _ = traced_with_examples(module, tracer)
    except UserError:  # the program is one for the size of the example
        inputs = Inputs.of(module.forward, args, kwargs)
        tracer = _Tracer(inputs, module, spec)
        graph, root, _ = traced_with_examples(module, tracer)
    lacking = sorted(spec.keys() - tracer.met)
    if lacking:
        raise ArgumentError(f"pipeline: the program does not call {', '.join(lacking)}")
    return GraphModule(root, graph, type(module).__name__)


def _vary_batch(inputs: Inputs) -> None:
    """Lets the first size of all tensors that have that of the first one be another one: microbatches may differ."""
    sizes = [own for leaf, own in zip(inputs.leaves, inputs.sizes, strict=True) if isinstance(leaf, Tensor) and own]
    for own in reversed(sizes):
        if own[0] == sizes[0][0] and own[0]:
            own[0] = Dim.AUTO


def _stages(traced: GraphModule) -> Iterator[GraphModule]:
    """The modules between the calls of pipe_split. Each gives what later ones need."""
    parts: list[list[Node]] = [[]]
    inputs: list[Node] = []
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            inputs.append(node)
        elif node.op == "call_function" and node.target is pipe_split:
            if parts[-1]:
                parts.append([])
        elif node.op != "output":
            parts[-1].append(node)
    if not parts[-1]:
        parts.pop()
    if len(parts) < 2:
        raise ArgumentError(
            "pipeline: there is one stage: name modules in split_spec, or call pipe_split in the program"
        )
    attributes = {node for part in parts for node in part if node.op == "get_attr"}
    place = {node: i for i, part in enumerate(parts) for node in part} | dict.fromkeys(inputs, 0)
    output = traced.graph.output_node()
    last = {
        node: max([len(parts) - 1 if user is output else place[user] for user in node.users], default=0)
        for node in place if node not in attributes
    }  # fmt: skip
    coming = inputs
    for i, part in enumerate(parts):
        graph = Graph()
        made = {
            node: graph.node_copy(node) if i == 0 else graph.placeholder(node.name) for node in coming
        }  # a value that came from the stage before has no default
        for node in part:
            if node not in attributes:
                for attribute in node.all_input_nodes:  # read where they are used
                    if attribute in attributes and attribute not in made:
                        made[attribute] = graph.node_copy(attribute)
                made[node] = graph.node_copy(node, made.__getitem__)
        if i + 1 == len(parts):
            for attribute in output.all_input_nodes:
                if attribute in attributes and attribute not in made:
                    made[attribute] = graph.node_copy(attribute)
            graph.node_copy(output, made.__getitem__)
        else:
            coming = [node for node in [*coming, *part] if node not in attributes and last[node] > i]
            values = tuple(made[node] for node in coming)
            graph.output(values[0] if len(values) == 1 else values)
        yield GraphModule(traced, graph, f"{type(traced).__name__}Stage{i}")


def _check_parameters(stages: list[GraphModule]) -> None:
    """ArgumentError for a parameter of several stages: each process would train its own."""
    owners: dict[int, tuple[int, str]] = {}
    for i, stage in enumerate(stages):
        for name, parameter in stage.named_parameters():
            first, known = owners.setdefault(id(parameter), (i, name))
            if first != i:
                raise ArgumentError(
                    f"pipeline: the stages {first} and {i} have one parameter, {known} and {name}: keep them together"
                )
