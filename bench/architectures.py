"""Architectures at the sizes that people use, natively: a forward pass and a training step, beside transformers on
torch. The weights are random; both have the same ones, and give the same outputs.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .report import Figure

CLOSE = 2e-3  # of the largest output


@dataclass(frozen=True)
class Architecture:
    """A model of transformers, with what its configuration's defaults leave open."""

    model_type: str
    task: str
    auto_class: str
    shape: tuple[int, ...]  # of its input: pictures (B, 3, H, W), token ids (B, T), samples of sound (B, n)
    settings: dict[str, Any] = field(default_factory=dict)
    trains: bool = True
    ours: Callable[[Any, Any], Any] = lambda model, x: model(x)
    theirs: Callable[[Any, Any], Any] = lambda model, x: model(x)

    def input(self) -> Any:
        random = np.random.default_rng(0)
        if self.task in TEXTS:
            return random.integers(5, 1000, self.shape)
        return random.standard_normal(self.shape).astype(np.float32)


TEXTS = ("masked-lm", "sequence-classification", "causal-lm")
PICTURE, TEXT = (1, 3, 224, 224), (4, 128)
LABELS, MASKED, CAUSAL = "AutoModelForImageClassification", "AutoModelForMaskedLM", "AutoModelForCausalLM"
BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
SMALL_DECODER = {
    "hidden_size": 512, "num_hidden_layers": 6, "intermediate_size": 1536, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 32000,
}  # fmt: skip
ARCHITECTURES = {
    "ViT-base": Architecture("vit", "image-classification", LABELS, PICTURE),
    "DINOv2-small": Architecture(
        "dinov2", "image-features", "AutoModel", PICTURE, {"hidden_size": 384, "num_attention_heads": 6}
    ),
    "Swin-tiny": Architecture("swin", "image-classification", LABELS, PICTURE),
    "ConvNeXt-tiny": Architecture("convnext", "image-classification", LABELS, PICTURE),
    "ResNet-50": Architecture("resnet", "image-classification", LABELS, PICTURE),
    "EfficientNet-b0": Architecture(
        "efficientnet", "image-classification", LABELS, PICTURE,
        {"image_size": 224, "width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280},
    ),
    "MobileNetV2": Architecture("mobilenet_v2", "image-classification", LABELS, PICTURE),
    "SegFormer-b0": Architecture(
        "segformer", "semantic-segmentation", "AutoModelForSemanticSegmentation", (1, 3, 512, 512)
    ),
    "BERT-base": Architecture("bert", "masked-lm", MASKED, TEXT, BASE),
    "DistilBERT": Architecture(
        "distilbert", "sequence-classification", "AutoModelForSequenceClassification", TEXT,
        {"vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072},
    ),
    "ALBERT-base": Architecture(
        "albert", "masked-lm", MASKED, TEXT, BASE | {"vocab_size": 30000, "embedding_size": 128},
    ),
    "DeBERTa-v3-small": Architecture(
        "deberta-v2", "masked-lm", MASKED, (2, 128),
        BASE
        | {
            "num_hidden_layers": 6, "type_vocab_size": 0, "relative_attention": True,
            "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "max_relative_positions": -1,
        },
    ),
    "ModernBERT-base": Architecture(
        "modernbert", "masked-lm", MASKED, (2, 256),
        BASE | {"vocab_size": 50368, "num_hidden_layers": 22, "intermediate_size": 1152},
    ),
    "GPT-2": Architecture(
        "gpt2", "causal-lm", CAUSAL, (1, 256),
        {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12},
    ),
    "Qwen2-0.5B, 8 layers": Architecture(
        "qwen2", "causal-lm", CAUSAL, (1, 256),
        {
            "hidden_size": 896, "num_hidden_layers": 8, "num_attention_heads": 14, "num_key_value_heads": 2,
            "intermediate_size": 4864, "vocab_size": 32000,
        },
    ),
    "Mixtral, small": Architecture(
        "mixtral", "causal-lm", CAUSAL, (1, 256), SMALL_DECODER | {"num_hidden_layers": 4, "intermediate_size": 1024}
    ),
    "LFM2, small": Architecture("lfm2", "causal-lm", CAUSAL, (1, 256), SMALL_DECODER),
    "Mamba-130M, 8 layers": Architecture(
        "mamba", "causal-lm", CAUSAL, (1, 256),
        {"vocab_size": 50280, "hidden_size": 768, "num_hidden_layers": 8}, trains=False
    ),
    "wav2vec2-base, 5 s": Architecture("wav2vec2", "speech-recognition", "AutoModelForCTC", (1, 80000)),
    "HuBERT-base, 5 s": Architecture("hubert", "speech-recognition", "AutoModelForCTC", (1, 80000)),
    "WavLM-base, 5 s": Architecture("wavlm", "speech-recognition", "AutoModelForCTC", (1, 80000)),
    "AST, 4 layers": Architecture(
        "audio-spectrogram-transformer", "audio-classification", "AutoModelForAudioClassification", (1, 1024, 128),
        {"num_hidden_layers": 4},
    ),
    "CLAP, sound": Architecture(
        "clap", "zero-shot-audio-classification", "ClapModel", (1, 1, 1001, 64),
        {"audio_config": {"model_type": "clap_audio_model"}, "text_config": {"num_hidden_layers": 2}},
        trains=False,
        ours=lambda model, x: model.sound_features(x),
        theirs=lambda model, x: model.audio_projection(model.audio_model(x).pooler_output),
    ),
    "Moonshine-base, encoder, 5 s": Architecture(
        "moonshine", "speech-recognition", "MoonshineForConditionalGeneration", (1, 80000),
        {
            "hidden_size": 416, "intermediate_size": 1664, "encoder_num_hidden_layers": 8,
            "decoder_num_hidden_layers": 8, "encoder_num_attention_heads": 8, "decoder_num_attention_heads": 8,
        },
        ours=lambda model, x: model.encode(x), theirs=lambda model, x: model.model.encoder(x).last_hidden_state,
    ),
    "Parakeet-CTC, 6 layers, 5 s": Architecture(
        "parakeet_ctc", "speech-recognition", "AutoModelForCTC", (1, 500, 80),
        {"encoder_config": {"num_hidden_layers": 6, "hidden_size": 512, "num_attention_heads": 8}},
    ),
    "SAM-base, picture of 512": Architecture(
        "sam", "mask-generation", "SamModel", (1, 3, 512, 512),
        {"vision_config": {"image_size": 512, "output_channels": 256}, "prompt_encoder_config": {"image_size": 512}},
        trains=False,
        ours=lambda model, x: model.features(x),
        theirs=lambda model, x: model.get_image_embeddings(x),
    ),
}  # fmt: skip


def _first(found: Any) -> Any:
    """The first output, as both give it: logits where there are some."""
    if hasattr(found, "logits"):
        return found.logits
    return found[0] if isinstance(found, tuple) or hasattr(found, "to_tuple") else found


def _passes(
    module: Any, model: Any, x: Any, call: Callable[[Any, Any], Any]
) -> tuple[Callable[[], Any], Callable[[], None]]:
    """(a forward pass without gradients, forward and backward) of a model of `module`: pyapp or torch."""

    def forward() -> Any:
        with module.no_grad():
            return _first(call(model, x))

    def step() -> None:
        model.zero_grad()
        y = _first(call(model, x))
        (y * y).mean().backward()

    return forward, step


def _peer_of(architecture: Architecture, settings: dict[str, Any], ours: Any, threads: int) -> Any:
    """transformers' model with the weights of ours, through a folder: so it knows the names of checkpoints."""
    import torch  # type: ignore[import-not-found]
    import transformers  # type: ignore[import-not-found]

    from pyapp.formats.safetensors import write_safetensors

    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        write_safetensors(Path(folder) / "model.safetensors", dict(ours.state_dict()), {"format": "pt"})
        (Path(folder) / "config.json").write_text(json.dumps(settings))
        return getattr(transformers, architecture.auto_class).from_pretrained(folder, dtype=torch.float32)


def native_figures(name: str, threads: int, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """Passes per second."""
    import pyapp
    from pyapp.models._index import MODEL_TYPES

    from .workload import environment

    architecture = ARCHITECTURES[name]
    pyapp.set_num_threads(threads)
    pyapp.manual_seed(0)
    settings = architecture.settings | {"model_type": architecture.model_type}
    module = importlib.import_module(f"pyapp.models.{MODEL_TYPES[architecture.model_type]}")
    x = architecture.input()
    models = {"pyapp": (pyapp, module.TASKS[architecture.task](module.Config.from_dict(settings)))}
    if with_peers and importlib.util.find_spec("transformers") and importlib.util.find_spec("torch"):
        import torch

        models["transformers"] = torch, _peer_of(architecture, settings, models["pyapp"][1], threads)
    calls = {"pyapp": architecture.ours, "transformers": architecture.theirs}
    passes = {who: _passes(of, model.eval(), of.from_numpy(x), calls[who]) for who, (of, model) in models.items()}
    outputs = [forward().numpy() for forward, _ in passes.values()]
    for output in outputs[1:]:
        apart = np.abs(output - outputs[0]).max() / np.abs(outputs[0]).max()
        if not apart <= CLOSE:
            raise ValueError(f"{name}: the outputs differ by {apart:g} of the largest")
    for at, kind in enumerate(("forward", "training") if architecture.trains else ("forward",)):
        for _, model in models.values():
            model.train(kind == "training")
        found: dict[str, list[float]] = {who: [] for who in models}
        for turn in range(runs + 1):
            for who in models:
                start = time.perf_counter()
                passes[who][at]()
                if turn:
                    found[who].append(1 / (time.perf_counter() - start))
        plural = "s" if threads > 1 else ""
        yield Figure(f"native/architectures/{name}/{kind}/{threads} thread{plural}", "1/s", found, environment())
