"""The projections of a layer that are computed together, joined once they are loaded."""

from __future__ import annotations

from dataclasses import field

from pyapp.dataclass import dataclass
from pyapp.nn import Embedding, Module
from pyapp.nn.layers.joined import JoinedLinear

from .stored import Stored


class Joins:
    """Joins the projections of a layer as soon as it is loaded. Their own memory is then free for the next layer's."""

    def __init__(self, model: Module) -> None:
        self._groups: dict[int, _Group] = {}  # by the id of a projection
        for module in model.modules():
            for value in vars(module).values():
                if isinstance(value, JoinedLinear):
                    parts = [module._modules[name] for name in value.names]
                    parameters = [parameter for part in parts if part for parameter in part._parameters.values()]
                    count = sum(parameter is not None for parameter in parameters)
                    group = _Group(value, module, count)
                    self._groups |= {id(part): group for part in parts}

    def loaded(self, owner: Module, plan: Stored) -> list[Stored]:
        """Notes that a parameter of `owner` is loaded; returns the plans of those that were joined now."""
        group = self._groups.get(id(owner))
        if group is None:
            return []
        group.plans.append(plan)
        if len(group.plans) != group.count:
            return []
        return group.plans if group.joined.join(group.owner) else []


@dataclass
class _Group:
    """Projections that are computed together, the number of their parameters, and those that are loaded."""

    joined: JoinedLinear
    owner: Module
    count: int
    plans: list[Stored] = field(default_factory=list)


def join(model: Module) -> None:
    """Joins the projections of every layer that computes some together. Embeddings give float32 rows from now on."""
    for module in model.modules():
        if isinstance(module, Embedding):
            module.float32_rows = True
        for value in vars(module).values():
            if isinstance(value, JoinedLinear):
                value.join(module)
