"""`pyapp quantize IN OUT --type T` end to end: the file equals that of llama.cpp, other tools
read it as pyapp does, and it speaks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pyapp import tasks
from pyapp.engine import no_grad, ops, quant
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.engine.blocks.writing import QUANTIZABLE
from pyapp.formats import TensorInfo, open_checkpoint, write_safetensors
from pyapp.formats.convert import OF_ACTIVATIONS, quantize_file
from pyapp.models import load_model
from pyapp.models.loading.writing_gguf import llama_name
from pyapp.text.generation.generate import Session
from tests.formats.test_ggml_quantizers import KINDS, MARGIN, error, numbers_to_quantize
from tests.text.small_model import write_model
from tests.together import fewer_in_browser

np = pytest.importorskip("numpy")
GOLDEN = Path(__file__).parent / "golden" / "quantized_files.json"
# Rows are whole blocks of every type; wide enough that heads and blocks do not fall together.
SHAPE = {"dim": 256, "hidden_dim": 512, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "max_seq_len": 64}
NAMES = {"F16": "float16", "BF16": "bfloat16", "MXFP4": "mxfp4"}
GROWTH = 8  # of the weights' relative error on its way through this model to the logits


def is_matrix(info: TensorInfo) -> bool:
    return len(info.shape) == 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), **SHAPE)


def quantized(model: Path, folder: Path, kind: str) -> Path:
    """The events of the command's task; the last one describes the file."""
    target = folder / f"{kind}.gguf"

    async def run() -> list[Any]:
        return [event async for event in tasks.quantize(model, target, kind)]

    events = asyncio.run(run())
    assert events[-1].type == "done", events[-1]
    return target


@pytest.mark.parametrize("kind", json.loads(GOLDEN.read_text()) if GOLDEN.exists() else [])
def test_a_file_holds_the_bytes_of_the_gguf_package(model: Path, tmp_path: Path, kind: str) -> None:
    path = quantized(model, tmp_path, kind.lower())
    expected = json.loads(GOLDEN.read_text())[kind]
    with open_checkpoint(path) as file, open_checkpoint(model) as original:
        matrices = {name for name, info in original.tensors.items() if is_matrix(info)}
        assert set(file.tensors) == set(map(llama_name, original.tensors)) and set(expected) == matrices
        for name, info in original.tensors.items():
            written = file.tensors[llama_name(name)]
            data = bytes(file.read_bytes(written.name))
            if name in matrices:
                assert written.dtype == NAMES.get(kind, kind.lower())
                assert hashlib.sha256(data).hexdigest() == expected[name], name
            else:
                assert data == bytes(original.read_bytes(name)) and written.dtype == info.dtype


@pytest.mark.parametrize("kind", KINDS)
def test_files_lose_as_little_as_llama_cpps(golden: Path, tmp_path: Path, kind: str) -> None:
    theirs = json.loads((golden / "quantizers.json").read_text())
    matrices = {name: x for name, (x, _) in numbers_to_quantize().items()}
    names = {name: f"blk.{number}.weight" for number, name in enumerate(matrices)}
    write_safetensors(tmp_path / "in.safetensors", {names[name]: x for name, x in matrices.items()})
    quantize_file(tmp_path / "in.safetensors", tmp_path / "out.gguf", kind)
    with open_checkpoint(tmp_path / "out.gguf") as file:
        for name, x in matrices.items():
            back = dequantize_blocks(file.read_bytes(names[name]), kind)
            assert file.tensors[names[name]].dtype == kind
            assert error(x, back, None) <= MARGIN * theirs[name][kind][0]


def logits(path: Path, tokenizer: Path) -> Any:
    """Of each next token (16, V), and the words that the model says by itself."""
    loaded = load_model(path, tokenizer=tokenizer)
    with no_grad():
        rows = loaded.model(ops.tensor([[1, *range(20, 35)]]))[0].numpy()
    session = Session(loaded.model)
    token, said = int(session.feed([1, 20, 21]).numpy().argmax()), []
    for _ in range(12):
        said.append(token)
        token = int(session.step(token).numpy().argmax())
    return rows, said


@pytest.fixture(scope="module")
def spoken(model: Path) -> tuple[Any, list[int]]:
    return logits(model, model.with_name("tokenizer.bin"))


@pytest.mark.parametrize(
    "kind", ["f16", *fewer_in_browser([*(kind for kind in QUANTIZABLE if kind not in OF_ACTIVATIONS), "bf16"])]
)
def test_a_quantized_model_speaks_almost_as_before(
    model: Path, spoken: tuple[Any, list[int]], tmp_path: Path, kind: str
) -> None:
    path = quantized(model, tmp_path, kind)
    before, said = spoken
    after, says = logits(path, model.with_name("tokenizer.bin"))
    with open_checkpoint(model) as original, open_checkpoint(path) as file:
        name = "layers.0.feed_forward.w1.weight"
        tensors = original.read(name), file.read(llama_name(name))
        exact, stored = (quant.dequantize(x).numpy().astype(np.float32) for x in tensors)
    assert 0 < relative(after, before) < GROWTH * relative(stored, exact)
    assert len(says) == len(said) and (kind != "f16" or says == said)


def relative(found: Any, exact: Any) -> float:
    """Root mean square of the difference, as a share of the deviation."""
    return float(np.sqrt(np.square(found - exact).mean()) / exact.std())


@pytest.mark.native_only
@pytest.mark.parametrize("kind", fewer_in_browser(["q4_0", "q5_1", "q8_0", "q2_K", "q4_K", "q6_K", "iq4_xs", "mxfp4"]))
def test_the_gguf_package_reads_what_the_command_writes(model: Path, tmp_path: Path, kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    cli = pytest.importorskip("pyapp.cli")
    path = tmp_path / "out.gguf"
    assert cli.run(["quantize", str(model), str(path), "--type", kind]) == 0
    assert path.read_bytes() == quantized(model, tmp_path, kind).read_bytes()
    reader = gguf.GGUFReader(path)
    with open_checkpoint(path) as file:
        assert {entry.name for entry in reader.tensors} == set(file.tensors)
        for entry in reader.tensors:
            values = gguf.quants.dequantize(entry.data, entry.tensor_type)
            if len(file.tensors[entry.name].shape) == 2:
                assert entry.tensor_type.name.lower() == kind.lower()
            ours = quant.dequantize(file.read(entry.name)).numpy()
            np.testing.assert_array_equal(ours, values.reshape(ours.shape))
