"""Weights that other libraries quantised, against these libraries (make_golden_quantised.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import pyapp
from pyapp.engine import quant
from pyapp.events import Cancel
from pyapp.formats import Checkpoint, open_checkpoint
from pyapp.models import llama
from pyapp.models.load import build, read_model
from pyapp.models.loading.quantised.methods import as_floats
from tests.together import check_each

GOLDEN = Path(__file__).with_name("golden_quantised")
TEXT = [1, 5, 9, 3, 7, 2]
# The type in memory: 16-bit floats where no block type holds the numbers.
TYPES = {
    "nf4": "float16", "nf4_nested": "bfloat16", "fp4": "bfloat16", "int8_rows": "q8_group", "fp8": "bfloat16",
    "fp8_blocks": "bfloat16", "awq": "q5_0", "gptq": "q5_0", "gptq_middle": "q4_0", "gptq_order": "float16",
    "gptq_v2": "q5_0", "gptq_8": "q8_0", "gptq_8_zeros": "float16", "gptq_3": "q4_0", "ct_packed": "q4_0",
    "ct_zeros": "q5_0", "ct_int8": "q8_group", "ct_float8": "bfloat16", "ct_nvfp4": "bfloat16", "ct_mxfp4": "mxfp4",
}  # fmt: skip
LLAMAS = {"nf4_nested": "bfloat16", "fp8_blocks": "bfloat16", "awq": "q5_0"}


def settings_in(checkpoint: Checkpoint) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(checkpoint.metadata["settings"])
    return found


def check_matrix(name: str, kind: str) -> None:
    with open_checkpoint(GOLDEN / f"{name}.safetensors") as checkpoint:
        view = as_floats(checkpoint, settings_in(checkpoint))
        assert sorted(view.tensors) == ["expected", "layer.weight"]
        found, expected = view.read("layer.weight", finite=True), view.read("expected")
        assert found.dtype.name == kind and found.shape == expected.shape
        numbers = quant.dequantize(found).to(expected.dtype)
        if kind == "q8_group":  # the factors are rounded in another order
            np.testing.assert_allclose(numbers.float().numpy(), expected.float().numpy(), rtol=2e-7, atol=0)
        else:
            np.testing.assert_array_equal(numbers.float().numpy(), expected.float().numpy())
        listed = view.tensors["layer.weight"]
        assert len(view.read_bytes("layer.weight")) == 2 * listed.numel and listed.shape == found.shape


def test_matrices_are_those_of_the_libraries() -> None:
    files = sorted(path.stem for path in GOLDEN.glob("*.safetensors") if not path.stem.startswith("llama_"))
    assert files == sorted(TYPES)
    check_each(check_matrix, TYPES.items())


def check_llama(name: str, kind: str) -> None:
    with open_checkpoint(GOLDEN / f"llama_{name}.safetensors") as checkpoint:
        settings, expected = settings_in(checkpoint), json.loads(checkpoint.metadata["logits"])
        model = build(checkpoint, lambda event: None, Cancel(), settings)
        kept = read_model(llama, llama.LlamaForCausalLM, as_floats(checkpoint, settings), settings)
    with pyapp.no_grad():
        found = model(pyapp.tensor([TEXT], dtype="int32")).numpy()[0, -1]
    np.testing.assert_allclose(found, expected, atol=2e-6)
    matrices = [value for key, value in kept.named_parameters() if "_proj" in key]
    assert {value.dtype.name for value in matrices} == {kind}
    assert sum(value.nbytes for value in matrices) <= 2 * sum(value.numel() for value in matrices)


def test_logits_of_llamas_are_those_of_transformers() -> None:
    check_each(check_llama, LLAMAS.items())
