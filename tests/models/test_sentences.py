"""Folders of sentence-transformers, PyLate and Stanford's ColBERT against these libraries (make_golden_sentences.py):
vectors, late interaction, rankings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError, OptionError
from pyapp.formats import write_safetensors
from pyapp.models.loading.by_task import load_task_model
from tests.models.seeded import draw
from tests.models.sentence_texts import DOCUMENTS, QUERIES, tokenizer_json

pytestmark = pytest.mark.native_only  # needs the tokenizers library and files

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_sentences.json").read_text())
LATE = ("late_interaction", "pylates", "stanford")


def write_folder(folder: Path, name: str) -> Path:
    """The folder of a case, with the weights of seeded.py."""
    pytest.importorskip("tokenizers")
    case = GOLDEN[name]
    for path, document in case["files"].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        text = tokenizer_json() if path == "tokenizer.json" else document
        (folder / path).write_text(text if isinstance(text, str) else json.dumps(text))
    for path, shapes in case["tensors"].items():
        values = {key: draw(key, tuple(shape)) for key, shape in shapes.items()}
        if "WordWeights" in path:
            words = case["files"]["1_WordWeights/config.json"]
            weights = [words["word_weights"].get(word, words["unknown_word_weight"]) for word in words["vocab"]]
            values = {"emb_layer.weight": np.array(weights, np.float32)[:, None]}
        write_safetensors(folder / path, values)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("sentences")
    return {name: write_folder(top / name, name) for name in GOLDEN}


def near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["dense_parts", "static", "words", "qwen_embedding", "embedding_gemma"])
def test_vectors_are_those_of_sentence_transformers(folders: dict[str, Path], name: str) -> None:
    expected = GOLDEN[name]["outputs"]
    embed = pyapp.pipeline("embed", folders[name])
    prompt = {"prompt_name": "document"} if name == "embedding_gemma" else {}
    texts = [*DOCUMENTS, ""] if name == "static" else DOCUMENTS
    near(embed(texts, **prompt), expected["vectors"])
    if "query" in expected:
        near(embed(QUERIES, prompt_name="query"), expected["query"])
    if "shorter" in expected:
        near(embed(DOCUMENTS, dimensions=3, normalize=True), expected["shorter"])
        with pytest.raises(OptionError, match="have 8 numbers, not 9"):
            embed(DOCUMENTS, dimensions=9)


@pytest.mark.parametrize("name", LATE)
def test_late_interaction_is_that_of_its_library(folders: dict[str, Path], name: str) -> None:
    expected = GOLDEN[name]["outputs"]
    loaded = load_task_model(folders[name], "features")
    for role, texts, key in (("query", QUERIES, "queries"), ("document", DOCUMENTS, "documents")):
        found = pyapp.pipeline("embed-tokens", loaded)(texts, role=role, batch_size=3)
        assert [len(one) for one in found] == [count for count, _ in expected[key]]
        near([[one[place] for place in (0, 1, -1)] for one in found], [rows for _, rows in expected[key]])
    rank = pyapp.pipeline("rerank", folders[name])
    for query, scores in zip(QUERIES, expected["scores"], strict=True):
        near(rank(query, DOCUMENTS, batch_size=2), scores)
    with pytest.raises(ModelError, match="a vector for each token.*embed-tokens"):
        pyapp.pipeline("embed", loaded)(QUERIES)
    with pytest.raises(OptionError, match="'passage' is no role"):
        pyapp.pipeline("embed-tokens", loaded)(QUERIES, role="passage")


@pytest.mark.parametrize("name", ["cross_encoder", "logits", "decoder_labels"])
def test_rankings_are_those_of_cross_encoders(folders: dict[str, Path], name: str) -> None:
    expected = GOLDEN[name]["outputs"]
    rank = pyapp.pipeline("rerank", folders[name])
    near(rank(QUERIES[0], DOCUMENTS, batch_size=3), expected["scores"])
    near(rank(QUERIES[0], DOCUMENTS, raw_scores=True), expected["raw"])


def test_embedders_rank_by_their_own_measure(folders: dict[str, Path]) -> None:
    rank = pyapp.pipeline("rerank", folders["dense_parts"])
    for query, row in zip(QUERIES, GOLDEN["dense_parts"]["outputs"]["similarity"], strict=True):
        near(rank(query, DOCUMENTS, prompt=""), row)
