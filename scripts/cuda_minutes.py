"""All that is to be run while there is a card, in the order of what it tells: python -m scripts.cuda_minutes
[--minutes 60] [--only REGEX] [--anew] [--emulated] [--folder bench/output/cuda_minutes]

Writes one report, FOLDER/report.md, before and after each step, with the failures and the last lines of each; FOLDER
has what each step printed, and its figures. A step has a limit, and all of them the minutes together: what has no time
left is a line in the report. Whoever is interrupted calls it again: steps that have ended are not repeated, unless
`--anew` asks for it. `--emulated` runs on the emulated card what can be run there, to try the order and the commands.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass

from .cuda_card import missing

ROOT = Path(__file__).parents[1]
PYTHON = "python"  # of this process
FEWEST = 15  # seconds for which no step begins
GRACE = 20  # seconds in which a step that has run out of time may say what it has found
TAIL, FAILURES = 12, 40  # lines of a step in the report
_FAILED = re.compile(r"^(FAILED|ERROR) |: raises |problems$|: off by|^    \S+: ", re.MULTILINE)
TESTS = {"PYAPP_TEST_CUDA": "1", "PYAPP_EMULATED": "all"}
OURS = {"PYAPP_CUBLASLT": "none"}  # products of matrices by the kernels here
PYTEST = "python -m pytest -q --tb=short -p no:cacheprovider"


@dataclass(frozen=True)
class Step:
    """A command, in words of a shell, with its environment and its limit in minutes. `emulated`: the command for the
    emulated card; "" where there is none."""

    name: str
    why: str
    command: str
    minutes: float
    environment: dict[str, str] = field(default_factory=dict)
    emulated: str = ""


def steps_of(folder: Path) -> list[Step]:
    """What is run, the most telling first: is the card's arithmetic right, then how fast is it, then all the rest."""
    bench = "python -m bench.cuda --eager --runs 5"
    return [
        Step("card", "which card and driver", "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv", 1,
             emulated="python -m pyapp --version"),
        Step("everyday", "everyday programs, models and joined launches, by the kernels here",
             f"{PYTEST} tests/cuda/test_everyday.py tests/cuda/test_fusion.py tests/cuda/test_models.py "
             "tests/cuda/test_driver.py", 6, TESTS | OURS, f"{PYTEST} tests/cuda/test_fusion.py -k norm"),
        Step("sweep", "every op in five dtypes, with gradients", "python -m tests.cuda.sweep --device cuda", 4,
             emulated="python -m tests.cuda.sweep --subjects images --dtypes float32"),
        Step("tokens", "tokens, with and without kernels that overlap: their bits and their speed",
             f"{bench} --only decode --overlap --out {folder}/tokens.json", 5,
             emulated="python -m bench.cuda --count --only 1B"),
        Step("attention", "attention of whole sequences by the kernel that was measured",
             f"{bench} --only attention --out {folder}/attention.json", 3),
        Step("pairs", "the same by pairs of warpgroups: its tests, then its speed",
             f"{PYTEST} tests/cuda/test_attention_pairs.py && {bench} --only attention --out {folder}/pairs.json", 5,
             TESTS | {"PYAPP_CUDA_PAIRS": "1"}, f"{PYTEST} tests/cuda/test_attention_pairs.py -k takes"),
        Step("kernels", "every kernel, by the kernels here", f"{PYTEST} tests/native", 12, TESTS | OURS,
             f"{PYTEST} tests/native/test_norm.py -k heads"),
        Step("device", "the device, streams, memory, linear algebra", f"{PYTEST} tests/cuda", 8, TESTS | OURS),
        Step("cublas", "the same with cuBLASLt",
             f"{PYTEST} tests/cuda tests/native/test_linear.py tests/native/test_matmul.py", 8, TESTS,
             f"{PYTEST} tests/cuda/test_cublas.py -k chosen"),
        Step("speed", "all figures", f"{bench} --out bench/output/cuda.json", 15),
        Step("tables", "their table in docs/cuda.md", "python -m bench.cuda_tables --write", 1,
             emulated="python -m bench.cuda_tables --help"),
        Step("models", "the tests of models and layers with their tensors on the card",
             f"python -m tests.cuda.on_card --device cuda:0 --limit 90 --report {folder}/models.jsonl", 20,
             emulated=f"python -m tests.cuda.on_card --limit 60 --report {folder}/models.jsonl "
                      "tests/models/test_perceivers.py"),
        Step("sanitize", "compute-sanitizer's memcheck over the kernels' tests",
             "python -m scripts.cuda_sanitize memcheck", 10),
        Step("races", "and racecheck", "python -m scripts.cuda_sanitize racecheck", 10),
    ]  # fmt: skip


def run(command: str, environment: dict[str, str], log: Path, seconds: float) -> tuple[str, float]:
    """Runs a command for so many seconds at most, with all that it prints in a file; (how it ended, its seconds)."""
    own = command.replace(f"{PYTHON} -m", f"{shlex.quote(sys.executable)} -m")
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", own], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=os.environ | environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(seconds)
            ended = "passed" if status == 0 else f"failed ({status})"
        except subprocess.TimeoutExpired:
            _end(process)
            ended = "out of time"
        except BaseException:
            _end(process)
            raise
    return ended, round(time.monotonic() - began, 1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks the processes of a step to end, as Ctrl-C does, then ends them."""
    for number, patience in ((signal.SIGINT, GRACE), (signal.SIGKILL, GRACE)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(patience)
            return
        except subprocess.TimeoutExpired:
            continue


def told(log: Path) -> tuple[list[str], list[str]]:
    """The failures that a step names, and its last lines."""
    if not log.exists():
        return [], []
    lines = [line.rstrip()[:300] for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return [line for line in lines if _FAILED.search(line)][:FAILURES], lines[-TAIL:]


def write_report(folder: Path, steps: Sequence[Step], done: dict[str, dict[str, Any]]) -> None:
    """The report of what is known by now."""
    parts = ["# What a card has shown", "", "| step | | seconds | why |", "| --- | --- | --- | --- |"]
    for step in steps:
        found = done.get(step.name, {})
        parts.append(f"| {step.name} | {found.get('ended', 'to do')} | {found.get('seconds', '')} | {step.why} |")
    for step in steps:
        if step.name in done:
            failures, last = told(folder / f"{step.name}.log")
            parts += ["", f"## {step.name}: {done[step.name]['ended']}", "", f"`{done[step.name]['command']}`", ""]
            parts += ["```", *failures, *["…"] * bool(failures), *last, "```"]
    partial = folder / "report.md.part"
    partial.write_text("\n".join(parts) + "\n", "utf-8")
    partial.replace(folder / "report.md")


def go(folder: Path, steps: Sequence[Step], minutes: float, emulated: bool, anew: bool) -> bool:
    """Runs the steps that have not ended yet; whether none of all has failed."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "done.json"
    done: dict[str, dict[str, Any]] = {} if anew or not kept.exists() else json.loads(kept.read_text())
    until = time.monotonic() + 60 * minutes

    def note(step: Step, **found: Any) -> None:
        done[step.name] = found
        partial = kept.with_suffix(".part")
        partial.write_text(json.dumps(done, indent=1))
        partial.replace(kept)
        write_report(folder, steps, done)

    for step in steps:
        if done.get(step.name, {}).get("ended", "to do").startswith(("passed", "failed", "out of time")):
            continue
        command = step.emulated if emulated else step.command
        left = min(60 * step.minutes, until - time.monotonic())
        if not command or left < FEWEST:
            note(
                step,
                ended="not on the emulated card" if not command else "no time left",
                command=command or step.command,
            )
            continue
        print(f"{step.name}: {step.why}, at most {left / 60:.1f} minutes", flush=True)
        note(step, ended="interrupted", command=command)
        environment = {} if emulated else step.environment
        ended, seconds = run(command, environment, folder / f"{step.name}.log", left)
        note(step, ended=ended, seconds=seconds, command=command)
        print(f"{step.name}: {ended} after {seconds} s", flush=True)
    write_report(folder, steps, done)
    return not any(found["ended"].startswith("failed") for found in done.values())


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="for all steps together")
    parser.add_argument("--only", default="", help="steps whose names match")
    parser.add_argument("--anew", action="store_true", help="steps that have ended, too")
    parser.add_argument("--emulated", action="store_true", help="on the emulated card, what can be run there")
    parser.add_argument("--folder", type=Path, default=ROOT / "bench" / "output" / "cuda_minutes")
    options = parser.parse_args(arguments)
    if not options.emulated and (told := missing()):
        print(told, file=sys.stderr)
        return 2
    folder = options.folder.absolute()
    steps = [step for step in steps_of(folder) if re.search(options.only, step.name)]
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        fine = go(folder, steps, options.minutes, options.emulated, options.anew)
    except KeyboardInterrupt:
        print(f"interrupted; {folder / 'report.md'} says what is known, and the same call goes on", file=sys.stderr)
        return 130
    print(f"{folder / 'report.md'} says what was found")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
