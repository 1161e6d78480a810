"""Makes golden_sentences.json with sentence-transformers 6.2 and transformers 5.24, and the case of PyLate 1.6 with the
older sentence-transformers that it needs:

    PYTHONPATH=. python tests/models/make_golden_sentences.py
    PYTHONPATH=. python tests/models/make_golden_sentences.py pylates

Small models are made with the weights of seeded.py and saved. A case has the small files of the folder, the shapes of
the tensors in its files of weights, and what the library computes: vectors, vectors of each token, scores.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from tokenizers import Tokenizer

from tests.goldens import write_json
from tests.models.seeded import draw
from tests.models.sentence_texts import DOCUMENTS, QUERIES, TEMPLATE, tokenizer_json, word_list

try:
    from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer
    from sentence_transformers.cross_encoder.modules import LogitScore
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer import modules as st
except ImportError:  # the version that PyLate needs
    from pylate import models as pylate

FILE = Path(__file__).with_name("golden_sentences.json")
KEPT = (".json", ".metadata", ".jinja")
SIZES = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "vocab_size": len(word_list()), "pad_token_id": 0, "max_position_embeddings": 64,
}  # fmt: skip
DECODER = SIZES | {"num_key_value_heads": 2, "head_dim": 8, "bos_token_id": 2, "eos_token_id": 3}
IDENTITY = torch.nn.Identity()


def seeded(model: Any, prefix: str = "") -> Any:
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw(prefix + key, tuple(parameter.shape))))
    return model.eval()


def backbone(folder: Path, kind: str, config: dict[str, Any], task: str = "", **tokenizer: Any) -> str:
    """A folder of transformers' with a model and its tokenizer."""
    made = transformers.AutoConfig.for_model(kind, **config)
    model = seeded(getattr(transformers, f"AutoModel{task}").from_config(made))
    model.save_pretrained(folder)
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer_json()), pad_token="[PAD]", unk_token="[UNK]",
        mask_token="[MASK]", cls_token="[CLS]", sep_token="[SEP]", eos_token="[SEP]", model_max_length=64, **tokenizer,
    )  # fmt: skip
    words.save_pretrained(folder)
    return str(folder)


def saved(folder: Path) -> dict[str, Any]:
    """The small files of a folder, and the shapes of the tensors in the others."""
    files, tensors = {}, {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.endswith(".safetensors"):
            with safe_open(path, "pt") as file:
                tensors[name] = {key: file.get_slice(key).get_shape() for key in file.keys()}
        elif path.is_file() and name.endswith(KEPT):
            files[name] = "" if name.endswith("tokenizer.json") else json.loads(path.read_text()) if name.endswith(
                ".json") else path.read_text()  # fmt: skip
        elif path.is_file() and path.suffix != ".md" and path.name != ".gitattributes":
            print("left out", name)
    return {"files": files, "tensors": tensors}


def numbers(values: Any) -> Any:
    if isinstance(values, list):
        return [numbers(one) for one in values]
    if isinstance(values, float | int):
        return float(f"{values:.5g}")
    return numbers(values.tolist())


def reread(folder: Path) -> None:
    """Gives every tensor of a folder the values of seeded.py, by its name in the file."""
    from safetensors.torch import load_file, save_file

    for path in folder.rglob("*.safetensors"):
        found = load_file(path)
        save_file({key: torch.from_numpy(draw(key, tuple(value.shape))).to(value.dtype)
                   for key, value in found.items()}, path, {"format": "pt"})  # fmt: skip


def dense_parts(top: Path) -> dict[str, Any]:
    """Pooling of several kinds without the prompt, a norm, a layer with a residual and another activation."""
    path = backbone(top / "base", "bert", SIZES)
    parts = [
        st.Transformer(path, max_seq_length=12),
        st.Pooling(16, ("cls", "mean", "weightedmean", "lasttoken", "max", "mean_sqrt_len_tokens"), False),
        st.LayerNorm(96),
        st.Dense(96, 8, activation_function=torch.nn.SiLU(), use_residual=True),
        st.Dense(8, 8, bias=False, activation_function=torch.nn.LeakyReLU(), use_residual=True),
        st.Dropout(0.1),
        st.Normalize(),
    ]
    model = SentenceTransformer(
        modules=parts, prompts={"query": "query : "}, similarity_fn_name="euclidean", device="cpu"
    )
    model.save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    limits = top / "model" / "sentence_bert_config.json"  # older versions write these two
    more = {"do_lower_case": True, "max_seq_length": 11}
    limits.write_text(json.dumps(json.loads(limits.read_text()) | more))
    model = SentenceTransformer(str(top / "model"), device="cpu")
    return {
        "vectors": numbers(model.encode(DOCUMENTS)), "query": numbers(model.encode(QUERIES, prompt_name="query")),
        "shorter": numbers(model.encode(DOCUMENTS, truncate_dim=3, normalize_embeddings=True)),
        "similarity": numbers(model.similarity(model.encode(QUERIES), model.encode(DOCUMENTS))),
    }  # fmt: skip


def static(top: Path) -> dict[str, Any]:
    words = Tokenizer.from_str(tokenizer_json())
    parts = [st.StaticEmbedding(words, embedding_dim=8), st.Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    model = SentenceTransformer(str(top / "model"), device="cpu")
    return {"vectors": numbers(model.encode([*DOCUMENTS, ""]))}


def words(top: Path) -> dict[str, Any]:
    """Words' own vectors with weights, convolutions and an LSTM, as before transformers."""
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    splitter = WhitespaceTokenizer(word_list()[5:], stop_words=["the"], do_lower_case=False)
    count = len(splitter.get_vocab())
    parts = [
        st.WordEmbeddings(splitter, torch.zeros(count, 6), max_seq_length=6),
        st.WordWeights(splitter.get_vocab(), {"cat": 2.5, "house": 0.25}, 0.75),
        st.CNN(6, 4, [1, 3]), st.LSTM(8, 5), st.Pooling(10, "mean"),
    ]  # fmt: skip
    SentenceTransformer(modules=parts, device="cpu").save(str(top / "model"), create_model_card=False)
    weights = {path: path.read_bytes() for path in top.rglob("*WordWeights/*.safetensors")}
    reread(top / "model")
    for path, data in weights.items():
        path.write_bytes(data)
    model = SentenceTransformer(str(top / "model"), device="cpu")
    return {"vectors": numbers(model.encode(DOCUMENTS))}


def late(model: Any) -> dict[str, Any]:
    queries, documents = model.encode_query(QUERIES), model.encode_document(DOCUMENTS)
    return shown(queries, documents, model.similarity(queries, documents))


def shown(queries: list[Any], documents: list[Any], scores: Any) -> dict[str, Any]:
    """The number of vectors of each text, and three of them."""
    return {
        "queries": [[len(one), numbers(one[[0, 1, -1]])] for one in queries],
        "documents": [[len(one), numbers(one[[0, 1, -1]])] for one in documents],
        "scores": numbers(scores),
    }


def late_interaction(top: Path) -> dict[str, Any]:
    """A MultiVectorEncoder of today's form."""
    path = backbone(top / "base", "modernbert", SIZES | {"local_attention": 4, "global_attn_every_n_layers": 2})
    parts = [
        st.Transformer(path, document_length=9, query_length=20,
                       query_expansion={"strategy": "min", "length": 7, "attend": True}),
        st.Dense(16, 8, bias=False, activation_function=IDENTITY, module_input_name="token_embeddings"),
        MultiVectorMask([".", "unknown"], skiplist_tasks=["query", "document"]),
        st.Normalize("token_embeddings"),
    ]  # fmt: skip
    model = MultiVectorEncoder(
        modules=parts, prompts={"query": "query : ", "document": "passage : "}, similarity_fn_name="meanmaxsim",
        device="cpu",
    )  # fmt: skip
    model.save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    return late(MultiVectorEncoder(str(top / "model"), device="cpu"))


def pylates(top: Path) -> dict[str, Any]:
    """A folder of PyLate's."""
    path = backbone(top / "base", "bert", SIZES)
    options = {
        "embedding_size": 8, "query_prefix": "[unused0]", "document_prefix": "[unused1]", "query_length": 8,
        "document_length": 11, "skiplist_words": [".", "!"], "device": "cpu",
    }  # fmt: skip
    pylate.ColBERT(path, **options).save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    model = pylate.ColBERT(str(top / "model"), device="cpu")
    queries = [torch.from_numpy(one) for one in model.encode(QUERIES, is_query=True)]
    documents = [torch.from_numpy(one) for one in model.encode(DOCUMENTS, is_query=False)]
    return shown(queries, documents, [[(q @ d.T).amax(1).sum() for d in documents] for q in queries])


def stanford(top: Path) -> dict[str, Any]:
    """A checkpoint of Stanford's ColBERT: the projection beside BERT's tensors, settings in artifact.metadata."""
    from safetensors.torch import load_file, save_file

    folder = top / "model"
    backbone(folder, "bert", SIZES)
    config = json.loads((folder / "config.json").read_text()) | {"architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {f"bert.{key}": value for key, value in load_file(folder / "model.safetensors").items()}
    save_file(tensors | {"linear.weight": torch.zeros(8, 16)}, folder / "model.safetensors", {"format": "pt"})
    settings = {
        "query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_maxlen": 9, "doc_maxlen": 12,
        "attend_to_mask_tokens": False, "mask_punctuation": True, "dim": 8, "similarity": "cosine",
    }  # fmt: skip
    (folder / "artifact.metadata").write_text(json.dumps(settings))
    reread(folder)
    return late(MultiVectorEncoder(str(folder), device="cpu"))


def ranked(model: Any, **options: Any) -> dict[str, Any]:
    pairs = [(QUERIES[0], text) for text in DOCUMENTS]
    raw = numbers(model.predict(pairs, activation_fn=IDENTITY, **options))
    return {"scores": numbers(model.predict(pairs, **options)), "raw": raw}


def cross_encoder(top: Path) -> dict[str, Any]:
    """A cross-encoder whose folder says the activation and a prompt."""
    path = backbone(
        top / "base",
        "bert",
        SIZES | {"num_labels": 1},
        "ForSequenceClassification",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    model = CrossEncoder(path, device="cpu", activation_fn=torch.nn.Tanh(), prompts={"find": "find : "},
                         default_prompt_name="find", max_length=14)  # fmt: skip
    model.save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    return ranked(CrossEncoder(str(top / "model"), device="cpu"))


def logits(top: Path) -> dict[str, Any]:
    """A language model whose logits of two words are the score, by a chat template."""
    path = backbone(
        top / "base", "qwen3", DECODER | {"tie_word_embeddings": True}, "ForCausalLM", chat_template=TEMPLATE
    )
    parts = [
        st.Transformer(path, transformer_task="text-generation"),
        LogitScore(word_list().index("yes"), word_list().index("no")),
    ]
    model = CrossEncoder(modules=parts, device="cpu", prompts={"search": "find with the query"},
                         default_prompt_name="search")  # fmt: skip
    model.save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    return ranked(CrossEncoder(str(top / "model"), device="cpu"))


def decoder_labels(top: Path) -> dict[str, Any]:
    """A language model with a score of its last token (AutoModelForSequenceClassification)."""
    folder = top / "model"
    backbone(folder, "qwen3", DECODER | {"num_labels": 1}, "ForSequenceClassification")
    reread(folder)
    return ranked(CrossEncoder(str(folder), device="cpu"))


def modernbert_labels(top: Path) -> dict[str, Any]:
    """A ModernBERT decoder with a head over the last token."""
    folder = top / "model"
    backbone(folder, "modernbert-decoder", SIZES | {"num_labels": 1, "local_attention": 8}, "ForSequenceClassification")
    reread(folder)
    return ranked(CrossEncoder(str(folder), device="cpu"))


def qwen_embedding(top: Path) -> dict[str, Any]:
    """As Qwen3-Embedding: the last token of a language model."""
    path = backbone(top / "base", "qwen3", DECODER | {"tie_word_embeddings": True}, padding_side="left")
    parts = [st.Transformer(path), st.Pooling(16, "lasttoken"), st.Normalize()]
    model = SentenceTransformer(modules=parts, prompts={"query": "find : "}, device="cpu")
    model.save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    model = SentenceTransformer(str(top / "model"), device="cpu")
    return {"vectors": numbers(model.encode(DOCUMENTS)), "query": numbers(model.encode_query(QUERIES))}


def embedding_gemma(top: Path) -> dict[str, Any]:
    """As EmbeddingGemma: Gemma 3 whose tokens see the whole text, with windows."""
    config = DECODER | {
        "use_bidirectional_attention": True, "sliding_window": 6, "num_hidden_layers": 2, "query_pre_attn_scalar": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    path = backbone(top / "base", "gemma3_text", config)
    parts = [
        st.Transformer(path), st.Pooling(16, "mean"), st.Dense(16, 24, bias=False, activation_function=IDENTITY),
        st.Dense(24, 16, bias=False, activation_function=IDENTITY), st.Normalize(),
    ]  # fmt: skip
    prompts = {"query": "find : ", "document": "passage : "}
    SentenceTransformer(modules=parts, prompts=prompts, device="cpu").save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    model = SentenceTransformer(str(top / "model"), device="cpu")
    return {"vectors": numbers(model.encode_document(DOCUMENTS)), "query": numbers(model.encode_query(QUERIES))}


def stella(top: Path) -> dict[str, Any]:
    """As Stella 1.5B: Qwen2 whose tokens see the whole text, as its own class has it, and a layer over the mean."""
    path = backbone(top / "base", "qwen2", {**DECODER, "is_causal": False, "tie_word_embeddings": False})
    parts = [st.Transformer(path), st.Pooling(16, "mean"), st.Dense(16, 24, activation_function=IDENTITY)]
    SentenceTransformer(modules=parts, device="cpu").save(str(top / "model"), create_model_card=False)
    reread(top / "model")
    eager = {"attn_implementation": "eager"}  # sdpa takes the class' word, not the configuration's
    model = SentenceTransformer(str(top / "model"), device="cpu", model_kwargs=eager)
    model[0].processor = transformers.PreTrainedTokenizerFast(  # and not the tokenizer of Qwen2
        tokenizer_object=Tokenizer.from_str(tokenizer_json()), pad_token="[PAD]"
    )
    vectors = model.encode(DOCUMENTS)
    (top / "model" / "2_Dense").rename(top / "model" / "2_Dense_24")
    modules, config = top / "model" / "modules.json", top / "model" / "config.json"
    modules.write_text(modules.read_text().replace("2_Dense", "2_Dense_24"))
    said = json.loads(config.read_text()) | {
        "auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}, "sliding_window": 131072, "use_sliding_window": False,
    }  # fmt: skip
    said.pop("is_causal")
    config.write_text(json.dumps(said))
    return {"vectors": numbers(vectors)}


def nv_embed(top: Path) -> dict[str, Any]:
    """As NV-Embed 2: Mistral of transformers whose tokens see the whole text, and the paper's layer in torch."""
    from safetensors.torch import save_file

    path = backbone(top / "base", "mistral", DECODER | {"sliding_window": 4})
    sizes = {"num_latents_value": 6, "num_cross_heads": 2, "cross_dim_head": 8, "hidden_dim": 16, "latent_dim": 16}
    model = transformers.AutoModel.from_pretrained(path, sliding_window=None, attn_implementation="eager")
    attention, words = "cross_attend_blocks.0.", "cross_attend_blocks.1."
    shapes = {
        "latents": (6, 16), f"{attention}fn.to_q.weight": (16, 16), f"{attention}fn.to_kv.weight": (32, 16),
        f"{attention}fn.to_out.weight": (16, 16), f"{words}fn.net.0.weight": (128, 16), f"{words}fn.net.0.bias": (128,),
        f"{words}fn.net.2.weight": (16, 64), f"{words}fn.net.2.bias": (16,),
    }  # fmt: skip
    norms = (f"{attention}norm", f"{attention}norm_context", f"{words}norm")
    shapes |= {f"{norm}.{kind}": (16,) for norm in norms for kind in ("weight", "bias")}
    prefix = "latent_attention_model."
    z = {name: torch.from_numpy(draw(prefix + name, shape)) for name, shape in shapes.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw(f"embedding_model.{name}", tuple(parameter.shape))))
    folder = top / "model"
    parts = [st.Transformer(path, max_seq_length=32), st.Pooling(16, "mean", include_prompt=False), st.Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder), create_model_card=False)
    tensors = {f"embedding_model.{name}": value for name, value in model.state_dict().items()}
    save_file(tensors | {prefix + name: value for name, value in z.items()}, folder / "model.safetensors")
    text = json.loads((Path(path) / "config.json").read_text()) | {"model_type": "bidir_mistral"}
    config = {
        "model_type": "nvembed", "architectures": ["NVEmbedModel"], "add_eos": True, "text_config": text,
        "latent_attention_config": sizes | {"model_type": "latent_attention", "output_normalize": True},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    split = Tokenizer.from_str(tokenizer_json())

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (16,), z[f"{name}.weight"], z[f"{name}.bias"])

    def heads(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (2, 8)).transpose(-2, -3)

    def vector(prompt: str, document: str) -> Any:
        ids = split.encode(f"{prompt}{document}[SEP]").ids
        skipped = len(split.encode(prompt).ids) - 1 if prompt else 0  # all but the last special token
        with torch.no_grad():
            seen = torch.zeros(1, 1, len(ids), len(ids))
            x = model(torch.tensor([ids]), attention_mask=seen).last_hidden_state[0]
            keys, values = (norm(z["latents"], norms[1]) @ z[f"{attention}fn.to_kv.weight"].T).chunk(2, -1)
            query = norm(x, norms[0]) @ z[f"{attention}fn.to_q.weight"].T
            mixed = torch.nn.functional.scaled_dot_product_attention(heads(query), heads(keys), heads(values))
            x = x + mixed.transpose(0, 1).flatten(1) @ z[f"{attention}fn.to_out.weight"].T
            inner = norm(x, norms[2]) @ z[f"{words}fn.net.0.weight"].T + z[f"{words}fn.net.0.bias"]
            value, gate = inner.chunk(2, -1)
            inner = value * torch.nn.functional.gelu(gate)
            x = x + inner @ z[f"{words}fn.net.2.weight"].T + z[f"{words}fn.net.2.bias"]
            return torch.nn.functional.normalize(x[skipped:].mean(0), dim=0)

    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    settings["prompts"] = {"query": "find : "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return {
        "vectors": numbers([vector("", text).tolist() for text in DOCUMENTS]),
        "query": numbers([vector("find : ", text).tolist() for text in QUERIES]),
    }  # fmt: skip


CASES = {
    case.__name__: case
    for case in (dense_parts, static, words, late_interaction, pylates, stanford, cross_encoder, logits,
                 decoder_labels, modernbert_labels, qwen_embedding, embedding_gemma,
                 stella, nv_embed)
}  # fmt: skip

if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in sys.argv[1:] or [name for name in CASES if name != "pylates"]:
        with tempfile.TemporaryDirectory() as folder:
            outputs = CASES[name](Path(folder))
            found[name] = saved(Path(folder) / "model") | {"outputs": outputs}
            print(name, len(json.dumps(found[name])))
    write_json(FILE, found, separators=(",", ":"))
