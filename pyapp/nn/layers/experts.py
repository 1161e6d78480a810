"""Mixtures of experts: feed-forward layers of which a router chooses a few for each token (Shazeer et al. 2017, arXiv
1701.06538; Jiang et al. 2024, arXiv 2401.04088).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from ...engine import Tensor, no_grad, ops, quant
from ...engine.grad_mode import STATE
from ...engine.launch import capturing
from ...engine.ops import empty
from ..module import Module
from ..parameter import Initialization, Parameter, new_parameter
from .gated import GatedFeedForward, activation_named, gated
from .linear import Linear

__all__ = [
    "BiasedFeedForward",
    "ClampedExperts",
    "Experts",
    "GroupedRouter",
    "RoutedFeedForward",
    "Router",
    "SharedExpertFeedForward",
    "SharedExpertsFeedForward",
    "SparseFeedForward",
]

GATHERED = 8  # tokens up to which the weights of their experts are gathered; more are sorted by expert


class Router(Module):
    """Chooses `count` of E experts for each token: softmax(x weightᵀ + bias), of which the largest remain;
    `normalized`: their sum is 1 again. The weight is (E, D).
    """

    def __init__(self, hidden_size: int, experts: int, count: int, normalized: bool = True, bias: bool = False) -> None:
        super().__init__()
        self.count, self.normalized = count, normalized
        self.weight = new_parameter(empty, experts, hidden_size)
        if Initialization.on:
            bound = 1 / sqrt(hidden_size)
            with no_grad():
                self.weight.uniform_(-bound, bound)
        self.bias = new_parameter(ops.zeros, experts) if bias else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, D) → shares (N, count) and experts (N, count) int64."""
        shares, chosen = ops.linear(x, self.weight, self.bias).softmax(-1).topk(self.count, -1)
        return (shares / shares.sum(-1, True) if self.normalized else shares), chosen


class Experts(Module):
    """E gated feed-forward layers in two stacks: gate_up_proj (E, 2 F, D) and down_proj (E, D, F); with `bias` also
    gate_up_proj_bias (E, 2 F) and down_proj_bias (E, D).

    A block-quantised stack is the matrix of its rows, (E * 2 F, D) and (E * D, F): `STACKS` has the names, and
    `stack_shape(name)` the three sizes. Only the matrices of the chosen experts are read. `ungated`: the layers have no
    gates, and up_proj (E, F, D) instead of the first stack.
    """

    STACKS = ("gate_up_proj", "down_proj")

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:
        """How several processes divide the stacks (nn/tensor_parallel.py)."""
        first, last = self.STACKS
        split = ("outputs", *["inner"] * (1 if self.ungated else 2))
        return {first: split, f"{first}_bias": split, last: ("inputs", "inner"), f"{last}_bias": ("whole",)}

    def __init__(
        self, hidden_size: int, intermediate_size: int, experts: int, activation: str = "silu", bias: bool = False,
        ungated: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        activation_named(activation)  # an unknown one is refused here
        self.ungated = ungated
        if ungated:
            self.STACKS = ("up_proj", "down_proj")
        self.activation, self.count = activation, experts
        self.hidden_size, self.intermediate_size = hidden_size, intermediate_size
        for name in self.STACKS:
            setattr(self, name, new_parameter(empty, *self.stack_shape(name)))
        if Initialization.on:
            with no_grad():
                for weight in self._stacks():
                    weight.uniform_(-1 / sqrt(weight.shape[-1]), 1 / sqrt(weight.shape[-1]))
        if bias:
            self.gate_up_proj_bias = new_parameter(ops.zeros, experts, 2 * intermediate_size)
            self.down_proj_bias = new_parameter(ops.zeros, experts, hidden_size)

    def _stacks(self) -> list[Tensor]:
        """The two stacks."""
        return [getattr(self, name) for name in self.STACKS]

    def gated(self, x: Tensor) -> Tensor:
        """The output of the first stack (..., 2 F) = [gate, up], or (..., F) → the input of down_proj (..., F)."""
        return activation_named(self.activation)(x) if self.ungated else gated(x, self.activation)

    def forward(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """x (N, D), shares and experts (N, K) → the sum of the chosen experts' outputs, by their shares (N, D)."""
        if STATE.traced:
            return self._of_all(x, shares, chosen)
        first, last = self._stacks()
        plain = first.dtype is last.dtype is x.dtype
        if plain and (capturing() or x.shape[0] <= GATHERED):
            return self._gathered(x, shares, chosen)
        return self._copied(x, shares, chosen) if capturing() else self._sorted(x, shares, chosen)

    def stack_shape(self, name: str) -> tuple[int, int, int]:
        """(E, N, K) of a stack."""
        hidden, inner = self.hidden_size, self.intermediate_size
        if name == "down_proj":
            return self.count, hidden, inner
        return self.count, inner if self.ungated else 2 * inner, hidden

    def _matrix(self, name: str, expert: int) -> Tensor:
        """The matrix (N, K) of an expert, in the memory of its stack."""
        weight: Tensor = getattr(self, name)
        if not weight.dtype.is_quantized:
            return weight.select(0, expert)
        rows = self.stack_shape(name)[1]
        return quant.rows_of(weight, expert * rows, rows)

    def adapted(self, result: Tensor, name: str, experts: int | Tensor, x: Tensor) -> Tensor:
        """The product of a stack's matrices and x (n, K), result (n, N), of one expert or of an expert (n,) for each
        row. Adapters add their parts to it (pyapp.adapters).
        """
        return result

    def bias_of(self, name: str) -> Tensor | None:
        """The biases (E, N) of a stack, where it has such."""
        return self._parameters.get(f"{name}_bias")

    def _whole(self, result: Tensor, name: str, experts: int | Tensor, x: Tensor) -> Tensor:
        """As `adapted`, with the biases."""
        biases = self.bias_of(name)
        if biases is not None:
            own = biases.select(0, experts) if isinstance(experts, int) else ops.index_select(biases, 0, experts)
            result = result + own
        return self.adapted(result, name, experts, x)

    def _gathered(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """With a copy of the weights of each token's experts, without reading the choice."""
        tokens, count = chosen.shape
        ids = chosen.reshape(-1)  # (N K,)
        up, down = (ops.index_select(weight, 0, ids) for weight in self._stacks())
        own = x.unsqueeze(1).expand((tokens, count, x.shape[1])).reshape(tokens * count, x.shape[1], 1)
        inner = self._whole((up @ own).squeeze(-1), self.STACKS[0], ids, own.squeeze(-1))  # (N K, 2 F)
        inner = self.gated(inner)  # (N K, F)
        found = self._whole((down @ inner.unsqueeze(-1)).squeeze(-1), "down_proj", ids, inner)  # (N K, D)
        return (found.reshape(tokens, count, x.shape[1]) * shares.unsqueeze(-1)).sum(1)

    def _copied(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """As `_gathered`, in the type of the weights, matrix by matrix."""
        tokens, count = chosen.shape
        ids = chosen.reshape(-1)  # (N K,)
        stacks = [self._copies(name, ids) for name in self.STACKS]
        found = []
        for i, (up, down) in enumerate(zip(*stacks, strict=True)):
            expert, own = ids.narrow(0, i, 1), x.narrow(0, i // count, 1)  # (1,), (1, D)
            inner = self._whole(ops.linear(own, up), self.STACKS[0], expert, own)  # (1, 2 F)
            inner = self.gated(inner)  # (1, F)
            found.append(self._whole(ops.linear(inner, down), "down_proj", expert, inner))  # (1, D)
        return (ops.cat(found).reshape(tokens, count, x.shape[1]) * shares.unsqueeze(-1)).sum(1)

    def _copies(self, name: str, ids: Tensor) -> list[Tensor]:
        """Copies of the matrices (N, K) of experts (M,) of a stack, in its type."""
        weight, rows = getattr(self, name), self.stack_shape(name)[1]
        if weight.dtype.is_quantized:
            picked = ops.index_select(quant.words(weight, self.count), 0, ids)
            picked = quant.from_words(picked, (ids.shape[0] * rows, weight.shape[1]), weight.dtype)
            return [quant.rows_of(picked, i * rows, rows) for i in range(ids.shape[0])]
        copies = ops.index_select(weight, 0, ids)  # (M, rows, columns)
        return [copies.select(0, i) for i in range(ids.shape[0])]

    def product(self, name: str, x: Tensor, ids: Tensor) -> Tensor:
        """Each row of x (M, K) times the matrix of its expert ids (M,) of a stack → (M, N)."""
        weight = getattr(self, name)
        if weight.dtype is x.dtype and (capturing() or x.shape[0] <= GATHERED):
            found = (ops.index_select(weight, 0, ids) @ x.unsqueeze(-1)).squeeze(-1)
            return self._whole(found, name, ids, x)
        if capturing():
            rows = [(x.narrow(0, i, 1), ids.narrow(0, i, 1)) for i in range(x.shape[0])]
            copies = zip(rows, self._copies(name, ids), strict=True)
            return ops.cat([self._whole(ops.linear(row, matrix), name, own, row) for (row, own), matrix in copies])
        if STATE.traced:
            every = [self._of_expert(name, expert, x) for expert in range(self.count)]  # (M, N) of each expert
            places = ids.reshape(-1, 1, 1).expand(ids.shape[0], 1, every[0].shape[1])
            return ops.stack(every, 1).gather(1, places).squeeze(1)
        experts = ids.tolist()
        order = sorted(range(len(experts)), key=experts.__getitem__)
        back = sorted(range(len(order)), key=order.__getitem__)
        numbers = ops.tensor([*order, *back], device=x.device)  # (2 M,)
        by_expert = ops.index_select(x, 0, numbers.narrow(0, 0, len(order)))  # (M, K)
        parts, first = [], 0
        for expert in sorted({*experts}):
            count = experts.count(expert)
            parts.append(self._of_expert(name, expert, by_expert.narrow(0, first, count)))
            first += count
        return ops.index_select(ops.cat(parts), 0, numbers.narrow(0, len(order), len(order)))

    def _of_expert(self, name: str, expert: int, x: Tensor) -> Tensor:
        """x (n, K) → (n, N)."""
        return self._whole(ops.linear(x, self._matrix(name, expert)), name, expert, x)

    def _of_all(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """The outputs of all experts, by the share that each token gives them, which is mostly 0: what is computed does
        not depend on the choice."""
        found = None
        for expert in range(self.count):
            share = ops.where(chosen == expert, shares, 0.0).sum(-1, True)  # (N, 1)
            inner = self.gated(self._of_expert(self.STACKS[0], expert, x))  # (N, F)
            part = self._of_expert("down_proj", expert, inner) * share  # (N, D)
            found = part if found is None else found + part
        assert found is not None
        return found

    def _sorted(self, x: Tensor, shares: Tensor, chosen: Tensor) -> Tensor:
        """Expert by expert, with the tokens that chose it."""
        rows: list[list[int]] = [[] for _ in range(self.count)]  # (token * K + place), by expert
        for place, expert in enumerate(chosen.reshape(-1).tolist()):
            rows[expert].append(place)
        parts: list[Any] = []
        by_expert = [place for places in rows for place in places]
        order = sorted(range(chosen.numel()), key=by_expert.__getitem__)
        # One tensor of numbers, which goes to the device at once.
        numbers = ops.tensor([*(place // chosen.shape[1] for place in by_expert), *order], device=x.device)  # (2 N K,)
        first = 0
        for expert, places in enumerate(rows):
            if places:
                own = ops.index_select(x, 0, numbers.narrow(0, first, len(places)))
                first += len(places)
                inner = self.gated(self._of_expert(self.STACKS[0], expert, own))
                parts.append(self._of_expert("down_proj", expert, inner))
        found = ops.index_select(ops.cat(parts), 0, numbers.narrow(0, len(order), len(order)))  # (N K, D)
        return (found.reshape(*chosen.shape, x.shape[1]) * shares.unsqueeze(-1)).sum(1)

    def extra_repr(self) -> str:
        return f"{self.count} experts, activation={self.activation}"


class ClampedExperts(Experts):
    """Experts with biases, and a gate between limits: (up + 1) gate sigmoid(alpha gate) (gpt-oss, arXiv 2508.10925)."""

    def __init__(self, hidden_size: int, intermediate_size: int, experts: int, alpha: float, limit: float) -> None:
        super().__init__(hidden_size, intermediate_size, experts, bias=True)
        self.alpha, self.limit = alpha, limit

    def gated(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return (up + 1) * (gate * (gate * self.alpha).sigmoid())


class RoutedFeedForward(Module):
    """A mixture of experts, added to the residual. `name` is that of the router; `shared`: the name of a layer that
    every token has beside its experts, and the layer.
    """

    def __init__(
        self, router: Module, experts: Experts, name: str = "gate", shared: tuple[str, Module] | None = None
    ) -> None:  # fmt: skip
        super().__init__()
        self.router_name, self.shared_name = name, None if shared is None else shared[0]
        self.add_module(name, router)
        self.experts = experts
        if shared is not None:
            self.add_module(*shared)

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (N, D) → shares (N, count) and experts (N, count) int64."""
        found: tuple[Tensor, Tensor] = self._modules[self.router_name](x)
        return found

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (..., hidden_size) → residual + experts, or the experts alone (..., hidden_size)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        y: Tensor = self.experts(flat, *self.routed(flat)).reshape(x.shape)
        if self.shared_name is not None:
            y = self._modules[self.shared_name](x, residual) + y
            return y
        return y if residual is None else residual + y


class SparseFeedForward(RoutedFeedForward):
    """A mixture of experts, added to the residual: `count` of E experts for each token; `normalized`: their shares have
    the sum 1.
    """

    def __init__(
        self, hidden_size: int, intermediate_size: int, experts: int, count: int, activation: str = "silu", *,
        normalized: bool = True, name: str = "gate",
    ) -> None:  # fmt: skip
        router = Router(hidden_size, experts, count, normalized)
        super().__init__(router, Experts(hidden_size, intermediate_size, experts, activation), name)


class SharedExpertFeedForward(Module):
    """A mixture of experts, and an expert that every token has after a gate of its own (Yang et al. 2024, arXiv
    2407.10671), added to the residual. `config` has the fields of Qwen's configurations.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, activation = config.hidden_size, config.hidden_act
        self.gate = Router(size, config.num_experts, config.num_experts_per_tok, config.norm_topk_prob)
        self.shared_expert = GatedFeedForward(size, config.shared_expert_intermediate_size, activation)
        self.shared_expert_gate = Linear(size, 1, bias=False)
        self.experts = Experts(size, config.moe_intermediate_size, config.num_experts, activation)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., hidden_size) → residual + experts (..., hidden_size)."""
        flat = x.reshape(-1, x.shape[-1])  # (N, hidden_size)
        shared = self.shared_expert(flat) * self.shared_expert_gate(flat).sigmoid()
        return residual + (self.experts(flat, *self.gate(flat)) + shared).reshape(x.shape)


class GroupedRouter(Router):
    """Chooses experts of the best groups (DeepSeek-AI 2024, arXiv 2405.04434 and 2412.19437): `groups` are all groups
    and how many of them may be chosen. A group's score is that of its best expert; with `sigmoid` that of its best two,
    with the bias e_score_correction_bias, which counts for the choice alone and gets no gradient. The shares are
    multiplied by `scaling`. `biased` False: the bias is the caller's, or there is none. `epsilon` is added to the sum
    by which shares are divided.
    """

    def __init__(
        self, hidden_size: int, experts: int, count: int, groups: tuple[int, int] = (1, 1), *, sigmoid: bool = True,
        normalized: bool = True, scaling: float = 1.0, biased: bool = True, epsilon: float = 1e-20,
    ) -> None:  # fmt: skip
        super().__init__(hidden_size, experts, count, normalized)
        self.sigmoid, self.scaling, self.epsilon = sigmoid, scaling, epsilon
        self.groups, self.limited = groups
        if sigmoid and biased:
            self.e_score_correction_bias = Parameter(ops.zeros(experts), requires_grad=False)

    def logits(self, x: Tensor) -> Tensor:
        """x (N, D) → (N, E)."""
        return ops.linear(x, self.weight)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (N, D), the caller's bias (E,) → shares (N, count) and experts (N, count) int64."""
        logits = self.logits(x)  # (N, E)
        scores = logits.sigmoid() if self.sigmoid else logits.softmax(-1)
        bias = self._parameters.get("e_score_correction_bias") if bias is None else bias
        choice = scores if bias is None else scores + bias
        if self.limited < self.groups:
            members = choice.reshape(x.shape[0], self.groups, -1)  # (N, G, E / G)
            best = members.topk(2, -1)[0].sum(-1) if self.sigmoid else members.amax(-1)  # (N, G)
            chosen = best.topk(self.limited, -1)[1]  # (N, limited)
            groups = ops.arange(self.groups, dtype="int64", device=x.device)
            kept = (chosen.unsqueeze(-1) == groups).to("float32").sum(1).unsqueeze(-1) > 0  # (N, G, 1)
            choice = ops.where(kept, members, float("-inf") if self.sigmoid else 0.0).reshape(choice.shape)
        chosen = choice.topk(self.count, -1)[1]
        shares = scores.gather(1, chosen)
        if self.normalized:
            shares = shares / (shares.sum(-1, True) + self.epsilon)
        return shares * self.scaling, chosen


class BiasedFeedForward(RoutedFeedForward):
    """A mixture of experts, added to the residual, that has the bias of its router's choice itself, under the name
    `bias` (None: there is none). `shared` as in RoutedFeedForward.
    """

    def __init__(
        self, router: GroupedRouter, experts: Experts, bias: str | None = "e_score_correction_bias",
        shared: tuple[str, Module] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(router, experts, shared=shared)
        self.bias_name = bias
        if bias is not None:
            self.register_parameter(bias, Parameter(ops.zeros(experts.count), requires_grad=False))

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        bias = None if self.bias_name is None else self._parameters[self.bias_name]
        found: tuple[Tensor, Tensor] = self.gate(x, bias)
        return found


class SharedExpertsFeedForward(RoutedFeedForward):
    """A mixture of experts, and n_shared_experts that every token has, added to the residual. `config` has the fields
    of DeepSeek's configurations, `router` is the layer's.
    """

    def __init__(self, config: Any, router: Router, bias: bool = False) -> None:
        size, inner = config.hidden_size, config.moe_intermediate_size
        experts = Experts(size, inner, config.n_routed_experts, config.hidden_act)
        shared = GatedFeedForward(size, inner * config.n_shared_experts, config.hidden_act, bias=bias)
        super().__init__(router, experts, shared=("shared_experts", shared))
