"""Frequencies of rotary positions beside transformers' (make_golden_rotary.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import ops
from pyapp.errors import ModelError
from pyapp.nn.positions.rotary import RotaryFrequencies, rotary_frequencies
from tests.nn.rotary_cases import BASE, CASES

GOLDEN = json.loads(Path(__file__).with_name("golden_rotary.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_frequencies(name: str) -> None:
    config, length = CASES[name]
    found, expected = rotary_frequencies(config, length=length), GOLDEN[name]
    np.testing.assert_allclose(found.per_position, expected["per_position"], rtol=1e-6)
    assert found.attention_factor == pytest.approx(expected["attention_factor"], rel=1e-7)


def test_table() -> None:
    found = RotaryFrequencies((1.0, 0.25, 1e-3), 1.5).table(5000).numpy()
    angles = np.arange(5000)[:, None] * np.array([1.0, 0.25, 1e-3])
    np.testing.assert_allclose(found, 1.5 * np.stack([np.cos(angles), np.sin(angles)], -1), atol=2e-7)
    assert found.dtype == np.float32
    plain = rotary_frequencies({**BASE, "rope_theta": 500.0}).table(7).numpy()
    np.testing.assert_array_equal(plain, ops.rope_table(7, 16, 500.0).numpy())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"rope_theta": 500.0}, {"rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}}),
        ({"rope_scaling": None}, {"rope_parameters": {}}),
        (
            {"rotary_pct": 0.25, "rotary_emb_base": 300},
            {"rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 300}},
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2}},
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
        ),
        (
            {
                "original_max_position_embeddings": 32,
                "rope_scaling": {"type": "su", "short_factor": [2] * 8, "long_factor": [3] * 8},
            },
            {
                "rope_parameters": {
                    "rope_type": "longrope",
                    "original_max_position_embeddings": 32,
                    "short_factor": [2] * 8,
                    "long_factor": [3] * 8,
                }
            },
        ),
        ({"head_dim": 16, "hidden_size": 999}, {}),
    ],
)
def test_old_configurations(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert rotary_frequencies({**BASE, **old}) == rotary_frequencies({**BASE, **new})


def test_layer_types() -> None:
    several = {
        "full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8},
        "sliding_attention": {"rope_theta": 1e4},
    }
    config = {**BASE, "rope_parameters": several}
    assert rotary_frequencies(config, layer_type="sliding_attention") == rotary_frequencies({**BASE, "rope_theta": 1e4})
    assert rotary_frequencies(config, layer_type="full_attention").per_position[0] == 0.125
    with pytest.raises(ModelError, match="no layer type None, only full_attention, sliding_attention"):
        rotary_frequencies(config)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_scaling": {"type": "spiral"}}, "type 'spiral' are unknown. The known types are default, linear"),
        ({"rope_scaling": {"type": ["yarn"]}}, "are unknown"),
        ({"rope_scaling": "linear"}, "expected a dictionary"),
        ({"rope_scaling": {"type": "linear"}}, "does not say factor"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor is 0, expected a positive number"),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, "factor is '2'"),
        ({"rope_theta": float("nan")}, "rope_theta is nan"),
        ({"rope_theta": True}, "rope_theta is True"),
        ({"hidden_size": 12}, "3 columns of heads of 3 cannot be rotated"),
        ({"hidden_size": None}, "does not say hidden_size"),
        ({"head_dim": 1 << 40}, "cannot be rotated"),
        ({"partial_rotary_factor": 1.5}, "24 columns of heads of 16"),
        (
            {"rope_scaling": {"type": "longrope", "short_factor": [1] * 7, "long_factor": []}},
            "short_factor has 7 numbers, expected 8",
        ),
        ({"rope_scaling": {"type": "longrope", "short_factor": [1] * 7 + [0]}}, "short_factor is 0"),
        ({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1}}, "are both 1"),
        ({"rope_scaling": {"type": "dynamic", "factor": 1e300}, "head_dim": 4, "length": 256}, "no finite frequencies"),
        ({"rope_scaling": {"type": "linear", "factor": 1e-320}}, "no finite frequencies"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0, "beta_fast": 1e308}}, "no finite frequencies"),
        (
            {"rope_scaling": {"type": "longrope", "short_factor": [1] * 8}, "original_max_position_embeddings": 1},
            "no finite",
        ),
    ],
)
def test_what_means_nothing_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        rotary_frequencies({**BASE, **values}, length=values.get("length"))
