"""Models on the CUDA device, on the emulator: the numbers that they give on the CPU, nearly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, optim
from pyapp.engine import capture
from pyapp.formats import open_checkpoint
from pyapp.formats.convert import quantize_file
from pyapp.models import load_model
from pyapp.models.llama2c import Config, Llama2c
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.models.whisper import Whisper
from pyapp.nn import functional as F
from pyapp.nn import quantize
from pyapp.serve.scheduler import Scheduler
from pyapp.text.generation.generate import Session
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.generation.session import cache_dtype, prompt_pass
from pyapp.vision.processors import ImageProcessor
from tests.models.codec_configs import sound
from tests.models.test_codecs import make as make_codec
from tests.models.test_gguf_models import saved
from tests.models.test_voices import batch as voice_batch
from tests.models.test_voices import drawn as voice_noise
from tests.models.test_voices import make as make_voice
from tests.models.test_whisper import make
from tests.models.whisper_model import CONFIGS, inputs
from tests.serve.test_scheduler import PROMPTS, Client, run
from tests.text.chat_model import write_chat_model
from tests.vision.processor_cases import CASES, pictures

from . import emulated

pytestmark = pytest.mark.native_only
DEVICE = emulated.DEVICE
TEXT = [3, 7, 1, 40]
CLASSES = 40


def llama() -> Llama2c:
    pyapp.manual_seed(0)
    return Llama2c(Config(dim=64, hidden_dim=96, n_layers=2, n_heads=8, n_kv_heads=4, vocab_size=80, max_seq_len=32))


def story(model: Llama2c) -> tuple[list[np.ndarray], list[int]]:
    """Logits and drawn tokens, by Graph, with every sampling setting."""
    session = Session(model, cache_type="f32")
    options = SamplingOptions(seed=1, top_k=20, top_p=0.9, min_p=0.01, typical_p=0.9, repetition_penalty=1.2)
    sampler = Sampler(options, 80, 40, session.device)
    logits, found, tokens = session.feed(TEXT), [], []
    sampler.accept(TEXT)
    for _ in range(6):
        token = sampler.sample(logits)
        sampler.accept([token])
        found.append(np.array(logits.read_values()))
        tokens.append(token)
        logits = session.step(token)
    return found, tokens


def test_a_model_is_made_where_new_tensors_are() -> None:
    """Its table of angles, too."""
    expected = Session(llama(), cache_type="f32").feed(TEXT).numpy()
    pyapp.set_default_device(DEVICE)
    try:
        model = llama()
        tokens = pyapp.tensor([TEXT])
        logits = model(tokens)
    finally:
        pyapp.set_default_device(None)
    assert {each.device for each in (logits, model.table, *model.parameters())} == {pyapp.device(DEVICE)}
    np.testing.assert_allclose(logits[0, -1].detach().cpu().numpy(), expected, rtol=1e-3, atol=1e-4)


def test_a_sampler_of_another_device_is_refused() -> None:
    """Its kernel would write where the other device cannot."""
    logits = pyapp.zeros(80).to(DEVICE)
    with pytest.raises(ValueError, match="the logits are on .*the buffers on cpu"):
        Sampler(SamplingOptions(), 80, 4).sample(logits)


def test_pictures_are_prepared_where_they_lie() -> None:
    """On the CPU too, where new tensors are made on a card."""
    kind, settings = CASES["vit"]
    made = ImageProcessor.from_settings({"image_processor_type": f"{kind}ImageProcessor", **settings})
    picture = pyapp.from_numpy(pictures("vit")[0])
    expected = made([picture]).pixel_values.numpy()
    pyapp.set_default_device(DEVICE)
    try:
        found = made([picture]).pixel_values
    finally:
        pyapp.set_default_device(None)
    assert found.device == picture.device
    np.testing.assert_array_equal(found.numpy(), expected)


def test_files_are_converted_where_new_tensors_are_made_on_a_card(tmp_path: Path) -> None:
    """Llama 3's rotary factors, which no file of its weights has, are written too."""
    path, target = saved("llama3", tmp_path)[1], tmp_path / "model.gguf"
    pyapp.set_default_device(DEVICE)
    try:
        quantize_file(path, target, "f32", view=gguf_view(path))
    finally:
        pyapp.set_default_device(None)
    with open_checkpoint(target) as checkpoint:
        assert np.isfinite(checkpoint.read("rope_freqs.weight").numpy()).all()


@pytest.mark.parametrize(
    "kind, dtype",
    [("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"), ("q8_0", "float16")],
)
def test_the_default_cache_has_the_weights_type(kind: str, dtype: str) -> None:
    model = llama()
    assert cache_dtype(model, "auto") == "float32" and prompt_pass(model.device) == 128
    if kind == "q8_0":
        quantize(model, "q8_0")
    else:
        model.to(kind)
    assert cache_dtype(model, "auto") == "float32"  # on the CPU
    model.to(DEVICE)
    assert cache_dtype(model, "auto") == dtype and cache_dtype(model, "f32") == "float32"
    assert prompt_pass(model.device) == 512
    session = Session(model)
    assert session.cache.layers[0].keys.dtype.name == dtype
    assert [len(part) for part in session.passes(range(1100))] == [512, 512, 76]


@pytest.mark.parametrize("kind, cache_type", [("float32", "f32"), ("bfloat16", "f16"), ("float16", "q8_0")])
def test_served_texts_are_the_same_alone_and_in_company(kind: str, cache_type: str, tmp_path: Path) -> None:
    """Prompts are read from a cache in blocks, a piece at a time, and by tensor cores where it has 16 bits."""
    write_chat_model(tmp_path / "model", dim=32)
    loaded = load_model(tmp_path / "model")
    loaded.model.to(kind)
    loaded.model.to(DEVICE)
    settings: dict[str, Any] = {"context": 400, "cache_type": cache_type}
    alone, prompts = [], PROMPTS[:4]
    for prompt in prompts:
        client = Client(loaded, prompt, max_new_tokens=3)
        run(Scheduler(loaded.model, loaded.tokenizer, rows=1, **settings), client)
        alone.append(client.scored)
    clients = [Client(loaded, prompt, max_new_tokens=3) for prompt in prompts]
    run(Scheduler(loaded.model, loaded.tokenizer, rows=4, **settings), *clients)
    assert [client.scored for client in clients] == alone
    emulated.check()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_16_bits_take_one_launch(dtype: str) -> None:
    norm, x = nn.RMSNorm(64), pyapp.from_numpy(np.random.default_rng(1).standard_normal((3, 64), np.float32))
    norm.weight.data.copy_(pyapp.arange(64) / 7 - 3)
    with pyapp.no_grad():
        expected = norm.to(dtype)(x).numpy()
        norm.to(DEVICE)
        there = x.to(DEVICE)
        backend: Any = there.device.backend
        count = 0 if emulated.REAL else len(backend.card.launched)
        y = norm(there)
        assert emulated.REAL or backend.card.launched[count:] == ["rms_norm_typed"]
    assert y.dtype is pyapp.float32
    np.testing.assert_allclose(y.cpu().numpy(), expected, rtol=1e-5, atol=1e-6)
    emulated.check()


@pytest.mark.parametrize("tokens", [1, 20])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_over_blocks_has_few_launches(dtype: str, tokens: int) -> None:
    """Two texts in blocks: the numbers of the CPU, where a cache in bfloat16 is read op by op."""
    rng = np.random.default_rng(1)
    qkv = rng.standard_normal((2, tokens, (4 + 2 * 2) * 16), np.float32)
    table, angles = np.array([[3, 1], [0, 2]], np.int32), rng.standard_normal((64, 8, 2), np.float32)
    found = []
    for device in ("cpu", DEVICE):
        cache = [pyapp.zeros(4, 2, 32, 16, dtype=dtype, device=device) for _ in range(2)]
        arguments = [pyapp.from_numpy(x).to(device) for x in (angles, np.array([5, 11], np.int32))]
        own, blocks = pyapp.from_numpy(qkv.copy()).to(device), pyapp.from_numpy(table).to(device)
        backend: Any = own.device.backend
        before = [] if device == "cpu" or emulated.REAL else list(backend.card.launched)
        y = pyapp.ops.cached_self_attention(own, *arguments, *cache, block_table=blocks)
        if device != "cpu" and not emulated.REAL:
            assert len(backend.card.launched) - len(before) == 2
        found.append([x.cpu().float().numpy() for x in (y, *cache)])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, atol=0.02 if dtype == "bfloat16" else 1e-5)
    emulated.check()


@pytest.mark.parametrize("kind", [None, "q8_0", "q4_0", "q5_1", "float16", "bfloat16"])
def test_llama2c_decodes_by_graph(kind: str | None) -> None:
    model = llama()
    if kind in ("float16", "bfloat16"):
        model.to(kind)
    elif kind is not None:
        model.requires_grad_(False)
        quantize(model, kind)
    expected, tokens = story(model)
    model.to(DEVICE)
    found, drawn = story(model)
    emulated.check()
    assert str(model.device) == DEVICE and drawn == tokens
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3)


def heard(model: Whisper, mel: Tensor, eager: bool) -> list[np.ndarray]:
    """Audio, and logits of a beam whose rows are reordered."""
    with pyapp.no_grad():
        audio = model.encode(mel)
    with model.new_session(audio, 3, eager=eager) as session:
        found = [session.feed([3, 7, 1]), session.step([4, 5, 6]).copy()]
        session.reorder([1, 2, 1])
        found += [session.step([9, 8, 7]).copy(), session.step([1, 2, 3])]
    return [audio.to("cpu").float().numpy(), *found]


@pytest.mark.parametrize("dtype", [None, "float16", "q8_0"])
def test_whisper_encodes_and_decodes(dtype: str | None) -> None:
    model = make(CONFIGS["small"], dtype)
    mel = pyapp.from_numpy(inputs(model.config)[0][:1])
    expected = heard(model, mel, False)
    model.to(DEVICE)
    # int8 activations are rounded at other places; convolutions and the encoder's attention have the weights' 16 bits
    bound = {"q8_0": 0.03, "float16": 3e-3}.get(dtype or "", 1e-3)
    for found, wanted in zip(heard(model, mel.to(DEVICE), False), expected, strict=True):
        assert np.sqrt(np.square(found - wanted).mean()) < bound * wanted.std()
    emulated.check()


def tokens_of(seed: int) -> Tensor:
    return pyapp.from_numpy(np.random.RandomState(seed).randint(0, CLASSES, (2, 9)))


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1]).reshape(-1, CLASSES)
    return F.cross_entropy(logits, tokens[:, 1:].reshape(-1), ignore_index=3)


def made(name: str, device: str) -> nn.Module:
    pyapp.manual_seed(0)
    if name == "layers":
        layers = [nn.Embedding(CLASSES, 16), nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, CLASSES)]
        return nn.Sequential(*layers).to(device)
    sizes = {"dim": 24, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2}
    return Llama2c(Config(**sizes, vocab_size=CLASSES, max_seq_len=16)).to(device)


def trained(name: str, device: str, captured: bool) -> list[float]:
    """The losses and norms of steps with AdamW and clipping; after the first by a Graph, where `captured`."""
    model = made(name, device)
    optimizer = optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    tokens = tokens_of(0).to(device)

    def step() -> tuple[Tensor, Any]:
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach(), norm

    found, graph = [], None
    for number in range(4):
        tokens.copy_(tokens_of(number).to(device))
        if graph is not None:
            outputs = graph.replay()
        elif captured and number == 1:
            graph = capture(step)
            outputs = graph.outputs
        else:
            outputs = step()
        found += [x.item() for x in outputs]
    return found


def test_speech_and_codes() -> None:
    """A voice and a codec; the noise is made on the CPU."""
    voice = make_voice("vits-speakers")
    ids, mask = voice_batch()

    def spoken(device: str) -> tuple[np.ndarray, list[int]]:
        with pyapp.no_grad():
            samples, lengths = voice(ids.to(device), mask.to(device), 2, noise=voice_noise)
        return samples.cpu().numpy(), lengths

    wanted, lengths = spoken("cpu")
    voice.to(DEVICE)
    found, again = spoken(DEVICE)
    assert again == lengths
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    codec = make_codec("encodec")
    samples = pyapp.from_numpy(sound(1))
    with pyapp.no_grad():
        codes, decoded = codec(samples, 3.2)
        codec.to(DEVICE)
        other, found_samples = codec(samples.to(DEVICE), 3.2)
    assert other.chunks[0].cpu().tolist() == codes.chunks[0].tolist()
    np.testing.assert_allclose(found_samples.cpu().numpy(), decoded.numpy(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", ["layers", "llama2c"])
def test_training(name: str, captured: bool) -> None:
    expected = trained(name, "cpu", False)
    np.testing.assert_allclose(trained(name, DEVICE, captured), expected, rtol=2e-4)
    emulated.check()
    assert expected[0] != expected[2]
