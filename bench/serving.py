"""python -m bench.serving text|embed|speech --url http://localhost:8000 [--clients 1 4 16]
python -m bench.serving direct MODEL.gguf [--clients 1 4 16]
python -m bench.serving soak --url http://localhost:8000 --pid PID --seconds 3600

Loads for servers with OpenAI's routes, ours or another. `text`: tokens/s, the time to the first token (median and 99th
percentile) and between tokens; `embed`: texts/s; `speech`: seconds of sound per second. `direct`: our scheduler without
HTTP, to compare. `soak`: mixed requests, some cancelled and some malformed; no well-formed one may fail, and the memory
of the process must stay flat. docs/serving.md has the commands for other servers (bench/peer_server.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .embeddings import sentences
from .http_client import Connection

SOUND = Path(__file__).parents[1] / "web/models/speech/samples/weather.wav"
WORDS = "time river stone green water light house small old bird winter song paper door hand long road night".split()
CANCELLED, MALFORMED = 0.05, 0.02  # of a soak's requests
WARM = 1 / 6  # of a soak, before memory must be flat
FLAT = 0.02
MALFORMED_BODIES = (
    ("/v1/chat/completions", b"{"), ("/v1/completions", b"\xff\xfe"), ("/v1/completions", b'{"prompt": 3}'),
    ("/v1/chat/completions", b'{"messages": [], "surprise": 1}'), ("/v1/embeddings", b'{"input": [1, "a"]}'),
    ("/v1/audio/transcriptions", b"no form"), ("/v1/completions", b'{"prompt": "a", "temperature": NaN}'),
    ("/nowhere", b"{}"),
)  # fmt: skip


@dataclass
class Load:
    """What a load saw: of each text the seconds to the first token and between others, and counts."""

    first: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    tokens: int = 0
    requests: int = 0
    seconds: float = 0.0


def prompt(number: int, words: int) -> str:
    """Words that no other prompt begins with."""
    draw = random.Random(number)
    return " ".join(draw.choice(WORDS) for _ in range(words)) + f" {number}"


async def stream(connection: Connection, body: dict[str, Any], load: Load) -> None:
    """One streamed completion."""
    began = last = time.perf_counter()
    pieces, counted = 0, None
    data = json.dumps(body | {"stream": True, "stream_options": {"include_usage": True}}).encode()
    async for line in connection.lines("POST", "/v1/completions", data):
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        if "error" in chunk:
            raise RuntimeError(chunk["error"])
        if chunk.get("usage"):
            counted = chunk["usage"]["completion_tokens"]
        if chunk["choices"] and chunk["choices"][0].get("text"):
            now = time.perf_counter()
            (load.between if pieces else load.first).append(now - last if pieces else now - began)
            last, pieces = now, pieces + 1
    if connection.status != 200:
        raise RuntimeError(f"status {connection.status}")
    load.tokens += pieces if counted is None else counted
    load.requests += 1


async def together(clients: int, requests: int, one: Callable[[int, int], Awaitable[None]]) -> float:
    """`requests` calls of one(client, number), `clients` at a time; the seconds that they took."""
    numbers = iter(range(requests))

    async def client(which: int) -> None:
        for number in numbers:
            await one(which, number)

    began = time.perf_counter()
    await asyncio.gather(*(client(which) for which in range(clients)))
    return time.perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


async def text_load(options: argparse.Namespace, clients: int) -> str:
    load, connections = Load(), [Connection(options.url, options.key) for _ in range(clients)]
    salt = random.randrange(1 << 30)

    async def one(client: int, number: int) -> None:
        body = {"prompt": prompt(salt + number, options.prompt), "max_tokens": options.new, "temperature": 0}
        if options.model:
            body["model"] = options.model
        await stream(connections[client], body, load)

    await together(clients, clients, one)  # every step is captured, every connection open
    load = Load()
    salt += 1 << 31
    seconds = await together(clients, max(options.requests, 2 * clients), one)
    middle, late = (1e3 * percentile(load.first, share) for share in (0.5, 0.99))
    return (
        f"{clients:3} clients: {load.tokens / seconds:8.1f} tokens/s, first token {middle:7.1f} ms (99 %: {late:.1f}), "
        f"between {1e3 * percentile(load.between, 0.5):6.2f} ms"
    )


async def embed_load(options: argparse.Namespace, clients: int) -> str:
    texts = sentences()
    size, connections = options.batch, [Connection(options.url, options.key) for _ in range(clients)]

    async def one(client: int, number: int) -> None:
        part = [texts[(number * size + place) % len(texts)] for place in range(size)]
        found = await connections[client].json("POST", "/v1/embeddings", {"input": part, "model": options.model or "m"})
        if len(found.get("data", ())) != size:
            raise RuntimeError(found)

    await together(clients, clients, one)
    requests = max(options.requests, 2 * clients)
    seconds = await together(clients, requests, one)
    return f"{clients:3} clients: {requests * size / seconds:8.1f} texts/s ({size} a request)"


async def speech_load(options: argparse.Namespace, clients: int) -> str:
    sound = Path(options.sound).read_bytes()
    connections, heard = [Connection(options.url, options.key) for _ in range(clients)], []

    async def one(client: int, number: int) -> None:
        fields = {"response_format": "verbose_json", **({"model": options.model} if options.model else {})}
        found = await connections[client].upload("/v1/audio/transcriptions", sound, fields)
        if "duration" not in found:
            raise RuntimeError(found)
        heard.append(found["duration"])

    await one(0, 0)
    heard.clear()
    seconds = await together(clients, max(options.requests, 2 * clients), one)
    return f"{clients:3} clients: {sum(heard) / seconds:8.2f} seconds of sound per second"


def direct_load(options: argparse.Namespace, clients: int) -> str:
    """Our scheduler with so many texts at a time, in this process."""
    from pyapp.events import Done, Error
    from pyapp.models import load_model
    from pyapp.serve.scheduler import Scheduler
    from pyapp.serve.writing import Text
    from pyapp.text.generation.options import SamplingOptions

    if not hasattr(options, "scheduler"):
        loaded = load_model(options.source)
        options.loaded, options.scheduler = loaded, Scheduler(loaded.model, loaded.tokenizer)
    scheduler, tokenizer = options.scheduler, options.loaded.tokenizer
    settings = SamplingOptions(temperature=0.0, max_new_tokens=options.new)
    counts, salt = {"tokens": 0, "left": 0}, random.randrange(1 << 30)

    def emit(event: Any) -> None:
        if isinstance(event, Error):
            raise RuntimeError(event.what)
        if isinstance(event, Done):
            counts["tokens"] += event.results["new_tokens"]
            counts["left"] -= 1

    def run(requests: int) -> float:
        numbers, began = iter(range(requests)), time.perf_counter()
        counts["tokens"] = 0
        while True:
            while counts["left"] < clients and (number := next(numbers, None)) is not None:
                ids = tokenizer.encode(prompt(salt + number, options.prompt), eos=False)
                scheduler.add(Text(ids, settings, tokenizer.stop_ids, emit))
                counts["left"] += 1
            if not scheduler.turn() and not counts["left"]:
                return time.perf_counter() - began

    run(clients)
    salt += 1 << 31
    seconds = run(max(options.requests, 2 * clients))
    return f"{clients:3} texts: {counts['tokens'] / seconds:8.1f} tokens/s without HTTP"


# -- soak


def memory_of(pid: int) -> int:
    """Bytes of a process in memory (Linux)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


class Soak:
    """Mixed requests for some time. `failures` are those of well-formed ones; `wrong`: malformed ones that were not
    refused.
    """

    def __init__(self, options: argparse.Namespace, models: dict[str, list[str]]) -> None:
        self.options, self.models = options, models
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.wrong: list[str] = []
        self.memory: list[tuple[float, int]] = []
        self.began = time.monotonic()

    async def client(self, number: int) -> None:
        draw, connection = random.Random(number), Connection(self.options.url, self.options.key)
        while time.monotonic() - self.began < self.options.seconds:
            if self.options.pause:
                await asyncio.sleep(draw.expovariate(1 / self.options.pause))
            try:
                await self.one(draw, connection)
            except (OSError, asyncio.IncompleteReadError, ValueError, RuntimeError) as error:
                self.failures.append(f"{type(error).__name__}: {error!s:.200}")
                connection.close()
        connection.close()

    async def one(self, draw: random.Random, connection: Connection) -> None:
        if draw.random() < MALFORMED:
            path, body = draw.choice(MALFORMED_BODIES)
            answer = b"".join([line async for line in connection.lines("POST", path, body)])
            if not 400 <= connection.status < 500 or b'"error"' not in answer:
                self.wrong.append(f"{path} {body!r}: {connection.status} {answer!r:.100}")
            self.counts["malformed"] += 1
            return
        kinds = [kind for kind in ("generate", "generate", "generate", "embed", "embed", "classify", "transcribe")
                 if self.models.get(kind)]  # fmt: skip
        kind = draw.choice(kinds)
        model = draw.choice(self.models[kind])
        if kind == "transcribe":
            await self.answered(connection.upload("/v1/audio/transcriptions", SOUND.read_bytes(), {"model": model}),
                                connection, kind)  # fmt: skip
        elif kind == "generate":
            await self.write(draw, connection, model)
        elif kind == "embed":
            texts = [prompt(draw.randrange(1 << 30), draw.randint(1, 60)) for _ in range(draw.randint(1, 20))]
            await self.answered(connection.json("POST", "/v1/embeddings", {"model": model, "input": texts}),
                                connection, kind)  # fmt: skip
        else:
            body = {"model": model, "query": "old house", "documents": [prompt(n, 8) for n in range(5)]}
            await self.answered(connection.json("POST", "/v1/rerank", body), connection, kind)

    async def write(self, draw: random.Random, connection: Connection, model: str) -> None:
        body: dict[str, Any] = {"model": model, "max_tokens": draw.randint(1, 80), "seed": draw.randrange(1000)}
        body["prompt"] = "".join(("You are a poet. " * 9 if draw.random() < 0.3 else "", prompt(
            draw.randrange(1 << 30), draw.randint(1, 30))))  # fmt: skip
        body["temperature"] = draw.choice((0, 0.7, 1.0))
        if draw.random() < 0.1:
            body |= {"regex": "[a-z ]{5,40}", "max_tokens": 60}
        cancel = draw.random() < CANCELLED / 0.5  # about half of the requests are texts
        if not cancel and draw.random() < 0.4:
            await self.answered(connection.json("POST", "/v1/completions", body), connection, "whole text")
            return
        seen = 0
        data = json.dumps(body | {"stream": True}).encode()
        lines = connection.lines("POST", "/v1/completions", data)
        async for line in lines:
            if b'"error"' in line:
                raise RuntimeError(line[:200])
            seen += line.startswith(b"data:")
            if cancel and seen > draw.randint(0, 5):
                await lines.aclose()  # type: ignore[attr-defined]
                connection.close()
                self.counts["cancelled"] += 1
                return
        if connection.status != 200:
            raise RuntimeError(f"status {connection.status}")
        self.counts["streamed text"] += 1

    async def answered(self, request: Awaitable[Any], connection: Connection, kind: str) -> None:
        answer = await request
        if connection.status != 200:
            raise RuntimeError(f"{kind}: status {connection.status} {answer!s:.200}")
        self.counts[kind] += 1

    async def watch(self) -> None:
        while time.monotonic() - self.began < self.options.seconds:
            if self.options.pid:
                self.memory.append((time.monotonic() - self.began, memory_of(self.options.pid)))
            await asyncio.sleep(min(5.0, self.options.seconds / 50))

    def report(self) -> int:
        """Prints what was seen; 1 if a request failed or memory grew."""
        total = sum(self.counts.values()) + len(self.failures)
        print(f"{total} requests:", ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items())))
        for what, texts in (("failed", self.failures), ("malformed and not refused", self.wrong)):
            print(f"{len(texts)} {what}")
            for text in texts[:10]:
                print("   ", text)
        flat = True
        late = [size for at, size in self.memory if at > WARM * self.options.seconds]
        if late:
            half = len(late) // 2
            before, after = (statistics.median(part) for part in (late[:half] or late, late[half:]))
            flat = after / before - 1 <= FLAT
            change = f"{100 * (after / before - 1):+.2f} %"
            lowest, highest, before, after = (size / 2**20 for size in (min(late), max(late), before, after))
            print(f"memory: {before:.1f} MiB, then {after:.1f} MiB ({change}; {lowest:.1f} to {highest:.1f})")
        return int(bool(self.failures or self.wrong) or not flat)


async def soak(options: argparse.Namespace) -> int:
    found = await Connection(options.url, options.key).json("GET", "/v1/models")
    models: dict[str, list[str]] = {}
    for entry in found["data"]:
        models.setdefault(entry["task"], []).append(entry["id"])
    run = Soak(options, models)
    await asyncio.gather(run.watch(), *(run.client(number) for number in range(options.clients[0])))
    return run.report()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("load", choices=["text", "embed", "speech", "direct", "soak"])
    parser.add_argument("source", nargs="?", help="the model of `direct`")
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--key")
    parser.add_argument("--model")
    parser.add_argument("--clients", type=int, nargs="+")
    parser.add_argument("--requests", type=int, default=16, help="at least two for each client")
    parser.add_argument("--prompt", type=int, default=32, help="words of a prompt")
    parser.add_argument("--new", type=int, default=64, help="tokens of a text")
    parser.add_argument("--batch", type=int, default=16, help="texts of a request for embeddings")
    parser.add_argument("--sound", default=str(SOUND))
    parser.add_argument("--pid", type=int, help="the server's process, whose memory a soak watches")
    parser.add_argument("--seconds", type=float, default=3600.0, help="of a soak")
    parser.add_argument("--pause", type=float, default=0.0, help="mean seconds between a client's requests in a soak")
    options = parser.parse_args()
    if options.load == "soak":
        options.clients = options.clients or [12]
        return asyncio.run(soak(options))
    loads = {"text": text_load, "embed": embed_load, "speech": speech_load}
    for clients in options.clients or ([1, 8] if options.load == "speech" else [1, 4, 16]):
        line = direct_load(options, clients) if options.load == "direct" else asyncio.run(
            loads[options.load](options, clients))  # fmt: skip
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
