"""Weights that other libraries quantised, against these libraries (make_golden_quantised.py)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import optim, tasks
from pyapp.adapters import LoraConfig, add_adapter
from pyapp.engine import quant
from pyapp.errors import ModelError
from pyapp.events import Cancel, Notice
from pyapp.formats import Checkpoint, open_checkpoint, write_safetensors
from pyapp.formats.tensor_slices import read_part
from pyapp.models import llama, load, mixtral
from pyapp.models.load import build, read_model
from pyapp.models.loading.quantised import numbers
from pyapp.models.loading.quantised.methods import as_floats, described
from pyapp.nn import functional
from tests.models.test_experts import make, stacks
from tests.together import check_each

GOLDEN = Path(__file__).with_name("golden_quantised")
TEXT = [1, 5, 9, 3, 7, 2]
# The type in memory: 16-bit floats where no block type holds the numbers.
TYPES = {
    "nf4": "float16", "nf4_nested": "bfloat16", "fp4": "bfloat16", "int8_rows": "q8_group", "fp8": "bfloat16",
    "fp8_blocks": "bfloat16", "awq": "q5_0", "gptq": "q5_0", "gptq_middle": "q4_0", "gptq_order": "float16",
    "gptq_v2": "q5_0", "gptq_8": "q8_0", "gptq_8_zeros": "float16", "gptq_3": "q4_0", "ct_packed": "q4_0",
    "ct_zeros": "q5_0", "ct_int8": "q8_group", "ct_float8": "bfloat16", "ct_nvfp4": "bfloat16", "ct_mxfp4": "mxfp4",
    "modelopt": "bfloat16", "hqq": "float16", "hqq_3": "bfloat16", "fp8_powers": "bfloat16", "fp8_pairs": "mxfp4",
}  # fmt: skip
LLAMAS = {"nf4_nested": "bfloat16", "awq": "q5_0"}


def settings_in(checkpoint: Checkpoint) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(checkpoint.metadata["settings"])
    return found


def check_matrix(name: str, kind: str) -> None:
    with open_checkpoint(GOLDEN / f"{name}.safetensors") as checkpoint:
        view = as_floats(checkpoint, settings_in(checkpoint))
        assert sorted(view.tensors) == ["expected", "layer.weight"]
        found, expected = view.read("layer.weight", finite=True), view.read("expected")
        assert found.dtype.name == kind and found.shape == expected.shape
        values = quant.dequantize(found).to(expected.dtype)
        if kind == "q8_group":  # the factors are rounded in another order
            np.testing.assert_allclose(values.float().numpy(), expected.float().numpy(), rtol=2e-7, atol=0)
        else:
            np.testing.assert_array_equal(values.float().numpy(), expected.float().numpy())
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


def view_of(tensors: dict[str, Any], given: dict[str, Any], path: Path) -> Checkpoint:
    """A view of a file with these tensors."""
    write_safetensors(path, tensors)
    return as_floats(open_checkpoint(path), {"quantization_config": given})


@pytest.mark.parametrize("apart", [True, False])
def test_experts(apart: bool, tmp_path: Path) -> None:
    """Each by itself in 8 bits, which stay in blocks, and in stacks of FP8."""
    model = make()
    tensors = {name: value.detach() for name, value in model.named_parameters()}
    random = np.random.default_rng(0)
    for name in [name for name in tensors if ".experts." in name]:
        experts, rows, columns = tensors[name].shape
        if apart:
            whole = random.integers(-128, 128, (experts, rows, columns), dtype=np.int8)
            scales = (random.integers(1, 9, (experts, rows, 1)) / 8192).astype(np.float32)
            parts = {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)}[name.rpartition(".")[2]]
            del tensors[name]
            place, height = name.replace("mlp.", "block_sparse_moe.").rpartition(".")[0], rows // len(parts)
            for e in range(experts):
                for i, part in enumerate(parts):
                    chosen = slice(i * height, (i + 1) * height)
                    tensors[f"{place}.{e}.{part}.weight"] = pyapp.from_numpy(whole[e, chosen].copy())
                    tensors[f"{place}.{e}.{part}.weight_scale"] = pyapp.from_numpy(scales[e, chosen].copy())
            values = whole * scales
        else:
            drawn = pyapp.from_numpy(random.normal(size=(experts, rows, columns)).astype(np.float32))
            tensors[name] = drawn.to("float8_e4m3fn")
            scales = random.uniform(0.05, 0.2, (experts, rows // 16, columns // 32)).astype(np.float32)
            tensors[f"{name}_scale_inv"] = pyapp.from_numpy(scales)
            grown = scales.repeat(16, 1).repeat(32, 2)
            values = pyapp.from_numpy(tensors[name].float().numpy() * grown).bfloat16().float().numpy()
        with pyapp.no_grad():
            model.get_parameter(name).copy_(pyapp.from_numpy(values))
    config = model.config.to_dict() | {"model_type": "mixtral"}
    given = {"quant_method": "compressed-tensors"} if apart else {"quant_method": "fp8", "weight_block_size": [16, 32]}
    view = view_of(tensors, given, tmp_path / "model.safetensors")
    kept = read_model(mixtral, mixtral.MixtralForCausalLM, view, config)
    assert set(stacks(kept).values()) == {"q8_0" if apart else "bfloat16"}
    for name, value in kept.named_parameters():
        if ".experts." in name:
            expected = model.get_parameter(name)
            dense = quant.dequantize(value).float().reshape(expected.shape)
            np.testing.assert_array_equal(dense.numpy(), expected.numpy())
    view.close()


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    with open_checkpoint(GOLDEN / "gptq.safetensors") as checkpoint:
        tensors = {name: checkpoint.read(name) for name in checkpoint.tensors}
        given = settings_in(checkpoint)["quantization_config"]
    scales, order = tensors["layer.scales"], tensors["layer.g_idx"]

    def check(told: str, change: dict[str, Any]) -> None:
        own = {name: value for name, value in (tensors | change).items() if value is not None}
        with pytest.raises(ModelError, match=told):
            view_of(own, given, tmp_path / "model.safetensors").read("layer.weight", finite=True)

    check_each(check, [
        ("'layer.qweight'.* come without 'layer.scales'", {"layer.scales": None}),
        (r"'layer.scales' .float16 \[1, 16\].* are not .G, 16.|'layer.qzeros'.* are not int32 \[1, 2\]",
         {"layer.scales": scales[:1].contiguous()}),
        ("'layer.g_idx'.* are not int32 or int64 .64.", {"layer.g_idx": order[:8].contiguous()}),
        ("'layer.g_idx'.* name no groups of 0 … 1", {"layer.g_idx": order + 1}),
        ("'layer.scales' are damaged: element 0 is NaN", {"layer.scales": scales * float("nan")}),
    ])  # fmt: skip


def test_rows_in_pieces_and_of_odd_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of FP8 that are cut at the edges, and places of 4 bits that begin within a byte."""
    monkeypatch.setattr(numbers, "PIECE", 300)
    random = np.random.default_rng(0)
    data = pyapp.from_numpy(random.normal(size=(40, 23)).astype(np.float32)).to("float8_e4m3fn")
    scales = random.uniform(1, 2, (3, 2)).astype(np.float32)
    given = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    tensors = {"a.weight": data, "a.weight_scale_inv": pyapp.from_numpy(scales)}
    view = view_of(tensors, given, tmp_path / "fp8.safetensors")
    expected = data.float().numpy() * scales.repeat(16, 0)[:40].repeat(16, 1)[:, :23]
    np.testing.assert_array_equal(view.read("a.weight").float().numpy(), pyapp.tensor(expected).bfloat16().float())
    view.close()
    packed = random.integers(0, 256, 460, dtype=np.uint8)
    table, largest = np.linspace(-1, 1, 16, dtype=np.float32), random.uniform(1, 2, 15).astype(np.float32)
    state = json.dumps({"blocksize": 64, "shape": [40, 23], "dtype": "float16"}).encode()
    tensors = {
        "a.weight": packed[:, None], "a.weight.quant_map": table, "a.weight.absmax": largest,
        "a.weight.quant_state.bitsandbytes__nf4": np.frombuffer(state, np.uint8),
    }  # fmt: skip
    view = view_of(tensors, {"load_in_4bit": True}, tmp_path / "nf4.safetensors")
    places = np.stack([packed >> 4, packed & 15], 1).reshape(-1)
    expected = (table[places] * largest.repeat(64)[:920]).reshape(40, 23).astype(np.float16)
    np.testing.assert_array_equal(view.read("a.weight").numpy(), expected)
    np.testing.assert_array_equal(read_part(view, "a.weight", [(3, 2), (30, 1)], (2, 5)).numpy(),
                                  expected[[3, 4, 30], 2:7])  # fmt: skip
    view.close()


@pytest.mark.parametrize("name", LLAMAS)
def test_adapters_train_over_quantised_weights(name: str) -> None:
    with open_checkpoint(GOLDEN / f"llama_{name}.safetensors") as checkpoint:
        settings = settings_in(checkpoint)
        model = read_model(llama, llama.LlamaForCausalLM, as_floats(checkpoint, settings), settings)
    model.requires_grad_(False)
    pyapp.manual_seed(1)
    add_adapter(model, LoraConfig(r=4, lora_alpha=8))
    optimizer = optim.AdamW([value for value in model.parameters() if value.requires_grad], lr=0.01)
    ids, losses = pyapp.tensor([TEXT], dtype="int64"), []
    for _ in range(8):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_configurations_in_words() -> None:
    for path in GOLDEN.glob("gptq*.safetensors"):
        with open_checkpoint(path) as checkpoint:
            found = described(settings_in(checkpoint))
        assert found.startswith("gptq, ") and ("activations" in found) == ("order" in path.stem)
    assert described({"quantization_config": {"quant_method": "quanto"}}) == "quanto"
    assert described({}) == ""
    assert described({"text_config": {"quantization_config": {"load_in_8bit": True}}}) == "bitsandbytes, 8 bits"


@pytest.mark.parametrize("end", ["gguf", "safetensors"])
def test_a_folder_is_converted(end: str, tmp_path: Path) -> None:
    with open_checkpoint(GOLDEN / "llama_awq.safetensors") as checkpoint:
        settings, expected = settings_in(checkpoint), json.loads(checkpoint.metadata["logits"])
        write_safetensors(tmp_path / "model.safetensors", {name: checkpoint.read(name) for name in checkpoint.tensors})
    (tmp_path / "config.json").write_text(json.dumps(settings))
    target = tmp_path / f"new.{end}"
    events = asyncio.run(gathered(tasks.quantize(tmp_path, target, "float32")))
    assert events[-1].results["types"] == {"float32": 12}
    with open_checkpoint(target) as checkpoint:
        assert "quantization_config" not in checkpoint.config
        model = build(checkpoint, lambda event: None, Cancel())
    with pyapp.no_grad():
        found = model(pyapp.tensor([TEXT], dtype="int32")).numpy()[0, -1]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_models_that_grow_in_memory_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "EXACT_TEXT_BYTES", 0)
    for name, dtype, told in (("nf4_nested", None, 1), ("nf4_nested", "q4_0", 0), ("awq", None, 0)):
        events: list[Any] = []
        with open_checkpoint(GOLDEN / f"llama_{name}.safetensors") as checkpoint:
            build(checkpoint, events.append, Cancel(), settings_in(checkpoint), dtype)
        found = [event.hint for event in events if isinstance(event, Notice)]
        assert len(found) == told and all("--type q8_0" in str(hint) for hint in found), (name, dtype, found)


async def gathered(events: Any) -> list[Any]:
    return [event async for event in events]


def test_inspect_names_the_method(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"a.qweight": pyapp.zeros(8, 2, dtype="int32")})
    given = {"quant_method": "awq", "group_size": 64}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": given}))
    done = asyncio.run(gathered(tasks.inspect(tmp_path)))[-1]
    assert done.results["quantization"] == "awq, 4 bits, groups of 64"
