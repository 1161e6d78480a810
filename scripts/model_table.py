"""Writes docs/models.md, the table of architectures: python -m scripts.model_table. From the modules of pyapp.models,
and from the configurations with which the tests compare them with transformers (tests/models/*_configs.py).
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyapp.engine.blocks.layout import READ_AS
from pyapp.models._index import MODEL_TYPES, SEEING, TASKS
from pyapp.models.loading.timm import FAMILIES

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "models.md"
TESTS = ROOT / "tests" / "models"
HEAD = """# Models

Architectures that pyapp loads by name or from files. This page is generated: `python -m scripts.model_table`.

- **Hugging Face**: a folder or a name on the hub with config.json of this `model_type`, and model.safetensors (shards
  included) or pytorch_model.bin. An unknown `model_type` is refused before any weights are read. The tokenizer is
  tokenizer.json, or the files of the older classes: vocab.json with merges.txt, vocab.txt, or a sentencepiece model
  (Llama, Gemma, T5, ALBERT, DeBERTa, XLM-R, CamemBERT, BARThez, mBART, M2M100, Pegasus and Marian, by the class in
  tokenizer_config.json or config.json). ByT5's tokenizer has no file, RWKV's World
  models have rwkv_vocab_v20230424.txt. The words of XLM and FlauBERT, whose files are vocab.json and merges.txt, are
  found by sacremoses: `pip install 'pyapp[moses]'`.
- **RWKV**: of versions 4 to 7 also the author's .pth files, with that vocabulary beside them and no config.json.
- **timm**: a folder or a name of the hub (`timm/mobilenetv3_small_100.lamb_in1k`) whose config.json names an
  `architecture` of timm's, for pictures' labels and features: TIMM. Their
  preparation of pictures is timm's, from `pretrained_cfg`. Without `label_names` in config.json, 1,000 outputs are
  ImageNet's classes, others are numbers. RepVGG, MobileOne and FastViT are read as they are trained and
  reparameterised; `pyapp.nn.reparameterized.reparameterize(model)` makes one filter of each sum of filters.
- **OpenCLIP**: a folder or a name on the hub with open_clip_config.json and open_clip_model.safetensors, of MobileCLIP
  S1 and S2 and MobileCLIP2 S0 and S2 (`apple/MobileCLIP-S1-OpenCLIP`). Other models are read in transformers' form.
- **Ultralytics**: a .pt file of YOLOv8 or YOLO11 (`yolo11n.pt`, `Ultralytics/YOLO11:yolo11n.pt`) for objects, their
  outlines, poses or turned boxes, and labels of pictures, or of YOLOv3u, without a config.json. The pickle of the whole
  model is read without its code. A .safetensors file with the same names, or with those of candle's
  (`lmz/candle-yolo-v8`), is read too.
- **GGUF**: the `general.architecture` of the files that are read and, by `pyapp quantize FOLDER model.gguf`, written;
  tests read what they wrote. A model whose settings the form cannot say, such as another activation, is not written.
  A file in several parts (`NAME-00001-of-00003.gguf`) is named by its first part. Files of encoders are for embeddings:
  they have the tokenizer, the pooling and the prompts of a folder of sentence-transformers, but no heads. RoBERTa's are
  read as BERT's.
- **Pictures in GGUF**: llama.cpp keeps what sees pictures in a second file, `mmproj-….gguf`. It is read where it lies
  beside the language model's, in a folder or a repository of the hub, or is given: `pyapp chat model.gguf --projector
  mmproj.gguf --image street.jpg`, and so for `generate` and `serve` (in Python `projector=`). The projectors of LLaVA
  1.5, Idefics3 and SmolVLM, Gemma 3, Mistral 3 (Pixtral), InternVL, Qwen2-VL, Qwen2.5-VL and Qwen3-VL are known; tests
  compare them with the same models in folders. They are read, not written.
- **Pages**: LayoutLM, LiLT and LayoutLMv3 read where words stand on a page: `pyapp label`, `answer` and `classify` of a
  picture or a PDF find the words by the embedded reader ([reader.md](reader.md)); in Python a page may also be words
  with boxes.
- **Embeddings and ranking**: [embeddings.md](embeddings.md). Every language model (causal-lm) whose decoder is of
  attention also gives "features", and labels by its last token ("sequence-classification").
- **Parity**: how many small configurations the tests compare with transformers, or with timm: names of parameters,
  outputs (within 1e-4), 64 greedy tokens through the cache, a batch with padding, and the gradient of every
  parameter. Models of pictures are compared by names, outputs, gradients, and the texts that they write, those of
  pages ("visual-document-retrieval") by names, vectors and scores; an architecture for "text-decoder" is
  compared as a part of `vision-encoder-decoder`. Language models that see pictures
  ("image-text-to-text") are compared by names, logits of texts with pictures, gradients, 24 greedy tokens through the
  cache, and the tokens of conversations by their image processors and chat templates. Models that name a character
  for each moment of speech ("speech-recognition") are compared by names, samples, logits of a recording and of a
  batch with padding, gradients, texts and times of words; those of them that write its text (`moonshine`) by the
  tokens that they write instead, language models that hear ("audio-text-to-text") by spectrograms, logits of texts
  with recordings, gradients, and the tokens that they write of a question and to transcribe. Models that speak
  ("text-to-speech") are compared by names, hidden states, durations, what is heard at each moment and samples,
  without and with noise, and gradients, and those that write codes of moments (`csm`) by names, the codes of an
  earlier turn, logits, the codes that they write, and sound, and those that write spectrograms (`speecht5`, with its
  vocoder) by names, frames, gradients, what they write, and sound (Kokoro with its own program, at two rates;
  `parler_tts` with the package parler_tts, by the tensors of its files, logits, also of a batch with padding, the codes
  that it writes, sound and gradients); models
  that name what a recording is of ("audio-classification") by names, what is made of samples, logits of a recording and
  of a batch with padding, and gradients, those with texts ("zero-shot-audio-classification") by vectors, too; models
  that make music
  ("text-to-audio") by names, logits of codes, the codes that they write, sound and gradients; codecs of sound
  ("audio-codec") by names, vectors, codes, samples, chunks, padding and gradients.
- **Pyodide**: the same tests run in the browser.
- **Quantised**: tests run the model with its weights in block types.
- **Other device**: tests run the model on a device whose memory the host cannot see.

GGUF files may have any of ggml's types. The kernels compute with most of them; matrices of the others become another
type while they are read, piece by piece: TYPES. Those in iq1_m, iq3_xxs, q1_0, tq1_0 and tq2_0 keep their values; the
others change at most as much as float32 does in q8_0. Such a model takes more memory than its file. I2_S, the type of
bitnet.cpp's files, becomes q2_K, with its factor rounded to float16.

Folders whose config.json has a `quantization_config` are read by the method that it names, whatever the architecture;
the tensors of the file say which layers it applies to. Tests compare the numbers with those of the libraries, bit for
bit (of 8-bit bitsandbytes and channels of int8 to the last bit of float32). `pyapp inspect FOLDER` names the method.

| quant_method | forms | in memory |
| --- | --- | --- |
| `awq` | version gemm, 4 bits | q5_0, which holds each number exactly |
| `gptq` | 2, 3, 4 and 8 bits, zero points of both versions | the smallest exact one of q4_0, q5_0 and q8_0 |
| | `desc_act`; 8 bits with other zero points than 128 | 16-bit floats |
| `auto-round` | packed as auto_gptq or auto_awq | as these |
| `compressed-tensors` | pack-quantized, of 1 to 8 bits | as GPTQ |
| | int-quantized | q8_0, or q8_group where float16 does not hold the scales |
| | mxfp4-pack-quantized | mxfp4 |
| | float-quantized, mxfp8-quantized, nvfp4-pack-quantized | 16-bit floats |
| `fp8`, `fbgemm_fp8` | float8_e4m3fn, scales of blocks, rows or matrices | 16-bit floats |
| `bitsandbytes` | nf4, fp4, with scales quantised or not | 16-bit floats |
| | 8 bits | q8_group |
| `hqq` | 1, 2, 3, 4 and 8 bits, both axes | 16-bit floats |
| `modelopt` | FP8 and NVFP4 | 16-bit floats |
| `bitnet` | packed matrices | q2_K, or q4_0 where rows are no multiple of 256; factors are rounded to float16 |
| `mxfp4` | the experts of gpt-oss | mxfp4 |

16-bit floats are the model's own type (bfloat16 unless the file says float16), with each number rounded once, as
transformers does where a card has no kernels for the form. No matrix takes more than that, and `--type q8_0` (in
Python `dtype=`) or `pyapp quantize FOLDER model.gguf -t Q4_K_M` makes it small again. Activations that a method would
round to 8 bits are not rounded. Groups that are no multiple of 32 columns become 16-bit floats, and so do the matrices
of a model that several processes compute together. One tensor at a time is in memory beside the model. Other methods
are refused by name before the weights are downloaded.

Models of llama2.c (`pyapp/models/llama2c.py`), Whisper (`pyapp/models/whisper/`) and Stable Diffusion
(`pyapp/models/diffusion/`: 1.5, 2.1, XL, turbo, LCM and inpainting, 3, 3.5, FLUX.1, Z-Image and Würstchen, from
folders of diffusers; [pictures.md](pictures.md)) have loaders of their own.
Experts keep their block types too: a token reads the matrices of its own experts only.

| model_type | tasks | GGUF | parity | Pyodide | quantised | other device |
| --- | --- | --- | --- | --- | --- | --- |
"""


def configurations() -> Iterator[tuple[str, str, Any]]:
    """(model_type, name, module) of each configuration that has a golden file, and of the text decoder in it."""
    for file in sorted(TESTS.glob("*_configs.py")):
        module = importlib.import_module(f"tests.models.{file.stem}")
        folder = TESTS / f"golden_{file.stem.removesuffix('_configs')}s"
        for name, config in module.CONFIGS.items():
            if (folder / f"{name}.json").is_file():
                yield config["model_type"], name, module
                if isinstance(decoder := config.get("decoder"), dict) and decoder.get("model_type") in MODEL_TYPES:
                    yield decoder["model_type"], name, module


def runs_in_browser(module: Any) -> bool:
    """Whether the tests of these configurations run in Pyodide too."""
    tests = TESTS / f"test_{Path(module.__file__).stem.removesuffix('_configs')}s.py"
    return tests.is_file() and "pytestmark = pytest.mark.native_only" not in tests.read_text()


def render() -> str:
    """What the page should be."""
    found: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for kind, name, module in configurations():
        home = SEEING[kind] if "picture_text" in module.__name__ else MODEL_TYPES[kind]
        found[home].append((name, module))
    lines = []
    places = {*MODEL_TYPES.items(), *SEEING.items()}
    for module_name in sorted({module for _, module in places}):
        kinds = sorted(kind for kind, module in places if module == module_name)
        form = getattr(importlib.import_module(f"pyapp.models.{module_name}"), "GGUF", None)
        cases = found[module_name]
        lists = {
            key: any(name in getattr(module, key, ()) for name, module in cases)
            for key in ("IN_GGUF", "QUANTISED", "OTHER_DEVICE")
        }
        cells = (
            ", ".join(f"`{kind}`" for kind in kinds),
            ", ".join(TASKS[module_name]),
            ""
            if form is None or not lists["IN_GGUF"]
            else ", ".join(f"`{own.architecture}`" for own in (form, *form.others)),
            str(len(cases)) if cases else "",
            "yes" if cases and all(runs_in_browser(module) for _, module in cases) else "",
            *("yes" if lists[key] else "" for key in ("QUANTISED", "OTHER_DEVICE")),
        )
        lines.append(f"| {' | '.join(cells)} |")
    read_as = defaultdict(list)
    for kind, other in READ_AS.items():
        read_as[other].append(kind)
    types = "; ".join(f"{', '.join(kinds)} as {other}" for other, kinds in read_as.items())
    known = ", ".join(family.title for family in FAMILIES)
    return HEAD.replace("TYPES", types).replace("TIMM", known) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render())
