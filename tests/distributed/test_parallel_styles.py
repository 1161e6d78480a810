"""parallelize_module: a transformer that ranks, here threads, divide by a plan has the loss and the gradients of one
process, with whole activations and with tokens that the ranks divide.
"""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from pyapp import Tensor, nn
from pyapp.adapters import LoraConfig, add_adapter
from pyapp.distributed.device_mesh import DeviceMesh
from pyapp.distributed.tensor import Replicate, Shard
from pyapp.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import ArgumentError, OptionError
from pyapp.nn.fully_sharded import MixedPrecisionPolicy, full_state_dict, fully_shard, load_full_state_dict
from pyapp.nn.utils import clip_grad_norm_
from tests.distributed.thread_ranks import in_ranks

pytestmark = pytest.mark.native_only
WIDTH, HEADS, WORDS, TOKENS = 12, 4, 11, 6


class Attention(nn.Module):
    """Self-attention of as many heads as its projections have."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.wo = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for layer in (self.wq, self.wk, self.wv)
        )
        y = nn.functional.scaled_dot_product_attention(q * scale, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.w1, self.w2 = nn.Linear(WIDTH, 20), nn.Linear(20, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), scale=0.5)
        return x + self.w2(nn.functional.gelu(self.w1(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(pyapp.arange(TOKENS).unsqueeze(0))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


WHOLE = {
    "words": RowwiseParallel(), "places": ColwiseParallel(output_layouts=Replicate()),
    "layers.*.attention.w[qkv]": ColwiseParallel(), "layers.*.attention.wo": RowwiseParallel(),
    "layers.*.w1": ColwiseParallel(), "layers.*.w2": RowwiseParallel(),
    "head": ColwiseParallel(output_layouts=Replicate()),
}  # fmt: skip
# The tokens are divided between attention and feed-forward.
SEQUENCES = {
    "words": RowwiseParallel(output_layouts=Shard(1)), "places": RowwiseParallel(output_layouts=Shard(1)),
    "layers.*.norm1": SequenceParallel(), "layers.*.norm2": SequenceParallel(),
    "layers.*.attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
    "layers.*.attention.w[qkv]": ColwiseParallel(),
    "layers.*.attention.wo": RowwiseParallel(output_layouts=Shard(1)),
    "layers.*.w1": ColwiseParallel(input_layouts=Shard(1)), "layers.*.w2": RowwiseParallel(output_layouts=Shard(1)),
    "norm": SequenceParallel(), "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}  # fmt: skip


def made(seed: int = 7) -> Transformer:
    generator = pyapp.Generator().manual_seed(seed)
    model = Transformer()
    with pyapp.no_grad():
        for parameter in model.parameters():
            parameter.copy_(pyapp.randn(parameter.shape, generator=generator) * 0.3)
    return model


IDS = [[1, 4, 2, 9, 10, 3], [5, 5, 0, 7, 1, 8]]


def step(model: Any) -> float:
    ids = pyapp.tensor(IDS)
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.roll(1, 1).flatten())
    loss.backward()
    return loss.item()


def mesh_of(group: ProcessGroup) -> DeviceMesh:
    return DeviceMesh.from_group(group, "cpu", mesh_dim_names=("tp",))


@pytest.mark.parametrize("plan, ranks", [(WHOLE, 2), (SEQUENCES, 2), (WHOLE, 4), (SEQUENCES, 4)])
def test_losses_gradients_and_norms_are_those_of_one_process(plan: Any, ranks: int) -> None:
    alone = made()
    loss = step(alone)
    norm = clip_grad_norm_(alone.parameters(), 1.0).item()

    def run(group: ProcessGroup) -> None:
        model = parallelize_module(made(), mesh_of(group), plan, src_data_rank=None)
        share = sum(p.numel() for p in model.parameters()) / sum(p.numel() for p in alone.parameters())
        assert share < 1 / ranks + 0.2
        assert abs(step(model) - loss) < 1e-5
        assert abs(clip_grad_norm_(model.parameters(), 1.0).item() - norm) < 1e-4 * norm
        for (name, own), whole in zip(model.named_parameters(), alone.parameters(), strict=True):
            wanted = whole.grad if own.part is None else own.part.of(whole.grad)
            assert own.grad is not None and pyapp.allclose(own.grad, wanted, atol=1e-5), name

    in_ranks(ranks, run)


def test_whole_states_and_the_first_process_parameters() -> None:
    alone, other = made().state_dict(), made(8).state_dict()

    def run(group: ProcessGroup) -> None:
        model = parallelize_module(made(7 + group.rank()), mesh_of(group), WHOLE)  # those of rank 0 count
        state = full_state_dict(model)
        named = ("layers.0.w1.weight", "layers.1.attention.wo.weight", "words.weight", "head.bias")
        assert all((state[name] == alone[name]).all() for name in named)
        load_full_state_dict(model, other)
        assert all((value == other[name]).all() for name, value in full_state_dict(model).items())

    in_ranks(2, run)


def test_outputs_are_brought_into_another_layout() -> None:
    def run(group: ProcessGroup) -> None:
        first, last = group.rank() * 2, group.rank() * 2 + 2
        x = pyapp.arange(8.0).reshape(2, 4).requires_grad_()
        divided = parallelize_module(
            nn.Identity(), mesh_of(group),
            PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1)),
        )  # fmt: skip
        assert (divided(x) == x[:, first:last]).all()
        both = parallelize_module(
            nn.Identity(), mesh_of(group),
            PrepareModuleInputOutput(
                input_layouts=Replicate(), desired_input_layouts=Shard(0), output_layouts=Shard(0),
                desired_output_layouts=Shard(1),
            ),
        )  # fmt: skip
        y = both(x)
        assert (y == x[:, first:last]).all()
        (y * (group.rank() + 1)).sum().backward()
        assert x.grad.tolist() == [[1, 1, 2, 2], [1, 1, 2, 2]]

    in_ranks(2, run)


def test_errors() -> None:
    def run(group: ProcessGroup) -> None:
        mesh = mesh_of(group)
        for plan, told in (
            ({"layers.2.w1": ColwiseParallel()}, "'layers.2.w1' names no module of Transformer"),
            ({"norm": ColwiseParallel()}, "divides Linear and Embedding, but norm is a LayerNorm"),
            ({"words": RowwiseParallel()}, "words.weight and head.weight are one parameter"),
            ({"places": ColwiseParallel()}, "places is an Embedding with max_norm"),
        ):
            changed = made()
            changed.head.weight, changed.places.max_norm = changed.words.weight, 1.0
            with pytest.raises(ArgumentError, match=told):
                parallelize_module(changed, mesh, plan, src_data_rank=None)
        with pytest.raises(ArgumentError, match="src_data_rank is 3, of 1 ranks"):
            parallelize_module(made(), mesh, WHOLE, src_data_rank=3)
        with pytest.raises(TypeError, match="the plan of 'head' is a ParallelStyle"):
            parallelize_module(made(), mesh, {"head": Shard(0)}, src_data_rank=None)  # type: ignore[dict-item]
        with pytest.raises(TypeError, match="input_layouts is a Placement"):
            ColwiseParallel(input_layouts=1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="the plan has paths"):
            parallelize_module(made(), mesh, {0: ColwiseParallel()}, src_data_rank=None)  # type: ignore[dict-item]
        layer = parallelize_module(nn.Linear(2, 2), mesh, ColwiseParallel(output_layouts=Shard(2)))
        with pytest.raises(IndexError, match=r"Shard\(dim=2\)"):
            layer(pyapp.ones(1, 2))
        for style in (ColwiseParallel, RowwiseParallel):
            with pytest.raises(ArgumentError, match="Linear is divided among processes, and takes its input by pos"):
                parallelize_module(nn.Linear(2, 2), mesh, style())(input=pyapp.ones(1, 2))
        with pytest.raises(TypeError, match="mp_policy is a MixedPrecisionPolicy, not 'bfloat16'"):
            fully_shard(nn.Linear(2, 2), mesh=mesh, mp_policy="bfloat16")  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="types of floating point, not int8"):
            fully_shard(nn.Linear(2, 2), mesh=mesh, mp_policy=MixedPrecisionPolicy("int8"))
        model = parallelize_module(made(), mesh, {"head": ColwiseParallel()}, src_data_rank=None)
        with pytest.raises(ArgumentError, match="is divided already"):
            parallelize_module(model, mesh, {"head": ColwiseParallel()}, src_data_rank=None)
        with pytest.raises(OptionError, match="head has only a part of its parameters"):
            add_adapter(model, LoraConfig(target_modules=["head"]))
        with pytest.raises(ValueError, match="computes with whole parameters"):
            pyapp.optim.Adafactor(model.parameters())

    in_ranks(1, run)
