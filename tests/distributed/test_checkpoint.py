"""Checkpoints of divided states: other numbers of ranks, here threads, read what some have written; torch's folders;
what is damaged or does not fit is named, and nothing of an older checkpoint is lost.
"""

from __future__ import annotations

import json
import pickle
from math import inf, isnan
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import pyapp
from pyapp import nn, optim
from pyapp.distributed import checkpoint
from pyapp.distributed.checkpoint import files
from pyapp.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import ArgumentError, FileFormatError, ProcessError, StateError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.nn.fully_sharded import fully_shard
from pyapp.nn.part import Part
from pyapp.nn.tensor_parallel import parallelize
from tests.distributed.test_tensor_parallel import TEXT
from tests.distributed.thread_ranks import in_ranks
from tests.models.test_decoders import make

pytestmark = pytest.mark.native_only
HERE = Path(__file__).parent
NAME = "qwen3"  # norms of heads, tied words


def steps(model: Any, optimizer: Any, count: int) -> list[float]:
    ids = pyapp.tensor([TEXT])
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_other_numbers_of_ranks_go_on_as_one(tmp_path: Path) -> None:
    def begun(group: ProcessGroup | None, salt: int) -> tuple[Any, Any]:
        model = make(NAME, salt)
        if group is not None:
            parallelize(model, group, training=True)
        return model, optim.AdamW(model.parameters(), lr=0.01)

    alone = begun(None, 1)
    steps(*alone, 2)
    wanted = steps(*alone, 2)

    def first(group: ProcessGroup) -> None:
        model, optimizer = begun(group, 1)
        steps(model, optimizer, 2)
        for _ in range(2):  # the second takes the place of the first
            own, state = get_state_dict(model, optimizer)
            checkpoint.save({"model": own, "optimizer": state}, checkpoint_id=tmp_path, process_group=group)

    def after(group: ProcessGroup | None) -> list[float]:
        model, optimizer = begun(group, 2)
        own, state = get_state_dict(model, optimizer)
        checkpoint.load({"model": own, "optimizer": state}, checkpoint_id=tmp_path, process_group=group)
        set_state_dict(model, optimizer, model_state_dict=own, optim_state_dict=state)
        return steps(model, optimizer, 2)

    in_ranks(2, first)
    listed = json.loads((tmp_path / "checkpoint.json").read_text())["files"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*listed, "checkpoint.json"])
    for losses in (after(None), *in_ranks(2, after)):
        assert losses == pytest.approx(wanted, abs=1e-4)


def divided(rank: int, ranks: int) -> dict[str, Any]:
    """The rows of a matrix, some of its columns, and a tensor that all have."""
    whole = state_of_one()
    most = -(-5 // ranks)
    rows = Part((5, 3), 0, ((min(rank * most, 5), min(most, 5 - min(rank * most, 5))),))
    columns = Part((2, 4), 1, ((rank, 1), (rank + 2, 1)) if ranks == 2 else ((rank, 1),))
    for name, part in (("a.weight", rows), ("b.weight", columns)):
        whole[name] = part.of(whole[name])
        whole[name].part = part
    return whole


def state_of_one() -> dict[str, Any]:
    return {
        "a.weight": pyapp.arange(15.0).reshape(5, 3), "b.weight": pyapp.arange(8.0).reshape(2, 4) / 2,
        "c": pyapp.tensor([1, 2, 3]),
    }  # fmt: skip


def blank(state: dict[str, Any]) -> dict[str, Any]:
    for value in state.values():
        with pyapp.no_grad():
            value.zero_()
    return state


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        assert (found[name] == value).all(), name


@pytest.mark.parametrize("writers, readers", [(2, 4), (4, 2), (1, 2)])
def test_parts_are_read_from_other_parts(tmp_path: Path, writers: int, readers: int) -> None:
    def write(group: ProcessGroup) -> None:
        state = state_of_one() if group.size() == 1 else divided(group.rank(), group.size())
        checkpoint.save(state, checkpoint_id=tmp_path, process_group=group)

    def read(group: ProcessGroup) -> None:
        found = blank(divided(group.rank(), group.size()))
        checkpoint.load(found, checkpoint_id=tmp_path, process_group=group)
        assert_same(found, divided(group.rank(), group.size()))

    in_ranks(writers, write)
    in_ranks(readers, read)
    found = blank(state_of_one())
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert_same(found, state_of_one())


def test_folders_of_two_processes_of_torch() -> None:
    found = blank(state_of_one())
    checkpoint.load(found, checkpoint_id=HERE / "golden_torch_safetensors")
    assert_same(found, state_of_one())

    def read(group: ProcessGroup | None) -> None:
        wanted = state_of_one() if group is None else divided(group.rank(), 2)
        groups: list[Any] = [{"lr": 0, "betas": (), "params": []}]
        both = {"model": blank(state_of_one() if group is None else divided(group.rank(), 2)), "step": 0}
        both["optimizer"] = {"param_groups": groups}
        checkpoint.load(both, checkpoint_id=HERE / "golden_torch_checkpoint", process_group=group)
        assert_same(both["model"], wanted)
        assert both["step"] == 7
        assert both["optimizer"] == {"param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": ["a.weight"]}]}

    read(None)
    in_ranks(2, read)


@pytest.mark.parametrize(
    "old, new, told",
    [
        (b"__0_0.distcp", b"/etc/passwd.", "is in '/etc/passwd.'"),
        (b"__0_0.distcp", b"__2_0.distcp", "No such file"),
        (b"_StorageInfo", b"_StorageInfu", ""),  # another class with the same attributes
        (b"relative_path", b"relative_pith", "has no relative_path"),
        (b"storage_data", b"storage_dato", "has no storage_data"),
    ],
)
def test_damaged_folders_of_torch(tmp_path: Path, old: bytes, new: bytes, told: str) -> None:
    for path in (HERE / "golden_torch_checkpoint").iterdir():
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data.replace(old, new) if path.name == ".metadata" else data)
    found = {"model": blank(state_of_one())}
    if told:
        with pytest.raises((FileFormatError, FileNotFoundError), match=told):
            checkpoint.load(found, checkpoint_id=tmp_path)
    else:
        checkpoint.load(found, checkpoint_id=tmp_path)
        assert_same(found["model"], state_of_one())
    for cut in (10, 400, 1000):
        (tmp_path / ".metadata").write_bytes((HERE / "golden_torch_checkpoint" / ".metadata").read_bytes()[:cut])
        with pytest.raises(FileFormatError):
            checkpoint.load(found, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(b"\x80\x02K\x01Q.")
    with pytest.raises(FileFormatError, match="has a persistent id"):
        checkpoint.load(found, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes((HERE / "golden_torch_checkpoint" / ".metadata").read_bytes())
    (tmp_path / "__0_0.distcp").write_bytes(b"PK")
    with pytest.raises(FileFormatError, match="has 2 bytes"):
        checkpoint.load(found, checkpoint_id=tmp_path)


def test_values_and_nested_states(tmp_path: Path) -> None:
    values = {"step": 7, "rates": (0.1, inf), "name": "é", "none": None, "list": [1, [True]], "deep": {"x": {"y": 2.5}}}
    checkpoint.save({**values, "nan": float("nan"), "empty": {}}, checkpoint_id=tmp_path)
    found: dict[str, Any] = {
        "step": 0, "rates": (), "name": "", "none": 1, "list": [0], "deep": {"x": {"y": 0}}, "nan": 0,
        "empty": {},
    }  # fmt: skip
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert isnan(found.pop("nan")) and found.pop("empty") == {} and found == values
    model = nn.Linear(2, 2)
    set_model_state_dict(model, nn.Linear(2, 2).state_dict(), options=StateDictOptions(full_state_dict=True))
    with pytest.raises(StateError):
        set_model_state_dict(model, {"weight": model.weight}, options=StateDictOptions())
    assert get_model_state_dict(model)["weight"] is not model.weight


def test_a_checkpoint_is_written_while_the_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values are those of the call. Where it fails on one rank, all are told, and the checkpoint before stays."""
    written = files._write
    monkeypatch.setattr(files, "_WRITING", [])  # the ranks are threads of one process here

    def save(group: ProcessGroup) -> Any:
        state = divided(group.rank(), 2)
        found = checkpoint.async_save(state, checkpoint_id=tmp_path, process_group=group)
        files._WRITING.clear()
        blank(state)
        return found

    def run(group: ProcessGroup) -> None:
        save(group).result(60)
        save(group).result(60)

    def fails(folder: Path, stem: str, pieces: Any) -> list[str]:
        if stem.endswith("1"):
            raise OSError("no space left")
        sleep(0.1)  # the other one has failed before
        return written(folder, stem, pieces)

    def run_badly(group: ProcessGroup) -> None:
        with pytest.raises((OSError, ProcessError), match="no space left"):
            save(group).result(60)

    in_ranks(2, run)
    monkeypatch.setattr(files, "_write", fails)
    in_ranks(2, run_badly)
    monkeypatch.setattr(files, "_write", written)
    listed = json.loads((tmp_path / "checkpoint.json").read_text())["files"]
    left = {path.name for path in tmp_path.iterdir()} - {*listed, "checkpoint.json"}
    assert {name.rpartition(".")[2] for name in left} == {"failed"}
    found = blank(state_of_one())
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert_same(found, state_of_one())
    later = checkpoint.async_save(found, checkpoint_id=tmp_path)
    assert checkpoint.async_save(found, checkpoint_id=tmp_path).result(60) is None and later.done()

    def slow(folder: Path, stem: str, pieces: Any) -> list[str]:
        sleep(0.05)
        return written(folder, stem, pieces)

    monkeypatch.setattr(files, "_write", slow)
    for call in (checkpoint.save, checkpoint.load):  # both wait for it
        later = checkpoint.async_save(found, checkpoint_id=tmp_path)
        call(found, checkpoint_id=tmp_path)
        assert later.done()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("flat", [False, True])
def test_rank_0_alone_has_the_whole_state_and_sends_it(flat: bool) -> None:
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True, flatten_optimizer_state_dict=flat)
    sent = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, flatten_optimizer_state_dict=flat)

    def made(group: ProcessGroup | None, value: float) -> tuple[Any, Any]:
        model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1, bias=False))
        with pyapp.no_grad():
            for i, parameter in enumerate(model.parameters()):
                parameter.copy_(pyapp.arange(parameter.numel()).reshape(parameter.shape) * value - i)
        model[1].weight.requires_grad_(False)
        if group is not None:
            fully_shard(model, process_group=group)
        groups = [{"params": [model[0].weight], "lr": 0.1}, {"params": [model[0].bias], "lr": 0.2}]
        return model, optim.AdamW(groups)

    def step(model: Any, optimizer: Any) -> None:
        (model(pyapp.tensor([[1.0, 2.0, 3.0]])) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def values(states: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
        """The numbers of both states by their names."""
        model, optimizer = states
        if optimizer and not flat:
            entries = optimizer["state"].items()
            optimizer = {f"state.{name}.{key}": value for name, entry in entries for key, value in entry.items()}
            optimizer["param_groups.0.bias.lr"] = states[1]["param_groups"][1]["lr"]
        every = {**model, **optimizer}
        return {key: x.tolist() if isinstance(x, pyapp.Tensor) else x for key, x in every.items()}

    alone = made(None, 0.1)
    step(*alone)
    states = get_state_dict(*alone, options=whole)
    again = made(None, 0.3)
    set_state_dict(*again, model_state_dict=states[0], optim_state_dict=states[1], options=whole)
    with pytest.raises(StateError, match="flatten_optimizer_state_dict" if flat else "no group"):
        set_optimizer_state_dict(*again, states[1], options=StateDictOptions(flatten_optimizer_state_dict=not flat))
    step(*alone)
    step(*again)
    wanted = values(get_state_dict(*alone, options=whole))
    assert values(get_state_dict(*again, options=whole)) == wanted and wanted["param_groups.0.bias.lr"] == 0.2

    def run(group: ProcessGroup) -> dict[str, Any]:
        first, later = made(group, 0.1), made(group, 0.3)
        step(*first)
        model, optimizer = get_state_dict(*first, options=whole)
        assert bool(model) == bool(optimizer) == (group.rank() == 0)
        set_state_dict(*later, model_state_dict=model, optim_state_dict=optimizer, options=sent)
        step(*later)
        return values(get_state_dict(*later, options=whole))

    found = in_ranks(2, run)
    assert found[0].keys() >= wanted.keys() and found[1] == {}
    for name, value in wanted.items():
        assert found[0][name] == value or pyapp.allclose(pyapp.tensor(found[0][name]), pyapp.tensor(value)), name
    trained = get_model_state_dict(alone[0], options=StateDictOptions(ignore_frozen_params=True))
    assert list(trained) == ["0.weight", "0.bias"]
    with pytest.raises(ValueError, match="full_state_dict=True"):
        StateDictOptions(broadcast_from_rank0=True)


def test_a_broken_state_of_rank_0_is_an_error_on_all() -> None:
    sent = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)

    def run(group: ProcessGroup) -> None:
        model = fully_shard(nn.Linear(3, 4), process_group=group)
        optimizer = optim.AdamW(model.parameters())
        first = group.rank() == 0
        for broken, kind, told in (
            (None, AttributeError, "AttributeError: 'NoneType' object has no attribute 'items'"),
            ({"weight": lambda: 0}, (AttributeError, pickle.PicklingError), "lambda"),
            ({"weight": pyapp.ones(3, 4).to_sparse()}, StateError, "of which only dense tensors are sent"),
        ):
            with pytest.raises(
                kind if first else StateError, match=None if first else "rank 0 has no state to send: .*" + told
            ):
                set_model_state_dict(model, broken if first else {}, options=sent)  # type: ignore[arg-type]
        for state in ({}, {"state": {"weight": 3}, "param_groups": []}):
            with pytest.raises(
                (KeyError, AttributeError) if first else StateError, match=None if first else "rank 0 has no"
            ):
                set_optimizer_state_dict(model, optimizer, state if first else {}, options=sent)

    in_ranks(2, run)


def test_boxes_that_have_an_element_in_common_are_found() -> None:
    """Also among many pieces, which are not compared each with each."""
    grid = [((i, j), (i + 1, j + 1)) for i in range(100) for j in range(100)]
    assert not files._overlap(grid) and files._overlap([*grid, ((50, 50), (51, 51))])
    assert files._overlap([*grid[:5000], ((20, 97), (22, 99)), *grid[5000:]])
    wheel = [
        ((0, 0), (1, 2)),
        ((0, 2), (2, 3)),
        ((2, 1), (3, 3)),
        ((1, 0), (3, 1)),
        ((1, 1), (2, 2)),
    ]  # no cut divides it
    assert not files._overlap(wheel) and files._overlap([*wheel[:4], ((1, 1), (3, 2))])
    assert not files._overlap([]) and not files._overlap([((), ())]) and files._overlap([((), ()), ((), ())])


def test_a_state_of_no_step_is_that_of_a_new_optimiser(tmp_path: Path) -> None:
    def made() -> tuple[Any, Any]:
        model = nn.Linear(2, 1)
        with pyapp.no_grad():
            model.weight.fill_(0.5)
            model.bias.zero_()
        return model, optim.NAdam(model.parameters(), lr=0.1)  # whose state begins with a 1

    def steps_of(model: Any, optimizer: Any) -> list[float]:
        for _ in range(2):
            optimizer.zero_grad()
            (model(pyapp.tensor([1.0, 2.0])) ** 2).sum().backward()
            optimizer.step()
        return model.weight.tolist()

    wanted = steps_of(*made())
    model, optimizer = made()
    own, state = get_state_dict(nn.DataParallel(model), optimizer)  # whose names are those of the model alone
    checkpoint.save({"model": own, "optimizer": state}, checkpoint_id=tmp_path)
    assert sorted(own) == ["bias", "weight"] and not optimizer.state and steps_of(model, optimizer) == wanted
    model, optimizer = made()
    own, state = get_state_dict(model, optimizer)
    checkpoint.load({"model": own, "optimizer": state}, checkpoint_id=tmp_path)
    set_state_dict(model, optimizer, model_state_dict=own, optim_state_dict=state)
    assert steps_of(model, optimizer) == wanted
    with pytest.raises(StateError, match="LBFGS has made no step yet"):
        get_state_dict(model, optim.LBFGS(model.parameters()))


def test_a_state_that_cannot_be_divided_is_refused() -> None:
    def run(group: ProcessGroup) -> None:
        model = nn.Linear(64, 128)
        own = model.weight
        own.shard_groups, own.part = (group,), Part((256, 64), 0, ((128 * group.rank(), 128),))
        with pytest.raises(StateError, match="only what it keeps for each element"):
            get_state_dict(model, optim.AdamW8bit(model.parameters()))

    in_ranks(2, run)


def test_what_does_not_fit_is_named_and_changes_nothing(tmp_path: Path) -> None:
    checkpoint.save(state_of_one(), checkpoint_id=tmp_path)
    for change, error, told in (
        ({"d": pyapp.zeros(2), "e": 1}, KeyError, "has not d, e"),
        ({"c": pyapp.zeros(4)}, ArgumentError, r"c has the shape \[4\].*\[3\]"),
    ):
        found = blank(state_of_one()) | change
        with pytest.raises(error, match=told):
            checkpoint.load(found, checkpoint_id=tmp_path)
        assert found["a.weight"].abs().sum().item() == 0
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        checkpoint.load({}, checkpoint_id=tmp_path / "other")
    for state, kind, told in (
        ({"x": object()}, TypeError, "x is"), ({"a": {"b": 1}, "a.b": 2}, ArgumentError, "two entries.*'a.b'"),
        ([pyapp.ones(1)], TypeError, "holds a dict"),
    ):  # fmt: skip
        with pytest.raises(kind, match=told):
            checkpoint.save(state, checkpoint_id=tmp_path)  # type: ignore[arg-type]

    def uneven(group: ProcessGroup) -> None:
        own = pyapp.ones(2)
        own.part = Part((5,), 0, ((2 * group.rank(), 2),))
        checkpoint.save({"x": own}, checkpoint_id=tmp_path, process_group=group)

    with pytest.raises(ArgumentError, match="4 elements of x, which has 5"):
        in_ranks(2, uneven)
    found = blank(state_of_one())
    checkpoint.load(found, checkpoint_id=tmp_path)  # what was there is whole
    assert_same(found, state_of_one())


def test_a_rank_that_cannot_write_ends_all_and_leaves_the_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(state_of_one(), checkpoint_id=tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    write = checkpoint.files._write

    def full(folder: Path, stem: str, pieces: Any) -> Any:
        if "-00001" in stem:
            raise OSError(28, "No space left on device")
        return write(folder, stem, pieces)

    monkeypatch.setattr(checkpoint.files, "_write", full)

    def run(group: ProcessGroup) -> None:
        kind = OSError if group.rank() else ProcessError
        with pytest.raises(kind, match="No space left on device"):
            checkpoint.save(divided(group.rank(), 2), checkpoint_id=tmp_path, process_group=group)

    in_ranks(2, run)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    found = blank(state_of_one())
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert_same(found, state_of_one())


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda index: index | {"files": ["../other.safetensors"]}, "names '../other.safetensors'"),
        (lambda index: index | {"files": index["files"][:2]}, "9 elements of a part of a.weight that has 15.*complete"),
        (lambda index: index | {"shapes": {"a.weight": [4, 3]}}, "ends at .5, 3., outside .4, 3."),
        (lambda index: index | {"shapes": {"a.weight": [-1]}}, "'a.weight' has the shape"),
        (lambda index: index | {"files": index["files"] * 2}, "not complete"),
        (lambda index: index | {"values": {"d": {"float": "one"}}}, "says that 'd' is .'float': 'one'. is no value"),
        (lambda index: {"format": "other"}, "not the index of a checkpoint"),
        (lambda index: [], "not the index of a checkpoint"),
    ],
)
def test_damaged_checkpoints(tmp_path: Path, change: Any, told: str) -> None:
    in_ranks(2, lambda group: checkpoint.save(divided(group.rank(), 2), checkpoint_id=tmp_path, process_group=group))
    index = tmp_path / "checkpoint.json"
    index.write_text(json.dumps(change(json.loads(index.read_text()))))
    found = blank(state_of_one()) | ({"d": 1} if "'d'" in told else {})
    with pytest.raises((FileFormatError, KeyError), match=told):
        checkpoint.load(found, checkpoint_id=tmp_path)
    assert found["c"].sum().item() == 0  # nothing was changed
    index.write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match="is not JSON"):
        checkpoint.load(blank(state_of_one()), checkpoint_id=tmp_path)


@pytest.mark.parametrize(
    "info, told",
    [
        ('{"x": {"saved_offsets": [-1]}}', r"the part of 'x' begins at \[-1\]"),
        ('{"x": [0]}', "not a usable DCP_SHARDING_INFO"), ('{"x": {}}', "has no 'saved_offsets'"),
        ("{", "not a usable DCP_SHARDING_INFO"), ("[1]", "not a usable DCP_SHARDING_INFO"),
    ],
)  # fmt: skip
def test_a_part_that_begins_nowhere(tmp_path: Path, info: str, told: str) -> None:
    write_safetensors(tmp_path / "x.safetensors", {"x": pyapp.ones(2)}, {"DCP_SHARDING_INFO": info})
    assert open_checkpoint(tmp_path / "x.safetensors").tensors["x"].shape == (2,)
    with pytest.raises(FileFormatError, match=told):
        checkpoint.load({"x": pyapp.zeros(2)}, checkpoint_id=tmp_path)
