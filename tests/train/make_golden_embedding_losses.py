"""Makes golden_embedding_losses.json with sentence-transformers (6.2):

    PYTHONPATH=. python -m tests.train.make_golden_embedding_losses

For each case the loss, and the sum of the absolute gradients of each input's vectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses

from tests.goldens import write_json
from tests.train.embedding_cases import CASES, MATRYOSHKA, SIZE, VECTORS

TARGET = Path(__file__).with_name("golden_embedding_losses.json")


class Known(torch.nn.Module):
    """A model whose vectors are its inputs."""

    def get_embedding_dimension(self) -> int:
        return SIZE

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        return {**features, "sentence_embedding": features["vectors"]}


def case(name: str, matryoshka: bool = False) -> list[float]:
    _, names, labels, _, kind, settings = CASES[name]
    vectors = [torch.tensor(VECTORS[key], requires_grad=True) for key in names]
    model: Any = Known()
    loss = getattr(losses, kind)(model, **settings)
    if matryoshka:
        loss = losses.MatryoshkaLoss(model, loss, MATRYOSHKA["dimensions"], MATRYOSHKA["weights"])
    value = loss([{"vectors": x} for x in vectors], None if labels is None else torch.from_numpy(labels))
    value.backward()
    return [float(value), *(float(x.grad.abs().sum()) for x in vectors)]


if __name__ == "__main__":
    found = {name: case(name) for name in CASES}
    found["matryoshka"] = case("in batch", True)
    write_json(TARGET, found)
