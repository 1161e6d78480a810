"""The folder of a small encoder as sentence-transformers writes it: its vectors are near where texts share words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pyapp.formats import open_checkpoint, write_safetensors
from tests.text.tokenizer_documents import document, numbered, template, whole_words

WORDS = (
    "the a cat dog fox sat ran slept on in under mat house garden green blue red small old boat river sea sailed "
    "fish bread baked oven warm cold snow winter summer sun rain fell we they ate and with of to my query passage "
    ": . , ? !"
).split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LONGEST = 64  # tokens


def tokenizer_json() -> str:
    """A tokenizer of whole words in small letters, with BERT's special tokens."""
    around = template({"[CLS]": 2, "[SEP]": 3}, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]")
    parts = {"normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": around}
    return json.dumps(document(whole_words([*SPECIAL, *WORDS]), numbered(SPECIAL), **parts))


def write_embedder(folder: Path, seed: int = 3, dim: int = 64) -> list[Path]:
    """A BERT of one layer with seeded weights that add little to the words' own vectors, with mean pooling,
    normalising, and prompts. Returns the files, those of modules in folders of their own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = len(SPECIAL) + len(WORDS)
    config = {
        "model_type": "bert", "architectures": ["BertModel"], "vocab_size": size, "hidden_size": dim,
        "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 2 * dim, "pad_token_id": 0,
        "max_position_embeddings": LONGEST, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    }  # fmt: skip
    random = np.random.default_rng(seed)

    def weight(*shape: int, scale: float = 0.05) -> np.ndarray:
        return (random.standard_normal(shape) * scale).astype("f4")

    layer = "encoder.layer.0."
    tensors = {
        "embeddings.word_embeddings.weight": weight(size, dim, scale=1.0),
        "embeddings.position_embeddings.weight": weight(LONGEST, dim),
        "embeddings.token_type_embeddings.weight": weight(2, dim),
    }
    tensors["embeddings.word_embeddings.weight"][: len(SPECIAL)] = 0  # what is in every text says nothing
    shapes = {
        "attention.self.query": (dim, dim), "attention.self.key": (dim, dim), "attention.self.value": (dim, dim),
        "attention.output.dense": (dim, dim), "intermediate.dense": (2 * dim, dim), "output.dense": (dim, 2 * dim),
    }  # fmt: skip
    for name, shape in shapes.items():
        tensors |= {f"{layer}{name}.weight": weight(*shape), f"{layer}{name}.bias": np.zeros(shape[0], "f4")}
    for norm in ("embeddings", f"{layer}attention.output", f"{layer}output"):
        tensors |= {f"{norm}.LayerNorm.weight": np.ones(dim, "f4"), f"{norm}.LayerNorm.bias": np.zeros(dim, "f4")}
    write_safetensors(folder / "model.safetensors", tensors)
    kinds = ("models.Transformer", "models.Pooling", "models.Normalize")
    folders = ("", "1_Pooling", "2_Normalize")
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
               for i, (kind, path) in enumerate(zip(kinds, folders, strict=True))]  # fmt: skip
    documents = {
        "config.json": config,
        "tokenizer_config.json": {"model_max_length": LONGEST, "tokenizer_class": "BertTokenizer"},
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": dim, "pooling_mode_mean_tokens": True},
        "sentence_bert_config.json": {"max_seq_length": LONGEST},
        "config_sentence_transformers.json": {"prompts": {"query": "query : ", "passage": "passage : "}},
    }
    for name, contents in documents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(contents))
    (folder / "tokenizer.json").write_text(tokenizer_json())
    return sorted(path for path in folder.rglob("*") if path.is_file())


def write_classifier(folder: Path, labels: int = 1, dim: int = 64) -> list[Path]:
    """The same BERT with a pooler and a head for `labels` labels; one: a reranker."""
    write_embedder(folder, dim=dim)
    for path in (folder / "modules.json", folder / "config_sentence_transformers.json"):
        path.unlink()
    random = np.random.default_rng(11)
    with open_checkpoint(folder / "model.safetensors") as file:
        tensors: dict[str, Any] = {f"bert.{name}": file.read(name) for name in file.tensors}
    tensors |= {
        "bert.pooler.dense.weight": random.standard_normal((dim, dim)).astype("f4") * np.float32(0.2),
        "bert.pooler.dense.bias": np.zeros(dim, "f4"),
        "classifier.weight": random.standard_normal((labels, dim)).astype("f4"),
        "classifier.bias": np.zeros(labels, "f4"),
    }
    write_safetensors(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    names = {str(number): f"label {number}" for number in range(labels)}
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": names}
    (folder / "config.json").write_text(json.dumps(config))
    return sorted(path for path in folder.rglob("*") if path.is_file())


ANIMALS = """The cat slept on the mat. The old dog ran in the garden.

A fox sat under the house. The fox ran in the snow."""
FOOD = """We baked bread in the oven. The bread was warm.

They ate fish with bread. The soup was cold."""
SEA = "The small boat sailed to the sea. On the river the blue boat sat."
TEXTS = {"animals.txt": ANIMALS, "food.md": FOOD, "sea.txt": SEA}
