"""Every language model: an adapter reaches its layers, and the merged model can be written and loaded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import pyapp
from pyapp.adapters import LoraConfig, add_adapter, merge_and_unload
from pyapp.models import load_model
from pyapp.models.load import LoadedModel
from pyapp.models.loading.writing_folder import write_model
from pyapp.nn import functional
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.models.test_recomputing import TOKENS, language_models
from tests.together import check_each


def test_every_language_model(tmp_path: Path) -> None:
    vocabulary = {chr(97 + i): i for i in range(26)}
    tokenizer = Tokenizer({"version": "1.0", "model": {"type": "BPE", "vocab": vocabulary, "merges": []}})

    def check(name: str, model: Any) -> None:
        paths = add_adapter(model, LoraConfig(r=2))
        functional.cross_entropy(model(pyapp.tensor(TOKENS))[0], pyapp.tensor(TOKENS[0])).backward()
        layers = [model.get_submodule(path) for path in paths]
        for path, layer in zip(paths, layers, strict=True):
            assert layer.lora_B["default"].weight.grad.abs().max() > 0, path
        model.zero_grad()
        pyapp.manual_seed(0)
        with pyapp.no_grad():
            for layer in layers:
                layer.lora_B["default"].weight.normal_(0.0, 0.1)
            expected = model(pyapp.tensor(TOKENS)).numpy()
            merge_and_unload(model)
            model.requires_grad_(False)
            write_model(LoadedModel(name, model, tokenizer, model.config.to_dict()), tmp_path / name)
            again: Any = load_model(tmp_path / name).model
            found = again(pyapp.tensor(TOKENS)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)

    check_each(check, language_models())
