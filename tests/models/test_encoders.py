"""Encoders and their heads against transformers (make_golden_encoders.py): names, outputs of a batch with padding, and
gradients; quantised weights; hostile configurations.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.errors import ArgumentError, ModelError
from pyapp.formats import open_checkpoint
from pyapp.formats.safetensors import write_safetensors
from pyapp.models._index import MODEL_TYPES, TASKS
from pyapp.models.loading.building import build
from pyapp.models.loading.heads import completed
from pyapp.nn.encoders.encoders import Chooser
from pyapp.nn.positions.rotary import rotary_frequencies
from tests.models.encoder_configs import CONFIGS, LENGTH, MASKED, QUANTISED, WIDE, batch, page
from tests.models.seeded import direction, draw
from tests.models.small_models import along, exported, golden_in, module_for
from tests.together import fewer_in_browser

ENTITIES = ("luke", "luke_words")
CASES = [
    (name, task) for name in CONFIGS for task in TASKS[MODEL_TYPES[CONFIGS[name]["model_type"]]]
    if task != "text-decoder" and (name, task) not in MASKED  # a part of other models
]  # fmt: skip
golden = golden_in("golden_encoders")


def module_of(name: str) -> Any:
    return module_for(CONFIGS[name])


def make(name: str, task: str, **changes: Any) -> Any:
    module = module_of(name)
    model = module.TASKS[task](module.Config.from_dict(CONFIGS[name] | changes))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    files = exported(model, parameters)
    plans = module.stored(model.config, files) if files is not parameters else {}
    with pyapp.no_grad():
        for key, parameter in parameters.items():
            if key in golden(name)[task]["parameters"]:
                value = pyapp.from_numpy(draw(key, tuple(files[key].shape)))
                parameter.copy_(plans[key].join([value]) if key in plans else value)
    return model


def run(model: Any, name: str) -> pyapp.Tensor:
    ids, mask, types = batch(CONFIGS[name])
    more = map(pyapp.from_numpy, page(CONFIGS[name]))
    typed = None if types is None else pyapp.tensor(types)
    if name in ENTITIES and hasattr(model, "read"):  # the words' states, and behind them those of entities
        return pyapp.cat(list(model.read(pyapp.tensor(ids), *more, pyapp.tensor(mask), typed)), 1)
    given = [pyapp.tensor(ids), pyapp.tensor(mask), typed, *more]
    if isinstance(model, Chooser):  # of the two texts
        given = [None if part is None else part.unsqueeze(0) for part in given]
    found: pyapp.Tensor = model(*given)
    return found


def shown(x: pyapp.Tensor) -> pyapp.Tensor:
    rows, places = ([0, 0, 1, 0, 1], [0, 6, 3, 7, 7]) if x.shape[1] == LENGTH + 2 else ([0, 0, 1], [0, 6, 3])
    return x if x.ndim == 2 else x[pyapp.tensor(rows), pyapp.tensor(places)]


@pytest.mark.parametrize(("name", "task"), fewer_in_browser(CASES, every=2))
def test_outputs_and_gradients_are_those_of_transformers(name: str, task: str) -> None:
    model, expected = make(name, task), golden(name)[task]
    found = dict(model.named_parameters(remove_duplicate=False))  # which name of a tied weight comes first differs
    files = exported(model, found)
    assert {key: list(files[key].shape) for key in expected["parameters"]} == {
        key: shape for key, (shape, _) in expected["parameters"].items()
    }
    assert {id(found[key]) for key in expected["parameters"]} == {id(parameter) for parameter in model.parameters()}
    with pyapp.no_grad():
        np.testing.assert_allclose(shown(run(model, name)).numpy().reshape(-1), expected["outputs"], 1e-5, 1e-4)
    picked = shown(run(model.requires_grad_(), name))
    np.testing.assert_allclose(picked.detach().numpy().reshape(-1), expected["outputs"], 1e-5, 1e-4)
    along(picked, task).backward()
    grads = {key: x.grad if x.grad is not None else pyapp.zeros(*x.shape) for key, x in found.items()}
    grads = exported(model, grads)
    for key in expected["parameters"]:
        grad = grads[key].numpy().astype(np.float64)
        product = (grad * direction(key, grad.shape)).sum()
        np.testing.assert_allclose(product, expected["parameters"][key][1], rtol=1e-3, atol=1e-3, err_msg=key)


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_changes_nothing(name: str) -> None:
    """A text alone has the hidden states that it has beside a longer one."""
    model = make(name, "features")
    if not model.hides_padding:
        return
    ids, mask, types = batch(CONFIGS[name])
    here = slice(mask[1].index(1), mask[1].index(1) + sum(mask[1]))
    with pyapp.no_grad():
        boxes, *seen = page(CONFIGS[name]) or (None,)
        more = (
            [] if boxes is None else [boxes[1:, here], *(x[1:, here] if x.shape[1] == LENGTH else x[1:] for x in seen)]
        )
        typed = None if types is None else pyapp.tensor([types[1][here]])
        alone = model(pyapp.tensor([ids[1][here]]), None, typed, *(pyapp.from_numpy(part.copy()) for part in more))
        beside = run(model, name)[1:2, here]
    np.testing.assert_allclose(alone.numpy(), beside.numpy(), atol=2e-6)


@pytest.mark.parametrize("name", QUANTISED)
@pytest.mark.parametrize(("kind", "close"), [("q8_0", 0.05), ("q4_0", 0.6)])
def test_quantised_weights_run(name: str, kind: str, close: float) -> None:
    """Rows of 32 columns and more are quantised; the result stays near."""
    model = make(name, "features", **WIDE[name])
    with pyapp.no_grad():
        exact = run(model, name).numpy()
        assert nn.quantize(model, kind)
        found = run(model, name).numpy()
    assert 0 < np.abs(found - exact).max()
    assert np.sqrt(np.square(found - exact).mean() / np.square(exact).mean()) < close


def test_too_many_tokens_and_other_shapes_are_refused() -> None:
    model = make("roberta", "features")
    with pytest.raises(ArgumentError, match="T from 1 to 22"):  # 24 positions, two of them of padding
        model(pyapp.ones(1, 23, dtype="int32"))
    with pytest.raises(ArgumentError, match="attention_mask"):
        model(pyapp.ones(1, 5, dtype="int32"), pyapp.ones(1, 4, dtype="int32"))


@pytest.mark.parametrize("name", CONFIGS)
def test_hostile_configurations_are_refused(name: str) -> None:
    heads = {"distilbert": "n_heads", "xlnet": "n_head", "xlm": "n_heads", "flaubert": "n_heads"}.get(
        name, "d_model" if name.startswith("funnel") else "num_attention_heads"
    )
    for change in ({heads: 5}, {heads: 0}, {"vocab_size": 10**12}, {"vocab_size": "many"}, {"vocab_size": None},
                   {"id2label": {"0": "a", "2": "b"}}, {"num_labels": 10**9, "id2label": None}):  # fmt: skip
        kind = module_of(name).Config
        if name == "canine" and change == {"vocab_size": None}:  # which has no vocabulary
            continue
        if "id2label" in change and not hasattr(kind, "labels"):
            continue
        with pytest.raises(ModelError):
            getattr(kind.from_dict(CONFIGS[name] | change), "labels", None)  # labels are checked when they are read


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("mobilebert", {"intra_bottleneck_size": 7}, "intra_bottleneck_size"),
        ("mobilebert", {"embedding_size": 16}, "embedding_size is not below"),
        ("mobilebert", {"normalization_type": "odd"}, "normalization_type 'odd'"),
        ("mobilebert", {"num_feedforward_networks": 10**6}, "above 256"),
        ("squeezebert", {"v_groups": 3}, "v_groups 3 does not divide"),
        ("squeezebert", {"embedding_size": 8}, "embedding_size 8 is not hidden_size"),
        ("distilbert", {"pad_token_id": 1000}, "pad_token_id is 1000"),
        ("layoutlm", {"max_2d_position_embeddings": 1000}, "max_2d_position_embeddings is 1,000, expected 1,001"),
        ("lilt", {"channel_shrink_ratio": 5}, "channel_shrink_ratio 5 does not divide"),
        ("layoutlmv3", {"shape_size": 3}, "four times coordinate_size 3 and twice shape_size 3"),
        ("layoutlmv3", {"patch_size": 16}, "makes 0 patches"),
        ("layoutlmv3", {"input_size": 10**6, "patch_size": 1}, "input_size"),
        ("layoutlmv3", {"max_rel_2d_pos": 10**6}, "max_rel_2d_pos is 1,000,000"),
        ("luke", {"pad_token_id": 23}, "pad_token_id 23 leaves no positions"),
        ("deberta", {"talking_head": True}, "talking_head"),
        ("deberta", {"pos_att_type": "p2p"}, "pos_att_type"),
        (
            "megatron_bert",
            {"position_embedding_type": "alibi", "feed_forward_type": "geglu"},
            "absolute positions only",
        ),
        ("convbert", {"conv_kernel_size": 4}, "expected an odd number up to 63"),
        ("convbert", {"num_groups": 5}, "num_groups 5 does not divide"),
        ("convbert", {"head_ratio": 1, "num_attention_heads": 16}, "twice its 16 heads"),
        ("nystromformer", {"num_landmarks": 3}, "num_landmarks 3 does not divide"),
        ("nystromformer", {"segment_means_seq_len": 40, "num_landmarks": 8}, "of 24 positions"),
        ("nystromformer", {"conv_kernel_size": 6}, "expected an odd number"),
        ("xmod", {"default_language": None}, "default_language is None, none of the model's languages"),
        ("xmod", {"languages": []}, "expected names of languages"),
        ("xmod", {"adapter_reduction_factor": 17}, "is above hidden_size 16"),
    ],
)
def test_sizes_that_do_not_fit_are_named(name: str, change: dict[str, Any], what: str) -> None:
    with pytest.raises(ModelError, match=what):
        module_of(name).Config.from_dict(CONFIGS[name] | change)


def test_texts_are_filled_up_to_the_length_of_landmarks() -> None:
    """A text of another length than a Nyströmformer's has the states that it has with padding."""
    model, config = make("nystromformer_landmarks", "features"), CONFIGS["nystromformer_landmarks"]
    length, padding = config["segment_means_seq_len"], config["pad_token_id"]
    ids, count = [2, 7, 30, 11, 5, 9, 3], 7
    with pyapp.no_grad():
        alone = model(pyapp.tensor([ids]))
        mask = [1] * count + [0] * (length - count)
        filled = model(pyapp.tensor([ids + [padding] * (length - count)]), pyapp.tensor([mask]))
    assert alone.shape == (1, count, 16) and (alone == filled[:, :count]).all()


def test_texts_shorter_than_a_molecule_are_filled_up() -> None:
    for task in ("features", "sequence-classification"):
        model = make("canine", task)
        with pyapp.no_grad():
            alone = model(pyapp.tensor([[7]]))
            filled = model(pyapp.tensor([[7, 0]]), pyapp.tensor([[1, 0]]))
        np.testing.assert_array_equal(alone.numpy(), (filled if alone.ndim == 2 else filled[:, :1]).numpy())


def test_words_are_tied_to_the_embedding() -> None:
    model = make("bert", "masked-lm")
    assert model.cls.predictions.decoder.weight is model.encoder.word_embeddings.weight
    untied = make("bert", "masked-lm", tie_word_embeddings=False)
    assert untied.cls.predictions.decoder.weight is not untied.encoder.word_embeddings.weight


def test_gtes_files_of_alibaba_load() -> None:
    """Queries, keys and values in one matrix, and both inputs of the gate; angles stretched by "ntk"."""
    model, older = make("gte", "masked-lm"), {}
    names = {new: old for old, new in module_of("gte").OLDER_NAMES.items()}
    for key, value in model.state_dict().items():
        name = f"new.{key.removeprefix('gte.')}" if key.startswith("gte.") else key
        for new, old in names.items():
            name = name.replace(new, old)
        older[name] = value
    for layer in range(2):
        start = f"new.encoder.layer.{layer}."
        for kind in ("weight", "bias"):
            parts = [older.pop(f"{start}self_attn.{part}_proj.{kind}") for part in "qkv"]
            older[f"{start}attention.qkv_proj.{kind}"] = pyapp.cat(parts)
        parts = [older.pop(f"{start}mlp.{part}_proj.weight") for part in ("up", "gate")]
        older[f"{start}mlp.up_gate_proj.weight"] = pyapp.cat(parts)
    assert "new.encoder.layer.1.attn_ln.bias" in older and "lm_head.norm.weight" in older
    file = io.BytesIO()
    write_safetensors(file, older)
    settings = CONFIGS["gte"] | {"model_type": "new", "rope_theta": 160_000.0}
    with open_checkpoint(file.getvalue()) as checkpoint:
        found = build(checkpoint, settings, "masked-lm")
    with pyapp.no_grad():
        assert (run(found, "gte") == run(model, "gte")).all()
    stretched = settings | {"rope_theta": 20.0, "rope_scaling": {"type": "ntk", "factor": 8.0}}
    config = module_of("gte").Config.from_dict(stretched)
    speeds = rotary_frequencies(config.to_dict(), length=9)
    assert speeds.attention_factor == 1.0  # heads of 4 features: base 20 * 8, divided by the root of 8
    np.testing.assert_allclose(speeds.per_position, [8**-0.5, 160**-0.5 * 8**-0.5], rtol=1e-6)
    for scaling in ({"type": "ntk", "factor": 0}, {"type": "ntk", "factor": 8.0, "mixed_b": 0.6}, 3):
        with pytest.raises(ModelError):
            module_of("gte").Config.from_dict(stretched | {"rope_scaling": scaling})


def test_biases_by_distance_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts are read some queries at a time; and what Jina's configurations may not say."""
    model = make("jina_bert", "features")
    with pyapp.no_grad():
        whole = run(model, "jina_bert").numpy()
        monkeypatch.setattr("pyapp.nn.encoders.alibi_encoder.QUERIES", 3)
        np.testing.assert_allclose(run(model, "jina_bert").numpy(), whole, atol=2e-6)
    for changes in ({"feed_forward_type": "swiglu"}, {"position_embedding_type": "absolute"}):
        with pytest.raises(ModelError, match="and feed_forward_type .* is not supported"):
            module_of("jina_bert").Config.from_dict(CONFIGS["jina_bert"] | changes)


def test_jinas_colbert_loads() -> None:
    """The names of FlashAttention's BERT; config.json says that this is XLM-RoBERTa."""
    model, older = make("jina_embeddings_v3", "token-classification"), {}
    for key, value in model.state_dict().items():
        for old, new in (
            ("embeddings.LayerNorm", "emb_ln"), ("roberta.layers.", "roberta.encoder.layers."),
            ("self_attn.o_proj", "mixer.out_proj"), ("self_attn", "mixer"), ("post_attention_layernorm", "norm1"),
            ("post_mlp_layernorm", "norm2"),
        ):  # fmt: skip
            key = key.replace(old, new)
        older[key] = value
    for start in [key.removesuffix("q_proj.weight") for key in older if key.endswith("q_proj.weight")]:
        for kind in ("weight", "bias"):
            older[f"{start}Wqkv.{kind}"] = pyapp.cat([older.pop(f"{start}{part}_proj.{kind}") for part in "qkv"])
    assert "roberta.encoder.layers.1.mixer.Wqkv.bias" in older and "roberta.emb_ln.weight" in older
    assert "roberta.encoder.layers.0.mlp.fc1.weight" in older
    theta = model.config.rope_parameters["rope_theta"]
    said = {key: value for key, value in CONFIGS["jina_embeddings_v3"].items() if not key.startswith("rope")}
    settings = completed(
        said | {
            "auto_map": {"AutoConfig": "jinaai/odd--configuration_xlm_roberta.XLMRobertaFlashConfig"},
            "model_type": "xlm-roberta", "position_embedding_type": "rotary", "rotary_emb_base": theta,
        }
    )  # fmt: skip
    for adapted in (False, True):
        file = io.BytesIO()
        more = {"roberta.encoder.layers.0.mixer.Wqkv.parametrizations.weight.original": pyapp.zeros(48, 16)}
        write_safetensors(file, older | (more if adapted else {}))
        with open_checkpoint(file.getvalue()) as checkpoint:
            if adapted:
                with pytest.raises(ModelError, match="have adapters for tasks"):
                    build(checkpoint, settings, "token-classification")
                continue
            found = build(checkpoint, settings, "token-classification")
            below = build(checkpoint, settings, "features")
        with pyapp.no_grad():
            assert (run(found, "jina_embeddings_v3") == run(model, "jina_embeddings_v3")).all()
            assert (run(below, "jina_embeddings_v3") == run(model.encoder, "jina_embeddings_v3")).all()


def test_jinas_rerankers_load() -> None:
    """The names of FlashAttention's BERT; config.json does not say what the model is."""
    model, older = make("xlm_roberta", "sequence-classification"), {}
    for key, value in model.state_dict().items():
        for old, new in (
            ("embeddings.LayerNorm", "emb_ln"), ("encoder.layer.", "encoder.layers."), ("attention.self", "mixer"),
            ("attention.output.dense", "mixer.out_proj"), ("attention.output.LayerNorm", "norm1"),
            ("intermediate.dense", "mlp.fc1"), ("output.dense", "mlp.fc2"), ("output.LayerNorm", "norm2"),
        ):  # fmt: skip
            key = key.replace(old, new)
        older[key] = value
    for start in [key.removesuffix("query.weight") for key in older if key.endswith("query.weight")]:
        for kind in ("weight", "bias"):
            parts = [older.pop(f"{start}{part}.{kind}") for part in ("query", "key", "value")]
            older[f"{start}Wqkv.{kind}"] = pyapp.cat(parts)
    assert "roberta.encoder.layers.1.mixer.Wqkv.bias" in older and "roberta.emb_ln.weight" in older
    file = io.BytesIO()
    write_safetensors(file, older)
    said = {key: value for key, value in CONFIGS["xlm_roberta"].items() if key != "model_type"}
    settings = completed(said | {"auto_map": {"AutoConfig": "configuration_xlm_roberta.XLMRobertaFlashConfig"}})
    with open_checkpoint(file.getvalue()) as checkpoint:
        found = build(checkpoint, settings, "sequence-classification")
    with pyapp.no_grad():
        assert (run(found, "xlm_roberta") == run(model, "xlm_roberta")).all()


@pytest.mark.parametrize("name", ["nomic_bert", "nomic_moe"])
def test_nomic_berts_files_on_the_hub_load(name: str) -> None:
    """Other names, queries, keys and values in one matrix, and a configuration of GPT-2's kind."""
    model = make(name, "features")
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    older: dict[str, pyapp.Tensor] = {}
    for key, value in tensors.items():
        for old, new in module_of(name).OLDER_NAMES.items():
            key = old + key.removeprefix(new) if key.startswith(new) else key.replace(f".{new}", f".{old}")
        older[key] = value
    for start in [key.removesuffix("q_proj.weight") for key in older if key.endswith("q_proj.weight")]:
        for kind in ("weight", "bias") if name == "nomic_moe" else ("weight",):
            parts = [older.pop(f"{start}{part}_proj.{kind}") for part in "qkv"]
            older[f"{start.removesuffix('self_attn.')}attn.Wqkv.{kind}"] = pyapp.cat(parts)
    for key in [key for key in older if key.endswith("experts.up_proj")]:  # stacks as the hub has them
        down = older.pop(key.replace("up_proj", "down_proj")).transpose(1, 2)
        older[key.replace("up_proj", "mlp.w1")] = older.pop(key).reshape(-1, 16)
        older[key.replace("up_proj", "mlp.w2")] = down.reshape(-1, 16)
    sizes = {key: value for key, value in CONFIGS[name].items() if key not in ("bias", "gated", "hidden_act")}
    names = {new: old for old, new in module_of(name).OLDER_FIELDS.items()}
    settings = {names.get(key, key): value for key, value in sizes.items()} | {"rotary_emb_base": 1000}
    if name == "nomic_moe":
        biases = dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), True)
        settings |= {"activation_function": "gelu", "num_shared_experts": 0, **biases}
        older = {key.replace("fc11.", "fc1."): value for key, value in older.items()}
    known = "encoder.layers.1.mlp.experts.mlp.w2" if name == "nomic_moe" else "encoder.layers.1.mlp.fc11.weight"
    assert known in older and settings["n_embd"] == 16
    file = io.BytesIO()
    write_safetensors(file, older)
    with open_checkpoint(file.getvalue()) as checkpoint:
        found = build(checkpoint, settings, "features")
    with pyapp.no_grad():
        assert (run(found, name) == run(model, name)).all()
