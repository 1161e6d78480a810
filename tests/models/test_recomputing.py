"""Checkpointed blocks of language models: the same gradients and random numbers, and fewer values kept."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.adapters import LoraConfig, add_adapter
from pyapp.errors import ArgumentError
from pyapp.models.llama2c import Config, Llama2c
from pyapp.nn import Linear, Module, functional
from pyapp.nn.checkpointing import checkpoint_blocks
from tests.models.decoder_configs import CONFIGS
from tests.models.test_decoders import make, module_of
from tests.together import check_each, fewer_in_browser

TOKENS = [[3, 17, 5, 60, 8, 44, 2, 9]]


def step(model: Module) -> tuple[float, dict[str, np.ndarray], int]:
    """The loss, the gradients, and how many nodes the graph of the loss has."""
    pyapp.manual_seed(5)
    loss = functional.cross_entropy(model(pyapp.tensor(TOKENS))[0, :-1], pyapp.tensor(TOKENS[0][1:]))
    waiting, nodes = [loss.node], set()
    while waiting:
        node = waiting.pop()
        if node is not None and id(node) not in nodes and hasattr(node, "edges"):
            nodes.add(id(node))
            waiting += node.edges
    loss.backward()
    found = {name: value.grad.numpy() for name, value in model.named_parameters() if value.grad is not None}
    model.zero_grad()
    return loss.item(), found, len(nodes)


def language_models() -> Iterator[tuple[str, Any]]:
    """Of each architecture the first configuration, and its model, which is made when it is asked for."""
    first: dict[Any, str] = {}
    for name, config in CONFIGS.items():
        first.setdefault(module_of(config).TASKS["causal-lm"], name)
    for name in fewer_in_browser(first.values()):
        yield name, make(name, 0)
    yield "llama2c", Llama2c(Config(32, 48, 2, 4, 2, 96, 64))


def test_every_language_model() -> None:
    def check(name: str, model: Module) -> None:
        loss, expected, nodes = step(model)
        layers = CONFIGS.get(name, {}).get("num_hidden_layers", 2)
        assert checkpoint_blocks(model) == (2 * layers if name == "hrm_text" else layers)  # which has two stacks
        again, found, fewer = step(model)
        assert again == loss and fewer < nodes / 2
        assert found.keys() == expected.keys()
        # All layers of Zamba 1 and 2 read the words, whose gradients are then added in another order.
        close = 1e-5 if name in ("zamba", "zamba2") else 0
        for key, gradient in expected.items():
            np.testing.assert_allclose(found[key], gradient, rtol=close, atol=close / 10, err_msg=key)

    check_each(check, language_models())


def test_dropout_autocast_and_copies() -> None:
    model = make("llama", 0)
    add_adapter(model, LoraConfig(r=4, lora_dropout=0.3, init_lora_weights=False))
    model.train()
    for region in (False, True):
        checkpoint_blocks(model, False)
        with pyapp.autocast("cpu", enabled=region):
            pyapp.manual_seed(1)
            plain = model(pyapp.tensor(TOKENS)).float().square().mean()
        plain.backward()
        expected = [value.grad.numpy() for value in model.parameters() if value.grad is not None]
        model.zero_grad()
        checkpoint_blocks(model)
        with pyapp.autocast("cpu", enabled=region):
            pyapp.manual_seed(1)
            loss = model(pyapp.tensor(TOKENS)).float().square().mean()
        loss.backward()  # outside of the region
        assert loss.item() == plain.item()
        for found, gradient in zip(
            (value.grad for value in model.parameters() if value.grad is not None), expected, strict=True
        ):
            np.testing.assert_allclose(found.numpy(), gradient, rtol=1e-5, atol=1e-8)
        model.zero_grad()
    twin = copy.deepcopy(model)
    assert twin.model.layers[0].forward.block is twin.model.layers[0]
    plain_model = make("llama", 0)
    checkpoint_blocks(plain_model)
    assert pickle.loads(pickle.dumps(plain_model)).model.layers[1].forward is not None
    with pytest.raises(ArgumentError, match="no ModuleList"):
        checkpoint_blocks(Linear(2, 2))
