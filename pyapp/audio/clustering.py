"""Agglomerative clustering of vectors by cosine distance with average linkage.

Source: F. Murtagh, A Survey of Recent Advances in Hierarchical Clustering Algorithms (1983): chains of nearest
neighbours, which need n² distances and n² time; Lance and Williams (1967): the distances of a merged cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import np
from pyapp.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 6000  # vectors that are clustered: their distances take 144 MB. Of more, others join the nearest cluster.
SMALL_SHARE, SMALL = 10, 4  # a cluster of fewer than a tenth of the vectors, and of fewer than 4, is small


def cosine_distances(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, dim) to float32 (n, n): 1 - cosine, from 0 to 2."""
    unit = unit_vectors(vectors)
    return np.clip(1 - unit @ unit.T, 0, 2).astype(np.float32)


def unit_vectors(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors (n, dim) with length 1."""
    found: NDArray[np.float32] = vectors / np.maximum(np.sqrt((vectors**2).sum(axis=1, keepdims=True)), 1e-12)
    return found


def average_linkage(distances: NDArray[np.float32]) -> list[tuple[float, int, int]]:
    """The n - 1 merges of a symmetric matrix (n, n), which is overwritten: (distance, a member of the one cluster, a
    member of the other), by distance.
    """
    count = len(distances)
    sizes = np.ones(count, np.int64)
    np.fill_diagonal(distances, np.inf)
    merges: list[tuple[float, int, int]] = []
    alive = np.ones(count, bool)
    chain: list[int] = []
    while len(merges) < count - 1:
        if not chain:
            chain.append(int(alive.argmax()))
        last = chain[-1]
        nearest = int(distances[last].argmin())
        if len(chain) > 1 and distances[last, chain[-2]] <= distances[last, nearest]:
            nearest = chain[-2]
        if len(chain) < 2 or nearest != chain[-2]:
            chain.append(nearest)
            continue
        chain = chain[:-2]
        merges.append((float(distances[last, nearest]), last, nearest))
        # the merged cluster takes the place of `nearest`; `last` is infinitely far from all from now on
        total = sizes[last] + sizes[nearest]
        merged = (distances[last] * sizes[last] + distances[nearest] * sizes[nearest]) / total
        distances[nearest], distances[:, nearest] = merged, merged
        distances[nearest, nearest] = np.inf
        distances[last], distances[:, last] = np.inf, np.inf
        sizes[nearest], alive[last] = total, False
    return sorted(merges, key=lambda merge: merge[0])


def labels_of(merges: list[tuple[float, int, int]], count: int) -> NDArray[np.int64]:
    """The clusters (count,) that these merges make, numbered from 0 by their first member."""
    roots = list(range(count))

    def root(member: int) -> int:
        while roots[member] != member:
            roots[member] = roots[roots[member]]
            member = roots[member]
        return member

    for _, one, other in merges:
        roots[root(one)] = root(other)
    return numbered(np.array([root(member) for member in range(count)], np.int64))


def numbered(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The labels numbered from 0 in the order in which they come."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(int(label), len(numbers)) for label in labels], np.int64)


def cluster(vectors: NDArray[np.float32], threshold: float, wanted: int | None = None) -> NDArray[np.int64]:
    """Labels int64 (n,) of vectors (n, dim), numbered by their first member: `wanted` clusters (fewer of fewer
    vectors), or else those that are further apart than `threshold` (0 to 2) on average. Small clusters, mostly of
    vectors that two speakers share, join the nearest large one.
    """
    if not 0 < threshold <= 2:
        raise OptionError(f"must lie between 0 and 2, not {threshold!r:.40}", where="threshold")
    count = len(vectors)
    if count > MOST:
        chosen = np.linspace(0, count - 1, MOST).round().astype(np.int64)
        some = cluster(vectors[chosen], threshold, wanted)
        return numbered(nearest_centres(vectors, vectors[chosen], some, np.unique(some)))
    if count < 2:
        return np.zeros(count, np.int64)
    merges = average_linkage(cosine_distances(vectors))
    least = max(1, min(SMALL, count // SMALL_SHARE))
    if wanted is None:
        kept = sum(distance <= threshold for distance, _, _ in merges)
        return join_small(vectors, labels_of(merges[:kept], count), least)
    kept = max(0, count - wanted)
    plain = labels_of(merges[:kept], count)
    for fewer in range(kept, 0, -1):  # a lone vector far from all is not one of the wanted clusters
        labels = labels_of(merges[:fewer], count)
        large = int((np.bincount(labels) >= least).sum())
        if large == wanted:
            return join_small(vectors, labels, least)
        if count - fewer > 4 * wanted + SMALL * SMALL_SHARE:
            break
    return plain


def join_small(vectors: NDArray[np.float32], labels: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """The labels where vectors of clusters with fewer than `least` members are in the nearest of the others."""
    large = np.flatnonzero(np.bincount(labels) >= least)
    if not len(large) or len(large) == labels.max() + 1:
        return labels
    small = ~np.isin(labels, large)
    found = labels.copy()
    found[small] = nearest_centres(vectors[small], vectors[~small], labels[~small], large)
    return numbered(found)


def nearest_centres(
    vectors: NDArray[np.float32], members: NDArray[np.float32], labels: NDArray[np.int64], clusters: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The cluster whose mean direction is nearest to each of the vectors."""
    unit = unit_vectors(members)
    centres = unit_vectors(np.stack([unit[labels == one].mean(axis=0) for one in clusters]))
    found: NDArray[np.int64] = clusters[(unit_vectors(vectors) @ centres.T).argmax(axis=1)]
    return found
