"""Models whose head has weights of its own, loaded from the tensors that transformers saves of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.models.loading.building import build
from tests.models.encoder_configs import CONFIGS as ENCODERS
from tests.models.encoder_configs import batch
from tests.models.seeded import draw
from tests.models.sequence_configs import CONFIGS as SEQUENCES
from tests.models.sequence_configs import IDS, MASK, TEXTS

GOLDEN = json.loads(Path(__file__).with_name("golden_untied.json").read_text())
EMBEDDINGS = ("model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")


def load(name: str, folder: Path, tensors: dict[str, Any], tied: bool = False) -> Any:
    path = folder / "model.safetensors"
    write_safetensors(path, {key: pyapp.from_numpy(value) for key, value in tensors.items()})
    config = (ENCODERS | SEQUENCES)[name] | {"tie_word_embeddings": tied}
    with open_checkpoint(path) as checkpoint:
        return build(checkpoint, config, "masked-lm" if name in ENCODERS else "seq2seq-lm").eval()


def logits(name: str, model: Any) -> np.ndarray:
    def ids(values: Any) -> Any:
        return None if values is None else pyapp.tensor(values, dtype="int32")

    with pyapp.no_grad():
        if name in ENCODERS:
            found = model(*(ids(part) for part in batch(ENCODERS[name])))
        else:
            found = model(ids(IDS), ids(TEXTS), ids(MASK))
    return np.asarray(found.numpy()[[0, 0, 1], [0, -1, 0]])


@pytest.mark.parametrize("name", GOLDEN)
def test_every_weight_is_read(name: str, tmp_path: Path) -> None:
    """As transformers does, also where the configuration says that weights are tied and the file has others."""
    tensors = {key: draw(key, tuple(shape)) for key, shape in GOLDEN[name]["shapes"].items()}
    wanted = np.array(GOLDEN[name]["logits"]).reshape(3, -1)
    for tied in (False, True):
        np.testing.assert_allclose(logits(name, load(name, tmp_path, tensors, tied)), wanted, rtol=1e-4, atol=1e-4)


def test_weights_that_are_equal_or_missing_stay_tied(tmp_path: Path) -> None:
    """Files of older libraries have only some of the names, or the same values under all."""
    tensors = {key: draw(key, tuple(shape)) for key, shape in GOLDEN["bart"]["shapes"].items()}
    for name in EMBEDDINGS[1:]:
        tensors[name] = tensors[EMBEDDINGS[0]]
    found = dict(load("bart", tmp_path, tensors).named_parameters(remove_duplicate=False))
    assert found[EMBEDDINGS[0]] is found[EMBEDDINGS[1]] is found[EMBEDDINGS[2]] is not found["lm_head.weight"]
    for name in EMBEDDINGS[1:]:
        del tensors[name]
    fewer = dict(load("bart", tmp_path, tensors).named_parameters(remove_duplicate=False))
    assert fewer[EMBEDDINGS[0]] is fewer[EMBEDDINGS[2]]
    np.testing.assert_array_equal(fewer[EMBEDDINGS[2]].numpy(), found[EMBEDDINGS[2]].numpy())
