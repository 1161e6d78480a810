"""Embeddings of 1,000 sentences with all-MiniLM-L6-v2's shape: ours, beside sentence-transformers on torch natively,
beside transformers.js in Chromium.

The weights are random, the folder is one that all load: what sentence-transformers writes, with the ONNX file that
transformers.js wants.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .browser import PEERS, WEIGHTS, call, chromium, open_page
from .minilm_onnx import write_bert
from .report import Figure
from .shapes import SENTENCES

CONFIG = {
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522, "hidden_size": 384,
    "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536, "hidden_act": "gelu",
    "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}  # fmt: skip
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NAME, BATCH, CLOSE = "minilm-l6", 32, 1e-4


def words() -> list[str]:
    return [*SPECIAL, *(f"word{i}" for i in range(CONFIG["vocab_size"] - len(SPECIAL)))]  # type: ignore[operator]


def sentences() -> list[str]:
    """SENTENCES texts of 5 to 40 words, 18 on average: those of a corpus of sentences."""
    random = np.random.default_rng(3)
    lengths = np.clip(random.lognormal(2.8, 0.45, SENTENCES), 5, 40).astype(int)
    return [" ".join(f"word{i}" for i in random.integers(0, 30000, length)) for length in lengths]


def write_folder() -> Path:
    """The model's folder, written once."""
    import pyapp
    from pyapp.formats.safetensors import write_safetensors
    from pyapp.models.bert import TASKS, Config

    path = WEIGHTS / NAME
    if (path / "onnx" / "model.onnx").exists():
        return path
    (path / "1_Pooling").mkdir(parents=True, exist_ok=True)
    pyapp.manual_seed(0)
    model = TASKS["features"](Config.from_dict(CONFIG))
    state = {name: value.detach() * (0.02 if value.ndim > 1 else 1) for name, value in model.state_dict().items()}
    write_safetensors(path / "model.safetensors", state)
    cls, sep = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    text = {"Sequence": {"id": "A", "type_id": 0}}
    added = [
        {"id": i, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for i, name in enumerate(SPECIAL)
    ]  # fmt: skip
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words())}, "unk_token": "[UNK]"},
        "post_processor": {
            "type": "TemplateProcessing", "single": [cls, text, sep], "pair": [cls, text, sep],
            "special_tokens": {
                name: {"id": name, "ids": [SPECIAL.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")
            },
        },
    }  # fmt: skip
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 256, "pad_token": "[PAD]",
                "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}  # fmt: skip
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": folder, "type": f"sentence_transformers.models.{name}"}
        for i, (folder, name) in enumerate(parts)
    ]
    pooling = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    files: dict[str, Any] = {
        "config": CONFIG, "tokenizer": tokenizer, "tokenizer_config": settings,
        "sentence_bert_config": {"max_seq_length": 256, "do_lower_case": False}, "1_Pooling/config": pooling,
        "modules": modules,
    }  # fmt: skip
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value))
    write_bert(path / "onnx" / "model.onnx", {name: value.numpy() for name, value in state.items()}, CONFIG)
    return path


def check_equal(ours: Any, theirs: Any) -> None:
    """ValueError where vectors of the same texts differ."""
    apart = np.abs(np.array(ours) - np.array(theirs)).max()
    if apart > CLOSE:
        raise ValueError(f"the embeddings differ by {apart:g}: they are not of one model")


def native_figures(threads: int, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """Sentences per second, tokenizing included, in batches of 32; sentence-transformers has the same threads."""
    import pyapp

    from .workload import environment

    pyapp.set_num_threads(threads)
    folder, texts = write_folder(), sentences()
    ours = pyapp.pipeline("embed", folder)
    who: dict[str, Any] = {"pyapp": lambda: ours(texts)}
    if with_peers and importlib.util.find_spec("sentence_transformers"):
        import torch  # type: ignore[import-not-found]
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

        torch.set_num_threads(threads)
        theirs = SentenceTransformer(str(folder), device="cpu")
        check_equal(ours(texts[:8]), theirs.encode(texts[:8]))
        who["sentence-transformers"] = lambda: theirs.encode(texts, batch_size=BATCH, show_progress_bar=False)
    samples: dict[str, list[float]] = {name: [] for name in who}
    for turn in range(runs + 1):
        for name, run in who.items():
            start = time.perf_counter()
            run()
            if turn:
                samples[name].append(len(texts) / (time.perf_counter() - start))
    title = f"native/embeddings/{threads} thread" + ("s" if threads > 1 else "")
    yield Figure(title, "1/s", samples, environment())


def browser_figures(runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """As native_figures, in Chromium on one thread, beside transformers.js."""
    write_folder()
    texts = sentences()
    with chromium() as (server, browser):
        ours = open_page(browser, f"{server.url}pages/pyapp.html")
        environment = call(ours, "loadEmbedder", folder=f"../weights/{NAME}")
        pages = {"pyapp": ours}
        if with_peers and (PEERS / "@huggingface" / "transformers").is_dir():
            theirs = open_page(browser, f"{server.url}pages/transformers.html")
            name = f"transformers.js {call(theirs, 'load', folder=NAME)}"
            check_equal(call(ours, "vectors", texts=texts[:8]), call(theirs, "vectors", texts=texts[:8]))
            pages[name] = theirs
        samples: dict[str, list[float]] = {name: [] for name in pages}
        for turn in range(runs + 1):  # the first of each warms up
            for name, page in pages.items():
                value = call(page, "embeddings" if page is ours else "figure", texts=texts, batch=BATCH)
                if turn:
                    samples[name].append(float(value))
        yield Figure("chromium/embeddings", "1/s", samples, {**environment, "browser": browser.version})
