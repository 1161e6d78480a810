"""Distances and similarities of vectors."""

from __future__ import annotations

from ...engine import Tensor, ops
from ...engine.autocast import in_full_precision_on_cards
from ...engine.user_errors import describe
from .from_function import function_layer, torch_function

__all__ = ["CosineSimilarity", "PairwiseDistance", "cosine_similarity", "pairwise_distance", "pdist"]
__top_level__ = ["cosine_similarity", "pairwise_distance"]

pdist = torch_function(ops.pdist, "pdist")


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dim. float16 and bfloat16 are summed in float32."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@in_full_precision_on_cards
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 · x2 / (|x1| |x2|) along a dim of their broadcast shape, each norm at least `eps`. float16 and bfloat16 are
    computed in float32. TypeError for integers.
    """
    kind = ops.result_type(x1, x2)
    if not kind.is_floating_point:
        raise TypeError(f"cosine_similarity: takes floating-point tensors, got {describe(x1)} and {describe(x2)}")
    if kind.itemsize < 4:
        return cosine_similarity(x1.float(), x2.float(), dim, eps).to(kind)
    x1, x2 = ops.broadcast_tensors(x1.to(kind), x2.to(kind))
    norms = [ops.maximum((x * x).sum(dim), eps * eps).sqrt() for x in (x1, x2)]
    return (x1 * x2).sum(dim) / (norms[0] * norms[1])


CosineSimilarity = function_layer("CosineSimilarity", cosine_similarity, tensors=2, shown="")
PairwiseDistance = function_layer("PairwiseDistance", pairwise_distance, tensors=2, shown="")
