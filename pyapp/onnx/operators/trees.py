"""ai.onnx.ml: ensembles of decision trees."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.lazy import np

from ..registry import MACHINE_LEARNING, operator
from ..values import array_of, element_of, from_stored, made_of, text
from .scores import labelled, transformed

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
_STEPS = 1 << 16  # from a root to a leaf


@dataclass
class _Trees:
    """Nodes of all trees; children and roots are places in these arrays. `leaf` maps a node to its votes."""

    feature: Any
    mode: Any
    split: Any
    yes: Any
    no: Any
    missing: Any
    roots: list[int]
    votes: dict[int, list[tuple[int, float]]]
    members: dict[int, Any]

    def leaves(self, x: Any) -> Any:
        """The leaf of each row in each tree: (N, trees)."""
        if x.ndim != 2 or (self.feature.size and not 0 <= self.feature.min() <= self.feature.max() < x.shape[1]):
            raise ValueError(f"x of shape {x.shape} does not have the features of the trees")
        found = np.empty((len(x), len(self.roots)), np.int64)
        rows = np.arange(len(x))
        for tree, root in enumerate(self.roots):
            at = np.full(len(x), root)
            for _ in range(_STEPS):
                mode = self.mode[at]
                inner = mode != 7
                if not inner.any():
                    break
                value = x[rows, self.feature[at]]
                split = self.split[at]
                yes = np.select(
                    [mode == 0, mode == 1, mode == 2, mode == 3, mode == 4, mode == 5],
                    [value <= split, value < split, value >= split, value > split, value == split, value != split],
                        False,
                )  # fmt: skip
                for row in np.flatnonzero(mode == 6):
                    yes[row] = value[row] in self.members[int(at[row])]
                yes |= np.isnan(value) & (self.missing[at] != 0)
                at = np.where(inner, np.where(yes, self.yes[at], self.no[at]), at)
            else:
                raise ValueError("the trees have a cycle")
            found[:, tree] = at
        return found

    def scores(self, x: Any, targets: int, aggregate: str, base: Any) -> tuple[Any, Any]:
        """(N, targets), and whether a leaf voted for each."""
        start = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
        found, voted = np.full((len(x), targets), start), np.zeros((len(x), targets), bool)
        for row, leaves in enumerate(self.leaves(x)):
            for leaf in leaves:
                for target, weight in self.votes.get(int(leaf), ()):
                    if not 0 <= target < targets:
                        raise ValueError(f"a leaf votes for target {target} of {targets}")
                    old = found[row, target]
                    found[row, target] = (
                        min(old, weight)
                        if aggregate == "MIN"
                        else max(old, weight)
                        if aggregate == "MAX"
                        else old + weight
                    )
                    voted[row, target] = True
        if aggregate == "AVERAGE":
            found /= max(len(self.roots), 1)
        found[~np.isfinite(found)] = 0
        return found + (np.asarray(base) if base is not None and len(base) else 0.0), voted


@operator("TreeEnsemble", domain=MACHINE_LEARNING)
def tree_ensemble(
    x: Tensor, *, leaf_targetids: list[int], leaf_weights: Any, nodes_falseleafs: list[int],
    nodes_falsenodeids: list[int], nodes_featureids: list[int], nodes_modes: Any, nodes_splits: Any,
    nodes_trueleafs: list[int], nodes_truenodeids: list[int], tree_roots: list[int], aggregate_function: int = 1,
    membership_values: Any = None, n_targets: int = 1, nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Any = None, post_transform: int = 0,
) -> Tensor:  # fmt: skip
    """x (N, F) → (N, n_targets): the leaves' weights, aggregated."""
    count, leaves = len(nodes_featureids), len(leaf_targetids)
    modes = array_of(from_stored(nodes_modes)).astype(np.int64)
    if not all(
        len(part) == count for part in (modes, nodes_trueleafs, nodes_falseleafs, nodes_truenodeids, nodes_falsenodeids)
    ):
        raise ValueError("the lists nodes_… have different lengths")
    yes = np.array(nodes_truenodeids, np.int64) + np.where(np.array(nodes_trueleafs) != 0, count, 0)
    no = np.array(nodes_falsenodeids, np.int64) + np.where(np.array(nodes_falseleafs) != 0, count, 0)
    total = count + leaves
    if count and not (
        0 <= min(yes.min(), no.min()) and max(yes.max(), no.max()) < total and all(0 <= r < count for r in tree_roots)
    ):
        raise ValueError("a node's child, or a root, is outside of the trees")
    members: dict[int, Any] = {}
    if membership_values is not None:
        groups: list[list[float]] = [[]]
        for value in array_of(from_stored(membership_values)):
            if np.isnan(value):
                groups.append([])
            else:
                groups[-1].append(value)
        for at, group in zip(np.flatnonzero(modes == 6), groups, strict=False):
            members[int(at)] = set(group)
    weights = array_of(from_stored(leaf_weights)).astype(np.float64)
    pad = np.zeros(leaves, np.int64)
    trees = _Trees(
        np.concatenate([np.array(nodes_featureids, np.int64), pad]), np.concatenate([modes, pad + 7]),
        np.concatenate([array_of(from_stored(nodes_splits)).astype(np.float64), pad]), np.concatenate([yes, pad]),
        np.concatenate([no, pad]),
        np.concatenate([np.array(nodes_missing_value_tracks_true or [0] * count, np.int64), pad]), list(tree_roots),
        {count + k: [(target, float(w))] for k, (target, w) in enumerate(zip(leaf_targetids, weights, strict=True))},
            members,
    )  # fmt: skip
    how = ("AVERAGE", "SUM", "MIN", "MAX")[aggregate_function]
    found, _ = trees.scores(array_of(x), n_targets, how, None)
    after = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[post_transform]
    return made_of(transformed(found, after), element_of(x))


def _older(nodes: dict[str, Any], votes: tuple[list[int], list[int], list[int], list[float]]) -> _Trees:
    """The trees of the operators before opset 5: nodes are named by tree and number."""
    keys = list(zip(nodes["treeids"], nodes["nodeids"], strict=True))
    place = {key: at for at, key in enumerate(keys)}
    modes = np.array([_MODES.index(text(mode)) for mode in nodes["modes"]], np.int64)

    def child(name: str) -> Any:
        wanted = [(tree, node) for (tree, _), node in zip(keys, nodes[name], strict=True)]
        for at, key in enumerate(wanted):
            if modes[at] != 7 and key not in place:
                raise ValueError(f"node {keys[at]} has the child {key}, which is not there")
        return np.array([place.get(key, 0) for key in wanted], np.int64)

    roots: dict[int, int] = {}
    for at, (tree, _) in enumerate(keys):
        roots.setdefault(tree, at)
    found: dict[int, list[tuple[int, float]]] = {}
    for tree, node, target, weight in zip(*votes, strict=True):
        if (tree, node) not in place:
            raise ValueError(f"a vote is of node {(tree, node)}, which is not there")
        found.setdefault(place[tree, node], []).append((target, weight))
    missing = nodes["missing"] or [0] * len(keys)
    features = np.where(modes == 7, 0, np.array(nodes["featureids"], np.int64))
    return _Trees(
        features, modes, np.array(nodes["values"], np.float64), child("truenodeids"), child("falsenodeids"),
        np.array(missing, np.int64), list(roots.values()), found, {},
    )  # fmt: skip


def _numbers(plain: Any, stored: Any) -> Any:
    return array_of(from_stored(stored)).tolist() if stored is not None else list(plain or [])


@operator("TreeEnsembleRegressor", domain=MACHINE_LEARNING)
def tree_ensemble_regressor(
    x: Tensor, *, nodes_treeids: list[int], nodes_nodeids: list[int], nodes_featureids: list[int],
    nodes_modes: list[bytes], nodes_truenodeids: list[int], nodes_falsenodeids: list[int], target_treeids: list[int],
    target_nodeids: list[int], target_ids: list[int], nodes_values: Any = None, nodes_values_as_tensor: Any = None,
    nodes_hitrates: Any = None, nodes_hitrates_as_tensor: Any = None, nodes_missing_value_tracks_true: Any = None,
    target_weights: Any = None, target_weights_as_tensor: Any = None, n_targets: int = 1, base_values: Any = None,
    base_values_as_tensor: Any = None, aggregate_function: bytes = b"SUM", post_transform: bytes = b"NONE",
) -> Tensor:  # fmt: skip
    nodes = {
        "treeids": nodes_treeids, "nodeids": nodes_nodeids, "featureids": nodes_featureids, "modes": nodes_modes,
        "truenodeids": nodes_truenodeids, "falsenodeids": nodes_falsenodeids,
            "missing": nodes_missing_value_tracks_true,
        "values": _numbers(nodes_values, nodes_values_as_tensor),
    }  # fmt: skip
    trees = _older(
        nodes, (target_treeids, target_nodeids, target_ids, _numbers(target_weights, target_weights_as_tensor))
    )
    base = _numbers(base_values, base_values_as_tensor)
    found, _ = trees.scores(array_of(x), n_targets, text(aggregate_function), base)
    return made_of(transformed(found, text(post_transform)), "float64" if element_of(x) == "float64" else "float32")


@operator("TreeEnsembleClassifier", domain=MACHINE_LEARNING)
def tree_ensemble_classifier(
    x: Tensor, *, nodes_treeids: list[int], nodes_nodeids: list[int], nodes_featureids: list[int],
    nodes_modes: list[bytes], nodes_truenodeids: list[int], nodes_falsenodeids: list[int], class_treeids: list[int],
    class_nodeids: list[int], class_ids: list[int], nodes_values: Any = None, nodes_values_as_tensor: Any = None,
    nodes_hitrates: Any = None, nodes_hitrates_as_tensor: Any = None, nodes_missing_value_tracks_true: Any = None,
    class_weights: Any = None, class_weights_as_tensor: Any = None, classlabels_int64s: Any = None,
    classlabels_strings: Any = None, base_values: Any = None, base_values_as_tensor: Any = None,
    post_transform: bytes = b"NONE",
) -> Any:  # fmt: skip
    nodes = {
        "treeids": nodes_treeids, "nodeids": nodes_nodeids, "featureids": nodes_featureids, "modes": nodes_modes,
        "truenodeids": nodes_truenodeids, "falsenodeids": nodes_falsenodeids,
            "missing": nodes_missing_value_tracks_true,
        "values": _numbers(nodes_values, nodes_values_as_tensor),
    }  # fmt: skip
    labels = classlabels_strings or classlabels_int64s or []
    trees = _older(nodes, (class_treeids, class_nodeids, class_ids, _numbers(class_weights, class_weights_as_tensor)))
    base = _numbers(base_values, base_values_as_tensor)
    found, voted = trees.scores(array_of(x), len(labels), "SUM", base if len(base) == len(labels) else None)
    if len(labels) == 2 and len(set(class_ids)) == 1:
        # One score for two classes: it is the second one's.
        score = found[:, class_ids[0]] + (base[0] if len(base) == 1 else 0)
        return labelled(
            score[:, None],
            labels,
            text(post_transform),
            0.5 if max(trees_weights(trees)) <= 1 and min(trees_weights(trees)) >= 0 else 0.0,
        )
    return labelled(found, labels, text(post_transform), 0.0)


def trees_weights(trees: _Trees) -> list[float]:
    """All weights of votes."""
    return [weight for votes in trees.votes.values() for _, weight in votes] or [0.0]
