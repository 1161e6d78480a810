"""How many replicas of the server a number of users needs: a simulation, with service times that were measured.

    python deploy/simulate.py measure MODEL service.json     # runs two real servers, and times them
    python deploy/simulate.py check MODEL                    # the same servers under load, beside what is predicted
    python deploy/simulate.py table service.json             # replicas, speed, latencies, cost for 10^3 … 10^6 users
    python deploy/simulate.py rack service.json              # a rack is lost
    python deploy/simulate.py page dist                      # the built page: bytes of a visit, what a CDN sees

A replica is simulated turn by turn, as pyapp/serve/scheduler.py works: a turn is one pass of prompts and one step of
all texts that are being written. Only the times of passes and of steps are measured: servers tell them in their log
(`pyapp -v serve`), in seconds on a processor. `check` also measures how long the servers' threads waited for one, and
gives that to the simulated ones, so that other programs of the machine do not count as errors of the model. The events
are simpy's. Of more than CELL replicas a cell is simulated, with its share of the users.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import math
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import simpy

PASS = 128  # tokens of prompts that are read in one pass
LEAST = 16  # of a prompt that is not read to its end there
TICK = 0.05  # seconds for which one share of a processor holds
CELL = 24  # replicas that are simulated
ROOT = Path(__file__).resolve().parents[1]
ROWS = (1, 2, 4, 8, 16)  # texts at once while turns are timed


@dataclass(frozen=True)
class Service:
    """What was measured of a replica: seconds of `PASS` tokens of prompts, and of a step by its number of rows, at most
    `rows`. `row`: of a row of a step that runs in one pass with prompts; None: they take their time one after the
    other. `begin`: of a pass, whatever it reads.
    """

    prompt_pass: float
    steps: tuple[tuple[int, float], ...]
    rows: int = 16
    row: float | None = None
    begin: float = 0.0

    def turn(self, tokens: int, rows: int) -> float:
        """Seconds of a turn that reads so many tokens of prompts beside a step of so many rows."""
        own = self.step(rows) if rows else 0.0
        if not tokens:
            return own
        if self.row is not None:
            own = min(own, self.row * rows)
        return self.begin + self.prompt_pass * tokens / PASS + own

    def step(self, rows: int) -> float:
        """Seconds of a step of so many rows: between two measured numbers on the line through them."""
        known = sorted(self.steps)
        for (few, fast), (many, slow) in zip(known, known[1:], strict=False):
            if few <= rows <= many and few < many:
                return fast + (slow - fast) * (rows - few) / (many - few)
        return known[0][1] if rows < known[0][0] else known[-1][1] * rows / known[-1][0]


@dataclass(frozen=True)
class Shares:
    """The share of a processor that a replica's thread has, from the beginning on for TICK seconds each; then all."""

    values: tuple[float, ...] = ()

    def seconds(self, begin: float, work: float) -> float:
        """How long something takes that begins at a time and would take `work` seconds with a processor of its own."""
        now = begin
        while work > 0 and (tick := int(now / TICK)) < len(self.values):
            there = max((tick + 1) * TICK - now, 1e-9)
            done = there * self.values[tick]
            if done >= work:
                return now + work / self.values[tick] - begin
            now, work = now + there, work - done
        return now + work - begin


@dataclass(frozen=True)
class Workload:
    """Requests of users. A user asks every `pause` seconds in the mean, and goes on with the same conversation for
    `turns` requests. The first prompt has `first` tokens, of which all users share `shared`; each turn adds what was
    asked and answered. `output`: tokens of an answer in the mean.
    """

    pause: float = 60.0
    turns: int = 4
    first: int = 600
    shared: int = 256
    asked: int = 60
    output: int = 150

    def prompt(self, turn: int) -> int:
        """Tokens of the prompt of a conversation's request."""
        return self.first + turn * (self.asked + self.output)


@dataclass
class Job:
    """A request: its conversation, the tokens of its prompt and of its answer, and when what happened."""

    conversation: int
    prompt: int
    output: int
    came: float
    began: float = math.nan
    first: float = math.nan
    done: float = math.nan
    tries: int = 1
    reused: int = 0
    read: int = 0
    written: int = 0


class Replica:
    """One server: a queue, rows that are being written, and prompts that its cache has kept."""

    def __init__(
        self, env: simpy.Environment, service: Service, kept: int = 64, shared: int = 0, shares: Shares | None = None
    ) -> None:
        self.env, self.service, self.kept, self.shared = env, service, kept, shared
        self.shares = shares or Shares()
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.prompts: OrderedDict[int, int] = OrderedDict()  # tokens of the conversations that the cache has kept
        self.alive, self.busy = True, 0.0
        self.on_done: Callable[[Job], None] = lambda job: None
        self._wake = env.event()
        env.process(self._run())

    @property
    def load(self) -> int:
        return len(self.waiting) + len(self.running)

    def add(self, job: Job) -> None:
        self.waiting.append(job)
        if not self._wake.triggered:
            self._wake.succeed()

    def die(self) -> list[Job]:
        """Ends; returns the requests that it leaves behind."""
        self.alive = False
        left, self.waiting, self.running = [*self.waiting, *self.running], [], []
        return left

    def _run(self) -> Iterator[Any]:
        while True:
            if not self.load:
                self._wake = self.env.event()
                yield self._wake
            self._admit()
            reading = [job for job in self.running if job.read < job.prompt]
            writing = [job for job in self.running if job.read >= job.prompt]
            pieces: list[tuple[Job, int]] = []
            left = PASS
            for job in reading:
                tokens = min(left, job.prompt - job.read)
                if tokens < min(LEAST, job.prompt - job.read):
                    break
                pieces.append((job, tokens))
                left -= tokens
            spent = self.shares.seconds(self.env.now, self.service.turn(PASS - left, len(writing)))
            self.busy += spent
            yield self.env.timeout(spent)
            if not self.alive:
                return
            for job in writing:
                self._write(job)
            for job, tokens in pieces:
                job.read += tokens
                if job.read == job.prompt:
                    self._write(job)  # the pass gives the first token

    def _admit(self) -> None:
        """Requests that find a row."""
        while self.waiting and len(self.running) < self.service.rows:
            job = self.waiting.pop(0)
            known = max(self.prompts.pop(job.conversation, 0), self.shared if self.prompts else 0)
            job.reused = job.read = min(known, job.prompt - 1) // PASS * PASS
            job.began = self.env.now
            self.running.append(job)

    def _write(self, job: Job) -> None:
        job.written += 1
        if job.written == 1:
            job.first = self.env.now
        if job.written >= job.output:
            job.done = self.env.now
            self.running.remove(job)
            self.prompts[job.conversation] = job.prompt
            while len(self.prompts) > self.kept:
                self.prompts.popitem(last=False)
            self.on_done(job)


# -- which replica a request goes to


class RoundRobin:
    """One replica after another."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, job: Job, replicas: Sequence[Replica]) -> Replica:
        self._next += 1
        return replicas[self._next % len(replicas)]


class LeastBusy:
    """The replica with the fewest requests."""

    def __call__(self, job: Job, replicas: Sequence[Replica]) -> Replica:
        return min(replicas, key=lambda replica: replica.load)


class ByPrefix:
    """The replica that has the conversation's beginning, by rendezvous hashing, while it has a free row and at most
    `bound` times the mean of the requests (Mirrokni et al. 2018, arXiv 1608.01350); else the least busy one.
    """

    def __init__(self, bound: float = 1.25) -> None:
        self.bound = bound

    def __call__(self, job: Job, replicas: Sequence[Replica]) -> Replica:
        mean = sum(replica.load for replica in replicas) / len(replicas)
        own = max(replicas, key=lambda replica: _weight(job.conversation, id(replica)))
        limit = min(self.bound * mean + 1, own.service.rows)
        return own if own.load < limit else min(replicas, key=lambda replica: replica.load)


def _weight(conversation: int, replica: int) -> bytes:
    return hashlib.blake2b(f"{replica} {conversation}".encode(), digest_size=8).digest()


ROUTES: dict[str, Callable[[], Any]] = {"round robin": RoundRobin, "least busy": LeastBusy, "by prefix": ByPrefix}


# -- runs


@dataclass
class Results:
    """What a run shows: requests that were done, by the time at which they came."""

    jobs: list[Job] = field(default_factory=list)
    seconds: float = 0.0
    busy: float = 0.0  # share of the time that replicas work
    left: int = 0  # requests that were not done in the end

    def latencies(self, since: float = 0.0, until: float = math.inf) -> list[float]:
        """Seconds from a request to the end of its answer."""
        return [job.done - job.came for job in self.jobs if since <= job.came < until]

    def first_tokens(self) -> list[float]:
        """Seconds from a request to its first token."""
        return [job.first - job.came for job in self.jobs]

    @property
    def tokens_per_second(self) -> float:
        return sum(job.output for job in self.jobs) / self.seconds

    @property
    def reused(self) -> float:
        """The share of prompts that had been read already."""
        return sum(job.reused for job in self.jobs) / max(sum(job.prompt for job in self.jobs), 1)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies; NaN of nothing."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else math.nan


def run(
    service: Service, replicas: int, arrivals: Callable[[simpy.Environment, Callable[[Job], None]], Any],
    route: Any, seconds: float, shared: int = 0, warm: float = 0.0,
    events: Callable[[simpy.Environment, list[Replica], Callable[[Job], None]], Any] | None = None,
    shares: Sequence[Shares] = (),
) -> Results:  # fmt: skip
    """Simulates replicas for so many seconds; of the results, those that came after `warm` seconds. `shares`: those of
    the replicas, if they have no processors of their own.
    """
    env = simpy.Environment()
    found = Results()
    each = shares or [Shares()] * replicas
    servers = [Replica(env, service, shared=shared, shares=each[i]) for i in range(replicas)]

    def done(job: Job) -> None:
        if job.came >= warm:
            found.jobs.append(job)

    def submit(job: Job) -> None:
        alive = [replica for replica in servers if replica.alive]
        if alive:
            chosen = route(job, alive)
            chosen.on_done = done
            chosen.add(job)

    env.process(arrivals(env, submit))
    if events is not None:
        env.process(events(env, servers, submit))
    env.run(until=seconds)
    found.seconds = seconds - warm
    found.busy = sum(replica.busy for replica in servers) / (seconds * len(servers))
    found.left = sum(replica.load for replica in servers)
    return found


def poisson(
    rate: float, make: Callable[[random.Random, float], Job], seed: int = 1
) -> Callable[[simpy.Environment, Callable[[Job], None]], Any]:
    """Requests at random times, `rate` in a second."""

    def arrivals(env: simpy.Environment, submit: Callable[[Job], None]) -> Iterator[Any]:
        chance = random.Random(seed)
        while True:
            yield env.timeout(chance.expovariate(rate))
            submit(make(chance, env.now))

    return arrivals


def conversations(users: float, work: Workload, seed: int = 1) -> Callable[[simpy.Environment, Any], Any]:
    """Requests of users in conversations: each goes on after a pause, until it has had its turns."""
    chance = random.Random(seed)

    def answer() -> int:
        return max(1, round(chance.expovariate(1 / work.output)))

    def arrivals(env: simpy.Environment, submit: Callable[[Job], None]) -> Iterator[Any]:
        number = 0

        def talk(conversation: int, turn: int) -> Iterator[Any]:
            while turn < work.turns:
                submit(Job(conversation, work.prompt(turn), answer(), env.now))
                turn += 1
                yield env.timeout(chance.expovariate(1 / work.pause))

        rate = users / (work.pause * work.turns)  # new conversations in a second
        for _ in range(round(users)):  # those that go on when the run begins
            number += 1
            env.process(later(env, chance.expovariate(1 / work.pause), talk(number, chance.randrange(work.turns))))
        while True:
            yield env.timeout(chance.expovariate(rate))
            number += 1
            env.process(talk(number, 0))

    def later(env: simpy.Environment, seconds: float, process: Any) -> Iterator[Any]:
        yield env.timeout(seconds)
        yield from process

    return arrivals


def of_users(
    service: Service, work: Workload, users: float, replicas: int, route: str, seconds: float = 120.0, seed: int = 1,
    events: Any = None,
) -> Results:  # fmt: skip
    """A run of users; of many replicas, a cell with its share of them."""
    cell = min(replicas, CELL)
    return run(
        service, cell, conversations(users * cell / replicas, work, seed), ROUTES[route](), seconds, work.shared,
        warm=seconds / 4, events=events,
    )  # fmt: skip


def replicas_for(
    service: Service, work: Workload, users: float, route: str, first: float = 1.0, seconds: float = 120.0
) -> tuple[int, Results]:
    """The fewest replicas with which 99 of 100 requests see their first token within `first` seconds, and no queue
    grows.
    """

    def enough(count: int) -> Results | None:
        found = of_users(service, work, users, count, route, seconds)
        fine = quantile(found.first_tokens(), 0.99) <= first and found.busy < 0.98
        return found if fine else None

    most = max(1, math.ceil(users * (work.output * service.step(1) + work.prompt(1) / PASS * service.prompt_pass)
                            / work.pause))  # fmt: skip  # if every text were written alone
    least = 0
    best = enough(most)
    while best is None:
        least, most = most, 2 * most
        best = enough(most)
    while most - least > max(1, most // 50):
        middle = (least + most) // 2
        found = enough(middle)
        if found is None:
            least = middle
        else:
            most, best = middle, found
    return most, best


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    users: int
    route: str
    replicas: int
    tokens_per_second: float
    first_p50: float
    first_p99: float
    latency_p99: float
    busy: float
    reused: float
    cost_per_hour: float
    cost_per_million: float


def table(service: Service, work: Workload, price: float, users: Sequence[int], first: float) -> list[Row]:
    """Replicas, speed, latencies and cost for numbers of users. `price`: of a replica's hour."""
    rows = []
    for count in users:
        for route in ("round robin", "by prefix"):
            replicas, found = replicas_for(service, work, count, route, first)
            rate = found.tokens_per_second * replicas / min(replicas, CELL)
            rows.append(
                Row(
                    count, route, replicas, rate, quantile(found.first_tokens(), 0.5),
                    quantile(found.first_tokens(), 0.99), quantile(found.latencies(), 0.99), found.busy, found.reused,
                    price * replicas, price * replicas / (rate * 3600) * 1e6,
                )
            )  # fmt: skip
    return rows


def lost_rack(
    service: Service, work: Workload, users: float, replicas: int, route: str, share: float = 0.25,
    restart: float = 30.0, seconds: float = 300.0,
) -> dict[str, float]:  # fmt: skip
    """A share of the replicas is lost at a third of the time, and is back `restart` seconds later. Their requests are
    asked again elsewhere. The 99th percentiles of the latency before, during and after, and how many were asked again.
    """
    at, asked = seconds / 3, 0

    def events(env: simpy.Environment, servers: list[Replica], submit: Callable[[Job], None]) -> Iterator[Any]:
        nonlocal asked
        yield env.timeout(at)
        lost = servers[: max(1, round(share * len(servers)))]
        left = [job for replica in lost for job in replica.die()]
        asked = len(left)
        for job in left:
            submit(replace(job, read=0, written=0, reused=0, tries=job.tries + 1))
        yield env.timeout(restart)
        servers += [Replica(env, service, shared=work.shared) for _ in lost]

    found = of_users(service, work, users, replicas, route, seconds, events=events)
    ends = (seconds / 4, at, at + restart, at + 2 * restart, seconds)
    names = ("before", "while it is lost", "as long again", "after")
    return {
        name: quantile(found.latencies(begin, end), 0.99)
        for name, begin, end in zip(names, ends, ends[1:], strict=False)
    } | {"asked again": asked, "not done": found.left}


# -- the real server


@dataclass(frozen=True)
class Turn:
    """What a server's log tells of a turn: tokens of prompts that it read, texts that it wrote a token of, and seconds
    on a processor of the thread that computes.
    """

    tokens: int
    rows: int
    seconds: float


class Server:
    """A server in a process of its own, on one thread."""

    def __init__(self, model: str, *arguments: str) -> None:
        environment = os.environ | {"PYAPP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pyapp", "-v", "serve", model, "--port", "0", *arguments]
        self.turns: list[Turn] = []  # that have ended so far
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        self.port, ready = 0, False
        assert self.process.stderr is not None
        for line in self.process.stderr:
            told = json.loads(line) if line.startswith("{") else {}
            if told.get("event") == "listening":
                self.port = int(told["url"].rpartition(":")[2])
            ready = ready or told.get("event") == "ready"
            if self.port and ready:
                break
        else:
            raise RuntimeError(f"the server of {model} did not start")
        threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True).start()

    def _read_log(self, lines: Iterable[str]) -> None:
        for line in lines:
            told = json.loads(line) if line.startswith("{") else {}
            if told.get("event") == "turn":
                self.turns.append(Turn(told["prompt_tokens"], told["texts"], told["processor_seconds"]))

    def ask(self, prompt: str, output: int) -> tuple[int, float]:
        """Writes so many tokens; the number of the prompt's tokens, and seconds."""
        body = {"prompt": prompt, "max_tokens": output, "temperature": 0, "ignore_eos": True}
        begin = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"the server answers {answer.status}: {found}")
        if found["usage"]["completion_tokens"] != output:
            raise RuntimeError("the text ended early")
        return int(found["usage"]["prompt_tokens"]), time.perf_counter() - begin

    def on_processor(self) -> tuple[float, float]:
        """Seconds that the thread which computes has run, and waited for a processor (Linux); (0, 0) elsewhere."""
        found = []
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            try:
                ran, waited, _ = path.read_text().split()
            except OSError:  # a thread that has ended
                continue
            found.append((int(ran) / 1e9, int(waited) / 1e9))
        return max(found, default=(0.0, 0.0))


class Watch:
    """Measures, in a thread, the shares of a processor that servers' threads had while it is open."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._values: list[list[float]] = [[] for _ in servers]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def shares(self) -> list[Shares]:
        return [Shares(tuple(values)) for values in self._values]

    def _run(self) -> None:
        begin, before = time.perf_counter(), [server.on_processor() for server in self._servers]
        while not self._ended.wait(TICK / 2):
            ticks = int((time.perf_counter() - begin) / TICK)
            if ticks == len(self._values[0]):
                continue
            for i, server in enumerate(self._servers):
                now = server.on_processor()
                ran, waited = (new - old for new, old in zip(now, before[i], strict=True))
                # Where the thread had little to do, nothing is known: as before.
                known = ran + waited > TICK / 5
                share = max(ran / (ran + waited), 0.01) if known else (self._values[i] or [1.0])[-1]
                self._values[i] += [share] * (ticks - len(self._values[i]))
                before[i] = now


@contextmanager
def servers(model: str, count: int, *arguments: str) -> Iterator[list[Server]]:
    """Some servers of a model, which end afterwards."""
    made: list[Server] = []
    try:
        for _ in range(count):
            made.append(Server(model, *arguments))
        yield made
    finally:
        for server in made:
            server.process.terminate()
        for server in made:
            server.process.wait(60)


def words(count: int, seed: int) -> str:
    """A text that no other request begins with."""
    chance = random.Random(seed)
    return " ".join(f"{chance.randrange(10**6)}" for _ in range(count))


def at_once(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of functions that run in threads."""
    found: list[Any] = [None] * len(tasks)

    def work(i: int) -> None:
        found[i] = tasks[i]()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def fitted(turns: Sequence[Turn]) -> Service:
    """The service times by which turns take, in the mean, as long as they did: of steps by their number of rows; of
    passes by least squares. ValueError if there are no steps or no passes of different lengths.
    """
    by_rows: dict[int, list[float]] = {}
    for turn in turns:
        if not turn.tokens and turn.rows:
            by_rows.setdefault(turn.rows, []).append(turn.seconds)
    passes = [turn for turn in turns if turn.tokens]
    if not by_rows or len({turn.tokens for turn in passes}) < 2:
        raise ValueError("service times need steps, and passes of different lengths")
    steps = tuple(sorted((rows, statistics.mean(seconds)) for rows, seconds in by_rows.items()))
    known = np.array([[1.0, turn.tokens, turn.rows] for turn in passes])
    begin, token, row = (max(float(n), 0.0) for n in np.linalg.lstsq(known, [turn.seconds for turn in passes])[0])
    return Service(token * PASS, steps, max(by_rows), row, begin)


def measured(made: Sequence[Server], length: int = 60, output: int = 96) -> Service:
    """The service times of servers that write texts of different lengths in different company. `length`: words of the
    prompts in the mean; `output`: tokens of the answers. A pass and a step take longer the longer their texts are.
    """
    chance = random.SystemRandom()

    def ask(server: Server) -> None:
        for _ in range(2):
            server.ask(words(chance.randint(4, 2 * length - 4), chance.randrange(10**9)), chance.randint(1, 2 * output))

    for rows in ROWS:
        at_once([partial(ask, server) for server in made for _ in range(rows)])
    return fitted([turn for server in made for turn in server.turns])


def measure(model: str, count: int = 2) -> Service:
    """The service times of a replica while so many replicas work at the same time on this machine."""
    with servers(model, count, "--parallel", str(max(ROWS))) as made:
        return measured(made)


@dataclass(frozen=True)
class Compared:
    """A real run beside its simulation."""

    what: str
    real: float
    simulated: float

    @property
    def error(self) -> float:
        return self.simulated / self.real - 1


def check(
    model: str, count: int = 2, seconds: float = 90.0, load: float = 0.66, seed: int = 3
) -> list[Compared]:  # fmt: skip
    """Real servers under load and the same load in the simulation: requests at random times, one replica after another,
    at a share `load` of what the replicas can do with a processor each; then as many as they take. The service times
    are those of the servers' turns before, while and after, since a machine with neighbours is not always as fast.
    """
    output, length = 48, 20
    with servers(model, count, "--parallel", str(max(ROWS))) as made:
        service = measured(made, length, output)
        prompt, _ = made[0].ask(words(length, 10**6), 1)
        alone = service.turn(prompt, 0) + (output - 1) * service.step(8) / 8
        rate = count * load / alone
        chance = random.Random(seed)
        times, now = [], 0.0
        while now < seconds:
            now += chance.expovariate(rate)
            times.append(now)
        clients, each = 2 * service.rows * count, 3
        with Watch(made) as in_open_loop:
            begin = time.perf_counter()

            def at(i: int) -> float:
                time.sleep(max(begin + times[i] - time.perf_counter(), 0))
                return made[i % count].ask(words(length, 2 * 10**6 + i), output)[1]

            real = at_once([partial(at, i) for i in range(len(times))])

        def go_on(i: int) -> None:
            for n in range(each):
                made[i % count].ask(words(length, 10**7 + 100 * i + n), output)

        with Watch(made) as when_full:
            started = time.perf_counter()
            at_once([partial(go_on, i) for i in range(clients)])
            saturated = clients * each * output / (time.perf_counter() - started)
        service = measured(made, length, output)

    def arrivals(env: simpy.Environment, submit: Callable[[Job], None]) -> Iterator[Any]:
        for i, moment in enumerate(times):
            yield env.timeout(moment - env.now)
            submit(Job(i, prompt, output, env.now))

    def in_turn(job: Job, replicas: Sequence[Replica]) -> Replica:
        return replicas[job.conversation % len(replicas)]  # where the real one went

    open_loop = run(service, count, arrivals, in_turn, times[-1] + 600, shares=in_open_loop.shares)
    full = run_closed(service, count, clients, each, prompt, output, when_full.shares)
    latencies = open_loop.latencies()
    given = statistics.mean([value for shares in in_open_loop.shares for value in shares.values] or [1.0])
    print(f"{len(real)} requests; where they had work, the servers' threads had {100 * given:.0f} % of a processor")
    return [
        Compared("tokens/s, as many requests as they take", saturated, full),
        Compared(f"seconds of a request at {load:g} of that, mean", statistics.mean(real), statistics.mean(latencies)),
        Compared("the same, median", quantile(real, 0.5), quantile(latencies, 0.5)),
        Compared("the same, 99th percentile", quantile(real, 0.99), quantile(latencies, 0.99)),
    ]


def run_closed(
    service: Service, replicas: int, clients: int, each: int, prompt: int, output: int, shares: Sequence[Shares] = ()
) -> float:  # fmt: skip
    """Tokens/s of clients of whom each asks again when its answer is there, `each` times."""
    env = simpy.Environment()
    made = [Replica(env, service, shares=own) for own in (shares or [Shares()] * replicas)]
    waiting: dict[int, Any] = {}
    for replica in made:
        replica.on_done = lambda job: waiting.pop(job.conversation).succeed()

    def client(number: int) -> Iterator[Any]:
        for n in range(each):
            key = number * each + n
            waiting[key] = env.event()
            made[number % replicas].add(Job(key, prompt, output, env.now))
            yield waiting[key]

    every = [env.process(client(i)) for i in range(clients)]
    env.run(until=simpy.AllOf(env, every))
    return clients * each * output / float(env.now)


# -- the page


@dataclass(frozen=True)
class Visits:
    """Bytes and requests of a visit to the built page: the first, with all files; a later one, which asks whether there
    is a new version; and the first after a new version, with the files that every version changes.
    """

    first: int
    first_requests: int
    later: int
    later_requests: int
    update: int

    def a_day(self, visits: int, new: float, updates: float) -> dict[str, float]:
        """What the network in front sees on a day: `new` is the share of first visits, `updates` that of visits after a
        new version. Gigabytes, requests, and gigabits per second in the busiest hour (a tenth of the day's visits).
        """
        total = visits * (new * self.first + (1 - new) * self.later + updates * self.update)
        asked = visits * (new * self.first_requests + (1 - new) * self.later_requests)
        return {"GB": total / 1e9, "requests": asked, "Gbit/s at most": 0.1 * total * 8 / 3600 / 1e9}


def visits_of(folder: Path) -> Visits:
    """Of the page in a folder, by its manifest.json. Files are sent as .br, where that is there. HTTP's headers are
    counted with 500 bytes a request.
    """
    files = [entry["path"] for entry in json.loads((folder / "manifest.json").read_text())["files"]]

    def sent(path: str) -> int:
        packed = folder / f"{path}.br"
        return (packed if packed.is_file() else folder / path).stat().st_size + 500

    asked = ["index.html", "service-worker.js", "manifest.json"]  # the page itself comes from the service worker
    changed = [path for path in files if "/pyapp-" in path or path.endswith((".js", ".css", ".html"))]
    return Visits(
        sum(map(sent, [*files, *asked[1:]])), len(files) + 2, sum(map(sent, asked[1:])), 2, sum(map(sent, changed))
    )  # fmt: skip


# -- the command


def as_json(service: Service) -> str:
    return json.dumps(asdict(service), indent=2) + "\n"


def read_service(path: str) -> Service:
    """The service times of a file that `measure` has written."""
    found = json.loads(Path(path).read_text())
    return Service(**found | {"steps": tuple((int(n), float(t)) for n, t in found["steps"])})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, more in (("measure", ("model", "service")), ("check", ("model",)), ("table", ("service",)),
                       ("rack", ("service",)), ("page", ("folder",))):  # fmt: skip
        command = commands.add_parser(name)
        for argument in more:
            command.add_argument(argument)
        command.add_argument("--price", type=float, default=0.04, help="of a replica's hour (default: 0.04)")
        command.add_argument("--first", type=float, default=1.0, help="seconds to the first token, for 99 of 100")
        command.add_argument("--users", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
        command.add_argument("--seconds", type=float, default=90.0)
        command.add_argument("--load", type=float, default=0.66, help="of what the replicas can do (default: 0.66)")
    given = parser.parse_args(arguments)
    if given.command in ("table", "rack") and not Path(given.service).is_file():
        parser.error(f"there is no file {given.service}: `simulate.py measure MODEL {given.service}` writes it")
    if given.command == "page":
        if not Path(given.folder, "index.html").is_file():
            parser.error(f"{given.folder} has no page: `make site` writes it")
        visits = visits_of(Path(given.folder))
        print(f"first visit: {visits.first / 1e6:.2f} MB in {visits.first_requests} requests")
        print(f"later visit: {visits.later / 1e3:.1f} kB in {visits.later_requests} requests")
        print(f"the first after a new version: {visits.update / 1e6:.2f} MB more")
        for new in (1.0, 0.3, 0.05):
            told = visits.a_day(10**6, new, 0.1)
            print(f"10^6 visits a day, {new:.0%} of them new:", {name: round(value, 1) for name, value in told.items()})
        return 0
    if given.command == "measure":
        Path(given.service).write_text(as_json(measure(given.model)))
        print(Path(given.service).read_text(), end="")
        return 0
    if given.command == "check":
        found = check(given.model, seconds=given.seconds, load=given.load)
        for one in found:
            print(f"{one.what}: {one.real:.4g} measured, {one.simulated:.4g} predicted, {100 * one.error:+.1f} %")
        return 0 if all(abs(one.error) <= 0.15 for one in found) else 1
    service, work = read_service(given.service), Workload()
    if given.command == "table":
        print("| users | routing | replicas | tokens/s | first token p50 / p99 | answer p99 | busy | prompts reused "
              "| cost/h | cost/M tokens |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")  # fmt: skip
        for row in table(service, work, given.price, given.users, given.first):
            print(
                f"| {row.users:,} | {row.route} | {row.replicas:,} | {row.tokens_per_second:,.0f} | "
                f"{row.first_p50:.2f} / {row.first_p99:.2f} s | {row.latency_p99:.1f} s | {100 * row.busy:.0f} % | "
                f"{100 * row.reused:.0f} % | {row.cost_per_hour:,.2f} | {row.cost_per_million:.2f} |"
            )
        return 0
    for route in ("round robin", "by prefix"):
        users = given.users[0]
        replicas, _ = replicas_for(service, work, users, route, given.first)
        told = lost_rack(service, work, users, replicas, route)
        print(route, f"{users:,} users, {replicas} replicas:", {name: round(value, 2) for name, value in told.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
