"""Language models that see pictures against transformers (make_golden_picture_texts.py): names, logits, gradients and
the tokens that they write; quantised weights; another device; configurations that cannot be.
"""

from __future__ import annotations

import importlib
import itertools
import re
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ArgumentError, ModelError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.models._index import SEEING
from pyapp.models.load import read_model
from pyapp.models.loading.stored import ignored_by
from pyapp.nn.vision_language.picture_text import Seen, grid_positions, stretches
from tests.mirror import device as _device  # noqa: F401 (registers the mirror)
from tests.models.picture_text_configs import (
    ANY_SIZE,
    CONFIGS,
    GRIDS,
    IMAGE,
    LOWEST,
    OTHER_DEVICE,
    QUANTISED,
    TILED,
    TOGETHER,
    tokens,
)
from tests.models.seeded import direction, picture, picture_weights, shown
from tests.models.small_models import along, golden_in
from tests.together import fewer_in_browser

golden = golden_in("golden_picture_texts")


def stack_of(name: str) -> tuple[str, int | None, str]:
    """The parameter in which a file's tensor is, and of a matrix of an expert alone its number and its name."""
    apart = re.fullmatch(r"(.+\.experts)\.(\d+)\.(gate|up|down)_proj\.weight", name)
    if apart is None:
        return name, None, ""
    return f"{apart[1]}.{'down' if apart[3] == 'down' else 'gate_up'}_proj", int(apart[2]), apart[3]


def part_of(tensors: dict[str, Any], name: str) -> Any:
    """A file's tensor, of those by the names of parameters."""
    stack, expert, part = stack_of(name)
    if expert is None:
        return tensors[name]
    matrix, half = tensors[stack][expert], tensors[stack].shape[1] // 2
    return matrix if part == "down" else matrix[:half] if part == "gate" else matrix[half:]


def module_of(name: str) -> Any:
    return importlib.import_module(f"pyapp.models.{SEEING[CONFIGS[name]['model_type']]}")


def make(name: str) -> Any:
    """The model with the weights of its golden file."""
    module = module_of(name)
    model = module.TASKS["image-text-to-text"](module.Config.from_dict(CONFIGS[name]))
    found = dict(model.named_parameters(remove_duplicate=False))
    with pyapp.no_grad():
        for key, (shape, _) in golden(name)["parameters"].items():
            value = pyapp.from_numpy(picture_weights(key, tuple(shape)))
            own = part_of(found, module.renamed(key))
            value = value if value.ndim == own.ndim else value.reshape(own.shape)
            own.copy_(value if value.shape == own.shape else value.transpose(1, 2))
    return model.eval()


def exported(model: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Tensors by the names of parameters as files have them."""
    found: dict[str, Any] = model.exported(tensors) if hasattr(model, "exported") else tensors
    return found


def inputs(name: str, model: Any) -> tuple[pyapp.Tensor, pyapp.Tensor, pyapp.Tensor]:
    """(two texts with a picture each, the pictures, the mask of padding)."""
    size = tuple(8 * n for n in GRIDS[name]) if name in GRIDS else ANY_SIZE.get(name) or model.pixels
    (high, wide), given = TILED.get(name, (GRIDS.get(name, (0, 0)), (1, 1)))
    together = TOGETHER.get(name, ())
    rows, count = tokens(
        name, len(together) or (high * wide if name in GRIDS else model.tokens_in(high, wide, given))
    )  # fmt: skip
    ids = pyapp.tensor(rows, dtype="int32").to(model.device)
    tiles = high * wide + 1 if name in TILED else 1
    if together:
        tiles = sum(prod(model.tiles_of(own)) for own in together)
    return ids, pyapp.from_numpy(picture(count * tiles, *size)).to(model.device), ids != 0


def sizes(name: str, count: int) -> list[tuple[int, int]] | None:
    """Those of pictures with tiles."""
    if name in TOGETHER:
        return [*TOGETHER[name]] * count
    return [TILED[name][1]] * count if name in TILED else None


@pytest.mark.parametrize("name", fewer_in_browser(CONFIGS, 2))
def test_logits_and_gradients_are_those_of_transformers(name: str) -> None:
    model, expected, renamed = make(name).requires_grad_(), golden(name), module_of(name).renamed
    found = dict(model.named_parameters(remove_duplicate=False))
    stored = expected["parameters"]
    there = exported(model, found)
    assert {key: list(part_of(there, renamed(key)).shape) for key in stored} == {
        key: shape for key, (shape, _) in stored.items()
    }
    assert {id(found[stack_of(renamed(key))[0]]) for key in stored} == {
        id(parameter) for parameter in model.parameters()
    }
    ids, pictures, mask = inputs(name, model)
    logits = model(ids, mask, pictures, sizes(name, 2)).clamp(min=LOWEST) * mask.unsqueeze(-1)
    np.testing.assert_allclose(shown(logits.detach().numpy(), 96), expected["outputs"], atol=1e-4, rtol=1e-4)
    along(logits, name).backward()
    grads = {
        key: pyapp.zeros(*parameter.shape) if parameter.grad is None else parameter.grad
        for key, parameter in found.items()
    }
    grads = exported(model, grads)
    for key, (_, product) in stored.items():
        if key.endswith("e_score_correction_bias"):  # which gets no gradient, and is a buffer there
            continue
        grad = part_of(grads, renamed(key)).numpy().astype(np.float64)
        np.testing.assert_allclose(
            (grad * direction(key, grad.shape)).sum(), product, rtol=4e-3, atol=2e-3, err_msg=key
        )


def written(model: Any, name: str, count: int, cache_type: str = "float32") -> tuple[list[int], np.ndarray]:
    """(greedy tokens after the first text, read by the cache in three passes, or in one; the first logits)."""
    ids, pictures, _ = inputs(name, model)
    row = ids.tolist()[0]
    position, found, first = 0, [], None
    apart = sum(model.vectors_in(*model.tiles_of(own))[1] for own in TOGETHER.get(name, ()))
    text = model.new_cache(max(len(row) + count + 1, apart), cache_type)
    with pyapp.no_grad():
        features = model.vectors_of(pictures[: len(pictures) // 2], sizes(name, 1))
        [(start, stop)] = stretches(row, IMAGE)
        ends = (0, len(row)) if model.whole_prompt else (0, start - 1, stop + 2, len(row))
        ends = (0, stop, len(row)) if model.pictures_ahead else ends
        counts = [model.vectors_in(*model.tiles_of(own)) for own in TOGETHER.get(name, ())]
        for begin, end in itertools.pairwise(ends):
            part = int32_tensor(row[begin:end], model.device)
            rotary_positions = grid_positions(len(row), [(start, *GRIDS[name])])[begin:end] if model.sections else []
            seen = Seen(None, rotary_positions=rotary_positions)
            if begin < start < end:
                spans = [(0, end) if model.whole_prompt else (start, stop)]
                seen = Seen(features, range(start - begin, stop - begin), spans, rotary_positions, counts)
            logits = model.forward_cached(
                part, int32_tensor([begin], model.device), text, seen=seen, first=begin
            )  # fmt: skip
        position = len(row)
        while len(found) < count:
            first = logits.cpu().numpy() if first is None else first
            found.append(int(logits.reshape(-1).argmax()))
            logits = model.forward_cached(
                int32_tensor(found[-1:], model.device), int32_tensor([position], model.device), text
            )
            position += 1
    assert first is not None
    return found, first


@pytest.mark.parametrize("name", fewer_in_browser(CONFIGS, 2))
def test_tokens_through_the_cache_are_those_of_transformers(name: str) -> None:
    expected = golden(name)["tokens"]
    assert written(make(name), name, len(expected))[0] == expected


@pytest.mark.parametrize("kind", ["float16", "q8_0"])
def test_caches_of_other_types(kind: str) -> None:
    model = make("gemma3")
    exact, rounded = (written(model, "gemma3", 1, kind)[1] for kind in ("float32", kind))
    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_weights_run(name: str) -> None:
    """Rows of 32 columns and more are quantised; the result stays near."""
    model = make(name)
    with pyapp.no_grad():
        ids, pictures, mask = inputs(name, model)
        exact = (model(ids, mask, pictures, sizes(name, 2)).clamp(min=LOWEST) * mask.unsqueeze(-1)).numpy()
        assert nn.quantize(model, "q8_0")
        found = (model(ids, mask, pictures, sizes(name, 2)).clamp(min=LOWEST) * mask.unsqueeze(-1)).numpy()
        assert 0 < np.abs(found - exact).max() < 0.2 * np.abs(exact).max()
        model.dequantize()
        again = (model(ids, mask, pictures, sizes(name, 2)).clamp(min=LOWEST) * mask.unsqueeze(-1)).numpy()
    assert 0 < np.abs(again - exact).max() < 0.2 * np.abs(exact).max()


@pytest.mark.parametrize("name", OTHER_DEVICE)
def test_another_device_gives_the_same(name: str) -> None:
    model = make(name)
    expected = written(model, name, 6)
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.to("mirror")
    found = written(model, name, 6)
    assert str(model.device) == "mirror" and found[0] == expected[0]
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)


@pytest.mark.parametrize("name", fewer_in_browser(CONFIGS, 2))
def test_hostile_configurations_are_refused(name: str) -> None:
    config = CONFIGS[name]
    number = "image_token_id" if "image_token_id" in config else "image_token_index"
    changes: list[dict[str, Any]] = [
        {number: "many"}, {number: -1},
    ]  # fmt: skip
    if "text_config" in config:
        changes += [
            {"text_config": 3}, {"text_config": config["text_config"] | {"model_type": "t5"}},
            {"text_config": config["text_config"] | {"model_type": ["llama"]}},
        ]  # fmt: skip
    if name != "fuyu" and "vision_config" in config:
        changes += [
            {"vision_config": []}, {"vision_config": config["vision_config"] | {"model_type": "vivit"}},
            {"vision_config": config["vision_config"] | {"model_type": {}}},
        ]  # fmt: skip
    if name in ("mistral3", "lighton_ocr", "pixtral"):
        for one in (
            {"patch_size": 10**12}, {"image_size": 0}, {"head_dim": 4}, {"num_attention_heads": 8},
            {"rope_parameters": 3}, {"rope_parameters": {"rope_theta": -1.0}}, {"patch_size": [4, 8]},
        ):  # fmt: skip
            changes.append({"vision_config": config["vision_config"] | one})
        changes.append({"text_config": {"model_type": "gpt2"}})
        if name == "pixtral":
            changes.append({"vision_feature_select_strategy": "default"})
        else:
            changes += [{"spatial_merge_size": value} for value in (0, -1, "many", 10**12, 0.5)]
            changes.append({"vision_feature_layer": [-1, 1]})
    elif name == "kosmos2":
        changes += [{"latent_query_num": 0}, {"text_config": config["text_config"] | {"add_cross_attention": True}}]
    elif name == "vipllava":
        changes += [{"vision_feature_layer": [-4]}, {"projector_layernorm_eps": 2.0}, {"projector_layernorm_eps": "x"}]
    elif name == "janus":
        for own in (
            {"mlp_ratio": 0},
            {"depth": 10**6},
            {"use_qk_norm": True},
            {"projection_dim": 16},
            {"hidden_size": 10**400},
        ):
            changes.append({"vision_config": config["vision_config"] | own})
    elif name == "lfm2_vl":
        changes += [{"downsample_factor": value} for value in (0, "many", 10**12)]
        changes += [{"projector_hidden_size": value} for value in (0, -1, 10**12, "many")]
        changes += [{"tie_word_embeddings": 3}, {"vision_config": config["vision_config"] | {"num_patches": 48}}]
    elif name == "fast_vlm":
        changes += [{"vision_feature_layer": -2}, {"vision_feature_select_strategy": "default"}]
        for own in ({"architecture": "resnet18"}, {"architecture": 3}, {"model_args": 3}, {"image_size": 0},
                    {"model_args": {"layers": [1]}}):  # fmt: skip
            changes.append({"vision_config": config["vision_config"] | own})
    elif name.startswith("gemma4"):
        for field in ("patch_size", "pooling_kernel_size", "head_dim", "num_key_value_heads", "mm_embed_dim"):
            for value in (10**12, "many", -1, 0, [1]):
                if field in config["vision_config"]:
                    changes.append({"vision_config": config["vision_config"] | {field: value}})
        changes.append({"text_config": config["text_config"] | {"use_bidirectional_attention": "all"}})
    elif name.startswith("chameleon"):
        sees, names = config["vq_config"], config["vocabulary_map"]
        changes = [{"vocabulary_map": value} for value in (3, {}, names | {"<image>": "many"}, names | {"<image>": -1})]
        changes += [{"vocabulary_map": names | {"IMGIMGBZ": value}} for value in ("many", -1, 96, 10**12)]
        for field, values in {
            "base_channels": (0, 31, 10**12, "many"), "channel_multiplier": ([], [0], ["a"], [1] * 9, 3),
            "num_embeddings": (0, 10**12, 2000), "double_latent": (True,), "attn_resolutions": ([4],),
            "resolution": (0, 17, 10**12), "in_channels": (1,), "latent_channels": (10**12,),
            "num_res_blocks": (10**9,), "embed_dim": (0, 10**12),
        }.items():  # fmt: skip
            changes += [{"vq_config": sees | {field: value}} for value in values]
        for field in ("num_attention_heads", "hidden_size", "num_hidden_layers", "vocab_size"):
            changes += [{field: value} for value in (10**12, "many", -1, 0, [1, 2, 3])]
    elif name == "fuyu":
        changes += [{"patch_size": value} for value in (10**12, "many", -1, [1])] + [{"num_channels": 1}]
    elif name in GRIDS:
        rotary = config["text_config"].get("rope_parameters")
        for value in ([2, 3], [4, 1, -1], "many", [10**12], None, [2.0, 1, 1]) if rotary else ():
            rope = {"rope_parameters": rotary | {"mrope_section": value}}
            changes.append({"text_config": config["text_config"] | rope})
        if "num_key_value_heads" in config["vision_config"]:
            changes += [{"vision_config": config["vision_config"] | {"num_key_value_heads": n}} for n in (3, 0, "many")]
        for field in ("patch_size", "depth", "spatial_merge_size", "in_channels", "window_size"):
            for value in (10**12, "many", -1, 0, [1]):
                if field in config["vision_config"] or (field != "window_size" and name != "paddleocr_vl"):
                    changes.append({"vision_config": config["vision_config"] | {field: value}})
    elif name != "fast_vlm":
        changes.append({"vision_config": config["vision_config"] | {"image_size": [16, 32]}})
    if "image_grid_pinpoints" in config:
        for pinpoints in ([], [[16, 24]], [[16]], [[16, -16]], [[10**12, 16]], "many", [16, 32], [["a", 16]], 3):
            changes.append({"image_grid_pinpoints": pinpoints})
        fits = name == "llava_onevision"  # whose tower has no class token
        changes.append({"vision_feature_select_strategy": "default" if fits else "full"})
        changes += [{"vision_aspect_ratio": ratio} for ratio in (3, "anyres", "anyres_max_0") if fits]
    if name == "aria":
        asked = ({"16": 0}, {}, {"a": 3}, {"16": 10**9}, 3, [16], {"16": None})
        changes += [{"projector_patch_to_query_dict": value} for value in asked] + [{"vision_feature_layer": -2}]
        changes += [{"text_config": config["text_config"] | {"moe_topk": n}} for n in (0, 5, "many")]
    if name == "ovis2":
        for field, values in {
            "vocab_size": (5, 0, 10**12), "hidden_stride": (0, 3, "many"), "num_visual_indicator_tokens": (4, 10**9),
            "tokenize_function": ("gumbel_argmax", 3), "use_head": (True,),
        }.items():  # fmt: skip
            changes += [{"vision_config": config["vision_config"] | {field: value}} for value in values]
        changes += [{"visual_indicator_token_ids": value} for value in ("many", [-1], [1] * 6, 3)]
    if name == "idefics2":
        asks = config["perceiver_config"]
        for field in ("resampler_n_latents", "resampler_depth", "resampler_n_heads", "resampler_head_dim"):
            changes += [{"perceiver_config": asks | {field: value}} for value in (0, -1, 10**12, "many", 0.5)]
        changes += [{"perceiver_config": value} for value in (3, [], asks | {"num_key_value_heads": 3})]
    if name == "blip2":
        asks = config["qformer_config"]
        for field in ("num_attention_heads", "hidden_size", "num_hidden_layers", "cross_attention_frequency"):
            changes += [{"qformer_config": asks | {field: value}} for value in (0, -1, 10**12, "many", 0.5)]
        changes += [{"qformer_config": value} for value in (3, [], asks | {"use_qformer_text_input": True})]
        changes += [{"num_query_tokens": value} for value in (0, -1, 10**12, "many", [5])]
    if name == "mllama":
        sees, writes = config["vision_config"], config["text_config"]
        for field, values in {
            "max_num_tiles": (0, 65, "many", 3), "intermediate_layers_indices": ([2], [-1], ["a"], 3, [0]),
            "supported_aspect_ratios": ([[1, 1]], [[1, 2], [1, 1], [2, 1]], "many", [3]),
            "num_global_layers": (-1, 10**9), "vision_output_dim": (47, 0, "many"), "attention_heads": (0, 3, 10**12),
            "patch_size": ([4, 8], 10**6),
        }.items():  # fmt: skip
            changes += [{"vision_config": sees | {field: value}} for value in values]
        changes += [
            {"text_config": writes | {"cross_attention_layers": value}} for value in ([], [4], [-1], "a", [0.5])
        ]
        changes.append({"image_token_index": 104})
    if name == "aya_vision":
        changes += [{"downsample_factor": value} for value in (0, 3, "many", 10**12)]
        changes += [{"alignment_intermediate_size": value} for value in (7, 0, 10**12)]
        changes += [{"adapter_layer_norm_eps": 5}, {"vision_feature_select_strategy": "default"}]
    if name == "internvl":
        changes += [{"downsample_ratio": ratio} for ratio in (0, -0.5, "half", 0.3, 1e-9, 2, [0.5], 0.25001)]
        changes += [{"vision_feature_layer": [0, 1]}, {"vision_feature_select_strategy": "full"}]
        changes += [{"vision_config": config["vision_config"] | {"norm_type": norm}} for norm in ("batch", 3)]
    if "deepstack_visual_indexes" in config.get("vision_config", {}):
        deep = [{"deepstack_visual_indexes": value} for value in ([3], [-1], [0, 0], [0.5], ["a"], 1, "many")]
        learned = [{"num_position_embeddings": value} for value in (48, 0, 10**12, "many")]
        for one in (*deep, *learned, {"rope_parameters": {"rope_theta": 5.0}}, {"rope_parameters": 3}):
            changes.append({"vision_config": config["vision_config"] | one})
        changes.append({"text_config": config["text_config"] | {"num_hidden_layers": 1}})
    for part in ("text_config", "vision_config"):
        for field in ("num_attention_heads", "hidden_size", "num_hidden_layers", "num_heads"):
            if field not in config.get(part, {}):
                continue
            for value in (10**12, "many", -1, 0, [1, 2, 3]):
                changes.append({part: config[part] | {field: value}})
    for field in ("scale_factor", "mm_tokens_per_image", "vision_feature_layer", "vision_feature_select_strategy"):
        if field in config or (
            field.startswith("vision_feature")
            and name.startswith(("llava", "lighton", "mistral3", "pixtral", "internvl"))
        ):
            changes += [{field: value} for value in (0.5, 10**12, "many", [10**12], {})]
    for change in changes:
        with pytest.raises(ModelError):
            module_of(name).Config.from_dict(config | change)
    again = module_of(name).Config.from_dict(config)
    assert module_of(name).Config.from_dict(again.to_dict()).to_dict() == again.to_dict()


def test_stacks_of_experts_are_transposed_in_published_files(tmp_path: Path) -> None:
    model, module = make("qwen3_vl_moe"), module_of("qwen3_vl_moe")
    tensors = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    for name in [name for name in tensors if ".experts." in name]:
        tensors[name] = np.ascontiguousarray(tensors[name].swapaxes(1, 2))
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        read = read_model(module, type(model), checkpoint, CONFIGS["qwen3_vl_moe"])
    for (name, expected), (_, found) in zip(model.named_parameters(), read.named_parameters(), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.detach().numpy(), err_msg=name)


def test_files_say_whether_the_head_has_weights_of_its_own() -> None:
    module, config = module_of("paddleocr_vl"), CONFIGS["paddleocr_vl"]
    flat = {key: value for key, value in config.items() if key != "text_config"} | config["text_config"]
    for settings in (config, flat):
        for names, tied in ((("lm_head.weight",), False), (("model.norm.weight",), True)):
            found = module.Config.from_dict(module.adapted(settings, dict.fromkeys(names)))
            assert found.text_config.tie_word_embeddings == tied


def test_texts_and_pictures_that_do_not_fit_are_refused() -> None:
    model = make("llava")
    with pytest.raises(ArgumentError, match="15 tokens for 16 vectors"):
        model(pyapp.tensor([[IMAGE] * 15 + [3]]), pixel_values=pyapp.zeros(1, 3, 16, 16))
    for shape, message in ((20, "multiples of 8 pixels"), (4, "from 8 pixels")):
        with pytest.raises(ArgumentError, match=message):
            make("qwen2_vl")(pyapp.tensor([[IMAGE] * 4]), pixel_values=pyapp.zeros(1, 3, 16, shape))
    with pytest.raises(ArgumentError, match="takes 16 x 16"):
        model(pyapp.tensor([[IMAGE] * 16]), pixel_values=pyapp.zeros(1, 3, 16, 12))


def test_the_text_of_tiles_is_that_of_transformers() -> None:
    """As the replace_image_token of AyaVisionProcessor, Lfm2VlProcessor and others, of transformers 5.24."""
    chameleon, sees = make("chameleon_swin"), make("ovis2")
    assert chameleon.picture_text(0, 0) == f"<racm3:break>{'<image>' * 16}<eoss>"
    atoms = "<IMG_ATOM>" * 4
    assert sees.picture_text(0, 0) == f"<IMG_START>{atoms}<IMG_GRID><IMG_END>" and sees.tokens_in(2, 2) == 20
    tiles = f"{atoms}<IMG_COL>{atoms}<IMG_ROW>{atoms}<IMG_COL>{atoms}"
    assert sees.picture_text(2, 2) == f"<IMG_START>{atoms}<IMG_GRID>{tiles}<IMG_END>"
    model, part = make("aya_vision"), "<|IMG_PATCH|>" * 4
    assert model.picture_text(0, 0) == f"<|START_OF_IMG|>TILE_GLOBAL{part}<|END_OF_IMG|>"
    edge = "<fake_token_around_image>"
    assert make("idefics2").picture_text(0, 0) == f"{edge}{'<image>' * 5}{edge}"
    assert make("idefics2").picture_text(2, 2) == edge + f"{'<image>' * 5}{edge}" * 5
    one = make("lfm2_vl")
    one.tile = 32
    expected = "<|image_start|>" + "".join(f"<|img_row_1_col_{i}|>{'<image>' * 16}" for i in (1, 2))
    expected += f"<|img_thumbnail|>{'<image>' * 6}<|image_end|>"
    assert one.picture_text(1, 2, (16, 24)) == expected and one.tokens_in(1, 2, (16, 24)) == 38
    assert one.picture_text(0, 0, (16, 24)) == f"<|image_start|>{'<image>' * 6}<|image_end|>"
    two = f"<|START_OF_IMG|>TILE_1{part}TILE_2{part}TILE_GLOBAL{part}<|END_OF_IMG|>"
    assert model.picture_text(1, 2) == two and model.tokens_in(1, 2) == two.count("<|IMG_PATCH|>")


def test_names_of_older_files() -> None:
    renamed = module_of("llava").renamed
    for old, new in (
        ("model.vision_tower.encoder.layers.0.mlp.fc1.bias", "vision_tower.encoder.layers.0.mlp.fc1.bias"),
        ("vision_tower.vision_model.post_layernorm.bias", "vision_tower.post_layernorm.bias"),
        ("model.multi_modal_projector.linear_1.bias", "multi_modal_projector.linear_1.bias"),
        ("model.language_model.layers.1.mlp.up_proj.weight", "language_model.model.layers.1.mlp.up_proj.weight"),
        ("language_model.model.norm.weight", "language_model.model.norm.weight"),
        ("language_model.lm_head.weight", "language_model.lm_head.weight"),
        ("lm_head.weight", "language_model.lm_head.weight"),
        ("model.text_model.embed_tokens.weight", "language_model.model.embed_tokens.weight"),
        ("model.vision_model.embeddings.patch_embedding.bias", "vision_tower.embeddings.patch_embedding.bias"),
        ("model.connector.modality_projection.proj.weight", "multi_modal_projector.proj.weight"),
    ):
        assert renamed(old) == new and not re.match(r"model\.|lm_head", renamed(old))
    for name in ("llava", "gemma3"):
        ignored = ignored_by(module_of(name))
        for there in ("vision_tower.vision_model.head.probe", "vision_tower.vision_model.embeddings.position_ids"):
            assert ignored.fullmatch(there)
        assert not ignored.fullmatch("vision_tower.vision_model.post_layernorm.bias")
