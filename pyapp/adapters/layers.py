"""Layers with low-rank adapters. An adapted layer keeps its object, its weight and the names of its parameters; it gets
another class, and the adapters' matrices as children by peft's names: lora_A, lora_B, lora_embedding_A …
"""

from __future__ import annotations

from math import sqrt
from typing import Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, is_grad_enabled, no_grad, ops, quant
from pyapp.errors import ModelError, OptionError
from pyapp.nn import Dropout, Embedding, Experts, Linear, Module, Parameter, ResidualLinear
from pyapp.nn.layers.containers import ModuleDict, ParameterDict
from pyapp.nn.layers.linear import TransposedLinear

from .config import LoraConfig

GROUPS = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector")


@dataclass(frozen=True)
class Merged:
    """The weight and the bias of a layer, or the stacks of experts by name, before adapters were merged into them."""

    names: tuple[str, ...]
    weight: Any
    bias: Tensor | None = None


class LowRank(Module):
    """Base of the layers with adapters. `active`: the names of the adapters that take part, in this order. `scalings`:
    the factor of B A of each adapter; of experts, by the name of the stack.
    """

    scalings: dict[str, Any]
    active: tuple[str, ...]
    merged: Merged | None
    weight: Any
    bias: Any
    lengths: dict[str, tuple[Any, Tensor]]

    @property
    def is_quantized(self) -> bool:
        """Whether the layer's own weight is block-quantised."""
        return bool(self.weight.dtype.is_quantized)

    def factors(self, name: str) -> tuple[Tensor, Tensor, Tensor | None]:
        """A (r, in), B (out, r) and B's bias of an adapter."""
        first, second = self.lora_A[name], self.lora_B[name]
        return first.weight, second.weight, second.bias

    def matrix(self) -> Tensor:
        """The layer's weight (out, in) in floating point."""
        return quant.dequantize(self.weight.detach())

    def with_matrix(self, value: Tensor) -> Tensor:
        """A matrix (out, in) in the form of the layer's weight."""
        kind = self.weight.dtype
        return quant.quantize(value, kind.name) if kind.is_quantized else value.to(kind)

    def with_adapter(self, matrix: Tensor, name: str) -> Tensor:
        """matrix (out, in) with an adapter: matrix + scaling B A, its rows with the lengths of DoRA."""
        first, second, _ = self.factors(name)
        changed = matrix + (second @ first).to(matrix.dtype) * self.scalings[name]
        if name in self.lora_magnitude_vector:
            changed = changed * self.row_factors(name).to(matrix.dtype).unsqueeze(1)
        return changed

    def row_factors(self, name: str) -> Tensor:
        """DoRA's factors of the rows (out,): their trained lengths by their lengths, which have no gradient."""
        magnitude: Tensor = self.lora_magnitude_vector[name]
        return magnitude / self.row_lengths(name).to(magnitude.dtype)

    def row_lengths(self, name: str) -> Tensor:
        """The lengths (out,) of the rows of W + scaling B A. They are kept until a value changes: the next token and
        the other batches of a step do not compute them again.
        """
        first, second, _ = self.factors(name)
        state = tuple((value._storage, value._storage.version) for value in (self.weight, first, second))
        known = self.lengths.get(name)
        if known is None or known[0] != state:
            with no_grad():
                matrix = self.matrix()
                known = state, (matrix + (second @ first).to(matrix.dtype) * self.scalings[name]).norm(2, 1)
            if is_grad_enabled() and not all(value.is_parameter for value in (self.weight, first, second)):
                self.lengths.pop(name, None)  # nn/fully_sharded.py has gathered the matrices for this call alone
            else:
                self.lengths[name] = known
        return known[1]

    def running(self) -> tuple[str, ...]:
        """The adapters that the layer must add."""
        return self.active if self.merged is None else ()

    def merge(self) -> None:
        """Adds the active adapters to the weight. The old weight is kept, so that unmerge restores every bit. Quantised
        weights are quantised again.
        """
        if self.merged is not None or not self.active:
            return
        bias = getattr(self, "bias", None)
        with no_grad():
            matrix = self.matrix()
            for name in self.active:
                matrix = self.with_adapter(matrix, name)
            added: list[Tensor] = []
            for name in self.active:
                own = self.factors(name)[2]
                if own is not None:
                    added.append(own * self.scalings[name])
            self.merged = Merged(self.active, self.weight, bias)
            self.weight = Parameter(self.with_matrix(matrix), requires_grad=False)
            if added:
                total = ops.stack(added).sum(0)  # (out,)
                self.bias = Parameter(total if bias is None else bias + total.to(bias.dtype), requires_grad=False)

    def unmerge(self) -> None:
        """Restores the weight and the bias from before the merge."""
        if self.merged is not None:
            before, self.merged = self.merged, None
            self.weight = before.weight
            if hasattr(self, "bias"):
                self.bias = before.bias

    def remove(self, name: str) -> None:
        """Forgets an adapter. After the last one the layer has its old class again."""
        for group in (*GROUPS, "lora_dropout"):
            if name in getattr(self, group, ()):
                del getattr(self, group)[name]
        self.scalings.pop(name, None)
        self.lengths.pop(name, None)
        self.active = tuple(other for other in self.active if other != name)
        if not self.scalings:
            for group in (*GROUPS, "lora_dropout"):
                if group in self._modules:
                    delattr(self, group)
            for attribute in ("scalings", "active", "merged", "lengths"):
                delattr(self, attribute)
            before: Any = next(kind for kind, adapted in ADAPTED.items() if adapted is type(self))
            self.__class__ = before

    def extra_repr(self) -> str:
        ranks = ", ".join(f"{name}: r={self.factors(name)[0].shape[0]}" for name in self.scalings)
        return f"{super().extra_repr()}, lora=({ranks})"


class LowRankLinear(LowRank):
    """W x + bias + scaling B A x, for layers x (..., in) → (..., out)."""

    def product(self, x: Tensor) -> Tensor:
        """W x, without the bias: (..., in) → (..., out)."""
        return ops.linear(x, self.weight)

    def add(self, result: Tensor, x: Tensor) -> Tensor:
        """result (..., out) with the adapters' parts for the input x (..., in)."""
        for name in self.running():
            first, second, bias = self.factors(name)
            given = self.lora_dropout[name](x) if name in self.lora_dropout else x  # (..., in)
            scaling = self.scalings[name]
            hidden = ops.linear(given.to(first.dtype), first) * scaling  # (..., r)
            bias = None if bias is None else bias * scaling
            if name in self.lora_magnitude_vector:
                factors = self.row_factors(name)  # (out,)
                part = ops.linear(hidden, second, bias) * factors + self.product(given) * (factors - 1)
                result = result + part.to(result.dtype)
            elif result.dtype is second.dtype:
                result = ops.linear(hidden, second, bias, result)
            else:
                result = result + ops.linear(hidden, second, bias).to(result.dtype)
        return result


class LoraLinear(LowRankLinear, Linear):
    """A Linear layer with adapters."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) → (..., out)."""
        return self.add(Linear.forward(self, x), x)

    def dense_weight(self) -> Tensor:
        """As Linear.dense_weight; without the adapters' dropout."""
        matrix = Linear.dense_weight(self)
        for name in self.running():
            matrix = self.with_adapter(matrix, name)
        return matrix


class LoraResidualLinear(LowRankLinear, ResidualLinear):
    """A ResidualLinear layer with adapters."""

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., in), residual (..., out) → (..., out)."""
        return self.add(ResidualLinear.forward(self, x, residual), x)


class LoraTransposedLinear(LowRankLinear, TransposedLinear):
    """A TransposedLinear layer with adapters."""

    def product(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight.T)

    def matrix(self) -> Tensor:
        return quant.dequantize(self.weight.detach().T)

    def with_matrix(self, value: Tensor) -> Tensor:
        return LowRank.with_matrix(self, value).T

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., in), residual (..., out) → (..., out)."""
        return self.add(TransposedLinear.forward(self, x, residual), x)


class LoraEmbedding(LowRank, Embedding):
    """An Embedding with adapters: A is (r, V), B (D, r), and the weight (V, D) gets scaling (B A)ᵀ."""

    def factors(self, name: str) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.lora_embedding_A[name], self.lora_embedding_B[name], None

    def matrix(self) -> Tensor:
        return quant.dequantize(self.weight.detach()).T

    def with_matrix(self, value: Tensor) -> Tensor:
        return LowRank.with_matrix(self, value.T.contiguous())

    def forward(self, input: Tensor) -> Tensor:
        """ids (...) → (..., D)."""
        result = Embedding.forward(self, input)
        for name in self.running():
            first, second, _ = self.factors(name)
            hidden = ops.embedding(first.T.contiguous(), input) * self.scalings[name]  # (..., r)
            if name in self.lora_magnitude_vector:
                factors = self.row_factors(name)  # (D,)
                plain = ops.embedding(self.weight, input)  # (..., D)
                part = ops.linear(hidden, second) * factors + plain * (factors - 1)
            else:
                part = ops.linear(hidden, second)
            result = result + part.to(result.dtype)
        return result


class LoraExperts(LowRank, Experts):
    """Stacks of experts with adapters. As in peft, A of a stack is (E r, in), with the rows of an expert together, and
    B is (out, r E), with the columns of a rank together.
    """

    @property
    def is_quantized(self) -> bool:
        return any(getattr(self, name).dtype.is_quantized for name in self.STACKS)

    def stack_factors(self, adapter: str, name: str) -> tuple[Tensor, Tensor]:
        """A (E, r, in) and B (E, out, r) of a stack."""
        first, second = self.lora_A[adapter][name].weight, self.lora_B[adapter][name].weight
        return (
            first.reshape(self.count, -1, first.shape[1]),
            second.reshape(second.shape[0], -1, self.count).permute(2, 0, 1),
        )

    def adapted(self, result: Tensor, name: str, experts: int | Tensor, x: Tensor) -> Tensor:
        """result (n, N) with the adapters' parts for the input x (n, K)."""
        for adapter in self.running():
            if name not in self.lora_A[adapter]:
                continue
            first, second = self.stack_factors(adapter, name)
            scaling, given = self.scalings[adapter][name], x.to(first.dtype)
            if isinstance(experts, int):
                hidden = ops.linear(given, first.select(0, experts)) * scaling  # (n, r)
                part = ops.linear(hidden, second.select(0, experts))  # (n, N)
            else:
                hidden = ops.index_select(first, 0, experts) @ given.unsqueeze(-1) * scaling  # (n, r, 1)
                part = (ops.index_select(second, 0, experts) @ hidden).squeeze(-1)  # (n, N)
            result = result + part.to(result.dtype)
        return result

    def merge(self) -> None:
        if self.merged is not None or not self.active:
            return
        before = {}
        with no_grad():
            for name in self.STACKS:
                weight = getattr(self, name)
                taking = [adapter for adapter in self.active if name in self.lora_A[adapter]]
                if not taking:
                    continue
                before[name] = weight
                stack = quant.dequantize(weight.detach()).reshape(self.stack_shape(name))  # (E, N, K)
                for adapter in taking:
                    first, second = self.stack_factors(adapter, name)
                    stack = stack + (second @ first).to(stack.dtype) * self.scalings[adapter][name]
                value = self.with_matrix_of(weight, stack)
                setattr(self, name, Parameter(value, requires_grad=False))
        self.merged = Merged(self.active, before)

    def with_matrix_of(self, weight: Tensor, stack: Tensor) -> Tensor:
        """A stack (E, N, K) in the form of `weight`."""
        if not weight.dtype.is_quantized:
            return stack.to(weight.dtype)
        return quant.quantize(stack.reshape(-1, stack.shape[-1]), weight.dtype.name)

    def unmerge(self) -> None:
        if self.merged is not None:
            before, self.merged = self.merged, None
            for name, weight in before.weight.items():
                setattr(self, name, weight)

    def extra_repr(self) -> str:
        ranks = ", ".join(f"{adapter}: {', '.join(self.lora_A[adapter])}" for adapter in self.scalings)
        return f"{Experts.extra_repr(self)}, lora=({ranks})"


Adaptable: TypeAlias = Any  # a module of one of the classes in ADAPTED

# Layers that can have adapters, and their classes with adapters.
ADAPTED: dict[type[Module], type[LowRank]] = {
    Linear: LoraLinear, ResidualLinear: LoraResidualLinear, TransposedLinear: LoraTransposedLinear,
    Embedding: LoraEmbedding, Experts: LoraExperts,
}  # fmt: skip


def can_adapt(module: Module) -> bool:
    """Whether a layer can have adapters."""
    return type(module) in ADAPTED or isinstance(module, LowRank)


def is_linear(module: Module) -> bool:
    """Whether a layer is linear and can have adapters."""
    return can_adapt(module) and not isinstance(module, (Embedding, Experts))


def sizes(module: Adaptable) -> tuple[int, int]:
    """(in, out) of a layer that can have adapters, which is not a stack of experts."""
    if isinstance(module, Embedding):
        return module.num_embeddings, module.embedding_dim
    return module.in_features, module.out_features


def adapt(module: Adaptable, name: str, config: LoraConfig, path: str) -> None:
    """Gives a layer an adapter with new values, which is not active yet."""
    if not isinstance(module, LowRank):
        module.__class__ = ADAPTED[type(module)]
        module.lora_A, module.lora_B, module.lora_dropout = ModuleDict(), ModuleDict(), ModuleDict()
        module.lora_magnitude_vector = ParameterDict()
        if isinstance(module, LoraEmbedding):
            module.lora_embedding_A, module.lora_embedding_B = ParameterDict(), ParameterDict()
        module.scalings, module.active, module.merged, module.lengths = {}, (), None, {}
    if isinstance(module, LoraExperts):
        _adapt_experts(module, name, config, path)
        return
    inputs, outputs = sizes(module)
    rank, device = config.rank(path), module.weight.device
    module.scalings[name] = config.scaling(path, rank)
    if isinstance(module, LoraEmbedding):
        if config.lora_bias:
            raise ModelError("lora_bias: an embedding has no bias", where=path)
        first = ops.zeros(rank, inputs, device=device)
        second = ops.empty(outputs, rank, device=device)
        with no_grad():
            second.normal_()
            if config.init_lora_weights is False:
                first.normal_()
        module.lora_embedding_A[name], module.lora_embedding_B[name] = Parameter(first), Parameter(second)
    else:
        module.lora_A[name] = Linear(inputs, rank, bias=False, device=device, dtype="float32")
        module.lora_B[name] = Linear(rank, outputs, bias=config.lora_bias, device=device, dtype="float32")
        if config.lora_dropout:
            module.lora_dropout[name] = Dropout(config.lora_dropout).train(module.training)
        _initialize(module.lora_A[name].weight, module.lora_B[name], rank, config.init_lora_weights)
    if config.use_dora:
        module.lora_magnitude_vector[name] = Parameter(module.row_lengths(name).float().clone())


def _adapt_experts(module: LoraExperts, name: str, config: LoraConfig, path: str) -> None:
    """Gives the stacks that `target_parameters` names an adapter; rank and alpha are those of the stack's path."""
    for setting in ("lora_dropout", "lora_bias", "use_dora"):
        if getattr(config, setting):
            raise OptionError("adapters of experts have none", where=setting, hint="Adapt other layers with it")
    chosen = [stack for stack in module.STACKS if config.targets_parameter(f"{path}.{stack}")]
    module.scalings[name] = {stack: config.scaling(f"{path}.{stack}") for stack in chosen}
    module.lora_A[name], module.lora_B[name] = ModuleDict(), ModuleDict()
    for stack in chosen:
        _, outputs, inputs = module.stack_shape(stack)
        rank, device = config.rank(f"{path}.{stack}"), getattr(module, stack).device
        size = rank * module.count
        first = Linear(inputs, size, bias=False, device=device, dtype="float32")
        second = Linear(size, outputs, bias=False, device=device, dtype="float32")
        _initialize(first.weight, second, rank, config.init_lora_weights)
        module.lora_A[name][stack], module.lora_B[name][stack] = first, second


def _initialize(first: Tensor, second: Linear, rank: int, start: bool | str) -> None:
    """A uniform in ±1 / sqrt(in) as in Linear, or normal; B and its bias zero unless `start` is False."""
    with no_grad():
        if start == "gaussian":
            first.normal_(0.0, 1 / rank)
        else:
            bound = 1 / sqrt(first.shape[1])
            first.uniform_(-bound, bound)
        if start is not False:
            second.weight.zero_()
            if second.bias is not None:
                second.bias.zero_()
