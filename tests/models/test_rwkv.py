"""RWKV's files: those of its author, which have no settings, older ones of flash-linear-attention and of llama.cpp.
(Values are compared in test_decoders.py.)
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError
from pyapp.formats import open_checkpoint, write_gguf, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.models import load_model
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.nn.recurrent.delta_rule import generalized_delta_rule
from pyapp.nn.recurrent.rwkv import decayed_attention
from tests.models.decoder_configs import CONFIGS
from tests.models.rwkv_names import authors
from tests.models.seeded import draw
from tests.models.test_decoders import golden, make
from tests.models.test_gguf_models import load, logits, saved
from tests.text.test_longest_match import FILE


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return weights_of("rwkv7")


def weights_of(name: str) -> dict[str, np.ndarray]:
    case = golden(name)
    return {key: draw(key, tuple(shape), case["salt"]) for key, (shape, *_) in case["parameters"].items()}


def check(folder: Path, tensors: dict[str, Any], name: str = "rwkv7", **changed: Any) -> None:
    """The logits of a file, which gets rows for the tokens of all bytes: those of the reference's tokens. With other
    settings than the reference's, those of the same model.
    """
    size = CONFIGS[name]["hidden_size"]
    for key in ("emb.weight", "head.weight", "model.embeddings.weight", "lm_head.weight", "rwkv.embeddings.weight"):
        if key in tensors:
            tensors = {**tensors, key: np.concatenate([tensors[key], np.zeros((204, size), np.float32)])}
    (folder / FILE).write_text("\n".join(f"{i} {bytes([i - 1])!r} 1" for i in range(1, 257)))
    write_safetensors(folder / "model.safetensors", tensors)
    loaded = load_model(str(folder / "model.safetensors"), dtype="float32")
    expected = make(name, golden(name)["salt"], **changed)
    assert loaded.model.config == replace(expected.config, vocab_size=300)
    assert loaded.tokenizer.decode([73, 106]) == "Hi"
    found = logits(loaded.model)[[0, -1], :96].reshape(-1)
    reference = logits(expected)[[0, -1]].reshape(-1) if changed else golden(name)["logits"]
    np.testing.assert_allclose(found, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["rwkv", "rwkv5", "rwkv6", "rwkv7"])
def test_files_of_the_author_need_no_settings(name: str, tmp_path: Path) -> None:
    unsaid = {"layer_norm_epsilon": 1e-5, "context_length": 1024} if name == "rwkv" else {}
    check(tmp_path, authors(weights_of(name)), name, **unsaid)


def test_what_a_file_of_the_author_lacks_is_told(weights: Any, tmp_path: Path) -> None:
    own = {key: value for key, value in authors(weights).items() if key != "blocks.1.att.k_k"}
    with pytest.raises(ModelError, match="missing: model.layers.1.attn.k_k"):
        check(tmp_path, own)


def test_older_files_join_the_mixes(weights: Any, tmp_path: Path) -> None:
    joined = {name: value for name, value in weights.items() if ".attn.x_" not in name}
    for layer in range(2):
        path = f"model.layers.{layer}.attn.x_"
        joined[f"{path}x"] = np.stack([weights[f"{path}{part}"].reshape(-1) for part in "rwkvag"])
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["rwkv7"] | {"vocab_size": 300}))
    check(tmp_path, joined)


def test_folders_of_rwkv6_do_not_say_their_ranks(tmp_path: Path) -> None:
    said = {key: value for key, value in CONFIGS["rwkv6"].items() if not key.endswith("extra_dim")}
    (tmp_path / "config.json").write_text(json.dumps(said | {"vocab_size": 300, "rescale_every": 6}))
    check(tmp_path, weights_of("rwkv6"), "rwkv6")


def test_gguf_files_with_smaller_weights_and_mixes_of_their_own(tmp_path: Path) -> None:
    """llama.cpp's converter divides the last weights of later layers by two, for halved values; older ones do not join
    the mixes.
    """
    _, file = saved("rwkv6", tmp_path)
    quantize_file(file, tmp_path / "new.gguf", "f32", view=gguf_view(file))
    with open_checkpoint(tmp_path / "new.gguf") as new:
        tensors: dict[str, Any] = {name: new.read(name) for name in new.tensors}
        values = {**new.values, "rwkv6.rescale_every_n_layers": 1}
    for layer in range(2):
        mixes = tensors.pop(f"blk.{layer}.time_mix_lerp_fused.weight")
        assert mixes.shape == (5, 1, 1, 32)
        tensors |= {f"blk.{layer}.time_mix_lerp_{part}.weight": mixes[i].reshape(-1) for i, part in enumerate("wkvrg")}
        for name in ("time_mix_output", "channel_mix_value"):
            tensors[f"blk.{layer}.{name}.weight"] = tensors[f"blk.{layer}.{name}.weight"] / 2**layer
    write_gguf(tmp_path / "old.gguf", tensors, values)
    found = logits(load(tmp_path / "old.gguf"))[[0, -1]]
    np.testing.assert_allclose(found.reshape(-1), golden("rwkv6")["logits"], rtol=1e-3, atol=1e-3)


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


def test_chunks_of_decayed_attention_are_its_steps() -> None:
    """Two chunks and a part of one, with decays from none to all, against the tokens one by one."""
    pyapp.manual_seed(0)
    query, key, value = (pyapp.randn(2, 37, 16) for _ in range(3))
    decay, first = -(4 * pyapp.randn(2, 37, 16)).exp(), pyapp.randn(2, 8)
    whole, last = decayed_attention(None, query, decay, key, value, first=first)
    state, rows = None, []
    for at in range(37):
        y, state = decayed_attention(state, *(x.narrow(1, at, 1) for x in (query, decay, key, value)), first=first)
        rows.append(y.numpy())
    np.testing.assert_allclose(whole.numpy(), np.concatenate(rows, 1), rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(last.numpy(), state.numpy(), rtol=2e-4, atol=2e-4)
