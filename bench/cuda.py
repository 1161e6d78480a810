"""Figures of a card, beside torch on the same card in the same run: python -m bench.cuda [--only REGEX] [--runs 5]

Times are between two events of the card. Samples of pyapp and torch are taken in turn, and a figure is their median.
Without torch (and transformers, for its language models) pyapp is measured alone. `--count` needs no card: it prints
the launches of a decoded token and the bytes that it reads, for the shapes that are measured here. `--overlap` also
measures tokens whose kernels start before those in front have ended, and fails where a bit of their logits differs.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyapp
from pyapp import nn
from pyapp.engine import as_dtype, quant
from pyapp.engine.gpu.fusion import fuse
from pyapp.engine.gpu.sources import plans
from pyapp.engine.launch import KERNELS, Recorder, capture_or_run
from pyapp.engine.native import DIMS, POINTER_BYTES, POINTERS, RECORD_BYTES
from pyapp.engine.ops.kv_cache import row_bytes
from pyapp.models.llama2c import Config, Llama2c
from pyapp.models.whisper import Whisper
from pyapp.models.whisper.transformer import Config as WhisperConfig
from pyapp.text.session import Session

from .report import Figure, show

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
BANDWIDTH = 3.35e12  # bytes a second: an H100's, by NVIDIA's data sheet; for --count
CALLS = 10  # between two events


def _torch() -> Any:
    """torch with a card; None without."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    return torch if torch.cuda.is_available() else None


Call = Callable[[], Any]


def _milliseconds(library: Any, call: Call) -> float:
    """Of one call, by events of the card."""
    start, end = library.cuda.Event(enable_timing=True), library.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / CALLS


def _measured(runs: int, **calls: tuple[Any, Call | None]) -> dict[str, list[float]]:
    """Milliseconds of each library's call, in turn, after two calls of each that are not counted."""
    there = {who: (library, call) for who, (library, call) in calls.items() if call is not None}
    for _, call in there.values():
        call(), call()
    samples: dict[str, list[float]] = {who: [] for who in there}
    for _ in range(runs):
        for who, (library, call) in there.items():
            samples[who].append(_milliseconds(library, call))
    return samples


def _rates(samples: dict[str, list[float]], amount: float) -> dict[str, list[float]]:
    """`amount` a second."""
    return {who: [amount / (x * 1e-3) for x in found] for who, found in samples.items()}


def stream_figures(runs: int) -> Iterator[Figure]:
    """Copies of a gibibyte, bytes read and written."""
    x, y = pyapp.zeros(1 << 28, device="cuda"), pyapp.zeros(1 << 28, device="cuda")
    samples = _measured(runs, pyapp=(pyapp, lambda: y.copy_(x)))
    yield Figure("cuda/stream", "GB/s", _rates(samples, 2 * (1 << 30) / 1e9))


def matmul_figures(kind: str, runs: int) -> Iterator[Figure]:
    """Products of two matrices of 4096 x 4096."""
    torch, n = _torch(), 4096
    a, b = (pyapp.randn(n, n).to(getattr(pyapp, kind)).to("cuda") for _ in range(2))
    theirs = None
    if torch is not None:
        c, d = (torch.randn(n, n, device="cuda").to(getattr(torch, kind)) for _ in range(2))
        theirs = lambda: c @ d  # noqa: E731
    samples = _measured(runs, pyapp=(pyapp, lambda: a @ b), torch=(torch, theirs))
    yield Figure(f"cuda/matmul/{kind}", "TFLOPS", _rates(samples, 2 * n**3 / 1e12))


def linear_figures(kind: str, rows: int, runs: int) -> Iterator[Figure]:
    """A layer of 4096 inputs and 11008 outputs; beside torch with bfloat16 weights."""
    torch = _torch()
    layer = nn.Linear(4096, 11008, bias=False).requires_grad_(False)
    _fill(layer, kind)
    layer.to("cuda")
    x = pyapp.randn(rows, 4096).to("cuda")
    theirs = None
    if torch is not None:
        other, z = torch.nn.Linear(4096, 11008, bias=False).cuda().bfloat16(), torch.randn(rows, 4096).cuda().bfloat16()
        theirs = lambda: other(z)  # noqa: E731
    with pyapp.no_grad():
        samples = _measured(runs, pyapp=(pyapp, lambda: layer(x)), torch=(torch, theirs))
    yield Figure(f"cuda/linear/{kind}/rows{rows}", "ms", samples)


def attention_figures(tokens: int, kind: str, runs: int) -> Iterator[Figure]:
    """Causal, 32 heads of 128, forward and backward."""
    torch = _torch()
    shape = (1, 32, tokens, 128)
    q, k, v = (pyapp.randn(*shape).to(getattr(pyapp, kind)).to("cuda").requires_grad_() for _ in range(3))
    work = 4 * 32 * tokens**2 * 128 / 2 / 1e12

    def run(F: Any, tensors: Any, backward: bool) -> None:
        y = F.scaled_dot_product_attention(*tensors, is_causal=True)
        if backward:
            for x in tensors:
                x.grad = None
            y.backward(y.detach())

    theirs: Any = None
    if torch is not None:
        dtype = getattr(torch, kind)
        theirs = [torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
    for name, backward, share in (("forward", False, 1.0), ("forward and backward", True, 3.5)):
        other = None if theirs is None else partial(run, torch.nn.functional, theirs, backward)
        ours = partial(run, pyapp.nn.functional, (q, k, v), backward)
        yield Figure(
            f"cuda/attention/{kind}/{tokens}/{name}", "TFLOPS",
            _rates(_measured(runs, pyapp=(pyapp, ours), torch=(torch, other)), work * share),
        )  # fmt: skip


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
            call = _cached(kind, *sizes, block, "cuda")
            with pyapp.no_grad():
                samples = _measured(runs, pyapp=(pyapp, call))
            yield Figure(f"cuda/cached/{name}/{'q8_0' if kind == 'uint8' else kind}/{where}", "ms", samples)


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
    return model.to("cuda").eval()


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
    `compiled`:
    of what torch.compile makes, which takes minutes."""
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
    card: Any = pyapp.device("cuda").backend.card  # type: ignore[attr-defined]
    cache = model.new_cache(1024, "float16", texts if texts > 1 else None)
    tokens = pyapp.ones(*((texts, 1) if texts > 1 else (1,)), dtype="int32").to("cuda")
    position = pyapp.full((texts,), 256, dtype="int32").to("cuda")
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
    for _ in range(20):
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
    kind, beside transformers in bfloat16 with a static cache."""
    peer, torch = _peer(shape), _torch()
    cases = [("decode", texts, texts, 1) for texts in BATCHES] + [("prompt", 1, tokens, tokens) for tokens in PROMPTS]
    steps = {
        (what, texts, tokens): None if peer is None else _peer_step(peer, texts, tokens, compiled and tokens == 1)
        for what, texts, _, tokens in cases
    }
    for kind in BITS:
        model = _llama(shape, kind)
        for what, texts, amount, tokens in cases:
            ours = _decode(model, texts) if what == "decode" else _read(model, tokens)
            other = _overlapped(model, texts, ours) if overlap and what == "decode" else None
            calls = {"pyapp": (pyapp, ours), "overlapped": (pyapp, other), "torch": (torch, steps[what, texts, tokens])}
            samples = _measured(runs, **calls)
            name = f"batch{texts}" if what == "decode" else f"{tokens}"
            read = weight_bytes(LLAMAS[shape], kind) / 1e9 / (min(samples["pyapp"]) * 1e-3)
            yield Figure(f"cuda/{what}/{shape}/{kind}/{name}", "tok/s", _rates(samples, amount), {"GB/s": read})


def whisper_figures(runs: int) -> Iterator[Figure]:
    """The encoder and a decoded token of large-v3's shape, with matrices in float16."""
    torch = _torch()
    model = Whisper(LARGE_V3).requires_grad_(False)
    _fill(model, "float16")
    model.to("cuda").eval()
    mel = pyapp.randn(1, 128, 3000).to("cuda")
    encode: Any = None
    if torch is not None and importlib.util.find_spec("transformers") is not None:
        transformers = importlib.import_module("transformers")
        c = LARGE_V3
        config = transformers.WhisperConfig(
            num_mel_bins=c.n_mels, d_model=c.n_audio_state, encoder_layers=c.n_audio_layer, vocab_size=c.n_vocab,
            encoder_attention_heads=c.n_audio_head, decoder_layers=c.n_text_layer, encoder_ffn_dim=5120,
            decoder_attention_heads=c.n_text_head, decoder_ffn_dim=5120,
        )  # fmt: skip
        with torch.device("cuda"):
            other = transformers.WhisperModel(config).half().eval()
        z = torch.randn(1, 128, 3000, device="cuda", dtype=torch.half)

        def encode() -> None:
            with torch.no_grad():
                other.encoder(z)

    with pyapp.no_grad():
        samples = _measured(runs, pyapp=(pyapp, lambda: model.encode(mel)), torch=(torch, encode))
        yield Figure("cuda/whisper-large-v3/encoder", "ms", samples)
        with model.new_session(model.encode(mel), 1) as session:
            session.feed([1, 2, 3])
            step = lambda: session.step([5]) if session.position < 400 else session.rewind(3)  # noqa: E731
            yield Figure("cuda/whisper-large-v3/token", "ms", _measured(runs, pyapp=(pyapp, step)))


def training_figures(runs: int) -> Iterator[Figure]:
    """A step of GPT-2 small's shape (124M), 8 texts of 1024 tokens, under autocast to bfloat16, AdamW."""
    torch = _torch()

    def step_of(P: Any) -> Call:
        nn = P.nn

        class Block(nn.Module):  # type: ignore[name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.norms = nn.ModuleList(nn.LayerNorm(768) for _ in range(2))
                self.qkv, self.out = nn.Linear(768, 2304), nn.Linear(768, 768)
                self.wide, self.narrow = nn.Linear(768, 3072), nn.Linear(3072, 768)

            def forward(self, x: Any) -> Any:
                batch, tokens, _ = x.shape
                q, k, v = self.qkv(self.norms[0](x)).reshape(batch, tokens, 3, 12, 64).permute(2, 0, 3, 1, 4)
                y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, 768))
                return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x)), approximate="tanh"))

        body = nn.Sequential(nn.Embedding(50304, 768), *(Block() for _ in range(12)), nn.LayerNorm(768))
        model = nn.Sequential(body, nn.Linear(768, 50304, bias=False)).to("cuda")
        optimizer = P.optim.AdamW(model.parameters(), lr=3e-4)
        tokens = P.randint(0, 50000, (8, 1024)).to("cuda")

        def step() -> Any:
            optimizer.zero_grad()
            with P.autocast("cuda", dtype=P.bfloat16):
                loss = nn.functional.cross_entropy(model(tokens).reshape(-1, 50304), tokens.reshape(-1))
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager = step_of(pyapp)
    eager()
    graph = pyapp.capture(eager)
    theirs = None if torch is None else step_of(torch)
    yield Figure("cuda/train/gpt2-small", "ms", _measured(runs, pyapp=(pyapp, graph.replay), torch=(torch, theirs)))


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
    found["cuda/train"] = partial(training_figures, runs)
    return found


# ---- without a card


def weight_bytes(config: Config, kind: str) -> float:
    """Bytes of the weights that a token reads: every matrix once."""
    layer = config.dim * (2 * config.dim + 2 * config.n_kv_heads * config.head_dim + 3 * config.hidden_dim)
    return (config.n_layers * layer + config.vocab_size * config.dim) * BITS[kind] / 8


def launches_of(recorder: Recorder) -> int:
    """The launches of a card for the records of a Graph."""
    names = list(KERNELS)
    found = 0
    for recorded in (bytes(part[1]) for part in recorder.parts if isinstance(part, tuple)):
        part = bytes(fuse(recorded, len(recorded) // RECORD_BYTES))
        for at in range(0, len(part), RECORD_BYTES):
            name = names[int.from_bytes(part[at : at + 4], "little")]
            plan = plans()[name]
            start = at + 8 + POINTERS * POINTER_BYTES
            dims = memoryview(part)[start : start + 8 * DIMS].cast("q").tolist()
            wanted = sum(step.blocks(dims) > 0 for step in plan.steps)
            if name in ("rope_f32", "cache_write"):  # three records of the CPU, which are one of CUDA
                wanted = name == "rope_f32"
            found += wanted + (plan.check is not None and wanted > 0 and plan.check.blocks(dims) > 0)
    return found


def count(context: int = 1024) -> None:
    """Prints launches and bytes of a decoded token."""
    print(f"A token after {context} others; weights and a float16 cache read once; {BANDWIDTH / 1e12} TB/s")
    for shape, config in LLAMAS.items():
        for kind in BITS:
            heads, kv_heads = config.n_heads, config.n_kv_heads
            small = Config(
                heads * 32,
                256,
                config.n_layers,
                heads,
                kv_heads,
                vocab_size=256,
                max_seq_len=context + 1,
                tied=config.tied,
            )
            model = Llama2c(small).requires_grad_(False)
            _fill(model, kind)
            cache = model.new_cache(context + 1, "float16")
            forward = partial(model.forward_cached, pyapp.ones(1, dtype="int32"), pyapp.zeros(1, dtype="int32"), cache)
            with pyapp.no_grad():
                forward()
                _, _, recorder = capture_or_run(forward)
            weights = weight_bytes(config, kind)
            caches = 2 * config.n_layers * kv_heads * context * config.head_dim * 2
            floor = (weights + caches) / BANDWIDTH * 1e3
            print(
                f"{shape} {kind:8}: {launches_of(recorder)} launches, {weights / 1e9:.2f} GB of weights, "
                f"{caches / 1e6:.0f} MB of the cache: at least {floor:.2f} ms, {1e3 / floor:.0f} tok/s", flush=True
            )  # fmt: skip


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression that names must match")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench/output/cuda.jsonl"))
    parser.add_argument("--compiled", action="store_true", help="compile torch's language models, which takes minutes")
    parser.add_argument("--count", action="store_true", help="launches and bytes of a token; needs no card")
    parser.add_argument("--overlap", action="store_true", help="decoded tokens with overlapping kernels as well")
    options = parser.parse_args(arguments)
    if options.overlap and not (pyapp.cuda.is_available() and pyapp.cuda.get_device_capability() >= (9, 0)):
        parser.error("--overlap needs a card of compute capability 9.0 or later")
    if options.count:
        count()
        return 0
    if not pyapp.cuda.is_available():
        print("There is no card here. --count needs none.", file=sys.stderr)
        return 1
    torch = _torch()
    print(f"{pyapp.cuda.get_device_name()}, pyapp {pyapp.__version__}, torch {torch.__version__ if torch else 'none'}")
    for name, figures in cases(options.runs, options.compiled, options.overlap).items():
        if re.search(options.only, name):
            try:
                show(figures(), options.out)
            except MemoryError as error:
                print(f"{name}: {error}")
            pyapp.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
