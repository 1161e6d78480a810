"""Encoders, and models with an encoder and a decoder, in GGUF files: written as llama.cpp names them, with tokenizer
and pooling, and read again with the same vectors and texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import open_checkpoint, open_source, write_gguf, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.models.load import files_to_convert, load_model
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.text.documents import SPACE, added_token, document, template
from tests.formats.gguf_parts import in_parts
from tests.models import decoder_configs, encoder_configs, sequence_configs
from tests.models.seeded import draw
from tests.models.small_models import module_for

pytestmark = pytest.mark.native_only  # needs the tokenizers library and folders

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s", "dog", "green"]
PIECES = ["<pad>", "</s>", "<unk>", "<s>", SPACE, f"{SPACE}the", f"{SPACE}cat", "s", f"{SPACE}sat", "a", "t"]
TEXTS = ["the cats sat on the mat", "the dog", "green cat"]
CASES = encoder_configs.IN_GGUF | {
    name: changes | {"vocab_size": len(PIECES)} for name, changes in sequence_configs.IN_GGUF.items()
}
ARCHITECTURES = {
    "xlm_roberta": "bert", "distilbert": "bert", "nomic_bert": "nomic-bert", "modernbert": "modern-bert",
    "nomic_moe": "nomic-bert-moe", "jina_bert": "jina-bert-v2", "jina_embeddings_v3": "jina-bert-v3",
    "t5": "t5encoder", "umt5": "t5encoder",
}  # fmt: skip
CONFIGS = encoder_configs.CONFIGS | sequence_configs.CONFIGS
QWEN = decoder_configs.SMALL | {"model_type": "qwen3", "tie_word_embeddings": True, "head_dim": 8}
GEMMA = decoder_configs.CONFIGS["gemma3"] | {
    "use_bidirectional_attention": True, "query_pre_attn_scalar": 12, "attn_logit_softcapping": None,
    "final_logit_softcapping": None, "rope_parameters": None, "layer_types": None, "num_hidden_layers": 6,
    "rope_theta": 1e6, "rope_local_base_freq": 1e4,
}  # fmt: skip
EMBED = {"qwen3": QWEN, "gemma": GEMMA}  # language models
POOLING = {"bert": "cls", "modernbert": "lasttoken"}  # others: mean


def wordpiece() -> dict[str, Any]:
    special = {name: WORDS.index(name) for name in WORDS[:5]}
    sep = [("[SEP]", special["[SEP]"])]
    return document(
        {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
         "vocab": {word: i for i, word in enumerate(WORDS)}},
        added_tokens=[added_token(number, name) for name, number in special.items()],
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                    "lowercase": True},
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor=template([("[CLS]", special["[CLS]"])], sep, between=sep),
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
    )  # fmt: skip


def unigram(special: list[str], begin: str | None) -> dict[str, Any]:
    pieces = special + PIECES[4:]
    space = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    return document(
        {"type": "Unigram", "unk_id": special.index("<unk>"), "vocab": [[p, -float(i)] for i, p in enumerate(pieces)],
         "byte_fallback": False},
        added_tokens=[added_token(i, name) for i, name in enumerate(special)],
        pre_tokenizer=space, decoder=space,
        post_processor=template(
            [(name, special.index(name)) for name in [begin] if name], [("</s>", special.index("</s>"))]
        ),
    )  # fmt: skip


def folder_of(name: str, folder: Path, task: str = "features", network: str | None = None) -> tuple[Any, Path]:
    """A folder of sentence-transformers', or of the plain model for another task: the model and the path. network: the
    task of the model that it has, if it is another one.
    """
    settings = EMBED[name] if name in EMBED else CONFIGS[name] | CASES[name]
    module = module_for(settings)
    model = module.TASKS[network or task](module.Config.from_dict(settings))
    with pyapp.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(pyapp.from_numpy(draw(key, tuple(parameter.shape))))
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", {key: value.detach() for key, value in model.named_parameters()})
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = wordpiece()
    if "t5" in name or "roberta" in name:
        roles = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        tokenizer = unigram(["<pad>", "</s>", "<unk>", "<s>"], None)
    if "roberta" in name:
        roles |= {"bos_token": "<s>"}
        tokenizer = unigram(["<s>", "<pad>", "</s>", "<unk>"], "<s>")
    named = {"seq2seq-lm": "T5ForConditionalGeneration"}.get(task, "Model")
    files: dict[str, Any] = {
        "config.json": settings | {"architectures": [named]}, "tokenizer.json": tokenizer,
        "tokenizer_config.json": roles,
    }  # fmt: skip
    if "t5" in name:
        files["config.json"]["eos_token_id"] = 1
    if task == "features":
        (folder / "1_Pooling").mkdir()
        files["modules.json"] = [
            {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        ] + ([{"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
             if name == "bert" else [])  # fmt: skip
        files["1_Pooling/config.json"] = {"pooling_mode": POOLING.get(name, "mean")}
        files["config_sentence_transformers.json"] = {"prompts": {"query": "green "}, "default_prompt_name": None}
        files["sentence_bert_config.json"] = {"max_seq_length": 9}
    for number, sizes in ((2, (32, 48)), (3, (48, 32))) if name == "gemma" else ():
        dense = {"in_features": sizes[0], "out_features": sizes[1], "bias": False}
        files[f"{number}_Dense/config.json"] = dense | {"activation_function": "torch.nn.modules.linear.Identity"}
        (folder / f"{number}_Dense").mkdir()
        weight = pyapp.from_numpy(draw(f"dense {number}", sizes[::-1]))
        write_safetensors(folder / f"{number}_Dense" / "model.safetensors", {"linear.weight": weight})
        part = {"idx": number, "path": f"{number}_Dense", "type": "sentence_transformers.models.Dense"}
        files["modules.json"].append(part)
    for path, value in files.items():
        (folder / path).write_text(json.dumps(value), encoding="utf-8")
    return model, folder


def converted(folder: Path, target: Path, kind: str) -> Path:
    file, _ = files_to_convert(folder)
    quantize_file(file, target, kind, view=gguf_view(file))
    return target


def vectors(path: Path, **options: Any) -> np.ndarray:
    return np.array(tasks.pipeline("embed", path)(TEXTS, **options))


def test_a_language_model_that_embeds(tmp_path: Path) -> None:
    """The pooling and the prompts of its folder; without them, the last token."""
    _, folder = folder_of("qwen3", tmp_path / "folder", network="causal-lm")
    expected = [vectors(folder, prompt_name=option) for option in (None, "query")]
    assert np.abs(expected[0] - expected[1]).max() > 0.01
    path = converted(folder, tmp_path / "model.gguf", "f32")
    for option, values in zip((None, "query"), expected, strict=True):
        np.testing.assert_allclose(vectors(path, prompt_name=option), values, atol=2e-6)
    (folder / "modules.json").unlink()
    last = vectors(converted(folder, tmp_path / "plain.gguf", "f32"), normalize=True)
    np.testing.assert_allclose(last, vectors(folder, normalize=True), atol=2e-6)
    assert np.abs(last - expected[0] / np.linalg.norm(expected[0], axis=1, keepdims=True)).max() > 0.01


def test_embedding_gemma(tmp_path: Path) -> None:
    """Its tokens see those after them; two linear layers follow the pooling."""
    _, folder = folder_of("gemma", tmp_path / "folder", network="causal-lm")
    path = converted(folder, tmp_path / "model.gguf", "f32")
    np.testing.assert_allclose(vectors(path), vectors(folder), atol=2e-6)
    with open_checkpoint(path) as checkpoint:
        values = checkpoint.values  # type: ignore[attr-defined]
        assert values["general.architecture"] == "gemma-embedding" and values["gemma-embedding.dense_2_feat_out"] == 48
        assert values["gemma-embedding.attention.causal"] is False
    with pytest.raises(ModelError, match="embeds texts"):
        load_model(path)


@pytest.mark.parametrize("name", [name for name in CASES if name != "flan_t5"])
def test_a_file_gives_the_vectors_of_its_folder(name: str, tmp_path: Path) -> None:
    _, folder = folder_of(name, tmp_path / "folder")
    expected = {option: vectors(folder, prompt_name=option) for option in (None, "query")}
    assert np.abs(expected[None] - expected["query"]).max() > 0.01
    assert np.allclose(np.square(expected[None]).sum(-1), 1) == (name == "bert")
    size = np.sqrt(np.square(expected[None]).mean())
    for kind, close in (("f32", 2e-6), ("f16", 2e-3), ("q8_0", 0.06)):
        file = converted(folder, tmp_path / f"{kind}.gguf", kind)
        for option, wanted in expected.items() if kind == "f32" else [(None, expected[None])]:
            error = np.sqrt(np.square(vectors(file, prompt_name=option) - wanted).mean())
            assert error < close * size, (kind, option)
        assert kind != "q8_0" or error > 0
    loaded = load_task_model(file, "features")
    assert loaded.model.most == 9 and {p.dtype.name for p in loaded.model.parameters()} == {"q8_0", "float32"}
    with open_checkpoint(file) as checkpoint:
        values = checkpoint.values  # type: ignore[attr-defined]
        architecture = ARCHITECTURES.get(name, name)
        assert values["general.architecture"] == architecture and values[f"{architecture}.attention.causal"] is False
        assert values[f"{architecture}.pooling_type"] == {"cls": 2, "lasttoken": 3}.get(POOLING.get(name, "mean"), 1)
        assert values["tokenizer.ggml.model"] == ("t5" if "t5" in name or "roberta" in name else "bert")


@pytest.mark.parametrize("name", ["t5", "flan_t5", "umt5"])  # tied and not, relu and gated-gelu
def test_a_file_writes_the_texts_of_its_folder(name: str, tmp_path: Path) -> None:
    _, folder = folder_of(name, tmp_path / "folder", "seq2seq-lm")
    file = converted(folder, tmp_path / "model.gguf", "f32")
    options = {"num_beams": 3, "max_new_tokens": 8}
    written = [tasks.pipeline("translate", path)(TEXTS, **options) for path in (folder, file)]
    assert written[0] == written[1] and any(written[0])
    with open_checkpoint(file) as checkpoint:
        assert checkpoint.values["general.architecture"] == "t5"  # type: ignore[attr-defined]
    embedded = load_task_model(file, "features")  # the same file, as an encoder
    assert embedded.model.parts[0] is not None
    # In two parts, from a path and from files by name, as a browser gives them.
    first, second = in_parts(file)
    loaded = [
        load_task_model(source, "seq2seq-lm")
        for source in (first, {part.name: open_source(part) for part in (second, first)})
    ]
    assert [tasks.pipeline("translate", model)(TEXTS, **options) for model in loaded] == [written[0]] * 2
    with pytest.raises(FileFormatError, match=f"the part '{second.name}' is missing"):
        load_task_model({first.name: open_source(first)}, "seq2seq-lm")


def test_the_names_are_llama_cpps() -> None:
    names = json.loads(Path(__file__).with_name("golden_gguf_encoder_names.json").read_text())
    assert set(names) == set(CASES)
    for name, tensors in names.items():
        module = module_for(CONFIGS[name])
        form = module.GGUF.of(module.Config.from_dict(CONFIGS[name] | CASES[name]))
        assert len(tensors) > 10
        for key, expected in tensors.items():
            assert form.tensors(key) == (expected,), (name, key)


def test_what_gguf_cannot_say_is_refused(tmp_path: Path) -> None:
    _, folder = folder_of("bert", tmp_path / "folder")
    settings = json.loads((folder / "config.json").read_text())

    def refused(told: str, **files: Any) -> None:
        for name, value in files.items():
            (folder / name.replace("__", "/").replace("_json", ".json")).write_text(json.dumps(value))
        with pytest.raises(ModelError, match=told):
            converted(folder, tmp_path / "model.gguf", "f16")
        assert not (tmp_path / "model.gguf").exists()

    refused("hidden_act 'relu'", config_json=settings | {"hidden_act": "relu"})
    refused("sequence-classification", config_json=settings | {"architectures": ["BertForSequenceClassification"]})
    refused("pooling 'max'", config_json=settings, **{"1_Pooling__config_json": {"pooling_mode": "max"}})


def test_damaged_files_are_named(tmp_path: Path) -> None:
    def changed(name: str, told: str, values: dict[str, Any], **tensors: Any) -> None:
        with open_checkpoint(tmp_path / f"{name}.gguf") as checkpoint:
            types = {key: kind for key, kind in checkpoint.types.items() if key not in values}  # type: ignore[attr-defined]
            whole = {key: checkpoint.read(key) for key in checkpoint.tensors}
            whole |= {key.replace("__", "."): change(whole[key.replace("__", ".")]) for key, change in tensors.items()}
            write_gguf(tmp_path / "changed.gguf", whole, checkpoint.values | values, types)  # type: ignore[attr-defined]
        with pytest.raises(ModelError, match=told):
            load_task_model(tmp_path / "changed.gguf", "features")

    for name in ("bert", "nomic_bert", "distilbert"):
        converted(folder_of(name, tmp_path / name)[1], tmp_path / f"{name}.gguf", "f32")
    changed("bert", "pooling_type is", {"bert.pooling_type": [1]})
    changed("bert", "num_attention_heads 5 does not divide", {"bert.attention.head_count": 5})
    changed("bert", "of another shape.*token_type", {}, token_types__weight=lambda x: x.sum())
    changed("distilbert", "layer_norm_epsilon.*'x'", {"bert.attention.layer_norm_epsilon": "x"})
    changed("nomic_bert", "q_proj.weight' is a part of 40 rows", {}, blk__0__attn_qkv__weight=lambda x: x[:40])


def test_a_file_for_another_task_is_named(tmp_path: Path) -> None:
    _, folder = folder_of("bert", tmp_path / "folder")
    file = converted(folder, tmp_path / "model.gguf", "f16")
    with pytest.raises(ModelError, match="'bert' are not for causal-lm. They are for features"):
        load_model(file)
    with pytest.raises(ModelError, match="no head for token-classification"):
        load_task_model(file, "token-classification")
    write_gguf(tmp_path / "strange.gguf", {}, {"general.architecture": "rwkv9"})
    with pytest.raises(ModelError, match="'rwkv9' is not known.*nomic-bert"):
        load_task_model(tmp_path / "strange.gguf", "features")
