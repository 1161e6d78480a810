"""How a layer's weight begins and is kept, in three attributes of the layer: of the weight "bias", `bias_initializer`,
`bias_regularizer` and `bias_constraint`.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from .. import constraints, initializers, regularizers
from ..core import Layer


def set_rules(layer: Layer, weight: str, initializer: Any, regularizer: Any, constraint: Any) -> None:
    """Sets the attributes of a weight, from objects, names or configurations."""
    setattr(layer, f"{weight}_initializer", initializers.get(initializer))
    setattr(layer, f"{weight}_regularizer", regularizers.get(regularizer))
    setattr(layer, f"{weight}_constraint", constraints.get(constraint))


def add_weight(layer: Layer, weight: str, shape: Any, name: str | None = None, **settings: Any) -> Tensor:
    """Adds a weight of a shape by its attributes. `name`: if it is not called as they are."""
    return layer.add_weight(
        shape, getattr(layer, f"{weight}_initializer"), name=name or weight,
        regularizer=getattr(layer, f"{weight}_regularizer"), constraint=getattr(layer, f"{weight}_constraint"),
        **settings,
    )  # fmt: skip
