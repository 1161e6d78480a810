"""Embeddings of 1,000 sentences with all-MiniLM-L6-v2's shape: ours, and sentence-transformers on torch.

The weights are random, the folder is one that both load: what sentence-transformers writes.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .browser import WEIGHTS
from .report import Figure
from .shapes import SENTENCES

CONFIG = {
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522, "hidden_size": 384,
    "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536, "hidden_act": "gelu",
    "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}  # fmt: skip
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


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

    path = WEIGHTS / "minilm-l6"
    if (path / "modules.json").exists():
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
    return path


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
        apart = np.abs(np.array(ours(texts[:8])) - theirs.encode(texts[:8])).max()
        if apart > 1e-4:
            raise ValueError(f"the embeddings differ by {apart:g}: they are not of one model")
        who["sentence-transformers"] = lambda: theirs.encode(texts, batch_size=32, show_progress_bar=False)
    samples: dict[str, list[float]] = {name: [] for name in who}
    for turn in range(runs + 1):
        for name, run in who.items():
            start = time.perf_counter()
            run()
            if turn:
                samples[name].append(len(texts) / (time.perf_counter() - start))
    title = f"native/embeddings/{threads} thread" + ("s" if threads > 1 else "")
    yield Figure(title, "1/s", samples, environment())
