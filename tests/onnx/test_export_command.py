"""pyapp export-onnx: the files compute what the models compute, for other batches and lengths."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, no_grad, tensor
from pyapp.formats import write_safetensors
from pyapp.models import llama, load_model, load_speech_model, t5
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.pictures import load_image_model
from pyapp.nn.recurrent.continued import kept_parts
from pyapp.onnx import load
from tests.models.decoder_configs import SMALL
from tests.models.picture_folders import write_picture_folder
from tests.models.sequence_configs import CONFIGS as SEQUENCES
from tests.models.test_whisper_files import write_folder
from tests.models.whisper_model import SPEAKING
from tests.onnx.steps import small_model, step_difference
from tests.tasks.test_texts import folder as text_folder
from tests.tasks.test_texts import folders as text_folders
from tests.together import check_each

pytestmark = pytest.mark.native_only
folders = text_folders  # the fixture


def run(*arguments: object) -> int:
    from pyapp.cli import run as run_command

    return run_command(["export-onnx", *map(str, arguments)])


def of_texts(name: Path, task: str) -> Callable[[list[Tensor]], Any]:
    model = load_task_model(name, task).model
    if task == "features":
        return lambda given: (model.encoder(*given), model(*given))
    return lambda given: model(*given)


def test_models_become_files(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = text_folder(tmp_path / "tokens", "roberta", "token-classification", "RobertaForTokenClassification")
    answers = text_folder(tmp_path / "answers", "bert", "question-answering", "BertForQuestionAnswering")
    cases = [
        ("features", folders["embed"], 3), ("sequence-classification", folders["classify"], 3),
        ("masked-lm", folders["fill-mask"], 3), ("token-classification", tokens, 2), ("question-answering", answers, 3),
    ]  # fmt: skip

    def check(task: str, source: Path, count: int) -> None:
        assert run(source, tmp_path / task) == 0
        assert f"for {task}" in capsys.readouterr().out
        assert (tmp_path / task / "config.json").read_bytes() == (source / "config.json").read_bytes()
        assert (tmp_path / task / "tokenizer.json").exists()
        file = load(tmp_path / task / "model.onnx")
        assert [info.name for info in file.inputs] == ["input_ids", "attention_mask", "token_type_ids"][:count]
        assert file.inputs[0].type.shape == ("batch_size", "sequence_length")
        random = np.random.RandomState(0)
        for shape in ((3, 7), (1, 4)):
            mask = np.ones(shape, "int64")
            mask[0, 2:] = 0
            given = [tensor(x) for x in (random.randint(5, 15, shape), mask, random.randint(0, 2, shape))][:count]
            with no_grad():
                wanted, found = of_texts(source, task)(given), file(*given)
            wanted = wanted.unbind(-1) if task == "question-answering" else wanted
            pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
            for own, other in pairs:
                np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)

    check_each(check, cases)
    assert (tmp_path / "features" / "1_Pooling" / "config.json").exists()


def test_pictures_and_language_models(tmp_path: Path) -> None:
    source = write_picture_folder(tmp_path / "resnet", "resnet")
    assert run(source, tmp_path / "pictures", "--opset", 18) == 0
    pixels = pyapp.randn(3, 3, 12, 12)
    with no_grad():
        wanted = load_image_model(source, "image-classification").model(pixels)
        np.testing.assert_allclose(
            load(tmp_path / "pictures" / "model.onnx")(pixels).numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5
        )
    writer = text_folder(tmp_path / "writer", "bert", "masked-lm", "BertForMaskedLM")
    words = len(json.loads((writer / "tokenizer.json").read_text())["model"]["vocab"])
    config = SMALL | {"vocab_size": words, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    write_safetensors(
        writer / "model.safetensors", llama.TASKS["causal-lm"](llama.Config.from_dict(config)).state_dict()
    )
    (writer / "config.json").write_text(json.dumps(config))
    assert run(writer, tmp_path / "half", "--type", "float16") == 0  # it is run beside the model
    assert run(writer, tmp_path / "written") == 0
    assert run(writer, tmp_path / "blocks", "--type", "q8_0") == 0
    ids = tensor([[1, 5, 6, 7, 2], [1, 9, 5, 8, 6]])
    with no_grad():
        wanted = load_model(writer, dtype="float32").model(ids)  # (2, 5, V)
    file, past = load(tmp_path / "written" / "model.onnx"), [pyapp.zeros(2, 2, 0, 8)] * 4
    places, full = pyapp.arange(5).expand(2, 5), pyapp.ones(2, 5, dtype="int64")
    with no_grad():
        quantized = load_model(writer, dtype="q8_0").model(ids)
        found, *_ = load(tmp_path / "blocks" / "model.onnx")(ids, full, places, *past)
    np.testing.assert_allclose(found.numpy(), quantized.numpy(), rtol=1e-3, atol=1e-4)
    assert abs(found.numpy() - wanted.numpy()).max() > 1e-3  # these are other weights
    assert [info.name for info in file.inputs[:4]] == [
        "input_ids", "attention_mask", "position_ids", "past_key_values.0.key",
    ]  # fmt: skip
    assert [info.name for info in file.outputs][:3] == ["logits", "present.0.key", "present.0.value"]
    for begin, end in ((0, 3), (3, 4), (4, 5)):  # a prompt, then a token at a time
        places = pyapp.arange(begin, end).expand(2, end - begin)
        logits, *past = file(ids[:, begin:end], pyapp.ones(2, end, dtype="int64"), places, *past)
        np.testing.assert_allclose(logits.numpy(), wanted[:, begin:end].numpy(), rtol=1e-4, atol=1e-5)
    mask, places = tensor([[0, 1], [0, 1]]), tensor([[0, 0], [0, 0]])  # padding before a text is not seen
    logits, *_ = file(ids[:, :2].flip(1), mask, places, *[pyapp.zeros(2, 2, 0, 8)] * 4)
    np.testing.assert_allclose(logits[:, 1].numpy(), wanted[:, 0].numpy(), rtol=1e-4, atol=1e-5)


def test_states_of_layers(tmp_path: Path) -> None:
    """Of convolutions, Mamba 2, delta rules and RWKV, beside keys and values or alone."""

    def opened(file: Path) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
        model = load(file)
        names = [info.name for info in model.inputs]

        def run(given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
            with no_grad():
                return [y.numpy() for y in model(**{name: tensor(given[name]) for name in names})]

        return run

    def check(name: str, past: list[str]) -> None:
        model = small_model(name)
        assert [part.past for part in kept_parts(model) or ()][: len(past)] == past
        found = step_difference(model, tmp_path, opened)
        assert found is not None and found < 1e-4

    keys = [f"past_key_values.0.{part}" for part in ("key", "value")]
    cases = [
        ("falcon_h1", ["past_conv.0", "past_ssm.0", *keys, "past_conv.1"]),
        ("qwen3_5", ["past_conv.0", "past_recurrent.0", "past_key_values.1.key"]),
        ("rwkv", ["past_shift.0.0", "past_recurrent.0", "past_shift.0.1", "past_shift.1.0"]), ("rwkv6", []),
        ("rwkv7", []), ("lfm2-bias", []),
    ]  # fmt: skip
    check_each(check, cases)


def check_decoding(
    folder: Path, source: dict[str, Tensor], mask: dict[str, Tensor], wanted: Tensor, ids: Tensor
) -> None:
    """The encoder's file, then the decoder's without and with what is kept: `wanted` (B, T, V) of ids (B, T)."""
    encoded, decoder = load(folder / "encoder_model.onnx")(**source), load(folder / "decoder_model_merged.onnx")
    given = {"encoder_hidden_states": encoded, **mask}
    past = [info for info in decoder.inputs if info.name.startswith("past_key_values.")]
    assert [info.name.split(".")[2:] for info in past[:4]] == [
        ["decoder", "key"], ["decoder", "value"], ["encoder", "key"], ["encoder", "value"],
    ]  # fmt: skip
    sizes = [[len(ids) if isinstance(n, str) else n for n in info.type.shape or ()] for info in past]
    kept = [pyapp.zeros(size[0], size[1], 0, size[3]) for size in sizes]  # (B, H, 0, D)
    for begin, end in ((0, 3), (3, 4), (4, 6)):
        values = dict(zip((info.name for info in past), kept, strict=True))
        logits, *kept = decoder(
            input_ids=ids[:, begin:end], use_cache_branch=tensor([begin > 0]), **given, **values
        )  # fmt: skip
        np.testing.assert_allclose(logits.numpy(), wanted[:, begin:end].numpy(), rtol=1e-4, atol=1e-5)


def test_encoders_with_decoders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = text_folder(tmp_path / "texts", "bert", "masked-lm", "BertForMaskedLM")
    config = SEQUENCES["t5"] | {"architectures": ["T5ForConditionalGeneration"]}
    write_safetensors(texts / "model.safetensors", t5.TASKS["seq2seq-lm"](t5.Config.from_dict(config)).state_dict())
    (texts / "config.json").write_text(json.dumps(config))
    for kind in ("float16", "q4_0"):
        assert run(texts, tmp_path / kind, "--type", kind) == 0
    capsys.readouterr()
    assert run(texts, tmp_path / "t5") == 0
    assert "encoder_model.onnx, " in capsys.readouterr().out
    model, random = load_task_model(texts, "seq2seq-lm", dtype="float32").model, np.random.RandomState(0)
    source, ids = tensor(random.randint(5, 15, (2, 5))), tensor(random.randint(5, 15, (2, 6)))
    mask = tensor([[1] * 5, [1, 1, 1, 0, 0]])
    with no_grad():
        wanted = model(source, ids, mask)  # (2, 6, V)
    written = json.loads((tmp_path / "t5" / "config.json").read_text())
    assert (written["is_encoder_decoder"], written["num_decoder_layers"]) == (True, config["num_layers"])
    masks = {"encoder_attention_mask": mask}
    check_decoding(tmp_path / "t5", {"input_ids": source, "attention_mask": mask}, masks, wanted, ids)

    (tmp_path / "speech").mkdir()
    speech = write_folder(tmp_path / "speech", shape=replace(SPEAKING, n_text_ctx=48))
    assert run(speech, tmp_path / "whisper") == 0
    assert "for speech-recognition" in capsys.readouterr().out
    mel = pyapp.randn(2, 8, 20)
    with no_grad():
        wanted = load_speech_model(speech, dtype="float32").model(mel, ids)  # (2, 6, V)
    check_decoding(tmp_path / "whisper", {"input_features": mel}, {}, wanted, ids)


def test_mistakes(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    other = write_picture_folder(tmp_path / "boxes", "yolos")
    for arguments, message in (
        ((folders["classify"], folders["classify"]), "this is the folder of the model"),
        ((folders["classify"], tmp_path / "a", "--task", "masked-lm"), "made for sequence-classification"),
        ((folders["classify"], tmp_path / "a", "--task", "poems"), "'poems' is none of features"),
        ((folders["classify"], tmp_path / "a", "--type", "q4_K"), "'q4_K' is none of float32"),
        ((other, tmp_path / "a"), "this model is for object-detection"),
        ((tmp_path / "empty", tmp_path / "a"), "empty"),
    ):
        assert run(*arguments) == 1
        assert message in capsys.readouterr().err
