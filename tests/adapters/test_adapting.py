"""Adding, training, choosing, merging and removing adapters, on float and on quantised models."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest

import pyapp
from pyapp import nn, optim
from pyapp.adapters import (
    LoraConfig,
    add_adapter,
    disabled_adapters,
    merge_adapters,
    merge_and_unload,
    remove_adapter,
    set_adapter,
    unmerge_adapters,
)
from pyapp.adapters.layers import LowRank
from pyapp.engine import quant
from pyapp.errors import OptionError
from pyapp.nn import functional
from pyapp.text.generation.generate import Session
from tests.adapters.test_files import TEXT, logits
from tests.models.test_decoders import make

Q8 = {"hidden_size": 64, "intermediate_size": 64}  # rows of whole blocks


def shake(model: nn.Module, seed: int = 0) -> None:
    """Gives the trainable parameters values that have an effect."""
    pyapp.manual_seed(seed)
    with pyapp.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(pyapp.randn(*parameter.shape) * 0.2)


def loss_of(model: nn.Module) -> pyapp.Tensor:
    return functional.cross_entropy(model(pyapp.tensor([TEXT[:-1]]))[0], pyapp.tensor(TEXT[1:]))


@pytest.mark.parametrize("quantized", [False, True])
def test_training_changes_the_adapter_alone(quantized: bool) -> None:
    model = make("llama", 0, **Q8)
    if quantized:
        nn.quantize(model, "q8_0", where=lambda name, _: "proj" in name)
    before = {name: value.clone() for name, value in model.state_dict().items() if not value.dtype.is_quantized}
    packed = [value for value in model.state_dict().values() if value.dtype.is_quantized]
    assert bool(packed) == quantized
    paths = add_adapter(model, LoraConfig(r=4, lora_alpha=8))
    assert len(paths) == 14
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert len(trained) == 28
    optimizer = optim.AdamW(trained, lr=0.02)
    losses = []
    for _ in range(12):
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] * 0.6
    for name, value in model.state_dict().items():
        if name in before:
            np.testing.assert_array_equal(value.numpy(), before[name].numpy())
    still = [value for value in model.state_dict().values() if value.dtype.is_quantized]
    assert [value._storage for value in still] == [value._storage for value in packed]


def test_the_gradient_through_a_quantised_base() -> None:
    """The gradients of adapters on a quantised base are those on the same base in float32."""
    quantized = make("llama", 0, **Q8)
    nn.quantize(quantized, "q8_0", where=lambda name, _: "proj" in name)
    plain = copy.deepcopy(quantized)
    plain.dequantize()
    found = []
    for model in (quantized, plain):
        pyapp.manual_seed(1)
        add_adapter(model, LoraConfig(r=4, init_lora_weights=False, target_modules=["q_proj", "down_proj"]))
        loss_of(model).backward()
        found.append({name: value.grad.numpy() for name, value in model.named_parameters() if value.grad is not None})
    assert len(found[0]) == 8
    for name, gradient in found[1].items():  # activations are rounded to int8 in products with quantised weights
        distance = np.linalg.norm(found[0][name] - gradient) / np.linalg.norm(gradient)
        assert distance < 0.05, (name, distance)


@pytest.mark.parametrize("name", ["llama", "gpt2", "falcon"])
def test_merging(name: str) -> None:
    model = make(name, 0).requires_grad_(False)
    plain = logits(model)
    targets = (
        r".*(\.\d+\..*(proj|c_attn|c_proj|c_fc|dense|query_key_value|h_to_4h|4h_to_h)|embed_tokens|wte|word_embeddings)"
    )
    for adapter, more in (("one", {}), ("two", {"use_dora": True, "bias": "all"}), ("three", {"lora_bias": False})):
        add_adapter(model, LoraConfig(r=3, target_modules=targets, **more), adapter)
        shake(model)
    for chosen in ("one", "two", ("one", "three")):
        set_adapter(model, chosen)
        apart = logits(model)
        assert np.abs(apart - plain).max() > 0.01
        merge_adapters(model)
        np.testing.assert_allclose(logits(model), apart, rtol=1e-3, atol=1e-4)
        unmerge_adapters(model)
        np.testing.assert_array_equal(logits(model), apart)
    with disabled_adapters(model):  # without adapters, projections are one product, which may sum in another order
        np.testing.assert_allclose(logits(model), plain, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(logits(model), apart)

    session = Session(copy.deepcopy(model))
    session.read(TEXT)
    last = session.logits.numpy() if hasattr(session, "logits") else None
    if last is not None:
        with pyapp.no_grad():
            np.testing.assert_allclose(
                last.reshape(-1), model(pyapp.tensor([TEXT])).numpy()[0, -1], rtol=1e-3, atol=1e-3
            )

    alone = merge_and_unload(copy.deepcopy(model))
    assert not any(isinstance(module, LowRank) for module in alone.modules())
    np.testing.assert_allclose(logits(alone), apart, rtol=1e-3, atol=1e-4)
    for adapter in ("one", "two", "three"):
        remove_adapter(model, adapter)
    np.testing.assert_array_equal(logits(model), plain)
    assert not any("lora" in key for key in model.state_dict())


def test_merging_into_a_quantised_base() -> None:
    model = make("llama", 0, **Q8)
    nn.quantize(model, "q8_0", where=lambda name, _: "proj" in name)
    add_adapter(model, LoraConfig(r=4))
    shake(model)
    apart = logits(model)
    weight = model.model.layers[0].self_attn.q_proj.weight
    merge_adapters(model)
    merged = model.model.layers[0].self_attn.q_proj.weight
    assert merged.dtype.name == "q8_0"
    assert np.abs(quant.dequantize(merged).numpy() - quant.dequantize(weight).numpy()).max() > 0.01
    assert np.linalg.norm(logits(model) - apart) < 0.1 * np.linalg.norm(apart)
    unmerge_adapters(model)
    np.testing.assert_array_equal(logits(model), apart)


def test_dropout_acts_while_training() -> None:
    model = make("llama", 0)
    add_adapter(model, LoraConfig(r=4, lora_dropout=0.5))
    shake(model)
    model.train()
    assert not np.array_equal(logits(model), logits(model))
    model.eval()
    np.testing.assert_array_equal(logits(model), logits(model))


def test_wrong_settings() -> None:
    model = make("llama", 0)

    def refused(text: str, act: Callable[[], object]) -> None:
        with pytest.raises(OptionError, match=text):
            act()

    refused("a rank is a whole number", lambda: LoraConfig(r=0))
    refused("below 1", lambda: LoraConfig(lora_dropout=1.0))
    refused("one of none, all, lora_only", lambda: LoraConfig(bias="some"))
    refused("not a regular expression", lambda: LoraConfig(target_modules="("))
    refused(
        "fits no layer.*Its layers are called .*q_proj", lambda: add_adapter(model, LoraConfig(target_modules=["x"]))
    )
    refused("LlamaMLP|GatedFeedForward", lambda: add_adapter(model, LoraConfig(target_modules=["mlp"])))
    refused("no module 'y'", lambda: add_adapter(model, LoraConfig(modules_to_save=["y"])))
    refused("without a dot", lambda: add_adapter(model, LoraConfig(), "a.b"))
    refused("no adapter 'other'", lambda: set_adapter(model, "other"))
    add_adapter(model, LoraConfig(bias="all", target_modules=["q_proj"], modules_to_save=["norm"]), "one")
    refused("already", lambda: add_adapter(model, LoraConfig(), "one"))
    add_adapter(model, LoraConfig(modules_to_save=["norm"]), "two")
    refused("two adapters store", lambda: set_adapter(model, ["one", "two"]))


def test_a_layer_that_is_never_called_is_refused() -> None:
    model = nn.TransformerEncoderLayer(16, 2, 16)
    assert add_adapter(model, LoraConfig(r=2, target_modules="all-linear")) == ["linear1", "linear2"]
    with pytest.raises(OptionError, match="self_attn.out_proj cannot have an adapter"):
        add_adapter(model, LoraConfig(r=2, target_modules=["out_proj"]), "other")


@pytest.mark.parametrize("quantized", [False, True])
def test_experts_get_adapters_of_their_own(quantized: bool) -> None:
    model = make("mixtral", 0, **Q8).requires_grad_(False)
    if quantized:
        nn.quantize(model, "q8_0", where=lambda name, _: "experts" in name)
    plain = logits(model)
    add_adapter(model, LoraConfig(r=2, target_parameters=["experts.gate_up_proj", "experts.down_proj"]))
    assert {path.split(".lora_")[0].rpartition(".")[2] for path, p in model.named_parameters() if p.requires_grad} == {
        "experts"
    }
    np.testing.assert_array_equal(logits(model), plain)  # B is zero
    loss_of(model).backward()
    grads = [p.grad for name, p in model.named_parameters() if p.requires_grad and "lora_B" in name]
    assert len(grads) == 4 and all(g is not None and g.abs().max().item() > 0 for g in grads)
    shake(model)
    changed = logits(model)
    assert np.abs(changed - plain).max() > 0.01
    session = Session(model, 32)
    for token in TEXT:
        last = session.feed([token]).reshape(-1)
    with pyapp.no_grad():
        whole = model(pyapp.tensor([TEXT]))[0, -1]
    np.testing.assert_allclose(last.numpy(), whole.numpy(), rtol=1e-3, atol=2e-2 if quantized else 1e-4)
    layer = next(module for module in model.modules() if isinstance(module, nn.Experts))
    stacks = {name: quant.dequantize(getattr(layer, name)).reshape(layer.stack_shape(name)) for name in layer.STACKS}
    factors = {name: layer.stack_factors("default", name) for name in layer.STACKS}
    merge_adapters(model)
    for name, stack in stacks.items():  # (E, N, K); alpha / r is 4
        wanted = (stack + (factors[name][1] @ factors[name][0]) * 4.0).detach()
        merged = quant.dequantize(getattr(layer, name)).detach().reshape(stack.shape)
        np.testing.assert_allclose(merged.numpy(), wanted.numpy(), atol=0.02 if quantized else 1e-5)
    if not quantized:  # rounding may send a token to another expert
        np.testing.assert_allclose(logits(model), changed, rtol=1e-3, atol=1e-4)
    unmerge_adapters(model)
    np.testing.assert_array_equal(logits(model), changed)
    remove_adapter(model, "default")
    np.testing.assert_array_equal(logits(model), plain)
    with pytest.raises(OptionError, match="lora_dropout"):
        add_adapter(model, LoraConfig(lora_dropout=0.1, target_parameters=["experts.down_proj"]))
    with pytest.raises(OptionError, match="not a stack of experts"):
        add_adapter(model, LoraConfig(target_parameters=["experts.other"]))
