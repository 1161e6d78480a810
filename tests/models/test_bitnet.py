"""BitNet's packed matrices, against transformers (make_golden_bitnet.py)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import Tensor, quant
from pyapp.errors import ModelError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.models.bitnet import Config
from pyapp.models.load import build, module_of
from pyapp.models.loading.quantised.methods import as_floats
from pyapp.models.loading.writing_gguf import gguf_view
from tests.formats.gguf_builder import Builder
from tests.models.decoder_configs import CONFIGS
from tests.models.test_decoders import CLOSE, TEXT, make, numbers

GOLDEN: dict[str, list[float]] = json.loads(Path(__file__).with_name("golden_bitnet.json").read_text())
FORMS = {"factor": ("autobitlinear", "offline"), "inverse": ("bitlinear", "offline"),
         "rounded": ("autobitlinear", "online")}  # fmt: skip
FACTOR = 0.125


def packed(matrix: np.ndarray) -> np.ndarray:
    """(R, C) of -1, 0 and 1 → (R / 4, C) uint8."""
    parts = (matrix + 1).astype(np.uint8).reshape(4, -1, matrix.shape[1])
    return parts[0] | parts[1] << 2 | parts[2] << 4 | parts[3] << 6


@pytest.mark.parametrize("form", FORMS)
def test_published_files(form: str, tmp_path: Path) -> None:
    tensors: dict[str, Any] = dict(make("bitnet", 0).state_dict())
    for name in [name for name in tensors if "_proj." in name and form != "rounded"]:
        weight = tensors[name].detach().numpy()
        matrix = np.clip(np.round(weight / np.abs(weight).mean()), -1, 1)
        tensors[name] = pyapp.from_numpy(packed(matrix))
        tensors[f"{name}_scale"] = pyapp.tensor([FACTOR if form == "factor" else 1 / FACTOR])
    write_safetensors(tmp_path / "model.safetensors", tensors)
    kind, mode = FORMS[form]
    own = {"quant_method": "bitnet", "linear_class": kind, "quantization_mode": mode}
    settings = CONFIGS["bitnet"] | {"quantization_config": own}
    assert module_of(settings, "x") == "bitnet"
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        model = build(checkpoint, lambda event: None, Cancel(), settings)
    with pyapp.no_grad():
        found = numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0, [0, -1]]
    np.testing.assert_allclose(found.reshape(-1), GOLDEN[form], **CLOSE)


def test_gguf_files_of_bitnet_cpp(tmp_path: Path) -> None:
    """A file of llama.cpp's in which matrices are replaced by those of bitnet.cpp's type."""
    sizes = {"hidden_size": 256, "intermediate_size": 128, "num_hidden_layers": 1}
    model, random = make("bitnet", 0, **sizes), np.random.default_rng(0)
    with pyapp.no_grad():
        for name, value in model.named_parameters():
            if "_proj." in name:
                value.copy_(pyapp.from_numpy(random.integers(-1, 2, value.shape).astype(np.float32) * FACTOR))
    write_safetensors(tmp_path / "model.safetensors", dict(model.state_dict()))
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["bitnet"] | sizes))
    path = tmp_path / "model.gguf"
    quantize_file(tmp_path / "model.safetensors", path, "f32", view=gguf_view(tmp_path / "model.safetensors"))
    data, builder = bytearray(path.read_bytes()), Builder()
    with open_checkpoint(path) as checkpoint:
        for name, info in checkpoint.tensors.items():
            if re.search("attn_[qkvo]|ffn_(up|gate|down)\\.", name) and "norm" not in name:
                begin = checkpoint._begins[name][0]  # type: ignore[attr-defined]
                old, new = (builder.entry(name, info.shape, code, begin) for code in (0, 36))
                data[:] = data.replace(old, new)
                codes = (checkpoint.read(name).numpy() / FACTOR + 1).astype(np.uint8).reshape(-1, 4, 32)
                packed = codes[:, 0] << 6 | codes[:, 1] << 4 | codes[:, 2] << 2 | codes[:, 3]
                own = packed.tobytes() + np.float32(FACTOR).tobytes()
                start = checkpoint._start + begin  # type: ignore[attr-defined]
                data[start : start + len(own)] = own
    (tmp_path / "new.gguf").write_bytes(data)
    with open_checkpoint(tmp_path / "new.gguf") as checkpoint:
        kinds = [info.dtype for info in checkpoint.tensors.values()]
        found = build(checkpoint, lambda event: None, Cancel())
        view = as_floats(checkpoint, {})
        types = {view.read(name).dtype.name for name, info in view.tensors.items() if info.dtype == "float16"}
    assert kinds.count("ggml_type_36") == 7 and types == {"q2_K", "q4_0"}
    ids = pyapp.tensor([TEXT], dtype="int32")
    with pyapp.no_grad():
        np.testing.assert_array_equal(numbers(found(ids)), numbers(model(ids)))


def test_rows_of_whole_blocks_stay_in_blocks(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).integers(-1, 2, (16, 512))
    settings = {"quantization_config": {"quant_method": "bitnet", "linear_class": "autobitlinear"}}

    def read(data: np.ndarray) -> Tensor:
        write_safetensors(tmp_path / "m.safetensors", {"a.weight": data, "a.weight_scale": np.float32([1.21875])})
        with open_checkpoint(tmp_path / "m.safetensors") as checkpoint:
            return as_floats(checkpoint, settings).read("a.weight")

    found = read(packed(matrix))
    assert found.dtype.name == "q2_K" and found.shape == (16, 512)
    np.testing.assert_array_equal(quant.dequantize(found).numpy(), matrix * 1.21875)
    with pytest.raises(ModelError, match="'a.weight' has numbers other than -1, 0 and 1"):
        read(np.full((4, 256), 0xFF, np.uint8))
    with pytest.raises(ModelError, match="linear_class"):
        Config.from_dict(CONFIGS["bitnet"] | {"quantization_config": {"linear_class": "x"}})
