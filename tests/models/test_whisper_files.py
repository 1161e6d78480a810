"""Whisper models from the files they are published as."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import Cancelled, FileFormatError, ModelError
from pyapp.events import Cancel, Progress
from pyapp.formats import open_checkpoint, quantize_blocks, write_safetensors
from pyapp.models import load_speech_model
from pyapp.models.whisper import Config, Whisper
from pyapp.models.whisper.files import HUGGING_FACE_CONFIG, config_from_hugging_face
from pyapp.models.whisper.weights import hugging_face_name, slots
from tests.models.test_whisper import make
from tests.models.whisper_model import SPEAKING, inputs, weights
from tests.text.test_whisper_tokenizer import small_json, small_pieces

GOLDEN = Path(__file__).parent / "golden_whisper.pt"
TOKENS = [[270, 271, 275, 4, 8, 300, 1700, 9]]
GGML_TYPES = {"float32": (0, 0), "float16": (1, 1), "q4_0": (2, 2), "q8_0": (8, 7), "q5_0": (6, 8), "q5_1": (7, 9)}
# Published models: mel bins, state, heads, layers of encoder and decoder, tokens, parameters in millions.
PUBLISHED = {
    "tiny": (80, 384, 6, 4, 4, 51865, 39),
    "tiny.en": (80, 384, 6, 4, 4, 51864, 39),
    "base": (80, 512, 8, 6, 6, 51865, 74),
    "small.en": (80, 768, 12, 12, 12, 51864, 244),
    "medium": (80, 1024, 16, 24, 24, 51865, 769),
    "large-v2": (80, 1280, 20, 32, 32, 51865, 1550),
    "large-v3": (128, 1280, 20, 32, 32, 51866, 1550),
    "large-v3-turbo": (128, 1280, 20, 32, 4, 51866, 809),
    "distil-small.en": (80, 768, 12, 12, 4, 51864, 166),
    "distil-large-v3": (128, 1280, 20, 32, 2, 51866, 756),
}


def logits_of(model: Whisper) -> np.ndarray:
    mel, _ = inputs(SPEAKING)
    with pyapp.no_grad():
        return model(pyapp.from_numpy(mel[:1]), pyapp.tensor(TOKENS, dtype=pyapp.int32)).numpy()


EXPECTED = None


def expected() -> np.ndarray:
    global EXPECTED
    EXPECTED = logits_of(make(SPEAKING)) if EXPECTED is None else EXPECTED
    return EXPECTED


def documents(config: Config = SPEAKING) -> dict[str, dict[str, Any]]:
    numbers = {theirs: config.to_dict()[ours] for ours, theirs in HUGGING_FACE_CONFIG.items()}
    wide = {"encoder_ffn_dim": 4 * config.n_audio_state, "decoder_ffn_dim": 4 * config.n_text_state}
    return {
        "config.json": {"model_type": "whisper", "activation_function": "gelu", **numbers, **wide},
        "generation_config.json": {"is_multilingual": True, "alignment_heads": [[0, 1], [1, 0]]},
    }


def write_folder(folder: Path, leave_out: str = "", shape: Config = SPEAKING, **changes: Any) -> Path:
    found = documents(shape)
    found["config.json"].update(changes)
    for name, document in found.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "tokenizer.json").write_text(small_json())
    tensors = {hugging_face_name(name): pyapp.tensor(value) for name, value in weights(shape).items()}
    tensors.pop(leave_out, None)
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    return folder


def ggml_bytes(dtype: str = "float16") -> bytes:
    """As whisper.cpp's convert-pt-to-ggml.py and quantize write it."""
    code, file_type = GGML_TYPES[dtype]
    c = SPEAKING
    numbers = [c.n_vocab, c.n_audio_ctx, c.n_audio_state, c.n_audio_head, c.n_audio_layer, c.n_text_ctx,
               c.n_text_state, c.n_text_head, c.n_text_layer, c.n_mels, file_type]  # fmt: skip
    parts = [struct.pack("<12i", 0x67676D6C, *numbers), struct.pack("<2i", c.n_mels, 201), bytes(4 * c.n_mels * 201)]
    pieces = small_pieces()
    parts += [struct.pack("<i", len(pieces)), *(struct.pack("<i", len(piece)) + piece for piece in pieces)]
    for name, value in weights(c).items():
        kind, data = 0, value.tobytes()
        if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
            value = value[:, None]
        elif value.ndim > 1 and dtype == "float16" and "positional" not in name:
            kind, data = 1, value.astype(np.float16).tobytes()
        elif value.ndim == 2 and value.shape[1] % 32 == 0 and dtype.startswith("q"):
            kind, data = code, bytes(quantize_blocks(value, dtype).data)
        shape = value.shape[::-1]
        parts.append(struct.pack(f"<{3 + len(shape)}i", len(shape), len(name), kind, *shape) + name.encode() + data)
    return b"".join(parts)


def test_a_hugging_face_folder_brings_all_it_says(tmp_path: Path) -> None:
    loaded = load_speech_model(write_folder(tmp_path))
    np.testing.assert_allclose(logits_of(loaded.model), expected(), atol=1e-5)
    assert loaded.model.alignment_heads == [(0, 1), (1, 0)]
    assert loaded.tokenizer.multilingual and loaded.tokenizer.vocab_size == SPEAKING.n_vocab
    assert loaded.config["n_text_layer"] == 2


def test_files_by_role_load_without_a_folder(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    roles = {"model": "model.safetensors", "config": "config.json", "tokenizer": "tokenizer.json"}
    loaded = load_speech_model({role: (folder / name).read_bytes() for role, name in roles.items()})
    np.testing.assert_allclose(logits_of(loaded.model), expected(), atol=1e-5)


def test_openais_file_names_its_numbers() -> None:
    loaded = load_speech_model(GOLDEN.read_bytes(), small_json().encode())
    np.testing.assert_allclose(logits_of(loaded.model), expected(), atol=0.05)  # its weights are float16
    assert loaded.model.config == SPEAKING and loaded.model.alignment_heads is None


def test_openais_file_asks_for_a_tokenizer() -> None:
    with pytest.raises(ModelError, match="tokenizer is missing"):
        load_speech_model(GOLDEN.read_bytes())


def test_a_tiktoken_file_is_a_tokenizer() -> None:
    from base64 import b64encode

    lines = [b64encode(piece) + f" {rank}".encode() for rank, piece in enumerate(small_pieces())]
    loaded = load_speech_model(GOLDEN.read_bytes(), b"\n".join(lines) + b"\n")
    assert loaded.tokenizer.decode(loaded.tokenizer.encode(" the thing")) == " the thing"
    with pytest.raises(FileFormatError, match="neither a tokenizer.json nor a .tiktoken"):
        load_speech_model(GOLDEN.read_bytes(), b"hello world\n")


@pytest.mark.parametrize("dtype", GGML_TYPES)
def test_whisper_cpps_file_brings_its_vocabulary(dtype: str) -> None:
    loaded = load_speech_model(ggml_bytes(dtype))
    atol = {"float32": 1e-5, "float16": 0.05, "q8_0": 0.2}.get(dtype, 3.0)
    np.testing.assert_allclose(logits_of(loaded.model), expected(), atol=atol)
    assert loaded.tokenizer.encode(" the") == [258]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_can_be_brought_to_another_dtype(dtype: str, tmp_path: Path) -> None:
    loaded = load_speech_model(write_folder(tmp_path), dtype=dtype)
    assert str(loaded.model.encoder.blocks[0].mlp.up.weight.dtype).endswith(dtype)
    np.testing.assert_allclose(logits_of(loaded.model), expected(), atol=0.05)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_size_has_its_parameters(name: str) -> None:
    mels, state, heads, encoder, decoder, tokens, millions = PUBLISHED[name]
    config = Config(mels, 1500, state, heads, encoder, tokens, 448, state, heads, decoder)
    assert config_from_hugging_face(documents(config)["config.json"]) == config
    count = sum(int(np.prod(shape)) for *_, shape in slots(Whisper.empty(config)))
    assert abs(count / 1e6 - millions) < 0.05 * millions


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "architecture 'bert'"),
        ({"d_model": "wide"}, "n_audio_state is 'wide'"),
        ({"encoder_layers": 2}, "no tensor 'encoder.blocks.1"),
        ({"vocab_size": 1782}, "has the shape"),
        ({"encoder_ffn_dim": 65}, "four times d_model"),
        ({"activation_function": "relu"}, "activation is 'relu'"),
    ],
)
def test_a_configuration_that_does_not_fit_is_told(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        load_speech_model(write_folder(tmp_path, **changes))


def test_a_head_of_its_own_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, tie_word_embeddings=False)
    load_speech_model(folder)  # the file has none
    tensors = pyapp.load(folder / "model.safetensors")
    write_safetensors(folder / "model.safetensors", tensors | {"proj_out.weight": pyapp.ones(8, 8)})
    with pytest.raises(ModelError, match="tie_word_embeddings"):
        load_speech_model(folder)


def test_a_missing_tensor_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no tensor 'decoder.ln.weight'"):
        load_speech_model(write_folder(tmp_path, "model.decoder.layer_norm.weight"))


def test_a_missing_config_is_told(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        load_speech_model(folder)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "null"])
def test_a_config_that_is_no_object_is_told(text: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "config.json").write_text(text)
    with pytest.raises(FileFormatError, match="JSON"):
        load_speech_model(folder)


def test_another_kind_of_model_is_told(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"wte.weight": pyapp.zeros(4, 4)})
    with pytest.raises(ModelError, match="not a speech model"):
        load_speech_model(tmp_path)


def test_weights_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-4:] = struct.pack("<f", float("nan"))
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(ModelError, match="NaN"):
        load_speech_model(folder)


def test_every_truncation_of_a_ggml_file_is_told() -> None:
    data = ggml_bytes()
    for length in (4, 5, 30, 52, 60, 7000, 8000, len(data) // 2, len(data) - 1):
        with pytest.raises((FileFormatError, ModelError)):
            load_speech_model(data[:length])


def test_damaged_ggml_headers_are_told() -> None:
    random = np.random.RandomState(0)
    data = ggml_bytes("float32")
    for _ in range(300):
        broken = bytearray(data)
        at = random.randint(4, 9000)
        broken[at : at + 4] = random.bytes(4)
        try:
            open_checkpoint(bytes(broken))
        except (FileFormatError, ModelError):
            continue


def test_loading_reports_and_can_be_stopped(tmp_path: Path) -> None:
    events: list[Any] = []
    load_speech_model(write_folder(tmp_path), report=events.append)
    last = [event for event in events if isinstance(event, Progress)][-1]
    assert last.done == last.total > 0
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        load_speech_model(tmp_path, cancel=cancel)


@pytest.mark.native_only
def test_reading_and_warming_up_need_no_numpy(tmp_path: Path) -> None:
    """In the page importing it takes a quarter of a second, which may pass while a model is shown."""
    script = (
        "import sys; from pathlib import Path; from pyapp.models import load_speech_model\n"
        "loaded = load_speech_model(Path(sys.argv[1]))\n"
        "loaded.model.encoder.warm_up(); loaded.tokenizer.non_speech_tokens\n"
        "assert 'numpy' not in sys.modules"
    )
    root = Path(__file__).resolve().parents[2]
    embedded = root / "web" / "models" / "speech"
    subprocess.run([sys.executable, "-c", script, str(embedded)], cwd=root, check=True)


def test_warming_up_changes_nothing() -> None:
    model = make(SPEAKING)
    model.encoder.warm_up()
    np.testing.assert_array_equal(logits_of(model), expected())
