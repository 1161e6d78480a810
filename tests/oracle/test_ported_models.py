"""Models of installed packages, run from their own sources with pyapp in torch's place: the same outputs and gradients
as with torch, for the same weights.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyapp
from tests.oracle.ported import Porter, transformers_porter

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

RANDOM = np.random.RandomState
IDS = RANDOM(0).randint(5, 90, (2, 9)).astype(np.int64)
MASK = np.array([[1] * 9, [1] * 6 + [0] * 3], dtype=np.int64)
IMAGES = RANDOM(1).randn(2, 3, 32, 32).astype(np.float32)
MEL = RANDOM(2).randn(2, 16, 40).astype(np.float32)
STATES = RANDOM(3).randn(2, 7, 24).astype(np.float32)
SMALL = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, vocab_size=99)
TWO_SIDED = dict(
    d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=40, decoder_ffn_dim=40, vocab_size=99, dropout=0.0, pad_token_id=1, bos_token_id=2, eos_token_id=3,
    decoder_start_token_id=2,
)  # fmt: skip
DROPOUTS = """
    attention_dropout hidden_dropout attn_pdrop resid_pdrop embd_pdrop dropout attention_probs_dropout_prob
    hidden_dropout_prob dropout_rate seq_classif_dropout
""".split()
# model: package, class, configuration, settings of the configuration, inputs
MODELS: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any]]] = {
    "bert": ("bert", "BertModel", "BertConfig", SMALL, {"input_ids": IDS, "attention_mask": MASK}),
    "bert masked": (
        "bert", "BertForMaskedLM", "BertConfig", {**SMALL, "hidden_act": "gelu_new"},
        {"input_ids": IDS, "attention_mask": MASK, "labels": IDS},
    ),
    "distilbert": (
        "distilbert", "DistilBertForSequenceClassification", "DistilBertConfig",
        dict(dim=24, n_layers=2, n_heads=4, hidden_dim=40, vocab_size=99, num_labels=3),
        {"input_ids": IDS, "attention_mask": MASK},
    ),
    "gpt2": (
        "gpt2", "GPT2LMHeadModel", "GPT2Config", dict(n_embd=24, n_layer=2, n_head=4, vocab_size=99, n_positions=32),
        {"input_ids": IDS, "attention_mask": MASK},
    ),
    "llama": (
        "llama", "LlamaForCausalLM", "LlamaConfig", {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0},
        {"input_ids": IDS, "attention_mask": MASK},
    ),
    "llama, rope of llama 3": (
        "llama", "LlamaModel", "LlamaConfig",
        {**SMALL, "attention_bias": True, "pad_token_id": 0, "rope_parameters": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16, "rope_theta": 10000.0,
        }},
        {"input_ids": IDS},
    ),
    "falcon": (
        "falcon", "FalconForCausalLM", "FalconConfig", {**SMALL, "new_decoder_architecture": False, "alibi": False},
        {"input_ids": IDS, "attention_mask": MASK},
    ),
    "falcon with alibi": (
        "falcon", "FalconModel", "FalconConfig", {**SMALL, "alibi": True, "multi_query": False, "parallel_attn": False},
        {"input_ids": IDS, "attention_mask": MASK},
    ),
    "t5": (
        "t5", "T5ForConditionalGeneration", "T5Config",
        dict(d_model=24, d_kv=6, d_ff=40, num_layers=2, num_heads=4, vocab_size=99, feed_forward_proj="gated-gelu",
             decoder_start_token_id=0, pad_token_id=0),
        {"input_ids": IDS, "attention_mask": MASK, "labels": IDS[:, :5].copy()},
    ),
    "trocr": (
        "trocr", "TrOCRForCausalLM", "TrOCRConfig",
        dict(d_model=24, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=40, vocab_size=99,
             cross_attention_hidden_size=24),
        {"input_ids": IDS, "encoder_hidden_states": STATES},
    ),
    "whisper": (
        "whisper", "WhisperForConditionalGeneration", "WhisperConfig",
        {**TWO_SIDED, "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 16},
        {"input_features": MEL, "decoder_input_ids": IDS},
    ),
    "vit": (
        "vit", "ViTModel", "ViTConfig", {**SMALL, "image_size": 32, "patch_size": 8},
        {"pixel_values": IMAGES},
    ),
    "vit of another size": (
        "vit", "ViTForImageClassification", "ViTConfig", {**SMALL, "image_size": 24, "patch_size": 8},
        {"pixel_values": IMAGES, "interpolate_pos_encoding": True},
    ),
    "resnet": (
        "resnet", "ResNetForImageClassification", "ResNetConfig",
        dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="bottleneck", num_labels=3),
        {"pixel_values": IMAGES},
    ),
    "clip": (
        "clip", "CLIPModel", "CLIPConfig",
        dict(text_config={**SMALL, "eos_token_id": 2}, vision_config={**SMALL, "image_size": 32, "patch_size": 8},
             projection_dim=12),
        {"input_ids": IDS, "pixel_values": IMAGES},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def porter() -> Porter:
    pytest.importorskip("transformers")
    return transformers_porter()


def tensors_of(value: Any, kind: type) -> Iterator[Any]:
    """The tensors in an output, in order; caches are left out."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from tensors_of(inner, kind)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors_of(inner, kind)


def fill(model: Any) -> None:
    """Weights from a seed, in the order of their names; buffers stay."""
    random = np.random.RandomState(5)
    for name, p in sorted(model.named_parameters()):
        scale = 0.02 if "logit_scale" in name else 1.0
        values = np.asarray(random.randn(*p.shape), dtype=np.float32) * scale * (0.3 if p.ndim > 1 else 0.1)
        p.detach().numpy()[...] = values + (1 if "norm" in name.lower() and name.endswith("weight") else 0)


def weighted(outputs: list[Any], make: Callable[[Any], Any]) -> Any:
    """One number of all outputs, in which each element counts differently."""
    total = None
    for i, y in enumerate(outputs):
        if y.is_floating_point() and y.requires_grad:
            weights = np.asarray(np.random.RandomState(i).randn(*y.shape), dtype=np.float32)
            part = (y * make(weights)).sum()
            total = part if total is None else total + part
    return total


def compare(theirs: Any, ours: Any, inputs: dict[str, Any], train: bool) -> None:
    """Outputs, and gradients of every parameter."""
    for model in (theirs, ours):
        fill(model)
        model.train(train)
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    expected = list(tensors_of(theirs(**{k: _torch(v) for k, v in inputs.items()}), torch.Tensor))
    found = list(tensors_of(ours(**{k: _pyapp(v) for k, v in inputs.items()}), pyapp.Tensor))
    assert len(found) == len(expected) > 0
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        _close(a.detach().numpy(), b.detach().numpy(), f"output {i}")
    weighted(expected, torch.from_numpy).backward()
    weighted(found, pyapp.from_numpy).backward()
    seen = 0
    scale = max(float(b.grad.abs().max()) for b in theirs.parameters() if b.grad is not None)
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            _close(a.grad.numpy(), b.grad.numpy(), f"gradient of {name}", scale)
            seen += 1
    assert seen > 3


def _torch(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _pyapp(value: Any) -> Any:
    return pyapp.from_numpy(value) if isinstance(value, np.ndarray) else value


def _close(a: Any, b: Any, what: str, scale: float | None = None) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype, what
    size = float(np.abs(b).max(initial=0.0)) if scale is None else scale
    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5 * size, err_msg=what)


@pytest.mark.parametrize("name", MODELS)
def test_transformers(porter: Porter, name: str) -> None:
    package, kind, configuration, settings, inputs = MODELS[name]
    module = importlib.import_module(f"transformers.models.{package}.modeling_{package}")
    off = {} if package == "clip" else dict.fromkeys(DROPOUTS, 0.0)
    made = []
    for side in (module, porter.load(module.__name__)):
        config = getattr(module, configuration)(**{**off, **settings})
        config._attn_implementation = "eager"
        made.append(getattr(side, kind)(config))
    compare(*made, inputs, train=package == "resnet")


@pytest.mark.parametrize("name", ["gpt2", "llama", "whisper"])
def test_decoding_with_a_cache(porter: Porter, name: str) -> None:
    """Token by token, with what the model itself keeps of those before."""
    package, kind, configuration, settings, inputs = MODELS[name]
    module = importlib.import_module(f"transformers.models.{package}.modeling_{package}")
    token = "decoder_input_ids" if name == "whisper" else "input_ids"
    rows = []
    for side, make, framework in (
        (module, _torch, torch), (porter.load(module.__name__), _pyapp, pyapp)
    ):  # fmt: skip
        config = getattr(module, configuration)(**settings)
        config._attn_implementation = "eager"
        model = getattr(side, kind)(config)
        fill(model)
        model.eval()
        given = {"input_features": make(MEL)} if name == "whisper" else {}
        cache, ids, logits = None, make(IDS[:, :4].copy()), []
        with framework.no_grad():
            for _ in range(5):
                out = model(**given, **{token: ids}, past_key_values=cache, use_cache=True)
                cache = out["past_key_values"]
                logits.append(out["logits"][:, -1].numpy())
                ids = out["logits"][:, -1:].argmax(-1)
        rows.append((np.stack(logits), ids.numpy()))
    np.testing.assert_array_equal(rows[0][1], rows[1][1])
    _close(rows[1][0], rows[0][0], "logits")


class _Tokenizer:
    """As much of openai-whisper's as decoding asks for; texts are the ids."""

    sot, eot, no_speech, sot_prev, sot_lm, no_timestamps, timestamp_begin = 80, 81, 82, 83, 84, 85, 86
    transcribe, translate = 87, 89
    sot_sequence, sot_sequence_including_notimestamps, sot_index = (80, 88, 87), (80, 88, 87, 85), 0
    non_speech_tokens: tuple[int, ...] = (7, 8)
    language = "en"

    def encode(self, text: str) -> list[int]:
        return [5]

    def decode(self, tokens: list[int]) -> str:
        return " ".join(map(str, tokens))


@pytest.fixture(scope="module")
def whisper() -> tuple[Any, Any]:
    """openai-whisper's model and decoding, with torch and with pyapp."""
    pytest.importorskip("whisper")
    modules = ["whisper.model", "whisper.decoding"]
    porter = Porter(modules, {"whisper.transcribe": type("side", (), {"transcribe": None})})
    return tuple(map(importlib.import_module, modules)), tuple(map(porter.load, modules))


SIZES = dict(n_mels=16, n_audio_ctx=20, n_audio_state=24, n_audio_head=4, n_audio_layer=2, n_vocab=1600, n_text_ctx=24,
             n_text_state=24, n_text_head=4, n_text_layer=2)  # fmt: skip


@pytest.mark.parametrize("fused", [True, False])
def test_openai_whisper(whisper: tuple[Any, Any], fused: bool) -> None:
    made = []
    for side, _ in whisper:
        side.MultiHeadAttention.use_sdpa = fused
        made.append(side.Whisper(side.ModelDimensions(**SIZES)))
    compare(*made, {"mel": MEL, "tokens": IDS}, train=True)
    for name, buffer in made[1].named_buffers():
        theirs = dict(made[0].named_buffers())[name]
        if not theirs.is_sparse:
            _close(buffer.numpy(), theirs.numpy(), name)


@pytest.mark.parametrize(
    "options",
    [{}, {"without_timestamps": True}, {"beam_size": 3, "patience": 1.5}, {"prompt": "a", "suppress_blank": False}],
)
def test_openai_whisper_decodes(whisper: tuple[Any, Any], options: dict[str, Any]) -> None:
    found = []
    for (side, decoding), make in zip(whisper, (_torch, _pyapp), strict=True):
        model = side.Whisper(side.ModelDimensions(**SIZES))
        fill(model)
        model.eval()
        decoding.get_tokenizer = lambda *_, **__: _Tokenizer()
        settings = decoding.DecodingOptions(language="en", fp16=False, sample_len=12, suppress_tokens="-1", **options)
        mel = make(MEL[:1] if "beam_size" in options else MEL)  # openai-whisper searches beams of one recording
        results = decoding.decode(model, mel, settings)
        found.append([(r.tokens, r.avg_logprob, r.no_speech_prob) for r in results])
    assert [r[0] for r in found[1]] == [r[0] for r in found[0]]
    np.testing.assert_allclose([r[1:] for r in found[1]], [r[1:] for r in found[0]], rtol=1e-4)
