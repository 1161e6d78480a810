"""A script of pyapp.distributed on the machines of a Ray cluster. Ray finds the places and keeps them; the processes
find one another by MPI, as after `pyapp run`.

    pip install 'pyapp[distributed]' ray
    python deploy/ray_train.py -n 8 --cpus 4 --gpus 1 train.py ARGUMENTS

mpirun starts the processes of this machine itself, and those of others by Ray in place of ssh: it calls this file with
--agent. When one process fails, the others are ended, and the last line names it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import ray
from ray.exceptions import GetTimeoutError
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pyapp.distributed import launch
from pyapp.errors import ProcessError

AGENT = "PRTE_MCA_plm_ssh_agent"  # what mpirun (PRRTE) calls as: AGENT HOST COMMAND


def addresses() -> dict[str, str]:
    """The address of each machine that is there, by Ray's id."""
    return {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


def run(script: str, arguments: Sequence[str], processes: int, cpus: float, gpus: float, seconds: float) -> int:
    """Runs a script in so many processes of `cpus` cores and `gpus` cards each; returns the exit code. ProcessError if
    the cluster has no room within `seconds`.
    """
    each = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
    places = placement_group([each] * processes, strategy="PACK")
    try:
        ray.get(places.ready(), timeout=seconds)
    except GetTimeoutError as error:
        free = {name: count for name, count in ray.available_resources().items() if name in ("CPU", "GPU")}
        raise ProcessError(
            f"{processes} processes of {each} found no room within {seconds:g} s; {free} are free", where="ray",
            hint="Take fewer processes, or more machines",
        ) from error  # fmt: skip
    try:
        known = addresses()
        counts = Counter(known[node] for node in placement_group_table(places)["bundles_to_node_id"].values())
        here = ray.util.get_node_ip_address()
        elsewhere = set(counts) - {here}
        if elsewhere:
            os.environ[AGENT] = f"{sys.executable} {Path(__file__).resolve()} --agent"
        hosts = ",".join(f"{host}:{count}" for host, count in sorted(counts.items(), key=lambda pair: pair[0] != here))
        return launch.run(script, arguments, processes, hosts if elsewhere else None)
    finally:
        remove_placement_group(places)


def run_there(host: str, command: Sequence[str]) -> int:
    """Runs a command on another machine of the cluster, as ssh would; returns its exit code."""
    node = next((node for node, address in addresses().items() if address == host), None)
    if node is None:
        raise ProcessError(f"the cluster has no machine {host}", where="ray")

    @ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    def there(text: str) -> int:
        return subprocess.run(text, shell=True, check=False).returncode

    found: int = ray.get(there.remote(" ".join(command)))
    return found


def main(given: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if given is None else given)
    if arguments[:1] == ["--agent"]:
        ray.init(address="auto", log_to_driver=True)
        return run_there(arguments[1], arguments[2:])
    parser = argparse.ArgumentParser(description="Run a script of pyapp.distributed on a Ray cluster.")
    parser.add_argument("-n", "--processes", type=int, default=2)
    parser.add_argument("--cpus", type=float, default=1.0, help="cores of a process")
    parser.add_argument("--gpus", type=float, default=0.0, help="cards of a process")
    parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for room in the cluster")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    ray.init(include_dashboard=False, log_to_driver=False)
    try:
        return run(options.script, options.arguments, options.processes, options.cpus, options.gpus, options.wait)
    except ProcessError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main())
