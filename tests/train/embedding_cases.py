"""Losses of embeddings: the arguments of ours, and what they are in sentence-transformers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import draw

COUNT, SIZE = 5, 6
VECTORS = {name: draw(name, (COUNT, SIZE)) for name in ("anchors", "positives", "negatives", "more negatives")}
BINARY = np.array([1, 0, 0, 1, 1], np.float32)
GRADED = np.array([0.3, 0.9, 0.3, 0.0, 1.0], np.float32)
MARGINS = draw("margins", (COUNT, 2))

A, P, N, M = VECTORS
# case → (ours, vectors, labels, settings of ours, class of sentence-transformers, its settings)
CASES: dict[str, tuple[str, list[str], Any, dict[str, Any], str, dict[str, Any]]] = {
    "in batch": ("multiple_negatives_ranking_loss", [A, P], None, {}, "MultipleNegativesRankingLoss", {}),
    "negatives": (
        "multiple_negatives_ranking_loss", [A, P, N, M], None, {"scale": 5.0}, "MultipleNegativesRankingLoss",
        {"scale": 5.0},
    ),
    "symmetric": (
        "multiple_negatives_ranking_loss", [A, P], None, {"symmetric": True}, "MultipleNegativesRankingLoss",
        {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"},
    ),
    "cosine": ("cosine_similarity_loss", [A, P], GRADED, {}, "CosineSimilarityLoss", {}),
    "cosent": ("cosent_loss", [A, P], GRADED, {}, "CoSENTLoss", {}),
    "angle": ("angle_loss", [A, P], GRADED, {}, "AnglELoss", {}),
    "contrastive": ("contrastive_loss", [A, P], BINARY, {}, "ContrastiveLoss", {}),
    "online": ("online_contrastive_loss", [A, P], BINARY, {}, "OnlineContrastiveLoss", {}),
    "triplet": ("triplet_loss", [A, P, N], None, {}, "TripletLoss", {}),
    "margins": ("margin_mse_loss", [A, P, N, M], MARGINS, {}, "MarginMSELoss", {}),
}  # fmt: skip
MATRYOSHKA = {"dimensions": [6, 3], "weights": [1.0, 0.5]}  # of the first case
