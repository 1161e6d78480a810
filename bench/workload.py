"""What is timed on our side: the same natively and inside Pyodide (pages/pyapp.worker.mjs imports this file)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyapp
from bench.shapes import DECODE, LLAMA_PROMPT, PROMPT, ROWS, SHAPES
from pyapp import Generator, no_grad, ops
from pyapp.engine import quant
from pyapp.models.llama2c import Llama2c
from pyapp.nn import Parameter
from pyapp.text.generation.generate import Session

SAMPLE_SECONDS = 0.6  # a sample repeats its call for at least this long


def build(name: str, kind: str) -> Llama2c:
    """A random model of a shape, in f32 or with every matrix in a block format."""
    model = Llama2c(SHAPES[name], initialize=False)
    for path, owner, shape in model.slots():
        weight = (
            pyapp.ones(*shape)
            if len(shape) == 1
            else pyapp.randn(*shape, generator=Generator(len(path))) * shape[-1] ** -0.5
        )
        owner.weight = Parameter(
            quant.quantize(weight, kind) if len(shape) == 2 and kind != "f32" else weight, requires_grad=False
        )
    return model


class Decoder:
    """A language model, and its figures: tokens per second. `tokens` are those of a decode sample, `prompt` those of a
    prompt.
    """

    def __init__(self, model: Any, tokens: int, prompt: int) -> None:
        self.model, self.tokens, self.prompt_tokens = model, tokens, prompt
        self.vocabulary = model.config.vocab_size
        self.buffers = ops.SampleBuffers(self.vocabulary, model.device)
        self.sessions: dict[bool, Session] = {}

    def session(self, eager: bool = False) -> Session:
        if eager not in self.sessions:
            self.sessions[eager] = Session(self.model, eager=eager)
        return self.sessions[eager]

    def ids(self, count: int) -> list[int]:
        return [3 + (i * 7) % (self.vocabulary - 3) for i in range(count)]

    def decode(self, eager: bool = False) -> float:
        """Greedy tokens per second after a prompt of 8; the prompt is not counted."""
        session, spent, done = self.session(eager), 0.0, 0
        while spent < SAMPLE_SECONDS:
            session.reset()
            logits = session.feed(self.ids(8))
            start = time.perf_counter()
            for _ in range(self.tokens):
                logits = session.step(ops.sample(logits, self.buffers))
            spent += time.perf_counter() - start
            done += self.tokens
        return done / spent

    def eager(self) -> float:
        """decode, op by op."""
        return self.decode(eager=True)

    def prompt(self) -> float:
        """Tokens per second of a prompt, in passes as `generate` reads it."""
        session, spent, done = self.session(), 0.0, 0
        while spent < SAMPLE_SECONDS:
            session.reset()
            start = time.perf_counter()
            session.continue_from(self.ids(self.prompt_tokens))
            spent += time.perf_counter() - start
            done += self.prompt_tokens
        return done / spent

    def figure(self, name: str) -> float:
        figures: dict[str, Callable[[], float]] = {"decode": self.decode, "eager": self.eager, "prompt": self.prompt}
        return figures[name]()


class Workload(Decoder):
    """One of SHAPES with random weights."""

    def __init__(self, name: str, kind: str, device: str = "cpu") -> None:
        super().__init__(build(name, kind).to(device), DECODE[name], PROMPT)


class LlamaWorkload(Decoder):
    """One of LLAMAS from its GGUF file."""

    def __init__(self, name: str, path: str, device: str = "cpu") -> None:
        from pyapp.models import load_model

        super().__init__(load_model(path, device=device).model, DECODE[name], LLAMA_PROMPT)


class EmbedderWorkload:
    """A folder of sentence-transformers, and how many texts it embeds in a second."""

    def __init__(self, folder: str) -> None:
        self.embed = pyapp.pipeline("embed", folder)

    def vectors(self, texts: list[str]) -> Any:
        return self.embed(texts)

    def figure(self, texts: list[str]) -> float:
        start = time.perf_counter()
        self.embed(texts)
        return len(texts) / (time.perf_counter() - start)


class OnnxWorkload:
    """An ONNX file and its inputs: seconds of a run."""

    def __init__(self, path: str, inputs: dict[str, Any]) -> None:
        import numpy as np

        self.model = pyapp.onnx.load(path)
        self.inputs = {
            name: pyapp.from_numpy(np.array(values, kind).reshape(shape))
            for name, (kind, shape, values) in inputs.items()
        }

    def output(self, count: int) -> list[float]:
        """The first numbers of the first output."""
        with no_grad():
            found = self.model(**self.inputs)
        first = found[0] if isinstance(found, tuple) else found
        return [float(value) for value in first.numpy().reshape(-1)[:count]]

    def figure(self, runs: int) -> float:
        start = time.perf_counter()
        with no_grad():
            for _ in range(runs):
                self.model(**self.inputs)
        return (time.perf_counter() - start) / runs


def stream(megabytes: int = 192) -> float:
    """GB/s at which a matrix × vector product in f32 reads its weights: the floor of decoding."""
    rows = megabytes * 1_000_000 // (4 * 4096)
    weight, x = pyapp.ones(rows, 4096), pyapp.ones(1, 4096)
    spent, done = 0.0, 0
    with no_grad():
        ops.linear(x, weight)
        while spent < SAMPLE_SECONDS:
            start = time.perf_counter()
            ops.linear(x, weight)
            spent += time.perf_counter() - start
            done += rows * 4096 * 4
    return done / spent / 1e9


class BlockStream:
    """Matrix × vector products with more weights than caches hold: 192 MB in a block format, in rows of 11008 (llama's
    down projection), and 192 MB of f32, which is how fast weights can be read at all; both in pieces of about 3 MB."""

    def __init__(self, kind: str) -> None:
        rows, columns, repeats = 64, 11008, 8
        random = pyapp.randn(rows, columns, generator=Generator(1))
        blocks = bytes(quant.to_blocks(quant.quantize(random, kind)).data) * repeats
        piece = quant.packed_bytes((rows * repeats, columns), kind)
        count = -(-192_000_000 // piece)
        self.weights = [quant.from_blocks(blocks, (rows * repeats, columns), kind) for _ in range(count)]
        self.dense = [pyapp.ones(piece // (4 * columns), columns) for _ in range(count)]
        self.nbytes = [count * piece, sum(4 * weight.numel() for weight in self.dense)]
        self.x = pyapp.randn(1, columns, generator=Generator(2))

    def sample(self, passes: int = 10) -> tuple[float, float]:
        """GB/s of the blocks and of the f32, in turn, by the fastest time of each piece: a piece takes a fraction of a
        millisecond, so that also on a busy machine some passes over it are not interrupted."""
        fastest = [[float("inf")] * len(self.weights) for _ in range(2)]
        with no_grad():
            for _ in range(passes):
                for times, weights in zip(fastest, (self.weights, self.dense), strict=True):
                    for i, weight in enumerate(weights):
                        start = time.perf_counter()
                        ops.linear(self.x, weight)
                        times[i] = min(times[i], time.perf_counter() - start)
        blocks, dense = (nbytes / sum(times) / 1e9 for nbytes, times in zip(self.nbytes, fastest, strict=True))
        return blocks, dense


class BlockRows:
    """Products of several rows at once, as a server's step and a prompt have them: with a matrix of 2048 × 2048 in a
    block format, which stays in the caches."""

    SIZE = 2048

    def __init__(self, kind: str) -> None:
        size = self.SIZE
        self.weight = quant.quantize(pyapp.randn(size, size, generator=Generator(1)), kind)
        self.x = pyapp.randn(max(ROWS), size, generator=Generator(2))

    def sample(self) -> list[float]:
        """GMAC/s for each number of ROWS: the fastest of many products, in turn."""
        inputs, fastest, spent = [self.x.narrow(0, 0, rows) for rows in ROWS], [0.0 for _ in ROWS], 0.0
        with no_grad():
            while spent < 2 * SAMPLE_SECONDS:
                for i, x in enumerate(inputs):
                    start = time.perf_counter()
                    ops.linear(x, self.weight)
                    seconds = time.perf_counter() - start
                    fastest[i] = max(fastest[i], ROWS[i] * self.SIZE**2 / seconds / 1e9)
                    spent += seconds
        return fastest


def environment() -> dict[str, Any]:
    """What the figures were taken on."""
    return {"instruction_set": pyapp.instruction_set(), "threads": pyapp.get_num_threads(), "pyapp": pyapp.__version__}
