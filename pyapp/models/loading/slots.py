"""The parameters of a model, with every place that has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, Linear, Module, TransposedLinear
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.layers.experts import Experts


@dataclass(frozen=True)
class Slot:
    """A parameter of a model: every place that has it (a tied one has two) with its name there, and its shape."""

    names: tuple[str, ...]
    places: tuple[tuple[Module, str], ...]
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    def only(self, names: Sequence[str]) -> Slot:
        """The places that have these names."""
        kept = [pair for pair in zip(self.names, self.places, strict=True) if pair[0] in names]
        return Slot(tuple(name for name, _ in kept), tuple(place for _, place in kept), self.shape)

    def without(self, name: str) -> Slot:
        """The places that have other names."""
        return self.only([own for own in self.names if own != name])

    @property
    def is_matrix(self) -> bool:
        """Whether this is the weight of a projection or an embedding, which may be quantised."""
        owner, attribute = self.places[0]
        return attribute == "weight" and isinstance(owner, Linear | Embedding | TransposedLinear)

    @property
    def is_filter(self) -> bool:
        """Whether this is the weight of a convolution that may be quantised."""
        owner, attribute = self.places[0]
        return attribute == "weight" and isinstance(owner, BlockConv2d)

    @property
    def is_stack(self) -> bool:
        """Whether this is the stack of matrices of all experts, which may be quantised."""
        owner, attribute = self.places[0]
        return isinstance(owner, Experts) and attribute in owner.STACKS

    @property
    def is_transposed(self) -> bool:
        """Whether the layer computes with the transposed matrix."""
        return self.is_matrix and isinstance(self.places[0][0], TransposedLinear)


def slots(model: Module) -> Iterator[tuple[str, Slot]]:
    """(name, slot) of every parameter, under each of its names."""
    places: dict[int, list[tuple[str, Module, str]]] = {}
    order: list[Tensor] = []
    for path, module in model._paths():
        for attribute, parameter in module._parameters.items():
            if id(parameter) not in places:
                order.append(parameter)
            found = places.setdefault(id(parameter), [])
            found.append((f"{path}.{attribute}" if path else attribute, module, attribute))
    for parameter in order:
        found = places[id(parameter)]
        names = tuple(name for name, _, _ in found)
        slot = Slot(names, tuple((module, name) for _, module, name in found), tuple(parameter.shape))
        yield from ((name, slot) for name in names)
