"""The forms in which llama.cpp stores models in GGUF files: names of tensors, keys of hyper-parameters, and orders of
rows. Each architecture's module declares its form; reading_gguf.py reads and gguf_view.py writes by it.

Sources: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and gguf-py/gguf/constants.py, tensor_mapping.py and
convert_hf_to_gguf.py of https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import log
from typing import Any, TypeAlias

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError

from .config import require

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
        pattern, layer = path_and_layer(name)
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
    return path_and_layer(name)[0], name.rpartition(".")[0]


def path_and_layer(name: str) -> tuple[str, str]:
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


def ordering(order: list[int]) -> Callable[[Tensor], Tensor]:
    """A function that brings the rows of a matrix into an order: of each row of the result, the row that it is."""

    def ordered(matrix: Tensor) -> Tensor:
        index = Tensor.from_buffer(array("q", order), (len(order),), "int64")  # without NumPy
        return ops.index_select(matrix, 0, index.to(matrix.device))

    return ordered


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


def yarn_growth(factor: Any) -> float:
    """What YaRN's readers multiply the scores' factor by themselves, for a context that is longer by a factor."""
    return 1.0 + 0.1 * log(factor) if type(factor) in (int, float) and factor > 1 else 1.0
