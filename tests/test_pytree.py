"""utils._pytree: what torch 2.14 gives for the same containers."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

import pyapp
from pyapp.utils import _pytree as pytree

Pair = namedtuple("Pair", "a b")
TREE: dict[str, Any] = {
    "a": 1, "b": [2, (3, None)], "c": {}, "d": OrderedDict(z=4, y=5), "e": Pair(6, [7]),
    "f": deque([8], maxlen=3), "g": defaultdict(list, k=9),
}  # fmt: skip


class Batch(dict[str, Any]):
    """A dict of tensors with a class of its own, as a TensorDict is."""


class Box:
    """A container that no key describes."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside


@dataclass
class Point:
    x: Any
    y: Any = 0


pytree.register_pytree_node(Batch, lambda b: (list(b.values()), list(b)), lambda v, k: Batch(zip(k, v, strict=True)))
pytree.register_pytree_node(Box, lambda b: ([b.inside], None), lambda v, _: Box(*v))
pytree.register_dataclass(Point, field_names=["x"], drop_field_names=["y"])


def test_leaves_structure_and_the_way_back() -> None:
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, 3, None, 4, 5, 6, 7, 8, 9]
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (10, 19, 7)
    assert repr(pytree.tree_structure({"a": [1]})) == "TreeSpec(dict, ['a'], [TreeSpec(list, None, [*])])"
    again = pytree.tree_unflatten(leaves, spec)
    assert again == TREE and again["f"].maxlen == 3 and again["g"].default_factory is list
    assert isinstance(again["e"], Pair) and pytree.tree_structure(again) == spec
    assert pytree.tree_leaves(TREE, is_leaf=lambda part: isinstance(part, list))[1] == [2, (3, None)]
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(TREE)]
    assert paths == ["['a']", "['b'][0]", "['b'][1][0]", "['b'][1][1]", "['d']['z']", "['d']['y']", "['e'].a",
                     "['e'].b[0]", "['f'][0]", "['g']['k']"]  # fmt: skip
    assert [pytree.key_get(TREE, path) for path, _ in pytree.tree_leaves_with_path(TREE)] == leaves


def test_maps() -> None:
    total = pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"y": (20, 30), "x": 10})
    assert total == {"x": 11, "y": (22, 33)}
    assert pytree.tree_map_only(int, lambda n: -n, [1, "a", (2.0, 3)]) == [-1, "a", (2.0, -3)]
    assert pytree.tree_map_only(lambda n: n == 1, str, [1, 2]) == ["1", 2]
    assert pytree.tree_all_only(int, lambda n: n > 0, [1, "a"]) and not pytree.tree_any(lambda n: n == 3, [1, 2])
    for wrong, message in (
        (lambda: pytree.tree_map(max, [1, 2], [1]), "2 children in one, 1 in another"),
        (lambda: pytree.tree_map(max, {"a": 1}, {"b": 1}), "differ"),
        (lambda: pytree.tree_map(max, [1], (1,)), "list in one, tuple in another"),
        (lambda: pytree.tree_unflatten([1], pytree.tree_structure([1, 2])), "1 leaves for a structure of 2"),
        (lambda: pytree.register_pytree_node(dict, lambda d: d, lambda v, c: v), "registered already"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_classes_of_ones_own_in_functions_of_functions() -> None:
    batch = Batch(a=pyapp.ones(3, 2), b=pyapp.arange(3.0))
    sums = pyapp.func.vmap(lambda one: Batch(total=one["a"].sum() + one["b"]))(batch)
    assert type(sums) is Batch and sums["total"].tolist() == [2, 3, 4]
    gradient = pyapp.func.grad(lambda box: box.inside.square().sum())(Box(pyapp.arange(3.0)))
    assert type(gradient) is Box and gradient.inside.tolist() == [0, 2, 4]
    moved = pytree.tree_map(lambda x: x + 1, Point(Box(1), y=5))
    assert (moved.x.inside, moved.y) == (2, 0)
    assert pytree.keystr(pytree.tree_leaves_with_path(Point(Box(1)))[0][0]) == ".x[0]"
