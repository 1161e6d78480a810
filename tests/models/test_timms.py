"""Models of timm's library against timm (make_golden_timms.py): their files, names, outputs and gradients; the names of
every architecture; pictures; configurations that cannot be.
"""

from __future__ import annotations

import json
from io import BytesIO
from math import prod
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.errors import InputError, ModelError
from pyapp.formats.safetensors import write_safetensors
from pyapp.formats.source import BytesSource
from pyapp.models.loading import timm
from pyapp.models.loading.pictures import load_image_model
from pyapp.nn.parameter import skip_initialization
from pyapp.nn.vision.reparameterized import reparameterize
from pyapp.vision.processors import ImageProcessor
from tests.models.seeded import direction, picture, picture_weights, shown
from tests.models.small_models import along, golden_in, module_for
from tests.models.timm_configs import CONFIGS, FEATURES, LABELS, QUANTISED, seeded_picture, side_of
from tests.together import check_each, fewer_in_browser

golden = golden_in("golden_timms")


def config_json(name: str) -> dict[str, Any]:
    """The config.json: timm's, or pyapp's of a network that is described by its blocks."""
    names = {"id2label": {str(i): f"{label}!" for i, label in enumerate(LABELS)}}
    return golden(name)["config"] or CONFIGS[name] | names


def make(name: str, changes: dict[str, Any] | None = None) -> Any:
    """The model that is loaded from a folder as timm writes it."""
    tensors = {
        key: picture_weights(f"net.{key}", tuple(shape)) if shape else np.array(0, np.int64)
        for key, (shape, *_) in golden(name)["tensors"].items()
    }
    file = BytesIO()
    write_safetensors(file, {key: pyapp.from_numpy(value) for key, value in tensors.items()})
    files = {
        "config.json": BytesSource(json.dumps(config_json(name) | (changes or {})).encode(), "config.json"),
        "model.safetensors": BytesSource(file.getvalue(), "model.safetensors"),
    }
    task = "image-features" if name in FEATURES else "image-classification"
    return load_image_model(files, task)


def gradient(name: str, model: Any, key: str, shape: list[int]) -> np.ndarray:
    """The gradient of what a tensor of the file became."""
    own, architecture = dict(model.named_parameters()), (golden(name)["config"] or {}).get("architecture")
    rename = timm.renamed(architecture) if architecture else lambda key: key

    def of(key: str) -> np.ndarray:
        parameter = next(own[full] for full in own if rename(key) in (full, full.partition(".")[2]))
        return np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy().astype(np.float64)

    if ".attn.qkv." in key and key not in own:
        return np.concatenate([of(key.replace("qkv", part)) for part in ("query", "key", "value")])
    found = of(key)
    return found.reshape(shape) if found.size == prod(shape) else found[:, -shape[1] :]


@pytest.mark.parametrize("name", fewer_in_browser(list(CONFIGS), every=2))
def test_outputs_and_gradients_are_those_of_timm(name: str) -> None:
    loaded, expected = make(name), golden(name)
    model = loaded.model.requires_grad_()
    if name not in FEATURES:
        assert model.config.labels == tuple(f"{label}!" for label in LABELS)
    output = model(pyapp.from_numpy(picture(2, side_of(name), side_of(name))))
    near = 1e-4 + 2e-6 * float(np.abs(expected["output"]).max())  # rounding of large outputs
    np.testing.assert_allclose(shown(output.detach().numpy()), expected["output"], atol=near, rtol=1e-4)
    along(output, name).backward()
    for key, (shape, *product) in expected["tensors"].items():
        if product:
            found = (gradient(name, model, key, shape) * direction(key, tuple(shape))).sum()
            np.testing.assert_allclose(found, product[0], rtol=2e-3, atol=2e-3, err_msg=key)


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_weights_run(name: str) -> None:
    model, pictures = make(name).model, pyapp.from_numpy(picture(2, side_of(name), side_of(name)))
    with pyapp.no_grad():
        exact = model(pictures).numpy()
        assert nn.quantize(model, "q8_0")
        found = model(pictures).numpy()
    assert 0 < np.abs(found - exact).max() < 0.2 * np.abs(exact).max()


def test_a_file_may_have_been_saved_by_transformers() -> None:
    """Its wrapper of timm's models puts a name before theirs, and names the labels."""
    name = "mobilenetv3"
    wrapped = {"architecture": "resnet18", "model_type": "timm_wrapper", "id2label": {"0": "a", "1": "b"}}
    found = timm.settings_of(wrapped, name)
    assert found["model_type"] == "resnet" and found["id2label"] == {"0": "a", "1": "b"}
    rename = timm.renamed("resnet18")
    assert rename("timm_model.layer1.0.bn2.bias") == rename("layer1.0.bn2.bias")


NAMES = sorted(golden("names"))


def test_the_tensors_of_every_architecture_have_timms_names_and_shapes() -> None:
    """Of the models in timm's list that pyapp knows, all tensors have a place, and none is missing."""

    def check(name: str) -> None:
        pool = "token" if name.startswith(("vit_", "deit_")) else "avg"
        size = golden("names")[name]["input_size"]
        config = {"architecture": name, "global_pool": pool, "pretrained_cfg": {"input_size": size}}
        settings = timm.settings_of(config, name)
        module = module_for(settings)
        task = "image-features" if "dinov2" in name else "image-classification"
        with skip_initialization():
            model = module.TASKS[task](module.Config.from_dict(settings))
        own = [*model.parameters(), *(buffer for buffer in model.buffers() if buffer.ndim)]
        count = sum(prod(value.shape) for value in own)
        count -= settings["hidden_size"] if "_reg4" in name else 0  # timm's class token has no position
        assert count == golden("names")[name]["numbers"], count

    check_each(check, [(name,) for name in fewer_in_browser(NAMES, every=40)])


def test_pictures_are_prepared_as_by_timm() -> None:
    """Against the processor cases of make_golden_timms.py."""
    for case in golden("pictures")["cases"]:
        processor = ImageProcessor.from_settings(timm.processor_settings({"pretrained_cfg": case["config"]}))
        height, width = case["size"]
        image = pyapp.from_numpy(seeded_picture(height, width))
        found = processor([image]).pixel_values.numpy()
        assert list(found.shape[1:]) == case["shape"]
        # Pillow 13 rounds bilinear means otherwise than its earlier versions: by one of 255 levels.
        np.testing.assert_allclose(shown(found), case["values"], atol=0.02 if "mean" in case["config"] else 1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "resnet18x"}, "resnet18x.*not known.*Known families: resnet, mobilenetv2"),
        ({"architecture": ["resnet18"]}, "architecture is"),
        ({"architecture": "resnet51"}, "not known"),
        ({"architecture": "efficientnet_b9"}, "not known"),
        ({"architecture": "efficientnet_" + "b" * 10**5}, "not known"),
        ({"pretrained_cfg": []}, "pretrained_cfg"),
        ({"pretrained_cfg": {"input_size": [3, -1, 2]}}, "input_size"),
        ({"pretrained_cfg": {"input_size": "big"}}, "input_size"),
        ({"pretrained_cfg": {"input_size": [3, 224, 192]}}, "square"),
        ({"pretrained_cfg": {"crop_pct": 0}}, "crop_pct"),
        ({"pretrained_cfg": {"crop_pct": "1"}}, "crop_pct"),
        ({"pretrained_cfg": {"crop_mode": "border"}}, "crop_mode"),
        ({"pretrained_cfg": {"interpolation": ["bicubic"]}}, "interpolation"),
        ({"pretrained_cfg": {"mean": [0, 0]}}, "image_mean"),
        ({"pretrained_cfg": {"std": [0, 0, 0]}}, "image_std"),
        ({"num_classes": 10**9}, "num_classes"),
        ({"num_classes": 0}, "no head"),
        ({"label_names": ["a"]}, "label_names"),
        ({"global_pool": "max"}, "global_pool"),
        ({"model_args": {"aa_layer": "blur"}}, "'aa_layer' = 'blur' of resnet18"),
        ({"model_args": {"channels": 3}}, "channels"),
        ({"model_args": {"layers": [10**9]}}, "depths"),
        ({"model_args": 3}, "model_args"),
        ({"num_classes": 4, "label_names": None}, "do not fit the configuration"),
    ],
)
def test_configurations_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make("resnet", change)


def test_a_thousand_outputs_without_names_are_imagenets() -> None:
    """The names are those of timm's ImageNetInfo."""
    found = timm.settings_of({"architecture": "resnet18", "num_classes": 1000}, "config.json")["id2label"]
    assert [found[str(i)] for i in (0, 1, 281, 999)] == [
        "tench, Tinca tinca", "goldfish, Carassius auratus", "tabby, tabby cat",
        "toilet tissue, toilet paper, bathroom tissue",
    ]  # fmt: skip
    assert timm.settings_of({"architecture": "resnet18", "num_classes": 12}, "config.json")["num_labels"] == 12


def test_vgg_refuses_pictures_that_are_too_large_and_layers_that_cannot_be() -> None:
    model = make("vgg").model
    with pytest.raises(InputError, match="63 a side"):
        model(pyapp.zeros(1, 3, 64, 32))
    for layers in ([], [[]], 3, [[0]], [["8"]], [[10**9]]):
        with pytest.raises(ModelError, match="layers"):
            make("vgg", {"layers": layers})


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "blocks"), ([[]], "blocks"), (3, "blocks"), ([[3]], "not known"), ([["xx_r1_k3_s1_c8"]], "not known"),
        ([["ir_r1_k3_s1_e6_c0"]], "cannot be"), ([["ir_r1_k4_s1_e6_c8"]], "cannot be"),
        ([["ir_r0_k3_s1_e6_c8"]], "cannot be"), ([["ir_r999_k3_s1_e6_c8", "ir_r999_k3_s1_e6_c8"]], "1,024 blocks"),
        ([["uir_r1_a0_k0_s2_e2_c8"]], "no filter"), ([["ir_r1_k3_s1_e99_c8"]], "cannot be"),
        ([["ir_r1_k3_s1_e6_c99999"]], "cannot be"), ([["ir_r1_k3_s1_e6_c8_nxx"]], "not known"),
    ],
)  # fmt: skip
def test_blocks_that_cannot_be_are_refused(blocks: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make("mobilenetv3", {"blocks": blocks})


@pytest.mark.parametrize("name", ["repvgg", "mobileone", "fastvit"])
def test_branches_become_one_filter(name: str) -> None:
    """The outputs stay those of timm, and the file of the fused network is read as one."""
    loaded, expected, pictures = make(name), golden(name), pyapp.from_numpy(picture(2, side_of(name), side_of(name)))
    reparameterize(loaded.model)
    with pyapp.no_grad():
        found = loaded.model(pictures)
    np.testing.assert_allclose(shown(found.numpy()), expected["output"], atol=1e-4, rtol=1e-4)
    state = loaded.model.state_dict()
    assert sum("reparam_conv.bias" in key for key in state) >= 4
    assert not any(
        part in key for key in state for part in ("conv_kxk", "conv_scale", "identity", "large_conv", "mixer.norm")
    )
    file = BytesIO()
    write_safetensors(file, state)
    files = {
        "config.json": BytesSource(json.dumps(config_json(name)).encode(), "config.json"),
        "model.safetensors": BytesSource(file.getvalue(), "model.safetensors"),
    }
    with pyapp.no_grad():
        again = load_image_model(files, "image-classification").model(pictures)
    assert np.array_equal(again.numpy(), found.numpy())


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("repvgg", {"blocks": [["rep_r1_k3_s2_c8"]]}, "2 to 16 stages"),
        ("repvgg", {"blocks": [[3], [3]]}, "not known"),
        ("repvgg", {"blocks": [["rep_r1_k4_s2_c8"], ["rep_r1_k3_s2_c8"]]}, "cannot be"),
        ("repvgg", {"blocks": [["rep_r1_k3_s2_c8"], ["rep_r1_k3_s2_g3_c9"]]}, "cannot be"),
        ("repvgg", {"blocks": [["rep_r2_k3_s2_c8"], ["rep_r1_k3_s2_c8"]]}, "more blocks than one"),
        ("repvgg", {"blocks": [["rep_r1_k3_s2_c8"], ["rep_r999_k3_s2_c8"] * 2]}, "1,024 blocks"),
        ("fastvit", {"model_args": {"layers": [1, 1, 1, 0]}}, "depths"),
        ("fastvit", {"model_args": {"embed_dims": [8, 8, 16, 40]}}, "multiple"),
        ("fastvit", {"model_args": {"mlp_ratios": [2, 2]}}, "mlp_ratios"),
        ("efficientvit", {"model_args": {"head_dim": 3}}, "head_dim 3 does not divide"),
        ("efficientvit", {"model_args": {"head_widths": [4]}}, "head_widths"),
        ("hiera", {"model_args": {"stages": [1, 1]}}, "depths"),
        ("hiera", {"model_args": {"img_size": 40}}, "multiples"),
        ("hiera", {"model_args": {"num_heads": 5}}, "num_heads 5 does not divide"),
        ("hiera", {"model_args": {"patch_stride": [2, 4]}}, "patch_stride"),
        ("hiera", {"architecture": "hiera_tiny_abswin_256"}, "not known"),
        ("eva02", {"model_args": {"num_heads": 256}}, "multiple of 4"),
        ("eva02", {"model_args": {"patch_size": 512}}, "larger"),
        ("convmixer", {"kernel_size": 256}, "kernel_size"), ("convmixer", {"patch_size": 1 << 20}, "patch_size"),
        ("convmixer", {"hidden_size": 1 << 20}, "hidden_size"), ("convmixer", {"hidden_act": "sum"}, "sum"),
    ],
)  # fmt: skip
def test_networks_that_cannot_be_are_refused(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make(name, change)
