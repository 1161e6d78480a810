"""Pipelines: a model whose layers ranks, here threads, have one after the other has the outputs, the losses and the
gradients of one process, in every schedule; what does not fit is named.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import pyapp
from pyapp import Tensor, nn
from pyapp.distributed.device_mesh import DeviceMesh
from pyapp.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
    SplitPoint,
    TensorChunkSpec,
    pipe_split,
    pipeline,
)
from pyapp.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import ArgumentError
from pyapp.nn import functional as F
from pyapp.nn.fully_sharded import full_state_dict, fully_shard
from pyapp.nn.parallel import DistributedDataParallel
from tests.distributed.thread_ranks import in_grid, in_ranks

pytestmark = pytest.mark.native_only
WIDTH, WORDS, ROWS = 6, 9, 10  # rows of a batch, which 4 does not divide


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Layers, the first one's output of which the head reads again; a mask that all need."""

    def __init__(self, splits: bool = False) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.layers = nn.ModuleList([Layer() for _ in range(4)])
        self.scale = nn.Parameter(pyapp.ones(WIDTH) * 0.5)
        self.splits = splits

    def forward(self, ids: Tensor, mask: Tensor, double: bool = False) -> Tensor:
        if ids.shape != mask.shape or ids.shape[1] > 5:
            raise ValueError("the mask does not fit")
        x = first = self.embed(ids) * mask.unsqueeze(-1)
        for i, layer in enumerate(self.layers):
            if self.splits and i == 2:
                pipe_split()
            x = layer(x) * mask.unsqueeze(-1)
        return self.head(x + first * self.scale) * (2.0 if double else 1.0)


def batch() -> tuple[Tensor, Tensor, Tensor]:
    ids = pyapp.arange(ROWS * 3).reshape(ROWS, 3) * 7 % WORDS
    return ids, (ids != 4).to("float32"), (ids * 2 + 1) % WORDS


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.reshape(-1, WORDS), target.reshape(-1))


STATE = Model().state_dict()
CUTS = {"layers.1": SplitPoint.BEGINNING, "layers.1.down": SplitPoint.END, "layers.3": SplitPoint.BEGINNING}


def made(splits: bool = False) -> Model:
    model = Model(splits)
    model.load_state_dict(STATE)
    return model


def alone(count: int, scale: bool = True) -> tuple[Tensor, list[float], dict[str, Tensor]]:
    """Output, losses and gradients of microbatches in one process."""
    model = made()
    outputs, losses = [], []
    for ids, mask, target in zip(*(x.tensor_split(count) for x in batch()), strict=True):
        outputs.append(model(ids, mask))
        loss = loss_of(outputs[-1], target)
        (loss / count if scale else loss).backward()
        losses.append(loss.item())
    return pyapp.cat(outputs), losses, {name: p.grad for name, p in model.named_parameters()}


def check(found: list[Any], count: int, scale: bool = True) -> None:
    """Compares what all ranks have found: (output, losses, gradients by name)."""
    output, losses, gradients = alone(count, scale)
    given = [one for one in found if one[0] is not None]
    assert len(given) == 1
    assert pyapp.allclose(given[0][0], output, atol=1e-5)
    assert given[0][1] == pytest.approx(losses, abs=1e-5)
    every = {name: value for one in found for name, value in one[2].items()}
    assert every.keys() == gradients.keys() and sum(len(one[2]) for one in found) == len(every)
    for name, value in gradients.items():
        assert pyapp.allclose(every[name], value, atol=1e-5), name


def step(schedule: Any, modules: list[nn.Module], again: bool = False) -> tuple[Any, list[float], dict[str, Tensor]]:
    """What one rank finds. `again`: a step before it leaves nothing behind."""
    ids, mask, target = batch()
    first, last = schedule.stages[0].is_first, schedule.stages[-1].is_last
    for _ in range(1 + again):
        losses: list[Tensor] = []
        for module in modules:
            module.zero_grad()
        output = schedule.step(*((ids, mask) if first else ()), target=target if last else None, losses=losses)
    gradients = {name: p.grad for module in modules for name, p in module.named_parameters()}
    return output, [loss.item() for loss in losses], gradients


@pytest.mark.parametrize("kind", [ScheduleGPipe, Schedule1F1B])
def test_stages_of_a_model_that_is_traced(kind: Any) -> None:
    ids, mask, _ = batch()
    for cuts, count in ((CUTS, 5), ({"layers.2": SplitPoint.BEGINNING}, 4), (None, 1)):
        every = [pipeline(made(cuts is None), (ids[:2], mask[:2]), split_spec=cuts) for _ in (None, *(cuts or [None]))]
        pipes = every[0]  # tracing patches the package, and so not in threads
        assert pipes.num_stages == (2 if cuts is None else len(cuts) + 1)
        assert pyapp.allclose(pipes(ids, mask), made()(ids, mask), atol=1e-6)

        def run(group: ProcessGroup, every: Any = every, count: int = count) -> Any:
            stage = every[group.rank()].build_stage(group.rank(), group=group)
            return step(kind(stage, count, loss_fn=loss_of), [stage.submod], again=True)

        check(in_ranks(pipes.num_stages, run), count)


class Part(nn.Module):
    """A part of the model that is split by hand."""

    def __init__(self, model: Model, first: int, last: int) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({str(i): model.layers[i] for i in range(first, last)})
        if first == 0:
            self.embed = model.embed
        if last == len(model.layers):
            self.head, self.scale = model.head, model.scale

    def forward(self, x: Tensor, mask: Tensor, first: Tensor | None = None) -> Any:
        if hasattr(self, "embed"):
            x = first = self.embed(x) * mask.unsqueeze(-1)
        for layer in self.layers.values():
            x = layer(x) * mask.unsqueeze(-1)
        return self.head(x + first * self.scale) if hasattr(self, "head") else (x, mask, first)


@pytest.mark.parametrize("kind, count", [(ScheduleLoopedBFS, 3), (ScheduleInterleaved1F1B, 6)])
def test_several_stages_for_each_rank(kind: Any, count: int) -> None:
    for ranks in (1, 2):

        def run(group: ProcessGroup) -> Any:
            model = made()
            parts = [Part(model, i, i + 1) for i in range(group.rank(), 4, group.size())]
            stages = [
                PipelineStage(part, group.rank() + i * group.size(), 4, group=group) for i, part in enumerate(parts)
            ]
            return step(kind(stages, count, loss_fn=loss_of, scale_grads=False), parts)  # type: ignore[arg-type]

        check(in_ranks(ranks, run), count, scale=False)


@pytest.mark.parametrize("how", ["replicas", "sharded", "divided"])
def test_replicas_and_divided_stages(how: str) -> None:
    """A grid of two pipelines: each has its half of the batch, or all of it and a part of each layer."""
    ids, mask, target = batch()

    def run(dp: ProcessGroup, pp: ProcessGroup) -> Any:
        part: Any = Part(made(), 2 * pp.rank(), 2 * pp.rank() + 2)
        if how == "divided":
            mesh = DeviceMesh.from_group(dp, "cpu")
            plan = {"layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel()}
            parallelize_module(part, mesh, plan, src_data_rank=None)
        elif how == "sharded":
            for layer in part.layers.values():
                fully_shard(layer, process_group=dp)
            fully_shard(part, process_group=dp)
        else:
            part = DistributedDataParallel(part, process_group=dp)
        schedule = Schedule1F1B(PipelineStage(part, pp.rank(), 2, group=pp), 5, loss_fn=loss_of)
        own = slice(None) if how == "divided" else slice(5 * dp.rank(), 5 * dp.rank() + 5)
        schedule.step(*(() if pp.rank() else (ids[own], mask[own])), target=target[own])
        if how == "replicas":
            return {name: p.grad for name, p in part.module.named_parameters()}
        for parameter in part.parameters():  # so that whole gradients are gathered as parameters are
            parameter.data = parameter.grad
        return full_state_dict(part)

    wanted = alone(5 if how == "divided" else 10)[2]
    found: dict[str, Tensor] = {}
    for one in in_grid(2, 2, run):
        found |= one
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert pyapp.allclose(found[name], value, atol=1e-5), name


def test_without_gradients_and_with_arguments_of_all_microbatches() -> None:
    ids, mask, target = batch()

    def run(group: ProcessGroup) -> Any:
        part = Part(made(), 2 * group.rank(), 2 * group.rank() + 2)
        stage = PipelineStage(part, group.rank(), 2, group=group)
        specs = (TensorChunkSpec(0), None)
        schedule = ScheduleGPipe(stage, 5, args_chunk_spec=specs, output_merge_spec=TensorChunkSpec(1))
        shared = (ids, pyapp.ones(1, 3))
        found = schedule.eval(*(() if group.rank() else shared))
        assert found is None or (found.shape == (2, 15, WORDS) and not found.requires_grad)
        losses: list[Tensor] = []
        schedule = ScheduleGPipe(stage, 5, loss_fn=loss_of)
        schedule.eval(*(() if group.rank() else (ids, mask)), target=target if group.rank() else None, losses=losses)
        return found, [loss.item() for loss in losses], all(p.grad is None for p in part.parameters())

    (none, nothing, _), (found, losses, untouched) = in_ranks(2, run)
    assert none is None and nothing == [] and losses == pytest.approx(alone(5)[1], abs=1e-5) and untouched
    wanted = made()(ids, pyapp.ones(ROWS, 3)).reshape(5, 2, 3, WORDS).transpose(0, 1).reshape(2, 15, WORDS)
    assert pyapp.allclose(found, wanted, atol=1e-5)


def test_arguments_and_outputs_that_hold_tensors() -> None:
    class Pair(NamedTuple):
        words: Any
        scale: Any

    class Doubled(nn.Module):
        def forward(self, given: dict[str, Any]) -> Pair:
            (x,) = given["x"]
            return Pair(x * 2, {"sum": x.sum(1), "name": given["name"]})

    x = pyapp.arange(12.0).reshape(4, 3)

    def run(group: ProcessGroup) -> Any:
        def loss(y: Pair, target: tuple[Tensor, Tensor]) -> Tensor:
            assert target[0].shape == y.words.shape
            return (y.words - target[0]).square().mean() + target[1].mean()

        losses: list[Tensor] = []
        schedule = ScheduleGPipe(PipelineStage(Doubled(), 0, 1, group=group), 2, loss)
        return schedule.eval({"x": [x], "name": "a"}, target=(x * 2, x[:, 0]), losses=losses), losses

    ((found, losses),) = in_ranks(1, run)
    assert isinstance(found, Pair) and pyapp.equal(found.words, x * 2) and pyapp.equal(found.scale["sum"], x.sum(1))
    assert found.scale["name"] == ["a", "a"] and [loss.item() for loss in losses] == [1.5, 7.5]


def test_what_does_not_fit_is_named() -> None:
    ids, mask, _ = batch()
    model = made()

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
            self.two.weight = self.one.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.two(self.one(x))

    def run(group: ProcessGroup) -> None:
        stage = PipelineStage(nn.Linear(3, 3), 0, 1, group=group)
        for call, kind, told in (
            (lambda: PipelineStage(nn.Linear(3, 3), 2, 2, group=group), ArgumentError, "no stage 2 of 2"),
            (lambda: ScheduleGPipe(stage, 0), ArgumentError, "n_microbatches is 0"),
            (lambda: ScheduleGPipe(stage, 4).step(pyapp.ones(3, 3)), ArgumentError, "has not 4 parts for microbatches"),
            (lambda: ScheduleGPipe(stage, 1, lambda y, t: y).step(pyapp.ones(3, 3)), ArgumentError, "gives one number"),
            (lambda: ScheduleLoopedBFS([], 1), TypeError, "takes PipelineStages"),
            (lambda: Schedule1F1B(PipelineStage(model, 0, 2, group=group), 1), ArgumentError, r"the stages \[0, 1\]"),
            (lambda: pipeline(model, (ids, mask)), ArgumentError, "there is one stage"),
            (lambda: pipeline(model, (ids, mask), split_spec={"la": SplitPoint.END}), ArgumentError, "'la' names no"),
            (
                lambda: pipeline(Tied(), (pyapp.ones(1, 3),), split_spec={"two": SplitPoint.BEGINNING}), ArgumentError,
                "the stages 0 and 1 have one parameter, one.weight and two.weight",
            ),
        ):  # fmt: skip
            with pytest.raises(kind, match=told):
                call()

    in_ranks(1, run)

    def other(group: ProcessGroup) -> None:
        rank = group.rank()
        with pytest.raises(
            ArgumentError, match="3 stages" if rank else "stage 1 is that of rank 1 of 2, this is rank 0"
        ):
            PipelineStage(model, 1 - rank, 2 + rank, group=group)
        if rank:
            with pytest.raises(ArgumentError, match="the first stage, in another process, gets the batch"):
                ScheduleGPipe(PipelineStage(model, 1, 2, group=group), 1).step(ids)

    in_ranks(2, other)
