"""Moondream against the parts of transformers (make_golden_moondreams.py): its files, logits, gradients and answers;
the older form of Phi's files, which its language model has.
"""

from __future__ import annotations

import asyncio
import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import ModelError
from pyapp.formats import open_checkpoint
from pyapp.formats.safetensors import write_safetensors
from pyapp.formats.source import BytesSource
from pyapp.models import load_model, moondream, phi
from pyapp.models.load import read_model
from pyapp.text.tokenization import tokenizer as tokenizer_module
from tests.models.decoder_configs import CONFIGS as DECODERS
from tests.models.moondream_configs import BEGIN, BEHIND, CONFIGS, QUESTION, photo, prepared
from tests.models.seeded import direction, draw, picture_weights, shown
from tests.models.small_models import along
from tests.text.chat_model import byte_letters

FOLDER = Path(__file__).parent
GOLDEN = json.loads((FOLDER / "golden_moondreams/moondream.json").read_text())
CONFIG = CONFIGS["moondream"]
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's folder, as the first revisions of its repository have it."""
    if sys.platform == "emscripten":
        from pyapp.browser import PageTokenizer

        monkeypatch.setattr(tokenizer_module, "_backend_factory", PageTokenizer)
    letters = byte_letters()
    (tmp_path / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": 256, "content": "<|endoftext|>", "special": True, **PLAIN}], "normalizer": None,
        "pre_tokenizer": LEVEL, "post_processor": LEVEL, "decoder": LEVEL,
        "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []},
    }))  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    write_safetensors(tmp_path / "model.safetensors", {
        key: pyapp.from_numpy(picture_weights(key, tuple(shape))) for key, (shape, _) in GOLDEN["parameters"].items()
    })  # fmt: skip
    return tmp_path


def test_logits_gradients_and_answers_are_those_of_its_parts_in_transformers(files: Path) -> None:
    pytest.importorskip("jinja2")
    model: Any = load_model(str(files)).model
    model.requires_grad_()
    count = model.picture_tokens
    ids = pyapp.tensor([[*BEGIN, *[model.config.image_token_id] * count, *BEHIND]], dtype="int32")
    logits = model(ids, None, pyapp.from_numpy(prepared()))
    np.testing.assert_allclose(shown(logits.detach().numpy(), 96), GOLDEN["logits"], atol=1e-4, rtol=1e-4)
    along(logits, "moondream").backward()
    plans = moondream.stored(model.config, GOLDEN["parameters"])
    grads: dict[str, list[np.ndarray]] = {}
    parameters = dict(model.named_parameters())
    for name in sorted(parameters, key=lambda name: "qkv".find(name.split(".")[-2][0])):  # as one matrix has them
        grads.setdefault(plans[name].names[0], []).append(parameters[name].grad.numpy().astype(np.float64))
    for key, (shape, product) in GOLDEN["parameters"].items():
        grad = np.concatenate(grads[key]).reshape(shape)
        found = (grad * direction(key, tuple(shape))).sum()
        np.testing.assert_allclose(found, product, rtol=2e-3, atol=2e-3, err_msg=key)
    content = [{"type": "image", "image": pyapp.from_numpy(photo())}, {"type": "text", "text": QUESTION}]
    options = {"temperature": 0, "max_new_tokens": len(GOLDEN["tokens"])}

    async def answer() -> list[int]:
        events: Any = tasks.chat(str(files), [{"role": "user", "content": content}], options)
        return [event.id async for event in events if event.type == "token" and event.id is not None]

    assert asyncio.run(answer()) == GOLDEN["tokens"]


def test_later_forms_are_refused(files: Path) -> None:
    name = "vision_encoder.projection.mlp.fc1.weight"
    with open_checkpoint(files / "model.safetensors") as checkpoint:
        tensors = {key: checkpoint.read(key) for key in checkpoint.tensors}
    write_safetensors(files / "model.safetensors", tensors | {name: pyapp.cat([tensors[name]] * 2, 1)})
    with pytest.raises(ModelError, match="later form"):
        load_model(str(files))
    (files / "config.json").write_text(json.dumps(CONFIG | {"vision_config": "siglip"}))
    with pytest.raises(ModelError, match="vision_config is 'siglip', expected an object"):
        load_model(str(files))


@pytest.mark.parametrize("kind", ["phi-msft", "mixformer-sequential"])
def test_older_files_of_phi(kind: str) -> None:
    """The logits are those of the same weights in the newer form, which test_decoders.py compares with transformers."""
    golden, config = json.loads((FOLDER / "golden_decoders" / "phi.json").read_text()), DECODERS["phi"]
    values = {key: draw(key, tuple(shape), golden["salt"]) for key, (shape, *_) in golden["parameters"].items()}
    layers = config["num_hidden_layers"]
    listed = kind == "mixformer-sequential"
    words, head = ("layers.0.wte", f"layers.{layers + 1}") if listed else ("transformer.embd.wte", "lm_head")
    tensors = {f"{words}.weight": values["model.embed_tokens.weight"]}
    for last in ("weight", "bias"):
        tensors[f"{head}.ln.{last}"] = values[f"model.final_layernorm.{last}"]
        tensors[f"{head}.linear.{last}"] = values[f"lm_head.{last}"]
        for i in range(layers):
            at, own = f"layers.{i + 1}." if listed else f"transformer.h.{i}.", f"model.layers.{i}."
            tensors[f"{at}mixer.Wqkv.{last}"] = np.concatenate(
                [values[f"{own}self_attn.{part}_proj.{last}"] for part in "qkv"]
            )
            for name, newer in (("ln", "input_layernorm"), ("mixer.out_proj", "self_attn.dense"),
                                ("mlp.fc1", "mlp.fc1"), ("mlp.fc2", "mlp.fc2")):  # fmt: skip
                tensors[f"{at}{name}.{last}"] = values[f"{own}{newer}.{last}"]
    width, heads = config["hidden_size"], config["num_attention_heads"]
    settings = {
        "model_type": kind, "vocab_size": config["vocab_size"], "n_embd": width, "n_layer": layers, "n_head": heads,
        "n_head_kv": config.get("num_key_value_heads"), "n_inner": config["intermediate_size"],
        "n_positions": config["max_position_embeddings"], "rotary_dim": width // heads // 2,
        "activation_function": config.get("hidden_act", "gelu_new"), "layer_norm_epsilon": 1e-5,
    }  # fmt: skip
    file = BytesIO()
    write_safetensors(file, {key: pyapp.from_numpy(value) for key, value in tensors.items()})
    with open_checkpoint(BytesSource(file.getvalue(), "model.safetensors")) as checkpoint, pyapp.no_grad():
        model: Any = read_model(phi, phi.PhiForCausalLM, checkpoint, settings)
        found = model(pyapp.tensor([[3, 17, 5, 60, 8, 44, 2, 9, 71, 30, 12, 1]], dtype="int32"))[0]
    np.testing.assert_allclose(found.numpy()[[0, -1]].reshape(-1), golden["logits"], atol=1e-4, rtol=1e-4)
