"""Two processes by MPI: calls, data-parallel training, sharded optimiser states; a rank that fails ends the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pyapp
from pyapp import optim
from pyapp.distributed import checkpoint
from pyapp.distributed.checkpoint.state_dict import get_state_dict
from tests.distributed.processes import _Tied

pytestmark = pytest.mark.native_only
pytest.importorskip("mpi4py", reason="pip install 'pyapp[distributed]'")
ROOT = Path(__file__).resolve().parents[2]


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pyapp", "run", "-n", "2", str(script), *arguments], env=environment, text=True,
        capture_output=True, timeout=120, cwd=ROOT,
    )  # fmt: skip


def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    ended = run(Path(__file__).with_name("processes.py"), str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    failed = {f"rank {i}: {name}": told for i in range(2)
              for name, told in json.loads((tmp_path / f"{i}.json").read_text()).items()}  # fmt: skip
    assert not failed, "\n".join(f"{name}\n{told}" for name, told in failed.items())
    # One process reads what both have written: the state of the optimiser that one has made.
    whole, parts = _Tied(), _Tied()
    states = []
    for model, name in ((whole, "checkpoint-True-whole"), (parts, "checkpoint-True")):
        _, state = get_state_dict(model, optim.AdamW(model.parameters()))
        both = {"optimizer": state} if model is parts else state
        checkpoint.load(both, checkpoint_id=tmp_path / name)
        states.append(state["state"])
    assert states[0].keys() == states[1].keys() and len(states[0]) > 4
    for name, entry in states[0].items():
        for key in ("exp_avg", "exp_avg_sq"):
            assert pyapp.allclose(states[1][name][key], entry[key], atol=1e-5), name


@pytest.mark.parametrize(
    "end, code, told",
    [
        ("raise ValueError('out of data')", 1, "rank 1 failed with ValueError: out of data"),
        ("os.kill(os.getpid(), 9)", 137, "rank 1"),
    ],
)
def test_a_rank_that_ends_ends_the_others_by_its_name(tmp_path: Path, end: str, code: int, told: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os\nfrom pyapp import distributed as dist\ndist.init_process_group('mpi')\n"
        f"if dist.get_rank() == 1:\n    {end}\ndist.barrier()\n"
    )
    ended = run(script)
    assert ended.returncode == code and told in ended.stderr.splitlines()[-1], ended.stderr


# A script whose run stops after a step of both ranks; the sleep gives Ctrl-C the time to come before its last step.
KEPT = """
import sys, time
import pyapp
from pyapp import distributed as dist, nn, optim
from pyapp.nn.parallel import DistributedDataParallel
from pyapp.train.script import Run

run = Run(sys.argv[1])
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
pyapp.manual_seed(run.seed)
nn.init.constant_(model[0].weight, 0.1), nn.init.constant_(model[2].weight, 0.2)
alone = len(sys.argv) > 2
if not alone:
    dist.init_process_group("mpi")
    together = DistributedDataParallel(model)
optimizer = optim.AdamW(model.parameters(), lr=0.05)
for step in run.steps(12, model=model, optimizer=optimizer):
    optimizer.zero_grad()
    (model if alone else together)(pyapp.randn(16, 4)).square().mean().backward()
    optimizer.step()
    print(step, flush=True)
    if not alone:
        time.sleep(0.1)
"""


def test_ctrl_c_keeps_the_state_of_a_script(tmp_path: Path) -> None:
    """The first process writes the state, both stop after the same step, and go on as if nothing had happened."""
    script = tmp_path / "script.py"
    script.write_text(KEPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pyapp", "run", "-n", "2", str(script), str(tmp_path / "parts")]
    started = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None and started.stdout.readline()
    started.send_signal(signal.SIGINT)
    _, told = started.communicate(timeout=120)
    last = told.splitlines()[-1]
    assert started.returncode == 130 and "stopped at step" in last and "the same command continues" in last, told
    stopped = pyapp.load(tmp_path / "parts/checkpoint.pt")["step"]
    assert 0 < stopped < 12
    assert run(script, str(tmp_path / "parts")).returncode == 0
    assert subprocess.run([sys.executable, script, tmp_path / "whole", "alone"], env=environment).returncode == 0
    whole, parts = (pyapp.load(tmp_path / name / "checkpoint.pt")["parts"]["model"] for name in ("whole", "parts"))
    assert all(parts[name].equal(value) for name, value in whole.items())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell that a parent was killed")
def test_a_killed_run_leaves_no_ranks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)")
    command = [sys.executable, "-m", "pyapp", "run", "-n", "2", str(script)]
    started = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    with started.stdout as told:
        ranks = [int(told.readline()) for _ in range(2)]
        started.kill()
        started.wait()
        end = time.monotonic() + 20
        while left := [rank for rank in ranks if _runs(rank)]:
            assert time.monotonic() < end, left
            time.sleep(0.05)


def _runs(process: int) -> bool:
    """Whether a process is there that has not ended, though nobody may have asked for its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# What rank 1 does while the other waits for it, and what is said then: neither waits for ever.
EAGER = """
import pyapp
from pyapp import distributed as dist
dist.init_process_group('mpi')
x = pyapp.ones(3)
dist.all_reduce(x)
if dist.get_rank() == 1:
    END
else:
    dist.all_reduce(x)
"""
REPLAYED = """
import pyapp
from pyapp import distributed as dist
from pyapp.engine import capture
from pyapp.nn.tensor_parallel import sum_of_ranks
group = dist.init_process_group('mpi')
x = pyapp.ones(COUNT)
graph = capture(lambda: sum_of_ranks(x, group) * 0.5)
graph.replay()
assert x[0].item() == 4
if group.rank() == 0:
    graph.replay()
"""
LEFT = {
    "by an exit": (EAGER.replace("END", "raise SystemExit"), "all_reduce of 3 float32 in [3] by SUM"),
    "the group": (EAGER.replace("END", "dist.destroy_process_group()"), "all_reduce of 3 float32 in [3] by SUM"),
    "a small Graph": (REPLAYED.replace("COUNT", "10"), "all_reduce of a Graph"),
    "a large Graph": (REPLAYED.replace("COUNT", "200_000"), "all_reduce of a Graph"),
}


def test_a_rank_that_has_left_is_named(tmp_path: Path) -> None:
    """All at once: each waits some seconds before it says so."""

    def ended(item: tuple[str, tuple[str, str]]) -> str | None:
        name, (program, call) = item
        script = tmp_path / f"{name}.py"
        script.write_text(program)
        done = run(script)
        return None if done.returncode == 1 and f"{call}: rank 1 has left" in done.stderr else f"{name}\n{done.stderr}"

    with ThreadPoolExecutor(len(LEFT)) as pool:
        assert not list(filter(None, pool.map(ended, LEFT.items())))


def test_a_rank_that_is_absent_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\nfrom pyapp import distributed as dist\n"
        "from mpi4py import MPI\n"
        "time.sleep(20 if os.environ['RANK'] == '1' else 0)\ndist.init_process_group('mpi', timeout=0.3)\n"
    )
    ended = run(script)
    assert ended.returncode == 1 and "rank 1 of 2 did not come to init_process_group within 0.3 s" in ended.stderr


def test_a_rank_that_is_late_in_a_call_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\nimport pyapp\nfrom pyapp import distributed as dist\n"
        "dist.init_process_group('mpi', timeout=1.5)\n"
        "time.sleep(20 if os.environ['RANK'] == '1' else 0)\ndist.all_reduce(pyapp.ones(3))\n"
    )
    ended = run(script)
    told = "all_reduce of 3 float32 in [3] by SUM: the other ranks did not come within 1.5 s"
    assert ended.returncode == 1 and told in ended.stderr, ended.stderr


def test_a_rank_that_ends_before_a_call_of_objects(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom pyapp import distributed as dist\ndist.init_process_group('mpi', timeout=1.5)\n"
        "sys.exit(0) if dist.get_rank() else dist.all_gather_object([None, None], 'x')\n"
    )
    ended = run(script)
    assert ended.returncode == 1 and "rank 1 has left" in ended.stderr, ended.stderr


def test_one_process_without_mpirun_is_a_group(tmp_path: Path) -> None:
    program = (
        "import pyapp\nfrom pyapp import distributed as dist\ndist.init_process_group()\nx = pyapp.ones(2)\n"
        "dist.all_reduce(x)\ndist.barrier()\nassert (dist.get_world_size(), x.tolist()) == (1, [1, 1])\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_processes_that_another_program_has_started_are_refused() -> None:
    """Each would be a group of itself, and none would know."""
    program = "from pyapp import distributed as dist\ndist.init_process_group('gloo')\n"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI"))}
    environment |= {"PYTHONPATH": str(ROOT), "WORLD_SIZE": "2", "RANK": "0"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and "WORLD_SIZE is 2, but MPI knows of this process alone" in ended.stderr
    assert "pyapp run -n 2 SCRIPT.py" in ended.stderr


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("")
    (tmp_path / "mpi4py" / "MPI.py").write_text("raise RuntimeError('cannot load MPI library')")
    program = "from pyapp import distributed as dist\ndist.init_process_group()\n"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert "there is no MPI library: cannot load MPI library" in ended.stderr
    assert "pip install 'pyapp[distributed]'" in ended.stderr
