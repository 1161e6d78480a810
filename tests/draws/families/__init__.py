"""Families of calls, by subject; each file adds its own."""

from . import (
    around,
    attending,
    elementwise,
    losses,
    pictures,
    places,
    products,
    recurrences,
    reductions,
    transforms,
    writes,
)

__all__ = [
    "around",
    "attending",
    "elementwise",
    "losses",
    "pictures",
    "places",
    "products",
    "recurrences",
    "reductions",
    "transforms",
    "writes",
]
