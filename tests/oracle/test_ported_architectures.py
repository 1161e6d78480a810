"""Many architectures of transformers, small, run from their own sources with pyapp in torch's place: the same outputs
and gradients for the same weights and inputs. (test_ported_models.py has labels, training, caches and decoding.)
"""

from __future__ import annotations

import inspect
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import pyapp
from tests.oracle.ported import Porter, transformers_porter
from tests.oracle.test_ported_models import IDS, IMAGES, tensors_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ARCHITECTURES = """
    bart bert big_bird biogpt blenderbot bloom canine codegen convbert cpmant ctrl data2vec-audio data2vec-text
    data2vec-vision deberta deberta-v2 deit dinov2 distilbert dpt electra esm falcon funnel gemma gemma2 gemma3_text
    glpn gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite hubert imagegpt layoutlm led longformer m2m_100 marian mbart
    mistral mixtral mobilebert mobilenet_v1 mobilenet_v2 mobilevit modernbert mpnet mpt mra mvp nystromformer olmo
    olmo2 opt pegasus phi3 phimoe plbart pvt_v2 qwen2 qwen2_moe qwen3 rembert roberta roformer segformer sew
    squeezebert stablelm starcoder2 swiftformer t5 umt5 unispeech vit wav2vec2 wavlm xglm xlm xlnet yolos
""".split()
SIZES = {
    24: "hidden_size d_model dim n_embd embed_dim embedding_size",
    2: """num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_key_value_heads
          num_experts_per_tok type_vocab_size num_feat_extract_layers num_conv_pos_embedding_groups bos_token_id
          decoder_start_token_id""",
    4: """num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_experts
          num_local_experts rotary_dim state_size""",
    6: "head_dim d_kv",
    40: "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff hidden_dim n_inner ffn_hidden_size",
    64: "max_position_embeddings n_positions",
    8: "patch_size q_lora_rank kv_lora_rank num_conv_pos_embeddings",
    99: "vocab_size", 32: "image_size", 16: "moe_intermediate_size", 12: "projection_dim", 1: "pad_token_id",
    3: "eos_token_id",
}  # fmt: skip
LISTS = {"conv_dim": [8, 8], "conv_kernel": [5, 3], "conv_stride": [3, 2]}


@pytest.fixture(scope="module")
def porter() -> Porter:
    transformers.logging.set_verbosity_error()
    return transformers_porter()


def small(kind: str) -> Any:
    """A configuration of a few thousand weights, without dropout."""
    config = transformers.AutoConfig.for_model(kind)
    for value, names in SIZES.items():
        for name in names.split():
            if hasattr(config, name) and not isinstance(getattr(config, name), (list, tuple)):
                with suppress(AttributeError, NotImplementedError):  # what follows from other settings
                    setattr(config, name, value)
    for name, values in LISTS.items():
        if isinstance(getattr(config, name, None), (list, tuple)):
            setattr(config, name, values)
    for name in list(vars(config)):
        if "drop" in name and isinstance(getattr(config, name), float):
            setattr(config, name, 0.0)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:2]
    config._attn_implementation = "eager"
    return config


def model_class(config: Any) -> Any:
    """The first of the models that a configuration stands for."""
    found = transformers.AutoModel._model_mapping[type(config)]
    return found[0] if isinstance(found, (list, tuple)) else found


def inputs_of(model: Any) -> dict[str, Any]:
    """What the model takes first: ids, pixels or samples."""
    if model.main_input_name == "pixel_values":
        return {"pixel_values": IMAGES}
    if model.main_input_name == "input_values":
        return {"input_values": np.random.RandomState(1).randn(2, 400).astype(np.float32)}
    two_sided = "decoder_input_ids" in inspect.signature(type(model).forward).parameters
    return {"input_ids": IDS, **({"decoder_input_ids": IDS[:, :5].copy()} if two_sided else {})}


def loss_of(outputs: list[Any], make: Any) -> Any:
    """One number of all outputs that have a gradient, in which each element counts differently."""
    parts = []
    for i, y in enumerate(outputs):
        if y.is_floating_point() and y.requires_grad:
            parts.append((y * make(np.cos(np.arange(y.numel()) * (i + 1.7)).reshape(tuple(y.shape)))).mean())
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_architecture(porter: Porter, kind: str) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = model_class(small(kind))(small(kind)).eval()
        inputs = inputs_of(theirs)
        expected = list(tensors_of(theirs(**{k: torch.from_numpy(v) for k, v in inputs.items()}), torch.Tensor))
    name = type(theirs).__module__
    porter.modules.add(name)
    ours = getattr(porter.load(name), type(theirs).__name__)(small(kind)).eval()
    state = {k: pyapp.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    assert not ours.load_state_dict(state, strict=False).missing_keys
    found = list(tensors_of(ours(**{k: pyapp.from_numpy(v) for k, v in inputs.items()}), pyapp.Tensor))
    assert len(found) == len(expected) > 0
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.requires_grad == b.requires_grad
        close(a.detach(), b.detach(), f"output {i}")
    loss_of(expected, lambda w: torch.from_numpy(w).float()).backward()
    loss_of(found, lambda w: pyapp.from_numpy(w).float()).backward()
    others = dict(theirs.named_parameters())
    scale = max(float(p.grad.abs().max()) for p in others.values() if p.grad is not None)
    for path, parameter in ours.named_parameters():
        reference = others[path].grad
        assert (parameter.grad is None) == (reference is None), path
        if reference is not None:
            close(parameter.grad, reference, f"gradient of {path}", scale)


def close(a: Any, b: Any, what: str, scale: float | None = None) -> None:
    """Shapes, dtypes and values, these to 1e-4 of the largest."""
    assert tuple(a.shape) == tuple(b.shape) and str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1], what
    reference = b.float().numpy()
    limit = 1e-7 + 1e-4 * (float(np.abs(reference).max(initial=0)) if scale is None else scale)
    np.testing.assert_allclose(a.float().numpy(), reference, rtol=1e-3, atol=limit, err_msg=what)
