"""The forms in which llama.cpp stores models in GGUF files: names of tensors, keys of hyper-parameters, and orders of
rows. Each architecture's module declares its form; this file reads and writes by it.

Sources: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and gguf-py/gguf/constants.py, tensor_mapping.py and
convert_hf_to_gguf.py of https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from math import log, prod
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops, quant
from pyapp.engine.blocks.layout import block_bytes
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import Checkpoint, TensorInfo
from pyapp.nn import Linear, Module

from .config import require
from .weights import Slot, Stored, plans_of, read_plan

# The names of Llama's parameters, which most architectures have.
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "model.layers.{}.input_layernorm": "blk.{}.attn_norm",
    "model.layers.{}.self_attn.q_proj": "blk.{}.attn_q",
    "model.layers.{}.self_attn.k_proj": "blk.{}.attn_k",
    "model.layers.{}.self_attn.v_proj": "blk.{}.attn_v",
    "model.layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "model.layers.{}.post_attention_layernorm": "blk.{}.ffn_norm",
    "model.layers.{}.mlp.gate_proj": "blk.{}.ffn_gate",
    "model.layers.{}.mlp.up_proj": "blk.{}.ffn_up",
    "model.layers.{}.mlp.down_proj": "blk.{}.ffn_down",
}  # fmt: skip
HEAD_NORMS = {
    "model.layers.{}.self_attn.q_norm": "blk.{}.attn_q_norm",
    "model.layers.{}.self_attn.k_norm": "blk.{}.attn_k_norm",
}
AFTER_NORMS = {  # of blocks whose norms come after attention and feed-forward
    "model.layers.{}.post_attention_layernorm": "blk.{}.post_attention_norm",
    "model.layers.{}.post_feedforward_layernorm": "blk.{}.post_ffw_norm",
}
EXPERTS = {
    "model.layers.{}.mlp.gate": "blk.{}.ffn_gate_inp",
    "model.layers.{}.mlp.experts.gate_up_proj": "blk.{}.ffn_gate_exps blk.{}.ffn_up_exps",
    "model.layers.{}.mlp.experts.down_proj": "blk.{}.ffn_down_exps",
}
SHARED_EXPERTS = {  # beside the others: those that every token has, and the bias of the choice
    "model.layers.{}.mlp.shared_experts.gate_proj": "blk.{}.ffn_gate_shexp",
    "model.layers.{}.mlp.shared_experts.up_proj": "blk.{}.ffn_up_shexp",
    "model.layers.{}.mlp.shared_experts.down_proj": "blk.{}.ffn_down_shexp",
    "model.layers.{}.mlp.gate.e_score_correction_bias": "blk.{}.exp_probs_b.bias",
}
# The names in the index of an architecture whose files have experts, a window, or no token types.
WITH_EXPERTS, WITH_WINDOW, WITHOUT_TYPES = "{} with experts", "{} with a window", "{} without token types"
# Fields of config.json, and the keys of GGUF after the architecture's name.
WINDOW = {"sliding_window": "attention.sliding_window"}
PATTERN = "attention.sliding_window_pattern"  # for each layer, whether it has a window
KEYS = {
    "max_position_embeddings": "context_length", "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv", "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}  # fmt: skip
# The names of BERT's parameters, and the fields of most encoders.
BERT_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "encoder.layer.{}.attention.self.query": "blk.{}.attn_q",
    "encoder.layer.{}.attention.self.key": "blk.{}.attn_k",
    "encoder.layer.{}.attention.self.value": "blk.{}.attn_v",
    "encoder.layer.{}.attention.output.dense": "blk.{}.attn_output",
    "encoder.layer.{}.attention.output.LayerNorm": "blk.{}.attn_output_norm",
    "encoder.layer.{}.intermediate.dense": "blk.{}.ffn_up",
    "encoder.layer.{}.output.dense": "blk.{}.ffn_down",
    "encoder.layer.{}.output.LayerNorm": "blk.{}.layer_output_norm",
}  # fmt: skip
ENCODER_KEYS = {
    "max_position_embeddings": "context_length", "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
    "layer_norm_eps": "attention.layer_norm_epsilon",
}  # fmt: skip
# The names of encoders with rotary positions and a norm after each part (nn/encoders/rotary_encoder.py), whose queries,
# keys and values are in one matrix.
JOINED_QKV = tuple(f"layers.{{}}.self_attn.{part}_proj" for part in "qkv")
ROTARY_ENCODER = dict.fromkeys(JOINED_QKV, "blk.{}.attn_qkv") | {
    "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm", "layers.{}.self_attn.o_proj": "blk.{}.attn_output",
    "layers.{}.post_attention_layernorm": "blk.{}.attn_output_norm",
    "layers.{}.post_mlp_layernorm": "blk.{}.layer_output_norm",
}  # fmt: skip
# The names and fields of state space models.
MAMBA_NAMES = {
    "backbone.embeddings": "token_embd", "backbone.norm_f": "output_norm", "lm_head": "output",
    "backbone.layers.{}.norm": "blk.{}.attn_norm", "backbone.layers.{}.mixer.in_proj": "blk.{}.ssm_in",
    "backbone.layers.{}.mixer.conv1d": "blk.{}.ssm_conv1d", "backbone.layers.{}.mixer.A_log": "blk.{}.ssm_a",
    "backbone.layers.{}.mixer.D": "blk.{}.ssm_d", "backbone.layers.{}.mixer.out_proj": "blk.{}.ssm_out",
}  # fmt: skip
MAMBA_KEYS = {
    "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
    "layer_norm_epsilon": "attention.layer_norm_rms_epsilon", "state_size": "ssm.state_size",
    "conv_kernel": "ssm.conv_kernel",
}  # fmt: skip
ANY_TENSOR = "output_norm.weight"  # that all files have
NEVER = 1e30  # what llama.cpp divides the frequencies of pairs by that do not turn
SIGMOID = 2  # expert_gating_func of files
LENGTHS = ("attention.key_length", "attention.value_length")
TENSOR_SCALINGS = ("llama3", "longrope", "su")  # types of rotary scaling that files say by a tensor of factors
BETAS = {"beta_fast": "rope.scaling.yarn_beta_fast", "beta_slow": "rope.scaling.yarn_beta_slow"}
# Fields of config.json that files do not say, and mean nothing without a window, or where all layers have experts.
WINDOWS = ("layer_types", "use_sliding_window", "sliding_window", "max_window_layers")
DENSE_LAYERS = ("intermediate_size", "decoder_sparse_step", "mlp_only_layers")
CAUSAL = "attention.causal"
BOTH_WAYS = {CAUSAL: False}  # of models whose tokens see the whole text


Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class GgufForm:
    """How files hold a parameter in another shape, with other values, in several tensors, or under a name without
    .weight (`bare`). shape(config, shape): that of the tensor; write(config, value): its values; read(config,
    *tensors): the parameter, in any shape. parts: the forms of several tensors, which `read` joins; or whose rows, one
    after the other, are the parameter's in the order `rows(config)` (the row of theirs that each of its rows is), so
    that tensors in blocks stay in blocks.
    """

    bare: bool = False
    shape: Callable[[Any, Shape], Shape] = lambda config, shape: shape
    write: Callable[[Any, Tensor], Tensor] = lambda config, value: value
    read: Callable[..., Tensor] = lambda config, value: value
    parts: tuple[GgufForm, ...] = ()
    rows: Callable[[Any], list[int]] | None = None

    def of(self, part: int) -> GgufForm:
        """The form of a tensor."""
        return self.parts[part] if self.parts else self


def _decay(config: Any, value: Tensor) -> Tensor:
    return -value.exp()


def _log_of_decay(config: Any, value: Tensor) -> Tensor:
    return (-value).log()


MAMBA_FORMS = {
    ".mixer.A_log": GgufForm(True, write=_decay, read=_log_of_decay), ".mixer.D": GgufForm(True),
    ".mixer.conv1d.weight": GgufForm(shape=lambda config, shape: (shape[0], shape[2])),
}  # fmt: skip
BIAS_FORM = GgufForm(bare=True)  # of the bias of a router's choice


def mamba2_names(mixer: str) -> dict[str, str]:
    """The names of the parameters of a mixer of Mamba 2; `mixer` is its path."""
    parts = {
        "in_proj": "ssm_in", "conv1d": "ssm_conv1d", "A_log": "ssm_a", "D": "ssm_d", "dt_bias": "ssm_dt.bias",
        "norm": "ssm_norm", "out_proj": "ssm_out",
    }  # fmt: skip
    return {f"{mixer}.{ours}": f"blk.{{}}.{theirs}" for ours, theirs in parts.items()}


def mamba2_forms(mixer: str, groups: Callable[[Any], int]) -> dict[str, GgufForm]:
    """Their forms: numbers of heads are columns, and the norm's weight has a row for each group."""
    decay = MAMBA_FORMS[".mixer.A_log"]
    return {
        f".{mixer}.A_log": replace(decay, shape=_column), f".{mixer}.D": GgufForm(True, _column),
        f".{mixer}.dt_bias": GgufForm(True),
        f".{mixer}.norm.weight": GgufForm(shape=lambda config, shape: (groups(config), shape[0] // groups(config))),
        f".{mixer}.conv1d.weight": MAMBA_FORMS[".mixer.conv1d.weight"],
    }  # fmt: skip


def _column(config: Any, shape: Shape) -> Shape:
    return (*shape, 1)


def attending(found: Mapping[str, Any]) -> tuple[list[bool], int]:
    """Which layers attend, of files with a number of heads of keys for each, 0 where a layer does not; and this number
    where it does.
    """
    heads, layers = found.get("num_key_value_heads"), found.get("num_hidden_layers")
    counts = heads if isinstance(heads, list) else [heads] * layers if type(layers) is int and layers <= 1024 else []
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ModelError(f"attention.head_count_kv is {heads!r:.60}, expected a number of heads for each layer")
    return [bool(count) for count in counts], max(counts, default=0) or 1


@dataclass(frozen=True)
class Gguf:
    """The form of an architecture.

    names: the path of each parameter without its last part (.weight, .bias), and that of its tensor; "{}" is the number
    of the layer. The whole name of a parameter, with the last part, has the whole names of its tensors.
    keys: fields of the configuration and keys. constants: keys with a value that is always the same.
    order(name, config): the parameter's row that each row of the tensor holds, where they differ. offset: the end
    (or ends) of the names of norms whose weights are stored plus one. scale(name, config): what files multiply a
    parameter by, a number or one for each row; their readers need not know it, so it is not undone. transposed: the
    ends of names of matrices stored as (out, in).
    skipped(name, config): how many first rows of a parameter files leave out (the file is read as another
    architecture's). joined: the paths of parameters whose rows lie one after the other in a single tensor, which
    `names` gives each. stacked: the same for matrices that are a stack of three dimensions, with their whole paths.
    forms: the forms of parameters whose names end so. older: by the path of a parameter, the tensor that older files
    have instead of those of `names`; its values are the parameter's.
    read(config, values): the fields that follow from others in GGUF files; write(config): further keys.
    in_keys: the ends of names of parameters of one number in each layer, which files have in a list under this key
    (without the architecture's name).
    unused(config): tensors that readers expect and do not use, with their shapes: they are written as zeros.
    scalings: the types of rotary scaling that files say by a tensor of factors.
    whole_keys(config): further keys, as they are, without the architecture's name.
    names_of(config): more names, of configurations that have others.
    unsaid: fields that files do not say; all others are read from a written file as they were (writing_gguf.py).
    index: the name of the form in the index of architectures, if that is not the architecture's; "": files of this form
    are read as another architecture's. encoder: the architecture of files that have the encoder only. also: further
    architectures whose files are read in this form.
    """

    architecture: str
    names: Mapping[str, str] = field(default_factory=lambda: NAMES)
    keys: Mapping[str, str] = field(default_factory=lambda: KEYS)
    order: Callable[[str, Any], list[int] | None] | None = None
    offset: str | tuple[str, ...] | None = None
    scale: Callable[[str, Any], float | Tensor | None] | None = None
    names_of: Callable[[Any], Mapping[str, str]] | None = None
    transposed: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    stacked: tuple[tuple[str, ...], ...] = ()
    skipped: Callable[[str, Any], int] | None = None
    forms: Mapping[str, GgufForm] = field(default_factory=dict)
    older: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None
    write: Callable[[Any], dict[str, Any]] | None = None
    whole_keys: Callable[[Any], dict[str, Any]] | None = None
    in_keys: Mapping[str, str] = field(default_factory=dict)
    unused: Callable[[Any], Mapping[str, Shape]] | None = None
    scalings: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    index: str | None = None
    encoder: str | None = None
    also: tuple[str, ...] = ()
    others: tuple[Gguf, ...] = ()
    suits: Callable[[Any], bool] = lambda config: False

    def of(self, config: Any) -> Gguf:
        """The form of a configuration."""
        form = next((other for other in self.others if other.suits(config)), self)
        return form if form.names_of is None else replace(form, names={**form.names, **form.names_of(config)})

    def named(self, architecture: str) -> Gguf:
        """The form of an architecture's files."""
        return next((other for other in self.others if other.architecture == architecture), self)

    def tensors(self, name: str) -> tuple[str, ...]:
        """The GGUF names of a parameter; empty if it has none."""
        last = name.rpartition(".")[2]
        suffix = f".{last}" if last in ("weight", "bias") else ".weight"
        own = self.form_of(name)
        suffix = "" if own is not None and own.bare else suffix
        pattern, layer = _pattern(name)
        whole = self.names.get(name, self.names.get(f"{pattern}.{last}"))
        if whole is not None and name != pattern:
            return tuple(whole.replace("{}", layer).split())
        return tuple(known.replace("{}", layer) + suffix for known in self.names.get(pattern, "").split())

    def form_of(self, name: str) -> GgufForm | None:
        """The form of a parameter, if it has its own."""
        return next((form for end, form in self.forms.items() if name.endswith(end)), None)

    def key(self, name: str) -> str | None:
        """The key under which files have the number of a parameter, if they do."""
        return next((key for end, key in self.in_keys.items() if name.endswith(end)), None)

    def share(self, name: str) -> int | None:
        """Which of the joined parameters of its tensor this is; None if it has a tensor of its own."""
        group = self.group(name)
        return next((place for place, path in enumerate(group) if path in _paths(name)), None)

    def group(self, name: str) -> tuple[str, ...]:
        """The paths of the parameters that a parameter is joined with, itself included; empty if it is not."""
        return next((own for own in (self.joined, *self.stacked) if {*own} & {*_paths(name)}), ())


def _paths(name: str) -> tuple[str, str]:
    """The path of a parameter with "{}" for its first number, and as it is."""
    return _pattern(name)[0], name.rpartition(".")[0]


def _pattern(name: str) -> tuple[str, str]:
    """The path of a parameter without .weight and .bias, with "{}" for its first number, and that number."""
    path, _, last = name.rpartition(".")
    parts = (path if last in ("weight", "bias") else name).split(".")
    place = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if place is None:
        return ".".join(parts), ""
    return ".".join([*parts[:place], "{}", *parts[place + 1 :]]), parts[place]


def with_sections(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the sections of positions of Qwen-VL's language model, which is Qwen's without a picture."""
    sections = values.get("rope.dimension_sections")
    if isinstance(sections, list):
        found["rope_parameters"] = found["rope_parameters"] | {"mrope_section": sections[:3]}
    return found


def without_layers_ahead(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without the layers that guess tokens ahead: files count these, too."""
    ahead, layers = values.get("nextn_predict_layers", 0), found.get("num_hidden_layers")
    if type(ahead) is int and type(layers) is int and 0 < ahead < layers:
        return found | {"num_hidden_layers": layers - ahead}
    return found


# -- orders of rows


def neighbouring_pairs(rows: int, heads: int) -> list[int]:
    """The rows of rotated projections as llama.cpp's "llama" wants them: pairs that Hugging Face keeps half a head
    apart lie side by side.
    """
    size = rows // heads
    half = size // 2
    return [head * size + part * half + i for head in range(heads) for i in range(half) for part in range(2)]


def pairs_of_llama(name: str, config: Any) -> list[int] | None:
    """The order of q_proj and k_proj in files of the architectures that rotate neighbouring pairs."""
    for part, heads in (("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)):
        if f".{part}." in name:
            return neighbouring_pairs(heads * config.head_dim, heads)
    return None


def grouped_rows(groups: int, queries: int, head_dim: int) -> list[int]:
    """The order [all queries, all keys, all values] of rows that are [queries, key, value] of a group after another."""
    width = (queries + 2) * head_dim
    parts = [(0, queries), (queries, 1), (queries + 1, 1)]
    return [
        group * width + (first + head) * head_dim + row
        for first, count in parts for group in range(groups) for head in range(count) for row in range(head_dim)
    ]  # fmt: skip


def inverse(order: list[int]) -> list[int]:
    """The order that undoes another."""
    found = [0] * len(order)
    for place, row in enumerate(order):
        found[row] = place
    return found


def _rows(order: list[int]) -> Callable[[Tensor], Tensor]:
    def ordered(matrix: Tensor) -> Tensor:
        index = Tensor.from_buffer(array("q", order), (len(order),), "int64")  # without NumPy
        return ops.index_select(matrix, 0, index.to(matrix.device))

    return ordered


# -- reading


def index_names(architecture: str, values: Mapping[str, Any], tensors: Mapping[str, Any]) -> list[str]:
    """The names in the index that a file of an architecture may have, the best first. ModelError for the part of a
    model that sees pictures.
    """
    if architecture == "clip":
        raise ModelError(
            "this file has the vision projector (mmproj) of a model, not its language model",
            hint="Give the language model's file, and this one as --projector (in Python projector=)",
        )  # fmt: skip
    found = []
    if values.get(f"{architecture}.expert_count"):
        found.append(WITH_EXPERTS)
    if values.get(f"{architecture}.{WINDOW['sliding_window']}"):
        found.append(WITH_WINDOW)
    if "token_types.weight" not in tensors:
        found.append(WITHOUT_TYPES)
    return [*(name.format(architecture) for name in found), architecture]


def settings_of(form: Gguf, model_type: str, values: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
    """The configuration of a GGUF file in the form of config.json. ModelError for a vocabulary alone."""
    if not checkpoint.tensors:
        raise ModelError(
            "this file has a vocabulary and no weights", where=checkpoint.source.name,
            hint="Give the model's own file; those whose names have vocab are for tests of tokenizers",
        )  # fmt: skip
    prefix, form = f"{values['general.architecture']}.", form.named(values["general.architecture"])
    own = {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix)}
    found: dict[str, Any] = {"model_type": model_type}
    for name, key in form.keys.items():
        value = own.get(key)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if value is not None:
            found[name] = value
    embedding = checkpoint.tensors.get("token_embd.weight")
    if embedding is not None and len(embedding.shape) == 2:
        found["vocab_size"] = embedding.shape[0]
    found["tie_word_embeddings"] = "output.weight" not in checkpoint.tensors
    if own.get(CAUSAL) is False:
        found["is_causal"] = False
    if "n_embd" not in form.keys:
        found |= _rotary(own, found, checkpoint)
    if form.read is None:
        return found
    special = {name: values.get(f"tokenizer.ggml.{name}_token_id") for name in ("padding", "eos", "mask")}
    return form.read(found, own | {"tensors": checkpoint.tensors, "special": special})


def _rotary(own: Mapping[str, Any], found: Mapping[str, Any], checkpoint: Checkpoint) -> dict[str, Any]:
    """head_dim and rope_parameters."""
    heads, hidden = found.get("num_attention_heads"), found.get("hidden_size")
    given: dict[str, Any] = {}
    size = own.get(LENGTHS[0])
    if size is None and type(heads) is int and type(hidden) is int and heads > 0:
        size = hidden // heads
    if type(size) is int and size > 0:
        given["head_dim"] = size
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": own.get("rope.freq_base", 10000.0)}
    rotated = own.get("rope.dimension_count", size)
    if type(rotated) is int and type(size) is int and 0 < rotated <= size:
        parameters["partial_rotary_factor"] = rotated / size
    kind, factor = own.get("rope.scaling.type"), own.get("rope.scaling.factor", own.get("rope.scale_linear"))
    original = own.get("rope.scaling.original_context_length")
    if kind == "yarn" or (kind in (None, "linear") and factor not in (None, 1, 1.0)):
        parameters |= {"rope_type": kind or "linear", "factor": factor}
    if kind == "yarn":
        parameters["attention_factor"] = _yarn_growth(factor) * own.get("rope.scaling.attn_factor", 1.0)
        parameters |= {name: own[key] for name, key in BETAS.items() if key in own}
    if original is not None:
        parameters["original_max_position_embeddings"] = original
    for name, kinds in (
        ("rope_freqs.weight", ("short_factor", "long_factor")), ("rope_factors_short.weight", ("short_factor",)),
        ("rope_factors_long.weight", ("long_factor",)),
    ):  # fmt: skip
        if name in checkpoint.tensors and checkpoint.tensors[name].numel <= 1 << 16:
            numbers = quant.dequantize(checkpoint.read(name, finite=True)).to("float32").reshape(-1).tolist()
            parameters |= {"rope_type": "longrope"} | dict.fromkeys(kinds, numbers)
            attention = own.get("rope.scaling.attn_factor", 1.0)
            parameters |= {"attention_factor": attention, "factor": 1.0}
            parameters.setdefault("original_max_position_embeddings", found.get("max_position_embeddings"))
    return given | {"rope_parameters": parameters}


def biases(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Whether Llama's projections have biases."""
    there = values["tensors"]
    return found | {"attention_bias": "blk.0.attn_q.bias" in there, "mlp_bias": "blk.0.ffn_up.bias" in there}


def encoder_settings(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an encoder, with its padding, and as many positions as the file has vectors for."""
    padding, positions = values["special"]["padding"], rows_in(values, "position_embd.weight")
    if type(padding) is int:
        found = found | {"pad_token_id": padding}
    return found if positions is None else found | {"max_position_embeddings": positions}


def with_mask(found: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with the token of masked places, where a file says it."""
    mask = values["special"]["mask"]
    return found if mask is None else found | {"mask_token_id": mask}


def diffusion_keys(shifted: bool) -> Callable[[Any], dict[str, Any]]:
    """The keys of a file of a model that writes by masked diffusion; `shifted` as in nn.encoders.masked_diffusion."""
    return lambda config: {
        "diffusion.shift_logits": shifted, "tokenizer.ggml.mask_token_id": config.mask_token_id,
    }  # fmt: skip


def leading(kinds: Sequence[str], first: str) -> int:
    """How many layers are of the kind `first`. ModelError where one of them comes after another kind: files say only
    how many there are.
    """
    count = next((i for i, kind in enumerate(kinds) if kind != first), len(kinds))
    require(first not in kinds[count:], f"llama.cpp has {first} layers first", "Write safetensors")
    return count


def rows_in(values: Mapping[str, Any], name: str) -> int | None:
    """The rows of a matrix of the file; None if there is no such matrix."""
    info = values["tensors"].get(name)
    return info.shape[0] if info is not None and len(info.shape) == 2 else None


def stored_in(
    form: Gguf, config: Any, slots: Mapping[str, Slot], there: Mapping[str, TensorInfo],
    values: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Stored]:  # fmt: skip
    """How a GGUF file, which has the tensors `there` and the metadata `values`, stores the parameters."""
    found, form = {}, form.of(config)
    for name, slot in slots.items():
        tensors, own = form.tensors(name), form.form_of(name)
        pattern, layer = _pattern(name)
        older = form.older.get(pattern, "").replace("{}", layer) + ".weight"
        if (key := form.key(name)) is not None:
            numbers = values.get(key)
            found[name] = Stored((ANY_TENSOR,), join=partial(_number, numbers, int(layer), slot.shape, key))
            continue
        if older in there:
            apart = own is not None and form.share(name) is not None  # newer files join it with others
            found[name] = Stored((older,), join=_joining(GgufForm(), config, slot.shape) if apart else None)
        elif own is not None and own.rows is not None and tensors:
            found[name] = Stored(tensors, values=partial(_ordered, own.rows(config)))
        elif own is not None and tensors and form.share(name) is None:
            found[name] = Stored(tensors, join=_joining(own, config, slot.shape))
        elif tensors:
            order = None if form.order is None else form.order(name, config)
            rows = None if order is None else _rows(inverse(order))
            found[name] = Stored(tensors, rows, _from_gguf(form, name, slot))
    return found


def _number(numbers: Any, layer: int, shape: Shape, key: str, tensors: Sequence[Tensor]) -> Tensor:
    """A parameter of one number, which the file has under a key, for all layers or for each; `tensors` tell nothing."""
    number = numbers[layer] if isinstance(numbers, list) and layer < len(numbers) else numbers
    if type(number) not in (int, float):
        raise ModelError(f"{key} is {numbers!r:.60}, expected a number for each layer")
    return ops.tensor(float(number), dtype="float32").reshape(shape)


def _ordered(order: list[int], value: Tensor) -> Tensor:
    """A matrix, in blocks or not, with its rows in another order."""
    if not value.dtype.is_quantized:
        return _rows(order)(value)
    data, kind = quant.to_blocks(value).data, value.dtype.name
    matrix = Tensor.from_buffer(data, (len(order), memoryview(data).nbytes // len(order)), "uint8")
    return quant.from_blocks(_rows(order)(matrix).contiguous().storage.bytes_view(), tuple(value.shape), kind)


def _joining(own: GgufForm, config: Any, shape: Shape) -> Callable[[Sequence[Tensor]], Tensor]:
    def joined(values: Sequence[Tensor]) -> Tensor:
        return own.read(config, *(quant.dequantize(value).to("float32") for value in values)).reshape(shape)

    return joined


def _from_gguf(form: Gguf, name: str, slot: Slot) -> Callable[[Tensor], Tensor] | None:
    """The change of a tensor's values, if it has another form than the parameter."""
    shape = slot.shape
    share = form.share(name)
    if share is not None:
        return partial(_share, name=name, share=share, parts=len(form.group(name)), shape=shape)
    if form.offset is not None and name.endswith(form.offset):
        return lambda value: quant.dequantize(value).to("float32") - 1.0
    if name.endswith(form.transposed) and len(shape) == 2:
        return lambda value: value.T
    if len(shape) == 3 and len(form.tensors(name)) == 2:  # gate and up of all experts
        parts = (2, shape[0], shape[1] // 2, shape[2])
        return lambda value: quant.dequantize(value).reshape(parts).transpose(0, 1).reshape(shape)
    if _is_vector(slot):
        return lambda value: value.reshape(shape)
    return None


def _share(value: Tensor, name: str, share: int, parts: int, shape: Shape) -> Tensor:
    """The rows of one of the parameters that a tensor joins."""
    rows = shape[0]
    if value.ndim == 3:  # a stack
        value = value.reshape(-1, value.shape[-1])
    if value.shape[0] != parts * rows:
        raise ModelError(f"{name!r} is a part of {value.shape[0]:,} rows in the file, expected {parts} x {rows:,}")
    found = quant.copied_rows(value, share * rows, rows)
    return found.reshape(shape) if found.ndim != len(shape) else found


def _is_vector(slot: Slot) -> bool:
    """Whether files store this matrix as a vector: that of a projection to one number."""
    return len(slot.shape) == 2 and slot.shape[0] == 1 and isinstance(slot.places[0][0], Linear)


# -- writing


class AsGguf(Checkpoint):
    """A model's checkpoint as llama.cpp names and orders it. `values` are the metadata."""

    def __init__(
        self, form: Gguf, config: Any, model: Module, checkpoint: Checkpoint, stored: Mapping[str, Stored], base: str,
        renames: Callable[[str], str] | None, ignored: re.Pattern[str], strict: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(checkpoint.source)
        self.format = f"{checkpoint.format} as GGUF"
        form = form.of(config)
        self.form, self.checkpoint = form, checkpoint
        self.config = config.to_dict()
        self._config = config
        self.types: dict[str, str] = {}
        self.values = keys_of(form, config) | {"general.name": _title(checkpoint.source.name)}
        self._read_by: dict[str, Callable[[], Tensor]] = {}
        plans = plans_of(
            model, checkpoint, stored=stored, base=base, renames=renames, ignored=ignored, strict=strict
        )[0]  # fmt: skip
        joined: dict[str, list[tuple[str, Stored]]] = {}
        numbers: dict[str, list[float]] = {}
        for name, (slot, plan) in plans.items():
            if (key := form.key(name)) is not None:
                with no_grad():
                    value = quant.dequantize(read_plan(checkpoint, plan)).to("float32").reshape(-1)
                numbers.setdefault(key, []).append(float(value.tolist()[0]))
                continue
            names = form.tensors(name) or form.tensors(slot.name)
            if not names:
                raise ModelError(
                    f"GGUF has no name for the tensor {name!r}: it does not know this form of the architecture",
                    where=checkpoint.source.name, hint="Write safetensors",
                )  # fmt: skip
            matrix = slot.is_matrix or (len(slot.shape) == 3 and form.form_of(name) is None)
            kind = checkpoint.tensors[plan.names[0]].dtype if matrix and plan.join is None else "float32"
            if form.share(name) is not None:
                joined.setdefault(names[0], []).append((name, plan))
                if len(joined[names[0]]) == len(form.group(name)):
                    self._add_joined(names[0], kind, self._shape(name, slot, 0, 1), joined[names[0]])
                continue
            for part, known in enumerate(names):
                self._add(known, kind, self._shape(name, slot, part, len(names)), name, plan, part, len(names))
        self.values |= numbers
        self._add_rotary_factors()
        for name, size in () if form.unused is None else form.unused(config).items():
            self.add({name: ops.zeros(*size)})

    def _skipped(self, name: str) -> int:
        return 0 if self.form.skipped is None else self.form.skipped(name, self._config)

    def _scale(self, name: str) -> float | Tensor | None:
        return None if self.form.scale is None else self.form.scale(name, self._config)

    def _shape(self, name: str, slot: Slot, part: int, parts: int) -> tuple[int, ...]:
        shape, own = slot.shape, self.form.form_of(name)
        if own is not None:
            return own.of(part).shape(self._config, shape)
        if skipped := self._skipped(name):
            return shape[0] - skipped, *shape[1:]
        if parts == 2:
            return (shape[0] // 2, *shape[1:]) if len(shape) == 2 else (shape[0], shape[1] // 2, shape[2])
        if len(shape) == 2 and name.endswith(self.form.transposed):
            return shape[::-1]
        return shape[1:] if _is_vector(slot) else shape

    def _add(
        self, known: str, kind: str, shape: tuple[int, ...], name: str, plan: Stored, part: int, parts: int
    ) -> None:
        whole = self.checkpoint.tensors[plan.names[0]]
        blocks = kind not in ("float32", "float16", "bfloat16", "float64")
        plain = len(shape) == 2 and len(plan.names) == 1 and plan.values is None and tuple(whole.shape) == shape
        plain = plain and self._scale(name) is None
        if blocks and not plain:
            kind, blocks = "float32", False
        kind = "float32" if kind == "float64" else kind
        count = 1
        for size in shape:
            count *= size
        nbytes = block_bytes(kind, shape) if blocks else count * (4 if kind == "float32" else 2)
        self.tensors[known] = TensorInfo(known, kind, shape, nbytes)
        self._read_by[known] = lambda: self._tensor(name, plan, kind, shape, part, parts)

    def _add_joined(self, known: str, kind: str, shape: tuple[int, ...], parts: list[tuple[str, Stored]]) -> None:
        """A tensor of the rows of several parameters of this shape, in the order of the form."""
        kind = kind if kind in ("float32", "float16", "bfloat16") else "float32"
        stacked = self.form.group(parts[0][0]) in self.form.stacked
        whole = (len(parts), *shape) if stacked else (len(parts) * shape[0], *shape[1:])
        self.tensors[known] = TensorInfo(known, kind, whole, prod(whole) * (4 if kind == "float32" else 2))
        ordered = sorted(parts, key=lambda part: self.form.share(part[0]) or 0)
        self._read_by[known] = lambda: ops.cat(
            [self._tensor(name, plan, kind, shape, 0, 1) for name, plan in ordered]
        ).reshape(whole)

    def _tensor(self, name: str, plan: Stored, kind: str, shape: tuple[int, ...], part: int, parts: int) -> Tensor:
        order = None if self.form.order is None else self.form.order(name, self._config)
        rows = None if order is None else _rows(order)
        with no_grad():
            value = read_plan(self.checkpoint, plan)
            if kind in ("float32", "float16", "bfloat16"):
                value = quant.dequantize(value).to(kind)
                own, scale = self.form.form_of(name), self._scale(name)
                if isinstance(scale, Tensor) and value.ndim == 2:
                    scale = scale.unsqueeze(1)
                if scale is not None:
                    value = (value.to("float32") * scale).to(kind)
                if own is not None:
                    value = own.of(part).write(self._config, value)
                elif parts == 2:  # the gates, or the ups
                    value = value.narrow(len(shape) - 2, part * shape[-2], shape[-2])
                if name.endswith(self.form.transposed) and value.ndim == 2:
                    value = value.T
                if self.form.offset is not None and name.endswith(self.form.offset):
                    value = value + 1.0
                if rows is not None:
                    value = rows(value)
                if skipped := self._skipped(name):
                    value = value.narrow(0, skipped, shape[0])
            elif rows is not None:
                data = quant.to_blocks(value).data
                matrix = Tensor.from_buffer(data, (shape[0], memoryview(data).nbytes // shape[0]), "uint8")
                value = quant.from_blocks(rows(matrix).contiguous().storage.bytes_view(), shape, kind)
            return value.reshape(shape) if not value.dtype.is_quantized else value

    def _add_rotary_factors(self) -> None:
        """The tensors that say how frequencies are divided (Llama 3, Phi-3)."""
        for name, numbers in rotary_factors(self._config).items():
            self.tensors[name] = TensorInfo(name, "float32", (len(numbers),), 4 * len(numbers))
            self._read_by[name] = partial(ops.tensor, numbers, dtype="float32")

    def add(self, tensors: Mapping[str, Tensor]) -> None:
        """Further tensors, in float32."""
        for name, value in tensors.items():
            self.tensors[name] = TensorInfo(name, "float32", tuple(value.shape), 4 * value.numel())
            self._read_by[name] = partial(Tensor.to, quant.dequantize(value), "float32")

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        value = self._read_by[info.name]()
        return value if device is None else value.to(device)

    def read_bytes(self, name: str) -> bytes | memoryview:
        return b"".join(self.read_pieces(name, max(self.tensors[name].nbytes, 1)))

    def read_pieces(self, name: str, size: int) -> Iterator[bytes | memoryview]:
        value = self._read_by[name]()
        if value.dtype.is_quantized:
            data = memoryview(quant.to_blocks(value).data).cast("B")
        else:
            value = value.cpu().contiguous()  # it keeps the memory that the pieces show
            begin = value.offset * value.dtype.itemsize
            data = value.storage.bytes_view()[begin : begin + value.nbytes]
        yield from (data[first : first + size] for first in range(0, len(data), size))


def _title(file: str) -> str:
    """A model's name: that of its file, or of its folder if the file has the name that every model's file has."""
    path = PurePath(file)
    usual = path.name.split(".")[0] in ("model", "pytorch_model")
    return path.parent.name if usual and path.parent.name else path.stem


def keys_of(form: Gguf, config: Any) -> dict[str, Any]:
    """The metadata of a GGUF file that say the architecture and its hyper-parameters."""
    settings = config.to_dict()
    prefix = form.architecture
    values: dict[str, Any] = {"general.architecture": prefix}
    floats = {known.name for known in fields(config) if "float" in str(known.type)}  # JSON may have whole numbers
    for name, key in form.keys.items():
        value = settings.get(name)
        if value is not None:
            values[f"{prefix}.{key}"] = float(value) if name in floats else value
    values[f"{prefix}.vocab_size"] = config.vocab_size
    if "rope_parameters" in settings:
        values |= {f"{prefix}.{key}": value for key, value in _rotary_keys(form, config).items()}
    own = {} if form.write is None else form.write(config)
    values |= {f"{prefix}.{key}": value for key, value in own.items()}
    values |= {} if form.whole_keys is None else form.whole_keys(config)
    return {key: value for key, value in values.items() if value is not None}  # None takes a key away


def key_lengths(config: Any) -> dict[str, Any]:
    """The keys of the sizes of heads."""
    return dict.fromkeys(LENGTHS, config.head_dim)


def tied(config: Any) -> dict[str, Any]:
    """No keys; ModelError where the head is not the embeddings: llama.cpp reads no head of this architecture."""
    require(config.tie_word_embeddings, "llama.cpp has no head apart from the embeddings here", "Write safetensors")
    return {}


def refuse_windows(config: Any) -> dict[str, Any]:
    """No keys; ModelError for a configuration whose layers have windows, where llama.cpp knows none."""
    windows = {config.window(layer) for layer in range(config.num_hidden_layers)} - {None}
    if windows:
        raise ModelError(
            f"GGUF cannot say the sliding_window {max(windows)} of some layers of this architecture",
            hint="Write safetensors, or set use_sliding_window to false in config.json",
        )
    return {}


def _global_rotary(config: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = config.rope_parameters
    return parameters if "rope_type" in parameters else parameters.get("full_attention", {})


def turned(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the features of a head that are rotated, where those of the cache are others."""
    own = settings.get("qk_rope_head_dim")
    return {**settings} if own is None else {**settings, "head_dim": own}


def _rotary_keys(form: Gguf, config: Any) -> dict[str, Any]:
    parameters = _global_rotary(config)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    values: dict[str, Any] = {
        "rope.freq_base": float(parameters.get("rope_theta", 10000.0)),
        "rope.dimension_count": int(size * parameters.get("partial_rotary_factor", 1.0)),
    }
    if size * config.num_attention_heads != config.hidden_size:
        values |= dict.fromkeys(LENGTHS, size)
    kind, alpha = parameters.get("rope_type", "default"), parameters.get("alpha")
    if kind == "dynamic" and type(alpha) in (int, float) and size > 2:  # Hunyuan's: another base for every length
        kind, values["rope.freq_base"] = "default", values["rope.freq_base"] * alpha ** (size / (size - 2))
    if kind == "dynamic" or (kind in TENSOR_SCALINGS and kind not in form.scalings):
        raise ModelError(
            f"GGUF has no rotary positions of the type {kind!r}{'' if kind == 'dynamic' else ' for this architecture'}",
            hint="Write safetensors",
        )
    original = parameters.get("original_max_position_embeddings", config.max_position_embeddings)
    factor = float(parameters.get("factor", config.max_position_embeddings / original))
    if kind in ("linear", "yarn"):
        values |= {"rope.scaling.type": kind, "rope.scaling.factor": factor}
    if kind in ("yarn", "longrope"):
        values["rope.scaling.original_context_length"] = original
    if kind in ("yarn", "longrope", "su"):
        from pyapp.nn.positions.rotary import rotary_frequencies

        attention = rotary_frequencies(turned(config.to_dict()) | {"rope_parameters": parameters}).attention_factor
        share = attention / _yarn_growth(factor) if kind == "yarn" else attention
        if kind != "yarn" or abs(share - 1) > 1e-6:
            values["rope.scaling.attn_factor"] = share
    if kind == "yarn":
        values |= {key: float(parameters[name]) for name, key in BETAS.items() if name in parameters}
    return values


def _yarn_growth(factor: Any) -> float:
    """What YaRN's readers multiply the scores' factor by themselves, for a context that is longer by a factor."""
    return 1.0 + 0.1 * log(factor) if type(factor) in (int, float) and factor > 1 else 1.0


def rotary_factors(config: Any) -> dict[str, list[float]]:
    """The tensors of a GGUF file by which rotary frequencies are divided."""
    from pyapp.nn.positions.rotary import rotary_frequencies

    if "rope_parameters" not in config.to_dict():
        return {}
    parameters = _global_rotary(config)
    kind = parameters.get("rope_type")
    if kind in ("longrope", "su"):
        return {
            "rope_factors_short.weight": list(parameters["short_factor"]),
            "rope_factors_long.weight": list(parameters["long_factor"]),
        }
    if kind == "proportional":  # the pairs that do not turn are divided by a large number
        own = rotary_frequencies(config.to_dict() | {"head_dim": config.global_head_dim, "rope_parameters": parameters})
        return {"rope_freqs.weight": [1.0 if step else NEVER for step in own.per_position]}
    if kind != "llama3":
        return {}
    settings = config.to_dict()
    plain = rotary_frequencies(settings | {"rope_parameters": parameters | {"rope_type": "default"}})
    scaled = rotary_frequencies(settings)
    return {
        "rope_freqs.weight": [a / b for a, b in zip(plain.per_position, scaled.per_position, strict=True)],
    }
