"""A model's folder of Hugging Face's as the GGUF file that llama.cpp reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from pyapp.engine import Device, Tensor
from pyapp.errors import ModelError
from pyapp.formats import Checkpoint
from pyapp.formats.checkpoint import TensorInfo
from pyapp.formats.llama2c import Llama2cFile
from pyapp.hub.resolver import choose_tokenizer
from pyapp.models.load import (
    Source,
    empty_model,
    load_tokenizer,
    module_of,
    read_settings,
    settings_of,
    tokenizer_beside,
)
from pyapp.models.sentences.embedding import MODULES, dense_tensors, gguf_keys
from pyapp.nn.positions.rotary import rotary_frequencies
from pyapp.text.gguf_metadata import gguf_types
from pyapp.text.tokenization.tokenizer import Tokenizer

from .architectures import architecture, module_called
from .building import reads_both_ways, renamed
from .gguf import Gguf
from .gguf_view import AsGguf, keys_of, turned
from .heads import own_task
from .quantised.methods import as_floats, unquantised
from .sentence_folders import sentence_parts
from .stored import base_of, ignored_by
from .task_files import MORE_FILES

# Fields that readers find in the tensors, or that tell nothing of the outputs.
UNSAID = ("tie_word_embeddings", "pad_token_id", "id2label", "label2id")
WRITES = ("causal-lm", "text-diffusion")  # tasks of language models
# Of llama2.c's checkpoints: the fields of Llama's configuration, and llama.cpp's names of tensors.
LLAMA2C_FIELDS = {
    "dim": "hidden_size", "hidden_dim": "intermediate_size", "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads", "vocab_size": "vocab_size",
    "max_seq_len": "max_position_embeddings",
}  # fmt: skip
LLAMA2C_NAMES = {
    "tok_embeddings": "token_embd", "norm": "output_norm", "output": "output", "attention_norm": "attn_norm",
    "attention.wq": "attn_q", "attention.wk": "attn_k", "attention.wv": "attn_v", "attention.wo": "attn_output",
    "ffn_norm": "ffn_norm", "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up",
}  # fmt: skip
SHARED = ("features", "masked-lm", None)  # tasks of folders whose encoder alone is written


def as_gguf(
    checkpoint: Checkpoint,
    settings: Mapping[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    beside: Mapping[str, Path] | None = None,
) -> Checkpoint:
    """A view of a checkpoint of Hugging Face's as the GGUF file that llama.cpp reads: names, orders and `values`, with
    the tokenizer's. Of an encoder, `beside` are the files of sentence-transformers by path. ModelError for an
    architecture or a head that has no form in GGUF.
    """
    beside, where = beside or {}, checkpoint.source.name
    settings = settings_of(checkpoint, settings)
    module = architecture(settings.get("model_type"))
    if not hasattr(module, "GGUF"):
        raise ModelError("llama.cpp has no form for this architecture", where=where)
    form, task = module.GGUF, _task(module, settings, MODULES in beside, where)
    both_ways = bool(settings.get("use_bidirectional_attention")) or reads_both_ways(settings)
    module_of(settings, where, "features" if both_ways else task)
    checkpoint = as_floats(checkpoint, settings)
    features = task == "features"
    if hasattr(module, "adapted") and not features:
        settings = module.adapted(settings, checkpoint.tensors)
    kind = module.TASKS[task]
    config, model, stored = empty_model(module, kind, checkpoint, settings)
    form = form.of(config)
    if features and form.encoder is not None:
        form = replace(form, architecture=form.encoder)
    if features and getattr(model, "pooler", None) is not None:
        model.pooler = None  # llama.cpp does not read it
    older = getattr(module, "renamed", None)
    renames = older if task in WRITES else renamed if older is None else lambda name: older(renamed(name))
    base = base_of(module, settings) if getattr(module, "BASE", None) else kind.base_model_prefix
    view = AsGguf(form, config, model, checkpoint, stored, base, renames, ignored_by(module), strict=task in WRITES)
    check_said(form, config, view)
    if features or MODULES in beside:
        parts, sentences = sentence_parts(beside, None, None)
        keys = gguf_keys(form.architecture, parts, sentences)
        view.add(dense_tensors(form.architecture, parts))
        if not (features or both_ways):  # a language model that embeds sees no later tokens
            del keys[f"{form.architecture}.attention.causal"]
        view.values |= keys
    if tokenizer is not None:
        own = tokenizer.gguf_metadata(config.vocab_size)
        if features:
            own["tokenizer.ggml.token_type_count"] = getattr(config, "type_vocab_size", 1)
        view.values |= own
        view.types |= gguf_types(own)
    return view


def check_said(form: Gguf, config: Any, view: Checkpoint) -> None:
    """ModelError for a setting that the file does not say: its readers would take it for another model."""
    settings = settings_of(view)
    mine, read = config.to_dict(), architecture(settings["model_type"]).Config.from_dict(settings).to_dict()
    for name in sorted({*mine} & {*read} - {"model_type", *form.unsaid, *UNSAID}):
        if _meaning(name, mine) != _meaning(name, read):
            raise ModelError(
                f"GGUF cannot say {name} {mine[name]!r:.200} for this architecture, where it is {read[name]!r:.200}",
                where=view.source.name, hint="Write safetensors",
            )  # fmt: skip


def _meaning(name: str, settings: Mapping[str, Any]) -> Any:
    """What a field means, in a form that can be compared."""
    value = settings[name]
    if name == "rope_parameters":
        kinds = [None] if "rope_type" in value else sorted({*settings["layer_types"]})
        lengths = (None, settings["max_position_embeddings"])
        sized = turned(settings)
        found = [rotary_frequencies(sized, layer_type=kind, length=length) for kind in kinds for length in lengths]
        return [[f"{number:.5g}" for number in (*one.per_position, one.attention_factor)] for one in found]
    if isinstance(value, str) and value.startswith("gelu"):
        return "gelu"  # llama.cpp computes all of them by tanh
    return f"{value:.5g}" if isinstance(value, float | int) and not isinstance(value, bool) else value


def _task(module: Any, settings: Mapping[str, Any], sentences: bool, where: str) -> str:
    """What the file of a folder is for. ModelError for a folder with a head that GGUF has no form for."""
    writes = next((task for task in WRITES if task in module.TASKS), None)
    if writes is not None:
        return writes
    classes = settings.get("architectures")
    made_for = own_task(settings)
    if made_for == "seq2seq-lm" and not sentences:
        return made_for
    if made_for not in (*SHARED, "seq2seq-lm"):
        raise ModelError(
            f"llama.cpp has no form for a model for {made_for} of this architecture", where=where,
            hint="Write a .safetensors file, or convert the model for embeddings",
        )  # fmt: skip
    plain = not classes and not sentences
    return "seq2seq-lm" if plain and "seq2seq-lm" in module.TASKS else "features"


def gguf_view(source: Source, tokenizer: Source | None = None) -> Callable[[Checkpoint], Checkpoint]:
    """A function that views an open checkpoint of `source` as llama.cpp's GGUF file, with the configuration, the
    tokenizer (the one beside it, else `tokenizer`), and the parts of sentence-transformers beside it. It returns a
    checkpoint of another form, or of an architecture that llama.cpp does not have, as it is.
    """

    def view(checkpoint: Checkpoint) -> Checkpoint:
        if not isinstance(source, str | os.PathLike) or "general.architecture" in getattr(checkpoint, "values", {}):
            return checkpoint
        folder = Path(source).parent
        config = folder / "config.json"
        settings = settings_of(checkpoint, read_settings(config) if config.is_file() else None)
        module = architecture(settings.get("model_type"))
        if isinstance(checkpoint, Llama2cFile):
            vocabulary = tokenizer or _tokenizer_of(Path(source))
            return Llama2cAsGguf(checkpoint, None if vocabulary is None else load_tokenizer(vocabulary))
        if not hasattr(module, "GGUF"):
            return as_floats(checkpoint, settings)
        found = tokenizer_beside(source, checkpoint) or tokenizer
        files = _beside(folder) if "causal-lm" not in module.TASKS or (folder / MODULES).is_file() else {}
        return as_gguf(checkpoint, settings, None if found is None else load_tokenizer(found), files)

    return view


def _tokenizer_of(model: Path) -> Path | None:
    """The tokenizer that lies beside a file of llama2.c's."""
    name = choose_tokenizer(sorted(entry.name for entry in model.parent.iterdir()), model.name)
    return None if name is None else model.with_name(name)


class Llama2cAsGguf(Checkpoint):
    """A checkpoint of llama2.c as a file of the architecture "llama", which rotates the same pairs of neighbours: its
    tensors are the same under other names. `tokenizer` is told where its vocabulary has the model's size: the files of
    several models may lie in one folder."""

    def __init__(self, checkpoint: Llama2cFile, tokenizer: Tokenizer | None) -> None:
        super().__init__(checkpoint.source)
        self.format = f"{checkpoint.format} as GGUF"
        self.checkpoint = checkpoint
        own, family, module = checkpoint.config, module_called("llama2c"), module_called("llama")
        settings = {field: own[name] for name, field in LLAMA2C_FIELDS.items()} | {"rms_norm_eps": family.EPSILON}
        config = module.Config.from_dict(settings | {"rope_theta": family.THETA})
        self.config = config.to_dict()
        self.values: dict[str, Any] = keys_of(module.GGUF, config) | {"general.name": PurePath(self.source.name).stem}
        self.types: dict[str, str] = {}
        if tokenizer is not None and tokenizer.vocab_size == own["vocab_size"]:
            vocabulary = tokenizer.gguf_metadata()
            self.values |= vocabulary
            self.types = gguf_types(vocabulary)
        self._own = {llama_name(name): name for name in checkpoint.tensors}
        self.tensors = {known: replace(checkpoint.tensors[name], name=known) for known, name in self._own.items()}

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        return self.checkpoint.read(self._own[info.name], finite=finite, device=device)

    def read_bytes(self, name: str) -> bytes | memoryview:
        return self.checkpoint.read_bytes(self._own[name])


def llama_name(name: str) -> str:
    """llama.cpp's name of a tensor of llama2.c's."""
    path = name.removesuffix(".weight")
    if path in LLAMA2C_NAMES:
        return f"{LLAMA2C_NAMES[path]}.weight"
    _, layer, part = path.split(".", 2)
    return f"blk.{layer}.{LLAMA2C_NAMES[part]}.weight"


def floats_view(source: Source) -> Callable[[Checkpoint], Checkpoint]:
    """A function that views an open checkpoint of `source` without the quantisation of the config.json beside it; it
    returns a checkpoint without one as it is.
    """

    def view(checkpoint: Checkpoint) -> Checkpoint:
        path = Path(source).parent / "config.json" if isinstance(source, str | os.PathLike) else None
        if path is None or not path.is_file():
            return checkpoint
        settings = read_settings(path)
        found = as_floats(checkpoint, settings)
        if found is not checkpoint:
            found.config = unquantised(settings)
        return found

    return view


def _beside(folder: Path) -> dict[str, Path]:
    """The files of sentence-transformers in a folder, by path."""
    paths = [*folder.iterdir(), *folder.glob("*/*")]
    named = {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
    return {name: path for name, path in named.items() if MORE_FILES.fullmatch(name)}
