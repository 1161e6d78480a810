"""FLUX, Stable Diffusion 3, Z-Image and Qwen-Image against diffusers (make_golden_joint.py): names, outputs of the
transformers, schedules and whole models step by step; missing parts and hostile configurations.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import quant
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.events import Cancel
from pyapp.formats.gguf_writer import write_gguf
from pyapp.formats.safetensors import write_safetensors
from pyapp.models import gemma2, mistral, qwen2, qwen3
from pyapp.models.diffusion import flux, qwen_image
from pyapp.models.diffusion.autoencoder import Autoencoder, AutoencoderConfig
from pyapp.models.diffusion.deep_autoencoder import DeepAutoencoderConfig
from pyapp.models.diffusion.flow import CLASS, Flow, read_flow
from pyapp.models.diffusion.flux import Flux, FluxConfig
from pyapp.models.diffusion.flux2 import Flux2, Flux2Config
from pyapp.models.diffusion.frame_autoencoder import FrameAutoencoderConfig
from pyapp.models.diffusion.load import Reading, load_diffusion
from pyapp.models.diffusion.mmdit import MMDiT, MMDiTConfig
from pyapp.models.diffusion.normed_autoencoder import NormedAutoencoderConfig
from pyapp.models.diffusion.pixart import PixArt, PixArtConfig
from pyapp.models.diffusion.qwen_image import QwenImage, QwenImageConfig
from pyapp.models.diffusion.sampling import Drawing, ImagineOptions
from pyapp.models.diffusion.sana import Sana, SanaConfig
from pyapp.models.diffusion.texts import TextEncoder
from pyapp.models.diffusion.zimage import ZImage, ZImageConfig
from pyapp.models.loading.config import read_config
from pyapp.models.loading.t5_config import T5Config
from pyapp.models.loading.towers_config import ClipTextConfig
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder
from pyapp.vision.reading import read_image
from tests.models.diffusion_cases import LATENTS, NEGATIVE, PROMPTS, network, numbers, start_picture
from tests.models.joint_cases import (
    AUTOENCODER,
    CHANGES,
    CHAT,
    CHATS,
    CLASSES,
    CLIPS,
    EDIT_SIZES,
    EDITS,
    LANGUAGES,
    LORA_SCALE,
    LORAS,
    MODELS,
    NETWORKS,
    ORIGINALS,
    OTHER_AUTOENCODERS,
    OTHER_SCHEDULES,
    PLACES,
    REFERENCES,
    SCHEDULES,
    SEEING,
    SHARED_AUTOENCODERS,
    T5,
    TESTED,
    TRUE_CFG_SCALE,
    autoencoder_weights,
    inputs,
    lora_state,
    seeing_tokenizer,
    tokenizer,
)
from tests.models.seeded import picture_weights, shown
from tests.models.test_diffusion import check, drawn, write_tokenizer


@cache
def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("golden_joint.json").read_text())
    return found


KINDS: dict[str, tuple[Any, Any, str]] = {  # by diffusers' classes: ours, and the beginning of the pipeline's name
    "FluxTransformer2DModel": (Flux, FluxConfig, "Flux"),
    "SD3Transformer2DModel": (MMDiT, MMDiTConfig, "StableDiffusion3"),
    "ZImageTransformer2DModel": (ZImage, ZImageConfig, "ZImage"),
    "Flux2Transformer2DModel": (Flux2, Flux2Config, "Flux2Klein"),
    "QwenImageTransformer2DModel": (QwenImage, QwenImageConfig, "QwenImage"),
    "PixArtTransformer2DModel": (PixArt, PixArtConfig, "PixArtSigma"),
    "SanaTransformer2DModel": (Sana, SanaConfig, "Sana"),
}


PIPELINES = {"flux2": "Flux2"}  # where the name of the pipeline begins otherwise
SPECIAL = {"fill": "Fill", "kontext": "Kontext", **EDITS}  # in the pipeline's name


def made(name: str) -> Any:
    kind, config, _ = KINDS[CLASSES[name]]
    return drawn(kind(config.from_dict(NETWORKS[name])))


def given(name: str) -> dict[str, pyapp.Tensor]:
    return {key: pyapp.from_numpy(value) for key, value in inputs(name).items()}


@pytest.mark.parametrize("name", TESTED)
def test_transformers_are_those_of_diffusers(name: str) -> None:
    model = made(name)
    with pyapp.no_grad():
        check(model, golden()["networks"][name], model(**given(name)))
    uneven = [{"latents": pyapp.zeros(2, 4, 7, 6)}] if model.multiple > 1 else []
    for wrong in ({"latents": pyapp.zeros(2, 3, 8, 6)}, *uneven,
                  {"text": pyapp.zeros(2, 5, 9)}, *([] if name == "flux2" else [{"pooled": pyapp.zeros(2, 9)}]),
                  *([{"text": pyapp.zeros(2, 65, 12)}] if name == "zimage" else [])):  # fmt: skip
        with pytest.raises(ArgumentError, match=type(model).__name__):
            model(**given(name) | wrong)


@pytest.mark.parametrize("name", ["dev", "sd35"])
def test_a_transformer_trains(name: str) -> None:
    model = made(name).requires_grad_()
    model(**given(name)).square().mean().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.isfinite().all()) for parameter in model.parameters())
    still = {key for key, parameter in model.named_parameters() if not float(parameter.grad.abs().max())}
    unread = (
        "attn.add_q_proj.weight",
        "attn.add_q_proj.bias",
        "attn.norm_added_q.weight",
    )  # the text, in the last block
    assert still == ({f"transformer_blocks.1.{key}" for key in unread} if name == "sd35" else set())


@pytest.mark.parametrize("case", range(len(SCHEDULES)))
def test_schedules_are_those_of_diffusers(case: int) -> None:
    (settings, steps, even), expected = SCHEDULES[case], golden()["schedules"][case]
    flow = Flow(read_flow({"_class_name": CLASS, **settings}), steps, PLACES, even)
    assert flow.times == pytest.approx(expected["times"], rel=1e-5)
    x = pyapp.from_numpy(numbers(6, 1, 4, 2, 3))
    for i, wanted in enumerate(expected["states"]):
        x = flow.after(x, network(flow.scaled(x, i), flow.times[i]), i, lambda x: x)
        np.testing.assert_allclose(shown(x.numpy()), wanted, atol=1e-5, rtol=1e-5, err_msg=f"step {i}")


def test_what_is_not_supported_is_refused() -> None:
    for change in ({"patch_size": 2}, {"out_channels": 8, "in_channels": 12}, {"in_channels": 15},
                   {"axes_dims_rope": [4, 2]},
                   {"axes_dims_rope": [4, 4, 4]}, {"axes_dims_rope": 16}, {"axes_dims_rope": [5, 5, 6]},
                   {"num_layers": 10**9}, {"num_attention_heads": 10**6}, {"joint_attention_dim": "12"}):  # fmt: skip
        with pytest.raises(ModelError):
            FluxConfig.from_dict(NETWORKS["dev"] | change)
    for change in ({"qk_norm": "layer_norm"}, {"dual_attention_layers": [2]}, {"dual_attention_layers": 1},
                   {"caption_projection_dim": 8}, {"out_channels": 8}, {"pos_embed_max_size": 10**6},
                   {"patch_size": 10**6}, {"num_layers": 10**9}, {"attention_head_dim": 10**9}):  # fmt: skip
        with pytest.raises(ModelError):
            MMDiTConfig.from_dict(NETWORKS["sd35"] | change)
    for change in ({"all_patch_size": [2, 4]}, {"all_f_patch_size": 1}, {"siglip_feat_dim": 8}, {"axes_dims": [4, 6]},
                   {"axes_dims": [5, 5, 6]}, {"axes_lens": [33, 8, 8]}, {"axes_lens": [64, 0, 8]}, {"axes_lens": 64},
                   {"n_heads": 3}, {"n_layers": 10**9}, {"dim": 10**9}, {"rope_theta": 0}, {"t_scale": 0}):  # fmt: skip
        with pytest.raises(ModelError):
            ZImageConfig.from_dict(NETWORKS["zimage"] | change)
    for change in ({"patch_size": 2}, {"out_channels": 8}, {"in_channels": 15}, {"axes_dims_rope": [4, 4, 8]},
                   {"axes_dims_rope": 16}, {"num_layers": 10**9}, {"num_attention_heads": 10**6}, {"mlp_ratio": 0},
                   {"timestep_guidance_channels": 64}, {"joint_attention_dim": 10**9}, {"rope_theta": 0}):  # fmt: skip
        with pytest.raises(ModelError):
            Flux2Config.from_dict(NETWORKS["klein"] | change)
    for change in ({"patch_size": 1}, {"out_channels": 8}, {"in_channels": 15}, {"axes_dims_rope": [4, 12]},
                   {"use_layer3d_rope": True}, {"num_layers": 10**9}, {"attention_head_dim": 10**6}):  # fmt: skip
        with pytest.raises(ModelError):
            QwenImageConfig.from_dict(NETWORKS["qwen"] | change)
    for change in ({"norm_type": "layer_norm"}, {"use_additional_conditions": True}, {"use_additional_conditions": None,
                   "sample_size": 128}, {"cross_attention_dim": 8}, {"out_channels": 5}, {"num_layers": 10**9},
                   {"interpolation_scale": 0}, {"attention_head_dim": 15}, {"patch_size": 10**6}):  # fmt: skip
        with pytest.raises(ModelError):
            PixArtConfig.from_dict(NETWORKS["pixart"] | change)
    for change in ({"guidance_embeds": True}, {"qk_norm": "l2"}, {"cross_attention_dim": 8}, {"mlp_ratio": 0},
                   {"cross_attention_head_dim": 10**6}, {"timestep_scale": 0}):  # fmt: skip
        with pytest.raises(ModelError):
            SanaConfig.from_dict(NETWORKS["sana"] | change)
    for change in ({"decoder_norm_types": "batch_norm"}, {"encoder_block_types": "Dense"}, {"in_channels": 4},
                   {"encoder_layers_per_block": [1, 0]}, {"decoder_block_out_channels": [8]}, {"latent_channels": 3},
                   {"decoder_block_out_channels": [4, 24]}, {"encoder_qkv_multiscales": [[], [4]]},
                   {"attention_head_dim": 5}, {"decoder_act_fns": ["silu"]}, {"decoder_conv_act_fn": "x"},
                   {"upsample_block_type": "x"}, {"scaling_factor": 0}):  # fmt: skip
        with pytest.raises(ModelError):
            DeepAutoencoderConfig.from_dict(OTHER_AUTOENCODERS["sana"][1] | change)
    for change in ({"dim_mult": []}, {"dim_mult": [1, 10**9]}, {"latents_mean": [0.0]}, {"latents_std": [0, 1, 1, 1]},
                   {"temperal_downsample": [True] * 2}, {"is_residual": True}, {"latents_std": None}):  # fmt: skip
        with pytest.raises(ModelError):
            FrameAutoencoderConfig.from_dict(OTHER_AUTOENCODERS["qwen"][1] | change)
    for change in ({"patch_size": [1, 1]}, {"batch_norm_eps": -1}, {"decoder_block_out_channels": [4]},
                   {"decoder_block_out_channels": [4, 10**9]}, {"act_fn": "relu"}):  # fmt: skip
        with pytest.raises(ModelError):
            NormedAutoencoderConfig.from_dict(OTHER_AUTOENCODERS["klein"][1] | change)
    for values in ({"_class_name": "EulerDiscreteScheduler"}, {}, {"shift": 0}, {"shift_terminal": 1.5},
                   {"max_image_seq_len": 4}, {"time_shift_type": "cubic"}, {"invert_sigmas": True},
                   {"stochastic_sampling": True}, {"max_shift": 1e9}):  # fmt: skip
        with pytest.raises(ModelError):
            read_flow({"_class_name": CLASS, **values} if len(values) and "_class_name" not in values else values)
    with pytest.raises(OptionError, match="euler"):
        read_flow({"_class_name": CLASS}, "heun")
    for steps in (0, 1001, 2.5):
        with pytest.raises(OptionError, match="steps"):
            Flow(read_flow({"_class_name": CLASS}), steps, PLACES, True)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="too few"):
        Flow(read_flow({"_class_name": CLASS, "shift_terminal": 0.1}), 1, PLACES, True)
    model = made("dev")
    with pytest.raises(ArgumentError, match="guidance"):
        model(**{key: value for key, value in given("dev").items() if key != "guidance"})


def write_words(folder: Path, settings: dict[str, Any], change: dict[str, Any]) -> None:
    """A tokenizer of words."""
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer() | change))
    named = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named | settings))


LANGUAGE_CLASSES = {
    "zimage": "Qwen3Model", "sana": "Gemma2Model", "klein": "Qwen3ForCausalLM",
    "qwen": "Qwen2_5_VLForConditionalGeneration", "flux2": "Mistral3ForConditionalGeneration",
}  # fmt: skip


def autoencoder_state(name: str) -> dict[str, pyapp.Tensor]:
    """The tensors of an autoencoder's file."""
    shapes = golden()["autoencoders"][name]["parameters"]
    return {key: pyapp.from_numpy(autoencoder_weights(key, tuple(shape))) for key, shape in shapes.items()}


def language(name: str) -> dict[str, pyapp.Tensor]:
    """The tensors of a language model's file."""
    module: Any = {"qwen": qwen2, "sana": gemma2, "flux2": mistral}.get(name, qwen3)
    values = LANGUAGES[name]
    values = values | values.get("text_config", {}) | {"model_type": module.MODEL_TYPES[0]}
    state = drawn(module.TASKS["causal-lm"](module.Config.from_dict(values)).model).state_dict()
    if name in ("zimage", "sana"):
        return dict(state)
    heads = {"klein": "lm_head.weight", "flux2": "vision_tower.ln_pre.weight"}
    head = {heads.get(name, "visual.merger.ln_q.weight"): pyapp.zeros(8)}
    return {f"model.{key}": value for key, value in state.items()} | head


def write_joint_model(folder: Path, name: str) -> Path:
    """A folder as diffusers writes it."""
    return Path(copytree(written(name).name, folder))


@cache
def written(name: str) -> TemporaryDirectory[str]:
    """Such a folder, once for all tests."""
    made_here = TemporaryDirectory()
    folder = Path(made_here.name)
    settings, _, _, reads_t5 = MODELS[name]
    flux = CLASSES[name].startswith("Flux")
    parts: dict[str, tuple[str, dict[str, Any], Any]] = {
        "transformer": (CLASSES[name], NETWORKS[name], made(name)),
        "vae": ("AutoencoderKL", AUTOENCODER, Autoencoder(AutoencoderConfig.from_dict(AUTOENCODER))),
    }
    draws = SHARED_AUTOENCODERS.get(name, name)
    if draws in OTHER_AUTOENCODERS:
        parts["vae"] = (*OTHER_AUTOENCODERS[draws], autoencoder_state(draws))
    if name in EDITS:
        shapes = golden()["seeing"]
        state = {key: pyapp.from_numpy(picture_weights(key, tuple(shape))) for key, shape in shapes.items()}
        parts["text_encoder"] = (LANGUAGE_CLASSES["qwen"], LANGUAGES[name], state)
        write_words(folder / "tokenizer", {}, seeing_tokenizer())
        (folder / "processor").mkdir()
        settings_of = SEEING | {"image_processor_type": "Qwen2VLImageProcessor"}
        (folder / "processor" / "preprocessor_config.json").write_text(json.dumps(settings_of))
    elif name in LANGUAGES:
        parts["text_encoder"] = (LANGUAGE_CLASSES[name], LANGUAGES[name], language(name))
        write_words(folder / "tokenizer", CHATS.get(name, {"chat_template": CHAT}), {"post_processor": None})
    for i, config in enumerate([] if name in LANGUAGES or name == "pixart" else CLIPS["flux" if flux else "sd3"]):
        projection, end = config.get("projection_dim"), f"_{i + 1}" if i else ""
        kind = "CLIPTextModel" if projection is None else "CLIPTextModelWithProjection"
        parts[f"text_encoder{end}"] = (kind, config, TextEncoder(read_config(ClipTextConfig, config), projection))
        write_tokenizer(folder / f"tokenizer{end}")
    schedule = OTHER_SCHEDULES.get(name, CLASS)
    index: dict[str, Any] = {
        "_class_name": f"{PIPELINES.get(name, KINDS[CLASSES[name]][2])}{SPECIAL.get(name, '')}Pipeline",
        "scheduler": ["diffusers", schedule], "text_encoder_3": [None, None],
    }  # fmt: skip
    if reads_t5:
        end = "" if name == "pixart" else "_2" if flux else "_3"
        parts[f"text_encoder{end}"] = ("T5EncoderModel", T5, T5Encoder(T5Config.from_dict(T5)))
        write_words(folder / f"tokenizer{end}", {"tokenizer_class": "T5Tokenizer"}, {})
    for part, (kind, config, model) in parts.items():
        (folder / part).mkdir()
        (folder / part / "config.json").write_text(json.dumps({"_class_name": kind, **config}))
        stem = "model" if part.startswith("text") else "diffusion_pytorch_model"
        state = model if isinstance(model, dict) else drawn(model).state_dict()
        write_safetensors(folder / part / f"{stem}.safetensors", state)
        index[part] = ["library", kind]
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps({"_class_name": schedule, **settings}))
    (folder / "model_index.json").write_text(json.dumps(index))
    return made_here


def compare(drawing: Drawing, expected: dict[str, Any]) -> None:
    """The latents after each step, and the pictures."""
    assert drawing.steps == len(expected["latents"])
    for i, wanted in enumerate(expected["latents"]):
        drawing.step(i)
        near = 3e-4 * float(np.abs(wanted).max())  # the angles of a time near 1,000 are rounded to 1e-4
        np.testing.assert_allclose(shown(drawing.latents.numpy()), wanted, atol=near, rtol=0, err_msg=f"step {i}")
    found = shown(np.stack([picture.numpy() for picture in drawing.pictures()]) / 255)
    np.testing.assert_allclose(found, expected["pictures"], atol=0.6 / 255)


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("name", [name for name in MODELS if name not in SPECIAL])
def test_pictures_are_those_of_diffusers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    _, steps, guidance, reads_t5 = MODELS[name]
    loaded = load_diffusion(write_joint_model(tmp_path / "model", name))
    assert len(loaded.readers) == {"sd3": 3, "pixart": 1, **dict.fromkeys(LANGUAGES, 1)}.get(name, 2)
    without = loaded.network.learnt_guidance or not guidance or name == "klein"
    told = {} if without else {"negative_prompt": NEGATIVE}
    options = ImagineOptions(steps=steps, guidance=guidance, width=12, height=16, **told)
    drawing = Drawing(loaded, PROMPTS, options, lambda shape: pyapp.from_numpy(numbers(LATENTS, *shape)))
    compare(drawing, golden()["models"][name])


@pytest.mark.native_only  # needs files
@pytest.mark.parametrize("name", OTHER_AUTOENCODERS)
def test_autoencoders_are_those_of_diffusers(tmp_path: Path, name: str) -> None:
    kind, config = OTHER_AUTOENCODERS[name]
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": kind, **config}))
    write_safetensors(tmp_path / "diffusion_pytorch_model.safetensors", autoencoder_state(name))
    model = Reading(None, None, lambda event: None, Cancel()).part("vae", tmp_path)
    expected = golden()["autoencoders"][name]
    with pyapp.no_grad():
        decoded = model(pyapp.from_numpy(numbers(5, 1, 4, 4, 6)))
        encoded = model.encode(pyapp.from_numpy(numbers(9, 1, 3, 8, 12)), lambda x: x * 0)
    for found, wanted in ((decoded, expected["decoded"]), (encoded, expected["encoded"])):
        np.testing.assert_allclose(shown(found.numpy()), wanted, atol=1e-4 * float(np.abs(wanted).max()), rtol=1e-4)


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("case", range(len(CHANGES)))
def test_changed_pictures_are_those_of_diffusers(tmp_path: Path, case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    monkeypatch.setattr(flux, "REFERENCES", REFERENCES)
    name, steps, strength, masked = CHANGES[case]
    loaded = load_diffusion(write_joint_model(tmp_path / "model", name))
    if name in EDITS:
        large, small = (wide * high for wide, high in EDIT_SIZES[name])
        for constant, value in (("EDIT_AREA", large), ("PLUS_AREA", small), ("EDIT_UNIT", 4)):
            monkeypatch.setattr(qwen_image, constant, value)
    picture, mask = map(pyapp.from_numpy, start_picture())
    count = iter(range(20, 40))
    told: dict[str, Any] = {} if CLASSES[name].startswith("Flux") else {"negative_prompt": NEGATIVE}
    if name == "klein":
        told = {}
    elif name in EDITS:
        told = {"negative_prompt": NEGATIVE, "height": 20, "width": 16}
    elif strength is None:
        told = {"negative_prompt": NEGATIVE, "true_cfg_scale": TRUE_CFG_SCALE, "height": 20, "width": 16}
    options = ImagineOptions(steps=steps, guidance=MODELS[name][2], strength=strength, **told)
    prompts = PROMPTS[:1] if name in EDITS else PROMPTS  # as diffusers' pipelines take it
    drawing = Drawing(
        loaded, prompts, options, lambda shape: pyapp.from_numpy(numbers(next(count), *shape)),
        picture, mask.unsqueeze(2) if masked else None,
    )  # fmt: skip
    assert (drawing.height, drawing.width) == (20, 16)
    compare(drawing, golden()["changes"][case])
    if name == "klein":
        with pytest.raises(OptionError, match="sides of at least 4"):
            Drawing(loaded, PROMPTS, ImagineOptions(), picture=picture[:3])
        assert loaded.network.read_size(2048, 1024, 16) == (1448, 724)
        loaded.settings["is_distilled"] = True
        for wrong in ({"guidance": 2.0}, {"negative_prompt": NEGATIVE}):
            with pytest.raises(OptionError, match=next(iter(wrong))):
                Drawing(loaded, PROMPTS, ImagineOptions(**wrong))
    elif name in EDITS:
        with pytest.raises(OptionError, match="image: this model changes a picture"):
            Drawing(loaded, PROMPTS, ImagineOptions())
        with pytest.raises(OptionError, match="too narrow"):
            Drawing(loaded, PROMPTS, ImagineOptions(), picture=pyapp.zeros(2, 2000, 3, dtype="uint8"))
    elif strength is None:
        drawing = Drawing(loaded, PROMPTS, ImagineOptions(), picture=picture)
        assert (drawing.height, drawing.width) == (268, 240)  # the usual area, with the ratio 20 to 18
        for wrong in ({"strength": 0.5}, {"true_cfg_scale": 0.5}, {"negative_prompt": NEGATIVE}):
            with pytest.raises(OptionError, match=next(iter(wrong))):
                Drawing(loaded, PROMPTS, ImagineOptions(**wrong), picture=picture)
    if name == "fill":
        with pytest.raises(OptionError, match="mask"):
            Drawing(loaded, PROMPTS, ImagineOptions(), picture=picture)
    if name == "sd3":
        with pytest.raises(OptionError, match="true_cfg_scale"):
            Drawing(loaded, PROMPTS, ImagineOptions(true_cfg_scale=2.0))


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("name", ["dev", "sd35"])
def test_quantised_transformers_find_nearly_the_same(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    folder, found = write_joint_model(tmp_path / "model", name), {}
    for dtype in (None, "float16", "q8_0", "q4_0"):
        loaded = load_diffusion(folder, dtype=dtype)
        with pyapp.no_grad():
            found[dtype] = loaded.network(**given(name)).numpy()
        block: Any = loaded.network.transformer_blocks[0]
        kinds = {layer.weight.dtype.name for layer in (block.attn.to_q, block.attn.add_v_proj, block.ff.net[2])}
        assert kinds == {dtype or "float32"}
        for dtype, most in (("float16", 2e-3), ("q8_0", 0.03), ("q4_0", 0.4)):
            if dtype in found:
                error = np.linalg.norm(found[dtype] - found[None]) / np.linalg.norm(found[None])
                assert 0 < error < most, dtype


@pytest.mark.native_only  # needs the tokenizers library and files
def test_what_is_missing_is_said(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    folder = write_joint_model(tmp_path / "model", "dev")
    index = json.loads((folder / "model_index.json").read_text())
    for part in ("text_encoder", "text_encoder_2", "transformer", "vae"):
        (folder / "model_index.json").write_text(json.dumps(index | {part: [None, None]}))
        with pytest.raises(ModelError, match=f"its {part} is missing"):
            load_diffusion(folder)
    (folder / "model_index.json").write_text(json.dumps(index))
    for path, message in (
        ("text_encoder_2", "text_encoder_2/config.json is missing"), ("tokenizer_2", "tokenizer_2 is missing"),
        ("transformer/diffusion_pytorch_model.safetensors", "no weights in its transformer"),
        ("scheduler", "scheduler_config.json is missing"),
    ):  # fmt: skip
        (folder / path).rename(tmp_path / "away")
        with pytest.raises(ModelError, match=message):
            load_diffusion(folder)
        (tmp_path / "away").rename(folder / path)
    for part, change, message in (
        ("text_encoder_2", {"d_model": 16}, "of another shape"),
        ("transformer", {"joint_attention_dim": 16}, "of another shape"),
        ("transformer", {"in_channels": 64, "out_channels": 256}, "not supported"),
        ("transformer", {"in_channels": 36, "out_channels": 16}, "of another shape"),
    ):  # fmt: skip
        path, kept = folder / part / "config.json", (folder / part / "config.json").read_text()
        path.write_text(json.dumps(json.loads(kept) | change))
        with pytest.raises(ModelError, match=message):
            load_diffusion(folder)
        path.write_text(kept)
    for kind in ("CLIPTextModel", "BertModel"):
        (folder / "model_index.json").write_text(json.dumps(index | {"text_encoder_2": ["transformers", kind]}))
        with pytest.raises(ModelError):
            load_diffusion(folder)
    (folder / "model_index.json").write_text(json.dumps(index))
    loaded, picture = load_diffusion(folder), pyapp.from_numpy(start_picture()[0])
    for options, start, match in (
        ({"negative_prompt": "cat"}, None, "no negative prompt"), ({"schedule": "ddim"}, None, "euler"),
        ({"width": 14}, None, "must be a multiple of 4"), ({"strength": 0.0, "steps": 4}, picture, "takes none"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=match):
            Drawing(loaded, PROMPTS, ImagineOptions(**options), picture=start)
    large = load_diffusion(write_joint_model(tmp_path / "large", "sd35"))
    with pytest.raises(OptionError, match="at most 28"):
        Drawing(large, PROMPTS, ImagineOptions(width=32))


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("name", ORIGINALS)
def test_files_of_the_transformer_alone(tmp_path: Path, name: str) -> None:
    """GGUF files and single safetensors files have the names of the makers."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("click")
    from pyapp.cli import cli

    # A file says itself whether its network reads the guidance.
    folder = write_joint_model(tmp_path / "model", {"dev": "schnell", "flux2": "klein"}.get(name, name))
    (folder / "transformer" / "diffusion_pytorch_model.safetensors").unlink()
    expected = np.asarray(golden()["originals"][name])
    kind, other = {
        "dev": ("flux", "sd3"), "sd35": ("sd3", "lumina2"), "zimage": ("lumina2", "flux"), "flux2": ("flux", "sd3"),
    }[name]  # fmt: skip
    state = {key: pyapp.from_numpy(picture_weights(key, shape)) for key, shape in ORIGINALS[name].items()}
    small = {key: quant.quantize(value, "q8_0") if value.ndim == 2 and value.shape[1] % 32 == 0 else value
             for key, value in state.items()}  # fmt: skip
    files = {end: tmp_path / f"file.{end}" for end in ("gguf", "q8.gguf", "safetensors")}
    write_gguf(files["gguf"], state, {"general.architecture": kind})
    write_gguf(files["q8.gguf"], small, {"general.architecture": kind})
    write_safetensors(files["safetensors"], {f"model.diffusion_model.{key}": value for key, value in state.items()})
    for end, near in (("gguf", 1e-4), ("safetensors", 1e-4), ("q8.gguf", 0.15)):
        loaded = load_diffusion(folder, transformer=files[end], dtype="float16" if end == "q8.gguf" else None)
        with pyapp.no_grad():
            found = shown(loaded.network(**given(name)).numpy())
        assert np.abs(found - expected).max() / np.abs(expected).max() < near, end
    network: Any = loaded.network
    block = network.layers[0] if name == "zimage" else network.transformer_blocks[0]
    layers = (
        (block.attention.to_k, block.feed_forward.w1) if name == "zimage"
        else (block.attn.to_k, block.ff.linear_in if name == "flux2" else block.norm1.linear)
    )  # fmt: skip
    assert {layer.weight.dtype.name for layer in layers} == {"q8_0"}  # as in the file
    encoder: Any = loaded.readers[0].encoder
    speaks = name in ("zimage", "flux2")
    inner = encoder.model.layers[0].mlp.up_proj if speaks else encoder.text_model.encoder.layers[0].mlp.fc1
    assert inner.weight.dtype is pyapp.float16
    target = tmp_path / "drawn.png"
    size = ["--width", "12", "--height", "16", "-s", "1", "-m", str(folder), "-o", str(target)]
    command = ["imagine", "a red cat", *size, "--transformer", str(files["q8.gguf"])]
    answer = pytest.importorskip("click.testing").CliRunner().invoke(cli, command)
    assert answer.exit_code == 0 and read_image(target).shape == (16, 12, 3), answer.output
    with pytest.raises(ModelError, match="no such transformer file"):
        load_diffusion(folder, transformer=f"{folder}:nothing.gguf")
    write_gguf(files["gguf"], state, {"general.architecture": other})
    with pytest.raises(ModelError, match=f"architecture is '{other}'"):
        load_diffusion(folder, transformer=files["gguf"])
    left = next(key for key in state if key.endswith(("attn.qkv.weight", "attention.qkv.weight")))
    write_gguf(
        files["gguf"], {key: value for key, value in state.items() if key != left}, {"general.architecture": kind}
    )
    with pytest.raises(ModelError, match=r"missing: (transformer_blocks\.0\.attn|\w+\.0\.attention)\.to_q"):
        load_diffusion(folder, transformer=files["gguf"])


@pytest.mark.native_only  # needs the tokenizers library and files
@pytest.mark.parametrize("case", range(len(LORAS)))
def test_loras_are_those_of_diffusers(tmp_path: Path, case: int) -> None:
    pytest.importorskip("tokenizers")
    folder, file = write_joint_model(tmp_path / "model", "dev"), tmp_path / "lora.safetensors"
    state = {key: pyapp.from_numpy(value) for key, value in lora_state(case).items()}
    write_safetensors(file, state)
    loaded = load_diffusion(folder, lora=[(file, LORA_SCALE)])
    with pyapp.no_grad():
        found = shown(loaded.network(**given("dev")).numpy())
    np.testing.assert_allclose(found, golden()["loras"][case], atol=2e-4, rtol=2e-4)
    if case:  # the names of ComfyUI's files
        for there in ("double_blocks.0.img_attn.qkv", "double_blocks.0.txt_mlp.2", "single_blocks.0.linear1"):
            old = f"lora_unet_{there.replace('.', '_')}"
            for end, new in ((".lora_down.weight", ".lora_A.weight"), (".lora_up.weight", ".lora_B.weight"),
                             (".alpha", ".alpha")):  # fmt: skip
                state[f"diffusion_model.{there}{new}"] = state.pop(old + end)
        write_safetensors(file, state)
        with pyapp.no_grad():
            again = load_diffusion(folder, lora=[(file, LORA_SCALE)]).network(**given("dev")).numpy()
        np.testing.assert_array_equal(shown(again), found)
    first = next(iter(state))
    write_safetensors(file, state | {first: pyapp.zeros(2, 7)})
    with pytest.raises(ModelError, match=r"the matrix \[\d+, 32\]"):
        load_diffusion(folder, lora=file)
