"""Losses of embeddings: vectors of texts that belong together are to be similar. The values are sentence-transformers'.

Vectors are (B, D). `labels` (B,) say how similar the pairs are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.errors import OptionError
from pyapp.nn import functional as F

Loss = Callable[..., Tensor]


def multiple_negatives_ranking_loss(
    anchors: Tensor, positives: Tensor, *negatives: Tensor, scale: float = 20.0, symmetric: bool = False
) -> Tensor:
    """Each anchor has to find its own text among all texts of the batch (Henderson et al. 2017, arXiv 1705.00652; van
    den Oord et al. 2018, arXiv 1807.03748: InfoNCE), by cosine similarity.

    negatives: more wrong answers, (B, D) each. scale: 1 / temperature. symmetric: texts have to find their anchors too
    (Günther et al. 2023, arXiv 2310.19923), and the two losses are averaged.
    """
    same_shape("multiple_negatives_ranking_loss", anchors, positives, *negatives)
    anchors = F.normalize(anchors, dim=-1)  # (B, D)
    found = F.normalize(ops.cat((positives, *negatives)), dim=-1)  # (B (1 + negatives), D)
    scores = anchors @ found.T * scale  # (B, B (1 + negatives))
    own = ops.arange(len(anchors), device=anchors.device)  # (B,)
    loss = F.cross_entropy(scores, own)
    return (loss + F.cross_entropy(scores[:, : len(anchors)].T, own)) / 2 if symmetric else loss


def cosine_similarity_loss(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """The squared distance of the cosine similarity from the label (Reimers and Gurevych 2019, arXiv 1908.10084)."""
    same_shape("cosine_similarity_loss", first, second, labels=labels)
    return F.mse_loss(F.cosine_similarity(first, second), labels.to(first.dtype))


def cosent_loss(first: Tensor, second: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """log(1 + Σ exp(scale (s_k - s_i))) over all pairs i and k of which i has the higher label; s: cosine similarity
    (Su 2022, kexue.fm/archives/8847).
    """
    same_shape("cosent_loss", first, second, labels=labels)
    return _ordered(F.cosine_similarity(first, second) * scale, labels)


def angle_loss(first: Tensor, second: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """As cosent_loss, of the angle between vectors of complex numbers (Li and Li 2024, arXiv 2309.12871). A vector's
    first half are the real parts.
    """
    same_shape("angle_loss", first, second, labels=labels)
    if first.shape[1] % 2:
        first, second = F.pad(first, (0, 1)), F.pad(second, (0, 1))
    first, second = F.normalize(first, dim=-1), F.normalize(second, dim=-1)  # (B, D)
    (real, imaginary), (other_real, other_imaginary) = first.chunk(2, 1), second.chunk(2, 1)  # (B, D / 2)
    cosine = (first * second).sum(1)  # (B,)
    sine = (imaginary * other_real - real * other_imaginary).sum(1)  # (B,)
    return _ordered((cosine + sine).abs() * scale, labels)


def _ordered(scores: Tensor, labels: Tensor) -> Tensor:
    """log(1 + Σ exp(s_k - s_i)) over all i and k of which i has the higher label: scores and labels (B,) → scalar."""
    differences = scores.unsqueeze(0) - scores.unsqueeze(1)  # (i, k)
    higher = labels.unsqueeze(1) > labels.unsqueeze(0)
    terms = ops.where(higher, differences, float("-inf")).flatten()  # (B B,)
    return ops.cat((scores.detach()[:1] * 0, terms)).logsumexp(0)


def contrastive_loss(first: Tensor, second: Tensor, labels: Tensor, margin: float = 0.5) -> Tensor:
    """Pairs of label 1 come together, those of label 0 to at least `margin` (Hadsell et al. 2006), by the distance 1 -
    cosine similarity.
    """
    same_shape("contrastive_loss", first, second, labels=labels)
    distance, labels = 1 - F.cosine_similarity(first, second), labels.to(first.dtype)  # (B,)
    return 0.5 * (labels * distance.square() + (1 - labels) * F.relu(margin - distance).square()).mean()


def online_contrastive_loss(first: Tensor, second: Tensor, labels: Tensor, margin: float = 0.5) -> Tensor:
    """As contrastive_loss, a sum over the hard pairs: those of label 1 that are further apart than the nearest pair of
    label 0, and those of label 0 that are nearer than the furthest pair of label 1.
    """
    same_shape("online_contrastive_loss", first, second, labels=labels)
    distance = 1 - F.cosine_similarity(first, second)  # (B,)
    apart, together = distance[labels == 0], distance[labels == 1]
    near = apart[apart < (together.max() if len(together) else apart.mean())]
    far = together[together > (apart.min() if len(apart) else together.mean())]
    return far.square().sum() + F.relu(margin - near).square().sum()


def triplet_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float = 5.0) -> Tensor:
    """Anchors are nearer to positives than to negatives by at least `margin`, in Euclidean distance."""
    same_shape("triplet_loss", anchors, positives, negatives)
    near, far = (F.pairwise_distance(anchors, other) for other in (positives, negatives))  # (B,)
    return F.relu(near - far + margin).mean()


def margin_mse_loss(queries: Tensor, positives: Tensor, *negatives: Tensor, labels: Tensor) -> Tensor:
    """Distillation (Hofstätter et al. 2020, arXiv 2010.02666): the product with the positive text less that with each
    negative one is what the teacher says, labels (B,) or (B, negatives).
    """
    same_shape("margin_mse_loss", queries, positives, *negatives)
    better = (queries * positives).sum(-1)  # (B,)
    margins = ops.stack([better - (queries * other).sum(-1) for other in negatives], 1)  # (B, negatives)
    labels = labels.unsqueeze(1) if labels.ndim == 1 else labels
    if labels.shape != margins.shape:
        raise OptionError(f"are {tuple(labels.shape)}, expected {tuple(margins.shape)}", where="labels")
    return F.mse_loss(margins, labels.to(margins.dtype))


def matryoshka_loss(
    loss: Loss, *vectors: Tensor, dimensions: Sequence[int], weights: Sequence[float] | None = None, **settings: Any
) -> Tensor:
    """The sum of a loss over the first numbers of the vectors, for each of the `dimensions`, so that short vectors are
    good too (Kusupati et al. 2022, arXiv 2205.13147). `vectors` and `settings` are the arguments of `loss`.
    """
    weights = [1.0] * len(dimensions) if weights is None else weights
    if len(weights) != len(dimensions) or not dimensions:
        raise OptionError(f"{len(weights)} weights for {len(dimensions)} dimensions", where="weights")
    most = vectors[0].shape[-1]
    for size in dimensions:
        if not 1 <= size <= most:
            raise OptionError(f"{size} is not from 1 to the {most} of the vectors", where="dimensions")
    parts = [
        weight * loss(*[F.normalize(x[:, :size], dim=-1) if x.ndim == 2 else x for x in vectors], **settings)
        for size, weight in zip(dimensions, weights, strict=True)
    ]
    return sum(parts[1:], parts[0])


def same_shape(name: str, first: Tensor, *others: Tensor, labels: Tensor | None = None) -> None:
    """OptionError unless all vectors are (B, D), and the labels (B,)."""
    shapes = [tuple(x.shape) for x in (first, *others)]
    if len(shapes[0]) != 2 or len(set(shapes)) > 1:
        raise OptionError(f"the vectors are {', '.join(map(str, shapes))}, expected (B, D) each", where=name)
    if labels is not None and tuple(labels.shape) != shapes[0][:1]:
        raise OptionError(f"the labels are {tuple(labels.shape)}, expected {shapes[0][:1]}", where=name)


__all__ = [
    "angle_loss", "contrastive_loss", "cosent_loss", "cosine_similarity_loss", "margin_mse_loss", "matryoshka_loss",
    "multiple_negatives_ranking_loss", "online_contrastive_loss", "triplet_loss",
]  # fmt: skip
