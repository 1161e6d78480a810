"""Perceiver against transformers (make_golden_perceivers.py): names and outputs; its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError
from pyapp.models import perceiver
from pyapp.models.loading.heads import HEADS
from pyapp.text.tokenization.tokenizer_files import load_tokenizer
from tests.models.perceiver_configs import CONFIGS, IDS, PICTURES
from tests.models.seeded import picture, picture_weights, shown
from tests.models.small_models import golden_of


@pytest.mark.parametrize("kind", CONFIGS)
def test_outputs_are_those_of_transformers(kind: str) -> None:
    expected, [task] = golden_of("golden_perceivers", kind), HEADS[f"For{kind}"][:1]
    settings = perceiver.adapted(CONFIGS[kind], expected["parameters"])
    model: Any = perceiver.TASKS[task](perceiver.Config.from_dict(settings)).eval()
    assert {name: list(value.shape) for name, value in model.named_parameters()} == expected["parameters"]
    with pyapp.no_grad():
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            if value.dtype.is_floating_point:
                value.copy_(pyapp.from_numpy(picture_weights(name, tuple(value.shape))))
        ids = pyapp.tensor(IDS)
        given = (pyapp.from_numpy(picture(2, *PICTURES[kind])),) if kind in PICTURES else (ids, (ids != 0).to("int32"))
        found = model(*given)
    np.testing.assert_allclose(shown(found.numpy()), expected["outputs"], atol=1e-4, rtol=1e-4)


def test_what_cannot_be_is_refused() -> None:
    values = CONFIGS["MaskedLM"]
    for change in (
        {"num_latents": 10**9}, {"d_latents": 15}, {"v_channels": 8}, {"cross_attention_shape_for_attention": "v"},
        {"image_size": 10**6}, {"d_model": "many"}, {"num_blocks": 0},
    ):  # fmt: skip
        with pytest.raises(ModelError):
            perceiver.Config.from_dict(values | change)
    with pytest.raises(ModelError, match="d_model"):
        perceiver.TASKS["masked-lm"](perceiver.Config.from_dict(values | {"d_model": 20}))
    pictures = CONFIGS["ImageClassificationFourier"] | {
        "cross_attention_shape_for_attention": "kv", "num_cross_attention_heads": 8,
    }  # fmt: skip
    with pytest.raises(ModelError, match="8 heads do not divide"):
        perceiver.TASKS["image-classification"](perceiver.Config.from_dict(pictures))


def test_bytes_are_tokens() -> None:
    """Expected: PerceiverTokenizer of transformers 5.24."""
    words = load_tokenizer({"tokenizer_config.json": b'{"tokenizer_class": "PerceiverTokenizer"}'}, "folder")
    assert words.encode("h\u00e9 [MASK]") == [4, 110, 201, 175, 38, 3, 5]
    assert words.decode([4, 110, 201, 175, 5]) == "h\u00e9" and words.vocab_size == 262
