"""Pruning by torch.nn.utils.prune's names: a parameter keeps its values as <name>_orig, and a mask of 0 and 1, the
buffer <name>_mask, takes elements away before each call of the module.

A method gives the mask of a tensor; a second one on the same parameter prunes what the first has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.user_errors import describe
from ..module import Module


def _mask_of(module: Module, name: str) -> Tensor | None:
    return module._buffers.get(f"{name}_mask")


def _count(amount: float, size: int) -> int:
    """How many of `size` are pruned: a share from 0 to 1, or a whole number."""
    if isinstance(amount, int) and not isinstance(amount, bool):
        if not 0 <= amount <= size:
            raise ValueError(f"prune: the amount is from 0 to {size}, the number of what can be pruned, not {amount}")
        return amount
    if not 0 <= amount <= 1:
        raise ValueError(f"prune: the amount is a share from 0 to 1, or a whole number, not {amount!r}")
    return round(amount * size)


def _without_smallest(scores: Tensor, count: int) -> Tensor:
    """1 in float32 for each of scores (N,), and 0 for the `count` smallest."""
    mask = ops.ones(scores.shape, device=scores.device)
    if count:
        mask[scores.topk(count, largest=False)[1]] = 0.0
    return mask


class BasePruningMethod:
    """Base: `compute_mask(t, default_mask)` gives the mask of a tensor. `PRUNING_TYPE`: "unstructured" methods see only
    what is left of a pruned tensor, as a vector; "structured" and "global" ones see it whole."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str  # of the parameter that it prunes; it is a hook of the module, and of that name

    def __call__(self, module: Module, inputs: Any) -> None:
        """As a hook before forward: sets the pruned tensor."""
        object.__setattr__(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter where its mask is 1, and 0 elsewhere."""
        pruned: Tensor = getattr(module, f"{self._tensor_name}_orig") * getattr(module, f"{self._tensor_name}_mask")
        return pruned

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor as this method prunes it, by itself."""
        scores = t if importance_scores is None else importance_scores
        mask = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask).to(t.dtype)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask")

    def _mask(self, t: Tensor, scores: Tensor, before: Tensor | None) -> Tensor:
        """The mask of a tensor, of what earlier methods have left."""
        if before is None:
            return self.compute_mask(scores, ops.ones_like(t)).to(t.dtype)
        if self.PRUNING_TYPE != "unstructured":
            return before * self.compute_mask(scores, before).to(t.dtype)
        left = before == 1
        found = before.clone()
        found[left] = self.compute_mask(scores[left], ops.ones_like(scores[left])).to(t.dtype)
        return found

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prunes a parameter of a module by cls(*args, **kwargs), and returns the method."""
        made = cls(*args, **kwargs)
        before = _mask_of(module, name)
        if before is None and name not in module._parameters:
            raise ValueError(f"prune: {type(module).__name__} has no parameter {name!r}")
        with no_grad():
            t = getattr(module, name if before is None else f"{name}_orig").detach()
            scores = t if importance_scores is None else importance_scores
            if scores.shape != t.shape:
                raise ValueError(f"prune: the scores are {describe(scores)}, the parameter is {describe(t)}")
            mask = made._mask(t, scores, before)
        if before is not None:
            module.register_buffer(f"{name}_mask", mask)  # another tensor: who holds the former one keeps it
        else:
            original = module._parameters[name]
            delattr(module, name)
            module.register_parameter(f"{name}_orig", original)
            module.register_buffer(f"{name}_mask", mask)
        made._tensor_name = name
        pruned = module.__dict__.setdefault("_pruned", {})
        hook: BasePruningMethod = made
        if name in pruned:
            handle, first = pruned[name]
            handle.remove()
            hook = first if isinstance(first, PruningContainer) else PruningContainer(first)
            hook.add_pruning_method(made)
        pruned[name] = module.register_forward_pre_hook(hook), hook
        hook(module, None)
        return made


class PruningContainer(BasePruningMethod):
    """The methods that have pruned one parameter, in their order."""

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """One more method. TypeError for what is none, ValueError for one of another parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"add_pruning_method: takes a BasePruningMethod, not {type(method).__name__}")
        name = getattr(self, "_tensor_name", method._tensor_name)
        if method._tensor_name != name:
            raise ValueError(f"add_pruning_method: the others prune {name!r}, this one {method._tensor_name!r}")
        self._tensor_name = name
        self._pruning_methods = (*self._pruning_methods, method)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """That of the last method, on what the mask has left."""
        return self._pruning_methods[-1]._mask(t, t, default_mask.to(t.dtype))

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the parameter one that can be pruned."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: `amount` is a share, or a number of them."""

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        flat = ops.rand(t.numel(), device=t.device)
        return default_mask * _without_smallest(flat, _count(self.amount, t.numel())).reshape(t.shape)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements that are nearest to 0."""

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        flat = t.abs().reshape(-1)
        return default_mask * _without_smallest(flat, _count(self.amount, t.numel())).reshape(t.shape)


class _Structured(BasePruningMethod):
    """Base of what prunes whole slices along a dim."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount, self.dim = amount, dim

    def scores(self, t: Tensor) -> Tensor:
        """A number for each slice."""
        raise NotImplementedError(f"{type(self).__name__} has no scores")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ValueError(f"prune: slices are those of at least two dims, got {describe(t)}")
        dim = self.dim % t.ndim
        mask = _without_smallest(self.scores(t), _count(self.amount, t.shape[dim]))
        return default_mask * mask.reshape(*(t.shape[k] if k == dim else 1 for k in range(t.ndim)))


class RandomStructured(_Structured):
    """Prunes slices along `dim` at random."""

    def scores(self, t: Tensor) -> Tensor:
        return ops.rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices along `dim` whose norm of the order `n` is smallest."""

    def __init__(self, amount: float, n: float, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        return t.norm(self.n, [k for k in range(t.ndim) if k != self.dim % t.ndim])


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if self.mask.shape != t.shape:
            raise ValueError(f"prune: the mask is {describe(self.mask)}, the parameter {describe(t)}")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Prunes nothing, but gives the parameter a mask."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes elements of a parameter at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Any = None) -> Module:
    """Prunes the elements of a parameter that are nearest to 0, or whose scores are."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes slices of a parameter along a dim at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float, dim: int, importance_scores: Any = None
) -> Module:  # fmt: skip
    """Prunes the slices of a parameter along a dim whose norms are smallest, or those of the scores."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes a parameter where a mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod], importance_scores: Any = None,
    **kwargs: Any,
) -> None:  # fmt: skip
    """Prunes elements of several parameters, (module, name) pairs, as if they were one: some lose more than others."""
    pairs: Sequence[tuple[Module, str]] = list(parameters)
    if not pairs or pruning_method.PRUNING_TYPE != "unstructured":
        raise ValueError("global_unstructured: takes (module, name) pairs and an unstructured method")
    scores = [(importance_scores or {}).get(pair, getattr(*pair)).detach().reshape(-1) for pair in pairs]
    masks = [_mask_of(*pair) for pair in pairs]
    before = ops.cat([ops.ones_like(one) if m is None else m.reshape(-1) for one, m in zip(scores, masks, strict=True)])
    with no_grad():
        whole = ops.cat(scores)
        final = pruning_method(**kwargs)._mask(whole, whole, before)
    for (module, name), part in zip(pairs, final.split([one.numel() for one in scores]), strict=True):
        custom_from_mask(module, name, part.reshape(getattr(module, name).shape))


def remove(module: Module, name: str) -> Module:
    """Makes the pruned tensor an ordinary parameter. What was pruned stays 0."""
    handle, _ = module.__dict__.get("_pruned", {}).pop(name, (None, None))
    if handle is None:
        raise ValueError(f"remove: {name!r} of {type(module).__name__} is not pruned")
    handle.remove()
    original = getattr(module, f"{name}_orig")
    with no_grad():
        original.data = original * getattr(module, f"{name}_mask")  # optimisers have this parameter
    for part in (f"{name}_orig", f"{name}_mask"):
        delattr(module, part)
    module.__dict__.pop(name, None)
    setattr(module, name, original)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one inside, is pruned."""
    return any(inner.__dict__.get("_pruned") for inner in module.modules())
