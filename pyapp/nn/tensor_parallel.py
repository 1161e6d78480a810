"""Tensor parallelism: each process of a group has a part of every large matrix, and all compute each token together
(Shoeybi et al. 2019, arXiv 1909.08053).

The first matrices of a layer are divided by their outputs (heads, inner features), the last one by its inputs; a sum
over the processes follows it. So a layer of a transformer has two sums. The vocabulary is divided too: the embedding
is a sum in which one process has each token's row, and the logits are gathered.

A module says by `tensor_parallel` how its layers are divided, by their names:

- ("outputs", PART, …): a linear layer whose outputs are these parts, one after the other;
- ("inputs", PART): a linear layer whose inputs are this part, and whose outputs are summed;
- ("vocabulary",): an embedding, or the linear layer of the logits;
- ("heads",): a parameter with a number for each head of queries;
- ("between",): every process has all of it, and computes its part of what lies between first and last matrices;
- ("whole",): every process has all of it, and computes the same.

Parts are "queries" and "keys" (the features of all heads of queries, and of those of keys or values), "heads" (one
feature of each head of queries), "groups" (of each head of keys: its queries, its key and its value, one group after
another) and "inner" (features between the two layers of a feed-forward). A module with queries has `heads`,
nn.heads.Heads or a number. Experts have such parts of the stacks of their matrices: each process has a part of every
expert, so that all have the same work whichever is chosen.

In a model that is trained, the backward pass has such sums where the forward pass has none: of the gradients of the
input of the first matrices, and of parameters that every process has between the two (a norm of each head).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import lcm, prod
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.grad_mode import STATE
from ..engine.launch import run_in_order
from ..engine.ops import empty
from ..engine.processes.communicator import ReduceOp
from ..engine.processes.differentiable import gather_parts, sum_of_gradients, sum_over_ranks, summed_gradient
from ..engine.processes.group import ProcessGroup, group_or_world
from ..errors import ModelError, OptionError
from .heads import Heads
from .layers.embedding import Embedding
from .layers.experts import Experts
from .layers.linear import Linear, ResidualLinear, TransposedLinear
from .module import Module
from .parameter import Parameter
from .part import Part

__all__ = ["divide", "parallelize", "sum_of_ranks"]

UNITS = (256, 64, 32, 8, 1)  # inner features that stay together, the best first: whole blocks, whole vectors
WORDS = 8  # tokens that stay together: a band of rows
MOST_WHOLE = 0.5  # of the parameters' elements that every process may have


# -- sums and gathers


def _check_no_gradient(x: Tensor) -> None:
    if x.requires_grad:
        raise NotImplementedError(
            "this model was divided among processes without gradients: use no_grad(), or parallelize(…, training=True)"
        )


def sum_of_ranks(x: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of the tensors of all processes, in the memory of x, which must be dense. A Graph repeats it."""
    _check_no_gradient(x)
    if group.size() > 1:
        run_in_order(lambda: group.member().repeated_all_reduce(x, ReduceOp.SUM), (x,))
    return x


def gathered(x: Tensor, group: ProcessGroup, features: int, most: int) -> Tensor:
    """The last dims of all processes, side by side: x (..., own features), each with `most` but the last ones, which
    may have fewer → (..., features). A Graph repeats it.
    """
    if group.size() == 1:
        return x
    _check_no_gradient(x)
    shape, own = x.shape, x.shape[-1]
    rows = prod(shape[:-1])
    sent = x.reshape(rows, own).contiguous()
    if own < most:
        sent = ops.zeros(rows, most, dtype=x.dtype, device=x.device)
        sent.narrow(1, 0, own).copy_(x.reshape(rows, own))
    every = empty(group.size(), rows, most, dtype=x.dtype, device=x.device)  # (ranks, rows, most)
    run_in_order(lambda: group.member().repeated_all_gather(every, sent), (every, sent))
    if rows > 1:
        every = every.transpose(0, 1).contiguous()  # (rows, ranks, most)
    return every.reshape(rows, group.size() * most).narrow(1, 0, features).contiguous().reshape(*shape[:-1], features)


# -- the layers of a process


class _Divided:
    """A layer that has a part. `training`: gradients may go through it."""

    group: ProcessGroup
    training_parts = False

    def records(self) -> bool:
        """Whether gradients are recorded now."""
        return self.training_parts and STATE.enabled


class SummedLinear(_Divided, ResidualLinear):
    """A ResidualLinear that has a part of the inputs. The first process adds bias and residual, then all sum up."""

    def matrix(self) -> Tensor:
        """The weight (out, own in)."""
        return self.weight

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if self.records():  # every process has the gradients of bias and residual
            y = sum_over_ranks(ops.linear(x, self.matrix()), self.group)
            y = y if self.bias is None else y + self.bias
            return y if residual is None else residual + y
        first = self.group.rank() == 0
        y = ops.linear(x, self.matrix(), self.bias if first else None, residual if first else None)
        return sum_of_ranks(y, self.group)

    def summed(self, x: Tensor) -> Tensor:
        """The sum of other tensors of the processes, in the memory of x."""
        return sum_of_ranks(x, self.group)


class SummedTransposedLinear(SummedLinear, TransposedLinear):
    """A TransposedLinear that has a part of the inputs, as SummedLinear."""

    def matrix(self) -> Tensor:
        return self.weight.T


class SummedExperts(_Divided, Experts):
    """Experts that have a part of their inner features. All processes choose alike, the first one adds the biases of
    the outputs, and all sum up.
    """

    def forward(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        if self.records():
            x, shares = (sum_of_gradients(value, self.group) for value in (x, shares))
            return sum_over_ranks(super().forward(x, shares, chosen), self.group)
        return sum_of_ranks(super().forward(x, shares, chosen).contiguous(), self.group)

    def bias_of(self, name: str) -> Tensor | None:
        bias = super().bias_of(name)
        if bias is None or name != "down_proj":
            return bias
        if self.records():  # all add a share of it, and get its whole gradient
            return sum_of_gradients(bias, self.group) / self.group.size()
        return None if self.group.rank() else bias


_SUMMED: dict[type[Experts], type[Experts]] = {Experts: SummedExperts}


def summed_experts(kind: type[Experts]) -> type[Experts]:
    """SummedExperts that compute as experts of a kind do."""
    if kind not in _SUMMED:
        _SUMMED[kind] = type(f"Summed{kind.__name__}", (SummedExperts, kind), {})
    return _SUMMED[kind]


class DividedHead(_Divided, Linear):
    """A Linear that has a part of the outputs, and returns those of all processes."""

    features: int
    most: int

    def forward(self, x: Tensor) -> Tensor:
        if self.records():
            own = ops.linear(sum_of_gradients(x, self.group), self.weight, self.bias)
            return gather_parts(own, self.group, -1, self.features, self.most)
        return gathered(ops.linear(x, self.weight, self.bias), self.group, self.features, self.most)


class DividedEmbedding(_Divided, Embedding):
    """An Embedding that has the rows of `count` ids from `first` on; the others are zero here."""

    first: int
    count: int
    most: int

    def forward(self, input: Tensor) -> Tensor:
        own = input - self.first
        here = (own >= 0).logical_and(own < self.count)
        rows = ops.embedding(self.weight, ops.where(here, own, 0).to(input.dtype))
        rows = (rows * here.unsqueeze(-1).to(rows.dtype)).contiguous()
        return sum_over_ranks(rows, self.group) if self.records() else sum_of_ranks(rows, self.group)

    def logits(self, x: Tensor) -> Tensor:
        """x (..., D) times all rows → (..., V)."""
        if self.records():
            own = ops.linear(sum_of_gradients(x, self.group), self.weight)
            return gather_parts(own, self.group, -1, self.num_embeddings, self.most)
        return gathered(ops.linear(x, self.weight), self.group, self.num_embeddings, self.most)


class _Entry:
    """The way into the layers of a module that have parts of the outputs. Those of one input share the sum of its
    gradients.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self._last: tuple[Tensor, Tensor] | None = None

    def add(self, layer: Module) -> None:
        layer.register_forward_pre_hook(self._enter)

    def _enter(self, layer: Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        x, *others = args
        if not (STATE.enabled and x.requires_grad):
            return None
        if self._last is None or self._last[0] is not x:
            self._last = x, sum_of_gradients(x, self.group)
        return self._last[1], *others

    def leave(self, module: Module, args: Any, output: Any) -> None:
        self._last = None


# -- dividing a model


def parallelize(model: Module, group: ProcessGroup | None = None, *, training: bool = False) -> Module:
    """Makes a model, which all processes of a group (None: of all) have, one that they compute together: each keeps its
    part of the parameters. `models.load_model(…, tensor_parallel=group)` reads only the parts.

    `training`: the parameters that require gradients still do. Call it before the optimiser is made. All processes get
    the same batch, and compute the same loss; `nn.utils.clip_grad_norm_` sums over them. Optimisers that need whole
    matrices (Muon, Adafactor, LBFGS) refuse the parts. `distributed.fsdp.full_state_dict` has whole parameters.

    ModelError for a model that cannot be divided, and is not usable afterwards; ProcessError before init_process_group.
    """
    group = group_or_world(group)
    if not hasattr(group, "size"):
        raise OptionError(f"is {group!r:.60}, expected a group of processes, as of init_process_group", where="group")
    for name, parameter in model.named_parameters():
        if parameter.part is not None:
            raise ModelError(f"{name} is divided among processes already", where=type(model).__name__)
    kinds = {id(p): p.dtype.block if p.dtype.is_quantized else 1 for p in model.parameters()}
    parts = divide(model, group, lambda parameter: kinds[id(parameter)], training)
    made: dict[int, Tensor] = {}
    with no_grad():
        for module in model.modules():
            for name, parameter in [*module._parameters.items()]:
                if id(parameter) in parts:
                    if id(parameter) not in made:
                        part = parts[id(parameter)]
                        own = made[id(parameter)] = Parameter(
                            part.of(parameter.detach()), requires_grad=training and parameter.requires_grad
                        )
                        if training:
                            own.shard_groups, own.part = (group,), part
                    setattr(module, name, made[id(parameter)])
    return model


def divide(
    model: Module, group: ProcessGroup, block_of: Callable[[Tensor], int], training: bool = False
) -> dict[int, Part]:
    """Changes the modules of a model to those that compute with the part of this process; returns the parts by the id
    of the parameter, which the caller replaces. `block_of(parameter)` is how many columns must stay together.

    ModelError names what cannot be divided.
    """
    made = _Division(model, group, block_of, training)
    for path, module in [*model._paths()]:
        plan = getattr(module, "tensor_parallel", None)
        if plan:
            made.add(path or type(model).__name__, module, plan)
    made.check()
    return made.parts


class _Division:
    """The division of a model among the processes of a group."""

    def __init__(
        self, model: Module, group: ProcessGroup, block_of: Callable[[Tensor], int], training: bool
    ) -> None:  # fmt: skip
        self.model, self.group, self.block_of, self.training = model, group, block_of, training
        self.name = type(model).__name__
        self.size, self.rank = group.size(), group.rank()
        self.parts: dict[int, Part] = {}
        self.every = {id(p): (name, p.numel()) for name, p in model.named_parameters()}

    def add(self, path: str, module: Module, plan: Mapping[str, tuple[str, ...]]) -> None:
        """Divides the layers of a module."""
        own = [name for name, parameter in module._parameters.items() if parameter is not None and name not in plan]
        if isinstance(module, Experts):
            self._refuse(path, module, own)
            self._stacks(path, module, plan)
            return
        there = {name: layer for name, layer in module._modules.items() if layer is not None}
        divided = {name: split for name, split in plan.items() if name in there}
        if any(split[0] in ("outputs", "inputs") for split in divided.values()):
            unknown = [name for name, layer in there.items() if name not in plan and _has_parameters(layer)]
            self._refuse(path, module, own + unknown)
        ranges = self._ranges(path, module, divided, there)
        for name, split in divided.items():
            layer, where = there[name], f"{path}.{name}"
            kind, *of = split
            if kind == "vocabulary":
                self._vocabulary(layer)
            elif kind == "outputs":
                self._outputs(where, layer, [self._range(where, ranges, part) for part in of])
            elif kind == "inputs":
                self._inputs(where, layer, ranges[of[0]])
            elif kind not in ("between", "whole"):
                raise ModelError(f"{kind!r} is not a way to divide a layer", where=where)
        for name, parameter in module._parameters.items():
            if parameter is not None and plan.get(name) == ("heads",):
                width, (_, first, count) = module.heads.head_dim, ranges["queries"]
                self._set(parameter, 0, ((first // width, count // width),))
        if self.training and ranges:
            self._gradients(module, divided, plan)

    def _gradients(self, module: Module, divided: Mapping[str, tuple[str, ...]], plan: Mapping[str, Any]) -> None:
        """Sums over the processes in the backward pass of a module whose layers are divided."""
        entry = _Entry(self.group)
        for name, split in divided.items():
            if split[0] == "outputs":
                entry.add(module._modules[name])
        module.register_forward_hook(entry.leave, always_call=True)
        for name, split in divided.items():
            if split == ("between",):
                for parameter in module._modules[name].parameters():
                    if parameter.requires_grad:
                        parameter.register_hook(lambda gradient: summed_gradient(gradient, self.group))

    def _refuse(self, path: str, module: Module, unknown: Sequence[str]) -> None:
        """ModelError if there are parts that a module does not say how to divide."""
        if unknown:
            raise ModelError(
                f"{self.name} cannot be divided among processes: {type(module).__name__} does not say how "
                f"{', '.join(unknown)} is divided", where=path, hint="Run it in one process",
            )  # fmt: skip

    def check(self) -> None:
        """ModelError unless most of the model is divided."""
        if self.size == 1:
            return
        whole = [(name, count) for key, (name, count) in self.every.items() if key not in self.parts]
        total = sum(count for _, count in self.every.values())
        if sum(count for _, count in whole) > MOST_WHOLE * total:
            largest = max(whole, key=lambda pair: pair[1])[0]
            raise ModelError(
                f"{self.name} cannot be divided among processes: most of its parameters, such as "
                f"{largest}, would be in all of them", hint="Run it in one process",
            )  # fmt: skip

    # -- what each process has

    def _ranges(
        self, path: str, module: Module, divided: Mapping[str, tuple[str, ...]], there: Mapping[str, Any]
    ) -> dict[str, tuple[int, int, int]]:
        """(features in all, first, count) of each part of a module."""
        found: dict[str, tuple[int, int, int]] = {}
        last = {split[1]: there[name] for name, split in divided.items() if split[0] == "inputs"}
        if "inner" in last:
            layer = last["inner"]
            total = int(layer.in_features)
            block = self.block_of(layer.weight)
            found["inner"] = (total, *self._divided(path, total, block))
        if "queries" in last:
            found |= self._heads(path, module, last["queries"])
        return found

    def _range(self, path: str, ranges: Mapping[str, tuple[int, int, int]], part: str) -> tuple[int, int, int]:
        """That of a part. Groups of heads are whole, where a layer has the queries of each beside its key and value."""
        if part not in ranges:
            raise ModelError(
                f"{self.name} cannot be divided among {self.size} processes, which are more than its heads of keys: "
                "queries, keys and values of a group are one part of this layer",
                where=path, hint="Take at most as many processes as there are heads of keys",
            )  # fmt: skip
        return ranges[part]

    def _divided(self, path: str, total: int, block: int) -> tuple[int, int]:
        """(first, count) of features that are divided in units of whole blocks, as evenly as can be."""
        units = [unit for unit in (*(block * unit for unit in (8, 4, 2)), *UNITS, block)
                 if unit % block == 0 and total % unit == 0 and total // unit >= self.size]  # fmt: skip
        if not units:
            raise ModelError(
                f"{total} inner features of {self.name}, in blocks of {block}, cannot be divided among {self.size} "
                "processes",
                where=path, hint="Take fewer processes, or another type of weights",
            )  # fmt: skip
        unit = next((unit for unit in units if total // unit % self.size == 0), min(units))
        first, last = (total // unit * rank // self.size * unit for rank in (self.rank, self.rank + 1))
        return first, last - first

    def _heads(self, path: str, module: Any, last: Any) -> dict[str, tuple[int, int, int]]:
        """Whole groups of heads: the queries of a key stay together. Where there are fewer keys than processes, several
        have the same key.
        """
        given = module.heads
        heads = given if isinstance(given, Heads) else Heads(given, given, last.in_features // given)
        queries, keys, width, block = heads.heads, heads.kv_heads, heads.head_dim, self.block_of(last.weight)
        group = queries // keys
        together = lcm(group * width, block) // (group * width)  # groups that end with a block
        if keys % together == 0 and keys // together >= self.size:
            units = keys // together
            key, end = (units * rank // self.size * together for rank in (self.rank, self.rank + 1))
            own_keys, query, own_queries = end - key, key * group, (end - key) * group
        elif self.training:
            raise ModelError(
                f"{keys} heads of keys of {self.name}, in blocks of {block}, cannot be divided among {self.size} "
                "processes that train it: each needs heads of its own", where=path,
                hint="Take at most as many processes as there are heads of keys",
            )  # fmt: skip
        elif keys < self.size and self.size % keys == 0 and queries % self.size == 0:
            own_queries, own_keys = queries // self.size, 1
            query, key = self.rank * own_queries, self.rank * keys // self.size
            if own_queries * width % block:
                own_queries = 0
        else:
            own_queries = own_keys = query = key = 0
        if not own_queries:
            raise ModelError(
                f"{queries} heads of queries and {keys} of keys of {self.name}, of {width} features in blocks of "
                f"{block}, cannot be divided among {self.size} processes",
                where=path, hint="Take a number of processes that divides the heads, or another type of weights",
            )  # fmt: skip
        self._set_heads(module, heads, (query, own_queries), own_keys)
        found = {
            "queries": (queries * width, query * width, own_queries * width),
            "keys": (keys * width, key * width, own_keys * width),
            "heads": (queries, query, own_queries),
        }
        if own_queries == own_keys * group:
            whole = (group + 2) * width
            found["groups"] = (keys * whole, key * whole, own_keys * whole)
        return found

    def _set_heads(self, module: Any, heads: Heads, queries: tuple[int, int], keys: int) -> None:
        if isinstance(module.heads, Heads):
            slopes = None if heads.slopes is None else heads.slopes.narrow(0, *queries).contiguous()
            module.heads = replace(heads, heads=queries[1], kv_heads=keys, slopes=slopes)
            if slopes is not None:
                module.slopes = slopes
        else:
            module.heads, module.first_head = queries[1], queries[0]
        if hasattr(self.model, "kv_heads"):
            self.model.kv_heads = keys

    # -- layers

    def _outputs(self, path: str, layer: Any, parts: Sequence[tuple[int, int, int]]) -> None:
        total = sum(part[0] for part in parts)
        if total != layer.out_features:
            raise ModelError(f"has {layer.out_features} outputs, its parts have {total}", where=path)
        starts = [sum(part[0] for part in parts[:i]) for i in range(len(parts))]
        ranges = tuple((start + first, count) for start, (_, first, count) in zip(starts, parts, strict=True))
        self._set(layer.weight, int(isinstance(layer, TransposedLinear)), ranges)
        if layer.bias is not None:
            self._set(layer.bias, 0, ranges)
        layer.out_features = sum(count for _, count in ranges)

    def _inputs(self, path: str, layer: Any, part: tuple[int, int, int]) -> None:
        if part[0] != layer.in_features:
            raise ModelError(f"has {layer.in_features} inputs, its part {part[0]}", where=path)
        transposed = isinstance(layer, TransposedLinear)
        self._set(layer.weight, 0 if transposed else 1, (part[1:],))
        layer.in_features = part[2]
        self._become(layer, SummedTransposedLinear if transposed else SummedLinear)

    def _stacks(self, path: str, module: Experts, plan: Mapping[str, tuple[str, ...]]) -> None:
        total = module.intermediate_size
        first, count = self._divided(path, total, self.block_of(module.down_proj))
        for name, (kind, *parts) in plan.items():
            parameter = module._parameters.get(name)
            if parameter is None or kind == "whole":
                continue
            ranges = tuple((i * total + first, count) for i in range(len(parts)))
            shape = module.stack_shape(name) if name in module.STACKS else None
            self._set(parameter, 1 if kind == "outputs" else 2, ranges, shape)
        module.intermediate_size = count
        self._become(module, summed_experts(type(module)))

    def _vocabulary(self, layer: Any) -> None:
        words = layer.weight.shape[0]
        most = -(-words // self.size // WORDS) * WORDS
        first = most * self.rank
        if most * (self.size - 1) >= words:
            return  # too few words: all processes have all
        count = min(most, words - first)
        self._set(layer.weight, 0, ((first, count),))
        if isinstance(layer, Embedding):
            self._become(layer, DividedEmbedding)
            layer.first, layer.count, layer.most = first, count, most
            return
        if layer.bias is not None:
            self._set(layer.bias, 0, ((first, count),))
        self._become(layer, DividedHead)
        layer.features, layer.most, layer.out_features = words, most, count

    def _set(
        self, parameter: Tensor, dim: int, ranges: tuple[tuple[int, int], ...], shape: tuple[int, ...] | None = None
    ) -> None:
        self.parts[id(parameter)] = Part(shape or tuple(parameter.shape), dim, ranges)

    def _become(self, layer: Any, kind: type[Module]) -> None:
        """The same object, whose name and parameters others know, computes as another class."""
        object.__setattr__(layer, "__class__", kind)
        layer.group = self.group
        if issubclass(kind, _Divided):
            layer.training_parts = self.training


def _has_parameters(module: Module) -> bool:
    return next(iter(module.parameters()), None) is not None
