"""deploy/simulate.py against closed forms of queueing theory, and the other files of deploy/ against the server."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.text.chat_model import write_chat_model

pytestmark = pytest.mark.native_only
DEPLOY = Path(__file__).resolve().parents[1] / "deploy"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sim() -> Any:
    pytest.importorskip("simpy")
    return load("simulate")


STEPS = 12  # of a text in the mean; a step takes one second


def mean_time(sim: Any, rows: int, rate: float, output: Any, seconds: float) -> float:
    """The mean time in the system where each text costs `output` steps of a second, whatever comes with it."""
    service = sim.Service(0.0, ((1, 1.0), (8, 1.0)), rows)

    def make(chance: Any, now: float) -> Any:
        return sim.Job(0, 1, 1 + output(chance), now)  # the prompt, which costs nothing here, gives the first

    found = sim.run(service, 1, sim.poisson(rate, make), sim.LeastBusy(), seconds, warm=seconds / 100)
    times = found.latencies()
    assert len(times) > 0.95 * rate * found.seconds
    return float(sum(times) / len(times))


def exponential(chance: Any) -> int:
    return max(1, round(chance.expovariate(1 / STEPS)))


def test_one_row_is_a_queue_with_one_server(sim: Any) -> None:
    """M/M/1: 1 / (mu - lambda). M/D/1: service + rho service / 2 (1 - rho) (Pollaczek and Khinchine)."""
    rho = 0.7
    in_mm1, in_md1 = STEPS / (1 - rho), STEPS + rho * STEPS / (2 * (1 - rho))
    assert abs(mean_time(sim, 1, rho / STEPS, exponential, 150_000) / in_mm1 - 1) < 0.06
    assert abs(mean_time(sim, 1, rho / STEPS, lambda chance: STEPS, 80_000) / in_md1 - 1) < 0.06


def test_rows_that_do_not_hinder_one_another_are_servers(sim: Any) -> None:
    """M/M/c, by Erlang's C. A text that comes waits half a step for the others' step to end, and has its prompt read
    during their next one.
    """
    rows, rho, steps = 4, 0.75, 60
    mean = steps + 1
    offered = rows * rho * mean / steps
    rho = offered / rows
    terms = [offered**k / math.factorial(k) for k in range(rows)]
    last = offered**rows / math.factorial(rows) / (1 - rho)
    expected = mean + last / (sum(terms) + last) * mean / (rows * (1 - rho)) + 0.5
    found = mean_time(sim, rows, offered / mean, lambda chance: max(1, round(chance.expovariate(1 / steps))), 150_000)
    assert abs(found / expected - 1) < 0.06


def test_a_request_alone_takes_its_passes_and_steps(sim: Any) -> None:
    service = sim.Service(0.2, ((1, 0.01), (4, 0.03)), 4)

    def arrivals(env: Any, submit: Any) -> Any:
        submit(sim.Job(1, 300, 11, env.now))
        yield env.timeout(100)
        submit(sim.Job(1, 428, 2, env.now))  # goes on: two passes are kept
        yield env.timeout(1)

    found = sim.run(service, 1, arrivals, sim.RoundRobin(), 200.0)
    first, second = found.jobs
    assert math.isclose(first.first - first.came, 0.2 * 300 / 128) and math.isclose(first.done - first.first, 0.1)
    assert second.reused == 256 and math.isclose(second.first - second.came, 0.2 * (428 - 256) / 128)
    assert [service.step(rows) for rows in (1, 2, 4, 8)] == pytest.approx([0.01, 0.01 + 0.02 / 3, 0.03, 0.06])


def test_prompts_are_read_together_and_with_a_step(sim: Any) -> None:
    """As the scheduler does: 128 tokens of prompts and all rows in one pass, whose rows cost less than a step's."""
    service = sim.Service(1.28, ((1, 0.1), (4, 0.13)), 4, row=0.03)
    assert service.turn(128, 0) == 1.28 and service.turn(0, 2) == pytest.approx(0.11)
    assert service.turn(64, 2) == pytest.approx(0.64 + 0.06) and service.turn(64, 4) == pytest.approx(0.64 + 0.12)

    def arrivals(env: Any, submit: Any) -> Any:
        submit(sim.Job(0, 10, 30, env.now))
        yield env.timeout(0.05)
        for number, prompt in enumerate((60, 40, 40, 40), 1):  # the last one waits for a row
            submit(sim.Job(number, prompt, 1, env.now))

    jobs = {job.conversation: job for job in sim.run(service, 1, arrivals, sim.RoundRobin(), 100.0).jobs}
    first = 0.1  # the pass of the first prompt; then one of 60 + 40 + 28 tokens and a row, and one of the other 12
    second = first + 1.28 + 0.03
    assert [jobs[number].first for number in range(3)] == pytest.approx([first, second, second])
    assert jobs[3].first == pytest.approx(second + 0.52 + 0.03) == jobs[4].first  # with all of the last one's


def test_what_other_programs_leave_of_a_processor(sim: Any) -> None:
    shares = sim.Shares((0.5, 0.25, 1.0))
    assert shares.seconds(0.0, 0.01) == pytest.approx(0.02)
    assert shares.seconds(0.0, 0.03) == pytest.approx(0.05 + 0.02)
    assert shares.seconds(0.08, 0.1) == pytest.approx(0.02 + 0.095)  # 0.005 of it in the first 0.02
    assert shares.seconds(7.0, 0.1) == pytest.approx(0.1)
    service = sim.Service(0.0, ((1, 0.01), (4, 0.01)), 4)

    def arrivals(env: Any, submit: Any) -> Any:
        submit(sim.Job(0, 1, 11, env.now))
        yield env.timeout(1)

    slow = [sim.Shares((0.25,) * 1000)]
    free, shared = (
        sim.run(service, 1, arrivals, sim.RoundRobin(), 100.0, shares=given).latencies()[0] for given in ((), slow)
    )
    assert free == pytest.approx(0.1) and shared == pytest.approx(0.4)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux tells how long threads wait")
def test_a_thread_that_works_is_seen_with_its_share(sim: Any) -> None:
    """Two programs that want one processor have about half of it each."""
    code = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nfor _ in range(10**10): pass"
    processor = str(min(os.sched_getaffinity(0)))
    running = [subprocess.Popen([sys.executable, "-c", code, processor]) for _ in range(2)]
    server = object.__new__(sim.Server)
    server.process = running[0]
    try:
        with sim.Watch([server]) as watch:
            time.sleep(1.5)
    finally:
        for process in running:
            process.kill()
            process.wait()
    (found,) = watch.shares
    late = found.values[10:]
    assert len(late) > 10 and sum(late) / len(late) < 0.8  # less where others want it too
    assert server.on_processor() == (0.0, 0.0)  # it has ended


def test_service_times_of_turns(sim: Any) -> None:
    """Turns of a replica with known service times give these back; too few turns are refused."""
    known = sim.Service(0.064, ((1, 0.01), (2, 0.012), (4, 0.015)), 4, row=0.002, begin=0.003)
    shapes = [(0, 1), (0, 2), (0, 4), (0, 2), (128, 0), (128, 3), (40, 1), (7, 2)]
    turns = [
        sim.Turn(tokens, rows, known.begin + known.prompt_pass * tokens / 128 + known.row * rows if tokens else seconds)
        for tokens, rows in shapes
        for seconds in [known.step(rows) * more for more in (1.1, 0.9)]  # their mean counts
    ]
    found = sim.fitted(turns)
    assert found.rows == 4
    assert dict(found.steps) == pytest.approx(dict(known.steps))
    for name in ("prompt_pass", "row", "begin"):
        assert getattr(found, name) == pytest.approx(getattr(known, name)), name
    assert found.turn(64, 2) == pytest.approx(0.003 + 0.032 + 0.004)
    for few in ([], turns[:6], [sim.Turn(128, 0, 1.0)] * 3 + turns[:1]):
        with pytest.raises(ValueError, match="passes of different lengths"):
            sim.fitted(few)


def test_a_real_server_tells_its_turns(sim: Any, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    write_chat_model(tmp_path / "model", dim=32)
    with sim.servers(str(tmp_path / "model"), 1) as (server,):
        count, seconds = server.ask("hello there", 5)
        deadline = time.monotonic() + 20
        while sum(turn.rows for turn in server.turns) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert sum(turn.tokens for turn in server.turns) == count
    assert [turn.rows for turn in server.turns if turn.rows] == [1] * 4  # the pass gave the first of five tokens
    assert 0 < sum(turn.seconds for turn in server.turns) < seconds


def test_routing_by_prefix_and_a_lost_rack(sim: Any) -> None:
    service = sim.Service(0.08, ((1, 0.02), (4, 0.025), (16, 0.05)), 16)
    work = sim.Workload()
    results = {route: sim.of_users(service, work, 150, 4, route, 120.0) for route in sim.ROUTES}
    assert results["by prefix"].reused > results["round robin"].reused + 0.1
    by_prefix, in_turn = (sim.quantile(results[name].first_tokens(), 0.5) for name in ("by prefix", "round robin"))
    assert by_prefix < in_turn
    told = sim.lost_rack(service, work, 150, 4, "by prefix", share=0.5, seconds=150.0)
    assert told["while it is lost"] > told["before"] and told["not done"] < 60 and told["asked again"] > 0
    few, many = (sim.replicas_for(service, work, users, "by prefix", 1.0, 40.0)[0] for users in (50, 200))
    assert 1 <= few < many


def test_the_times_of_a_measurement_are_read_again(
    sim: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = sim.Service(0.1, ((1, 0.02), (16, 0.1)), 16)
    (tmp_path / "s.json").write_text(sim.as_json(service))
    assert sim.read_service(str(tmp_path / "s.json")) == service
    assert sim.main(["table", str(tmp_path / "s.json"), "--users", "20"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[2].startswith("| 20 | round robin | ")
    assert len(lines[2].split("|")) == len(lines[0].split("|"))
    for command, told in (("table", "measure MODEL"), ("page", "make site")):
        with pytest.raises(SystemExit):
            sim.main([command, str(tmp_path / "missing")])
        assert told in capsys.readouterr().err


# -- files


def manifests() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return [
        part for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for part in yaml.safe_load_all(path.read_text())
    ]


def server_routes() -> set[str]:
    pytest.importorskip("starlette")
    pytest.importorskip("multipart")
    from pyapp.serve.app import ROUTES

    return {path for _, path, _ in ROUTES}


def serve_options() -> set[str]:
    from pyapp.cli.serve import serve

    return {name for parameter in serve.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_manifests_name_the_servers_routes_and_options() -> None:
    by_kind = {part["kind"]: part for part in manifests()}
    assert {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"} <= set(by_kind)
    routes = server_routes()
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["path"] for probe in probes.values()} == {"/ready", "/health"} <= routes
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert all(probe["port"] in ports for probe in probes.values())
    arguments = dict(zip(container["args"], [*container["args"][1:], ""], strict=True))
    used = {argument for argument in container["args"] if argument.startswith("--")}
    assert used <= serve_options(), used - serve_options()
    assert int(arguments["--port"]) == ports["http"]
    grace = int(arguments["--grace"])
    drain = pod["terminationGracePeriodSeconds"]
    assert drain > grace + 5  # the pod is taken out of the balancer first
    security = container["securityContext"]
    assert security["runAsNonRoot"] and security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    template = by_kind["Deployment"]["spec"]["template"]["metadata"]
    labels = by_kind["Deployment"]["spec"]["selector"]["matchLabels"]
    assert labels.items() <= template["labels"].items()
    assert by_kind["Service"]["spec"]["selector"] == by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    scaler = by_kind["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == by_kind["Deployment"]["metadata"]["name"]
    metric = scaler["metrics"][0]["pods"]["metric"]["name"]
    source = (DEPLOY.parent / "pyapp" / "serve" / "metrics.py").read_text()
    assert f'"{metric}"' in source, metric
    assert template["annotations"]["prometheus.io/path"] in routes


def test_the_container_file_is_safe_and_small() -> None:
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages = [line for line in lines if line.startswith("FROM ")]
    assert len(stages) == 2 and all(re.search(r":\d", line) for line in stages), "pinned bases, one to build"
    last = lines[lines.index(stages[-1]) :]
    users = [line.split()[1] for line in last if line.startswith("USER ")]
    assert users and users[-1] not in ("root", "0")
    assert not any(word in " ".join(last) for word in ("gcc", "sudo", "curl ", "wget ", "ADD "))
    assert all(
        "--no-install-recommends" in line and "rm -rf /var/lib/apt/lists" in line
        for line in lines
        if "apt-get install" in line
    )
    assert all("--no-cache-dir" in line for line in lines if " pip install" in line)
    check = next(line for line in last if line.startswith("HEALTHCHECK"))
    assert "/health" in check and "/health" in server_routes()
    entry = next(line for line in last if line.startswith("ENTRYPOINT"))
    command = json.loads(entry.removeprefix("ENTRYPOINT ")) + json.loads(
        next(line for line in last if line.startswith("CMD")).removeprefix("CMD ")
    )
    assert command[:2] == ["pyapp", "serve"]
    assert {argument for argument in command if argument.startswith("--")} <= serve_options()


def test_the_unit_starts_the_server_and_confines_it() -> None:
    unit = (DEPLOY / "pyapp.service").read_text()
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    assert " serve " in command and set(re.findall(r"--[a-z-]+", command)) <= serve_options()
    grace = int(re.search(r"--grace (\d+)", command)[1])  # type: ignore[index]
    assert int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]) > grace  # type: ignore[index]
    for line in (
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "KillSignal=SIGTERM",
        "Restart=on-failure",
    ):
        assert line in unit.splitlines(), line
    if shutil.which("systemd-analyze"):
        local = unit.replace(command.split()[0].removeprefix("ExecStart="), sys.executable)
        path = Path(os.environ.get("TMPDIR", "/tmp")) / "pyapp-test.service"
        path.write_text(local)
        try:
            found = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True)
        finally:
            path.unlink()
        assert "pyapp-test.service" not in found.stderr, found.stderr


def test_the_replicas_of_ray_compile() -> None:
    """Without ray, at least the syntax, and the names that it takes from pyapp."""
    source = (DEPLOY / "ray_serve.py").read_text()
    compile(source, "ray_serve.py", "exec")
    for module, name in re.findall(r"from (pyapp\.[\w.]+) import (\w+)", source):
        pytest.importorskip("starlette")
        assert hasattr(__import__(module, fromlist=[name]), name)
