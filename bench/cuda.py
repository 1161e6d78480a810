"""Figures of a card, beside torch on the same card in the same run: python -m bench.cuda [--only REGEX] [--runs 5]

Times are between two events of the card. Samples of pyapp and its peers are taken in turn, and a figure is their
median: torch, and "torch.compile", which has language models and the training step compiled (minutes; `--eager` leaves
it out). Without torch (and transformers, for its language models) pyapp is measured alone. What goes wrong with a peer
or a case is a part of the result, and the others are measured.

All figures go to one file (--out, bench/output/cuda.json), which is written anew after each case;
`python -m bench.cuda_tables` makes the table of docs/cuda.md of it. `--count` needs no card: it prints the launches of
a decoded token and the bytes that it reads, for the shapes that are measured here. `--overlap` also measures tokens
whose kernels start before those in front have ended, and fails where a bit of their logits differs.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyapp
from pyapp import nn
from pyapp.engine import as_dtype, quant
from pyapp.engine.ops.kv_cache import row_bytes
from pyapp.models.llama2c import Config, Llama2c
from pyapp.models.whisper import Whisper
from pyapp.models.whisper.transformer import Config as WhisperConfig
from pyapp.text.generation.session import Session
from scripts.cuda_card import missing

from . import cuda_count
from .report import Figure

# The shapes of Llama 3.2 1B and Llama 2 7B.
LLAMAS = {
    "1B": Config(2048, 8192, n_layers=16, n_heads=32, n_kv_heads=8, vocab_size=128256, max_seq_len=4608),
    "7B": Config(4096, 11008, n_layers=32, n_heads=32, n_kv_heads=32, vocab_size=32000, max_seq_len=4608, tied=False),
}
BITS = {"bfloat16": 16.0, "q8_0": 8.5, "q4_K": 4.5}
LARGE_V3 = WhisperConfig(
    n_mels=128, n_audio_ctx=1500, n_audio_state=1280, n_audio_head=20, n_audio_layer=32, n_vocab=51866, n_text_ctx=448,
    n_text_state=1280, n_text_head=20, n_text_layer=32,
)  # fmt: skip
PROMPTS = (512, 4096)
BATCHES = (1, 16)
ATTENTION = (1024, 2048, 4096, 8192, 16384)  # tokens
CACHED = {"prompt": (1, 128, 3968), "step": (16, 1, 1024)}  # texts, tokens of each, tokens before them
BANDWIDTH = {"H100": 3.35e12, "H200": 4.8e12}  # bytes a second, by NVIDIA's data sheets; for --count
CALLS = 10  # between two events
CHECKED = 20  # tokens whose logits are compared, where kernels overlap
DEVICE = "cuda"
SIDE = 4096  # of the matrices of products
LINEAR = 4096, 11008  # inputs and outputs
COPIED = 1 << 28  # numbers
GPT = 768, 12, 12, 50304, 8, 1024  # width, heads, layers, vocabulary, texts and their tokens of the training step


def _torch() -> Any:
    """torch with a card; None without."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    return torch if torch.cuda.is_available() else None


Call = Callable[[], Any]
Peers = dict[str, Callable[[], Call] | None]  # what makes a peer's call; None: it is not there


def _milliseconds(library: Any, call: Call) -> float:
    """Of one call, by events of the card."""
    start, end = library.cuda.Event(enable_timing=True), library.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / CALLS


def _told(error: BaseException) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _figure(
    name: str, unit: str, runs: int, ours: Call, peers: Peers, amount: float | None = None, **more: Any
) -> Figure:
    """Milliseconds of a call of ours and of each peer, in turn, after two calls of each that are not counted; or
    `amount` a second. What fails with a peer is noted in the figure's environment, as "problems".
    """
    calls: dict[str, tuple[Any, Call]] = {"pyapp": (pyapp, ours)}
    ours(), ours()
    samples: dict[str, list[float]] = {"pyapp": []}
    problems: dict[str, str] = {}
    for who, make in peers.items():
        if make is None:
            continue
        try:
            call = make()
            call(), call()
            calls[who], samples[who] = (pyapp if who == "overlapped" else _torch(), call), []
        except Exception as error:
            problems[who] = _told(error)
    for _ in range(runs):
        for who, (library, call) in list(calls.items()):
            try:
                samples[who].append(_milliseconds(library, call))
            except Exception as error:
                if who == "pyapp":
                    raise
                problems[who] = _told(error)
                del calls[who], samples[who]
    if amount is not None:
        samples = {who: [amount / (x * 1e-3) for x in found] for who, found in samples.items()}
    return Figure(name, unit, samples, more | ({"problems": problems} if problems else {}))


def stream_figures(runs: int) -> Iterator[Figure]:
    """Copies of a gibibyte, bytes read and written."""
    torch = _torch()
    x, y = (pyapp.zeros(COPIED, device=DEVICE) for _ in range(2))

    def theirs() -> Call:
        a, b = (torch.zeros(COPIED, device="cuda") for _ in range(2))
        return lambda: b.copy_(a)

    peers: Peers = {"torch": None if torch is None else theirs}
    yield _figure("cuda/stream", "GB/s", runs, lambda: y.copy_(x), peers, 8 * COPIED / 1e9)


def matmul_figures(kind: str, runs: int) -> Iterator[Figure]:
    """Products of two matrices of SIDE x SIDE."""
    torch = _torch()
    a, b = (pyapp.randn(SIDE, SIDE).to(getattr(pyapp, kind)).to(DEVICE) for _ in range(2))

    def theirs() -> Call:
        c, d = (torch.randn(SIDE, SIDE, device="cuda").to(getattr(torch, kind)) for _ in range(2))
        return lambda: c @ d

    peers: Peers = {"torch": None if torch is None else theirs}
    yield _figure(f"cuda/matmul/{kind}", "TFLOPS", runs, lambda: a @ b, peers, 2 * SIDE**3 / 1e12)


def linear_figures(kind: str, rows: int, runs: int) -> Iterator[Figure]:
    """A layer of 4096 inputs and 11008 outputs; beside torch with bfloat16 weights."""
    torch = _torch()
    layer = nn.Linear(*LINEAR, bias=False).requires_grad_(False)
    _fill(layer, kind)
    layer.to(DEVICE)
    x = pyapp.randn(rows, LINEAR[0]).to(DEVICE)

    def theirs() -> Call:
        other = torch.nn.Linear(*LINEAR, bias=False).cuda().bfloat16()
        z = torch.randn(rows, LINEAR[0]).cuda().bfloat16()
        return lambda: other(z)

    with pyapp.no_grad():
        peers: Peers = {"torch": None if torch is None else theirs}
        yield _figure(f"cuda/linear/{kind}/rows{rows}", "ms", runs, lambda: layer(x), peers)


def attention_figures(tokens: int, kind: str, runs: int) -> Iterator[Figure]:
    """Causal, 32 heads of 128, forward and backward."""
    torch = _torch()
    shape = (1, 32, tokens, 128)
    q, k, v = (pyapp.randn(*shape).to(getattr(pyapp, kind)).to(DEVICE).requires_grad_() for _ in range(3))
    work = 4 * 32 * tokens**2 * 128 / 2 / 1e12

    def run(F: Any, tensors: Any, backward: bool) -> None:
        y = F.scaled_dot_product_attention(*tensors, is_causal=True)
        if backward:
            for x in tensors:
                x.grad = None
            y.backward(y.detach())

    def theirs(backward: bool) -> Call:
        dtype = getattr(torch, kind)
        tensors = [torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
        return partial(run, torch.nn.functional, tensors, backward)

    for name, backward, share in (("forward", False, 1.0), ("forward and backward", True, 3.5)):
        peers: Peers = {"torch": None if torch is None else partial(theirs, backward)}
        ours = partial(run, pyapp.nn.functional, (q, k, v), backward)
        yield _figure(f"cuda/attention/{kind}/{tokens}/{name}", "TFLOPS", runs, ours, peers, work * share)


def _cached(kind: str, texts: int, tokens: int, start: int, block: int | None, device: str) -> Call:
    """Attention of 32 heads of 128 over caches of 8, contiguous or in blocks that lie in reversed order."""
    length = start + tokens
    parts = 1 if block is None else -(-length // block)
    shape = texts * parts, 8, length if block is None else block, row_bytes(128) if kind == "uint8" else 128
    keys, values = (pyapp.zeros(*shape, dtype=kind, device=device) for _ in range(2))
    q, position = pyapp.randn(texts, tokens, 32, 128).to(device), pyapp.full((texts,), start, dtype="int32")
    table = pyapp.arange(texts * parts - 1, -1, -1, dtype="int32").reshape(texts, parts).to(device)
    blocks = None if block is None else table
    return partial(pyapp.ops.cached_attention, q, keys, values, position.to(device), block_table=blocks)


def cached_figures(kind: str, runs: int) -> Iterator[Figure]:
    """A server's pass of a long prompt, and its step, over contiguous caches and over blocks of 32 tokens."""
    for name, sizes in CACHED.items():
        for where, block in (("contiguous", None), ("blocks", 32)):
            call = _cached(kind, *sizes, block, DEVICE)
            with pyapp.no_grad():
                yield _figure(f"cuda/cached/{name}/{'q8_0' if kind == 'uint8' else kind}/{where}", "ms", runs, call, {})


def _fill(model: Any, kind: str) -> None:
    """Gives linear layers and embeddings weights of a type, of small numbers: 64 rows of them again and again, since
    quantising all takes minutes. Shared weights stay shared."""
    made: dict[int, Any] = {}
    for module in model.modules():
        if not isinstance(module, nn.Linear | nn.Embedding):
            continue
        old = module.weight
        if id(old) not in made:
            rows, columns = old.shape
            part = pyapp.rand(64, columns) * 0.04 - 0.02
            part = quant.quantize(part, kind) if as_dtype(kind).is_quantized else part.to(getattr(pyapp, kind))
            left = [quant.rows_of(part, 0, rows % 64)] if rows % 64 else []
            filled = quant.concatenate([part] * (rows // 64) + left)
            made[id(old)] = old, nn.Parameter(filled, requires_grad=False)
        module.weight = made[id(old)][1]


def _llama(shape: str, kind: str) -> Llama2c:
    model = Llama2c(LLAMAS[shape], initialize=False).requires_grad_(False)
    _fill(model, kind)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.fill_(1.0)
    return model.to(DEVICE).eval()


def _peer(shape: str) -> Any:
    """transformers' Llama of a shape in bfloat16; None where it is not installed."""
    torch = _torch()
    if torch is None or importlib.util.find_spec("transformers") is None:
        return None
    transformers = importlib.import_module("transformers")
    c = LLAMAS[shape]
    config = transformers.LlamaConfig(
        hidden_size=c.dim, intermediate_size=c.hidden_dim, num_hidden_layers=c.n_layers, vocab_size=c.vocab_size,
        num_attention_heads=c.n_heads, num_key_value_heads=c.n_kv_heads, max_position_embeddings=c.max_seq_len,
        tie_word_embeddings=c.tied,
    )  # fmt: skip
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return transformers.LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def _peer_step(peer: Any, texts: int, tokens: int, compiled: bool) -> Call:
    """A pass of `tokens` tokens of each text over a static cache. A single token is replayed from a CUDA graph;
    `compiled`: of what torch.compile makes, which takes minutes."""
    torch, transformers = _torch(), importlib.import_module("transformers")
    cache = transformers.StaticCache(config=peer.config, max_cache_len=1024 if tokens == 1 else 4608)
    ids = torch.ones(texts, tokens, dtype=torch.long, device="cuda")
    how = {"mode": "max-autotune-no-cudagraphs", "fullgraph": True}
    forward = torch.compile(peer.forward, **how) if compiled else peer.forward

    def rewind(position: int) -> None:
        """The cache counts its tokens itself, and writes beyond its end."""
        for layer in cache.layers:
            layer.cumulative_length.fill_(position)

    def step() -> None:
        with torch.no_grad():
            if tokens > 1:
                rewind(0)
            forward(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)

    if tokens > 1:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step(), rewind(256), step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    rewind(256)  # as many steps as are measured fit behind
    return lambda: (graph.replay(), step)[0]  # with what the step reads, which torch's graph does not keep


def _decode(model: Llama2c, texts: int, overlap: bool = False) -> Call:
    """A token of each text, captured; `overlap`: as with PYAPP_CUDA_OVERLAP=1, which counts otherwise."""
    card: Any = pyapp.device(DEVICE).backend.card  # type: ignore[attr-defined]
    cache = model.new_cache(1024, "float16", texts if texts > 1 else None)
    tokens = pyapp.ones(*((texts, 1) if texts > 1 else (1,)), dtype="int32").to(DEVICE)
    position = pyapp.full((texts,), 256, dtype="int32").to(DEVICE)
    with pyapp.no_grad():
        forward = partial(model.forward_cached, tokens, position, cache)
        forward()
        before = card.overlap
        card.overlap = before or overlap
        try:
            graph = pyapp.capture(forward)
        finally:
            card.overlap = before
    return graph.replay


def _overlapped(model: Llama2c, texts: int, alone: Call) -> Call:
    """As _decode, with kernels that overlap. RuntimeError where the logits are not those of `alone`."""
    call = _decode(model, texts, True)
    for _ in range(CHECKED):
        if alone().cpu().numpy().tobytes() != call().cpu().numpy().tobytes():
            raise RuntimeError("kernels that overlap give other logits")
    return call


def _read(model: Llama2c, tokens: int) -> Call:
    session, ids = Session(model, cache_type="f16"), [1 + i % 1000 for i in range(tokens)]

    def read() -> None:
        session.reset()
        session.feed(ids)

    return read


def decode_figures(shape: str, runs: int, compiled: bool, overlap: bool) -> Iterator[Figure]:
    """Tokens a second at batch 1 and 16 after 256 tokens, and prompts of 512 and 4096 tokens: with weights of every
    kind, beside transformers in bfloat16 with a static cache; of single tokens also what torch.compile makes of it.
    """
    kept: dict[Any, Any] = {}

    def peer_of(*step: Any) -> Call:
        """The call of a peer, made once for all kinds of weights; so is what went wrong with it."""
        try:
            if "model" not in kept:
                kept["model"] = _peer(shape)
            if step not in kept:
                kept[step] = _peer_step(kept["model"], *step)
        except Exception as error:
            kept[step] = error
        if isinstance(kept[step], Exception):
            raise kept[step]
        return kept[step]  # type: ignore[no-any-return]

    there = _torch() is not None and importlib.util.find_spec("transformers") is not None
    cases = [("decode", texts, texts, 1) for texts in BATCHES] + [("prompt", 1, tokens, tokens) for tokens in PROMPTS]
    for kind in BITS:
        model = _llama(shape, kind)
        for what, texts, amount, tokens in cases:
            ours = _decode(model, texts) if what == "decode" else _read(model, tokens)
            peers: Peers = {}
            if overlap and what == "decode":
                other = _overlapped(model, texts, ours)
                peers["overlapped"] = lambda other=other: other  # type: ignore[misc]
            if there:
                peers["torch"] = partial(peer_of, texts, tokens, False)
            if there and compiled and tokens == 1:
                peers["torch.compile"] = partial(peer_of, texts, tokens, True)
            name = f"batch{texts}" if what == "decode" else f"{tokens}"
            figure = _figure(f"cuda/{what}/{shape}/{kind}/{name}", "tok/s", runs, ours, peers, amount)
            passes = figure.median() / amount  # a second
            figure.environment["GB/s"] = weight_bytes(LLAMAS[shape], kind) / 1e9 * passes
            yield figure


def whisper_figures(runs: int) -> Iterator[Figure]:
    """The encoder and a decoded token of large-v3's shape, with matrices in float16."""
    torch, c = _torch(), LARGE_V3
    model = Whisper(c).requires_grad_(False)
    _fill(model, "float16")
    model.to(DEVICE).eval()
    mel = pyapp.randn(1, c.n_mels, 2 * c.n_audio_ctx).to(DEVICE)

    def theirs() -> Call:
        transformers = importlib.import_module("transformers")
        config = transformers.WhisperConfig(
            num_mel_bins=c.n_mels, d_model=c.n_audio_state, encoder_layers=c.n_audio_layer, vocab_size=c.n_vocab,
            encoder_attention_heads=c.n_audio_head, decoder_layers=c.n_text_layer, encoder_ffn_dim=4 * c.n_audio_state,
            decoder_attention_heads=c.n_text_head, decoder_ffn_dim=4 * c.n_text_state,
        )  # fmt: skip
        with torch.device("cuda"):
            other = transformers.WhisperModel(config).half().eval()
        z = torch.randn(*mel.shape, device="cuda", dtype=torch.half)

        def encode() -> None:
            with torch.no_grad():
                other.encoder(z)

        return encode

    with pyapp.no_grad():
        peers: Peers = {"torch": None if torch is None else theirs}
        yield _figure("cuda/whisper-large-v3/encoder", "ms", runs, lambda: model.encode(mel), peers)
        with model.new_session(model.encode(mel), 1) as session:
            session.feed([1, 2, 3])
            last = c.n_text_ctx - 48
            step = lambda: session.step([5]) if session.position < last else session.rewind(3)  # noqa: E731
            yield _figure("cuda/whisper-large-v3/token", "ms", runs, step, {})


def training_figures(runs: int, compiled: bool) -> Iterator[Figure]:
    """A step of GPT-2 small's shape (124M), 8 texts of 1024 tokens, under autocast to bfloat16, AdamW."""
    torch = _torch()
    width, heads, layers, vocabulary, texts, length = GPT

    def step_of(P: Any, device: str, compiled: bool = False) -> Call:
        nn = P.nn

        class Block(nn.Module):  # type: ignore[name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x: Any) -> Any:
                batch, tokens, _ = x.shape
                q, k, v = self.qkv(self.norms[0](x)).reshape(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
                y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
                return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x)), approximate="tanh"))

        blocks = (Block() for _ in range(layers))
        body = nn.Sequential(nn.Embedding(vocabulary, width), *blocks, nn.LayerNorm(width))
        model = nn.Sequential(body, nn.Linear(width, vocabulary, bias=False)).to(device)
        run = P.compile(model) if compiled else model
        optimizer = P.optim.AdamW(model.parameters(), lr=3e-4)
        tokens = P.randint(0, vocabulary, (texts, length)).to(device)

        def step() -> Any:
            optimizer.zero_grad()
            with P.autocast("cuda", dtype=P.bfloat16):
                loss = nn.functional.cross_entropy(run(tokens).reshape(-1, vocabulary), tokens.reshape(-1))
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager = step_of(pyapp, DEVICE)
    eager()
    graph = pyapp.capture(eager)
    peers: Peers = {}
    if torch is not None:
        peers["torch"] = partial(step_of, torch, "cuda")
    if torch is not None and compiled:
        peers["torch.compile"] = partial(step_of, torch, "cuda", True)
    yield _figure("cuda/train/gpt2-small", "ms", runs, graph.replay, peers)


def cases(runs: int, compiled: bool, overlap: bool) -> dict[str, Callable[[], Iterator[Figure]]]:
    """Every case by the beginning of its figures' names."""
    found: dict[str, Callable[[], Iterator[Figure]]] = {"cuda/stream": partial(stream_figures, runs)}
    for kind in ("float32", "float16", "bfloat16"):
        found[f"cuda/matmul/{kind}"] = partial(matmul_figures, kind, runs)
    for kind in BITS:
        for rows in (1, 16, 512):
            found[f"cuda/linear/{kind}/rows{rows}"] = partial(linear_figures, kind, rows, runs)
    for kind in ("float32", "bfloat16"):
        for tokens in ATTENTION:
            found[f"cuda/attention/{kind}/{tokens}"] = partial(attention_figures, tokens, kind, runs)
    for kind in ("float32", "float16", "bfloat16", "uint8"):
        found[f"cuda/cached/{kind}"] = partial(cached_figures, kind, runs)
    for shape in LLAMAS:
        found[f"cuda/decode/{shape}"] = partial(decode_figures, shape, runs, compiled, overlap)
    found["cuda/whisper-large-v3"] = partial(whisper_figures, runs)
    found["cuda/train"] = partial(training_figures, runs, compiled)
    return found


# ---- without a card


def weight_bytes(config: Config, kind: str) -> float:
    """Bytes of the weights that a token reads: every matrix once."""
    layer = config.dim * (2 * config.dim + 2 * config.n_kv_heads * config.head_dim + 3 * config.hidden_dim)
    return (config.n_layers * layer + config.vocab_size * config.dim) * BITS[kind] / 8


def count(context: int = 1024) -> None:
    """Prints launches and bytes of a decoded token."""
    print(f"A token after {context} others; weights and a float16 cache read once")
    for shape, config in LLAMAS.items():
        for kind in BITS:
            launches = cuda_count.launches_of(config, kind, context)
            weights = weight_bytes(config, kind)
            caches = 2 * config.n_layers * config.n_kv_heads * context * config.head_dim * 2
            floors = [f"{1e3 * (weights + caches) / rate:.2f} ms on an {card}" for card, rate in BANDWIDTH.items()]
            print(
                f"{shape} {kind:8}: {len(launches)} launches, {weights / 1e9:.2f} GB of weights, "
                f"{caches / 1e6:.0f} MB of the cache: at least {', '.join(floors)}", flush=True
            )  # fmt: skip
            for (name, blocks, threads), times in cuda_count.together(launches).items():
                each = f"{blocks / cuda_count.SLOTS:.1f} for each of {cuda_count.SLOTS} multiprocessors"
                print(f"  {times:3} x {name:28} {blocks:5} blocks of {threads} threads, {each}")


def result_of(
    figures: dict[str, Callable[[], Iterator[Figure]]], only: str, out: Path, about: dict[str, Any]
) -> dict[str, Any]:
    """Measures the cases whose names match, prints each figure as it comes, and writes all of them to `out` after each
    case: {"about": …, "rows": [{name, unit, median, samples, peers: {who: {median, ratio}}, …}], "problems": {case:
    what went wrong}}. A ratio above 1: pyapp is faster.
    """
    result: dict[str, Any] = {"about": about, "rows": [], "problems": {}}
    for name, case in figures.items():
        if not re.search(only, name):
            continue
        try:
            for figure in case():
                print(figure.row(), flush=True)
                result["rows"].append(row_of(figure))
        except Exception as error:
            result["problems"][name] = _told(error)
            print(f"{name}: {_told(error)}", flush=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_suffix(".part")
        part.write_text(json.dumps(result, indent=1) + "\n")
        os.replace(part, out)
    return result


def row_of(figure: Figure) -> dict[str, Any]:
    """A figure with what is computed of it."""
    peers = {}
    for who in figure.samples:
        if who != "pyapp":
            ratio = figure.ratio(who)
            faster = 1 / ratio if figure.unit == "ms" else ratio
            peers[who] = {"median": figure.median(who), "ratio": faster}
    return {
        "name": figure.name, "unit": figure.unit, "median": figure.median(), "peers": peers,
        "samples": figure.samples, **figure.environment,
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression that names must match")
    parser.add_argument("--runs", type=int, default=5, help="samples of each figure, at least 5 (by default 5)")
    parser.add_argument("--out", type=Path, default=Path("bench/output/cuda.json"))
    parser.add_argument("--eager", action="store_true", help="without torch.compile, which takes minutes")
    parser.add_argument("--count", action="store_true", help="launches and bytes of a token; needs no card")
    parser.add_argument("--overlap", action="store_true", help="decoded tokens with overlapping kernels as well")
    options = parser.parse_args(arguments)
    if options.overlap and not (pyapp.cuda.is_available() and pyapp.cuda.get_device_capability() >= (9, 0)):
        parser.error("--overlap needs a card of compute capability 9.0 or later")
    if options.runs < 5:
        parser.error("--runs: a median is of 5 samples at least")
    if options.count:
        count()
        return 0
    if found := missing():
        print(f"{found}. --count needs none", file=sys.stderr)
        return 2
    torch = _torch()
    about = {
        "card": pyapp.cuda.get_device_name(), "pyapp": pyapp.__version__, "date": f"{datetime.date.today():%Y-%m-%d}",
        "torch": torch.__version__ if torch else None, "runs": options.runs,
    }  # fmt: skip
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    figures = cases(options.runs, not options.eager, options.overlap)
    emptied = {name: partial(_emptied, case) for name, case in figures.items()}
    result = result_of(emptied, options.only, options.out, about)
    print(f"{len(result['rows'])} figures in {options.out}; {len(result['problems'])} cases failed")
    return 1 if result["problems"] else 0


def _emptied(case: Callable[[], Iterator[Figure]]) -> Iterator[Figure]:
    """A case, and then the memory that it has left."""
    try:
        yield from case()
    finally:
        pyapp.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
