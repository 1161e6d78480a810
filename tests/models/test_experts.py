"""Mixtures of experts with quantised weights: from every kind of file, in Graphs and not, on whole texts and token by
token.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import quant
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.models.load import build
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.nn.layers.experts import Experts, Router
from pyapp.text.generation.generate import Session
from tests.models.decoder_configs import CONFIGS
from tests.models.seeded import draw

TEXT = [3, 17, 9, 28, 5, 11, 30, 2, 14, 22, 7]
SIZES = {
    "vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "num_hidden_layers": 1,
}  # fmt: skip


def make(**changes: Any) -> Any:
    module = importlib.import_module("pyapp.models.mixtral")
    model = module.MixtralForCausalLM(module.Config.from_dict(CONFIGS["mixtral"] | SIZES | changes))
    with pyapp.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(pyapp.from_numpy(draw(name, tuple(parameter.shape))))
    return model.requires_grad_(False)


def stacks(model: Any) -> dict[str, str]:
    """The types of the experts' weights, by their last name."""
    found = {name.rpartition(".")[2]: p.dtype.name for name, p in model.named_parameters() if ".experts." in name}
    assert set(found) == set(Experts.STACKS)
    return found


def logits(model: Any) -> np.ndarray:
    """(T, V) of a whole text."""
    with pyapp.no_grad():
        found: np.ndarray = model(pyapp.tensor([TEXT], dtype="int32"))[0].numpy()
    return found


def saved(model: Any, folder: Path, apart: bool) -> Path:
    """The model's file, with the experts in stacks or, as published ones, each by itself."""
    tensors = {name: value.detach() for name, value in model.named_parameters()}
    if apart:
        for name in [name for name in tensors if ".experts." in name]:
            place = name.rpartition(".mlp.")[0] + ".block_sparse_moe.experts"
            for expert, matrix in enumerate(tensors.pop(name)):
                parts = {"w2": matrix}
                if "gate_up" in name:
                    parts = dict(zip(("w1", "w3"), matrix.chunk(2, 0), strict=True))
                tensors |= {f"{place}.{expert}.{part}.weight": value.contiguous() for part, value in parts.items()}
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(model.config.to_dict()))
    return folder / "model.safetensors"


def load(path: Path, dtype: str | None = None) -> Any:
    with open_checkpoint(path) as checkpoint:
        settings = None
        if path.suffix != ".gguf":
            settings = json.loads(path.with_name("config.json").read_text())
        return build(checkpoint, lambda event: None, Cancel(), settings, dtype)


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "iq4_nl", "float16"])
def test_each_way_of_computing_gives_the_same(kind: str) -> None:
    """Whole texts take the matrices where they lie, a Graph copies those of the chosen experts."""
    model = make()
    exact = logits(model)
    if kind == "float16":
        for module in model.modules():
            if isinstance(module, Experts):
                for name in Experts.STACKS:
                    setattr(module, name, pyapp.nn.Parameter(getattr(module, name).to(kind), requires_grad=False))
    else:
        names = pyapp.nn.quantize(model, kind)
        assert "model.layers.0.mlp.experts.down_proj" in names
    assert set(stacks(model).values()) == {kind}
    whole = logits(model)
    assert 0 < np.abs(whole - exact).mean() < {"q8_0": 0.06, "float16": 0.002}.get(kind, 0.6) * np.abs(exact).mean()
    session, eager = Session(model, capacity=20), Session(model, capacity=20, eager=True)
    for one in (session, eager):
        found = [one.feed(TEXT[:3]).numpy().copy()] + [one.step(token).numpy().copy() for token in TEXT[3:]]
        np.testing.assert_allclose(np.stack(found), whole[2:], rtol=2e-2, atol=2e-2 * np.abs(whole).max())


@pytest.mark.parametrize("apart", [True, False])
def test_files_are_quantised_while_they_load(apart: bool, tmp_path: Path) -> None:
    model = make()
    path = saved(model, tmp_path, apart)
    np.testing.assert_array_equal(logits(load(path, "float32")), logits(model))
    found = load(path, "q8_0")
    assert set(stacks(found).values()) == {"q8_0"}
    pyapp.nn.quantize(model, "q8_0")
    for name, parameter in model.named_parameters():
        if ".experts." in name:
            own = dict(found.named_parameters())[name]
            assert quant.to_blocks(own).data == quant.to_blocks(parameter).data


@pytest.mark.parametrize("kind", ["q8_0", "Q4_K_M"])
def test_gguf_files_keep_their_types(kind: str, tmp_path: Path) -> None:
    path = saved(make(hidden_size=256, intermediate_size=256, head_dim=64), tmp_path, True)
    target = tmp_path / "model.gguf"
    quantize_file(path, target, kind, view=gguf_view(path))
    with open_checkpoint(target) as checkpoint:
        kinds = {name: info.dtype for name, info in checkpoint.tensors.items()}
        size = sum(info.nbytes for name, info in checkpoint.tensors.items() if "_exps" in name)
        from pyapp.models import mixtral
        from pyapp.models.load import read_model, settings_of

        found = read_model(mixtral, mixtral.MixtralForCausalLM, checkpoint, settings_of(checkpoint))
    assert stacks(found) == {
        "gate_up_proj": kinds["blk.0.ffn_gate_exps.weight"], "down_proj": kinds["blk.0.ffn_down_exps.weight"]
    }  # fmt: skip
    held = sum(p.nbytes for name, p in found.named_parameters() if ".experts." in name)
    assert held <= 1.05 * size
    expected = logits(load(target, "float32"))
    assert np.abs(logits(found) - expected).mean() < 0.06 * np.abs(expected).mean()


def test_matrices_that_blocks_cannot_hold_stay_floats(tmp_path: Path) -> None:
    """Rows that are not a multiple of the band: each expert's matrix must begin with one."""
    model = make(intermediate_size=36)
    found = load(saved(model, tmp_path, False), "q8_0")
    assert stacks(found) == {"gate_up_proj": "q8_0", "down_proj": "float32"}
    router = Router(4, 3, 2)
    with pyapp.no_grad():
        shares, chosen = router(pyapp.ones(5, 4))
    assert shares.shape == chosen.shape == (5, 2)
