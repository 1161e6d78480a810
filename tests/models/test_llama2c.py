"""llama2.c's architecture against transformers' Llama and llama2.c's own text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import ops
from pyapp.errors import ModelError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_llama2c
from pyapp.formats.convert import quantize_file
from pyapp.formats.source import BytesSource
from pyapp.models.llama2c import Config, Llama2c
from pyapp.models.load import build
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.text.generation.generate import Session

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "data"
GOLDEN = np.load(HERE / "golden_llama.npz")


@pytest.fixture(scope="module")
def model() -> Llama2c:
    checkpoint = open_checkpoint(HERE / "golden_llama.safetensors")
    checkpoint.config = {name: int(value) for name, value in checkpoint.metadata.items() if name != "format"}
    return Llama2c.from_checkpoint(checkpoint)


def feed(session: Session, ids: list[int]) -> np.ndarray:
    return session.feed(ids).numpy().copy()


def test_logits_are_those_of_transformers(model: Llama2c) -> None:
    with pyapp.no_grad():
        logits = model(pyapp.from_numpy(GOLDEN["tokens"]))
    np.testing.assert_allclose(logits.numpy(), GOLDEN["logits"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("eager", [True, False])
def test_cached_steps_give_the_same_logits(model: Llama2c, eager: bool) -> None:
    """A prompt in one pass, then token by token, op by op and replayed."""
    tokens = GOLDEN["tokens"][0].tolist()
    session = Session(model, eager=eager)
    np.testing.assert_allclose(feed(session, tokens[:7]), GOLDEN["logits"][0, 6], atol=1e-4, rtol=1e-4)
    for i in range(7, 20):
        np.testing.assert_allclose(session.step(tokens[i]).numpy(), GOLDEN["logits"][0, i], atol=1e-4, rtol=1e-4)


def greedy(model: Llama2c, ids: list[int], count: int, eager: bool = False) -> list[int]:
    session = Session(model, eager=eager)
    buffers = ops.SampleBuffers(model.config.vocab_size)
    logits = session.feed(ids)
    result = list(ids)
    for _ in range(count):
        result.append(ops.sample(logits, buffers))
        logits = session.step(result[-1])
    return result


def test_greedy_tokens_are_those_of_transformers(model: Llama2c) -> None:
    expected = GOLDEN["greedy"][0].tolist()
    assert greedy(model, expected[:4], 20) == expected == greedy(model, expected[:4], 20, eager=True)


def test_prompt_in_pieces_is_the_prompt(model: Llama2c) -> None:
    ids = GOLDEN["tokens"][1].tolist()
    whole = feed(Session(model), ids)
    session = Session(model)
    for piece in (ids[:1], ids[1:6], ids[6:]):
        logits = feed(session, piece)
    np.testing.assert_allclose(logits, whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("tied", [True, False])
def test_checkpoints_round_trip(model: Llama2c, version: int, tied: bool, tmp_path: Path) -> None:
    tensors = model.export_tensors()
    if tied:
        del tensors["output.weight"]
    path = tmp_path / "model.bin"
    write_llama2c(path, model.config.to_dict(), tensors, version=version, group_size=16)
    again = Llama2c.from_checkpoint(open_checkpoint(path))
    assert again.config.tied == tied and again.config.to_dict() == model.config.to_dict()
    tolerance = 0.02 if version == 2 else 0
    for name, value in again.export_tensors().items():
        np.testing.assert_allclose(value.numpy(), tensors[name].numpy(), atol=tolerance)
    quantize_file(path, tmp_path / "model.gguf", "f32", view=gguf_view(path))
    with open_checkpoint(tmp_path / "model.gguf") as checkpoint:
        as_llama = build(checkpoint, lambda event: None, Cancel())
    assert checkpoint.config["model_type"] == "llama" and ("output.weight" in checkpoint.tensors) != tied
    tokens = pyapp.from_numpy(GOLDEN["tokens"])
    with pyapp.no_grad():
        np.testing.assert_allclose(as_llama(tokens).numpy(), again(tokens).numpy(), atol=2e-5, rtol=1e-4)


def test_int8_model_is_close_and_stays_int8(tmp_path: Path) -> None:
    pyapp.manual_seed(0)
    config = Config(64, 96, 2, 4, 2, 128, 32)
    source = Llama2c(config)
    path = tmp_path / "model.bin"
    write_llama2c(path, config.to_dict(), source.export_tensors(), version=2, group_size=32)
    model = Llama2c.from_checkpoint(open_checkpoint(path))
    assert {p.dtype.name for p in model.parameters()} == {"q8_group", "float32"}
    exact, found = (feed(Session(m), [1, 5, 9, 100]) for m in (source, model))
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
    assert greedy(model, [1], 20) == greedy(model, [1], 20, eager=True)


def changed(path: Path, name: str, value: float) -> Any:
    checkpoint = open_checkpoint(path)
    tensors = {n: checkpoint.read(n) for n in checkpoint.tensors}
    tensors[name].reshape(-1)[3] = value
    return tensors


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_damaged_weights_are_named(tmp_path: Path, value: float) -> None:
    path, config = tmp_path / "model.bin", Config(32, 32, 1, 4, 2, 64, 16)
    write_llama2c(path, config.to_dict(), Llama2c(config).export_tensors(), version=1)
    write_llama2c(path, config.to_dict(), changed(path, "layers.0.feed_forward.w2.weight", value), version=1)
    with pytest.raises(ModelError, match=r"layers\.0\.feed_forward\.w2\.weight"):
        Llama2c.from_checkpoint(open_checkpoint(path))


def test_wrong_configurations() -> None:
    with pytest.raises(ModelError, match="do not fit together"):
        Config(30, 32, 1, 4, 2, 64, 16)
    model = Llama2c(Config(32, 32, 1, 4, 2, 64, 16))
    with pytest.raises(ValueError, match="at most 16"):
        model(pyapp.zeros(1, 17, dtype="int64"))
    with pytest.raises(IndexError):
        model(pyapp.full((1, 2), 64))


def test_missing_tensor_is_named(model: Llama2c) -> None:
    checkpoint = open_checkpoint(HERE / "golden_llama.safetensors")
    checkpoint.config = model.config.to_dict()
    del checkpoint.tensors["layers.1.attention.wk.weight"]
    with pytest.raises(ModelError, match=r"layers\.1\.attention\.wk\.weight"):
        Llama2c.from_checkpoint(checkpoint)


def test_training_and_inference_are_one_file() -> None:
    """A few steps on one sequence, after which the cached path predicts it."""
    pyapp.manual_seed(0)
    model = Llama2c(Config(32, 64, 2, 4, 2, 16, 16))
    ids = [1, 7, 3, 9, 2, 15, 4, 8]
    for _ in range(80):
        model.zero_grad()
        loss = ops.cross_entropy(model(pyapp.tensor([ids[:-1]])), pyapp.tensor([ids[1:]]))
        loss.backward()
        with pyapp.no_grad():
            for p in model.parameters():
                p.sub_(p.grad * 0.5)
    assert loss.item() < 0.2
    assert greedy(model, ids[:1], 7) == ids


@pytest.mark.skipif(not (SHARED / "stories260K.bin").exists(), reason="the real checkpoint is not here")
@pytest.mark.parametrize("eager", [True, False])
def test_real_checkpoint_writes_llama2cs_story(eager: bool) -> None:
    from pyapp.formats import read_tokenizer_bin
    from pyapp.text.tokenization.tokenizer import Tokenizer

    model = Llama2c.from_checkpoint(open_checkpoint(SHARED / "stories260K.bin"))
    table = read_tokenizer_bin(SHARED / "tok512.bin")
    tokenizer = Tokenizer.from_llama2c(table.pieces, table.scores)
    expected = (SHARED / "stories260K.txt").read_text()
    assert tokenizer.decode(greedy(model, [1], 256, eager)).startswith(expected.rstrip("\n"))


@pytest.mark.native_only
def test_generation_needs_no_numpy(tmp_path: Path) -> None:
    path, config = tmp_path / "model.bin", Config(32, 64, 1, 4, 2, 64, 16)
    write_llama2c(path, config.to_dict(), Llama2c(config).export_tensors(), version=2, group_size=32)
    code = f"""
import sys
from pyapp import ops
from pyapp.formats import open_checkpoint
from pyapp.models.llama2c import Llama2c
from pyapp.text.generation.generate import Session
session = Session(Llama2c.from_checkpoint(open_checkpoint({str(path)!r})))
logits, buffers = session.feed([1, 2, 3]), ops.SampleBuffers(64)
for _ in range(5):
    logits = session.step(ops.sample(logits, buffers, 0.3, temperature=1.0, top_p=0.9))
print("numpy" in sys.modules)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "False"


def test_a_checkpoint_in_memory_is_read_too(model: Llama2c) -> None:
    data = (HERE / "golden_llama.safetensors").read_bytes()
    checkpoint = open_checkpoint(BytesSource(data))
    checkpoint.config = model.config.to_dict()
    assert Llama2c.from_checkpoint(checkpoint).config == model.config
