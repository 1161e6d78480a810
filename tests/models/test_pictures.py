"""Models of pictures against transformers (make_golden_pictures.py): names, outputs and gradients; quantised weights;
files; pictures and configurations that do not fit.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.errors import ArgumentError, InputError, ModelError, OptionError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.models._index import MODEL_TYPES, SEEING, TASKS
from pyapp.models.loading import open_clip
from pyapp.models.loading.building import build
from pyapp.models.loading.image_processors import usual_processor
from pyapp.models.sam3 import Sam3
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from pyapp.vision.processors import KINDS
from tests.models.picture_configs import (
    BOXES,
    CONFIGS,
    DEPTHS,
    OPEN_CLIP,
    PHRASES,
    POINT_LABELS,
    POINTS,
    PROMPT,
    QUANTISED,
    QUESTION,
    SHOWN_BOXES,
    SHOWN_KINDS,
    TOKENS,
    WITH_TOKENS,
    sizes,
)
from tests.models.seeded import direction, picture, picture_weights, shown
from tests.models.small_models import along, golden_in, module_for
from tests.together import fewer_in_browser

# Which do not divide the width.
NO_HEADS = (
    ("upernet", "hidden_size"), ("blip2_t5", "d_model"), ("instructblip", "d_model"),
    ("pix2struct", "num_attention_heads"),
)  # fmt: skip

golden = golden_in("golden_pictures")


def module_of(name: str) -> Any:
    return module_for(CONFIGS[name])


def stored_names(name: str, task: str) -> dict[str, Any]:
    """What a file has, without what no task here reads."""
    ignored = re.compile(getattr(module_of(name), "IGNORED", "$"))
    return {key: value for key, value in golden(name)[task]["parameters"].items() if not ignored.fullmatch(key)}


def in_file(name: str, task: str) -> dict[str, str]:
    """The file's names of parameters, by the model's."""
    renamed = getattr(module_of(name), "renamed", str)
    return {renamed(key): key for key in golden(name)[task]["parameters"]}


def make(name: str, task: str, **changes: Any) -> Any:
    module = module_of(name)
    settings = CONFIGS[name] | changes
    if hasattr(module, "adapted"):
        settings = module.adapted(settings, golden(name)[task]["parameters"])
    model = module.TASKS[task](module.Config.from_dict(settings))
    if hasattr(model, "pooler") and not any("pooler" in key for key in golden(name)[task]["parameters"]):
        model.pooler = None
    buffers, stored = dict(model.named_buffers()), in_file(name, task)
    with pyapp.no_grad():
        for key, value in [*model.named_parameters(remove_duplicate=False), *buffers.items()]:
            own = key in buffers and "input_conditioner" not in key  # RADIO's are in its configuration
            if value.dtype.is_floating_point and (key in stored or own) and key != "attn_mask_probs":
                owner, _, leaf = key.rpartition(".")
                norm = stored.get(f"{owner}.weight", key).removesuffix("weight")  # a norm of batches has buffers
                there = stored.get(key, norm + leaf if norm != key else key)
                value.copy_(pyapp.from_numpy(picture_weights(there, tuple(value.shape))))
    return model.eval()


def with_prompt(model: Any) -> Any:
    """A model that reads a prompt beside a picture, with one."""
    if hasattr(model, "take_task"):
        model.take_task(PROMPT)
    if hasattr(model, "reader"):
        model.reader = lambda _: QUESTION
    asked = hasattr(model, "prompted") and model.usual_prompt  # GIT's is empty
    return model.prompted("what", lambda _: PROMPT[1:-1]) if asked else model


def run(model: Any, task: str, size: tuple[int, int], device: str = "cpu") -> list[pyapp.Tensor]:
    """The outputs for two pictures of a size, with the prompts or texts of the task."""

    def on(values: Any) -> pyapp.Tensor:
        return pyapp.tensor(values).to(device)

    frames = model.frames if task == "video-classification" else 2 if task == "keypoint-matching" else 1
    pictures = pyapp.from_numpy(picture(2 * frames, *size)).to(device)
    if frames > 1:
        pictures = pictures.reshape(2, frames, 3, *size)
    if task == "mask-generation":
        points, labels, boxes = on(POINTS), on(POINT_LABELS), on(BOXES)
        results = (
            model(pictures, points, labels), model(pictures, boxes=boxes, several=False),
            model(pictures, points, labels, boxes),
        )  # fmt: skip
        return [part for result in results for part in result]
    if hasattr(model, "prompt_of"):  # that reads phrases
        ids = on(PHRASES)
        logits, boxes = model(pictures, ids, ids != 0)
        return [logits.clamp(min=-50), boxes]
    if isinstance(model, Sam3):
        shown, kinds = on(SHOWN_BOXES), on(SHOWN_KINDS)
        texts = model.text_features(on(TOKENS))
        return [*model.found(pictures, texts), *model.found(pictures, texts, shown, kinds)]
    if getattr(model.config, "prompted", False):  # with depths that were measured
        return [model(pictures), model(pictures, on(DEPTHS))]
    model = with_prompt(model)
    found = model(pictures, on(TOKENS)) if task in WITH_TOKENS else model(pictures)
    return list(found) if isinstance(found, tuple) else [found]


CASES = [
    (name, task) for name in CONFIGS for task in TASKS[MODEL_TYPES[CONFIGS[name]["model_type"]]]
    if task not in ("image-text-to-text", "mask-tracking")  # test_tracks.py has the latter
]  # fmt: skip


@pytest.mark.parametrize(("name", "task"), fewer_in_browser(CASES, every=2))
def test_outputs_and_gradients_are_those_of_transformers(name: str, task: str) -> None:
    model, expected = make(name, task).requires_grad_(), golden(name)[task]
    own, stored = dict(model.named_parameters(remove_duplicate=False)), stored_names(name, task)
    found = {file: own[key] for key, file in in_file(name, task).items() if key in own}
    assert {key: list(found[key].shape) for key in stored if key in found} == {
        key: shape for key, (shape, _) in stored.items()
    }
    assert {id(found[key]) for key in stored} == {id(parameter) for parameter in model.parameters()}
    results, total = [], pyapp.zeros(())
    for size in sizes(name):
        for part in run(model, task, size):
            results.append(part.detach().numpy())
            total = total + along(part, task)
    for values, wanted in zip(results, expected["outputs"], strict=True):
        np.testing.assert_allclose(shown(values), wanted, atol=1e-4, rtol=1e-4)
    total.backward()
    for key, (_, product) in stored.items():
        parameter = found[key]
        grad = np.zeros(parameter.shape) if parameter.grad is None else parameter.grad.numpy().astype(np.float64)
        np.testing.assert_allclose(
            (grad * direction(key, grad.shape)).sum(), product, rtol=2e-3, atol=5e-3, err_msg=key
        )
    with pyapp.no_grad():
        again = [part.numpy() for size in sizes(name) for part in run(model, task, size)]
    for values, wanted in zip(again, expected["outputs"], strict=True):
        np.testing.assert_allclose(shown(values), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "name",
    ["trocr", "trocr_small", "vit_gpt2", "manga_ocr", "donut", "blip", "git", "blip2_t5", "instructblip", "florence2"],
)
def test_texts_are_those_of_transformers(name: str) -> None:
    model, pictures = make(name, "image-to-text"), pyapp.from_numpy(picture(2, *sizes(name)[0]))
    for beams, expected in golden(name)["image-to-text"]["texts"].items():
        config = {"decoder_start_token_id": 2, "eos_token_id": 5, "num_beams": int(beams), "max_new_tokens": 8}
        *_, found = search(with_prompt(model), pictures, None, SearchOptions.from_files(config, {}, {}))
        assert found == expected
    if model.pixels is None:
        return
    with pytest.raises(ArgumentError, match="takes 12 x 12"):
        list(search(model, pyapp.zeros(1, 3, 12, 16), None, SearchOptions.from_files(config, {}, {})))


def test_answers_of_git_are_those_of_transformers() -> None:
    model, pictures = make("git", "image-to-text", bos_token_id=PROMPT[0]), picture(2, *sizes("git")[0])
    asked = model.prompted("what", lambda _: PROMPT[1:-1])
    for beams, expected in golden("git")["image-to-text"]["answers"].items():
        generation = asked.generation | {"eos_token_id": 5, "num_beams": int(beams), "max_new_tokens": 8}
        settings = SearchOptions.from_files(generation, {}, {})
        *_, found = search(asked, pyapp.from_numpy(pictures), None, settings)
        assert found == expected
    with pytest.raises(OptionError, match="15 tokens, the model reads 14"):
        model.prompted("what", lambda _: [7] * 15)


def test_vision_transformers_of_open_clip() -> None:
    """The scores of OpenCLIP's own program, by its files (make_golden_open_clip.py)."""
    config = OPEN_CLIP["model_cfg"]
    expected = json.loads(Path(__file__).with_name("golden_open_clip.json").read_text())
    tensors = {
        name: pyapp.from_numpy(picture_weights(name, tuple(shape))) for name, shape in expected["tensors"].items()
    }
    file = io.BytesIO()
    write_safetensors(file, tensors)
    settings = open_clip.settings_of(OPEN_CLIP, "test")
    with open_checkpoint(file.getvalue()) as checkpoint:
        model: Any = build(checkpoint, settings, "zero-shot-image-classification")
    side = config["vision_cfg"]["image_size"]
    with pyapp.no_grad():
        scores = model(pyapp.from_numpy(picture(2, side, side)), pyapp.tensor(TOKENS))
    np.testing.assert_allclose(scores.numpy().reshape(-1), expected["scores"], rtol=1e-4, atol=1e-4)
    for part, changed in (
        ("vision_cfg", {"pool_type": "avg"}), ("vision_cfg", {"magic": 1}), ("vision_cfg", {"width": "wide"}),
        ("vision_cfg", {"head_width": 0}), ("text_cfg", {"hf_model_name": "bert"}), ("text_cfg", {"width": None}),
    ):  # fmt: skip
        with pytest.raises(ModelError):
            other = config | {part: config[part] | changed}
            module_of("clip").Config.from_dict(open_clip.settings_of(OPEN_CLIP | {"model_cfg": other}, "test"))


def wide(values: Any) -> Any:
    """A configuration whose rows are whole blocks."""
    wider = dict.fromkeys(("hidden_size", "d_model", "cross_attention_hidden_size", "reassemble_hidden_size"), 32)
    wider |= {"decoder_attention_heads": 4, "projection_dim": 32}
    if not isinstance(values, dict):
        return values
    return {key: wider.get(key, wide(value)) if value is not None else value for key, value in values.items()}


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_weights_run(name: str) -> None:
    """Rows of 32 columns and more are quantised; the result stays near."""
    task = TASKS[MODEL_TYPES[CONFIGS[name]["model_type"]]][-1]
    model = make(name, task, **wide(CONFIGS[name]))
    with pyapp.no_grad():
        exact = run(model, task, sizes(name)[0])[0].numpy()
        assert nn.quantize(model, "q8_0")
        found = run(model, task, sizes(name)[0])[0].numpy()
    assert 0 < np.abs(found - exact).max() < 0.2 * np.abs(exact).max()


def test_pictures_that_do_not_fit_are_refused() -> None:
    for name, shape, message in (
        ("vit", (1, 3, 12, 12), "takes 12 x 8"), ("vit", (1, 1, 12, 8), r"\(B, 3, H, W\)"),
        ("vit", (3, 12, 8), r"\(B, 3, H, W\)"), ("vit", (0, 3, 12, 8), r"\(B, 3, H, W\)"),
        ("dinov2", (1, 3, 12, 3), "from 4 pixels"), ("d_fine", (1, 3, 64, 88), "half the sides"),
        ("deformable_detr_two_stage", (1, 3, 8, 8), "make it larger"),
        ("depth_pro", (1, 3, 24, 28), "squares from 24"), ("glpn", (1, 3, 32, 40), "multiples of 16"),
        ("convnext", (1, 3, 16, 15), "from 16 pixels"), ("videomae", (1, 3, 3, 12, 8), r"\(B, 4, 3, 12, 8\)"),
        ("vjepa2", (1, 3, 12, 12), r"\(B, 4, 3, 12, 12\)"), ("pvt_v2", (1, 3, 8, 7), "from 8 pixels"),
        ("poolformer", (1, 3, 7, 8), "from 8 pixels"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):  # the user's mistake, not one of pyapp's
            make(name, TASKS[MODEL_TYPES[CONFIGS[name]["model_type"]]][0])(pyapp.zeros(*shape))
    with pytest.raises(InputError, match="has 120 places, 300 are needed"):
        make("d_fine", "object-detection", num_queries=300)(pyapp.zeros(1, 3, 64, 96))


def test_settings_of_swin2sr_that_are_refused() -> None:
    for change in ({"patch_size": 2}, {"use_absolute_embeddings": True}, {"num_channels": 1}, {"num_channels_out": 4},
                   {"upsampler": "magic"}, {"upscale": 5}, {"num_heads": [3]}, {"num_heads": [2, 2]}, {"depths": []},
                   {"window_size": 0}, {"window_size": 1 << 12}, {"embed_dim": 1 << 20}, {"img_range": 0},
                   {"resi_connection": "2conv"}, {"mlp_ratio": 100.0}, {"image_size": 0}):  # fmt: skip
        with pytest.raises(ModelError, match=next(iter(change))):
            make("swin2sr_light", "image-to-image", **change)
    with pytest.raises(ArgumentError, match="from 4 pixels"):
        make("swin2sr_light", "image-to-image")(pyapp.zeros(1, 3, 8, 1))


def test_a_feed_forward_part_without_a_width_is_refused() -> None:
    with pytest.raises(ModelError, match="mlp_ratio is -1"):
        make("dinov2", "image-features", mlp_ratio=-1)


@pytest.mark.parametrize("name", ["convnext", "resnet"])
def test_hostile_lists_are_refused(name: str) -> None:
    for change in ({"depths": [1, 2]}, {"depths": [1, 2, 0]}, {"hidden_sizes": [8, 12, 10**9]}, {"hidden_sizes": []},
                   {"depths": 3}, {"hidden_sizes": ["8", 12, 32]},
                   {"patch_size": 10**6, "num_channels": 10**6}):  # fmt: skip
        with pytest.raises(ModelError):
            module_of(name).Config.from_dict(CONFIGS[name] | change)


@pytest.mark.parametrize("name", CONFIGS)
def test_hostile_configurations_are_refused(name: str) -> None:
    config = CONFIGS[name]
    fields = "num_attention_heads", "decoder_attention_heads", "image_size", "hidden_size", "d_model"
    parts = "encoder", "decoder", "vision_config", "text_config", "mask_decoder_config", "backbone_config"
    for part in [part for part in parts if {*fields} & {*config.get(part, ())}] or [""]:
        own = config[part] if part else config
        for field in fields:
            if field not in own:
                continue
            for value in (7, 10**12, "many", -1, 0, [1, 2, 3]):
                if value == [1, 2, 3] and name.startswith("levit"):  # a number for each stage
                    continue
                if value == 7 and (field == "image_size" or (name, field) in NO_HEADS):
                    continue
                changed = own | {field: value}
                with pytest.raises(ModelError):
                    module_of(name).Config.from_dict(config | {part: changed} if part else changed)
    if name == "florence2":
        tower = config["vision_config"]
        for field, wrong in (
            ("depths", ([1], [1, 0], [1, 10**9], "many", [1, 1.5])), ("embed_dim", ([8, 13], [8, 10**9], [], [8])),
            ("patch_prenorm", ([1, 0], [True], "many")), ("patch_stride", ([2, 0], [2, -1], [10**9, 1])),
            ("window_size", (0, -1, 65, 10**12, "many")), ("projection_dim", (8, 10**12)), ("mlp_ratio", (0.0, 1e9)),
        ):  # fmt: skip
            for value in wrong:
                with pytest.raises(ModelError):
                    module_of(name).Config.from_dict(config | {"vision_config": tower | {field: value}})
        for value in (None, 3, {"model_type": "t5"}):
            with pytest.raises(ModelError, match="text_config"):
                module_of(name).Config.from_dict(config | {"text_config": value})
    if "encoder" in config:
        for value in (None, 3, {"model_type": "bert"}, {}, {"model_type": ["vit"]}):
            with pytest.raises(ModelError, match="encoder"):
                module_of(name).Config.from_dict(config | {"encoder": value})


def test_names_of_timms_networks() -> None:
    """Detectors of older files have the names of timm's library (saved by it: resnet18 and resnet50)."""
    before = "model.backbone.conv_encoder.model."
    for old, new in (
        ("conv1.weight", "embedder.embedder.convolution.weight"),
        ("bn1.running_var", "embedder.embedder.normalization.running_var"),
        ("layer2.0.conv1.weight", "encoder.stages.1.layers.0.layer.0.convolution.weight"),
        ("layer4.1.bn3.bias", "encoder.stages.3.layers.1.layer.2.normalization.bias"),
        ("layer2.0.downsample.0.weight", "encoder.stages.1.layers.0.shortcut.convolution.weight"),
        ("layer2.0.downsample.1.running_mean", "encoder.stages.1.layers.0.shortcut.normalization.running_mean"),
    ):
        assert module_of("detr").renamed(before + old) == before + new
    assert module_of("detr").renamed("model.encoder.layers.0.fc1.bias") == "model.encoder.layers.0.fc1.bias"


def test_backbones_of_detectors() -> None:
    config = {key: value for key, value in CONFIGS["detr"].items() if key != "backbone_config"}
    read = module_of("detr").Config.from_dict
    assert read(config | {"backbone": "resnet34"}).backbone.depths == (3, 4, 6, 3)
    given = {"model_type": "timm_backbone", "backbone": "resnet101.a1_in1k"}
    assert read(config | {"backbone_config": given}).backbone.depths == (3, 4, 23, 3)
    assert read(read(config).to_dict()) == read(config)
    both = module_of("deformable_detr").Config  # as older files describe it, and as they are written
    assert both.from_dict({"use_timm_backbone": True, "backbone": "resnet50"}).stages == (1, 2, 3)
    assert both.from_dict({"backbone": "resnet50", "num_feature_levels": 1}).stages == (3,)
    assert both.from_dict(CONFIGS["deformable_detr"]).stages == (1, 2)
    for name in ("deformable_detr", "dab_detr", "rt_detr_v2", "d_fine", "grounding_dino", "mm_grounding_dino"):
        small = module_of(name).Config.from_dict(CONFIGS[name])
        assert module_of(name).Config.from_dict(small.to_dict()) == small, name
    for change, message in (
        ({"backbone": "efficientnet_b0"}, "efficientnet_b0"), ({"backbone_config": {"model_type": "swin"}}, "swin"),
        ({"dilation": True}, "dilation"), ({"backbone_config": []}, "not known"),
        ({"backbone_config": {"model_type": "resnet", "out_features": ["stage2"]}}, "out_features"),
        ({"position_embedding_type": "learned"}, "learned"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=message):
            read(config | change)


def test_the_layers_of_sam_have_half_the_channels_whatever_the_last_has() -> None:
    decoder = CONFIGS["sam"]["mask_decoder_config"] | {"attention_downsample_rate": 4}
    model = module_of("sam").TASKS["mask-generation"](
        module_of("sam").Config.from_dict(CONFIGS["sam"] | {"mask_decoder_config": decoder})
    )
    found = {key: tuple(value.shape) for key, value in model.mask_decoder.transformer.named_parameters()}
    assert found["layers.0.cross_attn_token_to_image.q_proj.weight"] == (4, 8)
    assert found["final_attn_token_to_image.q_proj.weight"] == (2, 8)


def test_parts_that_contradict_each_other_are_named() -> None:
    for name, change, message in (
        ("sam", {"prompt_encoder_config": CONFIGS["sam"]["prompt_encoder_config"] | {"image_size": 24}}, "image_size"),
        ("sam", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("glpn", {"strides": [4, 2, 3]}, "half as large"),
        ("glpn", {"head_in_index": 3}, "of 3 maps"),
        ("segformer", {"num_encoder_blocks": 2}, "num_encoder_blocks is 2"),
        ("vit", {"pooler_act": "cosine"}, "'cosine'"),
        ("sam3", {"vision_config": {"fpn_hidden_size": 16, "scale_factors": [3, 1]}}, "scale_factors"),
        ("sam3", {"detr_encoder_config": {"hidden_size": 24}}, "fpn_hidden_size is 16"),
        ("sam3", {"detector_config": [1]}, "detector_config"),
        ("bit", {"num_groups": 3}, "num_groups 3"),
        ("bit", {"global_padding": "valid"}, "global_padding"),
        ("focalnet", {"focal_windows": [3, 4]}, "focal_windows"),
        ("swiftformer", {"downsamples": [1, 0, 1]}, "downsamples"),
        ("aimv2", {"vision_config": {"use_head": False}}, "without use_head"),
        ("aimv2", {"max_logit_scale": 0.5}, "max_logit_scale"),
        ("aimv2", {"max_logit_scale": 10**400}, "max_logit_scale"),
        ("aimv2_native", {"hidden_size": 18, "num_attention_heads": 3}, "multiple of 4"),
        ("cvt", {"stride_q": [1, 1, 2]}, "change the size"),
        ("cvt", {"cls_token": [True, False, True]}, "stage 1 has a cls_token"),
        ("cvt", {"cls_token": [False] * 3}, "the last stage has no cls_token"),
        ("cvt", {"qkv_bias": [True]}, "qkv_bias has 1 stages"),
        ("pvt", {"strides": [8, 2]}, "does not fit"),
        ("pvt", {"sequence_reduction_ratios": [1, 2]}, "of the last stage"),
        ("pix2struct", {"vision_config": {"patch_embed_hidden_size": 50}}, "patch_embed_hidden_size is 50"),
        ("pix2struct", {"text_config": {"num_heads": 5, "d_kv": 3, "hidden_size": 16}}, "5 heads of 3 numbers"),
        ("clipseg", {"extract_layers": [0, 3]}, "extract_layers"),
        ("clipseg", {"reduce_dim": 7}, "reduce_dim 7"),
        ("clipseg", {"conditional_layer": 2}, "conditional_layer"),
        ("owlv2", {"projection_dim": 8}, "projection_dim is 8"),
        ("rt_detr_v2", {"decoder_method": "most"}, "'most'"),
        ("rt_detr_v2", {"decoder_n_levels": 3}, "decoder_n_levels is 3"),
        ("d_fine", {"eval_idx": 0}, "eval_idx is 0"),
        ("d_fine", {"decoder_n_points": [2, 0]}, "decoder_n_points"),
        ("d_fine", {"max_num_bins": 7}, "max_num_bins is 7"),
        ("d_fine", {"backbone_config": {"model_type": "resnet"}}, "Known: hgnet_v2|'resnet'"),
        ("hgnet_v2", {"stage_in_channels": [8, 9, 12]}, r"but the parts before the stages have \[8, 10, 12\]"),
        ("hgnet_v2", {"stage_light_block": [False, 1, True]}, "stage_light_block"),
        ("hgnet_v2", {"stage_kernel_size": [3, 4, 5]}, "odd"),
        ("conditional_detr", {"auxiliary_loss": True}, "auxiliary_loss"),
        ("lw_detr", {"projector_scale_factors": [3.0]}, "projector_scale_factors"),
        ("lw_detr", {"projector_scale_factors": []}, "projector_scale_factors"),
        ("lw_detr", {"backbone_config": {"num_windows": 5}}, "num_windows is 5"),
        ("lw_detr", {"backbone_config": {"window_block_indices": [12]}}, "window_block_indices"),
        ("lw_detr", {"backbone_config": {"model_type": "vit"}}, "'vit' is not known"),
        ("videomae", {"tubelet_size": 5}, "tubelet_size is 5, of 4 frames"),
        ("videomae", {"num_frames": 10**9}, "num_frames"),
        ("vivit", {"tubelet_size": [2, 4]}, "tubelet_size"),
        ("vivit", {"tubelet_size": [8, 4, 4]}, "tubelet_size is 8, of 4 frames"),
        ("timesformer", {"attention_type": "space_only"}, "'space_only'"),
        ("vjepa2", {"hidden_size": 20}, "heads of 5 features"),
        ("vjepa2", {"mlp_ratio": 0.0}, "mlp_ratio"),
        ("vjepa2", {"num_pooler_layers": 2**31 - 1}, "from 1 to 1,024"),
        ("mobileclip", {"vision_config": [1]}, "vision_config"),
        ("vjepa2", {"crop_size": [12, 8]}, "not a square"),
        ("swinv2", {"window_size": 257}, "window_size is 257"),
        ("swinv2", {"image_size": 2}, "no places for 2 stages"),
        ("swinv2", {"pretrained_window_sizes": [3, -1]}, "pretrained_window_sizes"),
        ("swinv2", {"num_heads": [3, 3]}, "3 num_heads do not divide"),
        ("pvt_v2", {"sr_ratios": [2]}, "sr_ratios"),
        ("pvt_v2", {"num_attention_heads": [1, 5]}, "5 num_attention_heads"),
        ("pvt_v2", {"num_encoder_blocks": 3}, "num_encoder_blocks is 3"),
        ("poolformer", {"pool_size": 2}, "pool_size is 2"),
        ("poolformer", {"strides": [4, 0]}, "strides"),
        ("poolformer", {"padding": [2, -1]}, "padding"),
        ("mobilevit", {"hidden_sizes": [8, 12]}, "hidden_sizes"),
        ("mobilevit", {"hidden_sizes": [8, 12, 9]}, "does not divide the hidden size 9"),
        ("mobilevit", {"output_stride": 7}, "output_stride is 7"),
        ("mobilevit", {"expand_ratio": -1.0}, "expand_ratio"),
        ("dinov3_convnext", {"depths": [1]}, "1 depths"),
        ("dab_detr", {"query_dim": 2}, "query_dim"),
        ("dab_detr", {"temperature_width": 10}, "temperature_width is 10"),
        ("dab_detr", {"num_patterns": 65}, "num_patterns is 65"),
        ("deformable_detr", {"d_model": 48}, "d_model is 48"),
        ("deformable_detr", {"num_feature_levels": 1}, "num_feature_levels is 1"),
        ("deformable_detr", {"two_stage": True, "with_box_refine": False}, "two_stage"),
        ("deformable_detr", {"decoder_n_points": 65}, "decoder_n_points"),
        ("blip2_t5", {"qformer_config": {"use_qformer_text_input": True}}, "use_qformer_text_input"),
        ("instructblip", {"qformer_config": {"vocab_size": 4, "pad_token_id": 4}}, "pad_token_id is 4"),
        ("grounding_dino", {"d_model": 48}, "d_model is 48"),
        ("grounding_dino", {"num_feature_levels": 1}, "num_feature_levels is 1"),
        ("grounding_dino", {"encoder_ffn_dim": 26}, "encoder_ffn_dim 26"),
        ("grounding_dino", {"two_stage": False}, "two_stage"),
        ("grounding_dino", {"text_config": {"model_type": "roberta"}}, "'roberta'"),
        ("grounding_dino", {"backbone_config": {"model_type": "swin", "out_indices": [2, 5]}}, "out_features"),
        (
            "siglip",
            {"vision_config": CONFIGS["siglip"]["vision_config"] | {"vision_use_head": False}},
            "vision_use_head",
        ),
        ("depth_anything", {"backbone_config": {"model_type": "swin"}}, "'swin' is not known"),
        ("depth_anything", {"patch_size": 8}, r"patch_size is \(8, 8\), the backbone's patch_size \(4, 4\)"),
        ("depth_anything", {"neck_hidden_sizes": [6]}, "neck_hidden_sizes"),
        ("depth_anything", {"reassemble_factors": [4, 2, 1, 0.4]}, "reassemble_factors"),
        ("depth_anything", {"head_in_index": 4}, "head_in_index is 4, of 4 maps"),
        ("depth_anything", {"depth_estimation_type": "far"}, "'far'"),
        ("zoedepth", {"bin_configurations": [{"n_bins": 5, "min_depth": 2, "max_depth": 1}]}, "bin_configurations"),
        ("zoedepth", {"backbone_config": {"model_type": "swin"}}, "'swin' is not known"),
        ("vitpose", {"backbone_config": CONFIGS["vitpose"]["backbone_config"] | {"out_indices": [1]}}, "out_indices"),
        ("vitpose", {"backbone_config": {"model_type": "vit"}}, "'vit' is not known"),
        ("vitpose", {"scale_factor": 17}, "scale_factor"),
        ("zoedepth", {"attractor_kind": "most"}, "'most'"),
        ("zoedepth_heads", {"patch_transformer_hidden_size": 64}, "patch_transformer_hidden_size"),
        ("depth_pro", {"image_model_config": {"model_type": "swin"}}, "'swin' is not known"),
        ("depth_pro", {"scaled_images_ratios": [1, 0.5]}, "scaled_images_ratios"),
        ("depth_pro", {"scaled_images_overlap_ratios": [0.0, 1.0]}, "overlap"),
        ("depth_pro", {"intermediate_hook_ids": [3, 0]}, "intermediate_hook_ids"),
        ("depth_pro", {"patch_size": 10**9}, "patch_size|image_size"),
        *(
            ("depth_anything", {"backbone_config": CONFIGS["depth_anything"]["backbone_config"] | change}, message)
            for change, message in (
                ({"out_indices": [0, 1, 2, 4]}, "out_indices"),
                ({"out_indices": None}, "out_indices is None"),
                ({"out_indices": None, "out_features": ["stage9"]}, "stage9"),
            )
        ),
    ):
        with pytest.raises(ModelError, match=message):
            make(name, next(iter(golden(name))), **change)


@pytest.mark.native_only  # imports every model
def test_the_usual_processors_are_known() -> None:
    found = {kind: usual_processor(kind) for kind in (*MODEL_TYPES, *SEEING)}
    assert {kind for kind, name in found.items() if name is not None and name not in KINDS} == set()
    assert found["bert"] is None and found["sam2_video"] == "Sam2" and found["siglip2"] == "Siglip2"
    assert {kind for kind in SEEING if found[kind] is None} == set()


def test_radios_features_are_those_of_some_class_tokens() -> None:
    model = make("radio", "image-features", summary_idxs=[2, 0])
    with pyapp.no_grad():
        x = model(pyapp.from_numpy(picture(2, 12, 16)))
    expected = np.concatenate([x.numpy()[:, 2], x.numpy()[:, 0]], 1)
    np.testing.assert_array_equal(model.pooled(x).numpy(), expected)
    with pytest.raises(InputError, match="multiples of 4"):
        model(pyapp.zeros(1, 3, 12, 14))
    for change in ({"summary_idxs": [3]}, {"norm_mean": [0.5]}, {"max_img_size": 2}, {"use_swiglu_ffn": True}):
        with pytest.raises(ModelError):
            make("radio", "image-features", **change)
