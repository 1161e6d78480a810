"""Runs a graph: nodes in order, with what does not change computed once.

A run with inputs of new shapes goes node by node and notes which values are known: those of constants alone, and those
that follow from shapes. Later runs with the same shapes start from these, and what remains between nodes that read
values on the host is recorded once and replayed (`pyapp.compiler`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pyapp.compiler import Compiled
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, is_grad_enabled
from pyapp.errors import ModelError
from pyapp.formats.onnx_file import Function, GraphRecord, Node, OnnxModel, StoredTensor

from . import values
from .fusing import fused
from .packing import pack, pack_dynamic, pack_lstm
from .registry import every, find
from .steps import Eager, Step
from .values import ForeignArray, from_stored, read_now

NEWEST_OPSET = 28  # of the default domain
_EXPANDED_LIMIT = 1 << 16  # nodes of a model whose functions are inlined
_FUNCTION_DEPTH = 64
_PLANS = 16  # shapes of inputs that are remembered


@dataclass
class _Placed:
    """A node, and the opsets of the graph or function in which it stands."""

    node: Node
    opsets: dict[str, int]


class Builder:
    """Makes programs of the graphs of a model; `where` names its file in errors."""

    def __init__(self, model: OnnxModel, where: str, device: Any = None) -> None:
        self.model, self.where, self.device = model, where, device
        self.weights: dict[str, Any] = {}  # of the main graph, which inner graphs see too
        self.packed: dict[int, Any] = {}  # see packing.pack
        self._expanded = 0

    def fail(self, what: str, hint: str | None = None) -> ModelError:
        return ModelError(what, where=self.where, hint=hint)

    def program(self, graph: GraphRecord, opsets: dict[str, int], visible: set[str], main: bool = False) -> Program:
        """The program of a graph; `visible`: names of the graphs around it."""
        own = {info.name for info in graph.inputs}
        program = Program(
            graph.name, [info.name for info in graph.inputs], [info.name for info in graph.outputs], self.packed
        )
        program.device = self.device
        program.output_types = [info.type for info in graph.outputs]
        for name, stored in graph.tensors.items():
            if main:
                self.weights[name] = stored
            else:
                program.constants[name] = from_stored(stored, self.device)
            own.add(name)
        placed = []
        for item in self._inlined([_Placed(node, opsets) for node in graph.nodes], 0):
            constant = _constant_of(item.node)
            if constant is None or item.node.outputs[0] in own:
                placed.append(item)
                continue
            name = item.node.outputs[0]
            if main and constant.numel > 1 and "float" in constant.element:
                self.weights[name] = constant
            else:
                program.constants[name] = from_stored(constant, self.device)
            own.add(name)
        for item in placed:
            for name in item.node.outputs:
                if name and name in own:
                    raise self.fail(f"the value {name!r} is made twice, again by {item.node.title}")
                if name:
                    own.add(name)
        captured: dict[str, None] = {}
        for item in self._ordered(placed, own, visible):
            step = self._step(item, own | visible)
            for name in (*step.inputs, *step.captures):
                if name and name not in own:
                    captured[name] = None
            program.steps.append(step)
        for name in program.outputs:
            if name not in own:
                if name not in visible:
                    raise self.fail(f"the output {name!r} is made by no node")
                captured[name] = None
        program.captures = list(captured)
        program.finish()
        return program

    def _inlined(self, items: list[_Placed], depth: int) -> list[_Placed]:
        """The nodes with calls of the model's functions replaced by their nodes."""
        functions = self.model.functions
        if not functions:
            return items
        found: list[_Placed] = []
        for item in items:
            node = item.node
            function = functions.get((node.domain, node.op, node.overload))
            if function is None:
                found.append(item)
                continue
            if depth > _FUNCTION_DEPTH:
                raise self.fail(f"functions call each other more than {_FUNCTION_DEPTH} deep at {node.title}")
            self._expanded += len(function.nodes)
            if self._expanded > _EXPANDED_LIMIT:
                raise self.fail(f"its functions make more than {_EXPANDED_LIMIT:,} nodes")
            found += self._inlined(_body_of(function, node, self._expanded), depth + 1)
        return found

    def _ordered(self, items: list[_Placed], own: set[str], visible: set[str]) -> list[_Placed]:
        """The nodes such that each comes after those that it needs. ModelError for a cycle, or a name that is
        nowhere."""
        maker = {name: at for at, item in enumerate(items) for name in item.node.outputs if name}
        needs = [sorted({maker[name] for name in _needs(item.node) if name in maker}) for item in items]
        for item in items:
            for name in item.node.inputs:
                if name and name not in own and name not in visible:
                    raise self.fail(f"{item.node.title} ({item.node.op}) takes {name!r}, which nothing makes")
        if all(not before or before[-1] < at for at, before in enumerate(needs)):
            return items
        waiting = [len(before) for before in needs]
        after: list[list[int]] = [[] for _ in items]
        for at, before in enumerate(needs):
            for earlier in before:
                after[earlier].append(at)
        ready = [at for at, count in enumerate(waiting) if not count][::-1]
        found: list[_Placed] = []
        while ready:
            at = ready.pop()
            found.append(items[at])
            for later in after[at]:
                waiting[later] -= 1
                if not waiting[later]:
                    ready.append(later)
        if len(found) < len(items):
            first = next(items[at].node for at, count in enumerate(waiting) if count)
            raise self.fail(f"its graph has a cycle: {first.title} ({first.op}) needs its own result")
        return found

    def _step(self, item: _Placed, names: set[str]) -> Step:
        node, opsets = item.node, item.opsets
        domain = node.domain
        version = opsets.get(domain)
        if version is None:
            if domain == "":
                raise self.fail("it names no opset of the default domain", "Export the model again")
            version = 1
        title = f"{node.title} ({domain + '.' if domain else ''}{node.op}, opset {version})"
        if domain == "" and version > NEWEST_OPSET:
            raise self.fail(
                f"it uses opset {version}; opsets up to {NEWEST_OPSET} can be run", "Export it with an older one"
            )
        operator = find(domain, node.op, version)
        if operator is None:
            known = any((domain, node.op) == key for key in every())
            raise self.fail(
                f"{title}: there is no such operator" if not known else f"{title}: the operator is not in this opset",
                "docs/onnx.md lists the operators that pyapp runs",
            )
        settings: dict[str, Any] = {}
        bodies: dict[str, Program] = {}
        for name, value in node.attributes.items():
            if name not in operator.attributes and name not in operator.special:
                raise self.fail(f"{title}: the attribute {name!r} is not known")
            if isinstance(value, GraphRecord):
                bodies[name] = self.program(value, opsets, names)
            else:
                settings[name] = read_now(value)
        for name in operator.required - settings.keys() - bodies.keys():
            raise self.fail(f"{title}: the attribute {name!r} is missing")
        inputs = list(node.inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        if len(inputs) < operator.least or (operator.most is not None and len(inputs) > operator.most):
            most = "more" if operator.most is None else operator.most
            raise self.fail(f"{title}: it has {len(inputs)} inputs, expected {operator.least} to {most}")
        if "opset" in operator.special:
            settings.setdefault("opset", version)
        if "outputs" in operator.special:
            settings["outputs"] = len(node.outputs)
        if "device" in operator.special:
            settings["device"] = self.device
        captures = [name for body in bodies.values() for name in body.captures]
        taken = list(dict.fromkeys(captures))
        return Step(operator, title, inputs, list(node.outputs), settings, bodies, taken, device=self.device)


def _constant_of(node: Node) -> StoredTensor | None:
    """The tensor that a Constant gives: some exporters write weights so. Several numbers are parameters, as those of
    the graph's own tensors are; single ones are settings.
    """
    value = node.attributes.get("value") if node.op == "Constant" and node.domain == "" else None
    if not isinstance(value, StoredTensor) or len(node.attributes) > 1 or node.inputs or len(node.outputs) != 1:
        return None
    return value if node.outputs[0] else None


def _needs(node: Node) -> Iterable[str]:
    """The names that a node takes, those in its graphs included."""
    yield from filter(None, node.inputs)
    for value in node.attributes.values():
        for graph in value if isinstance(value, list) else [value]:
            if isinstance(graph, GraphRecord):
                for inner in graph.nodes:
                    yield from _needs(inner)
                yield from (info.name for info in graph.outputs)


def _body_of(function: Function, call: Node, serial: int) -> list[_Placed]:
    """The nodes of a function for one call: names are made unique, attributes have the values of the call."""
    names = dict.fromkeys(function.inputs, "")
    names.update(zip(function.inputs, call.inputs, strict=False))
    names.update((inner, outer) for inner, outer in zip(function.outputs, call.outputs, strict=False) if outer)
    given = function.defaults | call.attributes

    def renamed(name: str, scope: dict[str, str]) -> str:
        if not name:
            return ""
        return scope[name] if name in scope else f"{name}/{function.name}/{serial}"

    def node_of(node: Node, scope: dict[str, str]) -> Node:
        settings = {name: value_of(value, scope) for name, value in node.attributes.items()}
        settings |= {name: given[source] for name, source in node.references.items() if source in given}
        return replace(
            node, inputs=[renamed(n, scope) for n in node.inputs], outputs=[renamed(n, scope) for n in node.outputs],
            attributes=settings, references={},
        )  # fmt: skip

    def value_of(value: Any, scope: dict[str, str]) -> Any:
        if not isinstance(value, GraphRecord):
            return value
        # Names of inputs and tensors of an inner graph stay: they hide those outside.
        inner = scope | {info.name: info.name for info in value.inputs} | {name: name for name in value.tensors}
        made = copy(value)
        made.nodes = [node_of(node, inner) for node in value.nodes]
        made.outputs = [replace(info, name=renamed(info.name, inner)) for info in value.outputs]
        return made

    return [_Placed(node_of(node, names), function.opsets) for node in function.nodes]


class Program:
    """The steps of a graph."""

    def __init__(self, name: str, inputs: list[str], outputs: list[str], packed: dict[int, Any]) -> None:
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self._packed, self._prepared = packed, False
        self.captures: list[str] = []
        self.constants: dict[str, Any] = {}
        self.steps: list[Step] = []
        self.output_types: list[Any] = []
        self.device: Any = None

    def finish(self) -> None:
        """Notes after which step each value is not needed any more."""
        kept, seen = set(self.outputs), set[str]()
        for step in reversed(self.steps):
            names = {name for name in (*step.inputs, *step.captures, *step.outputs) if name}
            step.last_uses = [name for name in names - seen if name not in kept]
            seen |= names

    def run(self, given: dict[str, Any], known: frozenset[str], plans: Any) -> list[Any]:
        """The outputs for inputs and captured values by name, of which `known` are the same at every call."""
        learns = is_grad_enabled()
        kinds = tuple(_kind(value) for name, value in given.items() if name not in known)
        key = (kinds, known, learns and any(_learns(value) for value in given.values()))
        plan = plans.get(key)
        if plan is not None:
            return plan.run(given)
        if len(plans) >= _PLANS:
            del plans[next(iter(plans))]
        if not self._prepared:
            self._prepare({name: given[name] for name in known})
        plan = _Plan(self, key[2])
        found = plan.trace(self, given, known)
        plans[key] = plan
        return found

    def _prepare(self, known: dict[str, Any]) -> None:
        """Packs quantised weights."""
        self._prepared = True
        for step in list(self.steps):
            if step.operator.name == "MatMulNBits":
                found = pack(step, self.constants | known, self._packed)
                if found is not None:
                    new, key, self.constants[key] = found
                    self.steps = [new if item is step else item for item in self.steps]
            elif step.operator.name == "DynamicQuantizeLSTM":
                replaced = pack_lstm(step, self.constants | known, self._packed)
                if replaced is not None:
                    new, weights = replaced
                    self.constants |= weights
                    self.steps = [new if item is step else item for item in self.steps]
            elif step.operator.name in ("MatMulInteger", "ConvInteger"):
                several = pack_dynamic(self.steps, step, self.constants | known, set(self.outputs), self._packed)
                if several is not None:
                    gone, new, key, self.constants[key] = several
                    self.steps = [
                        new if item.outputs == new.outputs else item
                        for item in self.steps
                        if item.outputs == new.outputs or not any(item is other for other in gone)
                    ]
        if self._packed:
            taken = self.taken()
            self.steps = [
                item
                for item in self.steps
                if item.operator.name != "DynamicQuantizeLinear" or any(name in taken for name in item.outputs)
            ]
        self.finish()

    def taken(self) -> set[str]:
        """The names that the steps take, and the outputs."""
        return {name for step in self.steps for name in (*step.inputs, *step.captures)} | set(self.outputs)


def _kind(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.shape, value.dtype.name, value.device, value.requires_grad
    if isinstance(value, ForeignArray):
        return value.element, value.shape
    if isinstance(value, (list, tuple)):
        return tuple(_kind(part) for part in value)
    return type(value)


def _layout(value: Any) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype of a tensor."""
    return (tuple(value.shape), value.dtype.name) if isinstance(value, Tensor) else None


def _learns(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


class _Plan:
    """How a program runs for inputs of certain kinds."""

    def __init__(self, program: Program, learns: bool) -> None:
        self.outputs, self.learns = program.outputs, learns
        self.known: dict[str, Any] = {}
        self.items: list[Eager | _Recorded] = []
        self.arrays: dict[Any, tuple[Any, Any]] = {}  # of known tensors that operators read on the host

    def trace(self, program: Program, given: dict[str, Any], known: frozenset[str]) -> list[Any]:
        """Runs the program, and notes what is known."""
        env = dict(program.constants)
        env.update(given)
        fixed = set(program.constants) - given.keys() | known
        dynamic = {
            name for name, value in given.items() if name not in fixed and not isinstance(value, (Tensor, ForeignArray))
        }
        steps: list[Eager] = []
        shapes = {name: _layout(value) for name, value in env.items()}
        watch = values.WATCH
        waiting, inlined = program.steps[::-1], 0
        while waiting:
            step = waiting.pop()
            if step.operator.name == "If" and step.inputs[0] in fixed and env[step.inputs[0]].numel() == 1:
                inlined += 1
                branch, new = _branch_of(step, env, fixed, inlined)
                fixed |= new.keys()
                env.update(new)
                shapes.update((name, _layout(value)) for name, value in new.items())
                waiting += branch[::-1]
                continue
            taken = [name for name in (*step.inputs, *step.captures) if name]
            operator, plans = step.operator, dict[str, Any]()
            unknown = [name for name in taken if name not in fixed]
            watched = frozenset(id(env[name]) for name in unknown)
            before = watch.ids, watch.known, watch.arrays
            watch.ids, watch.hit, watch.arrays = watch.ids | watched, False, self.arrays
            watch.known = frozenset(id(env[name]) for name in taken if name in fixed)
            try:
                found = step.call(env, fixed, plans)
            finally:
                (watch.ids, watch.known, watch.arrays), hit = before, watch.hit
            if self.learns:
                _check_gradient(step, env, found)
            moving = any(name in dynamic for name in unknown)
            is_fixed = not operator.changes and (not unknown or (operator.shape_only and not moving))
            reads = any(at < len(step.inputs) and step.inputs[at] in unknown for at in operator.reads)
            for name, value in zip(step.outputs, found, strict=False):
                if not name:
                    continue
                env[name] = value
                shapes[name] = _layout(value)
                if is_fixed:
                    fixed.add(name)
                elif moving or reads or step.bodies or not isinstance(value, (Tensor, ForeignArray)):
                    dynamic.add(name)
            if not is_fixed:
                steps.append(Eager(step, plans, host=hit or reads or bool(step.bodies) or operator.changes))
            for name in step.last_uses:
                if name not in fixed:
                    env.pop(name, None)
        wanted = {name for item in steps for name in (*item.step.inputs, *item.step.captures)} | set(self.outputs)
        made: dict[str, Any] = {}
        steps = fused(steps, env, fixed, set(self.outputs), shapes, made, self.learns)
        env.update(made)
        fixed |= made.keys()
        wanted |= made.keys()
        self.known = {name: env[name] for name in fixed if name in wanted and name not in given}
        self._fixed = frozenset(fixed)
        self._arrange(steps, {name for name in given if name not in known})
        return [env[name] for name in self.outputs]

    def _arrange(self, steps: list[Eager], inputs: set[str]) -> None:
        """Joins neighbouring steps that kernels can do alone."""
        later: list[set[str]] = [set()] * (len(steps) + 1)
        later[-1] = set(self.outputs)
        for at in range(len(steps) - 1, -1, -1):
            later[at] = later[at + 1] | {n for n in (*steps[at].step.inputs, *steps[at].step.captures) if n}
        at = 0
        while at < len(steps):
            end = at
            while end < len(steps) and not steps[end].host and not self.learns:
                end += 1
            if end - at > 1:
                self.items.append(_Recorded(steps[at:end], self._fixed, later[end]))
                at = end
            else:
                self.items.append(steps[at])
                at += 1

    def run(self, given: dict[str, Any]) -> list[Any]:
        env = dict(self.known)
        env.update(given)
        watch = values.WATCH
        before, watch.arrays = watch.arrays, self.arrays
        try:
            for item in self.items:
                item.run(env, self._fixed)
        finally:
            watch.arrays = before
        return [env[name] for name in self.outputs]


def _branch_of(step: Step, env: dict[str, Any], fixed: set[str], serial: int) -> tuple[list[Step], dict[str, Any]]:
    """The steps of the branch that an If with a known condition takes, to run in the place of the If, and the constants
    of the branch. Names that are made in it get a suffix, because other graphs may use the same ones.
    """
    taken = "then_branch" if values.scalar(env[step.inputs[0]]) else "else_branch"
    body, same = step.bodies[taken], find("", "Identity", NEWEST_OPSET)
    if not isinstance(body, Program) or same is None:
        raise TypeError(f"{step.title}: its {taken} is not a graph")
    outer = {name: step.places.get(name, name) for name in body.captures}
    if not body._prepared:
        body._prepare({name: env[place] for name, place in outer.items() if place in fixed})

    # Results have the names of the If's outputs, but for values that a node of the branch does not make.
    results: dict[str, str] = {}
    copies: list[tuple[str, str]] = []
    made = {name for inner in body.steps for name in inner.outputs}
    for name, wanted in zip(body.outputs, step.outputs, strict=False):
        if wanted and name in made and name not in results:
            results[name] = wanted
        else:
            copies.append((name, wanted))

    def place(name: str) -> str:
        if not name or name in outer:
            return outer.get(name, "")
        return results.get(name) or f"{name}/{step.outputs[0]}/{serial}"

    steps = [
        replace(
            inner,
            inputs=[place(name) for name in inner.inputs],
            outputs=[place(name) for name in inner.outputs],
            captures=[place(name) for name in inner.captures],
            places={name: place(name) for name in inner.captures},
            last_uses=[place(name) for name in inner.last_uses if name not in outer],
        )
        for inner in body.steps
    ]
    steps += [Step(same, step.title, [place(name)], [wanted], {}, {}, []) for name, wanted in copies]
    steps[-1].last_uses = [*steps[-1].last_uses, *step.last_uses]
    return steps, {place(name): value for name, value in body.constants.items()}


def _check_gradient(step: Step, env: dict[str, Any], found: Sequence[Any]) -> None:
    """ModelError where a gradient would end without a word."""
    if any(_learns(env[name]) for name in step.inputs if name):
        for value in found:
            if isinstance(value, Tensor) and value.dtype.category == 2 and not value.requires_grad:
                raise ModelError(
                    f"{step.title}: it has no gradient here",
                    hint="Freeze the parameters before it: p.requires_grad_(False)",
                )


class _Recorded:
    """Steps that are one call into the kernels, once they have been recorded."""

    def __init__(self, steps: list[Eager], fixed: frozenset[str], later: set[str]) -> None:
        made = {name for item in steps for name in item.step.outputs if name}
        taken = {name for item in steps for name in item.step.inputs if name and name not in fixed}
        self._inputs = sorted(taken - made)
        self._outputs = sorted(made & later)
        self._fixed = sorted({name for item in steps for name in item.step.inputs if name in fixed})
        self._spent = sorted((taken | made) - later)
        self._steps = steps
        self._known: dict[str, Any] = {}
        self._compiled = Compiled(_runner(steps, self._inputs, self._outputs, self._known), warns=False, at_once=True)

    @property
    def reason(self) -> str | None:
        return self._compiled.reason

    def run(self, env: dict[str, Any], known: Any) -> None:
        held = self._known
        if any(name not in held or held[name] is not env[name] for name in self._fixed):
            held.clear()
            held.update((name, env[name]) for name in self._fixed)
            self._compiled.reset()
        found = self._compiled(*[env[name] for name in self._inputs])
        for name in self._spent:
            env.pop(name, None)
        env.update(zip(self._outputs, found, strict=True))


def _runner(steps: list[Eager], inputs: list[str], outputs: list[str], known: dict[str, Any]) -> Callable[..., Any]:
    def run(*tensors: Any) -> tuple[Any, ...]:
        env = dict(known)
        env.update(zip(inputs, tensors, strict=True))
        for item in steps:
            item.run(env, known)
        return tuple(env[name] for name in outputs)

    return run
