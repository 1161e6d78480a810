"""Folders of sentence-transformers, PyLate and Stanford's ColBERT against these libraries (make_golden_sentences.py):
vectors, late interaction, rankings.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError, OptionError, PyappError
from pyapp.formats import write_safetensors
from pyapp.models import load_model
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.sentences.logit_ranking import QWEN_TEMPLATE
from pyapp.text.chat.chat_template import render
from tests.command_lines import lines
from tests.models.seeded import draw
from tests.models.sentence_texts import DOCUMENTS, QUERIES, tokenizer_json
from tests.serve.in_process import serving

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


@pytest.mark.parametrize(
    "name", ["dense_parts", "static", "words", "qwen_embedding", "embedding_gemma", "stella", "nv_embed"]
)
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
    with pytest.raises(OptionError, match="'passage' is not a role"):
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
    (tmp_path / "texts").write_text("\n".join(DOCUMENTS))
    expected = GOLDEN["pylates"]["outputs"]
    command = (str(tmp_path / "texts"), "-m", str(folders["pylates"]))
    vectors = [json.loads(line) for line in lines("embed", *command, "--tokens")]
    assert [len(one) for one in vectors] == [count for count, _ in expected["documents"]]
    ranked = [line.split("\t") for line in lines("rerank", QUERIES[0], *command)]
    near([float(score) for score, _ in ranked], np.round(sorted(expected["scores"][0], reverse=True), 4))
    served = tuple(f"{name}={folders[name]}" for name in ("pylates", "logits", "static"))
    with serving(*served) as http:
        for name, scores in (("pylates", expected["scores"][0]), ("logits", GOLDEN["logits"]["outputs"]["scores"])):
            ask = {"model": name, "query": QUERIES[0], "documents": DOCUMENTS}
            results = http.post("/v1/rerank", json=ask).json()["results"]
            near([one["relevance_score"] for one in sorted(results, key=lambda one: one["index"])], scores)
        found = http.post("/v1/embeddings", json={"model": "static", "input": DOCUMENTS}).json()["data"]
        near([one["embedding"] for one in found], GOLDEN["static"]["outputs"]["vectors"][:-1])
        refused = http.post("/v1/embeddings", json={"model": "pylates", "input": DOCUMENTS})
        assert refused.status_code == 400 and "a vector for each token" in refused.text


def changed(source: Path, folder: Path, path: str, **fields: Any) -> Path:
    """A copy of a folder with other fields in a JSON file."""
    shutil.copytree(source, folder)
    found = json.loads((folder / path).read_text())
    (folder / path).write_text(json.dumps(found | fields))
    return folder


EXPANSION = {"strategy": "fixed", "length": 8}
LIMITS, MASK = "sentence_bert_config.json", "2_MultiVectorMask/config.json"


@pytest.mark.parametrize(
    ("name", "path", "fields", "what"),
    [
        ("late_interaction", LIMITS, {"query_expansion": {"strategy": "most"}}, "Its strategy is"),
        ("late_interaction", LIMITS, {"query_expansion": EXPANSION | {"length": 10**9}}, "1 to 1,048,576"),
        ("late_interaction", LIMITS, {"document_length": 0}, "document_length is 0"),
        ("late_interaction", MASK, {"keep_only_token_ids": [-1]}, "not a list of ids"),
        ("late_interaction", MASK, {"skiplist_words": 3}, "not a list of words"),
        ("pylates", "config_sentence_transformers.json", {"query_prefix": 3}, "expected a text"),
        ("pylates", "config_sentence_transformers.json", {"default_prompt_name": ["a"]}, "none of the prompts"),
        ("logits", "1_LogitScore/config.json", {"true_token_id": -1}, "true_token_id is -1"),
        ("logits", "1_LogitScore/config.json", {"false_token_id": 10**6}, "the model has 60 tokens"),
        ("dense_parts", "3_Dense/config.json", {"activation_function": "os.system"}, "'system' is not known"),
        ("dense_parts", "1_Pooling/config.json", {"pooling_mode": ["cls", "max"]}, "96, the vectors have 32"),
        ("dense_parts", "3_Dense/config.json", {"in_features": 10**9}, "in_features is 1000000000"),
        ("dense_parts", "2_LayerNorm/config.json", {"dimension": 95}, r"norm.weight is \[96\], expected \[95\]"),
        ("stella", "config.json", {"layer_types": ["full_attention", "sliding_attention"]}, "with windows"),
        ("nv_embed", "config.json", {"latent_attention_config": {"hidden_dim": 8, "latent_dim": 8}}, "hidden_size 16"),
        ("nv_embed", "config.json", {"latent_attention_config": {"num_cross_heads": 1000}}, "at most 256"),
        ("nv_embed", "config.json", {"text_config": 3}, "text_config is 3"),
        ("words", "whitespacetokenizer_config.json", {"vocab": "the"}, "vocab is not a list of words"),
        ("words", "wordembedding_config.json", {"max_seq_length": 0}, "max_seq_length is 0"),
        ("words", "2_CNN/cnn_config.json", {"kernel_sizes": [10**6]}, "from 1 to 1,024"),
        ("words", "3_LSTM/lstm_config.json", {"num_layers": 10**6}, "num_layers is 1000000"),
    ],
)
def test_wrong_settings_are_named(
    folders: dict[str, Path], tmp_path: Path, name: str, path: str, fields: dict[str, Any], what: str
) -> None:
    folder = changed(folders[name], tmp_path / "model", path, **fields)
    with pytest.raises(PyappError, match=what):
        load_task_model(folder, "ranking")


def test_model2vecs_rows_and_weights(folders: dict[str, Path], tmp_path: Path) -> None:
    """`mapping` has the row of each token, `weights` its factor; a row that is not there is refused."""
    [shape] = GOLDEN["static"]["tensors"]["model.safetensors"].values()
    table, count = draw("embedding.weight", tuple(shape)), shape[0]
    order = np.arange(count)[::-1].copy()
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer_json())
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    tensors = {"embeddings": table[order] * 2, "mapping": order, "weights": np.full(count, 0.5)}
    write_safetensors(folder / "model.safetensors", tensors)
    near(pyapp.pipeline("embed", folder)([*DOCUMENTS, ""]), GOLDEN["static"]["outputs"]["vectors"])
    write_safetensors(folder / "model.safetensors", tensors | {"mapping": order + 1})
    with pytest.raises(ModelError, match="mapping names rows that are not there"):
        load_task_model(folder, "features")


def test_parts_in_a_folder_of_their_own(folders: dict[str, Path], tmp_path: Path) -> None:
    """As older versions of sentence-transformers write them."""
    folder = tmp_path / "model"
    shutil.copytree(folders["qwen_embedding"], folder)
    (folder / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).rename(folder / "0_Transformer" / name)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([modules[0] | {"path": "0_Transformer"}, *modules[1:]]))
    near(pyapp.pipeline("embed", folder)(DOCUMENTS), GOLDEN["qwen_embedding"]["outputs"]["vectors"])


def test_a_model_that_embeds_writes_no_text(folders: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match=r"the model embeds texts.*pyapp embed"):
        load_model(folders["embedding_gemma"])


def test_qwens_reranker_gets_the_prompt_of_its_card() -> None:
    """Without a LogitScore: an instruction, the query, the document, and room for the answer."""
    text = render(QWEN_TEMPLATE, [{"role": "system", "content": "Find"}, {"role": "query", "content": "who"},
                                  {"role": "document", "content": "she"}])  # fmt: skip
    assert text.endswith(
        "<Instruct>: Find\n<Query>: who\n<Document>: she<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
