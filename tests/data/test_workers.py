"""DataLoader with worker processes: order, seeds, errors, deaths, streams."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

pytestmark = pytest.mark.native_only


class Rows(Dataset[Any]):
    """Examples of several kinds, with the worker that made them; the even ones take longer."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        worker = get_worker_info()
        if index % 2 == 0:
            time.sleep(0.01)
        return {
            "x": pyapp.full((40, 40), float(index)), "y": np.full(3, index, np.int32), "text": str(index),
            "worker": -1 if worker is None else worker.id,
        }  # fmt: skip


def test_order_and_values_are_those_of_one_process() -> None:
    for batch_size in (2, 16):  # by the pipe or shared memory: 6 kB of floats each
        one = list(DataLoader(Rows(), batch_size, shuffle=True, generator=pyapp.Generator(5)))
        two = list(DataLoader(Rows(), batch_size, shuffle=True, generator=pyapp.Generator(5), num_workers=2))
        assert [b["text"] for b in one] == [b["text"] for b in two]
        assert all(a["x"].equal(b["x"]) and a["y"].equal(b["y"]) for a, b in zip(one, two, strict=True))
    loader = DataLoader(Rows(), 2, num_workers=3, prefetch_factor=1, persistent_workers=True)
    for _ in range(2):
        assert [b["worker"].tolist()[0] for b in loader] == [0, 1, 2, 0, 1]
    first = next(iter(loader))  # an abandoned pass leaves nothing in the next one
    assert [b["text"] for b in loader][0] == first["text"] == ["0", "1"]
    assert sorted(sum((b["text"] for b in DataLoader(Rows(), 2, num_workers=2, in_order=False)), [])) == list(
        "0123456789"
    )


def test_memory_is_that_of_the_batch_alone() -> None:
    whole = pyapp.arange(1_000_000).float()
    from pyapp.utils.data.shared_memory import pack, unpack

    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    batch = OrderedDict(part=whole[5:9], array=np.arange(40_000), pair=(whole[:20_000], 1))
    message = pack(batch)
    assert message[1] is not None and sum(place[1] for place, _ in message[2]) < 500_000
    back = unpack(message)
    assert type(back) is OrderedDict
    assert back["part"].tolist() == [5, 6, 7, 8] and back["pair"][0].equal(whole[:20_000])
    back["array"][0] = 7  # the memory is its own
    assert back["array"].sum() == sum(range(40_000)) + 7
    if os.path.isdir("/dev/shm"):
        assert not {name for name in os.listdir("/dev/shm") if name in message[1]} - before


class Draws(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None and info.num_workers == 2
        drawn = pyapp.rand(()).item(), random.random(), float(np.random.rand())
        return (info.seed - info.id, info.id, *drawn)


def seed_by_seed(worker: int) -> None:
    info = get_worker_info()
    assert info is not None and info.id == worker
    np.random.seed(info.seed % 2**32)


def test_each_worker_has_its_own_seeds() -> None:
    def passes(seed: int, **settings: Any) -> list[Any]:
        loader = DataLoader(Draws(), None, num_workers=2, generator=pyapp.Generator(seed), **settings)
        return [list(loader) for _ in range(2)]

    first, second = passes(1)
    base = first[0][0]
    assert {row[0] for row in first} == {base} and base != second[0][0] and passes(1) == [first, second]
    for drawn in first[:2]:  # the first draw of each worker
        words = [drawn[1], base & 0xFFFFFFFF, base >> 32, 0]
        state = np.random.RandomState(np.random.SeedSequence(words).generate_state(4))
        assert drawn[3] == random.Random(base + drawn[1]).random() and drawn[4] == state.rand()
        assert drawn[2] == pyapp.rand((), generator=pyapp.Generator(base + drawn[1])).item()
    other = passes(1, worker_init_fn=seed_by_seed)[0][0]
    assert other[:4] == first[0][:4] and other[4] == np.random.RandomState(base % 2**32).rand()


class Stream(IterableDataset[int]):
    """0 … n - 1, shared by the workers, of which the first has more."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        parts = [range(self.count)] if info is None else [range(self.count - 2), range(self.count - 2, self.count)]
        return iter(parts[0 if info is None else info.id])


def test_streams_are_shared() -> None:
    batches = [batch.tolist() for batch in DataLoader(Stream(9), 2, num_workers=2)]
    assert batches == [[0, 1], [7, 8], [2, 3], [4, 5], [6]]
    assert [b.tolist() for b in DataLoader(Stream(9), 2, num_workers=2, drop_last=True)] == batches[:-1]
    assert [int(x) for x in DataLoader(Stream(4), None, num_workers=2)] == [0, 2, 1, 3]


class Odd(ValueError):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("two arguments")


class Failing(Dataset[int]):
    def __init__(self, how: str) -> None:
        self.how = how

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 5:
            if self.how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.how == "exit":
                os._exit(3)
            elif self.how == "hang":
                time.sleep(60)
            elif self.how == "odd":
                raise Odd(1, 2)
            raise KeyError("no row 5")
        return index


@pytest.mark.parametrize(
    "how, error, message",
    [
        ("raise", KeyError, "no row 5"),
        ("odd", RuntimeError, "two arguments"),  # an error that pickle cannot restore
        ("die", RuntimeError, r"worker process 1 \(pid \d+\) was ended by SIGKILL; .*memory"),
        ("exit", RuntimeError, "ended with exit code 3"),
    ],
)
def test_failures_in_a_worker(how: str, error: type[Exception], message: str) -> None:
    loader = DataLoader(Failing(how), 1, num_workers=2, persistent_workers=how == "raise")
    found = []
    with pytest.raises(error, match=message) as caught:
        for batch in loader:
            found += batch.tolist()
    if how in ("raise", "odd"):
        assert found == [0, 1, 2, 3, 4]
        text = "".join(traceback.format_exception(caught.value))
        assert "in __getitem__" in text and "worker process 1" in text and "the batch of indices [5]" in text
    if how == "raise":
        assert next(iter(loader)).tolist() == [0]  # new workers


def test_a_slow_dataset_times_out_and_an_initialiser_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.utils.data.workers.END_SECONDS", 0.1)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"no batch came within 0\.3 s"):
        list(DataLoader(Failing("hang"), 6, num_workers=1, timeout=0.3))
    assert time.monotonic() - start < 20

    def refuse(worker: int) -> None:
        raise OSError("no such camera")

    with pytest.raises(OSError, match="no such camera"):
        list(DataLoader(range(3), num_workers=1, worker_init_fn=refuse))


def test_settings() -> None:
    for settings, message in (
        ({"num_workers": -1}, "num_workers"),
        ({"timeout": -1}, "timeout"),
        ({"prefetch_factor": 2}, "need num_workers"),
        ({"persistent_workers": True}, "need num_workers"),
        ({"num_workers": 1, "prefetch_factor": 0}, "prefetch_factor"),
    ):
        with pytest.raises(ValueError, match=message):
            DataLoader(range(3), **settings)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="pickle|local object") as caught:
        list(DataLoader(range(3), num_workers=1, collate_fn=lambda x: x, multiprocessing_context="spawn"))
    assert "start method" in "".join(caught.value.__notes__)


PARENT = """
import os, sys, time
import pyapp
from pyapp.utils.data import DataLoader, get_worker_info

def slow(batch):
    print(os.getpid(), flush=True)
    time.sleep(0.05)
    return pyapp.ones(40_000)

if __name__ == "__main__":
    loader = DataLoader(range(1000), num_workers=1, collate_fn=slow, multiprocessing_context=sys.argv[1])
    batches = iter(loader)
    next(batches)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("method, end", [("fork", "exit"), ("forkserver", "kill")])
def test_workers_end_with_their_parent(method: str, end: str, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(pyapp.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(script), method, end], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    assert end == "kill" or (done.returncode == 0 and not done.stderr), done.stderr
    workers = {int(line) for line in done.stdout.split()}
    limit = time.monotonic() + 10
    while alive := {pid for pid in workers if Path(f"/proc/{pid}/cmdline").is_file() and is_python(pid)}:
        assert time.monotonic() < limit, f"workers {alive} live on"
        time.sleep(0.05)


def is_python(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
