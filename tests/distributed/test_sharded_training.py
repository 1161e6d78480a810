"""`pyapp finetune --processes N --shard`: ranks, here threads, that keep a part of every parameter train what one
process trains, and go on from each other's checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp import nn, optim
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Event, Metric
from pyapp.formats import open_checkpoint
from pyapp.nn.fully_sharded import fully_shard, run_sharded, shard_blocks
from pyapp.optim.lr_scheduler import LambdaLR
from pyapp.recipes.finetune import finetune
from pyapp.recipes.finetune.steps import make_trainable
from pyapp.train.ranks import Ranks
from pyapp.train.token_rows import predicted_loss
from pyapp.train.trainer import Trainer
from tests.distributed.thread_ranks import in_ranks
from tests.models.test_decoders import make
from tests.text.chat_model import write_chat_model

pytestmark = pytest.mark.native_only


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "chat"
    write_chat_model(folder, dim=32)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "answers.jsonl"
    lines = [
        {"prompt": f"where is {word}?", "chosen": "here " * (i % 3 + 1), "rejected": "there"}
        for i, word in enumerate("abcdefghijkl")
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def events(model: Path, data: Path, out: Path, ranks: Ranks | None = None, stop: int = 0, **more: Any) -> list[Event]:
    """Those of a training of four steps, which is cancelled after step `stop`."""
    cancel, found = Cancel(), []
    settings: dict[str, Any] = {
        "rows": 2, "accumulate": 4, "steps": 4, "rate": 0.01, "held_out": 0.2, "patience": 9, "seed": 3, "full": True,
        "checkpointing": True, "weight_decay": 0.1,
    }  # fmt: skip
    given: Iterator[Event] = finetune(
        model, data, out, evaluate_every=2, cancel=cancel, ranks=ranks, **{**settings, **more}
    )
    for event in given:
        found.append(event)
        if isinstance(event, Metric) and event.name == "loss" and event.step == stop:
            cancel.set()
    return found


def losses(found: list[Event]) -> list[float]:
    names = ("loss", "held_out_loss")
    return [event.value for event in found if isinstance(event, Metric) and event.name in names]


def state(file: Path) -> dict[str, pyapp.Tensor]:
    with open_checkpoint(file) as opened:
        return {name: opened.read(name).clone() for name in opened.tensors}


def test_ranks_train_what_one_process_trains(model: Path, data: Path, tmp_path: Path) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    wanted = losses(events(model, data, one))
    begun = in_ranks(2, lambda group: events(model, data, several, Ranks(group, shard=True), stop=2))
    for found in begun:
        assert isinstance(found[-1], Done) and found[-1].reason == "cancelled"
    more = events(model, data, several, stop=3)  # one process goes on from what two have saved
    ended = in_ranks(4, lambda group: events(model, data, several, Ranks(group, shard=True)))
    assert losses(begun[0]) + losses(more) + losses(ended[0]) == pytest.approx(wanted, abs=1e-5)
    assert all(isinstance(found[-1], Done) and found[-1].reason == "complete" for found in ended)
    for name in ("model.safetensors", "checkpoint.safetensors", "best.safetensors"):
        found, expected = state(several / name), state(one / name)
        assert found.keys() == expected.keys()
        assert all(pyapp.allclose(found[key], value, atol=1e-5) for key, value in expected.items())


def test_preferences_and_what_cannot_be_divided(model: Path, data: Path, tmp_path: Path) -> None:
    """Every rank asks the reference as often, also those whose pairs have come before."""
    more: dict[str, Any] = {"full": False, "patience": 0, "dora": True, "steps": 5, "checkpointing": False}
    found = in_ranks(2, lambda group: losses(events(model, data, tmp_path / "lora", Ranks(group, shard=True), **more)))
    assert len(found[0]) == 5 + 4 and found[0][-1] < found[0][0]
    for wrong, told in (({"accumulate": 3}, "the same number each"), ({"eight_bits": True}, "in blocks"),
                        ({"full": False, "quantized": "q8_0"}, "q8_0")):  # fmt: skip

        def run(group: ProcessGroup, wrong: dict[str, Any] = wrong, told: str = told) -> None:
            with pytest.raises(OptionError, match=told):
                # In a folder of its own: the first one that fails removes an empty one.
                events(model, data, tmp_path / f"wrong {group.rank()}", Ranks(group, shard=True), **wrong)

        in_ranks(2, run)


def test_half_weights_lists_of_parameters_and_parameters_that_nothing_uses() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.ParameterList([pyapp.full((3, 2), 0.5, dtype="bfloat16")])
            self.unused = nn.Parameter(pyapp.ones(4, dtype="bfloat16"))
            self.number = nn.Parameter(pyapp.tensor(2.0))

        def forward(self, batch: int) -> pyapp.Tensor:
            return ((self.own[0].float() * self.number).sum() - batch) ** 2

    class Numbers:
        position = 0

        def batch(self) -> int:
            self.position += 1
            return self.position

    def run(group: ProcessGroup | None) -> list[Any]:
        model = Sum()
        optimizer = optim.MasterWeights(optim.AdamW, model.parameters(), lr=0.01, weight_decay=0.5)
        schedule = LambdaLR(optimizer, lambda _: 1.0)
        trainer = Trainer(
            model, Numbers(), lambda net, x: (loss := net(x), float(loss.item())), optimizer, schedule, accumulate=2
        )
        if group is not None:
            trainer.ranks = Ranks(group, shard=True)
            trainer.begin()
            assert model.own[0].shape[0] == (2, 1)[group.rank()]
        values = [trainer.step() for _ in range(3)]
        with trainer.ranks.whole(model):
            if not trainer.ranks.first:
                return values
            return [*values, *model.own[0].flatten().tolist(), model.number.item(), *model.unused.tolist()]

    wanted = run(None)
    found = in_ranks(2, run)
    assert found[0] == pytest.approx(wanted, rel=1e-6) and found[1] == pytest.approx(wanted[:3], rel=1e-6)
    assert found[0][-4:] == [1.0] * 4  # weight decay leaves alone what has no gradient


@pytest.mark.parametrize("name", ["gemma", "deepseek_v3", "gpt_oss", "zamba2"])
def test_blocks_of_models(name: str) -> None:
    """Layers that read their parameters by name, stacks of experts, a layer that several blocks have."""
    ids = pyapp.tensor([[5, 7, 11, 2], [3, 1, 8, 4]], dtype="int32")

    def loss(model: Any) -> pyapp.Tensor:
        return predicted_loss(model, model.hidden(ids), ids)

    whole = make(name, 1)
    make_trainable(whole)
    expected = loss(whole)
    expected.backward()
    wanted = {name: parameter.grad for name, parameter in whole.named_parameters()}

    def run(group: ProcessGroup) -> None:
        own = make(name, 1)
        make_trainable(own)
        shard_blocks(own, group)
        value = run_sharded(own, loss, own)
        assert value.item() == pytest.approx(expected.item(), abs=1e-5)
        value.backward()
        for key, parameter in own.named_parameters():
            gradient = wanted[key]
            if gradient is not None:
                assert parameter.part is not None and parameter.grad is not None
                assert pyapp.allclose(parameter.grad, parameter.part.of(gradient), rtol=1e-4, atol=1e-6), key

    in_ranks(2, run)


def test_a_matrix_of_joined_layers_is_not_kept() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 2)
            self.qk = nn.JoinedLinear("q", "k")

        def forward(self, x: pyapp.Tensor) -> pyapp.Tensor:
            return self.qk(self, x)

    first = Block()  # for all ranks, which are threads and share a generator

    def run(group: ProcessGroup) -> None:
        block = deepcopy(first)
        x = pyapp.ones(1, 4)
        with pyapp.no_grad():
            wanted = pyapp.cat([block.q(x), block.k(x)], -1)
            fully_shard(block, process_group=group)
            assert pyapp.allclose(block(x), wanted) and block.qk._whole is None
            with Ranks(group, shard=True).whole(block):
                if not group.rank():
                    assert pyapp.allclose(block(x), wanted) and block.qk._whole is not None
            assert block.qk._whole is None

    in_ranks(2, run)
