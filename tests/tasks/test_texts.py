"""Embeddings, labels, rankings, masked words and translation: tasks, functions and commands over small folders."""

from __future__ import annotations

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Error, Item, Notice, Progress
from pyapp.formats import open_checkpoint
from pyapp.formats.safetensors import write_safetensors
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.sentences.embedding import Pooling, pooling_modes
from tests.command_lines import lines
from tests.models.encoder_configs import CONFIGS
from tests.models.seeded import draw
from tests.models.test_encoders import make, module_of
from tests.text.tokenizer_documents import document, numbered, template, whole_words

pytestmark = pytest.mark.native_only  # needs the tokenizers library, files and processes

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"the a cat dog sat ran fast on mat house green blue is in".split(),
]
TEXTS = ["the cat sat on the mat", "a dog", "the green house is in a blue house on the mat", "cat"]


def tokenizer_json() -> str:
    """A tokenizer of whole words, with BERT's special tokens."""
    around = template({"[CLS]": 2, "[SEP]": 3}, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    parts = {"pre_tokenizer": {"type": "Whitespace"}, "post_processor": around}
    return json.dumps(document(whole_words(WORDS), numbered(WORDS[:5]), **parts))


def folder(path: Path, name: str, task: str, architecture: str, **changes: Any) -> Path:
    """A folder as Hugging Face has it, with seeded weights."""
    config = CONFIGS[name] | changes
    module = module_of(name)
    model = module.TASKS[task](module.Config.from_dict(config))
    path.mkdir()
    tensors = {key: draw(key, tuple(parameter.shape)) for key, parameter in model.named_parameters()}
    write_safetensors(path / "model.safetensors", {key: pyapp.from_numpy(value) for key, value in tensors.items()})
    (path / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
    (path / "tokenizer.json").write_text(tokenizer_json())
    (path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 12, "mask_token": "[MASK]"}))
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("tokenizers")
    top = tmp_path_factory.mktemp("models")
    found = {
        "embed": folder(top / "embed", "bert", "features", "BertModel"),
        "classify": folder(top / "classify", "bert", "sequence-classification", "BertForSequenceClassification"),
        "rerank": folder(
            top / "rerank", "bert", "sequence-classification", "BertForSequenceClassification", id2label={"0": "fits"}
        ),
        "fill-mask": folder(top / "mask", "bert", "masked-lm", "BertForMaskedLM"),
    }
    embed = found["embed"]
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize")]
    (embed / "modules.json").write_text(
        json.dumps([{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in parts])
    )
    (embed / "1_Pooling").mkdir()
    (embed / "1_Pooling" / "config.json").write_text(
        json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False, "include_prompt": False})
    )
    (embed / "2_Dense").mkdir()
    activation = {"activation_function": "torch.nn.modules.activation.Tanh", "bias": True}
    (embed / "2_Dense" / "config.json").write_text(json.dumps({"in_features": 16, "out_features": 5} | activation))
    dense = {"linear.weight": draw("dense", (5, 16)), "linear.bias": draw("dense.bias", (5,))}
    write_safetensors(
        embed / "2_Dense" / "model.safetensors", {key: pyapp.from_numpy(value) for key, value in dense.items()}
    )
    (embed / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "the dog "}}))
    (embed / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9}))
    return found


def ids_of(text: str, most: int) -> list[int]:
    return [2, *(WORDS.index(word) for word in text.split())][: most - 1] + [3]


def expected_embedding(text: str, skipped: int = 0) -> np.ndarray:
    """By the definition: mean of the tokens, dense layer with tanh, length 1."""
    model = make("bert", "features")
    with pyapp.no_grad():
        hidden = model(pyapp.tensor([ids_of(text, 9)])).numpy()[0]
    y = np.tanh(draw("dense", (5, 16)) @ hidden[skipped:].mean(0) + draw("dense.bias", (5,)))
    return y / np.linalg.norm(y)


def test_embeddings_are_those_of_the_definition(folders: dict[str, Path]) -> None:
    embed = pyapp.pipeline("embed", folders["embed"])
    found = embed(TEXTS, batch_size=3)
    np.testing.assert_allclose(found, [expected_embedding(text) for text in TEXTS], atol=1e-5)
    np.testing.assert_allclose(embed("cat"), found[3], atol=1e-6)  # one text: its vector alone
    by_file = pyapp.pipeline("embed", folders["embed"] / "model.safetensors")  # with the parts in the folder
    np.testing.assert_allclose(by_file("cat"), found[3], atol=1e-6)
    # the prompt's two tokens and the [CLS] before them are left out of the mean
    prompted = expected_embedding("the dog cat", skipped=3)
    np.testing.assert_allclose(embed("cat", prompt_name="query"), prompted, atol=1e-5)
    np.testing.assert_allclose(embed("cat", prompt="the dog "), prompted, atol=1e-5)
    with pytest.raises(OptionError, match="no prompt 'other'.*It has query"):
        embed("cat", prompt_name="other")
    with pytest.raises(OptionError, match="not a text"):
        embed(["cat", 3])


def test_quantised_embeddings_stay_near(folders: dict[str, Path]) -> None:
    exact, rough = (pyapp.pipeline("embed", folders["embed"], dtype=dtype)(TEXTS) for dtype in (None, "float16"))
    assert 0 < np.abs(np.subtract(exact, rough)).max() < 0.01


def test_labels_and_rankings(folders: dict[str, Path]) -> None:
    found = pyapp.pipeline("classify", folders["classify"])(TEXTS, top=2)
    model = make("bert", "sequence-classification")
    with pyapp.no_grad():
        logits = model(pyapp.tensor([ids_of(TEXTS[0], 12)])).softmax(-1).numpy()[0]
    best = int(logits.argmax())
    assert found[0][0]["label"] == ("no", "perhaps", "yes")[best] and len(found[0]) == 2
    assert abs(found[0][0]["score"] - logits[best]) < 1e-5
    scores = pyapp.pipeline("rerank", folders["rerank"])("a dog", TEXTS)
    assert len(scores) == len(TEXTS) and all(0 < score < 1 for score in scores)
    with pytest.raises(ModelError, match="has 3 labels; a reranker has one"):
        pyapp.pipeline("rerank", folders["classify"])("a dog", TEXTS)


def test_rankings_read_pairs(folders: dict[str, Path]) -> None:
    """Query and text in one row, with the text's tokens of type 1."""
    model = module_of("bert").TASKS["sequence-classification"](
        module_of("bert").Config.from_dict(CONFIGS["bert"] | {"id2label": {"0": "fits"}})
    )
    with pyapp.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(pyapp.from_numpy(draw(key, tuple(parameter.shape))))
        query, text = ids_of("a dog", 12), ids_of("cat", 12)[1:]
        types = [0] * len(query) + [1] * len(text)
        logit = model(pyapp.tensor([query + text]), None, pyapp.tensor([types])).item()
    [score] = pyapp.pipeline("rerank", folders["rerank"])("a dog", ["cat"])
    assert abs(score - 1 / (1 + np.exp(-logit))) < 1e-5


def test_an_empty_query_is_refused(folders: dict[str, Path]) -> None:
    [error] = [
        e for e in asyncio.run(_events(tasks.rerank(" ", ["a"], model=folders["rerank"]))) if isinstance(e, Error)
    ]
    assert error.where == "query" and "is empty" in error.what


def test_templates_of_another_models_tokenizer_are_told(folders: dict[str, Path], tmp_path: Path) -> None:
    """Ids and type ids that a tokenizer.json puts around texts, and the model does not have."""
    known = json.loads((folders["rerank"] / "tokenizer.json").read_text())
    for change, message in (
        ({"ids": [255]}, "ids are up to 255, the model has"),
        ({"type_id": 7}, "type_ids are up to 7"),
    ):
        document = copy.deepcopy(known)
        template = document["post_processor"]
        if "ids" in change:
            template["special_tokens"]["[SEP]"] |= change
        else:
            template["pair"][-1]["SpecialToken"] |= change
        where = changed_copy(folders["rerank"], tmp_path / str(len(message)), lambda name: name)
        (where / "tokenizer.json").write_text(json.dumps(document))
        with pytest.raises(ModelError, match=f"the tokenizer's {message}"):
            pyapp.pipeline("rerank", where)("the cat", ["sat"])


def test_padding_that_is_no_token_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    where = changed_copy(folders["embed"], tmp_path / "padding", lambda name: name)
    config = json.loads((where / "config.json").read_text())
    (where / "config.json").write_text(json.dumps(config | {"pad_token_id": 255}))
    with pytest.raises(ModelError, match="pad_token_id is 255, of "):
        pyapp.pipeline("embed", where)


def test_masked_words(folders: dict[str, Path]) -> None:
    fill = pyapp.pipeline("fill-mask", folders["fill-mask"])
    [words] = fill("the [MASK] sat", top=3)
    model = make("bert", "masked-lm")
    with pyapp.no_grad():
        chances = model(pyapp.tensor([[2, 5, 4, 9, 3]])).softmax(-1).numpy()[0, 2]
    assert [word["id"] for word in words] == list(np.argsort(-chances)[:3])
    np.testing.assert_allclose([word["score"] for word in words], np.sort(chances)[::-1][:3], atol=1e-5)
    assert len(fill("[MASK] cat [MASK]")) == 2
    with pytest.raises(OptionError, match=r"has no \[MASK\]"):
        fill("the cat")


def test_sparse_vectors_are_splades(folders: dict[str, Path]) -> None:
    """log(1 + relu(score)), the largest of all tokens of a text, padding apart (SPLADE's formula)."""
    sparse = pyapp.pipeline("embed-sparse", folders["fill-mask"])
    model, texts = make("bert", "masked-lm"), ["the cat sat", "a"]
    for text, found in zip(texts, sparse(texts), strict=True):
        ids = [2, *(WORDS.index(word) for word in text.split()), 3]
        with pyapp.no_grad():
            wanted = np.log1p(np.maximum(model(pyapp.tensor([ids])).numpy()[0], 0).max(0))
        assert found["ids"] == list(np.argsort(-wanted)[: (wanted > 0).sum()])
        np.testing.assert_allclose(found["weights"], wanted[found["ids"]], atol=1e-5)
        assert found["words"][:3] == [WORDS[i] if i < len(WORDS) else f"<{i}>" for i in found["ids"][:3]]
    assert [len(found["ids"]) for found in sparse(texts, top=2)] == [2, 2]
    with pytest.raises(OptionError, match="top: 0 is not a number of words"):
        sparse(texts, top=0)


async def _events(stream: Any) -> list[Any]:
    return [event async for event in stream]


def test_streams_report_and_stop(folders: dict[str, Path]) -> None:
    events = asyncio.run(_events(tasks.embed(TEXTS, model=str(folders["embed"]), batch_size=1)))
    assert isinstance(events[-1], Done) and events[-1].results["dimensions"] == 5
    items = [event.index for event in events if isinstance(event, Item)]
    assert items == [2, 0, 1, 3]  # the longest first
    assert Progress("texts", 4, 4, "texts") in events
    cancel = Cancel()

    async def stop() -> list[Any]:
        found = []
        async for event in tasks.embed(TEXTS, model=str(folders["embed"]), batch_size=1, cancel=cancel):
            found.append(event)
            if isinstance(event, Item):
                cancel.set()
        return found

    stopped = asyncio.run(stop())
    assert sum(isinstance(event, Item) for event in stopped) == 1 and stopped[-1] == Done("cancelled")


def test_models_of_other_tasks_are_refused_by_name(folders: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="made for masked-lm, not for sequence-classification"):
        load_task_model(folders["fill-mask"], "sequence-classification")
    with pytest.raises(ModelError, match="'bert' are not for seq2seq-lm. They are for features"):
        load_task_model(folders["embed"], "seq2seq-lm")
    [error] = asyncio.run(_events(tasks.classify(["a"], model="no/such:thing here")))
    assert isinstance(error, Error)
    with pytest.raises(OptionError, match="Tasks: embed"):
        pyapp.pipeline("sing", folders["embed"])


def changed_copy(source: Path, target: Path, names: Any, extra: Any = None) -> Path:
    """A copy of a folder whose tensors have the names that `names(name)` gives (None: left out), and more of them."""
    target.mkdir()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (target / file).write_bytes((source / file).read_bytes())
    with open_checkpoint(source / "model.safetensors") as checkpoint:
        tensors = {names(name): checkpoint.read(name) for name in checkpoint.tensors}
    tensors.pop(None, None)
    write_safetensors(target / "model.safetensors", tensors | (extra or {}))
    return target


def test_files_of_other_shapes_load(folders: dict[str, Path], tmp_path: Path) -> None:
    """Old names of norms, a missing or an additional prefix, position ids, heads that a task does not read."""
    texts = ["the [MASK] sat"]
    expected = pyapp.pipeline("fill-mask", folders["fill-mask"])(texts)

    def old(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    for number, rename in enumerate((old, lambda name: name.removeprefix("bert."), lambda name: f"module.{name}")):
        path = changed_copy(folders["fill-mask"], tmp_path / str(number), rename)
        assert pyapp.pipeline("fill-mask", path)(texts) == expected
    hidden = pyapp.pipeline("embed", folders["fill-mask"])(TEXTS)  # the encoder below the head, without a pooler
    assert len(hidden[0]) == 16
    with pytest.raises(ModelError, match=r"missing: .*cls\.predictions\.transform\.dense\.weight"):
        load_task_model(
            changed_copy(folders["fill-mask"], tmp_path / "less", lambda n: None if "transform.dense.w" in n else n),
            "masked-lm",
        )
    notices: list[Any] = []
    path = changed_copy(folders["fill-mask"], tmp_path / "more", lambda n: n, extra={"other.weight": pyapp.ones(2)})
    load_task_model(path, "masked-lm", report=notices.append)
    assert ["other.weight" in event.what for event in notices if isinstance(event, Notice)] == [True]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("cls", [1.0, 2.0]), ("max", [5.0, 4.0]), ("mean", [3.0, 3.0]), ("lasttoken", [5.0, 4.0]),
     ("weightedmean", [11 / 3, 10 / 3]), ("mean_sqrt_len_tokens", [6 / 2**0.5, 6 / 2**0.5])],
)  # fmt: skip
def test_modes_of_pooling(mode: str, expected: list[float]) -> None:
    x = pyapp.tensor([[[1.0, 2.0], [5.0, 4.0], [9.0, 9.0]]])
    found = Pooling([mode])(x, pyapp.tensor([[1, 1, 0]]))
    np.testing.assert_allclose(found.numpy()[0], expected, rtol=1e-6)


def test_modes_of_pooling_by_file() -> None:
    assert pooling_modes({"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}) == ("cls", "max")
    assert pooling_modes({"pooling_mode": "mean"}) == ("mean",)
    for config in ({}, {"pooling_mode": "best"}, {"pooling_mode_new": True}):
        with pytest.raises(ModelError, match="Known: cls"):
            pooling_modes(config)


def test_commands(folders: dict[str, Path], tmp_path: Path) -> None:
    testing = pytest.importorskip("click.testing")
    from pyapp.cli import cli

    (tmp_path / "texts").write_text("the cat\n\na dog\n")
    run = testing.CliRunner().invoke
    file = str(tmp_path / "texts")
    vectors = [json.loads(line) for line in lines("embed", file, "-m", str(folders["embed"]))]
    np.testing.assert_allclose(vectors, [expected_embedding(text) for text in ("the cat", "a dog")], atol=1e-5)
    said = run(cli, ["embed", file, "-m", str(folders["embed"])], standalone_mode=False).stderr
    assert "an empty line is left out: there are 2 texts" in said
    (tmp_path / "other").write_bytes("café".encode("latin-1"))
    assert "iconv" in str(run(cli, ["embed", str(tmp_path / "other"), "-m", "x"]).output)
    labelled = lines("classify", "-", "-m", str(folders["classify"]), "--top", "1", stdin="the cat\n")
    assert len(labelled) == 1 and labelled[0].endswith("\tthe cat")
    ranked = lines("rerank", "cat", file, "-m", str(folders["rerank"]))
    assert {line.split("\t")[1] for line in ranked} == {"the cat", "a dog"} and ranked == sorted(ranked, reverse=True)
    weights = [json.loads(line) for line in lines("embed", str(file), "-m", str(folders["fill-mask"]), "--sparse")]
    assert all(min(found.values()) > 0 for found in weights) and weights[0] != weights[1]
    assert len(lines("fill-mask", "the [MASK]", "-m", str(folders["fill-mask"]), "--top", "2")) == 2
    assert len(lines("fill-mask", "-", "-m", str(folders["fill-mask"]), stdin="the [MASK]\n[MASK] dog\n")) == 10
    assert lines("embed", str(folders["embed"]), "-m", str(folders["embed"]), code=1) == []
    events = [json.loads(line) for line in lines("embed", file, "-m", str(folders["embed"]), "--json")]
    assert events[-1]["type"] == "done" and sum(event["type"] == "item" for event in events) == 2
    assert lines("embed", file, "-m", str(folders["classify"] / "none"), code=1) == []
