"""RWKV 7's files: those of its author, which have no settings, and older ones of flash-linear-attention. (Its values
are compared in test_decoders.py.)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError
from pyapp.formats import write_safetensors
from pyapp.models import load_model
from pyapp.nn.delta_rule import generalized_delta_rule
from tests.models.decoder_configs import CONFIGS
from tests.models.rwkv7_names import authors
from tests.models.seeded import draw
from tests.models.test_decoders import TEXT, golden
from tests.text.test_longest_match import FILE, GOLDEN


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    case = golden("rwkv7")
    return {name: draw(name, tuple(shape), case["salt"]) for name, (shape, *_) in case["parameters"].items()}


def logits_of(folder: Path, tensors: dict[str, Any]) -> Any:
    write_safetensors(folder / "model.safetensors", tensors)
    loaded = load_model(str(folder / "model.safetensors"), dtype="float32")
    assert loaded.model.config.gate_low_rank_dim == 7 and loaded.model.config.v_low_rank_dim == 4
    with pyapp.no_grad():
        return loaded.model(pyapp.tensor([TEXT], dtype="int32"))[0].numpy()


def write_words(folder: Path) -> None:
    pieces = [f"{i} {bytes([i - 1])!r} 1" for i in range(1, 257)]
    (folder / FILE).write_text("\n".join(pieces if folder.name == "large" else GOLDEN["lines"]))


def test_files_of_its_author_need_no_settings(weights: Any, tmp_path: Path) -> None:
    more = np.zeros((300 - 96, 128), np.float32)  # rows for the tokens of all bytes
    own = authors(weights)
    for name in ("emb.weight", "head.weight"):
        own[name] = np.concatenate([own[name], more])
    (tmp_path / "large").mkdir()
    write_words(tmp_path / "large")
    found = logits_of(tmp_path / "large", own)[[0, -1], :96]
    np.testing.assert_allclose(found.reshape(-1), golden("rwkv7")["logits"], rtol=1e-4, atol=1e-4)
    with pytest.raises(ModelError, match="missing: model.layers.1.attn.k_k"):
        logits_of(tmp_path / "large", {name: value for name, value in own.items() if name != "blocks.1.att.k_k"})


def test_older_files_join_the_mixes(weights: Any, tmp_path: Path) -> None:
    joined = {name: value for name, value in weights.items() if ".attn.x_" not in name}
    for layer in range(2):
        path = f"model.layers.{layer}.attn.x_"
        joined[f"{path}x"] = np.stack([weights[f"{path}{part}"].reshape(-1) for part in "rwkvag"])
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["rwkv7"] | {"vocab_size": 300}))
    for name in ("model.embeddings.weight", "lm_head.weight"):
        joined[name] = np.concatenate([joined[name], np.zeros((204, 128), np.float32)])
    write_words(tmp_path)
    (tmp_path / FILE).write_text("\n".join(f"{i} {bytes([i - 1])!r} 1" for i in range(1, 257)))
    found = logits_of(tmp_path, joined)[[0, -1], :96]
    np.testing.assert_allclose(found.reshape(-1), golden("rwkv7")["logits"], rtol=1e-4, atol=1e-4)


def test_chunks_of_the_rule_are_its_steps() -> None:
    """Two chunks and a part of one, with the fastest decay, against the tokens one by one."""
    pyapp.manual_seed(0)
    query, key, value, removed = (pyapp.randn(2, 75, 16) for _ in range(4))
    decay = -0.606531 * pyapp.rand(2, 75, 16).round()
    removed = removed / removed.reshape(2, 75, 2, 8).square().sum(-1).sqrt().repeat_interleave(8, -1)
    parts = (query, decay, key, value, removed, removed * pyapp.rand(2, 75, 16))
    whole, last = generalized_delta_rule(None, *parts, heads=2)
    state, rows = None, []
    for at in range(75):
        y, state = generalized_delta_rule(state, *(part.narrow(1, at, 1) for part in parts), heads=2)
        rows.append(y.numpy())
    np.testing.assert_allclose(whole.numpy(), np.concatenate(rows, 1), rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(last.numpy(), state.numpy(), rtol=2e-4, atol=2e-4)
