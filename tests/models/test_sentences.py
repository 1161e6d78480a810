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


@pytest.mark.parametrize("name", ["cross_encoder", "logits", "decoder_labels", "modernbert_labels"])
def test_rankings_are_those_of_cross_encoders(folders: dict[str, Path], name: str) -> None:
    expected = GOLDEN[name]["outputs"]
    rank = pyapp.pipeline("rerank", folders[name])
    near(rank(QUERIES[0], DOCUMENTS, batch_size=3), expected["scores"])
    near(rank(QUERIES[0], DOCUMENTS, raw_scores=True), expected["raw"])


def test_embedders_rank_by_their_own_measure(folders: dict[str, Path]) -> None:
    rank = pyapp.pipeline("rerank", folders["dense_parts"])
    for query, row in zip(QUERIES, GOLDEN["dense_parts"]["outputs"]["similarity"], strict=True):
        near(rank(query, DOCUMENTS, prompt=""), row)


def test_commands_and_routes(folders: dict[str, Path], tmp_path: Path) -> None:
    testing, client = pytest.importorskip("click.testing"), pytest.importorskip("starlette.testclient")
    from pyapp.cli import cli
    from pyapp.serve.app import make_app
    from pyapp.serve.context import Context
    from pyapp.serve.settings import Settings

    (tmp_path / "texts").write_text("\n".join(DOCUMENTS))
    expected = GOLDEN["pylates"]["outputs"]

    def lines(*arguments: str) -> list[str]:
        found = testing.CliRunner().invoke(cli, arguments, standalone_mode=False)
        assert found.exception is None and found.return_value == 0, found.output
        return str(found.stdout).splitlines()

    command = (str(tmp_path / "texts"), "-m", str(folders["pylates"]))
    vectors = [json.loads(line) for line in lines("embed", *command, "--tokens")]
    assert [len(one) for one in vectors] == [count for count, _ in expected["documents"]]
    ranked = [line.split("\t") for line in lines("rerank", QUERIES[0], *command)]
    near([float(score) for score, _ in ranked], np.round(sorted(expected["scores"][0], reverse=True), 4))
    served = tuple(f"{name}={folders[name]}" for name in ("pylates", "logits", "static"))
    with client.TestClient(make_app(Context(Settings(models=served, preload=False)))) as http:
        for name, scores in (("pylates", expected["scores"][0]), ("logits", GOLDEN["logits"]["outputs"]["scores"])):
            ask = {"model": name, "query": QUERIES[0], "documents": DOCUMENTS}
            results = http.post("/v1/rerank", json=ask).json()["results"]
            near([one["relevance_score"] for one in sorted(results, key=lambda one: one["index"])], scores)
        found = http.post("/v1/embeddings", json={"model": "static", "input": DOCUMENTS}).json()["data"]
        near([one["embedding"] for one in found], GOLDEN["static"]["outputs"]["vectors"][:-1])
        refused = http.post("/v1/embeddings", json={"model": "pylates", "input": DOCUMENTS})
        assert refused.status_code == 400 and "a vector for each token" in refused.text
