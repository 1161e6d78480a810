"""Makes golden_hub_decoders/NAME.json with llama.cpp, one for each configuration of hub_decoder_configs.py:

    PYTHONPATH=. python tests/models/make_golden_hub_decoders.py LLAMA_CPP [NAME …]

LLAMA_CPP is the folder of llama.cpp's sources (the source release of llama-cpp-python has it in vendor/), of which its
converter is needed; llama-cpp-python, built from the same sources, and torch are installed. A file has the keys that
the converter writes, the tensors of the first layers, each with its product with a fixed vector, logits, and greedy
tokens through llama.cpp's cache; those of PLaMo 2 are plamo_reference.py's. The weights are not stored: seeded.py makes
them here and in the tests.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import llama_cpp
import numpy as np
import torch
from safetensors.numpy import save_file

from tests.goldens import write_json
from tests.models.hub_decoder_configs import CONFIGS, KEPT_LAYERS, expanded, layer_of
from tests.models.plamo_reference import Plamo2
from tests.models.seeded import direction, draw, rounded

FOLDER = Path(__file__).with_name("golden_hub_decoders")
STEPS = 8
MARGIN = 2e-3  # of the best logit over the second, at every greedy step: no rounding may decide
OWN: dict[Any, Any] = {}  # methods that are replaced
TEXT = [3, 17, 5, 60, 8, 44, 2, 9, 71, 30, 12, 1]


def convert(sources: Path, folder: Path, target: Path) -> None:
    """llama.cpp's converter, for a folder without a tokenizer."""
    sys.path[:0] = [str(sources / "gguf-py"), str(sources)]
    gguf, conversion, base = (importlib.import_module(name) for name in ("gguf", "conversion", "conversion.base"))

    def no_words(self: Any, *arguments: Any, **options: Any) -> None:
        self.gguf_writer.add_tokenizer_model("none")
        self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])

    for name in ("sentencepiece", "gpt2", "llama_hf"):
        setattr(base.TextModel, f"_set_vocab_{name}", no_words)
    settings = json.loads((folder / "config.json").read_text())
    base.ModelBase.load_hparams = staticmethod(lambda path, is_mistral_format=False: dict(settings))
    kind: Any = conversion.get_model_class(settings["architectures"][0])
    kind.set_vocab = no_words
    if kind.__name__ == "MiniMaxText01Model":
        kind._get_suppress_tokens = lambda self: None  # it asks the tokenizer
    if kind.__name__ == "Mistral3Model":
        kind.Ministral3Model.set_vocab = no_words
    if kind.__name__ == "BaichuanModel":  # whose own method calls itself without end
        usual = base.TextModel.modify_tensors
        own = OWN.setdefault(kind, kind.modify_tensors)
        kind.modify_tensors = lambda self, data, name, layer: (own if "W_pack" in name else usual)(
            self, data, name, layer
        )
    names = dict(gguf.TensorNameMap.block_mappings_cfg)  # which those of Arctic change
    with torch.inference_mode():
        made = kind(folder, gguf.LlamaFileType.ALL_F32, target, eager=True)
        made.write()
    gguf.TensorNameMap.block_mappings_cfg = names


class Runner:
    """A file in llama.cpp, with its cache in float32."""

    def __init__(self, path: Path) -> None:
        settings = llama_cpp.llama_model_default_params()
        settings.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), settings)
        assert self.model, path
        own = llama_cpp.llama_context_default_params()
        own.n_ctx, own.type_k, own.type_v, own.flash_attn_type, own.n_threads, own.n_threads_batch = 128, 0, 0, 0, 1, 1
        self.context = llama_cpp.llama_init_from_model(self.model, own)
        self.words = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.length = 0

    def feed(self, tokens: list[int]) -> np.ndarray:
        """The logits of each token (T, V)."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, self.length + i, 1, 1
            batch.seq_id[i][0] = 0
        assert llama_cpp.llama_decode(self.context, batch) == 0
        self.length += len(tokens)
        rows = [llama_cpp.llama_get_logits_ith(self.context, i) for i in range(len(tokens))]
        return np.array([np.ctypeslib.as_array(row, (self.words,)) for row in rows], np.float64)


def golden(name: str, sources: Path) -> dict[str, Any]:
    mask = CONFIGS[name].get("mask_token_id")
    diffuses = mask is not None  # it has no cache
    for salt in range(20):
        with TemporaryDirectory() as place:
            folder = Path(place)
            save_file({key: draw(key, s, salt) for key, s in expanded(name).items()}, folder / "model.safetensors")
            (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
            convert(sources, folder, folder / "model.gguf")
            reader = importlib.import_module("gguf").GGUFReader(folder / "model.gguf")
            keys = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
            tensors, found = {}, reader.tensors
            for tensor in found:
                if layer_of(tensor.name) < KEPT_LAYERS:
                    shape = tuple(int(size) for size in tensor.shape)[::-1]
                    value = np.asarray(tensor.data, np.float64).reshape(shape)
                    tensors[tensor.name] = [list(shape), *rounded([(value * direction(tensor.name, shape)).sum()])]
            runner: Any = Plamo2(folder) if name == "plamo2" else Runner(folder / "model.gguf")
            logits = runner.feed(TEXT)
            tokens, last, lead = [], logits[-1], float("inf")
            for _ in range(0 if diffuses else STEPS):
                best = np.sort(last)
                lead = min(lead, float(best[-1] - best[-2]))
                tokens.append(int(last.argmax()))
                last = runner.feed(tokens[-1:])[0]
        if diffuses or (lead > MARGIN and len(set(tokens)) > 1):
            break
    else:
        raise SystemExit(f"{name}: no weights give clear tokens")
    kept = {key: value for key, value in keys.items() if not key.startswith(("general.", "tokenizer."))}
    kept["general.architecture"] = keys["general.architecture"]
    if diffuses:  # which comes with the tokenizer
        kept["tokenizer.ggml.mask_token_id"] = mask
    return {
        "salt": salt, "keys": kept, "tensors": tensors, "logits": rounded(logits[[0, -1]]), "tokens": tokens,
    }  # fmt: skip


@llama_cpp.llama_log_callback
def silent(level: int, text: bytes, user: Any) -> None:
    pass


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    for name in sys.argv[2:] or CONFIGS:
        print(name, write_json(FOLDER / f"{name}.json", golden(name, Path(sys.argv[1])), separators=(",", ":")))
